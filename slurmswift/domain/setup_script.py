"""The text of setup.sh: what the script sources before the training, in every attempt."""

from __future__ import annotations

from slurmswift.domain.plan import Plan
from slurmswift.domain.quoting import shell_word

# Batch shells are no login shells: where the user's own shell did not hand `module` on, its
# definition is where Lmod and Environment Modules put it.
_MODULES = """\
if ! type module >/dev/null 2>&1; then
  for slurmswift_init in "${LMOD_PKG-}/init/bash" "${MODULESHOME-}/init/bash" \\
    /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    # shellcheck source=/dev/null
    if [ -r "$slurmswift_init" ]; then . "$slurmswift_init" && break; fi
  done
  unset slurmswift_init
fi
"""


def setup_script(plan: Plan) -> str:
    """Return the script: modules, each checked, then the user's own lines as they stand."""
    lines = [
        "# shellcheck shell=bash disable=SC1091",
        f"# The set-up of run {plan.run_id}. The job's script sources it; its last status counts.",
        "",
    ]
    text = "\n".join(lines)
    if plan.modules:
        text += _MODULES
        text += "".join(f"module load {shell_word(name)} || return 1\n" for name in plan.modules)
    text += plan.setup
    return text if text.endswith("\n") else text + "\n"
