"""Ids of units in texts: which rows are of one unit is what a dict of the texts says, whatever they are."""

import string
import uuid
from collections.abc import Sequence

import numpy as np
import pytest

from ferrodp.statistics.rows import ids
from ferrodp.statistics.rows.gathered import Names, read


def missing(text: str) -> bool:
    return text.strip() in ("", "NA")


def units(texts: Sequence[str], blocks: int = 3, kept: np.ndarray | None = None) -> list[int]:
    """Return the unit of each row, read in blocks."""
    column = ids.Ids(missing)
    for part in np.array_split(np.arange(len(texts)), blocks):
        column.add([texts[place] for place in part], None if kept is None else kept[part])
    found = column.column()
    assert found.all_different
    return found.values.tolist()


def same(found: Sequence[int], texts: Sequence[str]) -> bool:
    """Whether rows have one unit just if their texts are equal, and none just if they are missing."""
    known: dict[str, int] = {}
    owners: dict[int, str] = {}
    for unit, text in zip(found, texts, strict=True):
        if missing(text) != (unit == -1):
            return False
        if unit >= 0 and (known.setdefault(text, unit) != unit or owners.setdefault(unit, text) != text):
            return False
    return True


ALIKE = [
    *("a", "a\0", "a\0\0", "\0", "7", "7.0", "07", " 7", "A", "é", "e\u0301", "\ud800", "\udcff", "", "NA", " NA "),
    *("x" * 15, "x" * 16, "x" * 17, "x" * 16 + "\0", "x" * 300, "y" * 300, "x" * 15 + "\0", "ééééééééé"),
    "12345678-1234-1234-1234-123456789abc",
    "12345678-1234-1234-1234-123456789ABC",
    "12345678-1234-1234-1234-123456789aBC",
    "12345678-1234-1234-1234-123456789abd",
    "12345678-1234-1234-1234-123456789012",
    "12345678123412341234123456789abc",
    "{12345678-1234-1234-1234-123456789abc}",
    bytes.fromhex("12345678123412341234123456789abc").decode("latin-1"),
]
"""Texts that are different, some of which other rules take for one."""


@pytest.mark.parametrize("part", [4, 1 << 18])
@pytest.mark.parametrize("mixes", [1, 7, None], ids=["one mix", "seven mixes", "mixes"])
def test_ids_are_one_unit_just_if_they_are_equal(part: int, mixes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 columns of short, long and odd texts and UUIDs, also where many of them have one mix."""
    monkeypatch.setattr(ids, "PART", part)
    if mixes is not None:
        mixed = ids._mixed
        monkeypatch.setattr(ids, "_mixed", lambda words, tags: mixed(words, tags) % np.uint64(mixes))
    rng = np.random.default_rng(13)
    for _ in range(100):
        known = [
            *("".join(rng.choice(list("ab-0é"), rng.integers(0, 40))) for _ in range(20)),
            *(str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(3)),
            *rng.choice(ALIKE, 8).tolist(),
        ]
        texts = [known[place] for place in rng.integers(0, len(known), rng.integers(0, 60))]
        assert same(units(texts), texts)
        kept = rng.random(len(texts)) < 0.5
        assert same(
            units(texts, 5, kept), [text for text, is_kept in zip(texts, kept.tolist(), strict=True) if is_kept]
        )


def test_texts_that_look_alike_are_different_ids() -> None:
    assert same(units(ALIKE * 2), ALIKE * 2)
    present = [text for text in ALIKE if not missing(text)]
    assert len(set(present)) == len(present)
    assert len(set(units(present))) == len(present)


def test_many_ids_have_as_many_mixes() -> None:
    """10⁵ numbers as they are written, and as many texts that differ in one letter: a mix of 64 bits twice has 1e-9."""
    numbers = [str(number) for number in range(100_000)]
    letters = [f"{'p' * (number % 15)}{string.printable[number // 15 % 90]}{number}"[:16] for number in range(100_000)]
    for texts in (numbers, sorted(set(letters))):
        column = ids.Ids(missing)
        column.add(texts, None)
        words, tags = column._words.array().reshape(-1, 2), column._tags.array()
        assert len(np.unique(ids._mixed(words, tags))) == len(texts)


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_blocks_of_tables_have_the_ids_of_their_texts(library: str) -> None:
    """Nulls are no unit; a text that stands for a missing one in a CSV file is an id here."""
    module = pytest.importorskip(library)
    rng = np.random.default_rng(17)
    known = [text.encode("utf-8", "replace").decode() for text in ALIKE]
    texts = [None if rng.random() < 0.1 else known[int(rng.integers(len(known)))] for _ in range(300)]
    kept = rng.random(300) < 0.7
    column = ids.GatheredIds()
    for part in np.array_split(np.arange(300), 7):
        values = [texts[place] for place in part]
        block = (
            module.array(values, module.string())
            if library == "pyarrow"
            else module.Series(values, dtype=module.String)
        )
        column.add(read(block, "ids"), kept[part])
    found = column.column().values.tolist()
    rows = [texts[place] for place in np.flatnonzero(kept)]
    assert [unit < 0 for unit in found] == [text is None for text in rows]
    pairs = {(unit, text) for unit, text in zip(found, rows, strict=True) if text is not None}
    assert len(pairs) == len({unit for unit, _ in pairs}) == len({text for _, text in pairs})


def test_names_and_ids_are_missing_alike() -> None:
    texts = ["a", "", "NA", "b", "a"]
    names = Names(missing)
    names.add(texts, None)
    assert [code >= 0 for code in names.column().values] == [unit >= 0 for unit in units(texts)]
