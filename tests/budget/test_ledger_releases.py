"""Releases that a ledger pays for: what it knows when the first bit is drawn, and what is left after a crash."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import ComposedEvent, GaussianEvent, NeighboringRelation
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import InvalidParameter, KeyUsed, TicketError
from ferrodp.tickets import TicketState

EVENT = GaussianEvent(noise_multiplier=10.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("study", epsilon=4.0, delta=1e-6)
    return tmp_path / "budget.db"


def sum_of_ones() -> fd.ClippedSum:
    total = fd.ClippedSum((3,), clip_norm=1.0)
    total.add(np.ones(3))
    return total


def charged(ledger: PrivacyLedger) -> tuple[int, int]:
    """Return how many tickets are armed and how many spent: all that was paid for something drawn."""
    report = ledger.report("study")
    assert report.held == 0
    return report.armed, report.spent


def test_a_round_is_reserved_armed_and_finished(path):
    with PrivacyLedger.open(path) as ledger:
        with ledger.reserve("study", EVENT, key="round-1") as ticket:
            sum_of_ones().release(noise_multiplier=10.0, ticket=ticket)
        assert charged(ledger) == (0, 1)
        assert [body["kind"] for body in ledger.history("study")] == ["create", "reserve", "arm", "finish"]


def test_a_release_that_fails_its_checks_costs_nothing(path):
    with PrivacyLedger.open(path) as ledger:
        left = ledger.remaining_count("study", EVENT)
        with pytest.raises(InvalidParameter), ledger.reserve("study", EVENT) as ticket:
            sum_of_ones().release(noise_multiplier=10.0, denominator=-1.0, ticket=ticket)
        with pytest.raises(InvalidParameter), ledger.reserve("study", EVENT) as ticket:
            sum_of_ones().release(noise_multiplier=9.0, ticket=ticket)
        assert ledger.remaining_count("study", EVENT) == left


def test_the_same_key_pays_no_second_time(path):
    with PrivacyLedger.open(path) as ledger:
        ticket, same = (ledger.reserve("study", EVENT, key="round-1") for _ in range(2))
        sum_of_ones().release(noise_multiplier=10.0, ticket=ticket)
        with pytest.raises(TicketError):  # it was held when it was given out, and is not any more
            sum_of_ones().release(noise_multiplier=10.0, ticket=same)
        with pytest.raises(KeyUsed, match="round-1"):
            ledger.reserve("study", EVENT, key="round-1")
        again = ledger.reserve("study", EVENT, key="round-1", again_ok=True)
        assert not again.is_new
        assert again.state is TicketState.ARMED
        with pytest.raises(TicketError):
            sum_of_ones().release(noise_multiplier=10.0, ticket=again)
        assert charged(ledger) == (1, 0)


CRASH = """
import os, sys
import numpy as np
import ferrodp as fd
from ferrodp.budget import PrivacyLedger

ledger = PrivacyLedger.open(sys.argv[1])
ticket = ledger.reserve("study", fd.accounting.GaussianEvent(noise_multiplier=10.0), key="round-1")
fd.GaussianMechanism(noise_multiplier=10.0, l2_sensitivity=1.0).release(np.zeros(3), ticket=ticket)
os._exit(9)  # before anything could be noted or published
"""


def test_after_a_crash_a_release_that_began_is_not_begun_again(path):
    child = subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False, env=os.environ)
    assert child.returncode == 9
    with PrivacyLedger.open(path) as ledger:
        assert charged(ledger) == (1, 0)
        with pytest.raises(KeyUsed):
            ledger.reserve("study", EVENT, key="round-1")


def test_of_threads_with_one_ticket_each_key_draws_once(path):
    drawn = []

    def release(ledger):
        try:
            ticket = ledger.reserve("study", EVENT, key="round-1")
            drawn.append(sum_of_ones().release(noise_multiplier=10.0, ticket=ticket))
        except TicketError:
            drawn.append(None)

    with PrivacyLedger.open(path) as first, PrivacyLedger.open(path) as second:
        threads = [threading.Thread(target=release, args=(ledger,)) for ledger in (first, second) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(each is not None for each in drawn) == 1
        assert charged(first) == (1, 0)


def test_a_frozen_scope_lets_no_held_ticket_draw(path):
    array = np.ones(3)
    with PrivacyLedger.open(path) as ledger:
        ticket = ledger.reserve("study", EVENT)
        ledger.freeze("study", reason="consent withdrawn")
        with pytest.raises(fd.errors.BudgetExceeded):
            fd.GaussianMechanism(noise_multiplier=10.0, l2_sensitivity=1.0).release(array, out=array, ticket=ticket)
    assert array.tolist() == [1.0] * 3


def test_a_lease_pays_for_one_release_a_ticket(path):
    with PrivacyLedger.open(path) as ledger:
        before = ledger.remaining_count("study", EVENT)
        with ledger.lease("study", EVENT, count=3) as lease:
            for ticket in (lease.draw(), lease.draw()):
                sum_of_ones().release(noise_multiplier=10.0, ticket=ticket)
                with pytest.raises(TicketError):
                    sum_of_ones().release(noise_multiplier=10.0, ticket=ticket)
        assert ledger.remaining_count("study", EVENT) == before - 2


def test_statistics_and_sums_under_replacement_are_paid_for(tmp_path):
    relation = NeighboringRelation.REPLACE_ONE
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("study", epsilon=4.0, delta=1e-6, neighboring_relation=relation)
        with ledger.reserve("study", EVENT) as ticket:
            sum_of_ones().release(noise_multiplier=20.0, ticket=ticket)
        parts = fd.private_mean([1.0], bounds=(0.0, 4.0), epsilon=0.1, neighboring_relation=relation).event
        with ledger.reserve("study", ComposedEvent(events=(parts, EVENT))) as ticket:
            fd.private_mean([1.0], bounds=(0.0, 4.0), epsilon=0.1, neighboring_relation=relation, ticket=ticket)
            sum_of_ones().release(noise_multiplier=20.0, ticket=ticket)
        assert charged(ledger) == (0, 2)
