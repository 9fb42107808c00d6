"""Measure the ledger beside the raw rate of fsync on the same disk.

Run as ``python benches/budget/ledger.py [--directory DIR] [--seconds S] [--threads 1,16,64]``. Rates are per second of
elapsed time, for durability is waiting; the machine should be quiet and the directory on the disk that will be used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ferrodp._native import sqlite_version
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger

EVENT = LaplaceEvent(noise_multiplier=1e6)
EVENTS = 100_000


def rate(work: Callable[[], object], seconds: float) -> float:
    """Return how often per second `work` runs to its end."""
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        work()
        count += 1
    return count / elapsed


def beside(
    directory: Path, measure: Callable[[float], float], seconds: float, turns: int
) -> tuple[float, float, float]:
    """Return the medians of the rate of fsync, of another rate, and of their ratios.

    A virtual disk is twice as fast in one minute as in the next, so both are measured in turns. One fsync makes one
    appended block of 4096 bytes durable.
    """
    with tempfile.TemporaryFile(dir=directory) as stream:
        descriptor = stream.fileno()

        def append() -> None:
            os.write(descriptor, bytes(4096))
            os.fsync(descriptor)

        part = seconds / turns / 2
        found = [(rate(append, part), measure(part)) for _ in range(turns)]
    raw, rates = zip(*found, strict=True)
    ratios = [one / other for other, one in found]
    return statistics.median(raw), statistics.median(rates), statistics.median(ratios)


def fresh(directory: Path, name: str) -> PrivacyLedger:
    """Return a new ledger with one large scope."""
    ledger = PrivacyLedger.open(directory / name)
    ledger.create("scope", epsilon=1e6, delta=0.0, measure="pure")
    return ledger


def group_rate(ledger: PrivacyLedger, threads: int, seconds: float) -> float:
    """Return the reservations per second of so many threads on one handle."""
    if threads == 1:
        return rate(lambda: ledger.reserve("scope", EVENT), seconds)
    stop = time.perf_counter() + seconds
    counts = [0] * threads

    def work(index: int) -> None:
        while time.perf_counter() < stop:
            ledger.reserve("scope", EVENT)
            counts[index] += 1

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, default=Path("."))
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--threads", default="1,2,4,8,16,64,256")
    options = parser.parse_args()
    print(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, SQLite {sqlite_version}")
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        directory = Path(folder)
        with fresh(directory, "serial.db") as ledger:
            for threads in map(int, options.threads.split(",")):
                turns = 20 if threads == 1 else 4  # threads take their time to start
                raw, found, ratio = beside(directory, partial(group_rate, ledger, threads), options.seconds, turns)
                print(f"reserve, {threads:4} threads            {found:12,.0f} /s {ratio:8.2f} x fsync ({raw:,.0f} /s)")

            def whole() -> None:
                with ledger.reserve("scope", EVENT) as ticket:
                    ticket.arm()

            print(f"reserve, arm, spend, one thread  {rate(whole, options.seconds):12,.0f} /s")
            with ledger.lease("scope", EVENT, count=10**8) as lease:
                print(f"leased draws                     {rate(lease.draw, options.seconds):12,.0f} /s")
                armed = rate(lambda: lease.draw().arm(), options.seconds)
                print(f"leased draws, armed              {armed:12,.0f} /s")
        with fresh(directory, "large.db") as ledger:
            workers = [
                threading.Thread(target=lambda: [ledger.reserve("scope", EVENT) for _ in range(EVENTS // 100)])
                for _ in range(100)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        start = time.perf_counter(), time.process_time()
        with contextlib.closing(PrivacyLedger.open(directory / "large.db")) as ledger:
            elapsed, used = time.perf_counter() - start[0], time.process_time() - start[1]
            print(
                f"open and verify {ledger.head.sequence - 1} events   {elapsed:8.2f} s ({used:.2f} s of processor time)"
            )
        print(f"bytes an event                   {(directory / 'large.db').stat().st_size / EVENTS:12,.0f}")


if __name__ == "__main__":
    main()
