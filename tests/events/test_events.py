"""Events mean what they say, never change, and survive JSON bit by bit."""

import copy
import dataclasses
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from ferrodp.accounting import (
    ComposedEvent,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PldAccountant,
    PoissonSampledEvent,
    PrivacyEvent,
    PureDpAccountant,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
)
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import base
from support.events import events


@given(events)
def test_json_and_back_is_the_same_event(event):
    again = PrivacyEvent.from_dict(json.loads(json.dumps(event.to_dict(), allow_nan=False)))

    assert event == again
    assert hash(event) == hash(again)


@given(events)
def test_copies_and_pickles_are_equal(event):
    assert event == pickle.loads(pickle.dumps(event)) == copy.deepcopy(event)


def test_events_of_different_kinds_differ():
    assert GaussianEvent(noise_multiplier=1.0) != LaplaceEvent(noise_multiplier=1.0)
    assert GaussianEvent(noise_multiplier=1.0) != GaussianEvent(noise_multiplier=math.nextafter(1.0, 2.0))


def test_events_are_frozen_and_keyword_only():
    event = GaussianEvent(noise_multiplier=1.0)

    with pytest.raises(dataclasses.FrozenInstanceError):
        event.noise_multiplier = 2.0
    with pytest.raises((AttributeError, TypeError)):
        event.other = 2.0
    with pytest.raises(TypeError):
        GaussianEvent(1.0)


@pytest.mark.parametrize("event_class", [GaussianEvent, LaplaceEvent])
def test_noise_multipliers_are_rounded_down(event_class):
    """Less noise is more loss: an event must not promise more noise than there was."""
    for tenth in (Decimal("0.1"), Fraction(1, 10)):
        assert math.nextafter(0.1, 0.0) == event_class(noise_multiplier=tenth).noise_multiplier
    assert type(event_class(noise_multiplier=np.float32(0.5)).noise_multiplier) is float


@pytest.mark.parametrize("event_class", [GaussianEvent, LaplaceEvent])
@pytest.mark.parametrize("bad", [0.0, -0.0, -1.0, math.nan, math.inf])
def test_noise_multipliers_must_be_positive(event_class, bad):
    with pytest.raises(InvalidParameter, match="noise_multiplier must be finite and > 0, got"):
        event_class(noise_multiplier=bad)


def test_composed_events_hold_events_only():
    with pytest.raises(InvalidType, match="events must hold a privacy event, got float"):
        ComposedEvent(events=(1.0,))
    with pytest.raises(InvalidType, match="events must be a tuple or list of events, got GaussianEvent"):
        ComposedEvent(events=GaussianEvent(noise_multiplier=1.0))
    with pytest.raises(InvalidType, match="event must be a privacy event, got str"):
        SelfComposedEvent(event="gaussian", count=1)


@pytest.mark.parametrize(
    ("bad", "error"), [(-1, InvalidParameter), (2**63, InvalidParameter), (1.0, InvalidType), (True, InvalidType)]
)
def test_counts_are_integers_from_0(bad, error):
    with pytest.raises(error, match="count must be an int"):
        SelfComposedEvent(event=NonPrivateEvent(), count=bad)


GOOD = SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=2).to_dict()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, InvalidType),
        ([], InvalidType),
        ({}, InvalidParameter),
        ({**GOOD, "version": 2}, InvalidParameter),
        ({**GOOD, "version": "1"}, InvalidParameter),
        ({**GOOD, "version": True}, InvalidParameter),
        ({**GOOD, "type": "unheard of"}, InvalidParameter),
        ({**GOOD, "type": ["gaussian"]}, InvalidParameter),
        ({**GOOD, "more": 1}, InvalidParameter),
        ({key: value for key, value in GOOD.items() if key != "count"}, InvalidParameter),
        ({**GOOD, "count": 1.5}, InvalidType),
        ({**GOOD, "count": -1}, InvalidParameter),
        ({**GOOD, "event": None}, InvalidType),
        ({**GOOD, "event": {"type": "gaussian", "noise_multiplier": math.nan}}, InvalidParameter),
        ({**GOOD, "event": {"type": "gaussian", "noise_multiplier": "1"}}, InvalidType),
        ({**GOOD, "event": {"type": "gaussian", "noise_multiplier": "inf"}}, InvalidParameter),
        ({**GOOD, "event": {"type": "gaussian", "noise_multiplier": True}}, InvalidType),
        ({**GOOD, "event": {"type": "gaussian", "noise_multiplier": None}}, InvalidType),
        ({"version": 1, "type": "composed", "events": {"type": "non_private"}}, InvalidType),
        ({"version": 1, "type": "composed", "events": ["non_private"]}, InvalidType),
    ],
)
def test_data_that_no_event_wrote_is_refused(data, error):
    with pytest.raises(error):
        PrivacyEvent.from_dict(data)


def test_what_an_event_does_not_say_is_read_as_the_least_it_could_promise():
    inner = {"type": "gaussian", "noise_multiplier": 1.0}
    old = {"version": 1, "type": "poisson_sampled", "sampling_probability": 0.1, "event": inner}
    event = PrivacyEvent.from_dict(old)

    assert event.null_distance == math.inf
    assert event.to_dict() == old
    said = dataclasses.replace(event, null_distance=0.5)
    assert said.to_dict() == {**old, "null_distance": 0.5}
    assert PrivacyEvent.from_dict(said.to_dict()) == said
    assert dataclasses.replace(event, null_distance=Fraction(2, 3)).null_distance >= Fraction(2, 3)


@pytest.mark.parametrize("bad", [0.0, math.nextafter(0.5, 0.0), -1.0, math.nan, -math.inf, "0.5", None, True])
def test_two_results_are_at_most_twice_as_far_apart_as_each_is_from_none(bad):
    with pytest.raises((InvalidParameter, InvalidType), match="null_distance"):
        PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=1.0), null_distance=bad)


def test_data_nested_too_deep_is_refused():
    data = {"type": "non_private"}
    for _ in range(500):
        data = {"type": "self_composed", "event": data, "count": 1}

    with pytest.raises(InvalidParameter, match="events must be nested at most 100 deep"):
        PrivacyEvent.from_dict({"version": 1, **data})


def test_there_are_three_relations():
    names = {"ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"}

    assert names == {relation.name for relation in NeighboringRelation}


@pytest.mark.parametrize("kind", sorted(base._KINDS))
def test_a_class_of_the_library_has_no_subclasses(kind):
    """Accountants go by what an event is an instance of, and would answer for another release with this one's bound."""
    known = base._KINDS[kind]
    with pytest.raises(
        InvalidType, match=rf"class Other must derive from PrivacyEvent itself, not from {known.__name__}"
    ):
        type("Other", (known,), {"__slots__": ()})
    with pytest.raises(InvalidType, match=r"register a rule with ferrodp\.accounting\.rdp\.register"):
        type("Another", (known,), {"__slots__": (), "kind": "mine"})


def test_classes_of_users_have_subclasses_without_bounds_until_registered():
    mine = type("MineEvent", (PrivacyEvent,), {"__slots__": ()})
    event = type("MoreEvent", (mine,), {"__slots__": ()})()

    for accountant in (PldAccountant, RdpAccountant, ZcdpAccountant, GdpAccountant, PureDpAccountant):
        with pytest.raises(UnsupportedEventError):
            accountant().compose(event).epsilon(1e-6)
