"""Clip, sum and noise from end to end: what one client can move, and what noise hides it."""

import hashlib
import math

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd

pytestmark = pytest.mark.statistical

ALPHA = 1e-9  # of each test, were its seed fresh; seeds are names, so each passes or fails for ever
CLIP = 3.0


def seeded(name):
    return fd.testing.seeded(hashlib.sha256(f"sums {name}".encode()).digest())


def clients(name, count, width, size):
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]))
    return rng.standard_normal((count, width)) * size / math.sqrt(width)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_draws_its_multiplier_times_its_clip_norm(dtype):
    accumulator = fd.ClippedSum((1 << 18,), clip_norm=CLIP, dtype=dtype)
    draws = accumulator.release(noise_multiplier=1.7, source=seeded(f"noise {dtype.__name__}"))

    assert stats.kstest(draws.astype(np.float64), stats.norm(0.0, 1.7 * CLIP).cdf).pvalue > ALPHA


@pytest.mark.parametrize("many", [False, True])
def test_every_client_is_clipped_by_itself_before_the_sum(many):
    """Ten clients at the bound, all in one direction, sum to ten times the bound; each alone moves it by the bound."""
    rows = np.zeros((10, 40))
    rows[:, 7] = [1.0, 1.5, 3.0, 3.5, 10.0, 1e3, 1e10, 1e100, 1e300, 2.0]
    accumulator = fd.ClippedSum((40,), clip_norm=CLIP)
    if many:
        accumulator.add_many(rows)
    else:
        for row in rows:
            accumulator.add(row)

    # Truncation and the factor rounded down cost at most a few grid steps, 2^-29 of the bound, each.
    assert accumulator.to_float()[7] == pytest.approx(np.minimum(rows[:, 7], CLIP).sum(), abs=10 * 4 * CLIP * 2.0**-29)


@pytest.mark.parametrize("size", [1e-6, 1.0, 2.9999, 3.0001, 1e4])
def test_one_client_moves_a_release_by_at_most_the_clip_norm(size):
    """The same seed with and without a client: the two differ by integers whose norm is within the bound, exactly."""
    rows = clients(f"sensitivity {size}", 20, 64, size)
    releases = []
    for kept in (rows, rows[1:]):
        accumulator = fd.ClippedSum((64,), clip_norm=CLIP)
        accumulator.add_many(kept)
        steps = accumulator.release(noise_multiplier=1.0, source=seeded("replay")) / accumulator.granularity
        releases.append([int(step) for step in steps])

    squares = sum((a - b) ** 2 for a, b in zip(*releases, strict=True))
    assert 0 < squares <= int((CLIP / accumulator.granularity) ** 2)


def test_a_client_that_is_not_finite_moves_nothing():
    rows = clients("not finite", 5, 16, 1.0)
    rows[2, 3] = math.nan
    accumulator, without = (fd.ClippedSum((16,), clip_norm=CLIP) for _ in range(2))
    accumulator.add_many(rows)
    without.add_many(np.delete(rows, 2, axis=0))

    assert np.array_equal(without.integers, accumulator.integers)
