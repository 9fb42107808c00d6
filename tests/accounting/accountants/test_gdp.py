"""Gaussian releases add up exactly, refuse what they cannot add, and stop before the budget."""

import copy
import json
import math
import pickle
import random
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ferrodp.accounting import (
    ComposedEvent,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PrivacyAccountant,
    SelfComposedEvent,
    gaussian_delta,
    gaussian_epsilon,
)
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from reference import gaussian_dp

multipliers = st.floats(min_value=0.05, max_value=1e4)


def gaussian(z):
    return GaussianEvent(noise_multiplier=z)


def accountant_of(*multipliers):
    accountant = GdpAccountant()
    for z in multipliers:
        accountant.compose(gaussian(z))
    return accountant


def test_nothing_costs_nothing():
    accountant = GdpAccountant()

    assert (accountant.epsilon(1e-5), accountant.delta(0.0)) == (0.0, 0.0)
    assert accountant.log_delta(0.0) == -math.inf
    assert accountant.mu == 0.0
    accountant.compose(gaussian(1.0), count=0)
    accountant.compose(NonPrivateEvent(), count=0)
    accountant.compose(ComposedEvent(events=()))
    assert accountant.epsilon(1e-300) == 0.0


@given(multipliers)
@settings(max_examples=20)
def test_one_release_costs_what_the_mechanism_says(z):
    accountant = accountant_of(z)

    assert gaussian_epsilon(delta=1e-6, noise_multiplier=z) == accountant.epsilon(1e-6)
    assert gaussian_delta(epsilon=1.0, noise_multiplier=z) == accountant.delta(1.0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(multipliers, st.integers(1, 1000)), min_size=1, max_size=5), st.floats(0.0, 30.0))
def test_delta_of_a_composition_lies_between_its_two_floats(parts, epsilon):
    accountant = GdpAccountant()
    for z, count in parts:
        accountant.compose(gaussian(z), count)
    bounds = accountant.delta_bounds(epsilon)
    with mp.workdps(80):
        mu = mp.sqrt(sum(count / mp.mpf(z) ** 2 for z, count in parts))
        if epsilon / mu - mu / 2 < 38:
            truth = gaussian_dp.delta(epsilon, mu)
            assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper <= math.nextafter(bounds.lower, 2.0)
    assert bounds.upper > 0.0


def test_a_hundred_releases_with_tenfold_noise_are_one():
    accountant = GdpAccountant()
    accountant.compose(SelfComposedEvent(event=SelfComposedEvent(event=gaussian(10.0), count=5), count=4), count=5)

    assert gaussian_epsilon(delta=1e-5, noise_multiplier=1.0) == accountant.epsilon(1e-5)
    assert accountant.mu == 1.0


def test_neither_order_nor_nesting_shows():
    parts = [gaussian(z) for z in (0.3, 1.1, 7.7, 1e3, 0.9, 1e-3)]
    expected = None
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        flat, nested = GdpAccountant(), GdpAccountant()
        for part in parts:
            flat.compose(part)
        nested.compose(ComposedEvent(events=(parts[0], ComposedEvent(events=parts[1:]))))
        answers = [(a.epsilon_bounds(1e-7), a.delta_bounds(3.0), a.log_delta(1e9)) for a in (flat, nested)]
        expected = expected or answers[0]

        assert [expected, expected] == answers


def test_epsilon_never_falls_when_an_event_is_added():
    accountant = GdpAccountant()
    previous = 0.0
    for z in (1e6, 10.0, 3.0, 1e9, 0.5):
        accountant.compose(gaussian(z))
        assert accountant.epsilon(1e-5) >= previous
        previous = accountant.epsilon(1e-5)


def test_a_release_without_protection_has_no_bound():
    accountant = accountant_of(1.0)
    accountant.compose(SelfComposedEvent(event=NonPrivateEvent(), count=2))

    assert accountant.epsilon_bounds(1e-5) == (math.inf, math.inf)
    assert accountant.delta_bounds(100.0) == (1.0, 1.0)
    assert accountant.log_delta(1.0) == 0.0
    assert accountant.mu == math.inf
    assert accountant.would_exceed(gaussian(1e9), epsilon=100.0, delta=0.5)
    assert accountant.remaining_count(gaussian(1e9), epsilon=100.0, delta=0.5) == 0


@pytest.mark.parametrize("count", [0, 1, 7])
def test_other_events_are_refused_and_leave_no_trace(count):
    accountant = accountant_of(1.0)
    before = accountant.state_dict()
    event = ComposedEvent(events=(gaussian(1.0), NonPrivateEvent(), LaplaceEvent(noise_multiplier=1.0)))

    for ask in (
        lambda: accountant.compose(event, count),
        lambda: accountant.would_exceed(event, epsilon=1.0, delta=1e-5, count=count),
        lambda: accountant.remaining_count(event, epsilon=1.0, delta=1e-5),
    ):
        with pytest.raises(UnsupportedEventError, match="GdpAccountant cannot bound LaplaceEvent: only Gaussian noise"):
            ask()

    assert before == accountant.state_dict()


