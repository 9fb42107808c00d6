"""The mutants are run by hand (`run.py`), but that they still apply is checked every time."""

import shlex
from pathlib import Path

from mutants import KILLERS, MUTANTS, ROOMS, BrokenError, file_of, markers

ROOT = Path(__file__).parents[2]


def test_mutants_change_the_lines_below_their_markers():
    """If not: what a mutant changes has moved on, so rewrite it; do not drop it."""
    broken = []
    for mutant in MUTANTS:
        try:
            text = file_of(mutant, ROOT).read_text()
            if mutant.applied(text) == text:
                broken.append(f"{mutant.name}: changes nothing")
        except BrokenError as reason:
            broken.append(f"{mutant.name}: {reason}")

    assert broken == []
    assert {mutant.killer for mutant in MUTANTS} == KILLERS.keys()


def test_each_marker_is_in_one_place_and_has_a_mutant():
    assert [name for name, files in markers(ROOT).items() if len(files) > 1] == []
    assert markers(ROOT).keys() == {mutant.marker for mutant in MUTANTS}


def test_names_of_mutants_and_killers_are_distinct():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len(KILLERS) == sum(len(room.KILLERS) for room in ROOMS)


def test_each_killer_names_tests_that_are_there():
    words = [word for command in KILLERS.values() for word in shlex.split(command) if word.startswith("tests/")]

    assert [word for word in words if not (ROOT / word.split("::")[0]).exists()] == []
