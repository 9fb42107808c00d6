"""Every bad scalar is refused by name, with what is accepted; every good one is taken for exactly what it is."""

import math
import pickle
import sys
import time
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp import errors
from ferrodp._base import _validate
from ferrodp.errors import FerroError, InvalidParameter, InvalidType

TINY = math.ulp(0.0)
HUGE = 10**400

NOT_FINITE = [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf"), np.longdouble("nan")] + [
    Decimal(text) for text in ("NaN", "-NaN", "sNaN", "Infinity", "-Infinity")
]
NOT_POSITIVE = [0, 0.0, -0.0, -1, -TINY, np.float64(-1), np.int8(0), Decimal(0), Decimal("-0"), Fraction(-1, 3), -HUGE]
WRONG_TYPES = [
    True,
    False,
    np.True_,
    "1",
    "",
    b"1",
    bytearray(b"1"),
    1j,
    np.complex128(1),
    None,
    [1.0],
    (1.0,),
    {},
    np.array(1.0),
    np.array([1.0]),
    np.timedelta64(1),
    np.datetime64(1, "s"),
    object(),
    float,
    memoryview(b"1"),
]
OUT_OF_RANGE = [HUGE, Decimal("1e400"), Decimal("1e999999999"), Fraction(HUGE)]


def type_name(value):
    return type(value).__name__


