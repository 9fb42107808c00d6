"""Filters and odometers go to JSON and back with every unit that was charged, and nothing else is read."""

import json
import math
from fractions import Fraction

import pytest

from ferrodp.accounting import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    Odometer,
    PoissonSampledEvent,
)
from ferrodp.accounting.filters import GdpFilter, PureDpFilter, RdpFilter, ZcdpFilter
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType

gaussian = GaussianEvent(noise_multiplier=7.3)
laplace = LaplaceEvent(noise_multiplier=11.1)
stated = EpsilonDeltaEvent(epsilon=0.1, delta=1e-9)
sampled = PoissonSampledEvent(sampling_probability=0.013, event=GaussianEvent(noise_multiplier=1.7))

CASES = [
    (lambda: PureDpFilter(epsilon=2.5, delta=1e-7), [laplace, stated]),
    (lambda: ZcdpFilter(rho=0.7, delta=1e-8), [gaussian, laplace, stated]),
    (lambda: ZcdpFilter.for_budget(epsilon=3.0, delta=1e-6), [gaussian]),
    (lambda: GdpFilter.for_budget(epsilon=3.0, delta=1e-6), [gaussian]),
    (lambda: GdpFilter(mu=0.9, neighboring_relation=NeighboringRelation.REPLACE_ONE), [gaussian]),
    (lambda: RdpFilter(orders=[2.5, 7.0], budgets=[0.5, 2.0]), [gaussian, sampled, laplace]),
    (lambda: RdpFilter.for_budget(epsilon=3.0, delta=1e-6), [gaussian, sampled]),
    (lambda: Odometer(delta=1e-6, expected_rho=0.3), [gaussian, laplace]),
]
CLASSES = [PureDpFilter, ZcdpFilter, GdpFilter, RdpFilter]


def again(meter):
    """What is left after a way through JSON text."""
    return type(meter).from_state_dict(json.loads(json.dumps(meter.state_dict())))


def sums(meter):
    """The exact sums and caps, as rationals."""
    state = meter.state_dict()
    return [Fraction(int(each, 16), int(state["unit"], 16)) for each in [*state["spent"], *state["caps"]]]


@pytest.mark.parametrize(("make", "events"), CASES)
def test_nothing_is_lost_on_the_way(make, events):
    before = make()
    for step, event in enumerate(events):
        before.charge(event, step + 2)

    after = again(before)

    assert sums(after) == sums(before)
    assert after.state_dict() == before.state_dict()
    assert repr(after) == repr(before)
    for event in [*events, ComposedEvent(events=tuple(events))]:
        before.charge(event)
        after.charge(event)
        assert sums(after) == sums(before)


@pytest.mark.parametrize(("make", "events"), CASES[:-1])
def test_a_filter_stops_where_it_would_have_stopped(make, events):
    whole, parts = make(), make()
    event = events[0]

    for _ in range(3):
        parts.charge(event)
        parts = again(parts)
    whole.charge(event, 3)

    assert parts.remaining_count(event) == whole.remaining_count(event)
    assert parts.neighboring_relation is whole.neighboring_relation
    parts.charge(event, parts.remaining_count(event))
    with pytest.raises(BudgetExceeded):
        again(parts).charge(event)


def test_an_odometer_reads_on():
    before = Odometer(delta=1e-6, expected_rho=0.3)
    before.charge(gaussian, 10)

    after = again(before)

    assert (after.epsilon, after.rho, after.delta) == (before.epsilon, before.rho, before.delta)
    assert Odometer(delta=1e-6).state_dict()["gamma"] != before.state_dict()["gamma"]  # so it has to be kept


def test_long_sums_are_kept():
    """At an order whose budget is gone the sum grows on: here to 4816 decimal digits, more than `str` converts."""
    state = RdpFilter.for_budget(epsilon=3.0, delta=1e-6, orders=[8.0, 16.0]).state_dict()
    long = "0x" + "f" * 4000

    budget = RdpFilter.from_state_dict({**state, "spent": ["0x0", long]})

    assert again(budget).state_dict()["spent"] == ["0x0", long]
    assert not budget.would_exceed(gaussian)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("other", CLASSES)
def test_a_filter_does_not_read_another_kind(kind, other):
    state = next(make() for make, _ in CASES if isinstance(make(), other)).state_dict()
    if kind is other:
        assert isinstance(kind.from_state_dict(state), kind)
        return
    with pytest.raises(InvalidParameter, match=r'state must be version 1 of a "\w+" filter'):
        kind.from_state_dict(state)


ONE = hex(1 << 256)
GOOD = {
    "version": 1,
    "filter": "pure",
    "neighboring_relation": "add_or_remove_one",
    "settings": {},
    "unit": ONE,
    "spent": ["0x0", "0x0"],
    "caps": [ONE, "0x1"],
}


def test_the_form_is_fixed():
    """States that were written stay readable: what version 1 is does not change."""
    assert PureDpFilter.from_state_dict(GOOD).state_dict() == GOOD
    assert PureDpFilter.from_state_dict(GOOD).budget == 1.0
    assert PureDpFilter(epsilon=1.0, delta=2.0**-256).state_dict() == GOOD


