"""What ms-swift's own parser makes of words. Run by ms-swift's Python, with JSON on its input.

{name: [module, word, ...]} becomes {name: [words that it did not know]}. Nothing is checked beyond
names, kinds and choices: that would need the models. Megatron's libraries need not be installed: of
them nothing but their names is used until then.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

ARGUMENTS = {
    "swift.cli.pt": "swift.arguments:PretrainArguments",
    "swift.cli.sft": "swift.arguments:SftArguments",
    "swift.cli.rlhf": "swift.arguments:RLHFArguments",
    "swift.cli._megatron.sft": "swift.megatron.arguments:MegatronSftArguments",
}
ABSENT = {"megatron", "mcore_bridge"}


class Absent(ModuleType):
    """A module whose every name is there."""

    __path__: list[str] = []  # noqa: RUF012 - a package's own attribute
    __version__ = "0.16.1"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that are not installed."""

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def unknown(module: str, words: list[str]) -> list[str]:
    """Return the words that the sub-command's parser leaves; it exits where a value is wrong."""
    # The parser of ms-swift itself, with none of what follows the reading.
    parser = importlib.import_module("transformers").HfArgumentParser
    place, _, name = ARGUMENTS[module].partition(":")
    left = parser([getattr(importlib.import_module(place), name)]).parse_known_args(words)[1]
    return [str(word) for word in left]


def main() -> None:
    asked = json.load(sys.stdin)
    sys.meta_path.append(AbsentModules())
    found = {name: unknown(module, words) for name, (module, *words) in asked.items()}
    print(json.dumps(found))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
