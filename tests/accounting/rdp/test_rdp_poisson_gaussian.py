"""The Rényi curve of the Poisson-sampled Gaussian against its definition, and every part of its error bound."""

import functools
import itertools
import math
import random

import mpmath as mp
import numpy as np
import pytest

from ferrodp.accounting import rdp
from ferrodp.errors import InvalidParameter, InvalidType
from reference import rdp_reference as reference
from support.native_testing import testing

TIGHT = 1e-12  # relative excess promised for α·(1 + 1/σ²) up to some thousand


@functools.cache
def definition(q, sigma, order):
    return reference.poisson_gaussian(q, sigma, order)


def bounds(sigma, q, order):
    return rdp.poisson_sampled_gaussian_bounds(sigma, q, order)


def by_rule(sigma, q, order, depth, reach):
    lower, upper = testing.rdp_poisson_gaussian_by_rule(sigma, q, np.array([order]), depth, reach)
    return lower[0], upper[0]


def settings(seed, count, exponents):
    source = random.Random(seed)
    for _ in range(count):
        sigma = 10 ** source.uniform(*exponents[0])
        q = 10 ** source.uniform(*exponents[1])
        yield sigma, q, source


INTEGER = [
    (sigma, q, source.choice([2, 3, 4, 7, 16, 33, 64, 150, 400]))
    for sigma, q, source in settings(1, 60, ((-1.5, 3), (-12, 0)))
]
REAL = [(sigma, q, 1 + 10 ** source.uniform(-4, 1.6)) for sigma, q, source in settings(2, 10, ((-0.5, 1.5), (-9, 0)))]
DEGRADED = [(1.0, 0.01, 3.3), (0.5, 0.2, 1.4), (20.0, 1e-5, 40.5)]
HARD = [
    (1.0, 0.5, 1.0001),
    (0.3, 0.999, 1.7),
    (1e3, 1e-9, 1.01),
    (5.0, 0.3, 1.0),
    (1e-2, 0.1, 1.003),
    (0.1, 1e-4, 1.04),
]


@pytest.mark.parametrize(("sigma", "q", "order"), INTEGER)
def test_integer_orders_lie_between_the_bounds(sigma, q, order):
    exact = reference.poisson_gaussian_integer(q, sigma, order)

    lower, upper = bounds(sigma, q, order)

    assert lower <= exact <= upper
    assert upper - exact <= TIGHT * exact
    assert exact - lower <= (TIGHT + 2e-15 * order**2 / sigma**2) * exact  # it also pays for σ's last bit


@pytest.mark.parametrize(("sigma", "q", "order"), REAL + HARD)
def test_real_orders_lie_between_the_bounds(sigma, q, order):
    exact = definition(q, sigma, order)

    lower, upper = bounds(sigma, q, order)

    assert lower <= exact <= upper
    assert (upper - exact) <= TIGHT * exact


