"""Checkpoints of transformers' Trainer, as many kinds as are named: hf.py FOLDER KIND..."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import torch
from ranks import WORLD_SIZE, join, leave
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

STEP, MAX_STEPS = 2, 3
ZERO = {
    "hf-zero1": {"zero_optimization": {"stage": 1}},
    "hf-zero2": {"zero_optimization": {"stage": 2}},
    "hf-zero2-bf16": {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}},
    "hf-zero3": {"zero_optimization": {"stage": 3}},
}
SMALL_SHARDS = "20KB"


def tiny_llama() -> Any:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    return LlamaForCausalLM(config)


def with_lora(model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))


def save(folder: Path, kind: str) -> None:
    model = tiny_llama()
    if "lora" in kind:
        model = with_lora(model)
    if "sharded" in kind:
        model.save_pretrained = functools.partial(
            model.save_pretrained, max_shard_size=SMALL_SHARDS
        )
    rows = [{"input_ids": [i % 64] * 8, "labels": [i % 64] * 8} for i in range(64)]
    arguments = TrainingArguments(
        output_dir=str(folder / kind),
        max_steps=MAX_STEPS,
        save_steps=STEP,
        logging_steps=1,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        ddp_backend="gloo" if WORLD_SIZE > 1 else None,
        bf16="bf16" in kind,
        save_only_model="only-model" in kind,
        deepspeed=_deepspeed(kind),
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()


def _deepspeed(kind: str) -> dict[str, Any] | None:
    if kind not in ZERO:
        return None
    return {
        **ZERO[kind],
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "zero_allow_untested_optimizer": True,
    }


if __name__ == "__main__":
    if WORLD_SIZE > 1:
        join()
    for each in sys.argv[2:]:
        save(Path(sys.argv[1]), each)
    leave()
