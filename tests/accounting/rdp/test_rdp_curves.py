"""Rényi curves in closed form and of finitely many losses, against their definitions at 60 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

from ferrodp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    ZcdpEvent,
    rdp,
)
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from reference import rdp_reference as reference

ORDERS = [1.0, 1.0 + 2.0**-40, 1.0001, 1.5, 2.0, 3.3, 17.0, 250.5, 1e4]
NEAR = 1e-12  # 600 units of 2⁻⁵³ for terms, exponents up to 1e3 times four units
ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


def assert_just_above(exact, upper, tolerance=NEAR):
    assert exact <= upper <= exact * (1 + tolerance)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 40.0, 1e4])
def test_laplace(scale, order):
    with mp.workdps(60):
        assert_just_above(reference.laplace(scale, order), rdp.laplace(scale, order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0, 900.0])
def test_pure(epsilon, order):
    with mp.workdps(60):
        p = [mp.exp(epsilon) / (1 + mp.exp(epsilon)), 1 / (1 + mp.exp(epsilon))]
        exact = min(reference.of_laws(p, p[::-1], order), mp.mpf(epsilon))
        assert_just_above(exact, rdp.pure(epsilon, order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("p", "k"), [(0.3, 10), (0.999, 2), (1e-9, 5), (0.5, 10**6)])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_randomized_response(p, k, order, relation):
    with mp.workdps(60):
        other = mp.mpf(p) / k
        truth = 1 - mp.mpf(p) + other
        if relation is NeighboringRelation.REPLACE_SPECIAL:
            told, uniform = [truth, (k - 1) * other], [mp.mpf(1) / k, mp.mpf(k - 1) / k]
            exact = max(reference.of_laws(told, uniform, order), reference.of_laws(uniform, told, order))
        else:
            told, rest = [truth, other], [(k - 2) * other] if k > 2 else []
            exact = reference.of_laws(told + rest, told[::-1] + rest, order)
        assert_just_above(exact, rdp.randomized_response(p, k, order, neighboring_relation=relation))


def test_randomized_response_at_its_ends():
    assert rdp.randomized_response(0.0, 3, 2.0) == math.inf
    assert rdp.randomized_response(0.0, 3, 2.0, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL) == math.inf
    assert rdp.randomized_response(1.0, 3, [1.0, 2.0, math.inf]).max() < 1e-300
    assert rdp.randomized_response(0.5, 2, math.inf) == pytest.approx(math.log(3), rel=1e-14)


@pytest.mark.parametrize("order", [1.0, 1.0001, 1.5, 2.0, 3.3, 17.0, 60.5])
@pytest.mark.parametrize(("scale", "sensitivity"), [(0.5, 1), (1.0, 3), (4.0, 2), (30.0, 7)])
def test_discrete_laplace(scale, sensitivity, order):
    with mp.workdps(60):
        reach = sensitivity + 2
        shifted = reference.discrete_laplace_law(scale, sensitivity, reach)
        exact = reference.of_laws(shifted, reference.discrete_laplace_law(scale, 0, reach), order)
        assert_just_above(exact, rdp.discrete_laplace(scale, order, l1_sensitivity=sensitivity))


def test_discrete_laplace_with_a_very_large_sensitivity_is_bounded_by_its_epsilon():
    assert rdp.discrete_laplace(1e6, math.inf, l1_sensitivity=10**6) == pytest.approx(1.0, rel=1e-14)
    assert rdp.discrete_laplace(1e4, 2.0, l1_sensitivity=65_536) < rdp.discrete_laplace(1e4, 2.0, l1_sensitivity=65_537)


@pytest.mark.parametrize("order", [1.0 + 2.0**-30, 1.001, 1.3, 1.5, 2.0, 2.7, 9.5, 40.25])
@pytest.mark.parametrize(
    ("sigma", "sensitivity"), [(0.05, 1), (0.3, 1), (0.49, 2), (0.5, 1), (0.7, 3), (3.0, 2), (40.0, 5)]
)
def test_discrete_gaussian(sigma, sensitivity, order):
    with mp.workdps(80):
        exact = reference.discrete_gaussian(sigma, sensitivity, order)
        assert_just_above(exact, rdp.discrete_gaussian(sigma, order, l2_sensitivity=sensitivity))


def test_discrete_gaussian_never_exceeds_the_continuous_one():
    orders = 1 + np.geomspace(1e-6, 1e9, 200)
    for sigma in (0.1, 0.5, 1.0, 7.0):
        assert (rdp.discrete_gaussian(sigma, orders) <= rdp.gaussian(sigma, orders) * (1 + 1e-14)).all()
    # In several dimensions the bound of zero-concentrated differential privacy.
    assert rdp.discrete_gaussian(3.0, 4.0, l2_sensitivity=1.5, dimension=7) == pytest.approx(0.5, rel=1e-14)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 8.0, 1000.0])
def test_bounded_range(epsilon):
    with mp.workdps(60):
        eta = mp.mpf(epsilon) / mp.expm1(epsilon)
        divergence = eta - 1 - mp.log(eta)
        for order in (1.0, 1.5, 10.0, 1e5):
            exact = min(divergence + (mp.mpf(order) - 1) * mp.mpf(epsilon) ** 2 / 8, mp.mpf(epsilon))
            assert_just_above(exact, rdp.exponential_mechanism(epsilon, order))


@pytest.mark.parametrize("rate", np.linspace(0.05, 2.0, 8))
def test_bounded_range_holds_for_exponential_mechanisms(rate):
    """Two scores that move against each other: the losses are ±, within a range of ε = 2·rate."""
    with mp.workdps(40):
        for size in (2, 3, 10):
            p = [mp.exp(rate)] + [mp.mpf(1)] * (size - 1)
            q = [mp.exp(-rate)] + [mp.mpf(1)] * (size - 1)
            p, q = [x / mp.fsum(p) for x in p], [x / mp.fsum(q) for x in q]
            for order in (1, 1.5, 4, 40):
                assert reference.of_laws(p, q, order) <= rdp.exponential_mechanism(2 * rate, float(order))


def test_linear_curves():
    for order in (1.0, 1.7, 1e5):
        assert_just_above(mp.mpf(order) / (2 * mp.mpf(0.7) ** 2), rdp.gaussian(0.7, order), 1e-14)
        assert_just_above(mp.mpf(order) * mp.mpf(0.3), rdp.zcdp(0.3, order), 1e-14)
    assert rdp.zcdp(0.0, math.inf) == 0.0
    assert rdp.gaussian([1.0, 2.0], [[1.0], [2.0]]).shape == (2, 2)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.3, 40.0])
@pytest.mark.parametrize("q", [1e-3, 0.2, 0.9])
def test_poisson_samples_of_discrete_laplace_in_both_directions(q, order):
    with mp.workdps(60):
        taken, without = (reference.discrete_laplace_law(0.8, shift, 5) for shift in (3, 0))
        mixed = [q * x + (1 - mp.mpf(q)) * y for x, y in zip(taken, without, strict=True)]
        exact = max(reference.of_laws(mixed, without, order), reference.of_laws(without, mixed, order))
        event = PoissonSampledEvent(sampling_probability=q, event=DiscreteLaplaceEvent(scale=0.8, l1_sensitivity=3))

        assert_just_above(exact, rdp.curve_of(event, ADD)(np.array([order]))[0], 1e-11)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.3])
@pytest.mark.parametrize(("scale", "q"), [(1.0, 0.5), (0.4, 0.01), (5.0, 0.1)])
def test_poisson_samples_of_laplace_are_a_millionth_above(scale, q, order):
    event = PoissonSampledEvent(sampling_probability=q, event=LaplaceEvent(noise_multiplier=scale))

    # Losses are moved by at most ε₀/2048: 2048⁻² < 2.4e-7 of the variance.
    assert_just_above(reference.sampled_laplace(scale, q, order), rdp.curve_of(event, ADD)(np.array([order]))[0], 2e-6)


def test_poisson_samples_of_what_is_known_by_its_epsilon():
    event = PoissonSampledEvent(sampling_probability=0.1, event=EpsilonDeltaEvent(epsilon=2.0))
    with mp.workdps(60):
        taken = [mp.exp(2) / (1 + mp.exp(2)), 1 / (1 + mp.exp(2))]
        mixed = [mp.mpf(0.1) * x + (1 - mp.mpf(0.1)) * y for x, y in zip(taken, taken[::-1], strict=True)]
        exact = max(reference.of_laws(mixed, taken[::-1], 3), reference.of_laws(taken[::-1], mixed, 3))
        curve = rdp.curve_of(event, ADD)

        assert_just_above(exact, curve(np.array([3.0]))[0])
        assert curve(np.array([math.inf]))[0] == pytest.approx(float(mp.log1p(mp.mpf(0.1) * mp.expm1(2))), rel=1e-12)


def test_every_curve_grows_and_ends_in_its_largest_loss():
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-6, 1e9, 120), [math.inf]])
    events = [
        LaplaceEvent(noise_multiplier=0.7),
        EpsilonDeltaEvent(epsilon=3.0),
        RandomizedResponseEvent(noise_parameter=0.2, num_buckets=4),
        DiscreteLaplaceEvent(scale=2.0, l1_sensitivity=5),
        ExponentialMechanismEvent(epsilon=1.0),
        PoissonSampledEvent(sampling_probability=0.3, event=LaplaceEvent(noise_multiplier=0.7)),
    ]
    for event in events:
        relation = NeighboringRelation.REPLACE_ONE if isinstance(event, RandomizedResponseEvent) else ADD
        curve = rdp.curve_of(event, relation)(orders)
        assert (np.diff(curve) >= -1e-11 * curve[1:]).all(), event
        assert curve[-1] < math.inf
    for event in (GaussianEvent(noise_multiplier=1.0), ZcdpEvent(rho=0.5), DiscreteGaussianEvent(scale=2.0)):
        assert rdp.curve_of(event, ADD)(orders)[-1] == math.inf


def test_what_is_not_known_is_refused():
    choice = RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2)
    with pytest.raises(UnsupportedEventError, match="not left out"):
        rdp.curve_of(choice, ADD)
    with pytest.raises(UnsupportedEventError, match="not left out"):
        rdp.curve_of(PoissonSampledEvent(sampling_probability=0.1, event=choice), ADD)
    fixed = FixedSizeSampledEvent(population_size=9, sample_size=3, event=choice)
    with pytest.raises(UnsupportedEventError):
        rdp.curve_of(fixed, ADD)
    with pytest.raises(InvalidParameter, match="whole number"):
        rdp.discrete_gaussian(1.0, 2.0, l2_sensitivity=1.5)
