"""PrivacyLossDistribution: given masses, laws on both sides, composition as an operation."""

import math

import mpmath as mp
import numpy as np
import pytest

from ferrodp import _native
from ferrodp.accounting import (
    ComposedEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    PrivacyLossDistribution,
    SelfComposedEvent,
    ZcdpEvent,
)
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from reference import pld_reference as reference
from support import vectors

VECTORS = vectors.accounting()
DOTS = [vector for vector in VECTORS if vector["quantity"] == "pld_pmf_connect_the_dots"]
TRUNCATED = [vector for vector in DOTS if "discrete_gaussian" in vector["source"]]
DOTS = [vector for vector in DOTS if vector not in TRUNCATED]

LAPLACE = LaplaceEvent(noise_multiplier=1.0)
SAMPLED = PoissonSampledEvent(sampling_probability=0.25, event=LaplaceEvent(noise_multiplier=0.5))


def distribution_of(vector):
    """Return what a vector is about: noise 1 and sensitivity 1 unless given, where a record is replaced the double."""
    inputs = vector["inputs"]
    replaced = inputs.get("neighbor_rel") == "REPLACE_ONE"
    relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE
    sensitivity = inputs.get("sensitivity", 1.0) * (2 if replaced else 1)
    if "discrete_laplace" in vector["source"]:
        event = DiscreteLaplaceEvent(scale=inputs["parameter"], l1_sensitivity=sensitivity)
    elif "laplace" in vector["source"]:
        event = LaplaceEvent(noise_multiplier=inputs.get("parameter", 1.0) / sensitivity)
    else:
        event = GaussianEvent(noise_multiplier=inputs.get("standard_deviation", 1.0) / sensitivity)
    if inputs.get("sampling_prob", 1.0) < 1.0:
        q = inputs["sampling_prob"]  # replaced records contribute opposite numbers
        event = PoissonSampledEvent(sampling_probability=q, event=event, null_distance=0.5)
    return PrivacyLossDistribution.from_event(event, neighboring_relation=relation)


@pytest.mark.parametrize("vector", DOTS, ids=lambda vector: vector["id"])
def test_upper_laws_are_the_given_ones(vector):
    interval = vector["inputs"].get("value_discretization_interval", 1.0)
    expected, tolerance = vector["expected"], vector["tolerance"]["abs"]
    distribution = distribution_of(vector)
    checked = 0
    for suffix, direction in (("", "remove"), ("_add", "add"), ("_remove", "remove")):
        masses = expected.get(f"expected_rounded_pmf{suffix}")
        if masses is None:
            continue
        keys = sorted(int(key) for key in masses)
        ends = (keys[0] * interval, keys[-1] * interval)
        pmf = distribution.pmf(interval, direction=direction, loss_range=ends)
        found = {round(loss / interval): mass for loss, mass in zip(pmf.losses, pmf.upper, strict=True)}
        for key in set(keys) | set(found):
            assert found.get(key, 0.0) == pytest.approx(masses.get(str(key), 0.0), abs=tolerance)
        assert pmf.infinity.upper == pytest.approx(expected.get(f"expected_infinity_mass{suffix}", 0.0), abs=tolerance)
        checked += 1
    assert checked


@pytest.mark.parametrize("vector", TRUNCATED, ids=lambda vector: vector["id"])
def test_upper_laws_of_truncated_noise_are_the_given_ones(vector):
    """Noise of at most 1, on a grid of 1e-4: most of the mass is at infinity."""
    inputs, expected = vector["inputs"], vector["expected"]
    pair = ("discrete_gaussian", inputs["sigma"], float(inputs["sensitivity"]), 1.0)
    if inputs["sampling_prob"] < 1.0:
        pair = ("poisson_sampled", inputs["sampling_prob"], pair)
    checked = 0
    for suffix, spec in (("_add", ("reversed", pair)), ("_remove", pair)):
        masses = expected.get(f"expected_rounded_pmf{suffix}")
        if masses is None:
            continue
        keys = sorted(int(key) for key in masses)
        (start, upper, _), (infinity, _) = _native.pld_laws(spec, 1e-4, 0.0, (keys[0] * 1e-4, keys[-1] * 1e-4))
        found = {round(start / 1e-4) + i: mass for i, mass in enumerate(upper)}
        for key in set(keys) | set(found):
            assert found.get(key, 0.0) == pytest.approx(masses.get(str(key), 0.0), abs=vector["tolerance"]["abs"])
        assert infinity == pytest.approx(expected.get(f"expected_infinity_mass{suffix}", 0.0), abs=1e-7)
        checked += 1
    assert checked


def delta_of(pmf, epsilon):
    gains = -np.expm1(np.minimum(epsilon - pmf.losses, 0.0))
    return pmf.lower @ gains + pmf.infinity.lower, pmf.upper @ gains + pmf.infinity.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_laws_bound_the_curve_of_a_single_step(direction):
    distribution = PrivacyLossDistribution.from_event(SAMPLED)
    pair = ("poisson_sampled", 0.25, ("laplace", 0.5))
    pair = pair if direction == "remove" else ("reversed", pair)
    for interval in (0.5, 0.1, 0.01):
        pmf = distribution.pmf(interval, direction=direction)
        for epsilon in (0.0, 0.1, 0.2, 0.8):
            exact = float(reference.hockey_stick.delta(pair, epsilon))
            lower, upper = delta_of(pmf, epsilon)
            assert lower <= exact * (1 + 1e-12)
            assert exact <= upper * (1 + 1e-12)
    assert upper - lower < 1e-4


