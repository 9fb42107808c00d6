"""Exact binomial bounds against sums of 40 digits."""

import math
import random

import mpmath as mp
import pytest

from ferrodp.audit import _binomial


def exact(n, p, k):
    """Return P[X ≥ k] by adding terms of the shorter tail until they no longer matter."""
    with mp.workdps(40):
        if k <= 0 or k > n or p in (0.0, 1.0):
            return mp.mpf(k <= 0 or (p == 1.0 and k <= n))
        if k <= n * p:
            return 1 - mp.mpf(_tail(n, 1 - mp.mpf(p), n - k + 1))
        return _tail(n, mp.mpf(p), k)


def _tail(n, p, k):
    term = mp.exp(
        mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(p) + (n - k) * mp.log1p(-p)
    )
    total, odds = term, p / (1 - p)
    while k < n and term > total * mp.mpf("1e-30"):
        term *= odds * (n - k) / (k + 1)
        total += term
        k += 1
    return total


def settings():
    draw = random.Random(5)
    for _ in range(60):
        n = int(math.exp(draw.uniform(0.0, math.log(3e5))))
        p = math.exp(draw.uniform(math.log(1e-5), math.log(0.999)))
        spread = math.sqrt(n * p * (1 - p)) + 1
        yield n, p, min(max(round(n * p + draw.uniform(-5, 5) * spread), 0), n)


@pytest.mark.parametrize(("n", "p", "k"), list(settings()))
def test_tails_have_nine_digits(n, p, k):
    assert _binomial.at_least(k, n, p) == pytest.approx(float(exact(n, p, k)), rel=1e-8, abs=1e-13)


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 100), (1, 1), (3, 10), (50, 100), (999, 1000), (7, 200_000)])
@pytest.mark.parametrize("failure", [0.05, 1e-3, 1e-9])
def test_bounds_are_on_the_safe_side_and_tight(hits, n, failure):
    low, high = _binomial.lower_bound(hits, n, failure), _binomial.upper_bound(hits, n, failure)

    assert 0.0 <= low <= hits / n <= high <= 1.0
    if hits:
        assert exact(n, low, hits) <= failure
        assert exact(n, min(low * 1.001, 1.0), hits) > failure * 0.99, low
    if hits < n:
        assert 1 - exact(n, high, hits + 1) <= failure


def test_no_hit_bounds_a_rate_by_the_logarithm():
    assert _binomial.upper_bound(0, 10**9, 1e-3) == pytest.approx(math.log(1e3) / 1e9, rel=1e-6)
