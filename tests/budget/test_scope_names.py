"""Names that look the same are the same, or are refused: no scope escapes the one that it seems to lie in."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp._base import _texts
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, _names
from ferrodp.errors import InvalidParameter

TENTH = LaplaceEvent(noise_multiplier=10.0)
UNSEEN = "\ufe0f\u034f\u3164\u115f\U000e0101\u2800\u00ad\u061c\u1160\u180b\u200b\u200d\u202e\u2060\u2066\ufeff\uffa0"
SLASHES = "\u2215\u2044\u29f8\u2571\u27cb\u2216\u29f5\u1735\u31d3\u2cc6\u3033\u3035\u30ce\u4e3f\uff89\u2f03\u0338\\"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture(params=["file", "url"], ids=["sqlite", "postgresql"])
def ledger(request):
    with PrivacyLedger.open(request.getfixturevalue(request.param)) as ledger:
        ledger.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        yield ledger
        ledger.verify()


@pytest.mark.parametrize("letter", UNSEEN, ids=lambda letter: f"{ord(letter):x}")
def test_what_cannot_be_seen_is_in_no_name(letter):
    for text in (f"hospital{letter}", f"hos{letter}pital", f"{letter}hospital"):
        for check in (_names.scope, _names.key, _names.reason):
            with pytest.raises(InvalidParameter, match="visible"):
                check(text)


@pytest.mark.parametrize("letter", SLASHES, ids=lambda letter: f"{ord(letter):x}")
def test_only_the_slash_looks_like_one(letter):
    with pytest.raises(InvalidParameter, match=r"U\+"):
        _names.scope(f"hospital{letter}images")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("hospital\uff0fimages", "hospital/images"),
        ("\uff48ospital", "hospital"),
        ("e\u0301tude", "\u00e9tude"),
        ("hospital\u00a0two", "hospital two"),
        ("\u3000x".strip(), "x"),
        ("x\u00b2", "x2"),
    ],
)
def test_wide_and_styled_letters_are_the_plain_ones(written, meant):
    assert _names.scope(written) == meant


@pytest.mark.parametrize(
    "name",
    [
        "hospital/images", "Klinik Süd/Röntgen", "研究/ノート", "больница", "मरीज़", "a.b_c-d", "trial #4 (phase 2)",
        "o'brien & co", "β-blocker", "ภาพถ่าย", "年齢3", "e\u0328\u0301",
    ],
)  # fmt: skip
def test_names_in_any_script_are_taken(name):
    assert _names.scope(name) == unicodedata.normalize("NFKC", name)
    assert _names.scope(_names.scope(name)) == _names.scope(name)


@pytest.mark.parametrize(
    "name", ["\u0301a", "a/\u0301b", "1\u0301", "a|b", 'say "a"', "a\tb", "a★", "½", "①½", "a\u1680b"]
)
def test_other_signs_are_refused(name):
    with pytest.raises(InvalidParameter):
        _names.scope(name)


@given(st.text(st.characters(), min_size=1, max_size=12))
def test_a_name_is_refused_or_settled(text):
    """What is taken is in normal form, is taken as it is the next time, and holds nothing outside the categories."""
    try:
        name = _names.scope(text)
    except InvalidParameter:
        return
    assert _names.scope(name) == name == unicodedata.normalize("NFKC", name)
    categories = {unicodedata.category(letter) for letter in name if letter not in _names._SCOPE_PUNCTUATION | {"/"}}
    assert categories <= {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"}


def test_no_single_character_is_blank_or_a_slash_in_a_name():
    """All of Unicode, next to a letter: what is taken is no format, space or symbol, and no default-ignorable."""
    taken = []
    refused = _texts.NO_INK | _names._LIKE_A_SLASH
    known = refused | _names._SLASH_IN_LATIN
    no_characters = {"Cn", "Co", "Cs"}  # most of the numbers; one of each will do
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category in ("Cn", "Co", "Cs"):
            if category not in no_characters:
                continue
            no_characters.discard(category)
        if category == "Lo" and code % 16 and code not in known:  # most are Chinese
            continue
        try:
            name = _names._scope.__wrapped__("scope", f"a{chr(code)}b")
        except InvalidParameter:
            continue
        taken.append(code)
        assert refused.isdisjoint(map(ord, name))
        assert code not in _names._SLASH_IN_LATIN
    kinds = {
        unicodedata.category(character) for code in taken for character in unicodedata.normalize("NFKC", chr(code))
    }
    assert kinds <= {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Zs", "Pd", "Ps", "Pe", "Po", "Pc", "Sm"}
    assert len(taken) > 10_000


def test_a_key_is_one_among_the_reservations_for_the_same_scopes(ledger):
    ledger.create("clinic", epsilon=1.0, delta=0.0, measure="pure")
    names = ["hospital", "clinic", ["hospital", "clinic"]]
    tickets = [ledger.reserve(name, TENTH, key="round-1") for name in names]
    assert len({ticket.id for ticket in tickets}) == 3
    assert all(ticket.is_new for ticket in tickets)
    again = [ledger.reserve(name, TENTH, key="round-1") for name in ("hospital", ["clinic"], ("clinic", "hospital"))]
    assert [ticket.id for ticket in again] == [ticket.id for ticket in tickets]
    tickets[0].cancel()
    assert ledger.reserve("hospital", TENTH, key="round-1").is_new
    assert not ledger.reserve("clinic", TENTH, key="round-1").is_new
    assert ledger.remaining_count("hospital", TENTH) == 8


def test_keys_of_a_batch_are_looked_up_by_their_scopes(ledger):
    ledger.create("clinic", epsilon=1.0, delta=0.0, measure="pure")
    ours = {(name, key): ledger.reserve(name, TENTH, key=key) for name in ("hospital", "clinic") for key in ("x", "y")}
    with ledger._access.reading() as transaction:
        slots = [(f'["{name}"]', key) for name, key in ours]
        transaction.look_up([*slots, ('["clinic"]', "z"), None], [])
        ledger._access.store.execute = None  # nothing has to be asked again
        try:
            assert [transaction.ticket_of(slot).id for slot in slots] == [ticket.id for ticket in ours.values()]
            assert transaction.ticket_of(('["clinic"]', "z")) is None
        finally:
            del ledger._access.store.execute


def test_a_key_is_found_by_its_index(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger, ledger._access.reading():
        from ferrodp.budget.stores import base as _store

        plans = [
            ledger._access.store.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
            for sql, parameters in (
                (_store._SELECT_SLOT, ("a", "b")),
                (f"{_store._SELECT_SLOTS} (?, ?), (?, ?))", ("a", "b", "c", "d")),
            )
        ]
    for plan in plans:
        assert any("tickets_by_key" in row[-1] for row in plan), plan
