"""Statistics of tables on a Spark cluster: every partition is counted in place, and the driver releases once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferrodp._base import _public, _validate
from ferrodp._base._public import suggesting
from ferrodp.distributed import statistics
from ferrodp.distributed.statistics import Part, State
from ferrodp.errors import FerroError, InvalidParameter, InvalidType, MissingPackage
from ferrodp.random import NoiseSource
from ferrodp.statistics.keys.routes import columns_of, routes_of
from ferrodp.tickets import Ticket

__all__ = ["private_statistic"]

_STATE = "state binary"
_NODES = 8
"""How many tasks add up the states of all partitions; the driver adds up theirs."""
_MOST_ROWS = 2**39
"""Of a partition: with 2²⁴ partitions places of rows are integers of 63 bits."""


@suggesting
def private_statistic(
    frame: Any,
    release: Callable[..., Any],
    *,
    unit: str | None = None,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Any:
    """Release a statistic of a DataFrame of Spark, as if its rows were in one process.

    What is said of `ferrodp.distributed.private_statistic` holds, also where workers died and tasks were run again, or
    twice: the sum takes each partition's integers once. No noise is drawn on the cluster.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        All of its columns travel to Python: select those that the statistic needs. Its rows have to be the same each
        time that Spark computes them; a frame that draws random numbers has to be written or checkpointed before.
    release : callable
        As for `ferrodp.distributed.private_statistic`; called on the workers with a dict of Arrow columns. FerroDP has
        to be installed there.
    unit, source, ticket
        As for `ferrodp.distributed.private_statistic`.

    Returns
    -------
    Estimate, PrivateMarginals, PrivateGroups or a model
        What `release` returns.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `ferrodp.distributed.private_statistic`. Nothing was paid or drawn.
    MissingPackage
        If `pyspark` is not installed.
    Exception
        Whatever Spark raises. Nothing was paid or drawn.

    Notes
    -----
    `DataFrame.mapInArrow` counts a partition, which is one table in memory then; eight tasks add up the integers of
    all. With `unit` the rows are shuffled before, into as many tables as ``spark.sql.shuffle.partitions`` says, by a
    number that FerroDP makes of the id: Spark's own hash takes 7 and 7.0 for two units. With ``keep="first"`` the first
    rows of a unit are those of the first partitions. The integers of one partition may take 2 GiB, the largest value
    of a column of Spark.

    Rows and integers travel between workers, and lie in their shuffle files, without noise: give the cluster
    ``spark.network.crypto.enabled`` and ``spark.io.encryption.enabled`` where network or disks are not trusted.

    Examples
    --------
    >>> import ferrodp as fd
    >>> from ferrodp.integrations.spark import private_statistic
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
    >>> ages = spark.range(20, 80).withColumnRenamed("id", "age")
    >>> def adults(frame, **payment):
    ...     return fd.private_sum(frame["age"], bounds=(0, 100), epsilon=1.0, **payment)
    >>> found = private_statistic(ages, adults)
    >>> round(found.standard_error)
    141
    """
    part = statistics.check(release, unit, None)
    _check_frame(frame)
    if len(set(frame.columns)) < len(frame.columns):
        raise InvalidParameter(f"frame must have columns of different names, got {frame.columns}")
    if unit is not None and unit not in frame.columns:
        raise InvalidParameter(
            f"unit must be a column of the frame, got {_validate.shown(unit)}; it has {frame.columns}"
        )
    rows = frame if unit is None else _gathered(frame, unit)
    states = rows.mapInArrow(_counts(part), _STATE).repartition(_NODES).mapInArrow(_joined, _STATE)
    found = [pickle.loads(row[0]) for row in states.collect()]
    if not found:  # no rows at all: their types are those of the frame
        found = [part(frame.limit(0).toArrow())]
    return statistics.released(part, _sum(found), source=source, ticket=ticket)


def _gathered(frame: Any, unit: str) -> Any:
    """Return the rows of a frame, those of a unit in one partition, with a last column that says where they were."""
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    pieces = max(1, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    piece, place = (f"ferrodp {name} {'_' * max(map(len, frame.columns))}" for name in ("piece", "place"))

    def routed(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        from pyspark import TaskContext

        context = TaskContext.get()
        start = 0 if context is None else context.partitionId() * _MOST_ROWS
        for batch in batches:
            # mutant: rows-of-a-unit-in-two-partitions-of-spark
            pieces_of = routes_of({unit: pyarrow.chunked_array([batch.column(unit)])}, unit) % np.uint64(pieces)
            places = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            yield pyarrow.RecordBatch.from_arrays(
                [*batch.columns, pyarrow.array(pieces_of.astype(np.int32)), pyarrow.array(places)],
                [*batch.schema.names, piece, place],
            )

    more = [StructField(piece, IntegerType()), StructField(place, LongType())]
    return frame.mapInArrow(routed, StructType([*frame.schema.fields, *more])).repartition(pieces, f"`{piece}`")


def _counts(part: Part) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what counts a partition; of one without rows there is nothing to count."""

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        held = list(batches)
        if not held:
            return
        table = pyarrow.Table.from_batches(held)
        if part.unit is not None:
            *names, _, place = table.column_names
            # mutant: rows-of-a-unit-in-the-order-of-a-shuffle
            table = table.sort_by(place).select(names)
        try:
            yield _row(part.count(columns_of(table)))
        except FerroError as error:  # to be raised by the driver as it is
            yield _row(error)

    return counted


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """Add up the states of some partitions."""
    found = [pickle.loads(each.as_py()) for batch in batches for each in batch.column(0)]
    if found:
        try:
            yield _row(_sum(found))
        except FerroError as error:
            yield _row(error)


def _sum(found: list[State | FerroError]) -> State:
    """Return the sum of states, or raise the first error among them."""
    for each in found:
        if isinstance(each, FerroError):
            raise each
    return statistics.join(*found)  # type: ignore[arg-type]  # none of them is an error


def _row(value: State | FerroError) -> Any:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    return pyarrow.RecordBatch.from_arrays([pyarrow.array([pickle.dumps(value)], pyarrow.binary())], ["state"])


def _check_frame(frame: Any) -> None:
    """Refuse what is no DataFrame of Spark."""
    try:
        import pyspark.sql
    except ImportError as error:
        raise MissingPackage('ferrodp.integrations.spark needs Spark: pip install "ferrodp[spark]"') from error
    if not isinstance(frame, pyspark.sql.DataFrame):
        raise InvalidType(
            f"frame must be a pyspark.sql.DataFrame, got {type(frame).__name__}; for example "
            "spark.createDataFrame(table)"
        )


_public.install_in(__name__)
