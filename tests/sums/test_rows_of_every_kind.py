"""Sums of rows of every shape, memory layout, dtype and kind of values are those of the definition."""

import math

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidArrayType
from reference import clipping as reference
from support import row_cases
from support.row_cases import CLIP_NORM, LAYOUTS, VALUES

DTYPES = row_cases.dtypes()
SHAPES = [
    (1, 40),
    (5, 70),
    (15, 3),
    (16, 1),
    (17, 2),
    (40, 16),
    (70, 1),
    (67, 2),
    (99, 3),
    (64, 4),
    (40, 100),
    (33, 128),
    (34, 129),
    (37, 31),
    (35, 32),
    (50, 33),
    (530, 7),
    (18, 300),
    (18, 4130),
]
"""Around 16 and 32 rows, which vectors hold; widths that count as short; blocks of columns; more rows than a group."""


def added(arrays, threads=1):
    dtype = np.float64 if arrays[0].dtype.newbyteorder("=") == np.float64 else np.float32
    total = fd.ClippedSum([(array.shape[1],) for array in arrays], clip_norm=CLIP_NORM, dtype=dtype)
    total.add_many(arrays, threads=threads)
    return np.concatenate([np.ravel(each) for each in total.integers]), total.within_bound


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", VALUES)
def test_sums_by_numpy_are_those_of_the_definition(dtype, values):
    """What the other tests compare with, itself compared with the slow reference, whose norms are rational numbers."""
    rows = row_cases.matrix(values, DTYPES[dtype], (6, 37))
    wide = rows if dtype in ("float32", "float64") else rows.astype(np.float32)
    leaves = row_cases.cut(rows, 2)
    cut = [row_cases.cut(row[None], 2) for row in wide]

    integers, within = row_cases.sums(leaves, CLIP_NORM)

    rows_of_integers = [reference.quantize([leaf[0] for leaf in leaves], CLIP_NORM) for leaves in cut]
    assert [sum(column) for column in zip(*rows_of_integers, strict=True)] == integers.tolist()
    finite = [row for row in wide if all(math.isfinite(x) for x in row)]
    assert sum(reference.within(row, CLIP_NORM, 2) for row in finite) == within


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_where_rows_lie_changes_no_bit(dtype, layout):
    for values, shape in row_cases.cases(VALUES, SHAPES):
        rows = row_cases.matrix(values, DTYPES[dtype], shape)

        found, within = added([LAYOUTS[layout](rows)])

        expected = row_cases.sums([rows], CLIP_NORM)
        assert np.array_equal(expected[0], found), (values, shape)
        assert expected[1] == within, (values, shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "byte order" in name or "aligned" in name])
def test_long_rows_that_are_brought_in_pieces_are_the_same(dtype, layout):
    """Longer than what is brought whole, whether rows or columns lie one after the other."""
    values = ("half of them beyond", "at the bound", "one in ten NaN", "subnormal", "huge")
    for value, shape in row_cases.cases(dict.fromkeys(values), dict.fromkeys([(3, 66_000), (17, 8200)])):
        rows = row_cases.matrix(value, DTYPES[dtype], shape)

        found, within = added([LAYOUTS[layout](rows)])

        expected = row_cases.sums([rows], CLIP_NORM)
        assert np.array_equal(expected[0], found), (value, shape)
        assert expected[1] == within, (value, shape)


