"""Curves of samples from the curve of what is released: never below the exact divergence of laws that have it."""

import math

import mpmath as mp
import numpy as np
import pytest

from ferrodp import _native
from ferrodp.accounting import (
    ComposedEvent,
    DiscreteGaussianEvent,
    EpsilonDeltaEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpEvent,
    rdp,
)
from ferrodp.accounting.rdp.poisson import poisson_sampled, poisson_sampled_curve
from ferrodp.errors import InvalidParameter
from reference import amplified_moments as reference

ADDED, REPLACED, ZEROED = NeighboringRelation
ORDERS = [1.0, 1.25, 2.0, 2.5, 5.0, 17.3, 80.0, math.inf]


def laws(seed, size=3, number=2):
    """Random laws of a few outcomes, the same every time; with mpmath's numbers."""
    weights = np.random.default_rng(seed).uniform(0.02, 1.0, size=(number, size)).tolist()
    return [[mp.mpf(each) / mp.fsum(side) for each in side] for side in weights]


def curve_of(*pairs):
    """The divergences of the worst of some pairs in the worse direction, in floats, and 10⁻⁹ more."""
    logs = [[np.log([float(x) for x in law]) for law in pair] for pair in pairs]

    def curve(orders):
        finite = np.where(np.isfinite(orders) & (orders > 1.0), orders, 2.0)[:, None]
        found = []
        for one, other in logs:
            for p, q in ((one, other), (other, one)):
                moments = np.logaddexp.reduce(finite * p + (1.0 - finite) * q, axis=1) / (finite[:, 0] - 1.0)
                at_ends = np.where(orders == 1.0, (np.exp(p) * (p - q)).sum(), (p - q).max())
                found.append(np.where(np.isfinite(orders) & (orders > 1.0), moments, at_ends))
        return np.maximum(np.max(found, axis=0), 0.0) * (1.0 + 1e-9) + 1e-12

    return curve


