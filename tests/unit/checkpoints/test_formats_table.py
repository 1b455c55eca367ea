"""The table of formats and the recipe's list of their names say the same."""

from __future__ import annotations

import pytest

from slurmswift.checkpoints import Expected
from slurmswift.checkpoints.formats import FORMATS, formats_for
from slurmswift.domain import recipe


def test_a_recipe_can_name_each_format() -> None:
    assert sorted(recipe.FORMATS) == sorted(["auto", *(form.name for form in FORMATS)])


def test_a_format_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="no format is called 'zarr'"):
        formats_for(Expected(format="zarr"))


def test_the_rules_of_a_named_format_alone_hold() -> None:
    assert [form.name for form in formats_for(Expected(format="dcp"))] == ["dcp"]
