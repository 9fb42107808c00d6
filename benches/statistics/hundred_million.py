"""Statistics of 10^8 rows on a disk, in partitions, and the memory that each of the processes needs for them.

    python benches/statistics/hundred_million.py make FOLDER [--rows 100000000]
    python benches/statistics/hundred_million.py run FOLDER [--only NAME] [--workers 2] [--in-memory]
    python benches/statistics/hundred_million.py compare FOLDER --rows 3000000

`make` writes Arrow files of 2 500 000 rows: a unit (one of a tenth as many as there are rows), an amount in cents, a
reading of which no two are equal, and a key of 50. `run` makes each release in a process of its own with a pool of
workers, pays by one ticket of a ledger, and prints seconds and the peak of resident memory (VmHWM) of the process, and
of the worker with the most. `compare` does so for a smaller table with and without partitions, from one seed: all
numbers have to be equal.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ferrodp as fd

ROWS_OF_PARTITION = 2_500_000
KEYS = [*range(50)]
OF_UNIT = {"max_contributions": 5, "keep": "first"}


def write(folder: Path, rows: int) -> None:
    """Write the table, one file a partition."""
    import pyarrow as pa
    from pyarrow import ipc

    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, ROWS_OF_PARTITION)):
        rng, size = np.random.default_rng([7, number]), min(ROWS_OF_PARTITION, rows - start)
        columns = {
            "person": rng.integers(0, max(rows // 10, 1), size),
            "pay": np.floor(rng.lognormal(10.0, 0.7, size) * 100.0) / 100.0,
            "reading": rng.normal(50.0, 20.0, size),
            "region": rng.choice(50, size, p=np.arange(1, 51) / 1275).astype(np.int16),
        }
        table = pa.table(columns)
        with pa.OSFile(str(folder / f"{number:04d}.arrow"), "wb") as file, ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=ROWS_OF_PARTITION)


def read(path: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Read some columns of a partition."""
    import pyarrow as pa
    from pyarrow import dataset

    found = dataset.dataset(path, format="ipc").to_table(columns=list(names), use_threads=False)
    pa.default_memory_pool().release_unused()
    return {name: found[name].to_numpy() for name in names}


def count(frame: Any, **pay: Any) -> Any:
    """Return how many rows are above a bound."""
    return fd.private_count(frame["pay"] > 30_000.0, epsilon=1.0, **pay)


def total(frame: Any, **pay: Any) -> Any:
    """Return a sum."""
    return fd.private_sum(frame["pay"], bounds=(0, 200_000), epsilon=1.0, **pay)


def mean(frame: Any, **pay: Any) -> Any:
    """Return a mean."""
    return fd.private_mean(frame["pay"], bounds=(0, 200_000), epsilon=1.0, **pay)


def histogram(frame: Any, **pay: Any) -> Any:
    """Return a histogram."""
    return fd.private_histogram(frame["pay"], bins=np.linspace(0, 200_000, 101), epsilon=1.0, **pay)


def median_of_cents(frame: Any, **pay: Any) -> Any:
    """Return a median of many numbers that are equal."""
    return fd.private_median(frame["pay"], bounds=(0, 1_000_000), epsilon=1.0, **pay)


def quartiles_of_readings(frame: Any, **pay: Any) -> Any:
    """Return quantiles of numbers of which no two are equal, with intervals."""
    options = {"bounds": (-1000, 1000), "interval_level": 0.95, "epsilon": 1.0}
    return fd.private_quantiles(frame["reading"], [0.25, 0.5, 0.75], **options, **pay)


def largest_reading(frame: Any, **pay: Any) -> Any:
    """Return an extreme."""
    return fd.private_max(frame["reading"], bounds=(0, 10_000), epsilon=1.0, **pay)


def count_of_units(frame: Any, **pay: Any) -> Any:
    """Return how many rows there are, five of a unit at most."""
    return fd.private_count(frame["pay"] > 30_000.0, epsilon=1.0, unit=frame["person"], **OF_UNIT, **pay)


def total_of_units(frame: Any, **pay: Any) -> Any:
    """Return a sum of five rows of a unit at most."""
    return fd.private_sum(frame["pay"], bounds=(0, 200_000), epsilon=1.0, unit=frame["person"], **OF_UNIT, **pay)


