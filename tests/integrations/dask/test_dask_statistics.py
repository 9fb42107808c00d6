"""Statistics of tables on a real Dask cluster of two processes: what one process releases, whatever happens."""

import os
import signal
import threading

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster

import ferrodp as fd
from ferrodp.distributed import statistics
from ferrodp.integrations.dask import private_statistic
from support.cluster_releases import (
    OF_ONE_KIND,
    PARTS,
    RELEASES,
    count,
    numbers,
    seeded,
    shard,
    slow_shard,
    sums_of_groups,
    total,
    whole,
)


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(processes=True, **options) as started:
        yield started


@pytest.fixture
def client(cluster):
    with Client(cluster) as connected:
        yield connected


@pytest.mark.parametrize("release", RELEASES, ids=lambda each: each.__name__)
def test_what_is_released_on_a_cluster_is_what_one_process_releases(client, release):
    """The same noise is drawn for both: numbers are equal only if all integers under them are."""
    alone = release(whole(), source=seeded(), ticket=None)
    spread = private_statistic(
        range(PARTS), release, load=shard, unit=RELEASES[release], source=seeded(), client=client
    )

    assert numbers(alone) == numbers(spread)
    assert alone.event == spread.event


@pytest.mark.parametrize(
    "release", [each for each in RELEASES if each not in OF_ONE_KIND], ids=lambda each: each.__name__
)
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(cluster, client, release):
    client.wait_for_workers(2, timeout=120)  # one was killed in the test before, and begins again
    victim = next(iter(cluster.workers.values())).pid
    killed = []

    def kill():
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    timer = threading.Timer(1.0, kill)
    timer.start()
    spread = private_statistic(
        range(PARTS), release, load=slow_shard, unit=RELEASES[release], source=seeded(), client=client
    )

    assert killed == [victim]
    assert numbers(release(whole(), source=seeded(), ticket=None)) == numbers(spread)


@pytest.mark.parametrize("release", [count, sums_of_groups], ids=lambda each: each.__name__)
def test_doubles_of_a_task_on_two_workers_return_the_same_integers(client, release):
    """What speculation relies on: whichever copy of a task is kept, the sum is one."""
    part = statistics.Part(release, RELEASES[release], shard)
    client.wait_for_workers(2, timeout=120)  # one may have been killed before, and begins again
    workers = list(client.scheduler_info()["workers"])
    if part.unit is None:
        copies = [client.gather(client.map(part, range(PARTS), pure=False, workers=[each])) for each in workers]
        for first, second in zip(*copies, strict=True):
            assert first.counted == second.counted
        return
    copies = [client.submit(part.split, 3, 4, pure=False, workers=[each]).result() for each in workers]
    counted = [[part.count_pieces(piece).counted for piece in copy] for copy in copies]
    for first, second in zip(*counted, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(first.integers[0], second.integers[0], strict=True))


def test_delayed_tables_and_futures_are_partitions(client):
    import dask

    parts = [dask.delayed(shard)(number) for number in range(PARTS - 1)]
    parts.append(client.submit(shard, PARTS - 1))
    spread = private_statistic(parts, total, unit="person", source=seeded(), client=client)

    assert numbers(total(whole(), source=seeded(), ticket=None)) == numbers(spread)


def test_one_ticket_pays_for_a_whole_cluster_and_for_nothing_that_is_refused(client, tmp_path):
    def refused(frame, **pay):
        return fd.private_sum(frame["pay"], bounds=(0, 1 + len(frame["pay"])), epsilon=1.0, **pay)

    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("survey", epsilon=9.0, delta=1e-5)
        ticket = ledger.reserve("survey", fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=0.0))
        with pytest.raises(fd.errors.InvalidParameter, match="nothing but parameters"):
            private_statistic(range(PARTS), refused, load=shard, ticket=ticket, client=client)
        assert [each.state.value for each in ledger.tickets("survey")] == ["held"]
        private_statistic(range(PARTS), total, load=shard, unit="person", ticket=ticket, client=client)
        assert ledger.report("survey").armed + ledger.report("survey").spent == 1
        with pytest.raises(fd.errors.TicketError):
            private_statistic(range(PARTS), total, load=shard, unit="person", ticket=ticket, client=client)
