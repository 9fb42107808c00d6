"""Accountants whose costs simply add up: exact sums, refusals by name, failures charged."""

import json
import math
import pickle
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import (
    AdaptiveClipEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    PureDpAccountant,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    SelfComposedEvent,
    ZcdpAccountant,
    ZcdpEvent,
    amplify_by_sampling,
    zcdp_epsilon,
)
from ferrodp.accounting.composition import compose_optimal_delta
from ferrodp.accounting.curves import zcdp_delta
from ferrodp.errors import InvalidParameter, UnsupportedEventError

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
laplace = LaplaceEvent(noise_multiplier=3.0)
gaussian = GaussianEvent(noise_multiplier=10.0)


def told(accountant, *events, count=1):
    for event in events:
        accountant.compose(event, count)
    return accountant


def sampled(event, probability=0.1):
    return PoissonSampledEvent(sampling_probability=probability, event=event)


def fixed_size(event):
    return FixedSizeSampledEvent(population_size=1000, sample_size=100, event=event)


def up(value):
    """The smallest float that is no smaller than a 60-digit number."""
    nearest = float(value)
    return nearest if mp.mpf(nearest) >= value else math.nextafter(nearest, math.inf)


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [
        (laplace, lambda: mp.mpf(1) / 3),
        (DiscreteLaplaceEvent(scale=0.7, l1_sensitivity=3), lambda: 3 / mp.mpf(0.7)),
        (RandomizedResponseEvent(noise_parameter=0.3, num_buckets=5), lambda: mp.log(1 + 5 * (1 / mp.mpf(0.3) - 1))),
        (ExponentialMechanismEvent(epsilon=0.3), lambda: mp.mpf(0.3)),
        (EpsilonDeltaEvent(epsilon=0.2), lambda: mp.mpf(0.2)),
        (sampled(laplace), lambda: mp.log1p(mp.mpf(0.1) * mp.expm1(mp.mpf(1) / 3))),
        (SelfComposedEvent(event=laplace, count=7), lambda: mp.mpf(7) / 3),
    ],
)
def test_pure_epsilon_is_the_next_float(event, epsilon):
    relation = REPLACE if isinstance(event, RandomizedResponseEvent) else ADD
    with mp.workdps(60):
        assert told(PureDpAccountant(neighboring_relation=relation), event, count=4).epsilon(0.0) == up(4 * epsilon())


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.integers(0, 10**12))
@settings(max_examples=30)
def test_pure_sums_are_exact(multipliers, count):
    accountant = told(PureDpAccountant(), *(LaplaceEvent(noise_multiplier=z) for z in multipliers), count=count)

    exact = count * sum(1 / Fraction(z) for z in multipliers)
    assert Fraction(accountant.epsilon(0.0)) >= exact
    assert not count or Fraction(math.nextafter(accountant.epsilon(0.0), 0.0)) < exact


def test_many_different_events_stay_within_an_ulp():
    multipliers = [1.0 + i / 997 for i in range(2000)]
    accountant = told(PureDpAccountant(), *(LaplaceEvent(noise_multiplier=z) for z in multipliers))

    with mp.workdps(60):
        assert accountant.epsilon(0.0) == up(mp.fsum(1 / mp.mpf(z) for z in multipliers))


def test_stated_deltas_add_up():
    accountant = told(PureDpAccountant(), EpsilonDeltaEvent(epsilon=0.5, delta=2.0**-20), laplace, count=8)

    assert accountant.total_delta == 2.0**-17
    with mp.workdps(60):
        assert accountant.epsilon(2.0**-17) == up(mp.mpf(4) + mp.mpf(8) / 3)
    assert accountant.epsilon(2.0**-17 * (1 - 2**-52)) == math.inf
    assert accountant.delta(7.0) == 2.0**-17
    assert accountant.delta(0.0) == compose_optimal_delta([(accountant.epsilon(0.5), 2.0**-17)], epsilon=0.0)
    assert "more than was asked for" in str(accountant.explain(0.0))


