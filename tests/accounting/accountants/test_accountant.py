"""What every accountant does with its list of events, shown by one that adds up the ε of pure differential privacy."""

import copy
import json
import math
import pickle
import sys
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import (
    Bounds,
    ComposedEvent,
    EpsilonDeltaEvent,
    Explanation,
    GaussianEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyAccountant,
    SelfComposedEvent,
)
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError


class Adding(PrivacyAccountant):
    """Σε, exact for multiples of a power of two; δ is 0 from there on, and else 1."""

    kind = "adding"

    def __init__(self, *, unit=1.0, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
        super().__init__(neighboring_relation=neighboring_relation)
        self.unit = unit
        self.asked = 0

    def _settings(self):
        return {"unit": self.unit}

    def _supports(self, event):
        if isinstance(event, EpsilonDeltaEvent) and not event.delta:
            return None
        return "it adds up pure ε only; use an accountant that knows δ"

    def _total(self):
        self.asked += 1
        total = sum((Fraction(event.epsilon) * times for event, times in self.events), Fraction(0))
        return float(total) * self.unit

    def _epsilon_bounds(self, delta):
        return Bounds(0.0, self._total())

    def _delta_bounds(self, epsilon):
        return Bounds(0.0, float(self._total() > epsilon))

    def _explanation(self, delta):
        return Explanation(quantity="epsilon", value=self._total(), method="a sum", parameters={"delta": delta})


def pure(epsilon):
    return EpsilonDeltaEvent(epsilon=epsilon)


def adding(*epsilons, **settings):
    accountant = Adding(**settings)
    for epsilon in epsilons:
        accountant.compose(pure(epsilon))
    return accountant


def test_nothing_costs_nothing_and_is_not_even_computed():
    accountant = Adding()
    accountant.compose(pure(1.0), count=0)
    accountant.compose(ComposedEvent(events=()))
    accountant.compose(NonPrivateEvent(), 0)

    assert (accountant.epsilon(1e-5), accountant.delta(0.0), accountant.asked) == (0.0, 0.0, 0)
    assert accountant.events == ()
    assert "ε is at most 0.0 at δ = 1e-05" in str(accountant.explain(1e-5))


def test_equal_events_are_counted_in_the_order_in_which_they_came():
    accountant = adding(0.5, 0.25, 0.5)
    accountant.compose(SelfComposedEvent(event=ComposedEvent(events=(pure(0.25), pure(2.0))), count=10), 3)

    assert accountant.events == ((pure(0.5), 2), (pure(0.25), 31), (pure(2.0), 30))
    assert accountant.epsilon(0.1) == 1.0 + 31 / 4 + 60.0
    assert accountant.delta(68.75) == 0.0
    assert accountant.delta(68.74) == 1.0


def test_counts_have_no_limit():
    accountant = Adding()
    accountant.compose(SelfComposedEvent(event=pure(2.0**-100), count=2**63 - 1), 2**63 - 1)

    assert accountant.events == ((pure(2.0**-100), (2**63 - 1) ** 2),)
    assert accountant.epsilon(0.5) == 2.0**26


@pytest.mark.parametrize("count", [0, 1, 7])
def test_what_cannot_be_bounded_leaves_no_trace(count):
    accountant = adding(1.0)
    event = ComposedEvent(events=(pure(1.0), NonPrivateEvent(), GaussianEvent(noise_multiplier=1.0)))

    for ask in (
        lambda: accountant.compose(event, count),
        lambda: accountant.would_exceed(event, epsilon=1.0, delta=1e-5, count=count),
        lambda: accountant.remaining_count(event, epsilon=1.0, delta=1e-5),
    ):
        with pytest.raises(
            UnsupportedEventError, match="Adding cannot bound GaussianEvent: it adds up pure ε only; use"
        ):
            ask()

    assert accountant.events == ((pure(1.0), 1),)


def test_a_release_without_protection_is_infinite():
    accountant = adding(1.0)
    accountant.compose(ComposedEvent(events=(NonPrivateEvent(), pure(0.5))))

    assert accountant.epsilon_bounds(1e-5) == (math.inf, math.inf)
    assert accountant.delta_bounds(100.0) == (1.0, 1.0)
    assert accountant.would_exceed(pure(0.0), epsilon=100.0, delta=0.5)
    assert accountant.remaining_count(pure(0.0), epsilon=100.0, delta=0.5) == 0
    assert "ε is infinite at δ = 1e-05" in str(accountant.explain(1e-5))
    assert "without protection" in str(accountant.explain(1e-5))


def test_would_exceed_asks_and_changes_nothing():
    accountant = adding(1.0)

    assert not accountant.would_exceed(pure(0.5), epsilon=2.0, delta=1e-5, count=2)
    assert accountant.would_exceed(pure(0.5), epsilon=2.0, delta=1e-5, count=3)
    assert accountant.would_exceed(NonPrivateEvent(), epsilon=2.0, delta=1e-5)
    assert not accountant.would_exceed(NonPrivateEvent(), epsilon=2.0, delta=1e-5, count=0)
    assert accountant.events == ((pure(1.0), 1),)


@given(st.integers(0, 100), st.integers(1, 2**40), st.integers(0, 2**60))
def test_the_remaining_count_is_the_last_safe_one(spent, cost, budget):
    accountant = adding(float(spent))

    count = accountant.remaining_count(pure(float(cost)), epsilon=float(budget), delta=1e-5)

    def rounded_sum(n):
        return float(Fraction(spent) + Fraction(cost) * n)

    assert rounded_sum(count) <= float(budget) or count == 0
    assert rounded_sum(count + 1) > float(budget)


def test_the_remaining_count_at_its_ends():
    budget = {"epsilon": 2.0, "delta": 1e-5}

    assert adding(2.0).remaining_count(pure(2.0**-80), **budget) == 2**28  # half an ulp of 2, rounded to even
    assert adding(1.0).remaining_count(pure(1.0), **budget) == 1
    assert adding(1.0).remaining_count(pure(1.5), **budget) == 0
    assert adding(3.0).remaining_count(pure(0.0), **budget) == 0
    assert adding(1.0).remaining_count(pure(0.0), **budget) == 2**63 - 1
    assert adding(1.0).remaining_count(ComposedEvent(events=()), **budget) == 2**63 - 1
    assert adding(1.0).remaining_count(SelfComposedEvent(event=pure(1.0), count=0), **budget) == 2**63 - 1
    assert adding(1.0).remaining_count(NonPrivateEvent(), **budget) == 0
    assert Adding().remaining_count(pure(2.0**-62), **budget) == 2**63 - 1


def test_the_remaining_count_costs_twice_its_logarithm():
    accountant = Adding()
    asked = []
    accountant._and = lambda parts, count: asked.append(count) or PrivacyAccountant._and(accountant, parts, count)

    assert accountant.remaining_count(pure(1.0), epsilon=1e6, delta=1e-5) == 10**6
    assert len(asked) <= 3
    assert accountant.events == ()


def test_the_state_survives_json_pickle_and_copies():
    accountant = adding(0.5, 0.5, 0.25, unit=2.0, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(pure(4.0), 2**63 - 1)
    accountant.compose(pure(4.0), 2**63 - 1)

    for again in (
        Adding.from_state_dict(json.loads(json.dumps(accountant.state_dict()))),
        pickle.loads(pickle.dumps(accountant)),
        copy.copy(accountant),
        copy.deepcopy(accountant),
        accountant.copy(),
    ):
        assert accountant.events == again.events
        assert accountant.state_dict() == again.state_dict()
        assert again.neighboring_relation is NeighboringRelation.REPLACE_ONE
        assert again.epsilon(0.1) == accountant.epsilon(0.1)
        again.compose(pure(1e100))
        assert again.epsilon(0.1) > accountant.epsilon(0.1)


STATE = adding(1.0).state_dict()
ENTRY = STATE["events"][0]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (None, InvalidType),
        ({}, InvalidParameter),
        ({**STATE, "version": 2}, InvalidParameter),
        ({**STATE, "version": True}, InvalidParameter),
        ({**STATE, "accountant": "gdp"}, InvalidParameter),
        ({**STATE, "more": 1}, InvalidParameter),
        ({**STATE, "neighboring_relation": "other"}, InvalidParameter),
        ({**STATE, "neighboring_relation": []}, InvalidParameter),
        ({**STATE, "settings": {}}, InvalidParameter),
        ({**STATE, "settings": {"unit": 1.0, "more": 1}}, InvalidParameter),
        ({**STATE, "settings": None}, InvalidParameter),
        ({**STATE, "events": {}}, InvalidType),
        ({**STATE, "events": [1]}, InvalidParameter),
        ({**STATE, "events": [[ENTRY[0]]]}, InvalidParameter),
        ({**STATE, "events": [[ENTRY[0], 0]]}, InvalidParameter),
        ({**STATE, "events": [[ENTRY[0], -1]]}, InvalidParameter),
        ({**STATE, "events": [[ENTRY[0], 1.0]]}, InvalidType),
        ({**STATE, "events": [[ENTRY[0], True]]}, InvalidType),
        ({**STATE, "events": [[ENTRY[0], 2**5000]]}, InvalidParameter),
        ({**STATE, "events": [[{**ENTRY[0], "epsilon": -1.0}, 1]]}, InvalidParameter),
        ({**STATE, "events": [[GaussianEvent(noise_multiplier=1.0).to_dict(), 1]]}, UnsupportedEventError),
    ],
)
def test_states_that_no_accountant_wrote_are_refused(state, error):
    with pytest.raises(error):
        Adding.from_state_dict(state)


