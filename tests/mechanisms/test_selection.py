"""Choosing: what is accepted, what comes back, what it is said to cost; bad input draws nothing."""

import copy
import dataclasses
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from ferrodp import NoiseSource, _native
from ferrodp.accounting import EpsilonDeltaEvent, ExponentialMechanismEvent, PureDpAccountant
from ferrodp.accounting.curves.hockey_stick import hockey_stick_delta
from ferrodp.errors import (
    EntropyError,
    InvalidArray,
    InvalidArrayType,
    InvalidParameter,
    InvalidType,
    WeakPrivacyWarning,
)
from ferrodp.mechanisms import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from ferrodp.testing import seeded

MECHANISMS = [ExponentialMechanism, PermuteAndFlip, ReportNoisyMax]
PARAMETERS = {"scale": 3.0, "sensitivity": 2.0}
CALIBRATION = {"epsilon": 0.5, "sensitivity": 2.0}
KEY = b"mechanisms: choices             "

pytestmark = pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.__name__)


def test_calibrated_noise_keeps_the_promise_and_is_no_float_more(kind):
    for epsilon in (0.1, Decimal("0.1"), Fraction(1, 3), 1e-9, 7, 19.9):
        for monotonic in (False, True):
            mechanism = kind.calibrated(epsilon=epsilon, sensitivity=3.0, monotonic=monotonic)
            whole = Fraction(3 if monotonic else 6)

            assert whole / Fraction(mechanism.scale) <= Fraction(epsilon)
            assert whole / Fraction(math.nextafter(mechanism.scale, 0.0)) > Fraction(epsilon)
            assert mechanism.delta(math.nextafter(float(epsilon), math.inf)) == 0.0
            assert mechanism.monotonic is monotonic


def test_the_event_has_the_epsilon_of_the_theorem(kind):
    expected = ExponentialMechanismEvent if kind is ExponentialMechanism else EpsilonDeltaEvent
    mechanism = kind(**PARAMETERS)

    assert type(mechanism.event) is expected
    assert mechanism.event.epsilon == mechanism.epsilon() == math.nextafter(4.0 / 3.0, 2.0)  # 4/3 rounded up
    assert kind(**PARAMETERS, monotonic=True).epsilon() == math.nextafter(2.0 / 3.0, 1.0)
    accountant = PureDpAccountant()
    accountant.compose(mechanism.event, count=3)
    assert accountant.epsilon(0.0) >= 3 * 4.0 / 3.0


def test_the_curve_is_no_worse_than_that_of_the_event(kind):
    mechanism = kind(**PARAMETERS)

    for epsilon in (0.0, 0.1, 0.7, 1.3):
        assert mechanism.delta(epsilon) <= hockey_stick_delta(mechanism.event, epsilon).upper
    assert mechanism.delta(2.0) == 0.0
    assert mechanism.epsilon(0.9) == 0.0
    if kind is ExponentialMechanism:
        assert mechanism.delta(0.5) < 0.5 * PermuteAndFlip(**PARAMETERS).delta(0.5)


def test_weak_promises_warn_once(kind):
    with pytest.warns(WeakPrivacyWarning, match="epsilon is above 20") as caught:
        kind.calibrated(epsilon=20.5, sensitivity=1.0)
    assert len(caught) == 1
    assert caught[0].filename == __file__


BAD_NUMBERS = [math.nan, math.inf, -math.inf, 0, -0.0, -1.0, Decimal("NaN"), Fraction(-1, 2), 10**400]
BAD_TYPES = [True, "1", b"1", 1j, None, [1.0], np.array(1.0)]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: repr(bad)[:20])
def test_parameters_out_of_their_domain_are_refused(kind, bad):
    for name in PARAMETERS:
        with pytest.raises(InvalidParameter, match=f"^{name} must be finite and"):
            kind(**{**PARAMETERS, name: bad})
    for name in CALIBRATION:
        with pytest.raises(InvalidParameter, match=f"^{name} must be finite and"):
            kind.calibrated(**{**CALIBRATION, name: bad})


