"""δ(ε), ε(δ) and σ of the Gaussian mechanism are the floats next to the truth, on the safe side."""

import math
import sys
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import GaussianEvent, GdpAccountant, gaussian_delta, gaussian_epsilon, gaussian_noise_multiplier
from ferrodp.accounting._laws import gaussian_curve as _gaussian_curve
from ferrodp.accounting.curves import (
    gaussian_delta_bounds,
    gaussian_epsilon_bounds,
    gaussian_log_delta,
    gaussian_standard_deviation,
)
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType
from reference import gaussian_dp
from support.exact_numbers import ends
from support.native_testing import testing

TINY = math.ulp(0.0)
DIGITS = 50

log_uniform = lambda low, high: st.floats(min_value=low, max_value=high).map(lambda x: 10.0**x)  # noqa: E731
multipliers = log_uniform(-6, 8)
deltas = log_uniform(-300, math.log10(0.99))
# values of a = ε/μ − μ/2 where δ is neither 1 nor below all floats, turned into ε for a multiplier
tails = st.floats(min_value=-30.0, max_value=38.0)


def next_up(x):
    return math.nextafter(x, math.inf)


def next_down(x):
    return math.nextafter(x, -math.inf)


@st.composite
def points(draw):
    """A multiplier and an ε ≥ 0 where the curve is not flat."""
    z = draw(multipliers)
    return z, draw(st.one_of(st.just(0.0), tails.map(lambda a: max(0.0, a / z + 0.5 / z / z)), log_uniform(-8, 5)))


@settings(deadline=None)
@given(points())
@example((1.0, 1.0))
@example((1e8, 0.0))
@example((1e8, 1e-12))
@example((1e-6, 5e11))
@example((0.1, 50.0))  # ε = μ²/2: the argument a is 0
@example((1e14, 0.0))  # μ below 10⁻¹²: the other way to evaluate
@example((1e14, 3e-13))
def test_delta_lies_between_its_two_floats(point):
    z, epsilon = point
    bounds = gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z)
    truth = gaussian_dp.delta(epsilon, (1, z), DIGITS) if epsilon * z - 0.5 / z < 1e4 else mp.mpf(0)

    with mp.workdps(DIGITS):
        assert bounds.lower <= truth <= bounds.upper or truth == 0 == bounds.lower
    assert 0.0 < bounds.upper <= 1.0
    assert next_up(bounds.lower) >= bounds.upper


@pytest.mark.parametrize("z", [1.0000001e12, 3e12, 1e14, 1e20, 1e100])
@pytest.mark.parametrize("a", [0.0, 0.1, 1.0, 5.0, 30.0])
def test_the_enclosure_holds_to_its_last_digit_where_mu_is_tiny(z, a):
    """There it comes from two quadrature rules, 10⁻²⁴ apart: too close for floats to show which is above."""
    lower, upper = ends(testing.certified_gaussian_delta(a / z, _gaussian_curve.squared_mu(z), True))
    with mp.workdps(DIGITS):
        truth = gaussian_dp.delta(a / z, (1, z), DIGITS)

        assert lower < truth < upper
        assert upper - lower < truth * mp.mpf("1e-20")


@settings(deadline=None, max_examples=50)
@given(multipliers, st.floats(min_value=-30.0, max_value=0.0, exclude_max=True))
def test_delta_of_a_negative_epsilon_is_on_the_curve_too(z, epsilon):
    bounds = gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z)
    with mp.workdps(DIGITS + 20):
        e = mp.mpf(epsilon)
        truth = -mp.expm1(e) + mp.exp(e) * gaussian_dp.delta(-epsilon, (1, z), DIGITS)

        assert bounds.lower <= truth <= bounds.upper
    assert next_up(bounds.lower) >= bounds.upper


