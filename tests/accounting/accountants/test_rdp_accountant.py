"""The accountants on Rényi curves: the best order, composition, limits, and what they refuse."""

import json
import math
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import (
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    MomentsAccountant,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpEvent,
    gaussian_epsilon,
    rdp,
    rdp_to_epsilon,
)
from ferrodp.accounting.accountants.rdp import DEFAULT_ORDERS
from ferrodp.accounting.curves import gaussian_log_delta
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError


def gaussian(noise_multiplier):
    return GaussianEvent(noise_multiplier=noise_multiplier)


def step(noise_multiplier=1.0, probability=0.01):
    return PoissonSampledEvent(sampling_probability=probability, event=gaussian(noise_multiplier))


def composed(*parts, accountant=RdpAccountant, **settings):
    result = accountant(**settings)
    for event, count in parts:
        result.compose(event, count)
    return result


@pytest.mark.parametrize("noise_multiplier", [1e-2, 0.5, 4.5, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-15, 1e-100])
def test_no_grid_of_orders_costs_anything(noise_multiplier, delta):
    """ε is at most ρ + 2√(ρ·ln 1/δ), ρ = 1/2z²: the classical conversion at its best order, z·√(2·ln 1/δ) + 1.

    Fixed grids end at orders of some 10³ and give ln(1/δ)/10³ at best.
    """
    rho = 0.5 / noise_multiplier**2
    found = composed((gaussian(noise_multiplier), 1)).epsilon(delta)

    assert gaussian_epsilon(delta=delta, noise_multiplier=noise_multiplier) <= found
    assert found <= (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * (1 + 1e-7)


def test_the_search_finds_the_best_order():
    """No order of a fine grid gives less than a 10⁻⁸th below the one that was found: the cost is flat there."""
    grid = 1 + np.geomspace(1e-4, 1e8, 20001)
    for event, count, delta in [
        (step(), 1000, 1e-5),
        (step(0.5, 1e-4), 10**6, 1e-9),
        (step(20.0, 0.5), 10, 1e-3),
        (gaussian(30.0), 1, 1e-6),
        (LaplaceEvent(noise_multiplier=3.0), 20, 1e-6),
        (RandomizedResponseEvent(noise_parameter=0.9, num_buckets=3), 100, 1e-8),
    ]:
        accountant = composed((event, count), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
        best = rdp_to_epsilon(grid, accountant.rdp(grid), delta=delta)
        found = accountant.epsilon(delta)

        assert found <= best.value * (1 + 1e-8)
        # and it is what the order says
        order = accountant.optimal_order(delta)
        if 1.0 < order < math.inf:
            assert found == rdp_to_epsilon(order, accountant.rdp(order), delta=delta).value


def test_given_orders_are_the_only_ones():
    orders = [1.5, 4.0, 16.0]
    accountant = composed((step(), 1000), orders=orders)

    assert accountant.epsilon(1e-5) == rdp_to_epsilon(orders, accountant.rdp(), delta=1e-5).value
    assert accountant.optimal_order(1e-5) == 4.0
    assert composed((step(), 1000)).epsilon(1e-5) < accountant.epsilon(1e-5)


@given(
    noise=st.floats(0.3, 100),
    probability=st.floats(1e-6, 1),
    count=st.integers(0, 10**9),
    log_delta=st.floats(-690, -0.05),
)
def test_epsilon_is_monotone_and_never_negative(noise, probability, count, log_delta):
    delta = math.exp(log_delta)
    epsilon = composed((step(noise, probability), count)).epsilon(delta)

    slack = 1 + 1e-7  # the search is not exact
    assert 0.0 <= epsilon < math.inf
    assert epsilon <= composed((step(noise, probability), count + 1)).epsilon(delta) * slack
    assert epsilon <= composed((step(noise * 0.9, probability), count)).epsilon(delta) * slack
    assert epsilon <= composed((step(noise, min(1.0, 1.1 * probability)), count)).epsilon(delta) * slack
    assert epsilon <= composed((step(noise, probability), count)).epsilon(delta / 2) * slack


@given(epsilon=st.floats(0.01, 20), noise=st.floats(0.5, 20), count=st.integers(1, 10**5))
def test_delta_and_epsilon_agree(epsilon, noise, count):
    accountant = composed((step(noise), count))
    delta = accountant.delta(epsilon)

    assert 0.0 <= delta <= 1.0
    if 1e-300 < delta < 0.5:
        assert accountant.epsilon(delta) <= epsilon * (1 + 1e-6) + 1e-9


def test_delta_below_the_range_of_floats_has_a_logarithm():
    accountant = composed((gaussian(1.0), 1))

    assert accountant.delta(60.0) > 0.0
    exact = gaussian_log_delta(epsilon=60.0, noise_multiplier=1.0)
    assert exact <= accountant.log_delta(60.0) <= exact + 15
    assert composed((LaplaceEvent(noise_multiplier=1.0), 2)).log_delta(2.1) == -math.inf


def test_order_and_nesting_of_events_do_not_matter():
    a, b = step(), LaplaceEvent(noise_multiplier=5.0)
    one = composed((a, 30), (b, 4))
    other = composed((b, 1), (SelfComposedEvent(event=SelfComposedEvent(event=a, count=5), count=6), 1), (b, 3))

    assert one.epsilon(1e-6) == pytest.approx(other.epsilon(1e-6), rel=1e-14)


def test_pure_mechanisms_keep_their_epsilon():
    accountant = composed((LaplaceEvent(noise_multiplier=1.0), 3), (LaplaceEvent(noise_multiplier=2.0), 2))

    assert accountant.epsilon(1e-14) == pytest.approx(4.0, abs=1e-14)
    assert accountant.delta(4.000001) == 0.0
    assert accountant.optimal_order(1e-200) == math.inf


def test_very_little_loss_costs_nothing():
    """κ/2 ≤ δ² proves ε = 0: no order does."""
    accountant = composed((step(1e3, 1e-6), 1))

    assert accountant.epsilon(1e-5) == 0.0
    assert accountant.optimal_order(1e-5) == 1.0
    assert "total variation" in str(accountant.explain(1e-5))


def test_nothing_released_and_everything_released():
    assert RdpAccountant().epsilon(1e-5) == 0.0
    assert composed((step(), 0)).epsilon(1e-5) == 0.0
    assert composed((step(probability=0.0), 10)).epsilon(1e-5) == 0.0
    bare = composed((step(), 3), (NonPrivateEvent(), 1))
    assert (bare.epsilon(1e-5), bare.delta(3.0), bare.log_delta(3.0)) == (math.inf, 1.0, 0.0)
    assert (bare.rdp([2.0, 3.0]) == math.inf).all()


@pytest.mark.parametrize("count", [2**63 - 1, 10**18])
def test_any_count(count):
    assert composed((step(), count)).epsilon(1e-5) > 1e6
    nested = SelfComposedEvent(event=SelfComposedEvent(event=step(), count=count), count=count)
    assert composed((nested, count)).epsilon(1e-5) > 1e40


def test_failures_of_stated_guarantees_are_composed():
    """Three releases, each of which fails with probability 10⁻⁶: one of them does with 1 − (1 − 10⁻⁶)³."""
    accountant = composed((EpsilonDeltaEvent(epsilon=0.1, delta=1e-6), 3))

    assert accountant.epsilon(2.9e-6) == math.inf
    assert accountant.epsilon(1e-5) <= 0.3 + 1e-15
    assert accountant.delta(0.31) == pytest.approx(3e-6 - 3e-12 + 1e-18, rel=1e-12)
    assert accountant.log_delta(0.31) == pytest.approx(math.log(3e-6 - 3e-12), rel=1e-9)
    sampled = PoissonSampledEvent(sampling_probability=0.5, event=EpsilonDeltaEvent(epsilon=0.1, delta=1e-6))
    assert composed((sampled, 2)).delta(1.0) == pytest.approx(1e-6, rel=1e-9)


def test_states_survive():
    for accountant in (
        composed((step(), 7), (ZcdpEvent(rho=0.01), 2), orders=[1.5, 8.0, math.inf]),
        composed((step(), 7), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL),
        composed((step(), 7), accountant=MomentsAccountant, max_moment=9),
    ):
        for again in (
            type(accountant).from_state_dict(json.loads(json.dumps(accountant.state_dict(), allow_nan=False))),
            pickle.loads(pickle.dumps(accountant)),
            accountant.copy(),
        ):
            assert again.epsilon(1e-5) == accountant.epsilon(1e-5)
            assert again.state_dict() == accountant.state_dict()


def test_refused_events_change_nothing():
    accountant = composed((step(), 7), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    before = accountant.state_dict()
    rounds = RandomAllocationEvent(num_steps=10, num_selected=1, event=LaplaceEvent(noise_multiplier=1.0))
    with pytest.raises(UnsupportedEventError, match="RdpAccountant"):
        accountant.compose(rounds)

    assert accountant.state_dict() == before


@pytest.mark.parametrize("orders", [[], [1.0], [2.0, 1.5], [2.0, 2.0], [math.nan], [0.5], [[2.0, 3.0]]])
def test_orders_out_of_their_domain(orders):
    with pytest.raises(InvalidParameter, match="orders"):
        RdpAccountant(orders)


def test_orders_of_other_types():
    for orders in ("2", [None], [True]):
        with pytest.raises(InvalidType, match="orders"):
            RdpAccountant(orders)


def test_budgets():
    accountant = composed((step(), 100))
    left = accountant.remaining_count(step(), epsilon=3.0, delta=1e-5)

    assert not accountant.would_exceed(step(), epsilon=3.0, delta=1e-5, count=left)
    assert accountant.would_exceed(step(), epsilon=3.0, delta=1e-5, count=left + 1)


def test_threads_agree():
    accountant = composed((step(1.3), 1000))
    found = []
    threads = [threading.Thread(target=lambda: found.append(accountant.epsilon(1e-6))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(found) == {composed((step(1.3), 1000)).epsilon(1e-6)}


def test_curves_from_elsewhere_are_added():
    """A curve is any callable; those of other modules are registered."""
    asked = []

    def curve(orders):
        asked.append(orders)
        return orders / 8.0

    class OtherEvent(PrivacyEvent):
        __slots__ = ()

    rdp.register(OtherEvent)(lambda event, relation: curve)
    accountant = composed((OtherEvent(), 2), (ZcdpEvent(rho=0.25), 1))

    assert accountant.epsilon(1e-5) == pytest.approx(composed((ZcdpEvent(rho=0.5), 1)).epsilon(1e-5), rel=1e-9)
    assert asked


def test_the_explanation_says_where_it_comes_from():
    told = composed((step(), 1000)).explain(1e-5)

    assert told.is_bound
    assert told.value == composed((step(), 1000)).epsilon(1e-5)
    assert told.parameters["order"] == composed((step(), 1000)).optimal_order(1e-5)
    assert "Theorem 21" in str(told)


def test_default_orders_are_dense():
    assert DEFAULT_ORDERS.size > 300
    assert (np.diff(DEFAULT_ORDERS) > 0).all()
    assert composed((step(), 10)).rdp().shape == DEFAULT_ORDERS.shape
    assert (np.diff(np.log(DEFAULT_ORDERS - 1)) < 0.41).all()


def test_moments_are_converted_as_published():
    """Abadi et al. 2016, section 1 and figure 2: q = 0.01, σ = 4, 10⁴ steps, δ = 10⁻⁵ give about 1.26."""
    accountant = composed((step(4.0), 10_000), accountant=MomentsAccountant)
    orders = np.arange(2.0, 34.0)

    assert accountant.epsilon(1e-5) == pytest.approx(1.26, abs=0.005)
    expected = rdp_to_epsilon(orders, accountant.rdp(orders), delta=1e-5, conversion="classical")
    assert accountant.epsilon(1e-5) == expected.value
    assert composed((step(4.0), 10_000)).epsilon(1e-5) < expected.value
    assert "Mironov 2017" in str(accountant.explain(1e-5))
    with pytest.raises(InvalidParameter, match="max_moment"):
        MomentsAccountant(max_moment=0)
