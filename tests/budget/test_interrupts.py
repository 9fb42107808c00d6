"""Ctrl-C anywhere in a reservation: the next one works at once, nothing is lost, and nothing hangs."""

import contextlib
import dis
import functools
import itertools
import os
import random
import signal
import sys
import threading

import pytest

import ferrodp.budget
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, _crash_points
from ferrodp.errors import LedgerError

EVENT = LaplaceEvent(noise_multiplier=2.0**20)
WHERE = (os.path.dirname(ferrodp.budget.__file__), contextlib.__file__)
PATIENCE = 20.0  # a hang is told from a slow machine by this many seconds


@pytest.fixture
def ledger(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db", timeout=5.0) as opened:
        opened.create("all", epsilon=1.0, delta=0.0, measure="pure")
        yield opened


@functools.cache
def interruptible(code):
    """Return where CPython looks for signals in a function: after calls, when it is entered, and when it loops."""
    checks = ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD")
    return {after.offset for before, after in itertools.pairwise(dis.get_instructions(code)) if before.opname in checks}


def interrupt(work, nth):
    """Run `work`, raising KeyboardInterrupt at the n-th place where a signal could; return whether it got so far."""
    left = nth

    def inside(frame, event, _):
        nonlocal left
        if event == "opcode" and frame.f_lasti in interruptible(frame.f_code):
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return inside

    def entered(frame, _, __):
        if frame.f_code.co_filename.startswith(WHERE):
            frame.f_trace_opcodes = True
            return inside
        return None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def in_time(work):
    """Run `work` in a thread; fail if that hangs."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert answers, "hangs"
    return answers[0]


def held(ledger):
    return 2**20 - ledger.remaining_count("all", EVENT)


def test_a_leading_thread_may_be_interrupted_anywhere(ledger):
    acknowledged = interrupted = 0
    nth = 1
    while interrupt(lambda: ledger.reserve("all", EVENT), nth):
        interrupted += 1
        in_time(lambda: ledger.reserve("all", EVENT))
        acknowledged += 1
        nth += 1 if nth < 60 else 3

    assert interrupted > 100
    assert acknowledged < held(ledger) <= acknowledged + interrupted + 1
    ledger.verify()


@pytest.mark.parametrize("work", ["remaining_count", "arm", "cancel", "lease"])
def test_other_calls_may_be_interrupted_too(ledger, work):
    def call():
        if work == "remaining_count":
            ledger.remaining_count("all", EVENT)
        elif work == "lease":
            with ledger.lease("all", EVENT, count=2) as lease:
                lease.draw()
        else:
            getattr(ticket, work)()

    nth = 1
    while True:
        ticket = in_time(lambda: ledger.reserve("all", EVENT))
        if not interrupt(call, nth):
            break
        nth += 1 if work == "lease" else 7
    assert nth > 7
    ledger.verify()


def test_a_waiting_thread_may_be_interrupted(ledger):
    """It leaves the queue, and the leader does not notice; whether it was charged is unknown to it."""
    reached, go = threading.Event(), threading.Event()
    main = threading.get_ident()

    def observer(name):
        if name == "before the commit" and threading.get_ident() != main:
            reached.set()
            go.wait(PATIENCE)

    ledger.remaining_count("all", EVENT)
    _crash_points.observer = observer
    leader = threading.Thread(target=lambda: ledger.reserve("all", EVENT), daemon=True)
    try:
        for _ in range(3):
            reached.clear()
            go.clear()
            leader = threading.Thread(target=lambda: ledger.reserve("all", EVENT), daemon=True)
            leader.start()
            assert reached.wait(PATIENCE)
            timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                ledger.reserve("all", EVENT)
            go.set()
            leader.join(PATIENCE)
            assert not leader.is_alive()
    finally:
        _crash_points.observer = _crash_points._nothing
        go.set()

    assert held(ledger) == 3
    ledger.verify()


def test_signals_at_random_moments_among_busy_threads(ledger):
    rng = random.Random(7)
    stop, counts, errors = threading.Event(), [0] * 4, []

    def work(index):
        while not stop.is_set():
            try:
                ledger.reserve("all", EVENT)
            except LedgerError as error:  # it was in the batch of the thread that was interrupted
                errors.append(error)
            else:
                counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(4)]
    for thread in threads:
        thread.start()
    mine = interrupted = 0
    try:
        while interrupted < 40:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 2e-2))
                while True:
                    ledger.reserve("all", EVENT)
                    mine += 1
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        stop.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()

    assert mine + sum(counts) <= held(ledger) <= mine + sum(counts) + interrupted + len(errors)
    ledger.verify()


@pytest.fixture(autouse=True)
def alarms_interrupt():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)
