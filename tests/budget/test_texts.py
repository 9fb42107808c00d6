"""The texts of a ledger, which its hashes depend on, are those of the standard encoder; meanings are read from them."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.budget import _measures
from ferrodp.budget import records as _records
from ferrodp.budget._charging import rules as _rules
from ferrodp.budget._measures import Terms, checked_terms
from ferrodp.budget.stores import rows as _rows
from ferrodp.budget.stores.rows import ScopeRow, scope_row, scope_values
from ferrodp.errors import LedgerError
from ferrodp.events import LaplaceEvent, NeighboringRelation

RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
HOSTILE = [
    "",
    '"',
    "\\",
    '\\"',
    "\x00\x1f\x7f\x80\x9f",
    "\u2028\u2029",
    "ß\ufeff\u202e",
    "\U0001f92b",
    "\ud83e",
    "\udd2b\ud83e",
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=20))  # lone surrogates, too
NUMBERS = st.one_of(st.integers(), st.integers(-(10**80), 10**80))
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def standard(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=6))
def test_a_record_has_the_text_of_the_standard_encoder(fields):
    assert _records.plain_object(fields) == standard(fields)
    encoded = {name: _records.plain(value) for name, value in fields.items()}
    assert _records.plain_object(encoded) == standard(fields)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_a_record(text):
    written = _records.plain_object({"key": text, "kind": "reserve"})
    assert written == standard({"key": text, "kind": "reserve"})
    assert json.loads(written)["key"] == text


class Whole(int):
    def __repr__(self):
        return "1,"


@pytest.mark.parametrize("value", [True, False, Whole(7), type("Text", (str,), {})('"')])
def test_relatives_of_numbers_and_texts_are_encoded_as_ever(value):
    assert _records.plain_object({"a": value}) == standard({"a": value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1}, b""])
def test_what_is_no_json_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        _records.plain_object({"a": value})


@given(st.lists(NUMBERS, max_size=5).map(tuple))
def test_amounts_have_the_text_of_the_standard_encoder(amounts):
    text = _rows.amounts_text(amounts)
    assert text == standard([str(amount) for amount in amounts])
    assert _rows.amounts_from_text(text) == amounts


def scope(measure="zcdp", epsilon=1.0, **row):
    delta = 0.0 if measure == "pure" else 1e-6
    terms = checked_terms(measure=measure, epsilon=epsilon, delta=delta, neighboring_relation=RELATION)
    caps = terms.caps()
    return ScopeRow(**({"name": "a", "terms": terms, "caps": caps, "spent": (0,) * len(caps)} | row))


@pytest.mark.parametrize("measure", ["pure", "zcdp", "gdp", "rdp"])
def test_a_row_of_a_scope_means_what_it_was_made_from(measure):
    row = scope(measure, version=3, frozen=True)
    values = scope_values(row)
    assert scope_row(values) == row
    assert scope_row(values) == row
    assert values[1] == standard(row.terms.to_dict())
    assert Terms.from_text(values[1]) == row.terms


def test_a_charged_row_has_the_values_of_its_scope():
    """Whatever row of this name was read or written last."""
    old, other = scope(version=1), scope(epsilon=0.5, version=1)
    charged = old._replace(spent=(7,), version=2, counts=(1, 0, 0, 0))
    for known in (old, other, scope(name="b")):
        _rows.remember(scope_values(known), known)
        assert _rows.charged_values(old, charged) == scope_values(charged)
    _rows._scopes_known.clear()
    assert _rows.charged_values(old, charged) == scope_values(charged)


def test_texts_and_prices_are_those_of_what_is_asked_for():
    """The last ones are remembered: others come between, and equal ones that are other objects."""
    terms = [scope("pure", epsilon=epsilon).terms for epsilon in (1.0, 0.5)]
    events = [LaplaceEvent(noise_multiplier=multiplier) for multiplier in (4.0, 8.0, 4.0)]
    for _ in range(2):
        for event in events:
            assert _rows.event_text(event) == standard(event.to_dict())
        for each, event in (*itertools.product(terms, events), *itertools.product(reversed(terms), events)):
            assert each.costs(event) == _measures._costs(each, event)
        for event, each in itertools.product(events, terms):
            assert each.costs(event) == _measures._costs(each, event)
        for charges in ({"a": (1, 2)}, {"b": (1, 2)}, {"a": (1, 3)}, {}, {"a": (1,), "b": (2,)}):
            expected = {name: list(map(str, amounts)) for name, amounts in charges.items()}
            assert _rows.charges_text(charges) == standard(expected)


def test_a_row_that_differs_in_one_field_is_read_again():
    values = scope_values(scope())
    scope_row(values)
    for other in (
        scope(epsilon=0.9),
        scope(caps=(1,)),
        scope(spent=(1,)),
        scope(frozen=True),
        scope(version=1),
        scope(name="b"),
        scope("pure"),
    ):
        assert scope_row(scope_values(other)) == other
        assert scope_row(values) == scope()


@pytest.mark.parametrize("text", ["", "[", "[]", "null", '{"measure":"zcdp"}', 7, None])
def test_what_is_wrong_is_wrong_every_time(text):
    name, _, *rest = scope_values(scope())
    for _ in range(3):
        with pytest.raises(LedgerError, match="no version of this program"):
            Terms.from_text(text)
        with pytest.raises(LedgerError, match="no version of this program"):
            scope_row((name, text, *rest))


def test_terms_are_equal_if_their_texts_are():
    one, same, other = (scope(epsilon=epsilon).terms for epsilon in (1.0, 1.0, 0.5))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != one.text


def test_a_fingerprint_is_that_of_the_request():
    """It is kept in ledgers, so it may never change."""
    found = _rules._fingerprint(("a", "b"), LaplaceEvent(noise_multiplier=4.0), 2, None)
    assert found == "94bdd86ef8102535b68f8b3a93e5422cb44ac95bda05a22592fc8451e53feb00"
