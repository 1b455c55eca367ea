"""Templates that a stranger wrote: plan values alone, in two places, quoted, within limits."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmswift.domain.plan import Plan
from slurmswift.domain.script_check import VALUES_END, VALUES_START
from slurmswift.errors import RecipeError
from slurmswift.files.templates import LIMITS, render_script, template_folders
from tests.support.recipes import WHOLE, a_plan

VALUES = f"""\
{VALUES_START}
readonly RUN_DIR={{{{ plan.run_dir|sh }}}}
readonly -a ARGUMENTS=({{% for word in plan.arguments %}} {{{{ word|sh }}}}{{% endfor %}} )
{VALUES_END}
"""
HEAD = """\
#!/bin/bash
{% for option in plan.sbatch %}
#SBATCH {{ option|directive }}
{% endfor %}
"""


def render(folder: Path, template: str, **others: str) -> str:
    """Render one template of a recipe's own folder, with others beside it."""
    templates = folder / "templates"
    templates.mkdir(exist_ok=True)
    for name, text in {"mine": template, **others}.items():
        (templates / f"{name}.sbatch.j2").write_text(text, encoding="utf-8")
    plan = a_plan(folder, WHOLE + "  arguments: {a: x}\ntemplate: mine\n")
    limits = dataclasses.replace(LIMITS, cpu_seconds=1)
    return render_script(plan, template_folders(folder), limits=limits).text


def problem_of(folder: Path, template: str, **others: str) -> str:
    with pytest.raises(RecipeError) as caught:
        render(folder, template, **others)
    return "\n".join(map(str, caught.value.problems)).replace(f"{folder}/templates/", "")


@pytest.mark.parametrize(
    "expression",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ plan.__class__ }}",
        "{{ plan.__init__.__globals__ }}",
        "{{ plan.__dict__ }}",
        "{{ plan.run_id.__class__|sh }}",
        "{{ self.__init__.__globals__ }}",
        "{{ (plan.run_id|sh).__class__ }}",
        "{{ (plan.run_id|attr('__class__'))|sh }}",
        "{{ ('%s'|sh).format(plan.run_id) }}",
        "{{ ('{0.__class__}'|sh).format(plan) }}",
        "{{ '{}'.format(plan.run_id)|sh }}",
        "{{ ('a'|sh).replace('a', '$(id)') }}",
        "{{ ('a'|sh).join(['x', '$(id)']) }}",
        "{{ 'a'|sh ~ '$(id)' }}",
        "{{ ('a'|sh) + '$(id)' }}",
        "{{ ('a'|sh) * 3 }}",
        "{{ (plan.run_id|sh)[0] }}",
        "{{ plan.run_id|safe }}",
        "{{ plan.arguments|join(' ') }}",
        "{{ plan.arguments|sh }}",
        "{{ plan.sbatch|sh }}",
        "{{ plan.run_id }}",
        "{{ 'text' }}",
        "{{ 3 }}",
        "{{ plan.missing|sh }}",
        "{{ missing }}",
        "{{ plan }}",
        "{{ range(3) }}",
        "{{ lipsum()|sh }}",
        "{{ cycler.__init__|sh }}",
        "{{ plan.update({'a': 1}) }}",
        "{{ plan.sbatch.append(1) }}",
        "{{ plan.run_id|directive }}",
        "{{ (plan.run_id, 'x')|directive }}",
        "{{ ('comment', 'a\nb')|directive }}",
        "{% set plan.run_id = 'x' %}",
        "{% include '/etc/passwd' %}",
        "{% include '../recipe.yaml' %}",
        "{% include plan.run_dir %}",
        "{% import 'os' as os %}",
        "{% macro m() %}{{ m }}{% endmacro %}{{ m }}",
        "{% if %}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_template_gets_at_nothing_and_prints_nothing_unquoted(
    expression: str, tmp_path: Path
) -> None:
    text = problem_of(tmp_path, f"{HEAD}{VALUES}{expression}\n")

    assert text.startswith("mine.sbatch.j2")
    assert "\n" not in text


