"""Statistics of tables on a real Ray cluster of two processes: what one process releases, whatever happens."""

import contextlib
import os
import signal
import threading

import numpy as np
import psutil
import pytest
import ray
from ray import cloudpickle

import ferrodp as fd
from ferrodp.distributed import statistics
from ferrodp.integrations.ray import private_statistic
from support import cluster_releases
from support.cluster_releases import (
    OF_ONE_KIND,
    PARTS,
    RELEASES,
    count,
    deciles,
    numbers,
    seeded,
    shard,
    slow_shard,
    total,
    whole,
)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    cloudpickle.register_pickle_by_value(cluster_releases)  # workers cannot import a file of tests
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


@pytest.mark.parametrize("release", RELEASES, ids=lambda each: each.__name__)
def test_what_is_released_on_a_cluster_is_what_one_process_releases(release):
    """The same noise is drawn for both: numbers are equal only if all integers under them are."""
    alone = release(whole(), source=seeded(), ticket=None)
    spread = private_statistic(range(PARTS), release, load=shard, unit=RELEASES[release], source=seeded())

    assert numbers(alone) == numbers(spread)
    assert alone.event == spread.event


@pytest.mark.parametrize(
    "release", [each for each in RELEASES if each not in OF_ONE_KIND], ids=lambda each: each.__name__
)
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(release):
    killed = []

    def kill():
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error, ProcessLookupError):  # of one that ended by itself
                command = process.cmdline()
                if not killed and command and command[0].startswith("ray::_called"):
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)

    timers = [threading.Timer(0.3 * i, kill) for i in range(1, 20)]
    for timer in timers:
        timer.start()
    spread = private_statistic(
        range(PARTS), release, load=slow_shard, unit=RELEASES[release], retries=5, source=seeded()
    )
    for timer in timers:
        timer.cancel()

    assert killed
    assert numbers(release(whole(), source=seeded(), ticket=None)) == numbers(spread)


@pytest.mark.parametrize("release", [count, deciles], ids=lambda each: each.__name__)
def test_doubles_of_a_task_return_the_same_integers(release):
    part = statistics.Part(release, None, shard)
    run = ray.remote(lambda number: part(number))
    copies = [ray.get([run.remote(number) for number in range(PARTS)]) for _ in range(2)]

    for first, second in zip(*copies, strict=True):
        assert np.array_equal(first.counted.integers, second.counted.integers)
        assert first.counted.public == second.counted.public


def test_references_to_tables_are_partitions():
    references = [ray.put(shard(number)) for number in range(PARTS)]
    spread = private_statistic(references, total, unit="person", source=seeded())

    assert numbers(total(whole(), source=seeded(), ticket=None)) == numbers(spread)
    with pytest.raises(fd.errors.InvalidParameter, match="given twice"):
        private_statistic([references[0], references[0]], count)


def test_one_ticket_pays_for_a_whole_cluster_and_for_nothing_that_is_refused(tmp_path):
    def refused(frame, **pay):
        return fd.private_sum(frame["pay"], bounds=(0, 1 + len(frame["pay"])), epsilon=1.0, **pay)

    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("survey", epsilon=9.0, delta=1e-5)
        ticket = ledger.reserve("survey", fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=0.0))
        with pytest.raises(fd.errors.InvalidParameter, match="nothing but parameters"):
            private_statistic(range(PARTS), refused, load=shard, ticket=ticket)
        assert [each.state.value for each in ledger.tickets("survey")] == ["held"]
        private_statistic(range(PARTS), total, load=shard, unit="person", ticket=ticket)
        assert ledger.report("survey").armed + ledger.report("survey").spent == 1
        with pytest.raises(fd.errors.TicketError):
            private_statistic(range(PARTS), total, load=shard, unit="person", ticket=ticket)
