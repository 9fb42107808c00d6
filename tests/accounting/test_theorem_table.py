"""docs/theorems.md has a row for every cell of the registry, and no other."""

import re
from collections import Counter
from pathlib import Path

from enumerated_cells import ACCOUNTANTS, CELLS, RELATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "theorems.md").read_text(encoding="utf-8")
REPEATED = "repeat_and_select(…)"


def rows():
    """Return the rows of the first table: events, relations, accountants, theorem, conditions."""
    table = PAGE.split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cells_of(row):
    written, relations, accountants = re.findall(r"`([^`]+)`", row[0]), row[1].split(), row[2].split()
    shapes = [
        shape.replace("[*]", tag) for shape in written for tag in (("", "[0.5]", "[1]") if "[*]" in shape else ("",))
    ]
    return [(shape, name, letters) for shape in shapes for name in accountants for letters in relations]


def test_the_table_of_theorems_is_the_registry_of_cells():
    stated = Counter(cell for row in rows() for cell in cells_of(row) if REPEATED not in row[0])
    repeated = {cell[1:] for row in rows() if REPEATED in row[0] for cell in cells_of(row)}
    registered = {
        (shape, name, letters)
        for shape, cells in CELLS.items()
        for name, relations in cells.items()
        for letters in relations.split()
    }
    searches = {cell for cell in registered if cell[0].startswith("repeat_and_select")}

    assert [cell for cell, times in stated.items() if times > 1] == []
    assert sorted(stated.keys() - registered) == []
    assert sorted(registered - searches - stated.keys()) == []
    assert repeated == {cell[1:] for cell in searches}


def test_every_row_names_a_theorem_and_what_it_names_is_known():
    for row in rows():
        assert len(row) == 5
        assert row[3], row
        assert {*row[1].split()} <= RELATIONS.keys()
        assert {*row[2].split()} <= ACCOUNTANTS.keys()