@settings(deadline=None)
@given(multipliers, deltas)
@example(1.0, 1e-5)
@example(1e8, 1e-300)
@example(1e-6, 0.99)
@example(1e-154, 0.5)  # ε is 5e307, and δ falls from 1 to 0 within far less than a float there
def test_epsilon_is_the_least_float_that_is_enough(z, delta):
    bounds = gaussian_epsilon_bounds(delta=delta, noise_multiplier=z)

    assert 0.0 <= bounds.lower <= bounds.upper < math.inf
    assert gaussian_delta(epsilon=bounds.upper, noise_multiplier=z) <= delta
    assert next_up(bounds.lower) >= bounds.upper
    if bounds.lower > 0.0:
        assert gaussian_delta_bounds(epsilon=bounds.lower, noise_multiplier=z).upper > delta


@pytest.mark.parametrize("z", [0.05, 0.5, 1.0, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("delta", [1e-100, 1e-30, 1e-10, 1e-5, 0.1])
def test_epsilon_lies_between_its_two_floats(z, delta):
    bounds = gaussian_epsilon_bounds(delta=delta, noise_multiplier=z)
    truth = gaussian_dp.epsilon(delta, (1, z), digits=25)

    with mp.workdps(40):
        assert bounds.lower - truth * mp.mpf("1e-24") <= truth <= bounds.upper + truth * mp.mpf("1e-24")


@settings(deadline=None)
@given(st.one_of(st.just(0.0), log_uniform(-8, 5)), log_uniform(-290, math.log10(0.99)), log_uniform(-9, 9))
@example(1.0, 1e-5, 1.0)
@example(1e5, 1e-300, 1e-3)
def test_the_standard_deviation_is_the_least_float_that_is_enough(epsilon, delta, sensitivity):
    sigma = gaussian_standard_deviation(epsilon=epsilon, delta=delta, l2_sensitivity=sensitivity)

    assert not_enough(next_down(sigma), epsilon, delta, sensitivity)
    assert not not_enough(sigma, epsilon, delta, sensitivity)


def not_enough(sigma, epsilon, delta, sensitivity):
    """Whether δ(ε) > delta by the reference, to 30 digits, 12 more than two floats are apart."""
    with mp.workdps(60):
        return gaussian_dp.delta(epsilon, (sensitivity, sigma), digits=30) > mp.mpf(delta)


@given(multipliers, st.floats(min_value=0.0, max_value=100.0), st.floats(min_value=0.0, max_value=100.0))
@settings(deadline=None, max_examples=50)
def test_delta_never_grows_with_epsilon_or_noise(z, epsilon, more):
    here = gaussian_delta(epsilon=epsilon, noise_multiplier=z)

    assert gaussian_delta(epsilon=epsilon + more, noise_multiplier=z) <= here
    assert gaussian_delta(epsilon=epsilon, noise_multiplier=z * (1.0 + more)) <= here


@pytest.mark.parametrize(("z", "epsilon"), [(1.0, 1.0), (1.0, 30.0), (20.0, 1.5), (0.1, 60.0), (2.0, 0.0)])
def test_log_delta_is_the_logarithm_rounded_up(z, epsilon):
    with mp.workdps(60):
        truth = mp.log(gaussian_dp.delta(epsilon, (1, z), digits=40))

        logarithm = gaussian_log_delta(epsilon=epsilon, noise_multiplier=z)

        assert next_down(logarithm) < truth <= logarithm


def test_log_delta_goes_where_floats_do_not():
    assert gaussian_delta(epsilon=100.0, noise_multiplier=1.0) == TINY
    assert gaussian_delta_bounds(epsilon=100.0, noise_multiplier=1.0).lower == 0.0
    # a = 99.5: −a²/2 − ln√(2π) = −4951.04…, and ln(M(99.5) − M(100.5)) = −9.21…
    assert gaussian_log_delta(epsilon=100.0, noise_multiplier=1.0) == pytest.approx(-4960.2545538, rel=1e-10)
    assert gaussian_log_delta(epsilon=1e300, noise_multiplier=1e-3) < -1e306  # ε²·z²/2
    assert gaussian_log_delta(epsilon=0.0, noise_multiplier=1e-100) == 0.0  # δ = 1 − e^{−10¹⁹⁹}


EXTREMES = [TINY, 1e-300, 1e-154, 1e-20, 1e-6, 1.0, 1e8, 1e16, 1e155, 1e300, sys.float_info.max]


@pytest.mark.parametrize("z", EXTREMES)
def test_extreme_parameters_have_sane_answers(z):
    previous = 1.0
    for epsilon in [0.0, *EXTREMES]:
        bounds = gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z)
        assert 0.0 <= bounds.lower <= bounds.upper <= previous
        assert bounds.upper > 0.0
        assert next_up(bounds.lower) >= bounds.upper
        previous = bounds.upper
    previous = math.inf
    for delta in [TINY, 1e-300, 1e-16, 1e-5, 0.5, next_down(1.0)]:
        bounds = gaussian_epsilon_bounds(delta=delta, noise_multiplier=z)
        assert 0.0 <= bounds.lower <= bounds.upper <= previous
        assert next_up(bounds.lower) >= bounds.upper
        previous = bounds.upper


def test_an_epsilon_beyond_all_floats_is_infinite():
    # μ²/2 = 5e399
    assert gaussian_epsilon_bounds(delta=0.5, noise_multiplier=1e-200) == (sys.float_info.max, math.inf)


def test_noise_beyond_all_floats_is_a_calibration_error():
    with pytest.raises(CalibrationError, match=r"the largest one, 1\.79.*e\+308, is too little"):
        gaussian_noise_multiplier(epsilon=TINY, delta=TINY)


@pytest.mark.parametrize("epsilon", [0.0, TINY, 1e-300, 1e100, 1e200, 1e300, 2.0**1023, 1e308, sys.float_info.max])
@pytest.mark.parametrize("delta", [TINY, 1e-300, 1e-5, next_down(1.0)])
def test_noise_is_the_least_float_that_is_enough_at_the_ends_of_the_range(epsilon, delta):
    """1/2z² is ε there in all its digits, or √(2π)·δ the inverse of z; δ(ε) jumps from 1 to 0 between two floats."""
    if epsilon <= TINY and delta == TINY:
        with pytest.raises(CalibrationError):
            gaussian_noise_multiplier(epsilon=epsilon, delta=delta)
        return
    z = gaussian_noise_multiplier(epsilon=epsilon, delta=delta)

    assert gaussian_delta(epsilon=epsilon, noise_multiplier=z) <= delta
    assert gaussian_delta(epsilon=epsilon, noise_multiplier=next_down(z)) > delta
    if epsilon > 1.0:
        assert z * math.sqrt(epsilon) * math.sqrt(2.0) == pytest.approx(1.0, rel=4 * 2.0**-52)  # four roundings


def test_the_classical_formula_asks_for_more_noise_than_the_curve():
    classical = gaussian_noise_multiplier(epsilon=0.5, delta=1e-6, method="classical")

    # five float operations, each within 2⁻⁵³ or an ulp
    assert classical == pytest.approx(math.sqrt(2 * math.log(1.25 / 1e-6)) / 0.5, rel=1e-15 * 5)
    assert classical > gaussian_noise_multiplier(epsilon=0.5, delta=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.floats(min_value=1e-6, max_value=1.0), deltas)
def test_the_classical_formula_is_enough_wherever_it_is_allowed(epsilon, delta):
    z = gaussian_noise_multiplier(epsilon=epsilon, delta=delta, method="classical")

    assert gaussian_delta(epsilon=epsilon, noise_multiplier=z) <= delta


def test_the_classical_formula_is_refused_where_it_is_no_theorem():
    with pytest.raises(
        InvalidParameter, match=r"epsilon must be at most 1 for the classical method, got 1\.5: its proof"
    ):
        gaussian_noise_multiplier(epsilon=1.5, delta=1e-5, method="classical")


def test_there_is_an_epsilon_for_which_the_classical_formula_would_be_wrong():
    """Why it is refused: at ε = 20, δ = 0.1 its noise gives a larger δ."""
    z = math.sqrt(2 * math.log(1.25 / 0.1)) / 20.0

    assert gaussian_delta_bounds(epsilon=20.0, noise_multiplier=z).lower > 0.1


@pytest.mark.parametrize("method", ["Analytic", "", None, 1, ["analytic"]])
def test_unknown_methods_are_refused(method):
    with pytest.raises(InvalidParameter, match='method must be "analytic" or "classical", got'):
        gaussian_noise_multiplier(epsilon=1.0, delta=1e-5, method=method)


def test_numbers_that_are_no_floats_are_rounded_to_the_safe_side():
    """Down, all of them: less ε, δ or noise. At a = 30 one float more or less shows in the 14th digit of δ."""
    number = Decimal("10.3")  # its float lies above it
    assert gaussian_delta(epsilon=3.0, noise_multiplier=number) == gaussian_delta(
        epsilon=3.0, noise_multiplier=next_down(10.3)
    )
    assert gaussian_delta(epsilon=3.0, noise_multiplier=number) > gaussian_delta(epsilon=3.0, noise_multiplier=10.3)
    for tenth in (Decimal("0.1"), Fraction(1, 10)):  # and so does the float 0.1
        below = next_down(0.1)
        assert gaussian_delta(epsilon=tenth, noise_multiplier=300.0) == gaussian_delta(
            epsilon=below, noise_multiplier=300.0
        )
        assert gaussian_epsilon(delta=tenth, noise_multiplier=2.0) == gaussian_epsilon(
            delta=below, noise_multiplier=2.0
        )
        assert gaussian_noise_multiplier(epsilon=tenth, delta=1e-9) == gaussian_noise_multiplier(
            epsilon=below, delta=1e-9
        )
        assert gaussian_noise_multiplier(epsilon=1.0, delta=tenth) == gaussian_noise_multiplier(
            epsilon=1.0, delta=below
        )
    assert gaussian_delta(epsilon=below, noise_multiplier=300.0) > gaussian_delta(epsilon=0.1, noise_multiplier=300.0)
    assert gaussian_noise_multiplier(epsilon=below, delta=1e-9) > gaussian_noise_multiplier(epsilon=0.1, delta=1e-9)
    third = Fraction(-1, 3)  # float(-1/3) lies above it
    assert gaussian_delta(epsilon=third, noise_multiplier=1.0) == gaussian_delta(
        epsilon=next_down(-1 / 3), noise_multiplier=1.0
    )
    assert gaussian_standard_deviation(epsilon=1.0, delta=1e-5, l2_sensitivity=Fraction(1, 3)) == (
        gaussian_standard_deviation(epsilon=1.0, delta=1e-5, l2_sensitivity=next_up(1 / 3))
    )


def test_answers_keep_to_the_safe_end_of_wide_enclosures(monkeypatch):
    """Enclosures are so narrow that floats do not show which end was used; here they are a factor of 4 wide.

    For ε and its bounds a test in the crate does the same.
    """
    narrow = _gaussian_curve.delta

    def wide(epsilon, mu_squared):
        lower, upper = narrow(epsilon, mu_squared)
        return Bounds(lower / 2, upper * 2)

    monkeypatch.setattr(_gaussian_curve, "delta", wide)
    accountant = GdpAccountant()
    count = accountant.remaining_count(GaussianEvent(noise_multiplier=50.0), epsilon=1.0, delta=1e-5)
    monkeypatch.undo()

    assert count == accountant.remaining_count(GaussianEvent(noise_multiplier=50.0), epsilon=1.0, delta=0.5e-5)


@pytest.mark.parametrize("bad", [0.0, 1.0, 1.5, -1e-300, 0])
def test_delta_must_lie_between_0_and_1(bad):
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \(0, 1\), got"):
        gaussian_epsilon(delta=bad, noise_multiplier=1.0)
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \(0, 1\), got"):
        gaussian_standard_deviation(epsilon=1.0, delta=bad, l2_sensitivity=1.0)


def test_parameters_are_keywords():
    with pytest.raises(TypeError):
        gaussian_delta(1.0, 1.0)
    with pytest.raises(InvalidType, match="noise_multiplier must be a real number"):
        gaussian_delta(epsilon=1.0, noise_multiplier="1")
