"""The Gaussian mechanism: what it promises is what it draws, and bad parameters never make one."""

import copy
import dataclasses
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import GaussianEvent, gaussian_delta, gaussian_epsilon, gaussian_noise_multiplier
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType, WeakPrivacyWarning
from ferrodp.mechanisms import GaussianMechanism

PARAMETERS = {"noise_multiplier": 1.5, "l2_sensitivity": 2.0}
CALIBRATION = {"epsilon": 1.0, "delta": 1e-6, "l2_sensitivity": 2.0}

moderate = st.floats(min_value=1e-100, max_value=1e100)


@given(moderate, moderate)
def test_the_noise_drawn_is_never_less_than_the_noise_accounted_for(multiplier, sensitivity):
    mechanism = GaussianMechanism(noise_multiplier=multiplier, l2_sensitivity=sensitivity)
    least = Fraction(mechanism.event.noise_multiplier) * Fraction(sensitivity)

    assert Fraction(math.nextafter(mechanism.standard_deviation, 0.0)) < least
    assert least <= Fraction(mechanism.standard_deviation)


def test_numbers_that_are_no_floats_are_rounded_up():
    mechanism = GaussianMechanism(noise_multiplier=Fraction(1, 3), l2_sensitivity=Decimal("0.7"))

    assert mechanism.noise_multiplier == math.nextafter(1 / 3, 1.0)  # the float 1/3 lies below 1/3
    assert mechanism.l2_sensitivity == math.nextafter(0.7, 1.0)  # and the float 0.7 below 7/10
    assert GaussianMechanism(noise_multiplier=1, l2_sensitivity=np.float32(2)).standard_deviation == 2.0


def test_the_event_is_what_was_drawn():
    assert GaussianMechanism(**PARAMETERS).event == GaussianEvent(noise_multiplier=1.5)


def test_the_curve_is_that_of_the_noise_multiplier():
    mechanism = GaussianMechanism(**PARAMETERS)

    assert mechanism.epsilon(1e-5) == gaussian_epsilon(delta=1e-5, noise_multiplier=1.5)
    assert mechanism.delta(0.5) == gaussian_delta(epsilon=0.5, noise_multiplier=1.5)
    with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got -1"):
        mechanism.delta(-1)
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \(0, 1\), got 0"):
        mechanism.epsilon(0)


@settings(max_examples=30, deadline=None)
@given(
    st.floats(min_value=1e-3, max_value=20.0),
    st.floats(min_value=-30.0, max_value=-1.0).map(lambda x: 10.0**x),
    st.floats(min_value=1e-3, max_value=1e3),
)
def test_calibrated_noise_keeps_the_promise(epsilon, delta, sensitivity):
    mechanism = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, l2_sensitivity=sensitivity)

    assert mechanism.epsilon(delta) <= epsilon
    assert mechanism.delta(epsilon) <= delta
    assert mechanism.l2_sensitivity == sensitivity
    # and not a float more than it takes: δ of the multiplier below is too large
    assert gaussian_delta(epsilon=epsilon, noise_multiplier=math.nextafter(mechanism.noise_multiplier, 0.0)) > delta


def test_the_classical_method_is_the_textbook_formula():
    mechanism = GaussianMechanism.calibrated(**CALIBRATION, method="classical")

    # Δ·√(2 ln(1.25/δ))/ε: six operations, each within 2⁻⁵³ or an ulp of 1.1e-16
    assert mechanism.standard_deviation == pytest.approx(2.0 * math.sqrt(2 * math.log(1.25e6)), rel=1e-15)
    assert mechanism.standard_deviation > GaussianMechanism.calibrated(**CALIBRATION).standard_deviation
    with pytest.raises(InvalidParameter, match="epsilon must be at most 1 for the classical method, got 2"):
        GaussianMechanism.calibrated(epsilon=2, delta=1e-6, l2_sensitivity=1.0, method="classical")