def test_accountants_of_one_kind_and_relation_merge():
    here, there = adding(1.0, 2.0), adding(2.0, 4.0)
    here.merge(there)
    here.merge(here.copy())

    assert here.events == ((pure(1.0), 2), (pure(2.0), 4), (pure(4.0), 2))
    assert there.events == ((pure(2.0), 1), (pure(4.0), 1))


@pytest.mark.parametrize(
    ("other", "error", "text"),
    [
        (Adding(unit=2.0), InvalidParameter, "other must have the same settings"),
        (Adding(neighboring_relation=NeighboringRelation.REPLACE_ONE), InvalidParameter, "ADD_OR_REMOVE_ONE, got REPL"),
        (pure(1.0), InvalidType, "other must be a Adding, got EpsilonDeltaEvent"),
    ],
)
def test_others_do_not(other, error, text):
    accountant = adding(1.0)

    with pytest.raises(error, match=text):
        accountant.merge(other)
    assert accountant.epsilon(0.1) == 1.0


def test_events_that_are_made_anew_are_told_apart():
    """Each is gone after its charge, so that the next one may take its place in memory."""
    accountant = Adding()
    for i in range(5000):
        accountant.compose(SelfComposedEvent(event=pure(1.0), count=i % 5))

    assert accountant.events == ((pure(1.0), 10_000),)