@pytest.mark.parametrize("bad", BAD_TYPES, ids=lambda bad: type(bad).__name__)
def test_parameters_of_other_types_are_refused(kind, bad):
    for name in PARAMETERS:
        with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
            kind(**{**PARAMETERS, name: bad})
    for name in CALIBRATION:
        with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
            kind.calibrated(**{**CALIBRATION, name: bad})
    if bad is not True:
        with pytest.raises(InvalidParameter, match="monotonic must be True or False"):
            kind(**PARAMETERS, monotonic=bad)
        with pytest.raises(InvalidParameter, match="monotonic must be True or False"):
            kind.calibrated(**CALIBRATION, monotonic=bad)


@pytest.mark.parametrize("method", ["epsilon", "delta"])
def test_points_of_the_curve_are_checked(kind, method):
    with pytest.raises(InvalidParameter):
        getattr(kind(**PARAMETERS), method)(-0.5)
    with pytest.raises(InvalidParameter):
        getattr(kind(**PARAMETERS), method)(math.nan)
    with pytest.raises(InvalidType):
        getattr(kind(**PARAMETERS), method)("0.5")


def test_scales_end_where_the_sampler_does(kind):
    for scale in (1e-300, 1e300):
        assert kind(scale=scale, sensitivity=1e-3).release([1.0, 1.0, 1.0]) in (0, 1, 2)
    for scale in (math.nextafter(1e-300, 0.0), math.nextafter(1e300, math.inf)):
        with pytest.raises(InvalidParameter, match="scale must be from 1e-300 to 1e300"):
            kind(scale=scale, sensitivity=1.0)
    with pytest.raises(InvalidParameter, match="sensitivity must be within the range of floats of scale, got 100"):
        kind(scale=1e-300, sensitivity=1e10)


def test_mechanisms_are_immutable_values(kind):
    mechanism = kind(**PARAMETERS, monotonic=True)

    assert mechanism == kind(**PARAMETERS, monotonic=True)
    assert mechanism != kind(**PARAMETERS)
    assert all(mechanism != other(**PARAMETERS, monotonic=True) for other in MECHANISMS if other is not kind)
    assert hash(mechanism) == hash(kind(**PARAMETERS, monotonic=True))
    assert repr(mechanism) == f"{kind.__name__}(scale=3.0, sensitivity=2.0, monotonic=True)"
    assert mechanism.guarantee == "exact"
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.scale = 1.0
    for again in (pickle.loads(pickle.dumps(mechanism)), copy.copy(mechanism), copy.deepcopy(mechanism)):
        assert again == mechanism
        assert again.release([1.0]) == 0
    with pytest.raises(TypeError):
        kind(3.0, 2.0)


# releases ---------------------------------------------------------------------------------------------------------