@pytest.mark.parametrize("threads", [1, 3])
def test_arrays_that_are_brought_may_lie_beside_others(threads):
    rows = row_cases.matrix("half of them beyond", np.dtype(np.float32), (40, 90)).astype(np.float16)
    leaves = row_cases.cut(rows.astype(np.float32), 3)
    expected, within = row_cases.sums(leaves, CLIP_NORM)
    for ways in row_cases.cases(LAYOUTS, ["C", "Fortran"], ["C", "not aligned"]):
        arrays = [LAYOUTS[way](leaf) for way, leaf in zip(ways, leaves, strict=True)]
        arrays[1] = arrays[1].astype(np.float16)

        found = added(arrays, threads)

        assert np.array_equal(expected, found[0]), ways
        assert within == found[1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_update_may_lie_in_any_way(dtype):
    update = row_cases.matrix("half of them beyond", DTYPES[dtype], (30, 40))
    base = np.float64 if dtype == "float64" else np.float32
    expected = fd.ClippedSum((30, 40), clip_norm=CLIP_NORM, dtype=base)
    expected.add(update)
    for layout, way in LAYOUTS.items():
        found = fd.ClippedSum((30, 40), clip_norm=CLIP_NORM, dtype=base)
        found.add(way(update))

        assert np.array_equal(expected.integers, found.integers), layout


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_one_row_may_lie_in_different_ways(dtype):
    rows = row_cases.matrix("half of them beyond", DTYPES[dtype], (40, 90))
    leaves = row_cases.cut(rows, 3)
    expected = row_cases.sums(leaves, CLIP_NORM)
    ways = ["C", "Fortran", "every other column"]
    for first, second, third in row_cases.cases(ways, ways, ways):
        arrays = [LAYOUTS[way](leaf) for way, leaf in zip((first, second, third), leaves, strict=True)]
        for threads in (1, 2):
            found, within = added(arrays, threads)

            assert np.array_equal(expected[0], found)
            assert expected[1] == within


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("layout", ["C", "Fortran", "Fortran, every other column"])
def test_threads_change_no_bit_of_rows_that_lie_side_by_side(layout, threads):
    for shape in ((1000, 3), (101, 90)):
        rows = row_cases.matrix("half of them beyond", np.dtype(np.float32), shape)

        found, within = added([LAYOUTS[layout](rows)], threads)

        assert np.array_equal(row_cases.sums([rows], CLIP_NORM)[0], found)
        assert row_cases.sums([rows], CLIP_NORM)[1] == within


@pytest.mark.parametrize("rows", [0, 1, 2, 15, 16, 17, 40])
def test_arrays_without_elements_are_taken_in_any_order_of_memory(rows):
    """An array without columns beside others that lie column by column ended a call in a panic."""
    numbers = row_cases.matrix("half of them beyond", np.dtype(np.float32), (max(1, rows), 43))[:rows]
    ways = (np.ascontiguousarray, np.asfortranarray, LAYOUTS["every other column"], LAYOUTS["columns backwards"])
    for widths in ((0,), (0, 0), (0, 1), (3, 0), (40, 0), (0, 40, 3), (40, 0, 3)):
        leaves = np.split(numbers[:, : sum(widths)], np.cumsum(widths)[:-1], axis=1)
        expected, within = row_cases.sums(leaves, CLIP_NORM) if rows else (np.zeros(sum(widths)), 0)
        for choice in row_cases.cases(*[ways] * len(widths)):
            arrays = [way(leaf) for way, leaf in zip(choice, leaves, strict=True)]
            for threads in (1, 2):
                found = added(arrays, threads)

                assert np.array_equal(expected, found[0]), (widths, choice)
                assert within == found[1]
    empty = fd.clip_and_sum(np.asfortranarray(numbers[:, :0]), clip_norm=CLIP_NORM)
    assert (empty.integers.shape, empty.within_bound) == ((0,), rows)


def test_rows_that_are_one_and_the_same_are_added_as_often():
    """Strides of zero, in memory that is only read."""
    row = row_cases.matrix("half of them beyond", np.dtype(np.float32), (1, 90))
    for width in (1, 2, 16, 40, 90):
        for whole in (np.broadcast_to(row[:, :width], (37, width)), np.broadcast_to(row[0, 0], (37, width))):
            expected, within = row_cases.sums([np.array(whole)], CLIP_NORM)

            found = added([whole])

            assert np.array_equal(expected, found[0]), width
            assert within == found[1]


@pytest.mark.parametrize("layout", ["C", "Fortran", "Fortran, some rows backwards", "rows backwards"])
def test_a_second_element_is_seen_however_small_it_is(layout):
    """Rows of one element are told from the bound by its magnitude; those with one more are longer."""
    for width in (2, 40, 100, 300):
        rows = row_cases.matrix("one-hot", np.dtype(np.float64), (70, width))
        rows[::3] *= -1.0
        filled = rows[np.arange(70), np.abs(rows).argmax(axis=1)]
        for small in (5e-324, 1e-200, 1e-20, -1e-9):
            more = rows.copy()
            more[1::2, :][np.arange(35), (np.abs(rows[1::2]).argmax(axis=1) + 1) % width] = small
            assert (np.abs(more).max(axis=1) == np.abs(filled)).all()

            expected, within = row_cases.sums([more], CLIP_NORM)
            found = added([LAYOUTS[layout](more)])

            assert within == 35
            assert np.array_equal(expected, found[0]), (width, small)
            assert within == found[1], (width, small)


@pytest.mark.parametrize("backwards", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("widths", [(5, 60), (60, 5), (0, 60), (60, 0)])
def test_rows_of_some_arrays_or_of_all_may_lie_backwards(widths, backwards):
    """Row i is that of every array: only where all lie backwards may they be taken from the last one on."""
    rows = row_cases.matrix("half of them beyond", np.dtype(np.float32), (50, sum(widths)))
    leaves = np.split(rows, [widths[0]], axis=1)
    expected, within = row_cases.sums(leaves, CLIP_NORM)
    for order in ("C", "F"):
        arrays = [
            np.array(leaf[::-1], order=order)[::-1] if turned else np.array(leaf, order=order)
            for leaf, turned in zip(leaves, backwards, strict=True)
        ]
        for threads in (1, 2):
            found = added(arrays, threads)

            assert np.array_equal(expected, found[0])
            assert within == found[1]


def test_axes_of_an_array_may_lie_in_any_order():
    cubes = np.random.default_rng(1).standard_normal((20, 3, 4, 5)).astype(np.float32)
    expected = fd.ClippedSum((3, 4, 5), clip_norm=CLIP_NORM, dtype=np.float32)
    expected.add_many(cubes)
    for axes in ([3, 1, 2, 0], [0, 3, 2, 1], [2, 0, 3, 1], [1, 0, 2, 3]):
        moved = np.ascontiguousarray(cubes.transpose(axes)).transpose(np.argsort(axes))
        for stride in (1, -1):
            found = fd.ClippedSum((3, 4, 5), clip_norm=CLIP_NORM, dtype=np.float32)
            found.add_many(moved[::stride])
            one_by_one = fd.ClippedSum((3, 4, 5), clip_norm=CLIP_NORM, dtype=np.float32)
            for update in moved:
                one_by_one.add(update)

            assert np.array_equal(expected.integers, found.integers), axes
            assert np.array_equal(expected.integers, one_by_one.integers), axes


def test_normalized_rows_are_the_same_side_by_side_and_one_by_one():
    for dtype in (np.float32, np.float64):
        for values, width in row_cases.cases(VALUES, (1, 5, 40)):
            rows = row_cases.matrix(values, np.dtype(dtype), (40, width))
            expected = np.sum([reference.quantize([row], CLIP_NORM, 0.25) for row in rows], axis=0)

            for layout in ("C", "Fortran"):
                found = fd.clip_and_sum(LAYOUTS[layout](rows), clip_norm=CLIP_NORM, stability=0.25)

                assert np.array_equal(expected, found.integers), (values, width)


def test_rows_of_16_bits_are_rows_of_float32():
    rows = row_cases.matrix("half of them beyond", np.dtype(np.float16), (50, 20))
    total = fd.clip_and_sum(rows, clip_norm=1.0)
    wide = fd.clip_and_sum(rows.astype(np.float32), clip_norm=1.0)

    assert np.array_equal(wide.integers, total.integers)
    assert (total.dtype, total.release(noise_multiplier=1.0).dtype) == (np.float32, np.float32)
    mixed = fd.ClippedSum([(10,), (10,)], clip_norm=1.0, dtype=np.float32)
    mixed.add_many([rows[:, :10], rows[:, 10:].astype(np.float32)])
    alike = fd.ClippedSum([(10,), (10,)], clip_norm=1.0, dtype=np.float32)
    alike.add_many([rows[:, :10], rows[:, 10:]])
    assert np.array_equal(mixed.integers, alike.integers)
    with pytest.raises(InvalidArrayType, match="must have the dtype of the template, float64, got float16"):
        fd.ClippedSum((20,), clip_norm=1.0).add_many(rows)