def test_a_mistake_is_named_with_its_files_line(tmp_path: Path) -> None:
    text = problem_of(tmp_path, "#!/bin/bash\n\n\n{{ plan.run_id }}\n")

    assert text == ("mine.sbatch.j2:4: 'tiny-260101-abcde' is not quoted: write {{ value|sh }}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for a in 'aaaaaaaaaa' %}" * 12 + "{% endfor %}" * 12, "took more than 1 s of CPU"),
        ("{% for a in 'aaaaaaaaaa' %}" * 40 + "{% endfor %}" * 40, "too many statically nested"),
        ("{{ (10 ** (10 ** 10))|sh }}", "took more than 1 s of CPU"),
        ("{{ ('a' * 10 ** 10)|sh }}", "took more than 256 MiB of memory"),
        (
            "{% for a in ('a' * 2000) %}" + "x" * 10_000 + "{% endfor %}",
            "wrote more than 8 MiB",
        ),
        ("{% include 'mine.sbatch.j2' %}", "includes itself without end"),
        ("{% extends 'mine.sbatch.j2' %}", "includes itself without end"),
    ],
)
def test_a_template_without_an_end_is_ended(template: str, message: str, tmp_path: Path) -> None:
    started = time.monotonic()

    assert message in problem_of(tmp_path, template)
    assert time.monotonic() - started < 40


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('echo "{{ plan.run_dir|sh }}"', 17),
        ("echo {{ plan.run_dir|sh }}", 17),
        ("bash -c {{ plan.run_dir|sh }}", 17),
        ("cat <<EOF\n{{ plan.run_dir|sh }}\nEOF", 18),
        ("# {{ plan.run_dir|sh }}", 17),
        ("echo `{{ plan.run_dir|sh }}`", 17),
    ],
)
def test_a_value_outside_its_two_places_is_found_even_if_quoted(
    line: str, number: int, tmp_path: Path
) -> None:
    text = problem_of(tmp_path, f"{HEAD}{VALUES}{line}\n")

    assert text.splitlines()[0].startswith(
        f"mine.sbatch.j2: line {number} of the script: a value outside"
    )


@pytest.mark.parametrize(
    "line",
    [
        'readonly X="{{ plan.run_dir|sh }}"',
        "readonly X=a{{ plan.run_dir|sh }}",
        "readonly X={{ plan.run_dir|sh }}b",
        "readonly X={{ plan.run_dir|sh }}; echo",
        "readonly X={{ plan.run_dir|sh }} {{ plan.run_dir|sh }}",
        "X={{ plan.run_dir|sh }}",
        "eval {{ plan.run_dir|sh }}",
        "readonly X=$({{ plan.run_dir|sh }})",
        "readonly -a X=( a{{ plan.run_dir|sh }} )",
        'readonly -a X=( "{{ plan.run_dir|sh }}" )',
        "# {{ plan.run_dir|sh }}",
        "cat <<EOF",
        'echo "',
        "readonly X=$HOME",
        "if [[ $(id) ]]; then",
    ],
)
def test_among_the_values_stand_whole_words_and_nothing_that_runs(
    line: str, tmp_path: Path
) -> None:
    template = HEAD + VALUES.replace(VALUES_END, f"{line}\n{VALUES_END}")

    assert "line 16 of the script" in problem_of(tmp_path, template)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (HEAD + "true\n", "needs one block of values"),
        (HEAD + VALUES + VALUES, "needs exactly one block of values"),
        ("\n" + HEAD + VALUES, "the first line must be #!/bin/bash"),
        (HEAD + "  #SBATCH --hold\n" + VALUES, "a directive that sbatch ignores"),
        (HEAD + "# SBATCH --hold\n" + VALUES, "a directive that sbatch ignores"),
        (HEAD + "#SBATCH -H\n" + VALUES, "a directive that is not '#SBATCH --option'"),
        (HEAD + VALUES + "#SBATCH --hold\n", "behind the first command"),
        (HEAD + "#SBATCH --nodes=3\n" + VALUES, "--nodes a second time"),
        (HEAD + "#SBATCH --extra={{ plan.run_dir|sh }}\n" + VALUES, "a value outside"),
        ("{% extends 'nothing.sbatch.j2' %}", "there is no template 'nothing.sbatch.j2'"),
        ("x" * 300_000, "is larger than 256 KiB"),
        (HEAD + VALUES + "x" * 200_000 + "{{ 1 }}", "is not quoted"),
    ],
)
def test_a_script_that_sbatch_would_misread_is_refused(
    template: str, message: str, tmp_path: Path
) -> None:
    assert message in problem_of(tmp_path, template)