@pytest.mark.parametrize("order", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("sigma", [1.0, 30.0, 2e3])
@pytest.mark.parametrize("q", [1e-9, 0.01, 0.9])
def test_large_orders_lie_between_what_two_theorems_say(sigma, q, order):
    """The leading term of the binomial sum is a lower bound, Minkowski's inequality an upper one."""
    with mp.workdps(60):
        a, z = mp.mpf(order), mp.mpf(sigma)
        growth = (a - 1) / (2 * z**2)
        low = max(mp.mpf(0), a * (mp.log(mp.mpf(q)) + growth)) / (a - 1)
        high = a * mp.log1p(mp.mpf(q) * mp.expm1(growth)) / (a - 1)

        lower, upper = bounds(sigma, q, order)

        assert low <= upper
        assert lower <= high
        # The lower bound pays for σ's last bit, which A feels α²/σ² times.
        assert upper - lower <= (1e-11 + 2e-15 * order**2 / sigma**2) * upper


@pytest.mark.parametrize(("sigma", "q", "order"), DEGRADED)
@pytest.mark.parametrize("depth", [1.0, 3.0, 8.0])
def test_too_few_nodes_widen_the_bounds_and_do_not_break_them(sigma, q, order, depth):
    exact = definition(q, sigma, order)

    lower, upper = by_rule(sigma, q, order, depth, 8.75)

    assert lower <= exact <= upper
    # The rule aims at a relative error of e^−depth on either side: the bounds say so, whatever it is in fact.
    assert math.exp(-depth) <= (upper - lower) / exact <= 6 * math.exp(-depth)


@pytest.mark.parametrize(("sigma", "q", "order"), DEGRADED)
@pytest.mark.parametrize("reach", [0.5, 1.0, 1.5, 2.0])
def test_too_short_a_range_widens_the_bounds_and_does_not_break_them(sigma, q, order, reach):
    exact = definition(q, sigma, order)

    lower, upper = by_rule(sigma, q, order, 34.0, reach)

    assert lower < exact * (1 - 1e-5)  # what was cut off is missed
    assert upper > exact * (1 + 1e-5)


def test_the_error_bound_needs_the_aliasing_term():
    """With few nodes the plain sum is off, to either side, by more than all other terms of the bound."""
    below = above = 0
    for (sigma, q, order), depth in itertools.product(DEGRADED, [1.0, 1.5, 2.0, 2.5]):
        exact = definition(q, sigma, order)
        middle = sum(by_rule(sigma, q, order, depth, 8.75)) / 2
        below += middle < exact * (1 - 1e-6)
        above += middle > exact * (1 + 1e-6)

    assert below + above > 6


def test_the_exponential_is_within_its_stated_error():
    """eˣ − 1 − x within 128 units of 2⁻⁵³: a quarter of that is never used."""
    source = random.Random(3)
    points = [source.uniform(-1, 1) * 10 ** source.uniform(-9, 0) for _ in range(3000)]
    points += [source.uniform(-690, 700) for _ in range(2000)]
    points += [
        sign * (n + 0.5) * math.log(2) * (1 + d) for n in range(4) for sign in (1, -1) for d in (-1e-15, 0, 1e-15)
    ]
    points += [math.nextafter(x, y) for x in (0.34657359, -0.34657359) for y in (1, -1)]
    found = testing.centered_exponential(np.array(points))
    with mp.workdps(60):
        worst = max(
            abs(mp.mpf(float(y)) / (mp.expm1(mp.mpf(x)) - mp.mpf(x)) - 1) for x, y in zip(points, found, strict=True)
        )

    assert float(worst) < 96 * 2.0**-53


def test_it_grows_in_the_order_and_the_probability_and_falls_in_the_noise():
    orders = 1 + np.geomspace(1e-4, 1e6, 300)
    for sigma, q in [(1.0, 0.01), (0.4, 0.7), (50.0, 1e-5)]:
        curve = rdp.poisson_sampled_gaussian(sigma, q, orders)
        assert (np.diff(curve) >= -1e-11 * curve[1:]).all()
    probabilities = np.linspace(0, 1, 101)
    multipliers = np.geomspace(0.05, 1e5, 101)
    for order in [1.0, 1.5, 8.0, 300.0]:
        assert (np.diff(rdp.poisson_sampled_gaussian(2.0, probabilities, order)) >= 0).all()
        assert (np.diff(rdp.poisson_sampled_gaussian(multipliers, 0.1, order)) <= 0).all()


def test_the_logarithm_of_the_moment_is_convex():
    """(α − 1)·ρ(α) is a cumulant generating function."""
    orders = np.linspace(1.01, 60, 400)
    for sigma, q in [(1.0, 0.01), (3.0, 0.2), (0.5, 1e-6)]:
        logs = (orders - 1) * rdp.poisson_sampled_gaussian(sigma, q, orders)

        assert (np.diff(logs, 2) >= -1e-10 * logs[2:]).all()


def test_edges_are_total():
    assert rdp.poisson_sampled_gaussian(1.0, 0.0, [1.0, 2.0, math.inf]).tolist() == [0.0, 0.0, 0.0]
    assert rdp.poisson_sampled_gaussian(2.0, 1.0, 8.0) == pytest.approx(1.0, rel=1e-14)
    assert rdp.poisson_sampled_gaussian(1.0, 0.5, math.inf) == math.inf
    assert rdp.poisson_sampled_gaussian(1.0, 0.1, []).shape == (0,)
    assert rdp.poisson_sampled_gaussian(1.0, 0.1, 1.0) < rdp.poisson_sampled_gaussian(1.0, 0.1, 1.0 + 1e-12) * (
        1 + 1e-11
    )


def test_parameters_broadcast():
    sigma, q, orders = np.array([[0.5], [2.0]]), 0.1, np.array([1.5, 3.0, 40.0])

    together = rdp.poisson_sampled_gaussian(sigma, q, orders)

    assert together.shape == (2, 3)
    assert together.tolist() == [[rdp.poisson_sampled_gaussian(s, q, a) for a in orders] for s in (0.5, 2.0)]
    assert isinstance(rdp.poisson_sampled_gaussian(1.0, q, 2.0), float)
    many = rdp.poisson_sampled_gaussian(np.full(3000, 1.0), q, np.linspace(1.1, 9, 3000), threads=3)
    assert many.tolist() == rdp.poisson_sampled_gaussian(1.0, q, np.linspace(1.1, 9, 3000), threads=1).tolist()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 0.1, 2.0), "noise_multiplier"),
        ((math.nan, 0.1, 2.0), "noise_multiplier"),
        ((np.array([1.0, -1.0]), 0.1, 2.0), "noise_multiplier"),
        ((1.0, 1.5, 2.0), "sampling_probability"),
        ((1.0, [0.1, math.nan], 2.0), "sampling_probability"),
        ((1.0, 0.1, 0.99), "orders"),
        ((1.0, 0.1, [2.0, math.nan]), "orders"),
        ((1.0, [0.1, 0.2], [2.0, 3.0, 4.0]), "shape"),
    ],
)
def test_parameters_out_of_their_domain_are_named(arguments, name):
    with pytest.raises(InvalidParameter, match=name):
        rdp.poisson_sampled_gaussian(*arguments)


def test_other_types_are_refused():
    for wrong in ("1", None, True, [["a"]], np.array([1 + 1j])):
        with pytest.raises(InvalidType):
            rdp.poisson_sampled_gaussian(wrong, 0.1, 2.0)
    with pytest.raises(InvalidType):
        rdp.poisson_sampled_gaussian(1.0, 0.1, 2.0, neighboring_relation=1)
