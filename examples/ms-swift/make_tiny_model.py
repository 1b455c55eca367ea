"""Makes a tiny model, its tokenizer and data, so that ms-swift runs offline, on CPUs, in seconds.

    python make_tiny_model.py FOLDER [ROWS]

FOLDER/model is a Qwen2 of two layers with random weights and a byte-level tokenizer trained on the
data set; FOLDER/train.jsonl has ROWS conversations (64), FOLDER/dpo.jsonl as many preferences and
FOLDER/pt.jsonl as many plain texts. Nothing is fetched. The same FOLDER is the same bytes again.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
COLOURS = ("red", "green", "blue", "black", "white")
THINGS = ("box", "door", "cup", "book", "lamp", "chair")


def conversations(rows: int) -> list[tuple[str, str, str]]:
    """A question, its answer, and a worse answer."""
    chance = random.Random(7)  # noqa: S311 - the same data each time is the point
    made = []
    for number in range(rows):
        colour, other = chance.sample(COLOURS, 2)
        thing = chance.choice(THINGS)
        question = f"What colour is {thing} {number}?"
        made.append((question, f"The {thing} is {colour}.", f"The {thing} may be {other}."))
    return made


def write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def make_data(folder: Path, rows: int) -> list[str]:
    """Write the three data sets; return all their texts."""
    made = conversations(rows)
    chats = [[message("user", asked), message("assistant", said)] for asked, said, _ in made]
    write_lines(folder / "train.jsonl", [{"messages": chat} for chat in chats])
    write_lines(
        folder / "dpo.jsonl",
        [
            {"messages": chat, "rejected_response": worse}
            for chat, (_, _, worse) in zip(chats, made, strict=True)
        ],
    )
    write_lines(
        folder / "pt.jsonl",
        [{"messages": [message("assistant", f"{asked} {said}")]} for asked, said, _ in made],
    )
    return [" ".join(texts) for texts in made]


def make_tokenizer(texts: list[str], folder: Path) -> int:
    """Return the number of its tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=SPECIAL[2], pad_token=SPECIAL[0]
    )
    fast.save_pretrained(folder)
    return len(fast)


def make_model(folder: Path, tokens: int) -> None:
    torch.manual_seed(7)
    config = Qwen2Config(
        vocab_size=tokens,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def main() -> None:
    words = sys.argv[1:]
    folder = Path(words[0] if words else "tiny")
    rows = int(words[1]) if words[1:] else 64
    (folder / "model").mkdir(parents=True, exist_ok=True)
    texts = make_data(folder, rows)
    make_model(folder / "model", make_tokenizer(texts, folder / "model"))
    print(f"made {folder}/model and {rows} rows each of train.jsonl, dpo.jsonl, pt.jsonl")


if __name__ == "__main__":
    main()
