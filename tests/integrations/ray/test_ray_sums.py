"""Clipped sums on a real Ray cluster of two processes: the integers of one process, whatever happens to them."""

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import ray
from ray import cloudpickle

import ferrodp as fd
from ferrodp.distributed import tree
from ferrodp.integrations.ray import clipped_sum

SIZE, UPDATES, PARTS = 100_000, 64, 16


def update(number):
    return np.random.default_rng(number).standard_normal(SIZE, dtype=np.float32)


def load(part):
    return (np.random.default_rng(number).standard_normal(SIZE, dtype=np.float32) for number in range(part, 64, 16))


def load_slowly(part):
    for number in range(part, 64, 16):
        time.sleep(0.05)
        yield np.random.default_rng(number).standard_normal(SIZE, dtype=np.float32)


@pytest.fixture(scope="module")
def whole():
    total = fd.ClippedSum((SIZE,), clip_norm=1.0, dtype=np.float32)
    for number in range(UPDATES):
        total.add(update(number))
    return total.state()


@pytest.fixture(scope="module", autouse=True)
def cluster():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a file of tests
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=300_000_000,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()


def summed(parts=range(PARTS), **options):
    options = {"load": load, "expected_count": UPDATES} | options
    return clipped_sum(parts, (SIZE,), clip_norm=1.0, dtype=np.float32, **options)


def test_the_integers_are_those_of_one_process(whole):
    assert summed().state() == whole


def test_references_to_objects_are_partitions(whole):
    references = [ray.put(list(load(part))) for part in range(PARTS)]

    assert summed(references, load=None).state() == whole
    with pytest.raises(fd.errors.InvalidParameter, match="given twice"):
        summed([references[0], references[0]], load=None)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(whole):
    killed = []

    def kill():
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"]
            if command and command[0].startswith("ray::_summed"):
                os.kill(process.pid, signal.SIGKILL)
                killed.append(process.pid)
                return

    timers = [threading.Timer(0.3 * i, lambda: None if killed else kill()) for i in range(1, 20)]
    for timer in timers:
        timer.start()
    total = summed(load=load_slowly, retries=5)
    for timer in timers:
        timer.cancel()

    assert killed
    assert total.state() == whole


def test_duplicates_of_a_task_return_the_same_bytes(whole):
    _, leaf = tree.start((SIZE,), clip_norm=1.0, stability=None, dtype=np.float32, load=load, stacked=False)
    run = ray.remote(lambda part: leaf(part))
    copies = [ray.get([run.remote(part) for part in range(PARTS)]) for _ in range(2)]

    assert copies[0] == copies[1]
    assert fd.ClippedSum.from_state(tree.join(*copies[0])).state() == whole


def test_an_error_of_the_loader_is_raised_here():
    def broken(part):
        raise RuntimeError("no such shard")

    with pytest.raises(RuntimeError, match="no such shard"):
        summed(load=broken)


def status(name):
    """Return a line of this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def load_large(part):
    return (np.full(4_000_000, part + 1, np.float32) for _ in range(2))


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no resettable peak of memory")
def test_the_driver_holds_at_most_three_accumulators():
    """The accumulator and the state that it receives, of 16; what Ray keeps in shared memory is the cluster's."""
    size = 4_000_000

    def once():
        return clipped_sum(range(16), (size,), clip_norm=1.0, dtype=np.float32, load=load_large)

    once()  # imports and buffers
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, shared = status("VmRSS"), status("RssShmem")
    total = once()
    peak = status("VmHWM") - before - (status("RssShmem") - shared)

    assert total.count == 32
    assert peak <= 3 * 8 * size, f"{peak / (8 * size):.2f} accumulators"


def test_another_count_than_expected_is_refused():
    with pytest.raises(fd.errors.FerroError, match="another number"):
        summed(expected_count=UPDATES - 1)


def test_one_release_pays_with_one_ticket_whatever_was_run_again(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=10.0, delta=1e-6)
        ticket = ledger.reserve("cohort", fd.events.GaussianEvent(noise_multiplier=2.0))
        total = summed()
        total.release(noise_multiplier=2.0, ticket=ticket)
        with pytest.raises(fd.errors.FerroError):
            total.release(noise_multiplier=2.0, ticket=ticket)

        assert ledger.report("cohort").armed + ledger.report("cohort").spent == 1
