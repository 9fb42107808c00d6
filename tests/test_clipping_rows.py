"""Clipped rows and trees: the bound in exact arithmetic, the bits by definition (`tests/reference/clipping.py`)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from reference import clipping as reference
from support.clipping import DTYPES, LENGTHS, RANGES, far_rows_and_bounds, rows_and_bounds

ORDERS = [1, 2, math.inf]


def bits(array):
    return array.view({4: np.uint32, 8: np.uint64}[array.dtype.itemsize]).tolist()


def same_number(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("order", ORDERS)
@given(rows_and_bounds())
def test_no_row_leaves_longer_than_the_clip_norm(order, case):
    """The bound is exact, not up to rounding: sensitivity is read off it."""
    row, bound = case

    clipped, norms = fd.clip_rows(row[None], clip_norm=bound, ord=order)

    assert clipped.dtype == row.dtype
    assert clipped.shape == (1, row.size)
    assert reference.within(clipped[0], bound, order)
    if np.isfinite(row).all() and reference.within(row, bound, order):
        assert bits(row) == bits(clipped[0])  # same bits, signs of zeros too
    assert math.isnan(norms[0]) == (not np.isfinite(row).all())


@pytest.mark.parametrize("order", ORDERS)
@given(far_rows_and_bounds())
def test_no_row_is_too_long_however_far_it_is_from_the_bound(order, case):
    """Where a bound divided by a norm is subnormal or underflows, or a power of an element does."""
    row, bound = case

    clipped, norms = fd.clip_rows(row[None], clip_norm=bound, ord=order)

    assert reference.within(clipped[0], bound, order)
    if not reference.within(row, bound, order):
        size = 1 if order == math.inf else row.size
        assert np.abs(clipped[0].astype(np.float64)).max() > bound / (2 * size)  # not lost either
    expected, norm = reference.clip([row], bound, order)
    assert bits(expected) == bits(clipped[0])
    assert same_number(norm, norms[0])


@pytest.mark.parametrize("order", [1, 2])
@given(far_rows_and_bounds())
def test_norms_are_as_close_as_stated_at_any_size(order, case):
    row, bound = case

    norm = fd.clip_rows(row[None], clip_norm=bound, ord=order)[1][0]

    power = reference.exact_power_sum(row, order)
    if math.isfinite(norm):
        relative, least = Fraction(150 + 1, 2**53), Fraction(2) ** -1074
        assert (max(Fraction(norm) - least, Fraction(0)) / (1 + relative)) ** order <= power
        assert power <= ((Fraction(norm) + least) / (1 - relative)) ** order
    else:
        assert power >= Fraction(2) ** (1023 * order)


def test_a_row_that_is_300_decades_too_long_keeps_to_the_bound():
    clipped, norms = fd.clip_rows(np.array([[6.7e300]]), clip_norm=2e-23, ord=1)

    assert 1.99e-23 < clipped[0, 0] <= 2e-23
    assert norms[0] == 6.7e300


@pytest.mark.parametrize("order", ORDERS)
@given(rows_and_bounds())
def test_rows_have_the_bits_of_the_definition(order, case):
    row, bound = case

    clipped, norms = fd.clip_rows(row[None], clip_norm=bound, ord=order)

    expected, norm = reference.clip([row], bound, order)
    assert bits(expected) == bits(clipped[0])
    assert same_number(norm, norms[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length_have_the_bits_of_the_definition(dtype, length):
    rng = np.random.default_rng(length)
    matrix = rng.normal(size=(3, length)).astype(dtype)
    for order in (1, 2):
        clipped, norms = fd.clip_rows(matrix, clip_norm=0.7, ord=order)

        for row, out, norm in zip(matrix, clipped, norms, strict=True):
            expected, expected_norm = reference.clip([row], 0.7, order)
            assert (bits(expected), expected_norm) == (bits(out), norm)


@pytest.mark.parametrize("order", ORDERS)
def test_norms_agree_with_numpy(order):
    matrix = np.random.default_rng(1).normal(size=(20, 5000))

    norms = fd.clip_rows(matrix, clip_norm=1.0, ord=order)[1]

    # Ours: (150 + 5)·2⁻⁵³. numpy's: at most 5000·2⁻⁵³.
    np.testing.assert_allclose(norms, np.linalg.norm(matrix, axis=1, ord=order), rtol=5200 * 2**-53)


def test_scaling_loses_no_more_than_rounding_takes():
    matrix = np.random.default_rng(2).normal(size=(5, 1000))
    for order in (1, 2):
        clipped = fd.clip_rows(matrix, clip_norm=1.0, ord=order)[0]

        # The factor is short by 4·(148 + 2)·2⁻⁵³ = 7e-14; numpy's sums are off by at most 1000·2⁻⁵³ = 1.2e-13.
        assert (np.linalg.norm(clipped, axis=1, ord=order) > 1 - 2e-13).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("order", ORDERS)
def test_a_row_that_is_not_finite_becomes_zeros(dtype, bad, order):
    for position in (0, 16, 40):
        matrix = np.full((3, 41), 0.001, dtype)
        matrix[1, position] = bad

        clipped, norms = fd.clip_rows(matrix, clip_norm=1.0, ord=order)

        assert bits(clipped[1]) == [0] * 41
        assert math.isnan(norms[1])
        assert (clipped[[0, 2]] == matrix[[0, 2]]).all()


def test_hard_norms_have_the_documented_outcome():
    matrix = np.array([[1e308, 1e308], [3e200, 4e200], [3e-200, 4e-200], [0.0, -0.0], [0.6, 0.8]])
    clipped, norms = fd.clip_rows(matrix, clip_norm=1.0)

    assert norms.tolist() == pytest.approx([math.sqrt(2) * 1e308, 5e200, 5e-200, 0.0, 1.0], rel=1e-15, abs=0)
    assert bits(clipped[2:4].ravel()) == bits(matrix[2:4].ravel())
    assert clipped[0] == pytest.approx([math.sqrt(0.5)] * 2, rel=1e-13, abs=0)
    huge = np.full((1, 100), 1.7e308)
    assert fd.clip_rows(huge, clip_norm=1.0)[1][0] == math.inf


def test_input_is_never_written_and_output_is_new():
    matrix = np.ones((2, 3))
    matrix.setflags(write=False)

    clipped, _ = fd.clip_rows(matrix, clip_norm=100.0)

    assert not np.shares_memory(clipped, matrix)
    assert clipped.flags.writeable


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_change_no_bit(threads):
    matrix = np.random.default_rng(3).normal(size=(3000, 70)).astype(np.float32)

    expected = fd.clip_rows(matrix, clip_norm=1.0, threads=1)
    found = fd.clip_rows(matrix, clip_norm=1.0, threads=threads)

    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


@given(st.lists(rows_and_bounds(), min_size=1, max_size=4), st.data())
def test_a_tree_is_one_vector(cases, data):
    dtype = cases[0][0].dtype
    bound = cases[0][1]
    leaves = [row for row, _ in cases if row.dtype == dtype]
    tree = data.draw(st.sampled_from([leaves, tuple(leaves), {"a": leaves[:1], 7: tuple(leaves[1:])}]))

    clipped, norm = fd.clip_by_global_norm(tree, clip_norm=bound)

    expected, expected_norm = reference.clip(leaves, bound, 2)
    found = clipped if not isinstance(clipped, dict) else [*clipped["a"], *clipped[7]]
    assert bits(expected) == bits(np.concatenate(list(found)))
    assert same_number(expected_norm, norm)
    assert type(clipped) is type(tree)
    assert reference.within(np.concatenate(list(found)), bound, 2)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_matrices_are_clipped_to_empty_ones(shape):
    for order in ORDERS:
        clipped, norms = fd.clip_rows(np.empty(shape, np.float32), clip_norm=1.0, ord=order)

        assert clipped.shape == shape
        assert norms.tolist() == [0.0] * shape[0]


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(fd.errors.InvalidArray, match=f"matrix must have 2 dimensions.*got {len(shape)}"):
        fd.clip_rows(np.zeros(shape), clip_norm=1.0)
    with pytest.raises(fd.errors.InvalidArray, match=f"matrix must have 2 dimensions.*got {len(shape)}"):
        fd.clip_and_sum(np.zeros(shape), clip_norm=1.0)


@pytest.mark.parametrize("order", [0, 3, -1, 1.5, "2", None, True, math.nan])
def test_other_norms_are_refused(order):
    with pytest.raises(fd.errors.InvalidParameter, match="ord must be 1, 2 or inf"):
        fd.clip_rows(np.zeros((1, 1)), clip_norm=1.0, ord=order)


CALLS = {
    "clip_rows": lambda array, **keywords: fd.clip_rows(array, **keywords),
    "clip_and_sum": lambda array, **keywords: fd.clip_and_sum(array, **keywords),
    "clip_by_global_norm": lambda array, **keywords: fd.clip_by_global_norm([array], **keywords),
    "ClippedSum": lambda array, **keywords: fd.ClippedSum(array, **keywords),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_clip_norms_out_of_range_are_refused_with_the_range(call, dtype):
    array = np.zeros((2, 2), dtype)
    low, high = RANGES[dtype]
    for bad in (0.0, -0.0, -1.0, math.nan, math.inf, -math.inf):
        with pytest.raises(fd.errors.InvalidParameter, match="clip_norm must be finite and > 0"):
            call(array, clip_norm=bad)
    exponents = "-120 and below 2\\^128" if dtype == np.float32 else "-500 and below 2\\^500"
    for bad in (math.nextafter(low, 0), 5e-324, high * (1 + 2**-52), 1e308):
        with pytest.raises(fd.errors.InvalidParameter, match=f"clip_norm must be at least 2\\^{exponents}"):
            call(array, clip_norm=bad)
    for wrong in ("1", None, True, [1.0], 1j, np.ones(1)):
        with pytest.raises(fd.errors.InvalidType, match="clip_norm"):
            call(array, clip_norm=wrong)
    for fine in (low, high, 1, np.float32(1)):
        call(array, clip_norm=fine)
    with pytest.raises(TypeError):
        call(array)
