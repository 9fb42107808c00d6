"""A mechanism has one tag: in the native code and in the JSON of events."""

import re
from pathlib import Path

from ferrodp import events
from ferrodp.events import PrivacyEvent

SOURCE = Path(__file__).parents[2] / "rust/ferrodp-py/src/accounting/spec.rs"

# Pairs of laws that are no event: bounds of others, or parts of them.
NO_EVENTS = {"allocated", "randomized_response_or_uniform", "antipodal_gaussian", "masses", "public_coin", "reversed"}


def native_tags():
    return set(re.findall(r'^ +"(\w+)" => ', SOURCE.read_text(), re.MULTILINE))


def event_tags():
    found = (getattr(events, name) for name in events.__all__)
    return {each.kind for each in found if isinstance(each, type) and issubclass(each, PrivacyEvent)}


def test_native_mechanisms_have_the_tags_of_events():
    assert len(native_tags()) > 10
    assert native_tags() - event_tags() == NO_EVENTS
