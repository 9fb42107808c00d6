"""Clipped sums on a real Dask cluster of two processes: the integers of one process, whatever happens."""

import gc
import os
import signal
import threading
import time
from pathlib import Path

import dask
import numpy as np
import pytest
from dask.distributed import Client, LocalCluster

import ferrodp as fd
from ferrodp import cli
from ferrodp.distributed import tree
from ferrodp.integrations.dask import clipped_sum

SIZE, UPDATES, PARTS = 100_000, 64, 16


def update(number):
    return np.random.default_rng(number).standard_normal(SIZE, dtype=np.float32)


def load(part):
    return (update(number) for number in range(part, UPDATES, PARTS))


def load_slowly(part):
    for each in load(part):
        time.sleep(0.05)
        yield each


@pytest.fixture(scope="module")
def whole():
    total = fd.ClippedSum((SIZE,), clip_norm=1.0, dtype=np.float32)
    for number in range(UPDATES):
        total.add(update(number))
    return total.state()


@pytest.fixture
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(processes=True, **options) as started:
        yield started


@pytest.fixture
def client(cluster):
    with Client(cluster) as connected:
        yield connected


def summed(client, parts=range(PARTS), **options):
    options = {"load": load, "expected_count": UPDATES} | options
    return clipped_sum(parts, (SIZE,), clip_norm=1.0, dtype=np.float32, client=client, **options)


def test_the_integers_are_those_of_one_process(client, whole):
    assert summed(client).state() == whole


def test_partitions_are_summed_several_to_a_task(cluster, client, whole):
    total = summed(client, range(UPDATES), load=lambda number: [update(number)])
    keys = {str(transition.key) for transition in cluster.scheduler.transition_log}

    assert total.state() == whole
    assert sum(key.startswith("ferrodp-sum-0-") for key in keys) == 2 * tree.LEAVES_PER_WORKER


def test_two_calls_do_not_share_results(client, whole):
    assert summed(client).state() == summed(client).state() == whole


def test_delayed_objects_and_futures_are_partitions(client, whole):
    delayed = [dask.delayed(lambda part: list(load(part)))(part) for part in range(PARTS - 2)]
    futures = client.map(lambda part: list(load(part)), [PARTS - 2, PARTS - 1])

    assert summed(client, [*delayed, *futures], load=None).state() == whole
    for twice in (delayed[0], futures[0]):
        with pytest.raises(fd.errors.InvalidParameter, match="given twice"):
            summed(client, [twice, twice], load=None)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(cluster, client, whole):
    victim = next(iter(cluster.workers.values())).pid
    timer = threading.Timer(0.6, os.kill, [victim, signal.SIGKILL])
    timer.start()
    total = summed(client, load=load_slowly)
    timer.join()

    assert total.state() == whole


def test_a_task_that_fails_at_first_is_run_again_and_counts_once(client, whole, tmp_path):
    def load_at_the_second_attempt(part):
        mark = tmp_path / str(part)
        first = not mark.exists()
        mark.touch()
        yield from load(part)
        if first:
            raise OSError("the shard broke off")

    assert summed(client, load=load_at_the_second_attempt).state() == whole
    assert len(list(tmp_path.iterdir())) == PARTS


def test_duplicates_of_a_task_on_two_workers_return_the_same_bytes(client, whole):
    """What speculation relies on: whichever copy of a task finishes first, and whichever is kept, the sum is one."""
    _, leaf = tree.start((SIZE,), clip_norm=1.0, stability=None, dtype=np.float32, load=load, stacked=False)
    workers = list(client.scheduler_info()["workers"])
    copies = [client.map(leaf, range(PARTS), pure=False, workers=[worker]) for worker in workers]
    kept = [copies[part % 2][part] for part in range(PARTS)]

    assert client.gather(copies[0]) == client.gather(copies[1])
    assert fd.ClippedSum.from_state(client.submit(tree.join, *kept).result()).state() == whole


def test_tasks_that_are_moved_while_they_run_count_once(cluster, client, whole):
    """A worker that retires hands its results over, or its tasks run again elsewhere."""
    address = next(iter(client.scheduler_info()["workers"]))
    timer = threading.Timer(0.5, lambda: client.retire_workers([address]))
    timer.start()
    total = summed(client, load=load_slowly)
    timer.join()

    assert total.state() == whole


def test_an_error_of_the_loader_is_raised_here(client):
    def broken(part):
        raise RuntimeError("no such shard")

    with pytest.raises(RuntimeError, match="no such shard"):
        summed(client, load=broken, retries=0)


def status(name):
    """Return a line of this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def load_large(part):
    return (np.full(4_000_000, part + 1, np.float32) for _ in range(2))


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no resettable peak of memory")
def test_the_driver_holds_at_most_three_accumulators(client):
    """The accumulator, the state that it receives, and the copy that the transport makes of it; 16 states exist."""
    size = 4_000_000

    def once():
        return clipped_sum(range(16), (size,), clip_norm=1.0, dtype=np.float32, client=client, load=load_large)

    once()  # imports and buffers
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    total = once()
    peak = status("VmHWM") - before

    assert total.count == 32
    assert peak <= 3 * 8 * size, f"{peak / (8 * size):.2f} accumulators"


def test_another_count_than_expected_is_refused(client):
    with pytest.raises(fd.errors.FerroError, match="another number"):
        summed(client, expected_count=UPDATES - 1)


def test_one_release_pays_with_one_ticket_whatever_was_run_again(client, tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=10.0, delta=1e-6)
        ticket = ledger.reserve("cohort", fd.events.GaussianEvent(noise_multiplier=2.0))
        total = summed(client)
        total.release(noise_multiplier=2.0, ticket=ticket)
        with pytest.raises(fd.errors.FerroError):
            total.release(noise_multiplier=2.0, ticket=ticket)

        assert ledger.report("cohort").armed + ledger.report("cohort").spent == 1


def test_other_clients_are_refused():
    with pytest.raises(fd.errors.InvalidType, match="client must be"):
        summed("127.0.0.1:8786")


def test_the_command_line_sums_files_on_a_cluster(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arrays = [np.full(100, 0.05 * number, np.float32) for number in range(10)]
    for number, array in enumerate(arrays):
        np.save(f"u{number}.npy", array)
    command = ["release", "u*.npy", "-o", "o.npy", "--clip-norm", "100", "--noise-multiplier", str(2.0**-20), "--json"]

    assert cli.main([*command, "--dask", cluster.scheduler_address]) == 0

    # Noise of standard deviation 1e-4, beyond 9 of which a value is with probability 2.3e-19; 11 steps of the grid.
    assert np.abs(np.load("o.npy") - sum(arrays)).max() < 9e-4 + 11 * 2e-7
    assert cli.main([*command, "--dask", "127.0.0.1:1", "--force"]) == 1
    assert "no scheduler answers" in capsys.readouterr().err