CHECKS = {
    "positive": lambda value: _validate.positive("clip_norm", value),
    "non_negative": lambda value: _validate.non_negative("clip_norm", value),
    "probability": lambda value: _validate.probability("clip_norm", value),
    "delta": lambda value: _validate.delta(value, name="clip_norm"),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("bad", NOT_FINITE, ids=repr)
def test_numbers_that_are_not_finite_are_refused(check, bad):
    with pytest.raises(InvalidParameter, match=r"^clip_norm must be finite and .*, got "):
        check(bad)


@pytest.mark.parametrize("check", [*CHECKS.values(), lambda value: _validate.exact("clip_norm", value)])
@pytest.mark.parametrize("bad", WRONG_TYPES, ids=type_name)
def test_other_types_are_type_errors(check, bad):
    expected = "clip_norm must be a real number (int, float, numpy scalar, Decimal or Fraction), got "

    with pytest.raises(InvalidType) as caught:
        check(bad)

    found, _, offered = str(caught.value).partition("; for example ")
    single = isinstance(bad, (str, bool, complex))  # of everything else the type alone is told: it could be data
    assert expected + type(bad).__name__ + f" {bad!r}" * single == found
    assert offered.startswith("clip_norm=")
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("bad", NOT_POSITIVE, ids=_validate.shown)
def test_zero_and_less_are_not_positive(bad):
    with pytest.raises(InvalidParameter) as caught:
        _validate.positive("clip_norm", bad)

    rule = "clip_norm must be finite and > 0"
    assert f"{rule}, got {_validate.shown(bad)}; for example clip_norm=1.0" == str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("check", [CHECKS["positive"], CHECKS["non_negative"]])
@pytest.mark.parametrize("bad", OUT_OF_RANGE, ids=_validate.shown)
def test_numbers_beyond_floats_are_refused_with_the_range(check, bad):
    with pytest.raises(InvalidParameter, match=r"^clip_norm must be finite and from 4.94e-324 to 1.8e\+308, got "):
        check(bad)


@pytest.mark.parametrize(
    "value",
    [
        1,
        0.1,
        TINY,
        sys.float_info.max,
        np.float16(0.1),
        np.float32(0.1),
        np.float64(0.1),
        np.longdouble("0.1"),
        np.int8(3),
        np.uint64(2**64 - 1),
        2**53 + 1,
        2**64 + 1,
        10**300,
        Decimal("0.1"),
        Decimal("1e-300"),
        Fraction(1, 3),
        Fraction(10**300 + 1, 10**300),
    ],
    ids=_validate.shown,
)
def test_numbers_are_rounded_to_the_side_that_was_asked_for(value):
    up = _validate.positive("scale", value, toward="up")
    down = _validate.positive("scale", value, toward="down")
    truth = _validate.exact("scale", value)

    assert Fraction(math.nextafter(up, 0.0)) < truth <= Fraction(up)
    assert Fraction(down) <= truth
    assert truth < Fraction(math.nextafter(down, math.inf)) if down < sys.float_info.max else truth == Fraction(down)
    assert type(up) is type(down) is float


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_rounding_brackets_every_fraction(value):
    up, down = (_validate.positive("scale", value, toward=toward) for toward in ("up", "down"))

    assert Fraction(down) <= value <= Fraction(up)
    assert up <= math.nextafter(down, math.inf)


@given(st.decimals(min_value="1e-300", max_value="1e300", allow_nan=False, allow_infinity=False))
def test_decimals_and_their_fractions_agree(value):
    for toward in ("up", "down"):
        as_fraction = _validate.positive("scale", Fraction(value), toward=toward)

        assert as_fraction == _validate.positive("scale", value, toward=toward)


def test_numbers_below_all_floats_round_up_to_the_smallest_or_are_refused():
    for value in (Decimal("1e-400"), Decimal("1e-999999999"), Fraction(1, HUGE)):
        assert _validate.positive("scale", value, toward="up") == TINY
        with pytest.raises(InvalidParameter, match=r"clip_norm must be finite and from 4\.94e-324 to 1\.8"):
            _validate.positive("clip_norm", value, toward="down")


def test_decimals_with_huge_exponents_take_no_time():
    """Their ratio would have 10⁹ digits."""
    start = time.perf_counter()
    for text in ("1e999999999", "1e-999999999", "-1e999999999"):
        for check in (*CHECKS.values(), _validate.granularity, lambda value: _validate.exact("x", value)):
            try:
                check(Decimal(text))
            except InvalidParameter:
                continue

    assert time.perf_counter() - start < 1.0


def test_messages_stay_short_for_numbers_of_any_length():
    for value in (10**5000, -(10**5000), Fraction(1, 10**5000), Decimal(10**5000), "x" * 5000):
        assert len(_validate.shown(value)) <= 80


def test_minus_zero_becomes_zero():
    assert math.copysign(1.0, _validate.non_negative("epsilon", -0.0)) == 1.0
    assert math.copysign(1.0, _validate.probability("q", Decimal("-0"))) == 1.0


@pytest.mark.parametrize("bad", [-1, -TINY, -HUGE, Decimal("-1e-999")], ids=_validate.shown)
def test_less_than_zero_is_negative(bad):
    with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got"):
        _validate.non_negative("epsilon", bad)


@pytest.mark.parametrize("bad", [-0.1, 1.0000000000000002, 2, HUGE, Fraction(10**30 + 1, 10**30)], ids=_validate.shown)
def test_probabilities_end_at_0_and_1(bad):
    with pytest.raises(InvalidParameter, match=r"q must be finite and in \[0, 1\], got"):
        _validate.probability("q", bad)
    assert [_validate.probability("q", good) for good in (0, 0.5, 1, Fraction(1, 2))] == [0.0, 0.5, 1.0, 0.5]


@pytest.mark.parametrize("bad", [0, 0.0, 1, 1.0, 1.5, -0.1, HUGE], ids=_validate.shown)
def test_delta_is_neither_0_nor_1(bad):
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \(0, 1\), got"):
        _validate.delta(bad)


def test_delta_may_be_0_where_pure_privacy_makes_sense():
    assert _validate.delta(0, zero=True) == 0.0
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \[0, 1\), got 1"):
        _validate.delta(1, zero=True)
    almost = Fraction(10**50 - 1, 10**50)
    for toward in ("up", "down"):
        assert _validate.delta(almost, toward=toward) == math.nextafter(1.0, 0.0)


@pytest.mark.parametrize("value", [1, np.int32(1), np.uint8(1)])
def test_counts_are_ints_of_any_kind(value):
    assert _validate.count("count", value) == 1
    assert type(_validate.count("count", value)) is int


@pytest.mark.parametrize("bad", [1.0, np.float64(1), Decimal(1), Fraction(1), *WRONG_TYPES], ids=type_name)
def test_counts_of_other_types_are_refused(bad):
    with pytest.raises(InvalidType, match=f"count must be an int, got {type(bad).__name__}"):
        _validate.count("count", bad)


@pytest.mark.parametrize("bad", [0, -1, 2**63, HUGE], ids=_validate.shown)
def test_counts_out_of_range_are_refused(bad):
    accepted = "an int >= 1" if bad < 1 else "an int from 1 to 9223372036854775807"
    with pytest.raises(InvalidParameter, match=f"count must be {accepted}, got .*; for example count=[1-9]"):
        _validate.count("count", bad)


def test_threads_are_none_or_1_to_256():
    assert [_validate.threads(value) for value in (None, 1, np.int64(256))] == [None, 1, 256]
    for bad in (0, 257, -1):
        with pytest.raises(InvalidParameter, match="threads must be an int from 1 to 256, got"):
            _validate.threads(bad)
    for bad in (True, 1.0, "2"):
        with pytest.raises(InvalidType, match="threads must be an int, got"):
            _validate.threads(bad)


@pytest.mark.parametrize(
    "good", [1, 0.5, 2.0**-900, 2.0**900, Fraction(1, 1024), Decimal("0.125"), np.float32(4), 2**70]
)
def test_granularities_are_powers_of_two(good):
    assert float(good) == _validate.granularity(good)
    assert _validate.granularity(None) is None


@pytest.mark.parametrize(
    "bad",
    [
        *(0, -1, -0.5, 3, 0.1, Fraction(1, 3), Decimal("0.1"), 2.0**-901, 2.0**901, TINY, 2**70 + 1, HUGE),
        *(Fraction(2**200 + 1, 2**200), Decimal("1e-999999999")),
        *NOT_FINITE,
    ],
    ids=_validate.shown,
)
def test_other_granularities_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"granularity must be a power of two from 2\^-900 to 2\^900, got"):
        _validate.granularity(bad)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (3, (3,)),
        ((), ()),
        ([], ()),
        ((2, 3), (2, 3)),
        ([np.int64(2), 0], (2, 0)),
        (np.uint8(7), (7,)),
        ((1,) * 64, (1,) * 64),
    ],
)
def test_sizes_are_ints_or_sequences_of_ints(value, shape):
    assert shape == _validate.size(value)