BAD = [
    (None, InvalidType),
    ([], InvalidType),
    ({}, InvalidParameter),
    ({**GOOD, "more": 1}, InvalidParameter),
    ({**GOOD, "version": 2}, InvalidParameter),
    ({**GOOD, "version": 1.0}, InvalidParameter),
    ({**GOOD, "version": True}, InvalidParameter),
    ({**GOOD, "filter": None}, InvalidParameter),
    ({**GOOD, "neighboring_relation": "replace"}, InvalidParameter),
    ({**GOOD, "neighboring_relation": None}, InvalidParameter),
    ({**GOOD, "neighboring_relation": []}, InvalidParameter),
    ({**GOOD, "settings": None}, InvalidType),
    ({**GOOD, "settings": {"orders": [2.0]}}, InvalidParameter),
    ({**GOOD, "unit": 1 << 256}, InvalidType),
    ({**GOOD, "unit": "0x0"}, InvalidParameter),
    ({**GOOD, "unit": "0x1"}, InvalidParameter),
    ({**GOOD, "unit": hex((1 << 256) + 1)}, InvalidParameter),
    ({**GOOD, "unit": hex(1 << 4096)}, InvalidParameter),
    ({**GOOD, "spent": "0x0"}, InvalidType),
    ({**GOOD, "spent": {}}, InvalidType),
    ({**GOOD, "spent": ["0x0"]}, InvalidParameter),
    ({**GOOD, "spent": ["0x0", "0x0", "0x0"]}, InvalidParameter),
    ({**GOOD, "spent": ["0x0", "0x2"]}, InvalidParameter),  # more than the cap
    ({**GOOD, "spent": [0, 0]}, InvalidType),
    ({**GOOD, "caps": [ONE]}, InvalidParameter),
    ({**GOOD, "caps": [ONE, None]}, InvalidType),
]


@pytest.mark.parametrize(("state", "error"), BAD)
def test_other_states_are_refused(state, error):
    with pytest.raises(error):
        PureDpFilter.from_state_dict(state)


@pytest.mark.parametrize(
    "text", ["", "0", "1", "0x", "-0x1", "0x-1", "0X1", "0x01", "0xG", "0xA", " 0x1", "0x1\n", "0x1_0", "٠x1", "0x١"]
)
def test_integers_are_read_as_they_are_written_only(text):
    with pytest.raises(InvalidParameter):
        PureDpFilter.from_state_dict({**GOOD, "caps": [text, "0x1"]})


def test_endless_integers_are_refused():
    with pytest.raises(InvalidParameter, match="at most 16384 bits"):
        PureDpFilter.from_state_dict({**GOOD, "caps": ["0x" + "f" * 10**6, "0x1"]})


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (None, InvalidParameter),
        ({}, InvalidParameter),
        ({"orders": [2.5, 7.0]}, InvalidParameter),
        ({"orders": [2.5, 7.0], "every_order": 1}, InvalidType),
        ({"orders": [2.5], "every_order": True}, InvalidParameter),
        ({"orders": [2.5, 2.5], "every_order": True}, InvalidParameter),
        ({"orders": [2.5, 1.0], "every_order": True}, InvalidParameter),
        ({"orders": [2.5, math.nan], "every_order": True}, InvalidParameter),
        ({"orders": [2.5, "7"], "every_order": True}, InvalidType),
        ({"orders": "27", "every_order": True}, InvalidType),
        ({"orders": [2.0 + k for k in range(5000)], "every_order": True}, InvalidParameter),
    ],
)
def test_orders_are_checked(settings, error):
    state = RdpFilter(orders=[2.5, 7.0], budgets=[0.5, 2.0]).state_dict()
    with pytest.raises(error):
        RdpFilter.from_state_dict({**state, "settings": settings})


def test_one_order_within_its_budget_is_enough_where_one_is_enough():
    state = RdpFilter.for_budget(epsilon=3.0, delta=1e-6, orders=[8.0, 16.0]).state_dict()
    over = [hex(int(cap, 16) + 1) for cap in state["caps"]]

    RdpFilter.from_state_dict({**state, "spent": [over[0], "0x0"]})
    with pytest.raises(InvalidParameter, match="spent must be within caps"):
        RdpFilter.from_state_dict({**state, "spent": over})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"odometer": "pure"}, InvalidParameter),
        ({"delta": 0.0}, InvalidParameter),
        ({"delta": "1e-6"}, InvalidType),
        ({"gamma": 0.0}, InvalidParameter),
        ({"gamma": math.nan}, InvalidParameter),
        ({"gamma": None}, InvalidType),
        ({"spent": ["0x0", "0x0"]}, InvalidParameter),
        ({"caps": ["0x0"]}, InvalidParameter),
        ({"settings": {}}, InvalidParameter),
    ],
)
def test_states_of_odometers_are_checked(change, error):
    with pytest.raises(error):
        Odometer.from_state_dict({**Odometer(delta=1e-6).state_dict(), **change})