def test_weak_promises_warn_once():
    with pytest.warns(WeakPrivacyWarning, match="epsilon is above 20") as caught:
        GaussianMechanism.calibrated(epsilon=20.5, delta=1e-6, l2_sensitivity=1.0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianMechanism.calibrated(epsilon=20, delta=1e-6, l2_sensitivity=1.0)


BAD_NUMBERS = [math.nan, math.inf, -math.inf, 0, 0.0, -0.0, -1.0, Decimal("NaN"), Decimal(-1), Fraction(-1, 2), 10**400]
BAD_TYPES = [True, "1", b"1", 1j, None, [1.0], np.array(1.0), np.array([1.0])]


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: repr(bad)[:20])
def test_parameters_out_of_their_domain_are_refused(name, bad):
    with pytest.raises(InvalidParameter, match=f"^{name} must be finite and"):
        GaussianMechanism(**{**PARAMETERS, name: bad})


@pytest.mark.parametrize("name", CALIBRATION)
@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: repr(bad)[:20])
def test_targets_out_of_their_domain_are_refused(name, bad):
    with pytest.raises(InvalidParameter, match=f"^{name} must be finite and"):
        GaussianMechanism.calibrated(**{**CALIBRATION, name: bad})


@pytest.mark.parametrize("bad", BAD_TYPES, ids=lambda bad: type(bad).__name__)
def test_parameters_of_other_types_are_refused(bad):
    for name in PARAMETERS:
        with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
            GaussianMechanism(**{**PARAMETERS, name: bad})
    for name in CALIBRATION:
        with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
            GaussianMechanism.calibrated(**{**CALIBRATION, name: bad})


@pytest.mark.parametrize("size", [5e-324, 1e-300, 2.0**-869, 2.0**913, 1e300, 1.7976931348623157e308])
def test_noise_without_a_grid_is_refused_with_the_range(size):
    expected = (
        r"standard_deviation \(noise_multiplier \* l2_sensitivity\) must be at least 2\^-868 and below 2\^913, got"
    )

    with pytest.raises(InvalidParameter, match=expected):
        GaussianMechanism(noise_multiplier=size, l2_sensitivity=1.0)
    with pytest.raises(InvalidParameter, match=expected):
        GaussianMechanism(noise_multiplier=size, l2_sensitivity=size)


@pytest.mark.parametrize("size", [2.0**-868, math.nextafter(2.0**913, 0.0)])
def test_noise_at_the_ends_of_the_range_can_be_drawn(size):
    mechanism = GaussianMechanism(noise_multiplier=size, l2_sensitivity=1.0)

    for dtype in (np.float32, np.float64):
        assert np.isfinite(mechanism.release(np.zeros(3, dtype))).all()
    assert math.isfinite(mechanism.release(0.0))


def test_a_target_out_of_reach_is_a_calibration_error():
    with pytest.raises(CalibrationError):
        GaussianMechanism.calibrated(epsilon=5e-324, delta=5e-324, l2_sensitivity=1.0)


def test_mechanisms_are_immutable_values():
    mechanism = GaussianMechanism(**PARAMETERS)

    assert mechanism == GaussianMechanism(**PARAMETERS)
    assert hash(mechanism) == hash(GaussianMechanism(**PARAMETERS))
    assert repr(mechanism) == "GaussianMechanism(noise_multiplier=1.5, l2_sensitivity=2.0)"
    assert mechanism.guarantee == "exact"
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.l2_sensitivity = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.standard_deviation = 1.0
    with pytest.raises(TypeError):
        GaussianMechanism(1.5, 2.0)


def test_copies_draw_the_same_noise_scale():
    mechanism = GaussianMechanism(**PARAMETERS)

    for again in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism), copy.copy(mechanism)):
        assert again == mechanism
        assert again.standard_deviation == mechanism.standard_deviation
        assert math.isfinite(again.release(0.0))
    doubled = dataclasses.replace(mechanism, l2_sensitivity=4.0)
    assert doubled.standard_deviation == 6.0


def test_sensitivity_and_multiplier_scale_apart():
    """Twice the sensitivity is twice the noise at the same cost."""
    once, twice = (GaussianMechanism.calibrated(**{**CALIBRATION, "l2_sensitivity": d}) for d in (1.0, 2.0))

    assert twice.standard_deviation == 2 * once.standard_deviation
    assert twice.event == once.event
    assert once.noise_multiplier == gaussian_noise_multiplier(epsilon=1.0, delta=1e-6)
