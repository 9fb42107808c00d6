"""What must not serve twice knows that it was inherited, however the child was made and whatever its process id is."""

import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import _native
from ferrodp._base import _fork
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig
from support.forked import MAKERS, answer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
every_fork = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def begun_run() -> fd.SparseVector:
    run = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=100)
    run.query(0.0)
    return run


def sum_of_one() -> fd.ClippedSum:
    total = fd.ClippedSum((3,), clip_norm=1.0)
    total.add(np.array([1.0, 0.0, 0.0]))
    return total


def releases(total: fd.ClippedSum) -> str:
    return str(total.release(noise_multiplier=1.0).shape)


@every_fork
def test_no_descendant_has_a_generation_of_an_ancestor(make):
    mine = _fork.generation()

    family = answer(make, lambda: f"{_fork.generation()} {answer(make, _fork.generation)}")

    assert len({mine, *map(int, family.split())}) == 3
    assert mine == _fork.generation()


@every_fork
def test_process_ids_decide_nothing(make, monkeypatch):
    """A reused process id, or process 1 of another pid namespace: the child is the parent, as far as ids go."""
    run, total = begun_run(), sum_of_one()
    monkeypatch.setattr(os, "getpid", lambda: 1)

    assert answer(make, lambda: run.query(0.0)).startswith("FerroError: a sparse vector run cannot go on in a forked")
    assert answer(make, lambda: releases(total)).startswith("FerroError: a sum cannot be released in a forked child")
    assert run.query(0.0) in (True, False)
    assert releases(total) == "(3,)"


@every_fork
def test_no_part_of_a_budget_goes_to_a_child_with_the_same_process_id(make, monkeypatch, tmp_path):
    """Tickets, leases and counters are inherited with all they hold, and would be spent twice."""
    event = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0).event
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("ages", epsilon=9.0, delta=0.0, measure="pure")
        ticket, lease = ledger.reserve("ages", event), ledger.lease("ages", event, count=2)
        drawn, engine = lease.draw(), DifferentialPrivacyEngine(DPConfig(sampling_rate=1.0, target_epsilon=100.0))
        monkeypatch.setattr(os, "getpid", lambda: 1)

        for use in (ticket.arm, ticket.close, lease.draw, lease.close, drawn.arm, lambda: engine.remaining_rounds):
            assert re.match("TicketError: .*forked", answer(make, use))
        for use in (lambda: ledger.reserve("ages", event), lambda: ledger.lease("ages", event, count=1)):
            assert re.match("LedgerError: .*parent of this process", answer(make, use))
        assert answer(make, lambda: list(lease)) == "[]"
        ticket.arm()
        drawn.arm()
        assert lease.remaining == 1


def test_no_lock_of_a_thread_that_was_left_behind_holds_a_child_up(tmp_path):
    event = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0).event
    engine = DifferentialPrivacyEngine(DPConfig(sampling_rate=1.0, target_epsilon=100.0))
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("ages", epsilon=9.0, delta=0.0, measure="pure")
        ticket, lease, run = ledger.reserve("ages", event), ledger.lease("ages", event, count=2), begun_run()

        with ticket._lock, lease._lock, engine._counter._lock, run._run.lock:  # as if by other threads
            for use in (lambda: ticket.pays_for(event), ticket.arm, ticket.close, lease.draw, lease.close):
                assert re.match("TicketError: .*forked", answer(os.fork, use))
            assert re.match("FerroError: .*forked", answer(os.fork, lambda: run.query(0.0)))
            assert answer(os.fork, lambda: engine.budget.rounds_consumed) == "0"


@every_fork
def test_what_a_child_makes_is_its_own(make):
    assert answer(make, lambda: begun_run().query(0.0)) in ("True", "False")
    assert answer(make, lambda: releases(sum_of_one())) == "(3,)"


@every_fork
def test_a_child_can_be_handed_a_sum_on_purpose(make):
    """What `state` says: the caller sees to it that only one of them is released."""
    total = sum_of_one()

    assert answer(make, lambda: releases(fd.ClippedSum.from_state(total.state()))) == "(3,)"
    assert answer(make, lambda: (total.add(np.ones(3)), total.count)[1]) == "2"
    assert total.count == 1


@every_fork
def test_an_armed_permit_draws_nothing_in_a_child(make):
    permit = _native.Permit(lambda: None)
    _native.random_bytes(1, permit)

    assert answer(make, lambda: _native.random_bytes(1, permit)).startswith("TicketError: this release belongs to")
    assert len(_native.random_bytes(1, permit)) == 1


def test_a_sum_that_was_in_use_at_the_fork_is_refused_and_blocks_nobody():
    """The thread that adds is not in the child, where its lock would stay closed for ever."""
    total = fd.ClippedSum((2**21,), clip_norm=1.0)
    row = np.ones(2**21)
    stop = threading.Event()
    in_use = "FerroError: this sum was in use by another thread when the process was forked; start a new one"

    def add_for_ever() -> None:
        while not stop.is_set():
            total.add(row, threads=1)

    thread = threading.Thread(target=add_for_ever)
    thread.start()
    try:
        told: set[str] = set()
        for _ in range(200):
            told.add(answer(os.fork, lambda: total.count > 0))
            if in_use in told:
                break
    finally:
        stop.set()
        thread.join()

    assert told <= {"True", "False", in_use}
    assert in_use in told


IN_A_NAMESPACE = """
import ctypes, os, sys
sys.path[:] = {path!r}
import test_forked_processes as tests
from support.forked import answer
assert os.getpid() == 1
run, total = tests.begun_run(), tests.sum_of_one()
new_pid_namespace = 0x20000000
assert ctypes.CDLL(None).unshare(new_pid_namespace) == 0
print(answer(os.fork, lambda: (os.getpid(), run.query(0.0))))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may unshare")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_process_one_of_a_namespace_in_a_namespace_is_a_child():
    """Parent and child both are process 1, each in its own namespace."""
    allowed = subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False)
    if allowed.returncode != 0:
        pytest.skip("namespaces are not allowed here")
    script = IN_A_NAMESPACE.format(path=[os.path.dirname(__file__), *sys.path])

    told = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout

    assert told.startswith("FerroError: a sparse vector run cannot go on in a forked child"), told
