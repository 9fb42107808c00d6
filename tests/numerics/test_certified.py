"""Interval arithmetic encloses, rounds outward and stays narrow; whoever relies on it relies on nothing else."""

import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp._numerics import intervals as certified
from ferrodp._numerics.intervals import Interval, arithmetic, point

DIGITS = 40
R = arithmetic(DIGITS)
ONE_ULP = Fraction(10) ** (1 - DIGITS)  # relative width of one rounding, at most

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30)
positive = st.floats(min_value=1e-30, max_value=1e30)


@st.composite
def intervals(draw, ends=finite):
    low, high = sorted((draw(ends), draw(ends)))
    return Interval(Decimal(low), Decimal(high))


def inside(x: Interval, number: Fraction) -> bool:
    return Fraction(x.lower) <= number <= Fraction(x.upper)


@given(intervals(), intervals())
def test_sums_products_and_squares_enclose_those_of_every_pair_of_ends(x, y):
    for a in x:
        assert inside(R.square(x), Fraction(a) ** 2)
        assert inside(R.half(x), Fraction(a) / 2)
        assert inside(R.square(x), Fraction(0)) or x.lower > 0 or x.upper < 0
        for b in y:
            assert inside(R.add(x, y), Fraction(a) + Fraction(b))
            assert inside(R.sub(x, y), Fraction(a) - Fraction(b))
            assert inside(R.mul(x, y), Fraction(a) * Fraction(b))


@given(intervals(), intervals(positive))
def test_quotients_enclose_those_of_every_pair_of_ends(x, y):
    for a in x:
        for b in y:
            assert inside(R.div(x, y), Fraction(a) / Fraction(b))


@given(st.integers(-(10**60), 10**60), st.integers(1, 10**60))
def test_an_interval_around_a_ratio_holds_it_and_is_one_rounding_wide(numerator, denominator):
    ratio = Fraction(numerator, denominator)

    around = R.ratio(ratio)

    assert inside(around, ratio)
    assert Fraction(around.upper) - Fraction(around.lower) <= abs(ratio) * 3 * ONE_ULP


@given(st.floats(min_value=-700, max_value=700))
def test_exponentials_enclose_and_are_narrow(x):
    around = R.exp(point(x))
    with mp.workdps(2 * DIGITS):
        truth = mp.exp(mp.mpf(x))

        assert mp.mpf(str(around.lower)) < truth < mp.mpf(str(around.upper))
        assert mp.mpf(str(around.upper)) - mp.mpf(str(around.lower)) < truth * mp.mpf(10) ** (3 - DIGITS)


@given(positive)
def test_logarithms_and_roots_enclose_and_are_narrow(x):
    with mp.workdps(2 * DIGITS):
        for around, truth in ((R.ln(point(x)), mp.log(mp.mpf(x))), (R.sqrt(point(x)), mp.sqrt(mp.mpf(x)))):
            assert mp.mpf(str(around.lower)) <= truth <= mp.mpf(str(around.upper))
            width = mp.mpf(str(around.upper)) - mp.mpf(str(around.lower))
            assert width < max(abs(truth), mp.mpf(10) ** -DIGITS) * mp.mpf(10) ** (3 - DIGITS)


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=10**6))
def test_roots_enclose_also_by_exact_squares(x):
    around = R.sqrt(R.ratio(x))

    assert Fraction(around.lower) ** 2 <= x <= Fraction(around.upper) ** 2


@pytest.mark.parametrize("root", ["0", "0.5", "1", "1e-9", "123456789"])
def test_roots_that_are_decimals_have_no_width(root):
    assert point(Decimal(root)) == R.sqrt(R.square(point(Decimal(root))))


@given(st.floats(min_value=-1e6, max_value=0.0))
def test_one_minus_exp_keeps_its_digits_where_it_is_small(x):
    around = R.one_minus_exp(point(x))
    with mp.workdps(700):
        truth = -mp.expm1(mp.mpf(x))

        assert mp.mpf(str(around.lower)) <= truth <= mp.mpf(str(around.upper))
        # at the edge of the series, 10⁻³⁰, either side has about 10 of 40 digits left: 1e-9; beyond it twice 30
        assert mp.mpf(str(around.upper)) - mp.mpf(str(around.lower)) <= truth * mp.mpf("1e-8")


@given(st.floats(min_value=0.0, max_value=1.0, exclude_max=True))
def test_minus_log_one_minus_keeps_its_digits_where_it_is_small(x):
    around = R.minus_log_one_minus(point(x))
    with mp.workdps(700):
        truth = -mp.log1p(-mp.mpf(x))

        assert mp.mpf(str(around.lower)) <= truth <= mp.mpf(str(around.upper))
        assert mp.mpf(str(around.upper)) - mp.mpf(str(around.lower)) <= truth * mp.mpf("1e-8")


def test_exponentials_far_below_every_float_are_negligible_and_not_zero():
    around = R.exp(Interval(Decimal("-1e30"), Decimal("-1e29")))

    assert around.lower == 0
    assert 0 < around.upper < Decimal("1e-1000")


@given(st.decimals(allow_nan=False, allow_infinity=False, places=30, min_value=-(10**20), max_value=10**20))
def test_floats_are_the_nearest_on_their_side(number):
    up, down = certified.float_up(number), certified.float_down(number)

    assert Fraction(math.nextafter(up, -math.inf)) < Fraction(number) <= Fraction(up)
    assert Fraction(down) <= Fraction(number) < Fraction(math.nextafter(down, math.inf))


def test_floats_at_the_ends_of_the_range_stay_on_their_side():
    assert math.ulp(0.0) == certified.float_up(Decimal("1e-400"))
    assert certified.float_down(Decimal("1e-400")) == 0.0
    assert math.inf == certified.float_up(Decimal("1e400"))
    assert sys.float_info.max == certified.float_down(Decimal("1e400"))


def test_the_context_of_the_calling_thread_changes_nothing():
    """A caller may set three digits, or trap inexact results: neither may loosen a bound or raise."""
    expected = R.ln(point(2.5)), R.exp(point(0.3)), certified.float_up(Decimal("0.1"))
    with localcontext(prec=3) as context:
        for signal in context.traps:
            context.traps[signal] = True

        actual = R.ln(point(2.5)), R.exp(point(0.3)), certified.float_up(Decimal("0.1"))

    assert expected == actual


@given(st.integers(-50, 10**6), st.integers(0, 10**6))
def test_first_finds_the_boundary_from_any_guess(guess, boundary):
    asked = []

    def holds(n):
        asked.append(n)
        return n >= boundary

    assert boundary == certified.first(holds, guess, 0, 10**6)
    assert all(0 <= n < 10**6 for n in asked)
    assert len(asked) <= 4 * 20  # 10⁶ has 20 binary digits


def test_first_asks_twice_when_the_guess_is_right():
    asked = []

    certified.first(lambda n: asked.append(n) or n >= 77, 77, 0, 2**62)

    assert asked == [77, 76]


@given(st.floats(min_value=0.0, allow_infinity=True))
def test_ordinals_count_floats(value):
    number = certified.ordinal(value)

    assert value == certified.float_of(number)
    if value < math.inf:
        assert number + 1 == certified.ordinal(math.nextafter(value, math.inf))