def test_laws_of_compositions_bound_the_curve():
    distribution = PrivacyLossDistribution.from_event(SAMPLED).self_compose(20)
    bounds = distribution.delta_bounds(1.0)
    pmf = distribution.pmf(0.01)
    lower, upper = delta_of(pmf, 1.0)
    # a sum of so many rounded masses, each weighted by less than 1
    slack = pmf.noise * math.sqrt(len(pmf.losses))
    assert lower - slack <= bounds.upper
    assert bounds.lower <= upper + slack
    assert upper - lower < 1e-3
    assert pmf.noise < 1e-11


def test_composition_is_that_of_the_accountant():
    event = ComposedEvent(events=(SAMPLED, SelfComposedEvent(event=LAPLACE, count=3)))
    accountant = PldAccountant()
    accountant.compose(event, 4)
    ours = PrivacyLossDistribution.from_event(event).self_compose(4)
    parts = PrivacyLossDistribution.from_event(LAPLACE).self_compose(12)
    apart = PrivacyLossDistribution.from_event(SAMPLED).self_compose(4).compose(parts)
    assert ours.epsilon_bounds(1e-6) == apart.epsilon_bounds(1e-6) == accountant.epsilon_bounds(1e-6)
    assert ours.delta_bounds(2.0) == accountant.delta_bounds(2.0)


def test_masses_are_composed_exactly():
    """A pair with an outcome that Q cannot have, taken up to a factor."""
    p, q = [4.0, 3.0, 2.0, 1.0], [0.3, 0.1, 0.6, 0.0]
    distribution = PrivacyLossDistribution.from_masses(p, q).self_compose(5)
    forth = [(mp.log(mp.mpf(a) / 10 / mp.mpf(b)), mp.mpf(a) / 10) for a, b in zip(p, q, strict=True) if b]
    back = [(-loss, mp.mpf(b)) for (loss, _), b in zip(forth, q, strict=False)]
    for epsilon in (0.5, 2.0, 6.0):
        exact = max(
            reference.exact_delta([(forth, mp.mpf(1) / 10, 5)], epsilon),
            reference.exact_delta([(back, 0, 5)], epsilon),
        )
        lower, upper = distribution.delta_bounds(epsilon)
        assert lower <= exact <= upper
        assert upper - lower <= 1e-3 * float(exact)
    assert distribution.epsilon_bounds(0.1) == (math.inf, math.inf)


def test_nothing_has_no_loss():
    nothing = PrivacyLossDistribution()
    assert nothing.epsilon_bounds(1e-5) == (0.0, 0.0)
    assert nothing.delta_bounds(0.0) == (0.0, 0.0)
    assert nothing.self_compose(10).pmf(0.1).upper.tolist() == [1.0]
    same = PrivacyLossDistribution.from_masses([0.5, 0.5], [1.0, 1.0])
    assert same.delta_bounds(0.0).upper < 1e-13  # the loss is 0 up to some roundings
    step = PrivacyLossDistribution.from_event(LAPLACE)
    assert step.self_compose(0).epsilon_bounds(1e-5) == (0.0, 0.0)
    assert step.compose(nothing).epsilon_bounds(1e-5) == step.epsilon_bounds(1e-5)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([], []),
        ([1.0], [0.5, 0.5]),
        ([1.0, -0.1], [0.5, 0.5]),
        ([1.0, math.nan], [0.5, 0.5]),
        ([1.0, math.inf], [0.5, 0.5]),
        ([1.0, 1e-300], [0.5, 0.5]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([[1.0]], [[1.0]]),
    ],
)
def test_masses_outside_of_the_domain_are_refused(p, q):
    with pytest.raises(InvalidParameter):
        PrivacyLossDistribution.from_masses(p, q)


def test_what_has_no_law_is_refused():
    with pytest.raises(UnsupportedEventError, match="ZcdpEvent"):
        PrivacyLossDistribution.from_event(ZcdpEvent(rho=0.5))
    with pytest.raises(InvalidType, match="other"):
        PrivacyLossDistribution().compose(LAPLACE)
    with pytest.raises(InvalidType, match="neighboring_relation"):
        PrivacyLossDistribution.from_event(LAPLACE, neighboring_relation=1)
    with pytest.raises(InvalidParameter, match="direction"):
        PrivacyLossDistribution.from_event(LAPLACE).pmf(0.1, direction="both")
    with pytest.raises(InvalidParameter, match="value_discretization_interval"):
        PrivacyLossDistribution.from_event(LAPLACE).pmf(1e-9)
    with pytest.raises(InvalidParameter, match="loss_range"):
        PrivacyLossDistribution.from_event(LAPLACE).self_compose(2).pmf(0.1, loss_range=(-1.0, 1.0))