@settings(deadline=None, max_examples=60)
@given(
    multipliers,
    st.lists(multipliers, max_size=2),
    st.floats(min_value=0.01, max_value=50.0),
    st.floats(min_value=-30.0, max_value=-1.0).map(lambda x: 10.0**x),
)
@example(1.0, [], 8.0, 1e-5)
@example(1e4, [], 50.0, 0.1)
def test_the_remaining_count_is_the_last_safe_one(z, before, epsilon, delta):
    accountant = accountant_of(*before)
    budget = {"epsilon": epsilon, "delta": delta}

    count = accountant.remaining_count(gaussian(z), **budget)

    if count:
        assert not accountant.would_exceed(gaussian(z), count=count, **budget)
    assert accountant.would_exceed(gaussian(z), count=count + 1, **budget)
    accountant.compose(gaussian(z), count)
    assert count == 0 or accountant.epsilon(delta) <= epsilon
    assert accountant.remaining_count(gaussian(z), **budget) == 0


def test_the_budget_may_be_met_exactly():
    accountant = accountant_of(2.0, 2.0, 2.0)
    budget = {"epsilon": accountant.epsilon(1e-6), "delta": 1e-6}

    assert accountant_of(2.0).remaining_count(gaussian(2.0), **budget) == 2
    assert not accountant_of(2.0, 2.0).would_exceed(gaussian(2.0), **budget)
    less = math.nextafter(budget["epsilon"], 0.0)
    assert accountant_of(2.0).remaining_count(gaussian(2.0), epsilon=less, delta=1e-6) == 1


def test_nothing_is_left_of_a_budget_that_is_exceeded_not_even_for_nothing():
    accountant = accountant_of(0.1)

    assert accountant.remaining_count(ComposedEvent(events=()), epsilon=1.0, delta=1e-5) == 0
    assert accountant.would_exceed(ComposedEvent(events=()), epsilon=1.0, delta=1e-5)


def test_counts_of_10_to_the_12_and_more_work():
    accountant = GdpAccountant()
    accountant.compose(gaussian(1e6), count=10**12)

    assert accountant.mu == 1.0
    assert accountant.remaining_count(gaussian(1e6), epsilon=8.0, delta=1e-5) > 10**12
    assert accountant.remaining_count(gaussian(1e150), epsilon=8.0, delta=1e-5) == 2**63 - 1
    assert accountant.remaining_count(ComposedEvent(events=()), epsilon=8.0, delta=1e-5) == 2**63 - 1
    accountant.compose(SelfComposedEvent(event=gaussian(1e-6), count=2**63 - 1), count=2**63 - 1)
    # μ²/2 = 2¹²⁶·10¹²/2: far beyond it nothing is hidden
    assert accountant.epsilon(1e-5) == pytest.approx(2.0**126 * 1e12 / 2, rel=1e-9)


def test_a_million_charges_keep_the_sum_to_the_last_float():
    accountant = GdpAccountant()
    for i in range(20_000):
        accountant.compose(gaussian(100.0 + i % 7), count=50)
    at_once = GdpAccountant()
    for i in range(7):
        at_once.compose(gaussian(100.0 + i), count=50 * len(range(i, 20_000, 7)))

    assert at_once.epsilon_bounds(1e-5) == accountant.epsilon_bounds(1e-5)


def test_threads_lose_no_charge():
    accountant = GdpAccountant()
    event = gaussian(100.0)

    def work():
        for _ in range(500):
            accountant.compose(event)

    threads = [threading.Thread(target=work) for _ in range(8)]
    previous = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(previous)

    assert accountant.epsilon(1e-5) == gaussian_epsilon_of(100.0, 4000)


def gaussian_epsilon_of(z, count):
    accountant = GdpAccountant()
    accountant.compose(gaussian(z), count)
    return accountant.epsilon(1e-5)


def test_the_state_survives_json_pickle_and_copy():
    accountant = GdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(gaussian(0.7), 3)

    for again in (
        GdpAccountant.from_state_dict(json.loads(json.dumps(accountant.state_dict()))),
        pickle.loads(pickle.dumps(accountant)),
        copy.deepcopy(accountant),
        accountant.copy(),
    ):
        assert accountant.state_dict() == again.state_dict()
        assert accountant.epsilon_bounds(1e-9) == again.epsilon_bounds(1e-9)
        assert again.neighboring_relation is NeighboringRelation.REPLACE_ONE
        again.compose(gaussian(1.0))
        assert again.epsilon(1e-9) > accountant.epsilon(1e-9)


