"""The discrete mechanisms: what they cost by their own laws, calibration, and parameters that are refused."""

import copy
import dataclasses
import itertools
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from ferrodp.accounting import DiscreteGaussianEvent, DiscreteLaplaceEvent, gaussian_delta
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType, WeakPrivacyWarning
from ferrodp.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from support import vectors

TOLERANCE = 1e-12
"""Of the curves relatively to the chance that the loss exceeds ε, as `accounting.rdp.discrete_gaussian` states it."""


def exact(value):
    ratio = Fraction(value)
    return mpf(ratio.numerator) / ratio.denominator


# the discrete Gaussian by its own law -----------------------------------------------------------------------------


def gaussian_law(scale, reach):
    weights = {x: mpmath.exp(-mpf(x * x) / (2 * exact(scale) ** 2)) for x in range(-reach, reach + 1)}
    total = mpmath.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@vectors.each(vectors.samplers("dgauss-delta"))
def test_delta_is_the_given_one_and_not_the_continuous_one(vector):
    inputs = vector["inputs"]
    mechanism = DiscreteGaussianMechanism(scale=float(inputs["sigma"]), l2_sensitivity=inputs["mu"])
    found, expected = mechanism.delta(inputs["eps"]), mpf(vector["expected"])

    assert expected <= found <= float(expected) + TOLERANCE
    assert abs(found - float(inputs["continuous_delta"])) > TOLERANCE
    if found < 1.0:
        assert mechanism.epsilon(found) <= inputs["eps"]


@vectors.each(vectors.samplers("dgauss-rdp"))
def test_rho_bounds_the_given_divergences(vector):
    inputs = vector["inputs"]
    for dimension in (1, 2):
        mechanism = DiscreteGaussianMechanism(
            scale=float(inputs["sigma"]), l2_sensitivity=inputs["mu"], dimension=dimension
        )

        assert mpf(vector["expected"]) <= mpf(inputs["alpha"]) * mechanism.rho


@vectors.each(vectors.samplers("dgauss-var"))
def test_the_standard_deviation_of_the_gaussian_is_the_given_one(vector):
    sigma = Fraction(vector["inputs"]["sigma_exact"])
    mechanism = DiscreteGaussianMechanism(scale=float(sigma))

    assert mechanism.standard_deviation == pytest.approx(math.sqrt(float(vector["expected"])), rel=1e-12)
    assert mechanism.standard_deviation <= mechanism.scale


