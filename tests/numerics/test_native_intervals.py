"""The native interval arithmetic encloses what it says and is narrow; mpmath knows the truth."""

import mpmath as mp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrodp._numerics.intervals import point
from reference import gaussian_dp
from support.exact_numbers import ends
from support.native_testing import testing

DIGITS = {False: 77, True: 154}
widths = st.booleans()


def assert_encloses(name, x, is_wide, lost=3):
    """Bounds around the truth, which are apart by no more than `lost` digits of those that numbers have.

    An exponential squares 16 times, or 32 in more bits: that takes so many bits, which are 5 digits or 10.
    """
    lost += 10 if is_wide else 5
    digits = DIGITS[is_wide]
    lower, upper = ends(testing.certified(name, point(x), is_wide))
    with mp.workdps(2 * digits + 40):
        truth = TRUTHS[name](mp.mpf(x))
        assert lower <= truth <= upper
        assert upper - lower <= abs(truth) * mp.mpf(10) ** (lost - digits)


TRUTHS = {
    "exp": mp.exp,
    "ln": mp.log,
    "sqrt": mp.sqrt,
    "ln_one_plus": mp.log1p,
    "one_minus_exp": lambda x: -mp.expm1(x),
    "minus_log_one_minus": lambda x: -mp.log1p(-x),
    "pi": lambda _: +mp.pi,
    "mills": lambda x: gaussian_dp.mills(x, mp.mp.dps),
}


@given(st.floats(min_value=-1e9, max_value=1e9), widths)
@example(5e-324, False)
@example(-5e-324, True)
@example(0.0, True)
def test_exponentials(x, is_wide):
    assert_encloses("exp", x, is_wide, 12)  # an argument of 10⁹ takes nine


@given(st.floats(min_value=5e-324, max_value=1.7e308), widths)
@example(1.0, True)
@example(1.0000000000000002, False)
@example(0.9999999999999999, True)
def test_logarithms_and_roots(x, is_wide):
    assert_encloses("ln", x, is_wide)
    assert_encloses("sqrt", x, is_wide)
    assert_encloses("ln_one_plus", x, is_wide, 6)  # three where x is 2⁻⁹


@given(st.floats(min_value=-700.0, max_value=0.0), widths)
@example(-1e-300, False)
@example(-1.6e-5, True)
def test_differences_from_one(x, is_wide):
    assert_encloses("one_minus_exp", x, is_wide, 8)  # five where x is 2⁻¹⁶


@given(st.floats(min_value=0.0, max_value=1.0, exclude_max=True), widths)
@example(1e-300, False)
@example(0.9999999999999999, True)
@example(0.015625, False)
@example(0.00390625, False)
def test_logarithms_of_differences_from_one(x, is_wide):
    assert_encloses("minus_log_one_minus", x, is_wide, 6)  # three where x is 2⁻⁹, from where on there is a series


@pytest.mark.parametrize("is_wide", [False, True])
def test_pi(is_wide):
    assert_encloses("pi", 0.0, is_wide)


@given(st.floats(min_value=-30.0, max_value=1e8), widths)
@example(0.0, False)
@example(7.999999999999999, False)
@example(8.0, False)
@example(11.999999999999998, True)
@example(12.0, True)
def test_the_mills_ratio(x, is_wide):
    """Worst just below 8 or 12, where e^{x²/2} is 10¹⁴ or 10³¹ times what is left of it."""
    assert_encloses("mills", x, is_wide, 35 if is_wide else 18)


def test_the_mills_ratio_of_an_interval_around_zero_is_that_of_its_ends():
    lower, upper = ends(testing.certified("mills", (-0.5, 0.25), True))

    with mp.workdps(160):
        assert lower <= gaussian_dp.mills(0.25, 160) < gaussian_dp.mills(-0.5, 160) <= upper


def test_texts_that_are_no_decimals_are_refused():
    for text in ("NaN", "Infinity", "", "1/2"):
        with pytest.raises(ValueError, match="two decimal numbers"):
            testing.certified("exp", (text, text), False)