def totals_of_groups_of_units(frame: Any, **pay: Any) -> Any:
    """Return a sum for each key, of three keys of a unit at most and two rows of each."""
    limits = {"groups_per_unit": 3, "rows_per_group": 2, "keep": "first"}
    groups = fd.private_group_by(frame, "region", keys=KEYS, unit="person", **limits)
    return groups.sum("pay", bounds=(0, 200_000), epsilon=1.0, **pay)


def medians_of_groups_of_units(frame: Any, **pay: Any) -> Any:
    """Return a median for each key, of readings of which no two are equal."""
    groups = fd.private_group_by(frame, "region", keys=KEYS, unit="person", rows_per_unit=5, keep="first")
    return groups.median("reading", bounds=(-1000, 1000), epsilon=1.0, **pay)


PAY, READING, OWNED = ("pay",), ("reading",), ("pay", "person")
RELEASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "count": (count, PAY),
    "sum": (total, PAY),
    "mean": (mean, PAY),
    "histogram": (histogram, PAY),
    "median of cents": (median_of_cents, PAY),
    "quartiles of readings": (quartiles_of_readings, READING),
    "largest reading": (largest_reading, READING),
    "count, units": (count_of_units, OWNED),
    "sum, units": (total_of_units, OWNED),
    "sums of groups, units": (totals_of_groups_of_units, ("pay", "person", "region")),
    "medians of groups, units": (medians_of_groups_of_units, ("reading", "person", "region")),
}


def peak(process: int | str) -> float:
    """Return the most resident memory that a process had, in MB."""
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith("VmHWM"))


def released(folder: Path, name: str, workers: int, on_disk: bool = True, **pay: Any) -> tuple[Any, float]:
    """Release a statistic of the partitions, and return the peak of the worker that had the most."""
    release, columns = RELEASES[name]
    paths = sorted(str(each) for each in folder.glob("*.arrow"))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as executor:
        found = fd.distributed.private_statistic(
            paths, release, unit="person" if "person" in columns else None, load=partial(read, names=columns),
            executor=executor, scratch=folder if on_disk else None, **pay,
        )  # fmt: skip
        return found, max(peak(each.pid) for each in multiprocessing.active_children() if each.pid)


def once(folder: Path, name: str, workers: int, on_disk: bool) -> None:
    """Release a statistic, paid by a ticket, and print what it took."""
    path = folder / "budget.db"
    path.unlink(missing_ok=True)
    with fd.PrivacyLedger.open(path) as ledger:
        ledger.create("survey", epsilon=2.0, delta=1e-6)
        ticket = ledger.reserve("survey", fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=0.0))
        begun = time.perf_counter()
        _, most = released(folder, name, workers, on_disk, ticket=ticket)
        took = time.perf_counter() - begun
        states = ", ".join(each.state.value for each in ledger.tickets("survey"))
    print(f"{name:26} {took:7.1f} s  {peak('self'):6.0f} MB  {most:6.0f} MB  ticket: {states}", flush=True)


def compared(folder: Path, name: str, workers: int) -> None:
    """Release a statistic of partitions and of their table from one seed, and compare all numbers."""
    release, columns = RELEASES[name]
    seed = partial(fd.testing.seeded, b"partitions".ljust(32))
    spread, _ = released(folder, name, workers, source=seed())
    parts = [read(str(each), columns) for each in sorted(folder.glob("*.arrow"))]
    whole = {each: np.concatenate([part[each] for part in parts]) for each in columns}
    alone = release(whole, source=seed(), ticket=None)
    same = np.array_equal(np.asarray(alone.value), np.asarray(spread.value)) and alone.event == spread.event
    print(f"{name:26} {'the same' if same else 'DIFFERENT'}: {np.asarray(alone.value).ravel()[:3]}", flush=True)
    if not same:
        sys.exit(1)


def main() -> None:
    """Do what the command line says; each release in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("make", "run", "compare", "once"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--in-memory", action="store_true", help="without scratch")
    given = parser.parse_args()
    if given.task == "make":
        write(given.folder, given.rows)
        return
    if given.task == "once":
        once(given.folder, given.only, given.workers, not given.in_memory)
        return
    for name in [each for each in RELEASES if given.only in each]:
        if given.task == "compare":
            compared(given.folder, name, given.workers)
            continue
        command = [sys.executable, __file__, "once", str(given.folder), "--only", name, "--workers", str(given.workers)]
        command += ["--in-memory"] * given.in_memory
        print(f"load {os.getloadavg()[0]:4.1f}  ", end="", flush=True)
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
