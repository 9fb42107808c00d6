"""A freeze stops every release that has not begun: held, composed, leased, or a run of many answers."""

import subprocess
import sys
import time

import pytest

import ferrodp as fd
from ferrodp.accounting import ComposedEvent, LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget._charging import freezes as _freezes
from ferrodp.errors import BudgetExceeded, LedgerError
from ferrodp.tickets import TicketState

TENTH = LaplaceEvent(noise_multiplier=10.0)
MECHANISM = fd.LaplaceMechanism(scale=10.0, l1_sensitivity=1.0)


@pytest.fixture
def path(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("hospital/images", epsilon=10.0, delta=0.0, measure="pure")
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    with PrivacyLedger.open(path) as ledger:
        yield ledger


@pytest.fixture
def other(path):
    with PrivacyLedger.open(path) as other:
        yield other


def begun_ways(ledger):
    """Every way to go on with what was paid for, begun."""
    two = ledger.reserve("hospital/images", ComposedEvent(events=(TENTH, TENTH)))
    MECHANISM.release(0.0, ticket=two)
    lease = ledger.lease("hospital/images", TENTH, count=10)
    drawn = lease.draw()
    permitted = lease.draw().permit(TENTH)
    answers = fd.SparseVector(
        threshold=1e9,
        sensitivity=1.0,
        epsilon=0.5,
        ticket=ledger.reserve("hospital/images", fd.accounting.EpsilonDeltaEvent(epsilon=0.5)),
    )
    held = ledger.reserve("hospital/images", TENTH)
    return [
        lambda: MECHANISM.release(0.0, ticket=two),
        lambda: lease.draw(),
        lambda: next(iter(lease)),
        lambda: MECHANISM.release(0.0, ticket=drawn),
        lambda: fd._native.release_scalar(0.0, "laplace", 1.0, None, permitted),
        lambda: answers.query(0.0),
        lambda: held.arm(),
    ]


@pytest.mark.parametrize("name", ["hospital/images", "hospital"])
def test_nothing_that_was_paid_for_begins_after_a_freeze_and_everything_goes_on_after_a_thaw(ledger, other, name):
    """Also where the scope around was made, and frozen, after the charges."""
    ways = begun_ways(ledger)
    if name not in other.scopes:
        other.create(name, epsilon=100.0, delta=0.0, measure="pure")
    other.freeze(name, reason="incident")

    for way in ways:
        with pytest.raises(BudgetExceeded, match=f"'{name}' is frozen"):
            way()

    other.thaw(name, reason="resolved")
    ways.pop(4)  # a permit that was refused stays refused
    for way in ways:
        way()
    other.verify()


def test_a_ticket_refused_for_a_freeze_is_held_as_the_ledger_says(ledger):
    left = ledger.remaining_count("hospital/images", TENTH)
    ticket = ledger.reserve("hospital/images", TENTH)
    ledger.freeze("hospital/images", reason="incident")

    with ticket:
        with pytest.raises(BudgetExceeded, match="frozen"):
            ticket.arm()
        assert ticket.state is TicketState.HELD
    assert ticket.state is TicketState.CANCELLED
    ledger.thaw("hospital/images", reason="resolved")
    assert ledger.remaining_count("hospital/images", TENTH) == left


def test_a_freeze_by_another_process_counts_after_the_promised_time(ledger, path):
    lease = ledger.lease("hospital/images", TENTH, count=10)
    drawn = [lease.draw(), lease.draw()]
    freeze = [sys.executable, "-m", "ferrodp", "ledger", "freeze", str(path), "--scope", "hospital/images"]
    subprocess.run([*freeze, "--reason", "incident"], check=True, capture_output=True)
    time.sleep(_freezes.FRESHNESS)

    for way in (lease.draw, drawn[0].arm, lambda: drawn[1].permit(TENTH) and drawn[1].arm()):
        with pytest.raises(BudgetExceeded, match="frozen"):
            way()


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_freezes, "time", clock)
    return clock


def test_a_look_counts_for_the_promised_time_and_no_longer(ledger, clock, monkeypatch):
    lease = ledger.lease("hospital/images", TENTH, count=10)
    lease.draw()
    monkeypatch.setattr(_freezes, "invalidate", lambda: None)  # as if the freeze came from another process
    ledger.freeze("hospital/images", reason="incident")

    clock.now = _freezes.FRESHNESS * 0.99
    lease.draw()
    clock.now = _freezes.FRESHNESS
    with pytest.raises(BudgetExceeded):
        lease.draw()
    with pytest.raises(BudgetExceeded):  # a refusal is not remembered as anything else
        lease.draw()
    assert lease.remaining == 8


def test_a_look_counts_from_its_beginning(clock):
    """What happened while it was under way it may have missed, however long it took."""
    looks = []

    def look():
        looks.append(clock.now)
        clock.now += 10 * _freezes.FRESHNESS

    sight = _freezes.FreezeCheck(look)
    sight.check()
    sight.check()
    assert len(looks) == 2


def test_a_change_during_a_look_calls_for_another(clock):
    looks = []

    def look():
        looks.append(clock.now)
        if len(looks) == 1:
            _freezes.invalidate()

    sight = _freezes.FreezeCheck(look)
    sight.check()
    sight.check()
    sight.check()
    assert len(looks) == 2


def test_drawing_from_a_lease_seldom_looks(ledger, clock, monkeypatch):
    reads = []
    monkeypatch.setattr(ledger._freezes, "_look", reads.append)
    ledger._freezes._known.clear()
    lease = ledger.lease("hospital/images", LaplaceEvent(noise_multiplier=1000.0), count=1000)
    for ticket in lease:
        ticket.arm()
    assert reads == [("hospital/images",)]


def test_where_nobody_can_look_nothing_begins(path):
    ledger = PrivacyLedger.open(path)
    lease = ledger.lease("hospital/images", TENTH, count=10)
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        lease.draw()
    assert lease.remaining == 10
