"""Sums of clipped outer products: what a product of matrices adds up is as certified as what is added row by row."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.sums import UnitRows

BOUNDS = [2.0**-5, 0.1, 1.0, 3.7e8]


def sums(shape, clip_norm=1.0, **options):
    return fd.ClippedSum(shape, clip_norm=clip_norm, **options)


def pairs(max_rows=4):
    numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)

    @st.composite
    def drawn(draw):
        n, k, d = draw(st.integers(0, max_rows)), draw(st.integers(1, 5)), draw(st.integers(1, 40))
        arrays = (hnp.arrays(np.float64, (n, width), elements=numbers | st.floats(-1, 1)) for width in (k, d))
        return tuple(draw(array) for array in arrays)

    return drawn()


@given(pairs(max_rows=1), st.sampled_from(BOUNDS), st.sampled_from([None, 0.01]))
def test_no_outer_product_is_longer_than_the_clip_norm(pair, clip_norm, stability):
    """In exact integers, whatever the floats are: the sensitivity is read off it."""
    left, right = pair
    total = sums((left.shape[1], right.shape[1]), clip_norm, stability=stability)

    total.add_outer(left, right)

    length = sum(int(k) ** 2 for k in total.integers.ravel())
    assert length <= (Fraction(clip_norm) / Fraction(total.granularity)) ** 2


@given(pairs(), st.sampled_from(BOUNDS))
def test_a_sum_is_that_of_its_rows(pair, clip_norm):
    left, right = pair
    shape = left.shape[1], right.shape[1]
    together, alone = sums(shape, clip_norm), sums(shape, clip_norm)

    together.add_outer(left, right)
    for i in range(len(left)):
        alone.add_outer(left[i : i + 1], right[i : i + 1])

    assert np.array_equal(alone.integers, together.integers)
    assert together.count == alone.count == len(left)


@pytest.mark.parametrize("clip_norm", BOUNDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_close_to_the_sum_of_the_products_written_out(clip_norm, dtype):
    """Truncation takes up to √d·2⁻ᵇ of the right factor and √k·2^(b − 29) of a left one of the clip norm's length."""
    rng = np.random.default_rng(1)
    left, right = (rng.normal(size=(50, width)).astype(dtype) for width in (9, 138))
    left *= clip_norm / 10 * rng.uniform(0, 3, size=(50, 1)).astype(dtype)
    bits = 14 + math.ceil(math.log2(138) / 4)
    coarse, fine = (sums((9, 138), clip_norm, dtype=dtype) for _ in range(2))

    coarse.add_outer(left, right)
    fine.add_many(left[:, :, None] * right[:, None, :])

    error = np.linalg.norm(coarse.to_float() - fine.to_float()) / clip_norm
    assert error <= 50 * (math.sqrt(138) * 2.0**-bits + 3.0 * 2.0 ** (bits - 29) + 1e-6)


def test_products_within_the_norm_keep_their_length():
    total = sums((2, 2))

    total.add_outer(np.array([[0.25, 0.0]]), np.array([[0.0, 2.0]]))

    assert total.to_float() == pytest.approx(np.array([[0.0, 0.5], [0.0, 0.0]]), abs=2.0**-12)


def test_normalized_products_have_a_length_that_says_little():
    total = sums((1, 2), stability=0.01)

    total.add_outer(np.array([[1e-3], [1e3]]), np.array([[1.0, 0.0], [0.0, 1.0]]))

    assert total.to_float() == pytest.approx(np.array([[1e-3 / 0.011, 1e3 / 1000.01]]), abs=2.0**-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_counts_as_zeros(bad):
    total = sums((2, 2))

    total.add_outer(np.array([[bad, 1.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, bad]]))

    assert not total.integers.any()
    assert total.count == 2


def test_prepared_rows_give_the_same_sum():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(7, 3)), rng.normal(size=(7, 20))
    members = np.array([0, 2, 5])
    prepared, fresh = sums((3, 20)), sums((3, 20))

    prepared.add_outer(left[members], UnitRows(right)[members])
    fresh.add_outer(left[members], np.asfortranarray(right[members]))

    assert np.array_equal(fresh.integers, prepared.integers)


def test_it_is_added_to_what_is_there():
    first, second = np.ones((1, 2)), np.ones((1, 3)) / 10
    total, other = sums((2, 3)), sums((2, 3))

    total.add(np.full((2, 3), 0.25))
    before = total.integers
    total.add_outer(first, second)
    other.add_outer(first, second)

    assert np.array_equal(before + other.integers, total.integers)
    with pytest.raises(FerroError, match="not known"):
        _ = total.within_bound


@pytest.mark.parametrize(
    ("left", "right", "error"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), InvalidArray),
        (np.ones((2, 2)), np.ones((3, 3)), InvalidArray),
        (np.ones(2), np.ones((2, 3)), InvalidArray),
        (np.ones((2, 2)), np.ones((2, 0)), InvalidArray),
        (np.ones((2, 2)), np.ones((2, 3), dtype=complex), InvalidArrayType),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_added(left, right, error):
    total = sums((2, 3))

    with pytest.raises(error):
        total.add_outer(left, right)

    assert total.count == 0


def test_trees_have_no_outer_products():
    with pytest.raises(InvalidArray, match="template"):
        sums({"w": (2, 3)}).add_outer(np.ones((1, 2)), np.ones((1, 3)))


def test_a_released_sum_takes_no_more():
    total = sums((1, 1))
    total.release(noise_multiplier=1.0)

    with pytest.raises(FerroError):
        total.add_outer(np.ones((1, 1)), np.ones((1, 1)))


def test_rows_are_picked_by_slices_and_indices_alone():
    rows = UnitRows(np.eye(3))

    assert len(rows[1:]) == 2
    with pytest.raises(InvalidArray):
        rows[0]


def test_too_wide_rows_are_refused():
    with pytest.raises((InvalidArray, InvalidParameter)):
        UnitRows(np.broadcast_to(np.float32(0), (0, 2**24 + 1)))