def test_a_template_can_extend_call_super_and_use_macros(tmp_path: Path) -> None:
    text = render(
        tmp_path,
        "{% extends 'mother.sbatch.j2' %}{% block body %}{{ super() }}\n{{ greet() }}{% endblock %}"
        "{% macro greet() %}echo hello{% endmacro %}",
        mother=f"{HEAD}{VALUES}{{% block body %}}echo mother{{% endblock %}}\n",
    )

    assert text.endswith("echo mother\necho hello")


def test_a_child_of_the_base_can_add_to_its_values(tmp_path: Path) -> None:
    text = render(
        tmp_path,
        "{% extends 'torchrun.sbatch.j2' %}\n{% block values %}{{ super() }}"
        "readonly EXTRA={{ plan.nodes|sh }}\n{% endblock %}",
    )

    assert f"fi\nreadonly EXTRA=2\n{VALUES_END}\n" in text


def test_links_and_folders_in_place_of_a_template_are_not_followed_into_a_hang(
    tmp_path: Path,
) -> None:
    (tmp_path / "templates" / "mine.sbatch.j2").mkdir(parents=True)
    plan = a_plan(tmp_path, WHOLE + "template: mine\n")
    with pytest.raises(RecipeError) as caught:
        render_script(plan, template_folders(tmp_path))

    assert "there is no template 'mine.sbatch.j2'" in str(caught.value)


def test_a_template_by_its_path_finds_what_lies_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "a.j2").write_text("{% extends 'b.j2' %}", encoding="utf-8")
    (folder / "b.j2").write_text(f"{HEAD}{VALUES}echo b\n", encoding="utf-8")
    plan = a_plan(tmp_path, WHOLE + "template: lab/a.j2\n")

    assert render_script(plan, template_folders(tmp_path)).text.endswith("echo b\n")


def plan_with(folder: Path, value: str) -> Plan:
    text = WHOLE.replace("nodes: 2", "nodes: 2\n  comment: x")
    return a_plan(
        folder, f"{text}  arguments: [x]\n", f"launch.arguments.p={value}", run_dir="/runs/a b"
    )


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    words=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5
    )
)
def test_whatever_the_values_bash_reads_them_back_from_the_script(
    words: list[str], tmp_path: Path
) -> None:
    base = a_plan(tmp_path)
    plan = Plan.from_json(
        {**base.to_json(), "arguments": words, "variables": {"V": "".join(words)}}
    )
    text = render_script(plan, template_folders(tmp_path)).text
    block = text[text.index(VALUES_START) : text.index(f"\n{VALUES_END}\n\n#") + 1]
    shown = subprocess.run(
        ["/bin/bash", "--norc", "-c", block + '\nprintf \'%s\\0\' "$V" "${SW_ARGUMENTS[@]}"', "x"],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    ).stdout.decode()

    assert shown.split("\0")[:-1] == (["".join(words), *words])


def test_hostile_values_touch_nothing_when_the_script_starts(tmp_path: Path) -> None:
    hostile = "$(touch canary)`touch canary`\"'; touch canary\n#\\"
    base = a_plan(tmp_path)
    body = base.to_json()
    for key in ("python", "interface", "resume_flag", "checkpoint_directory", "cluster"):
        body[key] = hostile
    body["arguments"] = body["command"] = [hostile]
    body["variables"] = {"A": hostile}
    script = tmp_path / "job.sbatch"
    script.write_text(render_script(Plan.from_json(body), template_folders(tmp_path)).text)
    result = subprocess.run(
        ["/bin/bash", str(script), "1"], cwd=tmp_path, capture_output=True, check=False, text=True
    )

    assert "not inside a job" in result.stdout + result.stderr
    assert not (tmp_path / "canary").exists()


def test_the_same_plan_gives_the_same_script_and_digest(tmp_path: Path) -> None:
    folders = template_folders(tmp_path)
    first, second = (render_script(a_plan(tmp_path), folders) for _ in range(2))

    assert first == second
    assert len(first.digest) == 64