@pytest.mark.parametrize("q", [1e-9, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_a_poisson_sample_loses_no_more_than_its_curve(seed, q):
    with mp.workdps(30):
        without, taken = laws(seed)
        curve = poisson_sampled_curve(curve_of((taken, without)), q, is_symmetric=False)
        bounds = curve(np.array(ORDERS)).tolist()
        sample = reference.mixed(mp.mpf(q), without, taken)
        for order, bound in zip(ORDERS, bounds, strict=True):
            assert reference.worst(sample, without, order) <= bound <= curve_of((taken, without))(np.array([order]))[0]


@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_reflection_the_removed_record_is_the_worse_one_and_whole_orders_are_exact(seed, q):
    """P is Q with its outcomes in the opposite order."""
    with mp.workdps(30):
        without = laws(seed, size=4, number=1)[0]
        taken = without[::-1]
        curve = poisson_sampled_curve(curve_of((taken, without)), q, is_symmetric=True)
        sample = reference.mixed(mp.mpf(q), without, taken)
        for order, bound in zip(ORDERS, curve(np.array(ORDERS)).tolist(), strict=True):
            removed, added = (reference.divergence(*pair, order) for pair in ((sample, without), (without, sample)))
            assert added <= removed * (1 + mp.mpf(10) ** -25)
            assert removed <= bound
            if order in (2.0, 5.0):
                assert bound <= removed * (1 + 1e-6)


def test_the_inequality_of_both_directions_holds_for_every_ratio():
    """The one that the module proves, written with v instead of w, on a grid of ratios, probabilities and orders."""
    ratios, chances = np.geomspace(1e-6, 1e6, 241), np.concatenate([np.geomspace(1e-6, 0.5, 20), [0.9, 0.999]])
    r, q = np.meshgrid(ratios, chances)
    u, v = 1 - q + q * r, 1 - q + q / r
    for order in (1.0, 1.1, 1.5, 2.0, 3.7, 8.0):
        left, right = u ** (1 - order) + r * v ** (1 - order), u**order + r * v**order
        assert (left <= right * (1 + 1e-12)).all()
        if order == 1.0:
            assert (left == pytest.approx(right, rel=1e-12)) or np.allclose(left, right, rtol=1e-12)


def test_gaussian_noise_without_its_own_formula():
    """The curve α/2z² is all that is told; the sampled Gaussian's own curve is the truth."""
    orders = np.array([2.0, 3.0, 8.0, 33.0, 64.0])
    for z, q in ((0.7, 0.01), (2.0, 0.2), (30.0, 1e-3)):
        exact = rdp.poisson_sampled_gaussian(z, q, orders)
        found = poisson_sampled(lambda o, z=z: o / (2 * z * z), q, orders, is_symmetric=True)
        assert (found >= exact * (1 - 1e-12)).all()
        assert found == pytest.approx(exact, rel=1e-8)
    every = np.geomspace(1.01, 1e7, 60)
    for z, q in ((0.7, 0.01), (30.0, 1e-3)):
        exact = rdp.poisson_sampled_gaussian(z, q, every)
        general = poisson_sampled(lambda o, z=z: o / (2 * z * z), q, every)
        assert (general >= exact * (1 - 1e-12)).all()


@pytest.mark.parametrize("scale", [0.6, 2.0])
def test_sampled_discrete_gaussian_noise(scale):
    event = PoissonSampledEvent(sampling_probability=0.05, event=DiscreteGaussianEvent(scale=scale, l2_sensitivity=1))
    orders = [1.5, 2.0, 3.0, 6.0]
    bounds = rdp.curve_of(event, ADDED)(np.array(orders)).tolist()
    with mp.workdps(30):
        without, taken = (reference.discrete_gaussian(scale, shift, 20) for shift in (0, 1))
        sample = reference.mixed(mp.mpf(0.05), without, taken)
        for order, bound in zip(orders, bounds, strict=True):
            exact = reference.worst(sample, without, order)
            assert exact <= bound
            assert order == 1.5 or bound <= exact * (1 + 1e-9)


@pytest.mark.parametrize(
    ("shifts", "weights", "z"),
    [
        ((0.0, 1.0), (0.75, 0.25), 2.0),
        ((0.0, 1.0, 2.0), (0.9375, 0.046875, 0.015625), 1.0),
        ((1.0, 2.0), (0.5, 0.5), 1.5),
        ((0.0, 1.0), (1 - 2.0**-20, 2.0**-20), 1.0),
    ],
)
def test_a_mixture_of_gaussians_loses_no_more_than_its_curve(shifts, weights, z):
    event = MixtureOfGaussiansEvent(noise_multiplier=z, shifts=shifts, probabilities=weights)
    orders = [1.5, 2.0, 8.0]
    bounds = rdp.curve_of(event, ADDED)(np.array(orders)).tolist()
    assert bounds == rdp.curve_of(event, ZEROED)(np.array(orders)).tolist()
    with mp.workdps(20):
        for order, bound in zip(orders, bounds, strict=True):
            exact = max(reference.mixture_of_gaussians([mp.mpf(s) / mp.mpf(z) for s in shifts], weights, order))
            assert exact * (1 - 1e-12) <= bound
            assert order not in (2.0, 8.0) or bound <= exact * (1 + 1e-3)


def test_a_mixture_of_two_is_a_poisson_sample():
    """N(0) and N(1) with weights 1 − q and q: the sampled Gaussian's own curve is exact at all orders."""
    for q, z in ((0.01, 1.0), (0.5, 0.2), (0.5, 100.0), (2.0**-30, 1.0)):
        event = MixtureOfGaussiansEvent(noise_multiplier=z, shifts=(0.0, 1.0), probabilities=(1 - q, q))
        orders = np.concatenate([np.arange(2.0, 20.0), np.geomspace(20.0, 1e6, 30)])
        exact, found = rdp.poisson_sampled_gaussian(z, q, orders), rdp.curve_of(event, ADDED)(orders)
        assert (found >= exact * (1 - 1e-10)).all()
        assert (found[:18] <= exact[:18] * (1 + 3e-3)).all()
        sampled = MixtureOfGaussiansEvent(noise_multiplier=z, shifts=(1.0, 0.0), probabilities=(0.5, 0.5))
        event = PoissonSampledEvent(sampling_probability=2 * q, event=sampled)
        assert rdp.curve_of(event, ADDED)(orders) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("q", [0.01, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_fixed_size_sample_loses_no_more_than_its_curve(seed, q):
    """With three laws: neither record, the one, the other; the curve is that of the worst two of them."""
    with mp.workdps(30):
        neither, one, other = laws(seed, number=3)
        base = curve_of((one, other), (one, neither), (other, neither))
        bounds = _native.SampledCurve(base, q, None)(np.array(ORDERS)).tolist()
        both = [reference.mixed(mp.mpf(q), neither, law) for law in (one, other)]
        for order, bound in zip(ORDERS, bounds, strict=True):
            assert reference.worst(*both, order) <= bound <= base(np.array([order]))[0] * (1 + 1e-12)


def test_the_fixed_size_curve_is_the_published_bound():
    """Against the same theorem in interval arithmetic."""
    orders = np.array([2.0, 3.0, 9.0, 40.0])
    for q, rho in ((0.01, 0.02), (0.2, 0.5)):
        found = _native.SampledCurve(lambda o, rho=rho: o * rho, q, None)(orders)
        published = rdp.fixed_size_sampled(lambda o, rho=rho: o * rho, q, orders)
        assert (found <= published * (1 + 1e-9)).all()
    assert found[0] == pytest.approx(published[0], rel=1e-9)


EVENTS = [
    (PoissonSampledEvent, ZcdpEvent(rho=0.1), ADDED),
    (PoissonSampledEvent, ZcdpEvent(rho=0.1), ZEROED),
    (PoissonSampledEvent, ZcdpEvent(rho=0.1), REPLACED),
    (PoissonSampledEvent, DiscreteGaussianEvent(scale=2.0, l2_sensitivity=1.5, dimension=3), ZEROED),
    (PoissonSampledEvent, RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2), ZEROED),
    (PoissonSampledEvent, ComposedEvent(events=(GaussianEvent(noise_multiplier=2.0), ZcdpEvent(rho=0.01))), ADDED),
    (PoissonSampledEvent, SelfComposedEvent(event=LaplaceEvent(noise_multiplier=5.0), count=2), ADDED),
    (PoissonSampledEvent, EpsilonDeltaEvent(epsilon=0.5), ZEROED),
    (FixedSizeSampledEvent, ZcdpEvent(rho=0.1), ADDED),
    (FixedSizeSampledEvent, ZcdpEvent(rho=0.1), REPLACED),
    (FixedSizeSampledEvent, ZcdpEvent(rho=0.1), ZEROED),
    (FixedSizeSampledEvent, DiscreteGaussianEvent(scale=4.0), REPLACED),
    (FixedSizeSampledEvent, DiscreteGaussianEvent(scale=4.0), ZEROED),
    (FixedSizeSampledEvent, LaplaceEvent(noise_multiplier=1.0), ZEROED),
    (FixedSizeSampledEvent, EpsilonDeltaEvent(epsilon=0.5, delta=1e-9), REPLACED),
]


@pytest.mark.parametrize(("scheme", "inner", "relation"), EVENTS)
def test_a_sample_costs_less_than_what_is_sampled(scheme, inner, relation):
    """And something; both are asked of the accountant."""
    if scheme is PoissonSampledEvent:
        event = PoissonSampledEvent(sampling_probability=0.05, event=inner)
    else:
        event = FixedSizeSampledEvent(population_size=100, sample_size=5, event=inner)
    sampled, whole = (RdpAccountant(neighboring_relation=relation) for _ in range(2))
    sampled.compose(event, 50)
    whole.compose(inner, 50)

    assert 0.0 < sampled.epsilon(1e-5) < whole.epsilon(1e-5)


def test_a_failure_of_a_fixed_size_sample_is_rarer_by_its_share():
    accountant = RdpAccountant(neighboring_relation=REPLACED)
    inner = EpsilonDeltaEvent(epsilon=0.5, delta=1e-3)
    accountant.compose(FixedSizeSampledEvent(population_size=100, sample_size=5, event=inner))

    assert accountant.delta(1e3) == pytest.approx(5e-5, rel=1e-9)


def test_what_is_no_curve_is_refused():
    with pytest.raises(InvalidParameter, match="base_rdp must return"):
        poisson_sampled(lambda orders: -orders, 0.1, 2.0)
    assert poisson_sampled(lambda orders: orders, 0.0, 2.0) == 0.0
    assert poisson_sampled(lambda orders: orders, 1.0, 2.0) == 2.0