STATE = accountant_of(1.0).state_dict()


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (None, InvalidType),
        ({}, InvalidParameter),
        ({**STATE, "version": 2}, InvalidParameter),
        ({**STATE, "accountant": "rdp"}, InvalidParameter),
        ({**STATE, "more": 1}, InvalidParameter),
        ({**STATE, "neighboring_relation": "other"}, InvalidParameter),
        ({**STATE, "neighboring_relation": []}, InvalidParameter),
        ({**STATE, "non_private": 0}, InvalidType),
        ({**STATE, "squared_mu": 1.0}, InvalidParameter),
        ({**STATE, "squared_mu": ["1"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["2", "1"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["-1", "1"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["1", "NaN"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["1", "sNaN"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["1", "Infinity"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["1", "1e999999999"]}, InvalidParameter),
        ({**STATE, "squared_mu": ["1", "one"]}, InvalidParameter),
        ({**STATE, "squared_mu": [1, 1]}, InvalidParameter),
    ],
)
def test_states_that_no_accountant_wrote_are_refused(state, error):
    with pytest.raises(error):
        GdpAccountant.from_state_dict(state)


@pytest.mark.parametrize(
    ("bad", "error"), [(-1, InvalidParameter), (2**63, InvalidParameter), (1.0, InvalidType), (True, InvalidType)]
)
def test_counts_are_integers_from_0(bad, error):
    accountant = GdpAccountant()

    with pytest.raises(error, match="count must be an int"):
        accountant.compose(gaussian(1.0), bad)
    assert accountant.mu == 0.0


def test_parameters_are_checked():
    accountant = accountant_of(1.0)

    with pytest.raises(InvalidType, match="neighboring_relation must be a NeighboringRelation"):
        GdpAccountant(neighboring_relation=1)
    with pytest.raises(InvalidType, match="event must be a privacy event, got float"):
        accountant.compose(1.0)
    with pytest.raises(InvalidParameter, match=r"delta must be finite and in \(0, 1\), got 0"):
        accountant.epsilon(0)
    with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got -1"):
        accountant.delta(-1)
    with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got nan"):
        accountant.would_exceed(gaussian(1.0), epsilon=math.nan, delta=1e-5)
    assert accountant.delta(Decimal("0.1")) == accountant.delta(math.nextafter(0.1, 0.0))


def test_the_repr_tells_mu_and_relation():
    assert (
        repr(accountant_of(2.0)) == "GdpAccountant(mu=0.5, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)"
    )


def test_accountants_of_one_relation_merge():
    here, there = accountant_of(2.0, 3.0), accountant_of(0.7)
    here.merge(there)

    assert here.state_dict() == accountant_of(2.0, 3.0, 0.7).state_dict()
    assert there.state_dict() == accountant_of(0.7).state_dict()
    with pytest.raises(InvalidParameter, match="neighboring_relation ADD_OR_REMOVE_ONE, got REPLACE_ONE"):
        here.merge(GdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE))
    with pytest.raises(InvalidType, match="other must be a GdpAccountant, got GaussianEvent"):
        here.merge(gaussian(1.0))
    there.compose(NonPrivateEvent())
    here.merge(there)
    assert here.epsilon(0.5) == math.inf


@given(st.lists(multipliers, min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_its_events_are_gaussians_that_cost_what_it_was_told_or_a_rounding_more(told):
    accountant = accountant_of(*told)
    again = GdpAccountant.of_events(accountant.events, accountant.neighboring_relation)

    assert accountant.epsilon(1e-6) <= again.epsilon(1e-6) <= accountant.epsilon(1e-6) * (1 + 1e-12)
    assert all(isinstance(event, GaussianEvent) for event, _ in accountant.events)
    accountant.compose(NonPrivateEvent(), count=2)
    assert accountant.events[-1] == (NonPrivateEvent(), 1)


@pytest.mark.parametrize("z", [5e-324, 1e-200, 1e300, 1.7e308])
def test_its_events_cost_no_less_at_the_ends_of_the_range_of_floats(z):
    accountant = GdpAccountant()
    accountant.compose(gaussian(z), count=2**63 - 1)
    ((event, count),) = accountant.events

    assert count / Fraction(event.noise_multiplier) ** 2 >= (2**63 - 1) / Fraction(z) ** 2 * (1 - Fraction(1, 10**100))


def test_it_is_an_accountant_like_the_others():
    accountant = accountant_of(2.0, 2.0)

    assert isinstance(accountant, PrivacyAccountant)
    assert accountant.explain(1e-5).value == accountant.epsilon(1e-5)
    assert [count for _, count in accountant.events] == [1]
