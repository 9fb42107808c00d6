"""Draws of the production path against the stated laws, by tools that share no code with the core or its test kit.

Each test draws 2^20 samples, with a seed made of its name: it passes or fails for ever. Each p-value is compared with
1e-9, so the whole file (about 200 of them) would raise a false alarm once in five million runs if seeds were fresh. At
this size a scale that is 1 % off, or a bias of 1 % of the scale, is 10 standard errors away. `deep` in the Rust crate
ferrodp-testkit does the same with fresh keys and 10^8 draws.
"""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from reference import rounded_noise
from support import vectors

pytestmark = pytest.mark.statistical

DRAWS = 1 << 20
ALPHA = 1e-9
LAWS = {"gaussian": stats.norm, "laplace": stats.laplace}
SCALES = {"gaussian": "standard_deviation", "laplace": "scale"}


def seeded(name):
    return fd.testing.seeded(hashlib.sha256(name.encode()).digest())


def releases(law, value, scale, name, *, dtype=np.float64, granularity=None, count=DRAWS):
    values = np.full(count, value, dtype)
    getattr(seeded(name), f"add_{law}_")(values, **{SCALES[law]: scale}, granularity=granularity)
    return values.astype(np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("law", LAWS)
def test_fine_grids_look_continuous(law, dtype):
    """Kolmogorov and Smirnov; a grid of 2^-20 scales is a thousandth of what 2^20 draws resolve."""
    for value, scale in [(0.0, 1.0), (0.7, 3.3), (-1e4, 250.0), (1e-3, 1e-3)]:
        draws = releases(law, value, scale, f"continuous {law} {dtype.__name__} {value}", dtype=dtype)

        center = float(dtype(value))
        assert stats.kstest(draws, LAWS[law](center, scale).cdf).pvalue > ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_means_and_variances_are_those_stated(law):
    """Normal approximation of both sums; their skewness and excess kurtosis are below 0.02 and 1e-4 at 2^20 draws."""
    variance, kurtosis = {"gaussian": (1.0, 3.0), "laplace": (2.0, 6.0)}[law]
    for value in (0.0, 0.3, 1000.1):
        z = (releases(law, value, 2.0, f"moments {law} {value}") - value) / 2.0

        assert 2 * stats.norm.sf(abs(z.sum()) / math.sqrt(DRAWS * variance)) > ALPHA
        excess = (z * z - variance).sum() / (variance * math.sqrt(DRAWS * (kurtosis - 1)))
        assert 2 * stats.norm.sf(abs(excess)) > ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_far_draws_are_as_frequent_as_they_should_be(law):
    for distance in {"gaussian": (3, 4, 4.5, 5), "laplace": (6, 8, 10, 12)}[law]:
        draws = releases(law, 0.25, 1.0, f"tails {law} {distance}")
        for far in (draws > 0.25 + distance, draws < 0.25 - distance):
            count = np.count_nonzero(far)

            assert stats.binomtest(count, DRAWS, LAWS[law].sf(distance)).pvalue > ALPHA


@pytest.mark.parametrize("center", [0.0, 0.3, 0.5, -7.4999])
@pytest.mark.parametrize("ratio", [0.125, 0.5, 1.0, 3.7, 10.0, 30.0])
@pytest.mark.parametrize("law", LAWS)
def test_coarse_grids_have_exactly_the_probabilities_of_the_reference(law, ratio, center):
    """Chi-square over single integers, in units of the grid; those with fewer than ten draws due are put together."""
    draws = releases(law, center, ratio, f"coarse {law} {ratio} {center}", granularity=1.0).astype(np.int64)
    start, stop = round(center - 12 * ratio), round(center + 12 * ratio) + 1
    pmf = [rounded_noise.probability(law, n, Fraction(center), Fraction(ratio)) for n in range(start, stop)]
    due = DRAWS * np.array(pmf, dtype=float)
    counts = np.bincount(np.clip(draws, start - 1, stop) - (start - 1), minlength=len(due) + 2)[1:-1]

    common = due >= 10
    observed = [*counts[common], DRAWS - counts[common].sum()]
    expected = [*due[common], DRAWS - due[common].sum()]
    if expected[-1] < 10:
        observed = [*observed[:-2], observed[-2] + observed[-1]]
        expected = [*expected[:-2], expected[-2] + expected[-1]]
    assert len(expected) >= 2
    assert stats.chisquare(observed, expected).pvalue > ALPHA


@pytest.mark.parametrize("entry", vectors.samplers("rgauss-pmf"))
def test_draws_hit_integers_with_the_given_probabilities(entry):
    x, sigma = entry["inputs"]["x"], float(entry["inputs"]["sigma"])
    draws = releases("gaussian", 0.0, sigma, f"given pmf {entry['id']}", granularity=1.0)

    for side in {x, -x}:
        assert stats.binomtest(np.count_nonzero(draws == side), DRAWS, float(entry["expected"])).pvalue > ALPHA


@pytest.mark.parametrize("entry", vectors.samplers("rgauss-var"))
def test_draws_have_the_given_variances(entry):
    """The sum of squares is compared through its own empirical spread, which 2^20 draws know to 0.2 %."""
    draws = releases("gaussian", 0.0, float(entry["inputs"]["sigma"]), f"given variance {entry['id']}", granularity=1.0)
    squares = draws * draws
    score = (squares.mean() - float(entry["expected"])) / (squares.std() / math.sqrt(DRAWS))

    assert 2 * stats.norm.sf(abs(score)) > ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_calls_positions_and_laws_are_independent(law):
    """Correlations of neighbors, of lanes, of one call with the next, of sizes as well as values (bounded scores)."""
    source = seeded(f"independence {law}")
    first, second = (getattr(source, law)(DRAWS, **{SCALES[law]: 1.0}) for _ in range(2))
    u, w = (LAWS[law].cdf(draws) - 0.5 for draws in (first, second))
    pairs = [(u[lag:], u[:-lag]) for lag in (1, 2, 3, 4, 7, 8, 16, 32, 1024, 32768)] + [(u, w), (u[1:], w[:-1])]
    for a, b in pairs:
        for x, y in ((a, b), (abs(a) - 0.25, abs(b) - 0.25)):
            score = (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum() / len(x))

            assert 2 * stats.norm.sf(abs(score)) > ALPHA


def test_bytes_are_uniform_and_independent():
    data = np.frombuffer(seeded("bytes").bytes(1 << 22), np.uint8)
    pairs = data[::2].astype(np.int64) * 256 + data[1::2]

    assert stats.chisquare(np.bincount(data, minlength=256)).pvalue > ALPHA
    assert stats.chisquare(np.bincount(pairs, minlength=65536)).pvalue > ALPHA
    ones = int(np.unpackbits(data).sum())
    assert stats.binomtest(ones, data.size * 8).pvalue > ALPHA
    for lag in (1, 4, 16, 64, 4096):
        counts = np.bincount((data[lag:] ^ data[:-lag]), minlength=256)
        assert stats.chisquare(counts).pvalue > ALPHA
