"""A scope made around others that were charged counts what they counted, and is given back what they are."""

import contextlib
import json
from fractions import Fraction

import pytest

from ferrodp.accounting import (
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
)
from ferrodp.budget import PrivacyLedger, _measures
from ferrodp.budget import records as _records
from ferrodp.budget._charging import nesting as _nesting
from ferrodp.budget.log.replay import Replay
from ferrodp.budget.records import Head
from ferrodp.errors import BudgetExceeded, InvalidParameter, LedgerError

TENTH = LaplaceEvent(noise_multiplier=10.0)
NOISE = GaussianEvent(noise_multiplier=10.0)
STEP = PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=3.0))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture(params=["file", "url"], ids=["sqlite", "postgresql"])
def ledger(request):
    with PrivacyLedger.open(request.getfixturevalue(request.param)) as ledger:
        yield ledger
        ledger.verify()


def spent(ledger, name):
    with ledger._access.reading() as transaction:
        return transaction.scope(name).spent


def test_a_scope_made_around_others_begins_with_their_charges(ledger):
    ledger.create("a/b", epsilon=5.0, delta=0.0, measure="pure")
    for _ in range(50):
        ledger.spend("a/b", TENTH)
    with pytest.raises(InvalidParameter, match=r"epsilon 5\.0 at delta 0\.0, got 4\.9 and 0\.0"):
        ledger.create("a", epsilon=4.9, delta=0.0, measure="pure")
    assert ledger.scopes == ("a/b",)

    ledger.create("a", epsilon=6.0, delta=0.0, measure="pure")
    assert ledger.report("a").exact_epsilon_charged == 5
    assert ledger.remaining_count("a", TENTH) == 10
    ledger.create("a/c", epsilon=5.0, delta=0.0, measure="pure")
    assert ledger.remaining_count("a/c", TENTH) == 10
    with pytest.raises(BudgetExceeded, match="scope 'a'"):
        ledger.reserve("a/c", LaplaceEvent(noise_multiplier=0.9))


@pytest.mark.parametrize(
    ("measure", "event"), [("pure", TENTH), ("zcdp", NOISE), ("gdp", NOISE), ("rdp", NOISE), ("rdp", STEP)]
)
def test_a_scope_made_late_has_the_sums_of_one_made_early(ledger, measure, event):
    """To the unit, in each measure; also through a scope in between, and a sibling."""
    delta = 0.0 if measure == "pure" else 1e-6
    for top in ("early", "late"):
        if top == "early":
            ledger.create(top, epsilon=8.0, delta=delta, measure=measure)
        for name in (f"{top}/x", f"{top}/y/z"):
            ledger.create(name, epsilon=4.0, delta=delta, measure=measure)
            for _ in range(3):
                ledger.spend(name, event)
        if top == "late":
            ledger.create(f"{top}/y", epsilon=6.0, delta=delta, measure=measure)
            ledger.create(top, epsilon=8.0, delta=delta, measure=measure)
            assert spent(ledger, "late/y") == spent(ledger, "late/y/z")[: len(spent(ledger, "late/y"))]

    with ledger._access.reading() as transaction:
        early, late = (transaction.scope(name) for name in ("early", "late"))
    at_orders = dict(zip(early.terms.orders or (1, 2), early.spent, strict=False))
    assert set(late.terms.orders) <= set(early.terms.orders)
    assert late.spent == tuple(at_orders[order] for order in late.terms.orders or (1, 2)[: len(late.spent)])


def test_what_is_given_back_inside_is_given_back_around(ledger):
    ledger.create("a/b", epsilon=5.0, delta=0.0, measure="pure")
    ledger.create("a/c", epsilon=5.0, delta=0.0, measure="pure")
    held = ledger.reserve("a/b", TENTH)
    both = ledger.reserve(["a/b", "a/c"], TENTH)
    lease = ledger.lease("a/c", TENTH, count=10)
    lease.draw()
    used_up = ledger.lease("a/c", EpsilonDeltaEvent(epsilon=0.0), count=1)
    used_up.draw()
    ledger.create("a", epsilon=5.0, delta=0.0, measure="pure")
    assert ledger.report("a").exact_epsilon_charged == Fraction(13, 10)  # `both` counts in each of the two

    held.cancel()
    lease.close()
    used_up.close()
    assert ledger.report("a").exact_epsilon_charged == Fraction(3, 10)
    both.cancel()
    assert ledger.report("a").exact_epsilon_charged == Fraction(1, 10)
    assert ledger.verify()