@pytest.mark.parametrize("move", [(1, 1), (1, -1), (1, 0), (0, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_no_move_of_a_vector_is_worse_than_said(move, epsilon):
    """The hockey stick of two coordinates, summed over a square that leaves out less than 1e-20."""
    mechanism = DiscreteGaussianMechanism(scale=1.0, l2_sensitivity=math.sqrt(2), dimension=2)
    with mp.workdps(30):
        law = gaussian_law(1, 14)
        ratio = mpmath.exp(epsilon)
        pairs = itertools.product(range(-11, 12), repeat=2)
        delta = mpmath.fsum(
            max(law[x] * law[y] - ratio * law[x - move[0]] * law[y - move[1]], mpf(0)) for x, y in pairs
        )

        assert delta <= mechanism.delta(epsilon) + mpf(10) ** -20


def test_delta_neither_falls_nor_rises_with_the_scale():
    """Why a scale that no float denotes is refused, and why calibration does not promise the least noise."""
    deltas = [DiscreteGaussianMechanism(scale=scale).delta(2.5) for scale in (0.4, 0.45, 0.5, 0.55, 0.6)]

    assert sorted(deltas) != deltas
    assert sorted(deltas, reverse=True) != deltas


@settings(max_examples=25)
@given(st.floats(0.01, 19.0), st.floats(1e-12, 0.5), st.integers(1, 5), st.sampled_from([1, 1, 3]))
def test_calibrated_gaussian_noise_keeps_the_promise(epsilon, delta, sensitivity, dimension):
    mechanism = DiscreteGaussianMechanism.calibrated(
        epsilon=epsilon, delta=delta, l2_sensitivity=sensitivity, dimension=dimension
    )

    assert mechanism.delta(epsilon) <= delta
    assert mechanism.epsilon(delta) <= epsilon
    assert mechanism.dimension == dimension
    if mechanism.scale > 0.011:  # within a percent below it there is less than enough
        less = DiscreteGaussianMechanism(
            scale=mechanism.scale * 0.99999, l2_sensitivity=sensitivity, dimension=dimension
        )
        assert less.delta(epsilon) > delta


def test_gaussian_noise_of_several_dimensions_costs_more():
    one, many = (DiscreteGaussianMechanism.calibrated(epsilon=1, delta=1e-6, dimension=d) for d in (1, 2))

    assert many.scale > one.scale
    assert many == DiscreteGaussianMechanism.calibrated(epsilon=1, delta=1e-6, dimension=10**9).__class__(
        scale=many.scale, dimension=2
    )
    assert gaussian_delta(epsilon=1.0, noise_multiplier=one.scale) < one.delta(1.0)


def test_calibration_that_cannot_succeed_says_so():
    for dimension in (1, 2):
        with pytest.raises(CalibrationError):
            DiscreteGaussianMechanism.calibrated(epsilon=1e-9, delta=1e-12, l2_sensitivity=2**50, dimension=dimension)


def test_beyond_the_widest_curve_zero_concentration_is_what_holds():
    within, beyond = (DiscreteGaussianMechanism(scale=s, l2_sensitivity=2**45) for s in (2.0**46, 2.0**47))
    wide = DiscreteGaussianMechanism(scale=2.0**46, l2_sensitivity=2**45, dimension=2)

    assert within.epsilon(1e-6) < wide.epsilon(1e-6)
    assert beyond.epsilon(1e-6) == DiscreteGaussianMechanism(scale=4.0, l2_sensitivity=1, dimension=2).epsilon(1e-6)
    assert beyond.delta(1.0) < wide.delta(1.0)
    far = DiscreteGaussianMechanism(scale=0.01, l2_sensitivity=2**53)
    assert far.rho < far.epsilon(1e-6) < 2 * far.rho
    assert far.delta(1.0) == 1.0
    made = DiscreteGaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, l2_sensitivity=2**50)
    assert 2.0**50 < made.scale < 2.0**54
    assert made.delta(1.0) <= 1e-6


def test_the_scale_of_the_gaussian_is_taken_exactly():
    half = DiscreteGaussianMechanism(scale=Fraction(1, 2))
    assert (half.scale, type(half.scale)) == (0.5, float)
    assert half.event == DiscreteGaussianEvent(scale=0.5, l2_sensitivity=1, dimension=1)
    for inexact in (Fraction(1, 3), Decimal("0.1"), Fraction(2**57 - 1, 2)):
        with pytest.raises(InvalidParameter, match="scale must be exactly a float in one dimension, got"):
            DiscreteGaussianMechanism(scale=inexact)
    third = DiscreteGaussianMechanism(scale=Fraction(1, 3), dimension=2)
    assert third.scale == Fraction(1, 3)
    assert Fraction(third.event.scale) < third.scale < Fraction(math.nextafter(third.event.scale, 1.0))
    assert Fraction(math.nextafter(third.rho, 0.0)) < Fraction(9, 2) <= Fraction(third.rho)
    assert third.release([5, 6], source=None).shape == (2,)


# the discrete Laplace law -----------------------------------------------------------------------------------------


@vectors.each(vectors.samplers("dlap-var"))
def test_the_standard_deviation_of_the_laplace_is_the_given_one(vector):
    mechanism = DiscreteLaplaceMechanism(scale=Fraction(vector["inputs"]["scale_exact"]))

    assert mechanism.standard_deviation == pytest.approx(math.sqrt(float(vector["expected"])), rel=1e-13)


def laplace_masses(move, r):
    """Return P[i] of the loss (move − 2i)/b; over any field."""
    middle = [r**i * (1 - r) / (1 + r) for i in range(1, move)]
    return [1 / (1 + r), *middle, r**move / (1 + r)] if move else [r * 0 + 1]


def laplace_curve(moves, r, z):
    """Return δ at e^ε = z for coordinates that move so far: the sum over all losses of their products."""
    total = sum(moves)
    found = r * 0
    for which in itertools.product(*(range(move + 1) for move in moves)):
        mass = math.prod((laplace_masses(move, r)[i] for move, i in zip(moves, which, strict=True)), start=r * 0 + 1)
        found += mass * max(1 - z * r ** (total - 2 * sum(which)), r * 0)
    return found


@pytest.mark.parametrize("r", [Fraction(1, 100), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)], ids=str)
@pytest.mark.parametrize("moves", [(1, 1), (2, 1), (3, 3), (1, 1, 1), (4, 1), (2, 2, 1), (5, 2)], ids=str)
def test_one_coordinate_that_moves_by_all_is_the_worst(moves, r):
    """In rational numbers, at all kinks, between them, and beyond."""
    total = sum(moves)
    points = [r ** -Fraction(k, 1) for k in range(-total - 1, total + 2)]
    points += [(a + b) / 2 for a, b in itertools.pairwise(points)]

    for z in points:
        assert laplace_curve(moves, r, z) <= laplace_curve((total,), r, z)
    for fewer in range(total):
        assert all(laplace_curve((fewer,), r, z) <= laplace_curve((total,), r, z) for z in points)


@given(st.fractions(Fraction(1, 100), 1000, max_denominator=10**6), st.integers(1, 6), st.floats(0.0, 1.2))
def test_the_curve_of_the_laplace_is_that_of_its_law(scale, sensitivity, share):
    mechanism = DiscreteLaplaceMechanism(scale=scale, l1_sensitivity=sensitivity)
    pure = Fraction(sensitivity) / scale

    assert Fraction(math.nextafter(mechanism.epsilon(), 0.0)) < pure <= Fraction(mechanism.epsilon())
    epsilon = share * float(pure)
    with mp.workdps(50):
        truth = laplace_curve((sensitivity,), mpmath.exp(-1 / exact(scale)), mpmath.exp(mpf(epsilon)))
    found = mechanism.delta(epsilon)
    assert truth <= found + mpf(10) ** -45
    assert found <= 1.0
    assert found <= truth + TOLERANCE * (1 + float(pure))  # e^−t has an absolute error of t times that of t
    assert mechanism.epsilon(max(min(found, 0.999), 1e-300)) <= max(epsilon, 1e-15) * (1 + 1e-9) or found >= 0.999


@given(st.floats(1e-6, 20.0), st.integers(1, 1000))
def test_calibrated_laplace_noise_keeps_the_promise(epsilon, sensitivity):
    mechanism = DiscreteLaplaceMechanism.calibrated(epsilon=epsilon, l1_sensitivity=sensitivity)

    assert mechanism.epsilon() <= epsilon
    assert mechanism.delta(epsilon) == 0.0
    assert Fraction(math.nextafter(mechanism.scale, 0.0)) * Fraction(epsilon) < sensitivity


def test_the_scale_of_the_laplace_is_taken_exactly():
    third = DiscreteLaplaceMechanism(scale=Fraction(1, 3), l1_sensitivity=4)

    assert third.scale == Fraction(1, 3)
    assert third.epsilon() == third.epsilon(1e-310) == 12.0
    assert third.event == DiscreteLaplaceEvent(scale=Fraction(1, 3), l1_sensitivity=4)
    assert Fraction(third.event.scale) < Fraction(1, 3)
    assert DiscreteLaplaceMechanism.calibrated(epsilon=Decimal("0.1")).scale == 10.0
    with pytest.raises(InvalidParameter, match="epsilon must be at least 8/2"):
        DiscreteLaplaceMechanism.calibrated(epsilon=1e-17, l1_sensitivity=8)


# both -------------------------------------------------------------------------------------------------------------

MAKE = {
    "gaussian": (DiscreteGaussianMechanism, {"scale": 3.0, "l2_sensitivity": 2.0}, {"epsilon": 0.5, "delta": 1e-6}),
    "laplace": (DiscreteLaplaceMechanism, {"scale": 3.0, "l1_sensitivity": 2}, {"epsilon": 0.5}),
}
both = pytest.mark.parametrize("law", MAKE)


@both
def test_weak_promises_warn_once(law):
    kind, _, calibration = MAKE[law]
    with pytest.warns(WeakPrivacyWarning, match="epsilon is above 20") as caught:
        kind.calibrated(**{**calibration, "epsilon": 20.5})
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(WeakPrivacyWarning):
        assert kind.calibrated(**{**calibration, "epsilon": 1e5}).scale == 0.01


@both
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0, -1.0, Decimal("NaN"), Fraction(-1, 2), 10**400])
def test_numbers_out_of_range_are_refused(law, bad):
    kind, parameters, calibration = MAKE[law]
    for name in parameters:
        with pytest.raises((InvalidParameter, InvalidType), match=f"^{name} must be"):
            kind(**{**parameters, name: bad})
    for name in calibration:
        with pytest.raises((InvalidParameter, InvalidType), match=f"^{name} must be"):
            kind.calibrated(**{**calibration, name: bad})


