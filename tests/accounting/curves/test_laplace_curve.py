"""δ(ε), ε(δ) and b of the Laplace mechanism are the floats next to the truth, on the safe side."""

import math
import sys
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ferrodp.accounting import laplace_delta, laplace_epsilon
from ferrodp.accounting.curves import laplace_delta_bounds, laplace_epsilon_bounds, laplace_scale
from ferrodp.errors import CalibrationError, InvalidParameter
from reference import laplace_dp

TINY = math.ulp(0.0)

log_uniform = lambda low, high: st.floats(min_value=low, max_value=high).map(lambda x: 10.0**x)  # noqa: E731
multipliers = log_uniform(-6, 8)


def next_up(x):
    return math.nextafter(x, math.inf)


def next_down(x):
    return math.nextafter(x, -math.inf)


@settings(deadline=None)
@given(multipliers, st.floats(min_value=-3.0, max_value=1.5))
@example(1.0, 0.5)
@example(0.25, -1.0)
@example(3.0, 1.0)
@example(1e8, 0.0)
def test_delta_lies_between_its_two_floats(z, share):
    """`share` of the pure ε, so that every piece of the curve is met."""
    epsilon = share / z
    bounds = laplace_delta_bounds(epsilon=epsilon, noise_multiplier=z)
    with mp.workdps(80):
        truth = laplace_dp.delta(epsilon, 1 / mp.mpf(z))

        assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper <= next_up(bounds.lower)


@given(multipliers)
def test_delta_is_zero_from_the_pure_epsilon_on_and_not_before(z):
    pure = laplace_epsilon(noise_multiplier=z)

    assert laplace_delta(epsilon=pure, noise_multiplier=z) == 0.0
    if Fraction(pure) * Fraction(z) > 1:  # else the pure ε is a float itself
        assert laplace_delta(epsilon=next_down(pure), noise_multiplier=z) > 0.0


@settings(deadline=None)
@given(multipliers, st.one_of(st.just(0.0), log_uniform(-300, math.log10(0.99))))
@example(1.0, 1e-5)
@example(1e8, 1e-300)
def test_epsilon_is_the_least_float_that_is_enough(z, delta):
    bounds = laplace_epsilon_bounds(delta=delta, noise_multiplier=z)

    assert 0.0 <= bounds.lower <= bounds.upper <= next_up(bounds.lower)
    assert laplace_delta(epsilon=bounds.upper, noise_multiplier=z) <= delta
    if 0.0 < bounds.lower < bounds.upper:
        assert laplace_delta_bounds(epsilon=bounds.lower, noise_multiplier=z).upper > delta


@settings(deadline=None)
@given(log_uniform(-8, 8), st.one_of(st.just(0.0), log_uniform(-300, math.log10(0.99))), log_uniform(-9, 9))
def test_the_scale_is_the_least_float_that_is_enough(epsilon, delta, sensitivity):
    scale = laplace_scale(epsilon=epsilon, delta=delta, l1_sensitivity=sensitivity)
    with mp.workdps(400):
        least = mp.mpf(sensitivity) / (mp.mpf(epsilon) - 2 * mp.log1p(-mp.mpf(delta)))

        assert next_down(scale) < least <= scale


def test_rationals_and_decimals_are_taken_exactly():
    assert laplace_scale(epsilon=3, l1_sensitivity=1) == next_up(1 / 3)  # 1/3 rounds down
    assert laplace_scale(epsilon=Decimal("0.3"), l1_sensitivity=Fraction(3, 10)) == 1.0
    assert laplace_scale(epsilon=0.3, l1_sensitivity=Fraction(3, 10)) == next_up(1.0)  # the float lies below 3/10


EXTREMES = [TINY, 1e-300, 1e-154, 1e-20, 1e-6, 1.0, 1e8, 1e16, 1e155, 1e300, sys.float_info.max]


@pytest.mark.parametrize("z", EXTREMES)
def test_extreme_parameters_have_sane_answers(z):
    previous = 1.0
    for epsilon in [*(-x for x in reversed(EXTREMES)), 0.0, *EXTREMES]:
        bounds = laplace_delta_bounds(epsilon=epsilon, noise_multiplier=z)
        assert 0.0 <= bounds.lower <= bounds.upper <= previous
        assert next_up(bounds.lower) >= bounds.upper
        previous = bounds.upper
    previous = math.inf
    for delta in [0.0, TINY, 1e-300, 1e-16, 1e-5, 0.5, next_down(1.0)]:
        bounds = laplace_epsilon_bounds(delta=delta, noise_multiplier=z)
        assert 0.0 <= bounds.lower <= bounds.upper <= previous
        assert next_up(bounds.lower) >= bounds.upper
        previous = bounds.upper


def test_a_scale_beyond_all_floats_is_a_calibration_error():
    with pytest.raises(CalibrationError, match="no float is the scale for epsilon=5e-324"):
        laplace_scale(epsilon=TINY, l1_sensitivity=1.0)


@pytest.mark.parametrize("bad", [1.0, 1.5, -1e-300])
def test_delta_must_be_below_1(bad):
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \[0, 1\), got"):
        laplace_epsilon(delta=bad, noise_multiplier=1.0)
