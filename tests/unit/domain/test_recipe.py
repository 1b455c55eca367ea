"""A recipe's keys: arguments as the training gets them, variables, what slurmswift owns."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmswift.domain.recipe import budget_names
from tests.support.recipes import WHOLE, a_plan, load, problems


def with_arguments(text: str) -> str:
    return f"{WHOLE}  arguments: {text}\n"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{lr: 1e-4}", ["--lr", "1e-4"]),
        ("{bf16: true}", ["--bf16", "true"]),
        ("{packing: }", ["--packing"]),
        ("{packing: null}", ["--packing"]),
        ("{system: ''}", ["--system", ""]),
        ("{dataset: [a.jsonl, b c.jsonl]}", ["--dataset", "a.jsonl", "b c.jsonl"]),
        ("{dataset: []}", ["--dataset"]),
        ("{-c: 3}", ["-c", "3"]),
        ("{seed: -1}", ["--seed=-1"]),
        ("{prompt: --help}", ["--prompt=--help"]),
        ("{-p: -1}", ["-p", "-1"]),
        ("{--lr: 1}", ["--lr", "1"]),
        ("""{config: '{"a": 1}'}""", ["--config", '{"a": 1}']),
        ("{prompt: 'Q: {question} A: {output}'}", ["--prompt", "Q: {question} A: {output}"]),
        ('{prompt: "two\\nlines"}', ["--prompt", "two\nlines"]),
        ("{x: $(touch y)}", ["--x", "$(touch y)"]),
        ("[--lr, 1e-4, 'a b', -x]", ["--lr", "1e-4", "a b", "-x"]),
        ("{out: '{output_dir}/a-{run_id}'}", ["--out", "/runs/R/output/a-R"]),
        ("{out: '{run_dir}{run_dir}'}", ["--out", "/runs/R/runs/R"]),
        ("", []),
    ],
)
def test_arguments_reach_the_training_as_they_were_written(
    written: str, words: list[str], tmp_path: Path
) -> None:
    plan = a_plan(tmp_path, with_arguments(written))

    assert [word.replace("tiny-260101-abcde", "R") for word in plan.arguments] == words


@pytest.mark.parametrize(
    ("written", "message", "fix"),
    [
        ("{resume_from_checkpoint: x}", "slurmswift sets --resume_from_checkpoint", "remove it"),
        ("{resume-from-checkpoint: x}", "slurmswift sets --resume-from-checkpoint", "remove it"),
        ("[--resume_from_checkpoint=x]", "slurmswift sets", "remove it"),
        ("[--resume_from_checkpoint, x]", "slurmswift sets", "remove it"),
        ("{config: {a: 1, b: 2}}", "keys cannot stand here", "write JSON as text"),
        ("{out: {output_dir}}", "not keys of its own", 'write it in quotes: "{output_dir}"'),
        ("{out: '{ouput_dir}/x'}", "no such placeholder: {ouput_dir}", "write {output_dir}"),
        ("{out: '{job_id}'}", "no such placeholder: {job_id}", "write {run_id}"),
        ("{a b: 1}", "is not an argument's name", "without blanks"),
        ("{a=b: 1}", "is not an argument's name", "without blanks"),
        ("--lr 1", "needs names and values", "[word, word]"),
        ("[[a]]", "not a list", ""),
    ],
)
def test_arguments_that_cannot_be_come_with_what_can(
    written: str, message: str, fix: str, tmp_path: Path
) -> None:
    (problem,) = problems(tmp_path, with_arguments(written))

    assert problem.where.startswith("recipe.yaml:10: launch.arguments")
    assert message in problem.message
    assert fix in problem.fix


def test_a_training_that_resumes_by_itself_may_have_the_flag(tmp_path: Path) -> None:
    text = with_arguments("{resume_from_checkpoint: last}") + "checkpoints: {flag: }\n"
    plan = a_plan(tmp_path, text)

    assert plan.resume_flag == ""
    assert plan.arguments == ("--resume_from_checkpoint", "last")


@pytest.mark.parametrize("flag", ["resume", "--a b", "''"])
def test_a_flag_that_is_none_is_refused(flag: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{WHOLE}checkpoints: {{flag: {flag}}}\n")

    assert problem.where == "recipe.yaml:10: checkpoints.flag"


def test_what_only_a_shell_would_replace_is_warned_of(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, with_arguments("{model: $SCRATCH/m, pattern: ^a$}"))

    assert problem.severity == "warning"
    assert problem.message == "$SCRATCH stays as it is: no shell reads it"


@pytest.mark.parametrize(
    ("command", "words"),
    [("train.py", ["/r/train.py"]), ("./train.py", ["/r/train.py"]), ("-m a.b", ["-m", "a.b"])],
)
def test_a_command_is_a_script_or_a_module(command: str, words: list[str], tmp_path: Path) -> None:
    plan = a_plan(tmp_path, WHOLE.replace("train.py", command))

    assert [word.replace(str(tmp_path), "/r") for word in plan.command] == words


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("train.py --lr 1", "write command: train.py, and what follows it under launch.arguments"),
        ("python train.py", "write command: train.py"),
        ("torchrun train.py -x", "write command: train.py, and what follows"),
        ("--x", "write the script's path, or -m package.module"),
        ("~/train.py", "write the whole path"),
        ("$HOME/train.py", "write the path itself"),
        ("''", "write a path"),
        ("tran.py", "beside the recipe are: train.py"),
        (".", "name the script in it"),
    ],
)
def test_a_command_that_cannot_start_comes_with_one_that_can(
    command: str, fix: str, tmp_path: Path
) -> None:
    (problem,) = problems(tmp_path, WHOLE.replace("train.py", command))

    assert problem.where == "recipe.yaml:9: launch.command"
    assert fix in problem.fix


@pytest.mark.parametrize(
    "name",
    [
        *("SLURM_JOB_ID", "SBATCH_PARTITION", "SLURMSWIFT_RUN_DIR", "MASTER_ADDR", "MASTER_PORT"),
        *("NODE_RANK", "NNODES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "BASH_ENV", "ENV", "IFS"),
        *("SW_RUN_DIR", "OUTPUT_DIR", "CHECKPOINT_DIR", "BASH_FUNC_srun", "UID"),
    ],
)
def test_variables_of_others_are_refused(name: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{WHOLE}environment: {{variables: {{{name}: x}}}}\n")

    assert problem.where == f"recipe.yaml:10: environment.variables.{name}"
    assert problem.fix == "remove it"


@pytest.mark.parametrize("value", ["env:HF_TOKEN", "file:/home/ada/.token"])
def test_references_to_secrets_wait_for_a_later_version(value: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{WHOLE}environment: {{variables: {{A: '{value}'}}}}\n")

    assert "not in this version" in problem.message
    assert "export the variable" in problem.fix


@pytest.mark.parametrize(
    ("name", "value", "warned"),
    [
        ("HF_TOKEN", "hf_abcdefghij", True),
        ("WANDB_API_KEY", "0123456789abcdef", True),
        ("DB_PASSWORD", "correct horse", True),
        ("TOKENIZERS_PARALLELISM", "false_or_so", False),
        ("MY_TOKEN", "1", False),
        ("MLFLOW_TRACKING_URI", "file:///shared/mlruns", False),
        ("KEYBOARD", "a-long-enough-value", False),
    ],
)
def test_a_secret_in_the_recipe_is_warned_of_and_not_shown(
    name: str,
    value: str,
    warned: bool,  # noqa: FBT001 - a column of the table
    tmp_path: Path,
) -> None:
    found = problems(tmp_path, f"{WHOLE}environment: {{variables: {{{name}: '{value}'}}}}\n")

    assert [problem.severity for problem in found] == ["warning"] * warned
    assert value not in " ".join(map(str, found))


@pytest.mark.parametrize(
    ("key", "line"),
    [
        *((f"{key}: x", key) for key in ("preflight", "hang", "notify", "check")),
        ("environment: {container: {image: x}}", "environment.container"),
        *((f"restart: {{{key}: 1}}", f"restart.{key}") for key in ("in_allocation", "spare_nodes")),
    ],
)
def test_keys_of_later_versions_say_so(key: str, line: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{WHOLE}{key}\n")

    assert str(problem) == f"recipe.yaml:10: {line}: not in this version; remove it"


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("partition: gpu", "write it under sbatch"),
        ("slurm: {}", "write sbatch"),
        ("env: {}", "write environment"),
        ("script: x", "write command under launch"),
        ("lanch: {}", "did you mean 'launch'?"),
    ],
)
def test_keys_in_the_wrong_place_are_sent_to_the_right_one(
    key: str, fix: str, tmp_path: Path
) -> None:
    (problem,) = problems(tmp_path, f"{WHOLE}{key}\n")

    assert problem.fix == fix


@pytest.mark.parametrize(
    ("written", "inherit"),
    [("all", "all"), ("none", "none"), ("[A, B]", ("A", "B")), ("[]", "none"), ("PATH", ("PATH",))],
)
def test_what_is_inherited_is_all_none_or_names(
    written: str, inherit: object, tmp_path: Path
) -> None:
    recipe = load(tmp_path, f"{WHOLE}environment: {{inherit: {written}}}\n").recipe

    assert recipe.environment.inherit == inherit


def test_budgets_are_named_by_the_policys_rows_and_categories(tmp_path: Path) -> None:
    names = budget_names()
    text = f"{WHOLE}restart: {{budgets: {{file_system: 5, communication: 0}}}}\n"

    assert load(tmp_path, text).recipe.restart.budgets == (("file system", 5), ("communication", 0))
    assert {"communication", "scheduler", "host_memory", "hardware"} <= set(names)
    assert "the_user's" not in names


@pytest.mark.parametrize("missing", ["schema: 1\n", "name: tiny\n", "  command: train.py\n"])
def test_what_must_be_there_is_asked_for(missing: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE.replace(missing, ""))

    assert problem.message == "missing"
    assert problem.where.endswith(missing.partition(":")[0].strip())


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("environment: {variables: {A: }}", "environment.variables.A", "has no value"),
        ("environment: {modules: {a: 1}}", "environment.modules", "needs a list"),
        ("environment: {modules: [a, [b]]}", "environment.modules", "not a list"),
        ("checkpoints: {format: zip}", "checkpoints.format", "'zip' is not known"),
        ("restart: {max_restarts: -1}", "restart.max_restarts", "out of range"),
        ("template: {a: 1, b: 2}", "template", "not keys of its own"),
    ],
)
def test_values_of_the_wrong_kind_are_named(
    text: str, where: str, message: str, tmp_path: Path
) -> None:
    (problem,) = problems(tmp_path, f"{WHOLE}{text}\n")

    assert problem.where == f"recipe.yaml:10: {where}"
    assert message in problem.message


def test_a_variable_that_no_shell_will_replace_is_warned_of(tmp_path: Path) -> None:
    text = "environment: {variables: {A: '${HOME}/x', B: costs 5$}}"
    (problem,) = problems(tmp_path, f"{WHOLE}{text}\n")

    assert problem.severity == "warning"
    assert problem.message == "$HOME stays as it is: no variable is replaced here"


def test_minutes_that_look_like_hours_are_warned_of(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE.replace("1:00:00", "24:00"))

    assert problem.severity == "warning"
    assert problem.message == "'24:00' is 24 minutes for Slurm; for hours write 24:00:00"


def test_a_long_name_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, WHOLE.replace("name: tiny", f"name: {'x' * 60}"))

    assert problem.message == "is 60 characters long"


def test_sections_of_the_wrong_kind_are_noted_not_followed(tmp_path: Path) -> None:
    found = problems(tmp_path, f"{WHOLE}environment: [a]\nrestart: 3\ncheckpoints:\n")

    assert [problem.where for problem in found] == [
        "recipe.yaml:10: environment",
        "recipe.yaml:11: restart",
    ]


def with_program(command: str, framework: str = "command") -> str:
    text = WHOLE.replace("framework: torchrun", f"framework: {framework}")
    return text.replace("command: train.py", f"command: {command}")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("train.py", ["HERE/train.py"]),
        ("-m my.package", ["-m", "my.package"]),
        ("[-m, my.package, x]", ["-m", "my.package", "x"]),
        ("my-trainer", ["my-trainer"]),
        ("python3.11", ["python3.11"]),
        ("/opt/bin/env", ["/opt/bin/env"]),
        ("[bash, run.sh, $HOME, 'a b', '', $(touch y)]", "bash|run.sh|$HOME|a b||$(touch y)"),
        ("[./train.py, '{output_dir}']", "HERE/train.py|/runs/tiny-260101-abcde/output"),
        ("['{run_dir}/x y.sh']", ["/runs/tiny-260101-abcde/x y.sh"]),
    ],
)
@pytest.mark.parametrize("framework", ["srun", "command"])
def test_any_program_and_its_words(
    written: str, words: list[str] | str, framework: str, tmp_path: Path
) -> None:
    (tmp_path / "env").touch(mode=0o755)
    wanted = words.split("|") if isinstance(words, str) else words
    text = with_program(written.replace("/opt/bin", str(tmp_path)), framework)
    plan = a_plan(tmp_path, text)

    assert list(plan.command) == [
        word.replace("HERE", str(tmp_path)).replace("/opt/bin", str(tmp_path)) for word in wanted
    ]


@pytest.mark.parametrize(
    ("written", "message", "fix"),
    [
        ("bash run.sh 1$", "no shell takes it apart", "write its words: [bash, run.sh, '1$']"),
        ("bash 'x", "no shell takes it apart", "[bash,"),
        ("-x", "starts with a dash", "program's path"),
        ("[]", "is empty", "write [program, argument]"),
        ("[-x, y]", "'-x' is no program", "program or script first"),
        ("[-m]", "'-m' is no program", "[-m, package.module]"),
        ("['']", "'' is no program", "program or script first"),
        ("[[a]]", "not a list", ""),
        ("{a: b}", "not keys of its own", ""),
        ("run.sh", "does not exist", "write the script's path"),
        ("~/run.sh", "'~' is replaced by shells only", "whole path"),
        ("readme.txt", "cannot be executed", "[bash, readme.txt]"),
        ("[x, '{outptu_dir}']", "no such placeholder", "{output_dir}"),
    ],
)
def test_what_is_no_program_comes_with_what_is(
    written: str, message: str, fix: str, tmp_path: Path
) -> None:
    (tmp_path / "readme.txt").touch(mode=0o644)
    (problem,) = problems(tmp_path, with_program(written))

    assert problem.where.startswith("recipe.yaml:9: launch.command")
    assert message in problem.message
    assert fix in problem.fix


def test_only_a_command_of_ones_own_need_not_say_how_many_processes(tmp_path: Path) -> None:
    text = with_program("my-trainer").replace("  gpus_per_node: 4\n", "")

    assert a_plan(tmp_path, text).processes_per_node == 1
    (problem,) = problems(tmp_path, text.replace("framework: command", "framework: srun"))
    assert "processes_per_node" in problem.where