@pytest.mark.parametrize(
    ("relation", "event", "named"),
    [
        (ADD, gaussian, "RdpAccountant"),
        (ADD, ZcdpEvent(rho=0.1), "no pure ε"),
        (ADD, sampled(gaussian), "no pure ε"),
        (ADD, fixed_size(laplace), "REPLACE_ONE"),
        (NeighboringRelation.REPLACE_SPECIAL, fixed_size(laplace), "REPLACE_ONE"),
        (REPLACE, RandomizedResponseEvent(noise_parameter=0.0, num_buckets=2), "truth"),
        (ADD, RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2), "REPLACE_ONE"),
    ],
)
def test_pure_refuses_by_name(relation, event, named):
    accountant = told(PureDpAccountant(neighboring_relation=relation), laplace)

    with pytest.raises(UnsupportedEventError, match=named):
        accountant.compose(ComposedEvent(events=(laplace, event)))
    assert accountant.events == ((laplace, 1),)


def test_sampling_amplifies_under_its_own_relation():
    stated = EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)
    poisson = told(PureDpAccountant(), sampled(stated))
    replaced = told(PureDpAccountant(neighboring_relation=REPLACE), fixed_size(stated))

    expected = amplify_by_sampling(epsilon=1.0, delta=1e-6, sampling_probability=0.1)
    assert (poisson.epsilon(0.5), poisson.total_delta) == expected
    assert (replaced.epsilon(0.5), replaced.total_delta) == pytest.approx(expected, rel=1e-15)  # q = 1/10, no float
    clipped = PoissonSampledEvent(sampling_probability=0.1, event=laplace, null_distance=1.0)
    assert told(PureDpAccountant(neighboring_relation=REPLACE), clipped).epsilon(0.0) < 1 / 30 * 1.2
    assert told(PureDpAccountant(neighboring_relation=REPLACE), sampled(laplace)).epsilon(0.0) >= 1 / 3


@given(st.floats(1e-300, 700.0), st.floats(1e-300, 1.0))
def test_amplification_is_the_next_float(epsilon, chance):
    amplified = amplify_by_sampling(epsilon=epsilon, sampling_probability=chance).epsilon

    with mp.workdps(700):
        exact = mp.log1p(mp.mpf(chance) * mp.expm1(mp.mpf(epsilon)))
        assert mp.mpf(amplified) >= exact
        assert mp.mpf(amplified) <= exact * (1 + mp.mpf(2) ** -52) + mp.mpf(5e-324)


def test_what_costs_nothing_or_next_to_nothing():
    """No rational of a million digits on the way."""
    noise = RandomizedResponseEvent(noise_parameter=1.0, num_buckets=3)
    assert told(PureDpAccountant(neighboring_relation=REPLACE), noise, count=2**63 - 1).epsilon(0.0) == 0.0
    assert told(ZcdpAccountant(neighboring_relation=REPLACE), noise, ZcdpEvent(rho=1e-300)).delta(1e300) == 5e-324
    assert told(PureDpAccountant(), sampled(LaplaceEvent(noise_multiplier=1e300), 5e-324)).epsilon(0.0) == 5e-324


def test_amplification_at_the_ends():
    assert amplify_by_sampling(epsilon=1.0, delta=0.5, sampling_probability=0.0) == (0.0, 0.0)
    assert amplify_by_sampling(epsilon=1.0, delta=0.5, sampling_probability=1) == (1.0, 0.5)
    assert amplify_by_sampling(epsilon=1e308, sampling_probability=5e-324).epsilon == 1e308
    assert told(PureDpAccountant(), sampled(LaplaceEvent(noise_multiplier=5e-324))).epsilon(0.0) == math.inf
    assert amplify_by_sampling(epsilon=5e-324, sampling_probability=5e-324).epsilon == 5e-324
    for keywords in ({"epsilon": -1.0}, {"epsilon": 1.0, "delta": 1.1}, {"epsilon": math.nan}):
        with pytest.raises(InvalidParameter):
            amplify_by_sampling(**keywords, sampling_probability=0.5)


