"""Exact binomial bounds against enclosures in decimals."""

import math
import random

import pytest

from ferrodp._numerics import binomial as decimals
from ferrodp.audit import _binomial


def settings():
    draw = random.Random(5)
    for _ in range(60):
        n = int(math.exp(draw.uniform(0.0, math.log(3e5))))
        p = math.exp(draw.uniform(math.log(1e-5), math.log(0.999)))
        spread = math.sqrt(n * p * (1 - p)) + 1
        yield n, p, min(max(round(n * p + draw.uniform(-5, 5) * spread), 0), n)


@pytest.mark.parametrize(("n", "p", "k"), list(settings()))
def test_tails_have_nine_digits(n, p, k):
    lower, upper = decimals.at_least(n, p, k)

    assert _binomial.at_least(k, n, p) == pytest.approx(float(upper), rel=1e-8, abs=1e-13)
    assert float(lower) <= float(upper)


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 100), (1, 1), (3, 10), (50, 100), (999, 1000), (7, 200_000)])
@pytest.mark.parametrize("failure", [0.05, 1e-3, 1e-9])
def test_bounds_are_on_the_safe_side_and_tight(hits, n, failure):
    low, high = _binomial.lower_bound(hits, n, failure), _binomial.upper_bound(hits, n, failure)

    assert 0.0 <= low <= hits / n <= high <= 1.0
    if hits:
        assert float(decimals.at_least(n, low, hits).upper) <= failure
        assert float(decimals.at_least(n, min(low * 1.001, 1.0), hits).lower) > failure * 0.99, low
    if hits < n:
        few = 1 - float(decimals.at_least(n, high, hits + 1).lower)
        assert few <= failure * (1 + 1e-6) + 1e-16


def test_no_hit_bounds_a_rate_by_the_logarithm():
    assert _binomial.upper_bound(0, 10**9, 1e-3) == pytest.approx(math.log(1e3) / 1e9, rel=1e-6)
