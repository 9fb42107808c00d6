"""How many rows were within the bound: counted exactly, row by row, and kept with the sum."""

import base64
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from reference import clipping as reference
from support.clipping import DTYPES, far_rows_and_bounds, rows_and_bounds

OLD = base64.b64decode(json.loads((Path(__file__).parents[1] / "stored" / "sums.json").read_text())[0]["state"])
"""A sum of three rows of three float32, clipped to 1.5, as version 1 stored it."""


@given(st.lists(st.one_of(rows_and_bounds(), far_rows_and_bounds()), max_size=4))
def test_rows_of_any_bits_are_counted_by_the_definition(cases):
    for row, bound in cases:
        for stability in (None, bound):
            total = fd.clip_and_sum(row[None], clip_norm=bound, stability=stability)

            assert total.within_bound == (np.isfinite(row).all() and reference.within(row, bound, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_at_the_bound_is_within_and_the_next_longer_one_is_not(dtype):
    for bound in (1.0, 0.75, 2.0**-100, 3.0 * 2.0**90):
        x = dtype(bound)
        for norm, expected in ((np.nextafter(x, dtype(0)), 1), (x, 1), (-x, 1), (np.nextafter(x, dtype(np.inf)), 0)):
            row = np.zeros((1, 40), dtype)
            row[0, 17] = norm

            assert fd.clip_and_sum(row, clip_norm=bound).within_bound == expected
            assert fd.clip_and_sum(row, clip_norm=bound, stability=1.0).within_bound == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_not_within(bad):
    matrix = np.zeros((3, 5))
    matrix[1, 4] = bad

    assert fd.clip_and_sum(matrix, clip_norm=1.0).within_bound == 2


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(0, 7), (5, 0), (300, 100), (3, 100_000), (5, 3_000_000)])
def test_every_way_of_adding_counts_the_same_rows(shape, threads):
    rng = np.random.default_rng(3)
    matrix = np.zeros(shape, np.float32)
    if matrix.size:
        matrix[:, rng.integers(shape[1])] = rng.choice(np.float32([0.5, 1.0, 1.5, np.nan]), shape[0])
    expected = int(np.sum(np.abs(matrix).max(axis=1, initial=0.0) <= 1.0))  # NaN is not

    total = fd.ClippedSum((shape[1],), clip_norm=1.0, dtype=np.float32)
    total.add_many(matrix, threads=threads)

    assert total.within_bound == expected
    assert 0 <= total.within_bound <= total.count == shape[0]


def test_a_row_is_counted_whatever_rows_it_comes_with():
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(64, 33)) / math.sqrt(33)
    alone = [fd.clip_and_sum(row[None], clip_norm=1.0).within_bound for row in matrix]

    assert 0 < sum(alone) < 64
    for start in range(0, 64, 7):
        part = fd.clip_and_sum(matrix[start : start + 13], clip_norm=1.0)
        assert part.within_bound == sum(alone[start : start + 13])


def test_an_update_in_leaves_is_one_row():
    acc = fd.ClippedSum([(2,), ()], clip_norm=5.0)
    acc.add([np.array([3.0, 0.0]), np.array(4.0)])
    acc.add([np.array([3.0, 0.0]), np.array(4.000001)])

    assert acc.within_bound == 1


def test_a_merge_and_a_state_keep_the_number():
    acc = fd.ClippedSum((2,), clip_norm=1.0)
    acc.add_many(np.array([[0.5, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    other = fd.ClippedSum.from_state(acc.state())
    other.merge(acc)

    assert (other.count, other.within_bound) == (6, 4)
    for checksum in ("sha256", "fast"):
        state = other.state(checksum=checksum)
        assert fd.ClippedSum.from_state(state).within_bound == 4
        again = fd.ClippedSum((2,), clip_norm=1.0)
        again.merge_state(state)
        again.merge_state(state)
        assert again.within_bound == 8
    acc.release(noise_multiplier=1.0)
    assert acc.within_bound == 2


def test_it_is_not_known_of_rows_that_an_earlier_version_added():
    restored = fd.ClippedSum.from_state(OLD)
    fresh = fd.ClippedSum((3,), clip_norm=1.5, dtype=np.float32)
    fresh.merge(restored)
    fresh.add(np.zeros(3, np.float32))
    restored.add(np.zeros(3, np.float32))

    merged = fd.ClippedSum((3,), clip_norm=1.5, dtype=np.float32)
    merged.merge_state(fresh.state(checksum="fast"))
    copies = [fd.ClippedSum.from_state(fresh.state(checksum=kind)) for kind in ("sha256", "fast")]
    for total in (restored, fresh, merged, *copies):
        assert total.count == 4
        with pytest.raises(fd.errors.FerroError, match="within_bound is not known"):
            _ = total.within_bound