@both
@pytest.mark.parametrize("bad", [True, "1", b"1", 1j, None, [1.0], np.array(1.0)], ids=lambda bad: type(bad).__name__)
def test_other_types_are_refused(law, bad):
    kind, parameters, calibration = MAKE[law]
    for name in parameters:
        with pytest.raises(InvalidType, match=f"^{name} must be"):
            kind(**{**parameters, name: bad})
    for name in calibration:
        with pytest.raises(InvalidType, match=f"^{name} must be"):
            kind.calibrated(**{**calibration, name: bad})


@both
def test_scales_end_where_the_sampler_does(law):
    kind, _, _ = MAKE[law]
    for scale in (0.01, 2.0**57, 2**57):
        assert type(kind(scale=scale).release(0)) is int
    for scale in (0.0099, Fraction(1, 101), 2.0**58, 2**57 + 1):
        with pytest.raises(InvalidParameter, match=r"scale must be from 0.01 to 2\^57"):
            kind(scale=scale)
    with pytest.raises(InvalidParameter, match=r"a ratio of integers below 2\^64"):
        kind(scale=Fraction(2**70 + 1, 2**69))


@both
def test_points_of_the_curve_are_checked(law):
    kind, parameters, _ = MAKE[law]
    mechanism = kind(**parameters)
    for bad in (-0.5, math.nan, "0.5"):
        with pytest.raises((InvalidParameter, InvalidType)):
            mechanism.delta(bad)
        with pytest.raises((InvalidParameter, InvalidType)):
            mechanism.epsilon(bad)
    with pytest.raises(InvalidParameter, match="delta must be"):
        mechanism.epsilon(1)