def test_threads_lose_no_charge():
    accountant = Adding()

    def work(number):
        for i in range(500):
            accountant.compose(pure(float(i % 3)), number)
            assert accountant.events

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    previous = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(previous)

    assert {pure(0.0): 167 * 36, pure(1.0): 167 * 36, pure(2.0): 166 * 36} == dict(accountant.events)


@pytest.mark.parametrize("different", [1, 1000])
def test_charges_cost_the_same_however_many_there_were(different):
    """Ten times the charges take at most twenty-five times as much time of this thread; the best of three."""
    events = [
        PoissonSampledEvent(sampling_probability=0.5, event=GaussianEvent(noise_multiplier=1.0 + i))
        for i in range(different)
    ]

    def seconds(charges):
        times = []
        for _ in range(3):
            accountant = Sampling()
            start = time.thread_time()
            for i in range(charges):
                accountant.compose(events[i % different])
            times.append(time.thread_time() - start)
        assert charges == sum(times for _, times in accountant.events)
        return min(times)

    assert seconds(20_000) < 25 * seconds(2_000)


class Sampling(Adding):
    def _supports(self, event):
        return None


@pytest.mark.parametrize(
    ("bad", "error"), [(-1, InvalidParameter), (2**63, InvalidParameter), (1.0, InvalidType), (True, InvalidType)]
)
def test_counts_are_integers_from_0(bad, error):
    accountant = Adding()

    with pytest.raises(error, match="count must be an int"):
        accountant.compose(pure(1.0), bad)
    with pytest.raises(error, match="count must be an int"):
        accountant.would_exceed(pure(1.0), epsilon=1.0, delta=0.1, count=bad)
    assert accountant.events == ()


def test_parameters_are_checked():
    accountant = adding(1.0)

    with pytest.raises(InvalidType, match="neighboring_relation must be a NeighboringRelation"):
        Adding(neighboring_relation=1)
    with pytest.raises(InvalidType, match="event must be a privacy event, got float"):
        accountant.compose(1.0)
    for bad in (0, 1, -1e-5, math.nan):
        for ask in (accountant.epsilon, accountant.epsilon_bounds, accountant.explain):
            with pytest.raises(InvalidParameter, match=r"delta must be finite and in \(0, 1\), got"):
                ask(bad)
    for bad in (-1, math.nan, math.inf):
        for ask in (accountant.delta, accountant.delta_bounds):
            with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got"):
                ask(bad)
    with pytest.raises(InvalidParameter, match="epsilon must be finite and >= 0, got nan"):
        accountant.would_exceed(pure(1.0), epsilon=math.nan, delta=1e-5)


def test_events_without_end_are_refused_and_not_a_crash():
    event = pure(1.0)
    for _ in range(20_000):
        event = ComposedEvent(events=(PoissonSampledEvent(sampling_probability=0.5, event=event),))

    with pytest.raises(InvalidParameter, match="event is nested too deep"):
        Sampling().compose(event)


def test_the_repr_tells_settings_and_size():
    accountant = adding(1.0, 2.0, unit=2.0)

    assert repr(accountant) == "<Adding of 2 different events, unit=2.0, neighboring_relation='ADD_OR_REMOVE_ONE'>"