@pytest.mark.parametrize(
    "bad", [1.0, "3", None, True, (2, 3.0), ((2,), 3), {2}, np.array([2, 3]), b"ab", range(3)], ids=repr
)
def test_sizes_of_other_types_are_refused(bad):
    with pytest.raises(InvalidType, match="size must be an int, got"):
        _validate.size(bad)


@pytest.mark.parametrize(
    "bad", [-1, (2, -3), 2**63, (2**62, 4), (2**40, 2**40), (2**62, 0, 2**62), HUGE], ids=_validate.shown
)
def test_sizes_beyond_the_address_space_are_refused(bad):
    with pytest.raises(InvalidParameter, match="size must"):
        _validate.size(bad)


def test_sizes_of_too_many_dimensions_are_refused():
    with pytest.raises(InvalidParameter, match="size must have at most 64 dimensions, got 65"):
        _validate.size((1,) * 65)


def test_sizes_beyond_the_machine_are_memory_errors_before_any_allocation():
    with pytest.raises(MemoryError, match="size stands for 9007199254740992 bytes, more than this machine has"):
        _validate.size(2**50)


def test_the_fast_path_takes_floats_only():
    assert _validate.positive("scale", 0.1) == 0.1
    assert type(_validate.positive("scale", np.float64(0.1))) is float


ERRORS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("error", ERRORS)
def test_errors_pickle_and_are_documented(error):
    again = pickle.loads(pickle.dumps(error("clip_norm must be finite and > 0")))

    assert type(again) is error
    assert str(again) == "clip_norm must be finite and > 0"
    assert error.__doc__


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InvalidParameter, ValueError),
        (errors.InvalidType, TypeError),
        (errors.InvalidArray, ValueError),
        (errors.InvalidArrayType, TypeError),
        (errors.InvalidArrayType, errors.InvalidArray),
        (errors.EntropyError, OSError),
        (errors.CalibrationError, ValueError),
        (errors.UnsupportedEventError, ValueError),
        (errors.WeakPrivacyWarning, UserWarning),
    ],
)
def test_errors_are_what_callers_who_never_heard_of_them_catch(error, builtin):
    assert issubclass(error, builtin)
    assert issubclass(error, FerroError) or error is errors.WeakPrivacyWarning


class Long(float):
    """A float that no quick way is meant for."""

    def __repr__(self):
        return float.__repr__(self)


def outcome(check, value):
    try:
        return repr(check("x", value))
    except (InvalidParameter, InvalidType) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("toward", ["up", "down"])
def test_quick_answers_are_the_long_ones(zero, toward):
    checks = [
        partial(_validate.positive, toward=toward),
        partial(_validate.non_negative, toward=toward),
        partial(_validate.probability, toward=toward),
        lambda name, value: _validate.delta(value, name=name, zero=zero, toward=toward),
    ]
    ends = [0.0, 1.0, 100.0, sys.float_info.max, sys.float_info.min, 5e-324]
    near = [math.nextafter(end, way) for end in ends for way in (-math.inf, math.inf)]
    values = [*ends, *near, 0.5, -0.0, -1.0, math.inf, -math.inf, math.nan]
    for check in checks:
        for value in values:
            assert outcome(check, value) == outcome(check, Long(value)), (check, value)


def test_quick_counts_are_the_long_ones():
    for minimum, maximum in ((0, 5), (1, 5), (1, _validate.MAX_COUNT)):
        for value in (-1, 0, 1, 5, 6, 2**63 - 1, 2**63):
            check = partial(_validate.count, minimum=minimum, maximum=maximum)
            given = np.uint64(value) if value >= 0 else np.int64(value)
            assert outcome(check, value)[0] == outcome(check, given)[0], (minimum, maximum, value)
    assert type(outcome(_validate.count, True)) is tuple  # `type(True) is int` is false
