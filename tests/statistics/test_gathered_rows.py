"""Columns that are read in blocks say what a whole column says; the rows of a unit that count are those of a sort."""

import datetime
import decimal
from typing import Any

import numpy as np
import pytest

from ferrodp.errors import InvalidArrayType
from ferrodp.statistics import _foreign
from ferrodp.statistics.keys import contributions
from ferrodp.statistics.rows import gathered
from ferrodp.testing import seeded


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("keep", ["random", "first"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int16])
def test_the_rows_of_a_unit_that_count_are_those_of_a_sort(rows: int, keep: str, dtype: Any) -> None:
    """400 tables, with the same coins: of each unit the first rows in the order of coins and places."""
    rng = np.random.default_rng(11)
    for case in range(400):
        owners = rng.integers(-1, rng.integers(1, 9), rng.integers(1, 40)).astype(dtype)
        if case % 3 == 0:
            owners.sort()
        drawn = (lambda case=case: seeded(case.to_bytes(32))) if keep == "random" else (lambda: None)
        found = contributions.rows_that_count(owners, rows, drawn())
        coins = np.zeros(owners.size, np.uint32)
        if keep == "random":
            coins = np.frombuffer(drawn().bytes(4 * owners.size), np.uint32)
        order = np.lexsort((np.arange(owners.size), coins, owners))
        place = np.zeros(owners.size, np.intp)
        for owner in range(-1, 9):
            own = order[owners[order] == owner]
            place[own] = np.arange(own.size)
        assert found.tolist() == ((owners >= 0) & (place < rows)).tolist()
        strided = contributions.rows_that_count(np.repeat(owners, 2)[::2], rows, drawn())
        assert strided.tolist() == found.tolist()


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", "f4", "f8", "?"])
@pytest.mark.parametrize("has_nulls", [True, False])
def test_numbers_are_one_unit_just_if_they_are_equal(
    dtype: str, has_nulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributions, "PART", 5)
    rng = np.random.default_rng(5)
    values = rng.integers(0, 4, 60).astype(dtype)
    if dtype[0] == "f":
        values[::7], values[1::11], values[2::9] = np.nan, np.inf, -0.0
    nulls = rng.random(60) < 0.3 if has_nulls else None

    found = contributions.units(_foreign.Numbers(values, nulls, True))

    missing = ~np.isfinite(values) | (False if nulls is None else nulls)
    assert np.array_equal(found < 0, missing)
    same = values[:, None] == values[None, :]
    both = ~missing[:, None] & ~missing[None, :]
    assert np.array_equal((found[:, None] == found[None, :])[both], same[both])


def columns() -> dict[str, Any]:
    """Return 60 rows of columns of Arrow, about a fifth of them null."""
    pyarrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    places = rng.integers(0, 6, 60).tolist()
    day = datetime.date(2026, 10, 25)
    noon = datetime.datetime(2026, 10, 25, 0, 30, tzinfo=datetime.UTC)  # in Berlin 2:30, and an hour later again
    made = {
        "whole": pyarrow.array([[0, 100, -128, 300, 2**40, -(2**62)][place] for place in places], pyarrow.int64()),
        "unsigned": pyarrow.array(
            [[0, 255, 256, 2**32, 2**63, 2**64 - 1][place] for place in places], pyarrow.uint64()
        ),
        "number": pyarrow.array([[0.5, -1.0, 2.0, float("nan"), 1e300, 0.1][place] for place in places]),
        "truth": pyarrow.array([place > 2 for place in places]),
        "text": pyarrow.array([["a", "b", "", "NA", "é", "7"][place] for place in places]),
        "code": pyarrow.array([["a", "b", "", "NA", "é", "7"][place] for place in places]).dictionary_encode(),
        "day": pyarrow.array([day + datetime.timedelta(place) for place in places]),
        "at": pyarrow.array(
            [noon + datetime.timedelta(hours=place) for place in places], pyarrow.timestamp("us", "Europe/Berlin")
        ),
        "price": pyarrow.array([decimal.Decimal(place).scaleb(-1) for place in places], pyarrow.decimal128(9, 2)),
        "raw": pyarrow.array([bytes([place]) for place in places]),
    }
    gone = pyarrow.array((rng.random(60) < 0.2) & (np.arange(60) >= 10))
    null = pyarrow.scalar(None)
    return {name: pyarrow.compute.if_else(gone, null.cast(column.type), column) for name, column in made.items()}