@pytest.mark.parametrize(
    ("event", "rho"),
    [
        (gaussian, Fraction(1, 200)),
        (DiscreteGaussianEvent(scale=4.0, l2_sensitivity=1.5, dimension=7), Fraction(9, 128)),
        (AdaptiveClipEvent(sum_noise_multiplier=2.0, count_noise_multiplier=2.0), Fraction(1, 4)),
        (EpsilonDeltaEvent(epsilon=0.5), Fraction(1, 8)),
        (EpsilonDeltaEvent(epsilon=8.0), Fraction(8)),
        (ExponentialMechanismEvent(epsilon=0.5), Fraction(1, 32)),
        (LaplaceEvent(noise_multiplier=2.0), Fraction(1, 8)),
        (ZcdpEvent(rho=0.25), Fraction(1, 4)),
    ],
)
def test_rho_of_each_event(event, rho):
    accountant = told(ZcdpAccountant(), event, count=3)

    assert Fraction(accountant.rho) == pytest.approx(3 * rho, rel=1e-15)
    epsilon, delta = zcdp_epsilon(rho=accountant.rho, delta=1e-6), zcdp_delta(rho=accountant.rho, epsilon=1.0)
    assert epsilon * (1 - 4e-16) <= accountant.epsilon(1e-6) <= epsilon  # ρ itself is not rounded up there
    assert delta * (1 - 2**-46) <= accountant.delta(1.0) <= delta  # ∂ln δ/∂ln ρ = α(α − 1)ρ < 64 here


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (sampled(gaussian), "gains nothing from sampling.*RdpAccountant"),
        (fixed_size(gaussian), "gains nothing"),
        (RandomAllocationEvent(num_steps=10, num_selected=1, event=gaussian), "RdpAccountant"),
    ],
)
def test_zcdp_refuses_samples_by_name(event, named):
    with pytest.raises(UnsupportedEventError, match=named):
        ZcdpAccountant().compose(event)


@given(st.floats(0.3, 50.0), st.integers(1, 1000), st.sampled_from([1e-9, 1e-5, 0.01]))
@settings(max_examples=30)
def test_the_gaussian_composition_lies_below(multiplier, count, delta):
    event = GaussianEvent(noise_multiplier=multiplier)
    zcdp, exact = told(ZcdpAccountant(), event, count=count), told(GdpAccountant(), event, count=count)

    bounds = zcdp.epsilon_bounds(delta)
    assert bounds.lower == pytest.approx(exact.epsilon(delta), rel=1e-14)
    assert exact.epsilon_bounds(delta).lower <= bounds.upper
    assert zcdp.delta_bounds(1.0).lower <= exact.delta(1.0) <= zcdp.delta(1.0)


def test_failures_are_charged():
    accountant = told(ZcdpAccountant(), EpsilonDeltaEvent(epsilon=0.1, delta=1e-8), count=100)

    assert accountant.epsilon(1e-7) == math.inf
    assert accountant.delta(0.0) >= 1e-6
    assert accountant.epsilon(2e-6) > zcdp_epsilon(rho=0.5, delta=1.1e-6)
    assert accountant.delta(accountant.epsilon(2e-6)) <= 2e-6
    failing = told(ZcdpAccountant(), EpsilonDeltaEvent(epsilon=0.1, delta=0.5), count=2)
    assert (failing.delta(1.0), failing.epsilon(0.9)) == (1.0, math.inf)


@pytest.mark.parametrize("kind", [PureDpAccountant, ZcdpAccountant])
def test_nothing_costs_nothing_and_no_protection_costs_all(kind):
    accountant = told(kind(), NonPrivateEvent(), laplace, count=0)

    assert (accountant.epsilon(1e-6), accountant.delta(0.0)) == (0.0, 0.0)
    accountant.compose(NonPrivateEvent())
    assert (accountant.epsilon(1e-6), accountant.delta(9.0)) == (math.inf, 1.0)


@pytest.mark.parametrize("kind", [PureDpAccountant, ZcdpAccountant])
def test_they_are_restored_and_stop_in_time(kind):
    accountant = told(kind(neighboring_relation=REPLACE), laplace, count=5)

    for other in (
        pickle.loads(pickle.dumps(accountant)),
        kind.from_state_dict(json.loads(json.dumps(accountant.state_dict()))),
    ):
        assert other.events == accountant.events
        assert other.epsilon(1e-6) == accountant.epsilon(1e-6)
    left = accountant.remaining_count(laplace, epsilon=20.0, delta=1e-6)
    assert not accountant.would_exceed(laplace, epsilon=20.0, delta=1e-6, count=left)
    assert accountant.would_exceed(laplace, epsilon=20.0, delta=1e-6, count=left + 1)
    assert left >= 55  # pure: 60 of 1/3
    assert "upper bound" in str(accountant.explain(1e-6))


def test_pure_stops_exactly_at_the_budget():
    third = told(PureDpAccountant(), laplace)

    assert third.remaining_count(laplace, epsilon=2.0, delta=0.0) == 5
    tenth = PureDpAccountant()
    assert tenth.remaining_count(EpsilonDeltaEvent(epsilon=0.1), epsilon=1.0, delta=0.0) == 9  # the float is above 1/10