@pytest.mark.parametrize("bad", [1.5, 2**53 + 2, Fraction(1, 3), math.sqrt(2)], ids=str)
def test_the_sensitivity_of_one_integer_is_whole(bad):
    with pytest.raises(InvalidParameter, match="l2_sensitivity must be a whole number in one dimension"):
        DiscreteGaussianMechanism(scale=1.0, l2_sensitivity=bad)
    assert DiscreteGaussianMechanism(scale=1.0, l2_sensitivity=bad, dimension=2).l2_sensitivity >= bad


def test_integers_are_integers():
    for bad in (0, -1, 1.0, True, 2**63, "2"):
        with pytest.raises((InvalidParameter, InvalidType), match="dimension must be an int"):
            DiscreteGaussianMechanism(scale=1.0, dimension=bad)
        with pytest.raises((InvalidParameter, InvalidType), match="dimension must be an int"):
            DiscreteGaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, dimension=bad)
    for bad in (0, -1, 1.0, True, 2**53 + 1, "2"):
        with pytest.raises((InvalidParameter, InvalidType), match="l1_sensitivity must be an int"):
            DiscreteLaplaceMechanism(scale=1.0, l1_sensitivity=bad)
    with pytest.raises(InvalidParameter, match="l2_sensitivity must be at most 1e150 times scale"):
        DiscreteGaussianMechanism(scale=1.0, l2_sensitivity=1e200, dimension=2)
    with pytest.raises(InvalidParameter, match="delta must be"):
        DiscreteGaussianMechanism.calibrated(epsilon=1.0, delta=1e-301)


@both
def test_mechanisms_are_immutable_values(law):
    kind, parameters, _ = MAKE[law]
    mechanism = kind(**parameters)

    assert mechanism == kind(**parameters)
    assert mechanism != kind(**{**parameters, "scale": 4.0})
    assert hash(mechanism) == hash(kind(**parameters))
    assert repr(mechanism).startswith(f"{kind.__name__}(scale=3.0, l")
    assert mechanism.guarantee == "exact"
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.scale = 1.0
    for again in (pickle.loads(pickle.dumps(mechanism)), copy.copy(mechanism), copy.deepcopy(mechanism)):
        assert again == mechanism
        assert type(again.release(3)) is int
    with pytest.raises(TypeError):
        kind(3.0)
