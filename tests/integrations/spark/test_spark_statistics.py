"""Statistics of DataFrames on a real Spark of two threads, with workers of their own: what one process releases."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions

import ferrodp as fd
from ferrodp.integrations.spark import private_statistic
from support.cluster_releases import (
    RELEASES,
    count,
    deciles,
    numbers,
    seeded,
    sums_of_groups,
    tables,
    total,
    united_wards,
    whole,
)

ROWS = [count, total, sums_of_groups, tables, deciles, united_wards]


@pytest.fixture(scope="module")
def frame(spark, tmp_path_factory):
    """Return rows in four files: a partition each, of several batches."""
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("rows")
    rows = pa.table(whole())
    ends = np.linspace(0, rows.num_rows, 5).astype(int)
    for number, (start, end) in enumerate(itertools.pairwise(ends)):
        pyarrow.parquet.write_table(rows.slice(start, end - start), folder / f"{number}.parquet")
    paths = sorted(map(str, folder.iterdir()))
    held = spark.read.parquet(paths[0])
    for path in paths[1:]:
        held = held.unionAll(spark.read.parquet(path))
    return held


@pytest.mark.parametrize("release", ROWS, ids=lambda each: each.__name__)
def test_what_is_released_on_spark_is_what_one_process_releases(frame, release):
    """The same noise is drawn for both: numbers are equal only if all integers under them are."""
    rows = pa.table(whole())
    alone = release({name: rows[name] for name in rows.column_names}, source=seeded(), ticket=None)
    spread = private_statistic(frame, release, unit=RELEASES[release], source=seeded())

    assert numbers(alone) == numbers(spread)
    assert alone.event == spread.event


def test_rows_of_a_unit_in_several_partitions_are_those_of_one_unit(spark):
    """Each of 20 units has a row in each of four partitions, of which two count; noise has a deviation of 0.1."""
    rows = spark.range(0, 80, numPartitions=4).select((functions.col("id") % 20).cast("double").alias("person"))

    def release(held, **pay):
        owners = {"unit": held["person"], "max_contributions": 2}
        return fd.private_count(held["person"], epsilon=20.0, **owners, **pay)

    assert private_statistic(rows, release, unit="person", source=seeded()).value == 40


def test_partitions_without_rows_and_frames_without_any_are_counted(spark):
    some = spark.range(0, 90, numPartitions=3).filter("id >= 60 and id < 70")

    def release(held, **pay):
        return fd.private_count(held["id"], epsilon=20.0, **pay)

    assert private_statistic(some, release, source=seeded()).value == 10
    assert private_statistic(some.filter("id < 0"), release, source=seeded()).value == 0


def test_a_refusal_on_a_worker_is_raised_here_and_nothing_is_paid(frame, tmp_path):
    def refused(held, **pay):
        return fd.private_sum(held["pay"], bounds=(0, 1 + len(held["pay"])), epsilon=1.0, **pay)

    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("survey", epsilon=9.0, delta=1e-5)
        ticket = ledger.reserve("survey", fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=0.0))
        with pytest.raises(fd.errors.InvalidParameter, match="nothing but parameters"):
            private_statistic(frame.limit(100).repartition(2), refused, ticket=ticket)
        with pytest.raises(fd.errors.InvalidParameter, match="unit must name the column of units"):
            private_statistic(frame, total, ticket=ticket)
        assert [each.state.value for each in ledger.tickets("survey")] == ["held"]
        private_statistic(frame, total, unit="person", ticket=ticket)
        with pytest.raises(fd.errors.TicketError):
            private_statistic(frame, total, unit="person", ticket=ticket)


def test_a_task_that_fails_once_counts_once(spark, tmp_path):
    """The worker of a partition ends in the middle, the first time: Spark runs its task again."""
    marks = str(tmp_path)

    def broken_once(batches):
        import os
        from pathlib import Path

        from pyspark import TaskContext

        mark = Path(marks, str(TaskContext.get().partitionId()))
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and not mark.exists():
                mark.touch()
                os._exit(1)

    rows = spark.range(0, 3000, numPartitions=2).mapInArrow(broken_once, "id long")

    def release(held, **pay):
        return fd.private_count(held["id"], epsilon=20.0, **pay)

    assert private_statistic(rows, release, source=seeded()).value == 3000


def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(
        fd.errors.InvalidType, match=r"frame must be a pyspark.sql.DataFrame, got dict; .*createDataFrame"
    ):
        private_statistic({"age": [1]}, count)
    with pytest.raises(fd.errors.InvalidParameter, match="frame must have columns of different names, got"):
        private_statistic(frame.select("ill", "ill"), count)
    with pytest.raises(fd.errors.InvalidParameter, match="unit must be a column of the frame, got 'nobody'"):
        private_statistic(frame, total, unit="nobody")
