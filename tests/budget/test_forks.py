"""Forks, threads and interpreters around one handle: children are refused, parents never notice."""

import copy
import multiprocessing
import pickle
import subprocess
import sys
import threading

import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, _crash_points
from ferrodp.errors import BudgetExceeded, LedgerError, TicketError
from support import children

EVENT = LaplaceEvent(noise_multiplier=1024.0)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


@pytest.fixture
def ledger(path):
    with PrivacyLedger.open(path) as opened:
        opened.create("all", epsilon=4.0, delta=0.0, measure="pure")
        yield opened


def refusals(ledger, ticket, lease):
    """Use everything that a parent opened; each has to say whose it is."""
    for use, error in [
        (ledger.verify, LedgerError),
        (lambda: ledger.reserve("all", EVENT), LedgerError),
        (lambda: ledger.remaining_count("all", EVENT), LedgerError),
        (lambda: ledger.freeze("all", reason="no"), LedgerError),
        (lambda: ledger.head, LedgerError),
        (ticket.arm, TicketError),
        (ticket.cancel, TicketError),
        (ticket.close, TicketError),
        (lease.draw, TicketError),
        (lease.close, TicketError),
    ]:
        with pytest.raises(error, match="parent of this"):
            use()
    ledger.close()  # the end of a with block: nothing happens


def test_a_forked_child_is_refused_and_the_parent_goes_on(ledger, path):
    ticket, lease = ledger.reserve("all", EVENT), ledger.lease("all", EVENT, count=5)
    before = ledger.head

    assert children.run(refusals, ledger, ticket, lease) == 0

    assert ledger.head == before
    ticket.arm()
    lease.draw().arm()
    lease.close()
    assert ledger.remaining_count("all", EVENT) == 4096 - 2
    with PrivacyLedger.open(path) as again:
        assert again.verify() == ledger.verify()


def spend_as_someone_else(path, count):
    with PrivacyLedger.open(path) as ledger:
        for _ in range(count):
            ledger.spend("all", EVENT)


def test_a_child_opens_its_own(ledger, path):
    assert children.run(spend_as_someone_else, path, 3) == 0

    ledger.spend("all", EVENT)
    assert ledger.remaining_count("all", EVENT) == 4096 - 4


def test_another_interpreter_opens_its_own(ledger, path):
    with pytest.raises(TypeError):
        multiprocessing.get_context("spawn").Process(target=print, args=(ledger,)).start()

    process = multiprocessing.get_context("spawn").Process(target=spend_as_someone_else, args=(path, 3))
    process.start()
    process.join()

    assert process.exitcode == 0
    assert ledger.remaining_count("all", EVENT) == 4096 - 3


