"""From ρ-zCDP to (ε, δ): the least over all orders, rounded to the safe side."""

import math

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import gaussian_delta, gaussian_epsilon, zcdp_epsilon, zcdp_rho
from ferrodp.accounting.curves import zcdp_delta
from ferrodp.errors import InvalidParameter, InvalidType
from reference import zcdp as reference

rhos = st.floats(min_value=1e-12, max_value=100.0)
deltas = st.floats(min_value=1e-15, max_value=0.5)
epsilons = st.floats(min_value=0.0, max_value=300.0)


@pytest.mark.parametrize(
    ("rho", "epsilon"),
    [(0.5, 1.0), (5e-30, 1e-13), (0.5, 0.0), (5.0, 20.0), (1e-6, 0.01), (20.0, 21.0), (300.0, 0.0), (1e-300, 1e-150)],
)
def test_delta_is_the_minimum_over_all_orders(rho, epsilon):
    """The order is within 2⁻⁵⁰ of the best, so δ within 2⁻⁹⁰ of the least: the next float or the one above."""
    exact = reference.delta(rho, epsilon)

    assert exact <= mp.mpf(zcdp_delta(rho=rho, epsilon=epsilon)) <= exact * (1 + mp.mpf(2) ** -52)


@pytest.mark.parametrize(
    ("rho", "delta"), [(0.1, 1e-6), (1e-10, 1e-12), (50.0, 1e-6), (0.03125, 0.1508), (1e-3, 1e-300), (1e-300, 1e-200)]
)
def test_epsilon_is_the_minimum_over_all_orders(rho, delta):
    exact = reference.epsilon(rho, delta)

    assert exact <= mp.mpf(zcdp_epsilon(rho=rho, delta=delta)) <= exact * (1 + mp.mpf(2) ** -52)


@given(rhos, deltas)
def test_the_two_conversions_agree_with_each_other(rho, delta):
    epsilon = zcdp_epsilon(rho=rho, delta=delta)

    assert zcdp_delta(rho=rho, epsilon=epsilon) <= delta
    if epsilon > 0.0:
        assert zcdp_delta(rho=rho, epsilon=epsilon * (1.0 - 1e-9)) > delta


@given(rhos, deltas)
def test_the_tight_conversion_is_between_the_gaussian_and_the_simple_one(rho, delta):
    """The Gaussian mechanism with μ² = 2ρ is ρ-zCDP, so no conversion can be below its ε."""
    tight, simple = (zcdp_epsilon(rho=rho, delta=delta, method=method) for method in ("tight", "simple"))

    assert tight <= simple
    multiplier = math.nextafter(1.0 / math.sqrt(2.0 * rho), math.inf) * (1.0 + 1e-15)
    assert gaussian_epsilon(noise_multiplier=multiplier, delta=delta) <= tight
    assert gaussian_delta(noise_multiplier=multiplier, epsilon=1.0) <= zcdp_delta(rho=rho, epsilon=1.0)


@given(epsilons.filter(lambda e: e > 1e-6), deltas, st.sampled_from(["tight", "simple"]))
def test_rho_is_the_largest_that_is_enough(epsilon, delta, method):
    rho = zcdp_rho(epsilon=epsilon, delta=delta, method=method)

    assert zcdp_epsilon(rho=rho, delta=delta, method=method) <= epsilon
    assert zcdp_epsilon(rho=rho * (1.0 + 1e-9), delta=delta, method=method) > epsilon


@given(rhos, deltas, st.floats(1.0, 3.0))
@settings(max_examples=50)
def test_monotone(rho, delta, factor):
    assert zcdp_epsilon(rho=rho, delta=delta) <= zcdp_epsilon(rho=rho * factor, delta=delta)
    assert zcdp_epsilon(rho=rho, delta=delta) <= zcdp_epsilon(rho=rho, delta=delta / factor)
    assert zcdp_delta(rho=rho, epsilon=factor) <= zcdp_delta(rho=rho, epsilon=1.0)


def test_the_ends_of_the_range():
    assert zcdp_epsilon(rho=0.0, delta=1e-6) == 0.0
    assert zcdp_delta(rho=0.0, epsilon=0.0) == 0.0
    assert zcdp_delta(rho=1e300, epsilon=0.0) == 1.0
    assert zcdp_delta(rho=5e-324, epsilon=700.0) == 5e-324
    assert 1e300 <= zcdp_epsilon(rho=1e300, delta=5e-324) < math.inf
    assert zcdp_epsilon(rho=1e308, delta=5e-324) < math.inf
    assert zcdp_rho(epsilon=0.0, delta=1e-200) == 0.0
    assert 0.0 < zcdp_rho(epsilon=0.0, delta=1e-3) < 1e-5
    assert 0.0 < zcdp_rho(epsilon=1e-5, delta=math.nextafter(1.0, 0.0)) < math.inf


def test_parameters_are_checked():
    for keywords in ({"rho": -1.0, "delta": 0.1}, {"rho": math.nan, "delta": 0.1}, {"rho": 1.0, "delta": 0.0},
                     {"rho": 1.0, "delta": 1.0}, {"rho": 1.0, "delta": 0.1, "method": "best"}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            zcdp_epsilon(**keywords)
    with pytest.raises(InvalidType, match="rho"):
        zcdp_epsilon(rho="1", delta=0.1)
    with pytest.raises(InvalidParameter, match="epsilon"):
        zcdp_delta(rho=1.0, epsilon=-1.0)
