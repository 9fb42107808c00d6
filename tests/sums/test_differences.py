"""Differences that are added without being written out are, bit for bit, those that numpy writes out first."""

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType
from support import row_cases
from support.row_cases import CLIP_NORM, LAYOUTS, VALUES

DTYPES = row_cases.dtypes()
WIDTHS = (1, 17, 300, 4130)


def total(leaves, stability=None):
    dtype = np.float64 if leaves[0].dtype == np.float64 else np.float32
    shapes = [leaf.shape for leaf in leaves]
    return fd.ClippedSum(shapes, clip_norm=CLIP_NORM, dtype=dtype, stability=stability)


def found(acc):
    return np.concatenate([np.ravel(each) for each in acc.integers]).tolist(), acc.within_bound, acc.count


def pairs(values, dtype, width):
    """Yield vectors and what is subtracted from them: nothing, much, what leaves exactly the values, all."""
    row = row_cases.matrix(values, dtype, (1, width))[0]
    far = np.random.default_rng(2).standard_normal(width).astype(dtype)
    with np.errstate(all="ignore"):
        yield row, np.zeros_like(row)
        yield row + far, far
        yield row * dtype.type(0.5), row * dtype.type(-0.5)
        yield row, row


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", VALUES)
def test_a_difference_is_that_of_numpy_bit_for_bit(dtype, values):
    wide = np.dtype(np.float64 if dtype == "float64" else np.float32)
    for width, leaves, stability in row_cases.cases(WIDTHS, (1, 3), (None, 0.1)):
        for row, minus in pairs(values, DTYPES[dtype], width):
            first, second = (row_cases.cut(each[None], min(leaves, width)) for each in (row, minus))
            with np.errstate(all="ignore"):
                written = [x.astype(wide) - y.astype(wide) for x, y in zip(first, second, strict=True)]
            expected, acc = total(first, stability), total(first, stability)
            expected.add(written)

            acc.add(first, minus=second)

            assert found(acc) == found(expected), (width, leaves, stability)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit_of_a_difference(threads):
    rng = np.random.default_rng(3)
    first, second = ([rng.standard_normal(n).astype("f4") for n in (100_001, 3, 40_000)] for _ in range(2))
    expected, acc = total(first), total(first)
    expected.add([x - y for x, y in zip(first, second, strict=True)])

    acc.add(first, minus=second, threads=threads)

    assert found(acc) == found(expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_a_difference_may_lie_anywhere(layout):
    rng = np.random.default_rng(4)
    row, minus = rng.standard_normal((2, 30, 40)).astype("f4")
    expected = total([row])
    expected.add([row - minus])
    for first, second in [(LAYOUTS[layout](row), minus), (row, LAYOUTS[layout](minus))]:
        acc = total([row])

        acc.add([first], minus=[second])

        assert found(acc) == found(expected)


def test_differences_of_scalars_and_of_empty_arrays_are_added():
    acc = fd.ClippedSum({"a": (), "b": (0, 3), "c": (2,)}, clip_norm=8.0)

    acc.add(
        {"c": np.array([1.0, 2.0]), "b": np.zeros((0, 3)), "a": np.array(5.0)},
        minus={"a": np.array(1.0), "b": np.zeros((0, 3)), "c": np.array([0.5, 2.0])},
    )

    assert {key: acc.to_float()[key].tolist() for key in "ac"} == {"a": 4.0, "c": [0.5, 0.0]}


def test_what_is_subtracted_has_to_look_like_the_template():
    acc = fd.ClippedSum((3,), clip_norm=1.0, dtype=np.float32)
    row = np.ones(3, np.float32)

    with pytest.raises(InvalidArray, match="minus must have shape"):
        acc.add(row, minus=np.ones(4, np.float32))
    with pytest.raises(InvalidArrayType, match="minus must have the dtype of the template"):
        acc.add(row, minus=np.ones(3))
    acc.release(noise_multiplier=1.0)
    with pytest.raises(FerroError, match="released"):
        acc.add(row, minus=row)

    assert acc.count == 0


def test_nothing_that_was_given_is_written_to():
    row, minus = np.full(10, 2.0), np.full(10, 0.5)
    row.flags.writeable = minus.flags.writeable = False

    acc = total([row])
    acc.add([row], minus=[minus])

    assert (np.full(10, 2.0).tolist(), np.full(10, 0.5).tolist()) == (row.tolist(), minus.tolist())
