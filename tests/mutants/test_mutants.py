"""The mutants are run by hand (`run.py`), but that they still apply is checked every time."""

import shlex
from pathlib import Path

import pytest

from mutants import KILLERS, MUTANTS, ROOMS, file_of, markers

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_the_line_below_its_marker(mutant):
    """If not: what it changes has moved on, so rewrite the mutant; do not drop it."""
    text = file_of(mutant, ROOT).read_text()

    assert mutant.applied(text) != text
    assert mutant.killer in KILLERS


def test_each_marker_is_in_one_place_and_has_a_mutant():
    assert [name for name, files in markers(ROOT).items() if len(files) > 1] == []
    assert markers(ROOT).keys() == {mutant.marker for mutant in MUTANTS}


def test_names_of_mutants_and_killers_are_distinct():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len(KILLERS) == sum(len(room.KILLERS) for room in ROOMS)


def test_each_killer_names_tests_that_are_there():
    words = [word for command in KILLERS.values() for word in shlex.split(command) if word.startswith("tests/")]

    assert [word for word in words if not (ROOT / word.split("::")[0]).exists()] == []