@pytest.mark.parametrize("leave", ["return", "exit", "vanish", "open"])
def test_a_fork_in_the_middle_of_a_transaction_leaves_it_to_the_parent(tmp_path, leave):
    """A handler of signals may fork at any time; the child must neither commit nor roll back what is not its own."""
    program = """
import os, subprocess, sys
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, _crash_points
from ferrodp.errors import LedgerError
path, leave = sys.argv[1:]
EVENT = LaplaceEvent(noise_multiplier=1024.0)
ledger = PrivacyLedger.open(path)
ledger.create("all", epsilon=4.0, delta=0.0, measure="pure")
parent = os.getpid()
def observer(name):
    if name != "before the commit" or os.getpid() != parent:
        return
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        other = "import sys; from ferrodp._native import SqliteConnection as Connection; "
        other += "Connection(sys.argv[1], create=False).execute_slowly('BEGIN IMMEDIATE', seconds=0.1)"
        run = subprocess.run([sys.executable, "-c", other, path], stderr=subprocess.PIPE, text=True)
        assert "SQLITE_BUSY" in run.stderr  # the child did not end the lock, either
    elif leave == "exit":
        sys.exit(7)
    elif leave == "vanish":
        os._exit(7)
    elif leave == "open":  # its locks would be the parent's
        try:
            PrivacyLedger.open(path)
        except LedgerError as error:
            assert "when this process was forked" in str(error), error
_crash_points.observer = observer
try:
    for _ in range(3):
        ledger.reserve("all", EVENT)
except LedgerError as error:
    assert os.getpid() != parent and "parent of this process" in str(error), error
    sys.exit(7)
assert os.getpid() == parent
_crash_points.observer = lambda _: None
assert ledger.remaining_count("all", EVENT) == 4096 - 3
ledger.verify()
ledger.close()
with PrivacyLedger.open(path) as again:
    assert again.remaining_count("all", EVENT) == 4096 - 3
"""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "budget.db"), leave]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_children_of_a_busy_parent_open_their_own(tmp_path):
    """16 threads reserve while the process forks: no child inherits what SQLite believes about locks."""
    program = """
import os, signal, sys, threading
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
path = sys.argv[1]
EVENT = LaplaceEvent(noise_multiplier=1024.0)
ledger = PrivacyLedger.open(path)
ledger.create("all", epsilon=1000.0, delta=0.0, measure="pure")
got, stop = [], threading.Event()
def work():
    while not stop.is_set():
        got.append(ledger.reserve("all", EVENT).id)
threads = [threading.Thread(target=work, daemon=True) for _ in range(16)]
for thread in threads:
    thread.start()
for _ in range(6):
    child = os.fork()
    if not child:
        signal.alarm(50)
        code = 1
        try:
            with PrivacyLedger.open(path, verify=False) as own:
                own.spend("all", EVENT)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
for thread in threads:
    thread.join()
assert ledger.remaining_count("all", EVENT) == 1000 * 1024 - len(got) - 6
found = {body["ticket"] for body in ledger.history() if body["kind"] == "reserve"}
assert set(got) <= found and len(found) == len(got) + 6
ledger.verify()
"""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "budget.db")]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)

    assert (done.returncode, done.stderr) == (0, "")


def test_sixteen_threads_get_exactly_what_there_is(ledger):
    got, refused = [], []

    def work():
        for _ in range(1000):
            try:
                got.append(ledger.reserve("all", EVENT).id)
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(set(got)), len(got), len(refused)) == (4096, 4096, 16_000 - 4096)
    ledger.verify()


def test_threads_draw_from_a_lease_exactly_what_was_leased(ledger):
    drawn = []
    with ledger.lease("all", EVENT, count=4000) as lease:
        threads = [threading.Thread(target=lambda: drawn.extend(lease)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(drawn) == 4000
    assert ledger.remaining_count("all", EVENT) == 96


def test_nothing_works_after_close(ledger):
    ticket, lease = ledger.reserve("all", EVENT), ledger.lease("all", EVENT, count=5)
    ledger.close()
    ledger.close()

    for use in (ledger.verify, lambda: ledger.reserve("all", EVENT), ticket.arm, lease.close, lambda: ledger.head):
        with pytest.raises(LedgerError, match="closed"):
            use()


def test_closing_waits_for_a_spend_under_way(ledger, path):
    reached, go = threading.Event(), threading.Event()

    def observer(name):
        if name == "before the commit":
            reached.set()
            go.wait()

    answers = []
    spender = threading.Thread(target=lambda: answers.append(ledger.reserve("all", EVENT).id))
    closer = threading.Thread(target=ledger.close)
    _crash_points.observer = observer
    try:
        spender.start()
        reached.wait()
        closer.start()
        assert not answers
        go.set()
        spender.join()
        closer.join()
    finally:
        _crash_points.observer = _crash_points._nothing

    with PrivacyLedger.open(path) as again:
        assert len(answers) == again.report("all").held == 1


@pytest.mark.parametrize("name", ["ledger", "ticket", "lease"])
def test_nothing_can_be_copied_or_pickled(ledger, name):
    thing = {
        "ledger": lambda: ledger,
        "ticket": lambda: ledger.reserve("all", EVENT),
        "lease": lambda: ledger.lease("all", EVENT, count=2),
    }[name]()

    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(thing)


def test_a_handle_that_is_dropped_leaves_no_lock(path):
    PrivacyLedger.open(path).create("all", epsilon=4.0, delta=0.0, measure="pure")

    with PrivacyLedger.open(path, timeout=1.0) as again:
        again.spend("all", EVENT)
