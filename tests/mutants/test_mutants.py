"""The mutants are run by hand (`run.py`), but that they still apply is checked every time."""

from pathlib import Path

import pytest

from mutants import KILLERS, MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_of_its_file(mutant):
    """If not: its text has moved on, so rewrite the mutant; do not drop it."""
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert mutant.killer in KILLERS


def test_names_of_mutants_are_distinct():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