def test_scopes_in_one_transaction_see_each_other(ledger):
    """Many threads ride in one commit, so a scope may be made around one that is not in the table yet."""
    from ferrodp.budget._charging import rules as _rules

    terms = _measures.checked_terms(
        measure="pure", epsilon=5.0, delta=0.0, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    with ledger._access.store.writing() as transaction:
        _rules.create(transaction, "a/b", terms)
        _rules.spend(transaction, ("a/b",), TENTH, key=None)
        _rules.create(transaction, "a", terms)
        assert transaction.scope("a").spent == transaction.scope("a/b").spent != (0, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "gdp", "delta": 1e-6}, "measure must be 'rdp' for"),
        ({"measure": "rdp", "delta": 1e-6, "orders": [1.5, 7.75]}, "measure must be 'rdp' at orders that it keeps"),
        (
            {"measure": "rdp", "delta": 1e-6, "neighboring_relation": NeighboringRelation.REPLACE_ONE},
            "neighboring_relation must be ADD_OR_REMOVE_ONE",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_with_a_way_out(ledger, settings, message):
    ledger.create("a/b", epsilon=4.0, delta=1e-6)
    ledger.spend("a/b", STEP)
    head = ledger.head
    with pytest.raises(InvalidParameter, match=message):
        ledger.create("a", epsilon=8.0, **settings)
    assert ledger.head == head


def test_nothing_charged_is_nothing_to_count(ledger):
    """In another measure, too; a ticket that cost nothing is given back as nothing."""
    ledger.create("a/b", epsilon=1.0, delta=0.0, measure="pure")
    free = ledger.reserve("a/b", EpsilonDeltaEvent(epsilon=0.0))
    ledger.create("a", epsilon=4.0, delta=1e-6, measure="gdp")
    free.cancel()
    assert spent(ledger, "a") == (0,)


def test_only_names_within_count(ledger):
    for name in ("a.b", "a-b", "ab/c", "a0", "a/b"):
        ledger.create(name, epsilon=1.0, delta=1e-6, measure="zcdp")
        ledger.spend(name, NOISE)
    ledger.create("a", epsilon=4.0, delta=1e-6, measure="zcdp")
    assert spent(ledger, "a") == spent(ledger, "a/b")
    assert _nesting.outermost(["a/b/c", "a/b", "a/b-x", "a/bc", "a/d/e"]) == ["a/b", "a/b-x", "a/bc", "a/d/e"]


def replayed(start, bodies):
    replay, digest = Replay(Head(0, start)), start
    for body in bodies:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        digest = _records.chained(digest, text)
        replay.read([(body["sequence"], text, digest)])
    return replay


def test_a_log_that_takes_over_something_else_is_refused(ledger):
    ledger.create("a/b", epsilon=5.0, delta=0.0, measure="pure")
    ledger.spend("a/b", TENTH)
    ledger.create("a", epsilon=5.0, delta=0.0, measure="pure")
    bodies, start = ledger.history(), "1" * 64
    replayed(start, bodies)

    carried = bodies[2].pop("carried")
    with pytest.raises(LedgerError, match="does not count them"):
        replayed(start, bodies)
    for wrong in (["0", "0"], [str(int(carried[0]) - 1), "0"], [str(int(carried[0]) + 1), "0"]):
        bodies[2]["carried"] = wrong
        with pytest.raises(LedgerError, match="takes over other sums"):
            replayed(start, bodies)
    bodies[2] |= {"carried": carried, "caps": [str(int(carried[0]) - 1), "0"]}
    with pytest.raises(LedgerError, match="overspent"):
        replayed(start, bodies)
    with contextlib.suppress(KeyError):
        del bodies[0]["scope"]
    with pytest.raises(LedgerError, match="not what this version writes"):
        replayed(start, bodies)


def test_a_ledger_of_the_first_version_counts_from_its_import_on(tmp_path):
    """There a scope made around others began at nothing, and its tickets could be armed in a frozen scope around."""
    with PrivacyLedger.open(tmp_path / "old.db") as old:
        old.create("a/b", epsilon=5.0, delta=0.0, measure="pure")
        for _ in range(20):
            old.spend("a/b", TENTH)
        held = old.reserve("a/b", TENTH)
        old.create("a", epsilon=3.0, delta=0.0, measure="pure")
        old.spend("a/b", LaplaceEvent(noise_multiplier=2.0))
        old.freeze("a", reason="incident")
        old.thaw("a", reason="over")
        old.reserve("a/b", TENTH)
        bodies = list(old.history())
    create = next(body for body in bodies if body["kind"] == "create" and body["scope"] == "a")
    del create["carried"]
    create["terms"]["epsilon"], create["caps"] = 2.0, [str(2 * _measures.UNITS["pure"]), "0"]
    arm = {"kind": "arm", "ticket": held.id, "sequence": 0, "time": "then"}
    bodies.insert(1 + next(i for i, body in enumerate(bodies) if body["kind"] == "freeze"), arm)
    for sequence, body in enumerate(bodies, 1):
        body["sequence"] = sequence

    replay = replayed(_records.OLD_START, bodies)
    assert replay._scopes["a"].spent[0] * 10 == 27 * _measures.UNITS["pure"]  # more than its cap of 2
    later = {"kind": "import", "reason": "moved", "sequence": len(bodies) + 1, "time": "now"}
    reserve = bodies[-1] | {"sequence": len(bodies) + 2, "ticket": "new", "charges": bodies[-1]["charges"]}
    with pytest.raises(LedgerError, match="overspends scope 'a'"):
        replayed(_records.OLD_START, [*bodies, later, reserve])
    with pytest.raises(LedgerError, match="does not count them"):
        replayed("1" * 64, bodies)
