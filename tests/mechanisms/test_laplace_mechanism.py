"""The Laplace mechanism: what it promises is what it draws, and bad parameters never make one."""

import copy
import dataclasses
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import LaplaceEvent, laplace_delta
from ferrodp.errors import InvalidParameter, InvalidType, WeakPrivacyWarning
from ferrodp.mechanisms import LaplaceMechanism

PARAMETERS = {"scale": 3.0, "l1_sensitivity": 2.0}
CALIBRATION = {"epsilon": 0.5, "l1_sensitivity": 2.0}

moderate = st.floats(min_value=1e-100, max_value=1e100)


@given(moderate, moderate)
def test_the_noise_drawn_is_never_less_than_the_noise_accounted_for(scale, sensitivity):
    event = LaplaceMechanism(scale=scale, l1_sensitivity=sensitivity).event

    assert Fraction(event.noise_multiplier) * Fraction(sensitivity) <= Fraction(scale)
    assert Fraction(math.nextafter(event.noise_multiplier, math.inf)) * Fraction(sensitivity) > Fraction(scale)


@given(moderate, moderate)
def test_the_pure_epsilon_is_the_ratio_rounded_up(scale, sensitivity):
    epsilon = LaplaceMechanism(scale=scale, l1_sensitivity=sensitivity).epsilon()
    ratio = Fraction(sensitivity) / Fraction(scale)

    assert Fraction(math.nextafter(epsilon, 0.0)) < ratio <= Fraction(epsilon)


@given(st.floats(min_value=1e-6, max_value=20.0), st.floats(min_value=1e-6, max_value=1e6))
def test_calibrated_noise_keeps_the_promise(epsilon, sensitivity):
    mechanism = LaplaceMechanism.calibrated(epsilon=epsilon, l1_sensitivity=sensitivity)

    assert mechanism.epsilon() <= epsilon
    assert mechanism.delta(epsilon) == 0.0
    # and not a float more than it takes
    assert Fraction(math.nextafter(mechanism.scale, 0.0)) * Fraction(epsilon) < Fraction(sensitivity)


def test_a_tenth_is_a_tenth():
    for tenth in (0.1, Decimal("0.1"), Fraction(1, 10)):
        assert LaplaceMechanism.calibrated(epsilon=tenth, l1_sensitivity=1).scale == 10.0


def test_the_curve_is_that_of_the_ratio():
    mechanism = LaplaceMechanism(**PARAMETERS)

    assert mechanism.event == LaplaceEvent(noise_multiplier=1.5)
    assert mechanism.delta(0.25) == laplace_delta(epsilon=0.25, noise_multiplier=1.5)
    # ε₀ + 2·ln(1 − δ) with ε₀ = 2/3, to the 2⁻⁵³ of three operations
    assert mechanism.epsilon(0.1) == pytest.approx(2 / 3 + 2 * math.log(0.9), rel=1e-15)
    assert mechanism.epsilon(0.9) == 0.0
    assert mechanism.standard_deviation == pytest.approx(3 * math.sqrt(2), rel=1e-15)
    with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got -1"):
        mechanism.delta(-1)
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \[0, 1\), got 1"):
        mechanism.epsilon(1)


def test_weak_promises_warn_once():
    with pytest.warns(WeakPrivacyWarning, match="epsilon is above 20") as caught:
        LaplaceMechanism.calibrated(epsilon=Fraction(41, 2), l1_sensitivity=1.0)
    assert len(caught) == 1
    assert caught[0].filename == __file__


BAD_NUMBERS = [math.nan, math.inf, -math.inf, 0, 0.0, -0.0, -1.0, Decimal("NaN"), Decimal(-1), Fraction(-1, 2), 10**400]
BAD_TYPES = [True, "1", b"1", 1j, None, [1.0], np.array(1.0), np.array([1.0])]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: repr(bad)[:20])
def test_parameters_out_of_their_domain_are_refused(bad):
    for name in PARAMETERS:
        with pytest.raises(InvalidParameter, match=f"^{name} must be finite and"):
            LaplaceMechanism(**{**PARAMETERS, name: bad})
    for name in CALIBRATION:
        with pytest.raises(InvalidParameter, match=f"^{name} must be finite and"):
            LaplaceMechanism.calibrated(**{**CALIBRATION, name: bad})


@pytest.mark.parametrize("bad", BAD_TYPES, ids=lambda bad: type(bad).__name__)
def test_parameters_of_other_types_are_refused(bad):
    for name in PARAMETERS:
        with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
            LaplaceMechanism(**{**PARAMETERS, name: bad})
    for name in CALIBRATION:
        with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
            LaplaceMechanism.calibrated(**{**CALIBRATION, name: bad})


@pytest.mark.parametrize("scale", [5e-324, 2.0**-869, 2.0**921, 1.7976931348623157e308])
def test_noise_without_a_grid_is_refused_with_the_range(scale):
    with pytest.raises(InvalidParameter, match=r"scale must be at least 2\^-868 and below 2\^921, got"):
        LaplaceMechanism(scale=scale, l1_sensitivity=1.0)


def test_a_ratio_below_all_floats_is_refused():
    with pytest.raises(InvalidParameter, match="l1_sensitivity must be within the range of floats of scale, got 1e"):
        LaplaceMechanism(scale=2.0**-868, l1_sensitivity=1e300)


@pytest.mark.parametrize("scale", [2.0**-868, math.nextafter(2.0**921, 0.0)])
def test_noise_at_the_ends_of_the_range_can_be_drawn(scale):
    mechanism = LaplaceMechanism(scale=scale, l1_sensitivity=1e-100 if scale < 1 else 1.0)

    for dtype in (np.float32, np.float64):
        assert np.isfinite(mechanism.release(np.zeros(3, dtype))).all()


def test_mechanisms_are_immutable_values():
    mechanism = LaplaceMechanism(**PARAMETERS)

    assert mechanism == LaplaceMechanism(**PARAMETERS)
    assert repr(mechanism) == "LaplaceMechanism(scale=3.0, l1_sensitivity=2.0)"
    assert mechanism.guarantee == "exact"
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.scale = 1.0
    for again in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism)):
        assert again == mechanism
        assert math.isfinite(again.release(0.0))