@pytest.mark.parametrize("selects", [True, False])
@pytest.mark.parametrize("name", ["whole", "unsigned", "number", "truth", "text", "code", "day", "at", "price", "raw"])
def test_columns_gathered_from_blocks_are_those_of_the_whole(name: str, selects: bool) -> None:
    """Of each type, blocks of 7 rows; rows that are not selected are not there."""
    pytest.importorskip("pyarrow.compute")
    column = columns()[name]
    kept = np.random.default_rng(8).random(60) < 0.7 if selects else np.ones(60, bool)
    whole = gathered.read(column, name)
    parts = gathered.Gathered(column[:0], name)
    for start in range(0, 60, 7):
        block = gathered.read(column[start : start + 7], name)
        parts.add(block, kept[start : start + 7] if selects else None)
    found = parts.column()

    if isinstance(whole, _foreign.Numbers):
        assert isinstance(found, _foreign.Numbers)
        assert found.values.dtype.kind == whole.values.dtype.kind
        nulls = np.zeros(60, bool) if whole.nulls is None else whole.nulls
        assert np.array_equal(found.values[~nulls[kept]], whole.values[kept & ~nulls], equal_nan=name == "number")
        assert np.array_equal(np.zeros(kept.sum(), bool) if found.nulls is None else found.nulls, nulls[kept])
        assert found.can_miss
        return
    assert isinstance(found, _foreign.Labels)
    assert (found.kind, found.conversion) == (whole.kind, whole.conversion)
    assert np.array_equal(found.values < 0, whole.values[kept] < 0)
    assert found.entries is not None
    assert whole.entries is not None
    ours = [repr(found.entries[code]) for code in found.values if code >= 0]
    assert ours == [repr(whole.entries[code]) for code in whole.values[kept] if code >= 0]
    together = [(a, b) for a, b in zip(found.values.tolist(), whole.values[kept].tolist(), strict=True) if a >= 0]
    assert len(set(together)) == len({a for a, _ in together}) == len({b for _, b in together})


def test_names_are_kept_once_and_missing_ones_are_none() -> None:
    names = gathered.Names(lambda name: not name.strip())
    names.add(["a", "", "b"], None)
    names.add(["b", "c", " ", "a"], np.array([True, False, True, True]))
    found = names.column()

    assert [found.entries[code] if code >= 0 else None for code in found.values] == ["a", None, "b", "b", None, "a"]  # type: ignore[index]
    assert np.array_equal(contributions.units(found) < 0, [False, True, False, False, True, False])


def test_rows_pass_a_test_of_what_they_hold_and_missing_ones_do_not() -> None:
    numbers = _foreign.Numbers(np.array([0.0, 1.0, np.nan, 5.0]), np.array([True, False, False, False]), True)
    labels = _foreign.Labels(np.array([0, -1, 1]), "strings", "", ["a", "b"])

    assert gathered.tested(numbers, lambda values: ~(values >= 1.0)).tolist() == [False, False, False, False]
    assert gathered.tested(numbers, lambda values: values < 3.0).tolist() == [False, True, False, False]
    assert gathered.tested(labels, lambda name: name != "b").tolist() == [True, False, False]
    assert gathered.present(labels).tolist() == [True, False, True]


def test_types_that_no_statistic_takes_are_refused_before_rows_are_read() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(InvalidArrayType, match="column x must be a column of"):
        gathered.Gathered(pyarrow.array([], pyarrow.list_(pyarrow.int8())), "column x")
