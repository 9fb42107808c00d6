"""Tickets as operators see them: listed by state, and given back when nobody will use them."""

import subprocess
import sys
import threading

import pytest

from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType, LedgerError, TicketError

TENTH = EpsilonDeltaEvent(epsilon=0.125)
CRASHES = """
import os, sys
from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger
ledger = PrivacyLedger.open(sys.argv[1])
ledger.reserve("survey", EpsilonDeltaEvent(epsilon=0.125))
os._exit(9)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return str(tmp_path / "budget.db") if request.param == "sqlite" else request.getfixturevalue("url")


@pytest.fixture
def ledger(where):
    with PrivacyLedger.open(where) as opened:
        opened.create("survey", epsilon=1.0, delta=0.0, measure="pure")
        opened.create("other", epsilon=1.0, delta=0.0, measure="pure")
        yield opened


def test_each_ticket_is_listed_with_its_state_and_what_it_paid_for(ledger):
    held = ledger.reserve("survey", TENTH, key="a")
    armed = ledger.reserve(["survey", "other"], TENTH)
    armed.arm()
    spent = ledger.reserve("other", TENTH)
    with spent:
        spent.arm()
    cancelled = ledger.reserve("survey", TENTH, key="b")
    cancelled.cancel()
    lease = ledger.lease("survey", TENTH, count=2)

    found = ledger.tickets()

    assert [each.id for each in found] == [held.id, armed.id, spent.id, cancelled.id, lease.id]
    assert [each.state.value for each in found] == ["held", "armed", "spent", "cancelled", "armed"]
    assert [each.key for each in found] == ["a", None, None, None, None]
    assert found[1].scopes == ("other", "survey")
    assert [(each.count, each.is_lease) for each in found] == [(1, False)] * 4 + [(2, True)]
    assert all(each.event == TENTH and each.record["ticket"] == each.id for each in found)
    assert [each.id for each in ledger.tickets("other")] == [armed.id, spent.id]
    assert [each.id for each in ledger.tickets(states=["held"])] == [held.id]
    assert [each.id for each in ledger.tickets(states="armed", limit=1)] == [armed.id]
    lease.close()


def test_what_is_no_state_or_no_scope_is_refused(ledger):
    with pytest.raises(InvalidParameter, match="states must be one of 'held', 'armed', 'spent', 'cancelled'"):
        ledger.tickets(states=["used"])
    with pytest.raises(InvalidType, match="states"):
        ledger.tickets(states=3)
    with pytest.raises(InvalidParameter, match="does not exist"):
        ledger.tickets("none")


def test_the_ticket_of_a_dead_process_is_given_back_and_the_log_says_why(ledger, where):
    assert subprocess.run([sys.executable, "-c", CRASHES, where], check=False).returncode == 9
    (orphan,) = ledger.tickets(states=["held"])

    ledger.cancel_ticket(orphan.id, reason="its process crashed")

    assert ledger.report("survey").epsilon_charged == 0.0
    last = ledger.history()[-1]
    assert (last["kind"], last["ticket"], last["reason"]) == ("cancel", orphan.id, "its process crashed")
    assert ledger.verify() == ledger.head


def test_who_still_holds_a_cancelled_ticket_is_refused(ledger, where):
    with PrivacyLedger.open(where) as other:
        ticket = other.reserve("survey", TENTH)
        ledger.cancel_ticket(ticket.id, reason="taken for an orphan")

        with pytest.raises(TicketError, match="cancelled"):
            ticket.arm()
    assert ledger.report("survey").epsilon_charged == 0.0


def test_what_was_armed_cannot_be_given_back(ledger):
    ticket = ledger.reserve("survey", TENTH)
    ticket.arm()

    with pytest.raises(TicketError, match="only a held one can be cancelled"):
        ledger.cancel_ticket(ticket.id, reason="hope")
    with pytest.raises(LedgerError, match="is not in this ledger"):
        ledger.cancel_ticket("0" * 32, reason="typing error")
    with pytest.raises(InvalidParameter, match="reason"):
        ledger.cancel_ticket(ticket.id, reason="")
    assert ledger.report("survey").epsilon_charged == 0.125


def test_arming_and_cancelling_at_once_give_one_winner(ledger, where):
    """100 races: a ticket is drawn for or given back, never both, and the sums say which."""
    armed = 0
    ledger.raise_cap("survey", epsilon=1000.0, reason="room")
    with PrivacyLedger.open(where) as other:
        for _ in range(100):
            ticket = other.reserve("survey", TENTH)
            outcome = []

            def cancel(ticket=ticket, outcome=outcome):
                try:
                    ledger.cancel_ticket(ticket.id, reason="race")
                except TicketError:
                    outcome.append("refused")

            thread = threading.Thread(target=cancel)
            thread.start()
            try:
                ticket.arm()
                drawn = True
            except (TicketError, BudgetExceeded):
                drawn = False
            thread.join()
            armed += drawn
            assert drawn == bool(outcome)

    assert ledger.report("survey").epsilon_charged == armed * 0.125
    assert ledger.verify() == ledger.head