VALUES = [3.0, 0.0, 1.0, 2.0, 3.0]
FORMS = {
    "list": VALUES,
    "tuple": tuple(VALUES),
    "float64": np.array(VALUES),
    "float32": np.array(VALUES, np.float32),
    "big-endian": np.array(VALUES, ">f8"),
    "big-endian float32": np.array(VALUES, ">f4"),
    "strided": np.repeat(VALUES, 2)[::2],
    "reversed": np.array(VALUES[::-1])[::-1],
    **{np.dtype(kind).name: np.array(VALUES, kind) for kind in (np.int8, np.uint8, np.int32, np.int64, np.uint64)},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_utilities_does_not_show(kind, form):
    mechanism = kind(**PARAMETERS)
    values = FORMS[form]
    before = np.array(values).tobytes()

    chosen = [mechanism.release(each, source=seeded(KEY)) for each in (values, np.array(VALUES))]

    assert type(chosen[0]) is int
    assert chosen[0] == chosen[1]
    assert before == np.array(values).tobytes()


def test_candidates_come_back_themselves(kind):
    mechanism = kind(**PARAMETERS)
    index = mechanism.release(VALUES, source=seeded(KEY))

    for candidates in (["a", "b", "c", "d", "e"], "abcde", range(10, 15), np.arange(5) * 2, tuple(VALUES)):
        assert mechanism.release(VALUES, candidates=candidates, source=seeded(KEY)) == candidates[index]


def test_what_is_not_finite_counts_as_zero(kind):
    mechanism = kind(scale=1e-3, sensitivity=1.0)

    assert mechanism.release([math.inf, 5.0, math.nan, -math.inf]) == 1
    assert mechanism.release([math.inf, -5.0, -7.0]) == 0
    assert mechanism.release([10**400, 1.0]) == 0
    assert mechanism.release(np.array([-(2**63), 2**63 - 1])) == 1
    assert mechanism.release(np.array([2**64 - 1, 0], np.uint64)) == 0


def test_far_ahead_wins_and_releases_differ(kind):
    mechanism = kind(scale=1.0, sensitivity=1.0)

    assert {mechanism.release([0.0, 1e6, 0.0]) for _ in range(20)} == {1}
    assert len({mechanism.release(np.zeros(10**6)) for _ in range(5)}) > 1  # all alike with probability 1e-24
    assert 0 <= mechanism.release(np.zeros(100), source=NoiseSource()) < 100


BAD_UTILITIES = {
    "empty": ([], InvalidArray),
    "two-dimensional": (np.zeros((2, 2)), InvalidArray),
    "scalar": (1.0, InvalidArray),
    "zero-dimensional": (np.array(1.0), InvalidArray),
    "ragged": ([[1.0], [1.0, 2.0]], InvalidArrayType),
    "text": (["a"], InvalidArrayType),
    "truth values": (np.ones(3, bool), InvalidArrayType),
    "float16": (np.ones(3, np.float16), InvalidArrayType),
    "complex": (np.ones(3, complex), InvalidArrayType),
    "objects": (np.array([None, 1.0]), InvalidArrayType),
    "masked": (np.ma.ones(3), InvalidArrayType),
    "mapping": ({"a": 1.0}, InvalidArrayType),
    "none": (None, InvalidArrayType),
}


@pytest.mark.parametrize("bad", BAD_UTILITIES)
def test_bad_utilities_are_refused_before_anything_is_drawn(kind, bad):
    utilities, error = BAD_UTILITIES[bad]
    source, mechanism = seeded(KEY), kind(**PARAMETERS)

    with pytest.raises(error, match=r"^utilities must"):
        mechanism.release(utilities, source=source)

    assert mechanism.release(np.zeros(1000), source=source) == mechanism.release(np.zeros(1000), source=seeded(KEY))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (["a"], InvalidArray),
        ([], InvalidArray),
        ({"a": 1, "b": 2}, InvalidType),
        pytest.param({"a", "b"}, InvalidType, id="a set"),
        (2, InvalidType),
    ],
    ids=str,
)
def test_bad_candidates_are_refused_before_anything_is_drawn(kind, bad, error):
    source, mechanism = seeded(KEY), kind(**PARAMETERS)

    with pytest.raises(error, match=r"^candidates must"):
        mechanism.release([1.0, 2.0], candidates=bad, source=source)

    assert mechanism.release(np.zeros(1000), source=source) == mechanism.release(np.zeros(1000), source=seeded(KEY))


def test_messages_hold_no_utilities(kind):
    with pytest.raises(InvalidArray) as caught:
        kind(**PARAMETERS).release(np.array([[123.456, 654.321]]))

    assert "123" not in str(caught.value)
    assert "654" not in str(caught.value)


@pytest.mark.parametrize("wrong", [0, "os", np.random.default_rng(0), NoiseSource], ids=str)
def test_sources_are_noise_sources(kind, wrong):
    with pytest.raises(InvalidType, match="source must be a NoiseSource or None, got"):
        kind(**PARAMETERS).release([1.0], source=wrong)


def test_without_entropy_nothing_is_chosen(kind, monkeypatch):
    def no_entropy(*_):
        raise EntropyError("no random bytes")

    monkeypatch.setattr(_native, "choose_candidate", no_entropy)

    with pytest.raises(EntropyError):
        kind(**PARAMETERS).release([1.0, 2.0])
