"""Measures a day of a million counters, and streams of correlated noise beside white noise and a bare loop.

Run as `python benches/correlated/speed.py [--large]` on an optimized build. CPU time of one thread, the least of
several runs, all in one process; a day is measured with two threads, too, by the clock.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

import ferrodp as fd
from ferrodp.correlated import BandedToeplitz, BufferedToeplitz, Strategy
from ferrodp.correlated.streams import native_stream


def least(work: Callable[[], object], times: int, clock: Callable[[], float] = time.process_time) -> float:
    """Return the least time of several runs."""
    found = []
    for _ in range(times):
        begun = clock()
        work()
        found.append(clock() - begun)
    return min(found)


def days(size: int) -> None:
    """Print what a day costs in memory and in a file."""
    counts = np.ones(size, np.int64)
    for name, counter in (
        ("365 days", fd.Counter(noise_multiplier=10.0, days=365)),
        ("unknown", fd.Counter(noise_multiplier=10.0)),
    ):
        stream = counter.start(size)
        one = least(lambda stream=stream: stream.release(counts, threads=1), 15)
        clock = least(lambda stream=stream: stream.release(counts, threads=2), 15, time.perf_counter)
        print(f"{size} counters, {name}: {one * 1e3:.2f} ms of CPU a day; 2 threads {clock * 1e3:.2f} ms by the clock")
        with (
            tempfile.TemporaryDirectory() as folder,
            counter.start(size, file=os.path.join(folder, "f"), key="k") as kept,
        ):
            one = least(lambda kept=kept: kept.release(counts, threads=1), 8)
            clock = least(lambda kept=kept: kept.release(counts, threads=2), 8, time.perf_counter)
        print(f"  in a file: {one * 1e3:.2f} ms of CPU, {clock * 1e3:.2f} ms by the clock with its two syncs")


def streams(size: int, times: int) -> None:
    """Print nanoseconds a value for float32."""
    values = np.zeros(size, np.float32)
    source = fd.NoiseSource()
    white = least(lambda: source.add_gaussian_(values, standard_deviation=1.0, threads=1), times)
    wide = np.zeros(size)
    white64 = least(lambda: source.add_gaussian_(wide, standard_deviation=1.0, threads=1), times)
    print(f"{size} values: white float32 {white / size * 1e9:.2f} ns, float64 {white64 / size * 1e9:.2f} ns")
    cases: dict[str, Strategy] = {
        "1 band": BandedToeplitz(num_steps=1000, bands=1),
        "4 bands": BandedToeplitz(num_steps=1000, bands=4),
        "3 buffers": BufferedToeplitz(num_steps=1000, buffers=3),
    }
    for name, strategy in cases.items():
        stream = native_stream(strategy, standard_deviation=1.0, exponent=-12, length=size, key=None)
        took = least(lambda stream=stream: stream.add(values, 1), times)
        print(f"  {name}: {took / size * 1e9:.2f} ns, {white / took:.2f} of white, {white64 / took:.2f} of float64")
    buffers = np.zeros((3, size))

    def bare() -> None:
        np.add(values, 1.0, out=values)
        for each in buffers:
            np.add(each, 1.0, out=each)

    took = least(bare, times)
    print(f"  a bare loop over the same 56 bytes: {took / size * 1e9:.2f} ns")


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="25 million values, too")
    given = parser.parse_args()
    print(f"load {os.getloadavg()}")
    days(1_000_000)
    streams(16_384, 300)
    streams(1_000_000, 12)
    if given.large:
        streams(25_000_000, 3)


if __name__ == "__main__":
    main()
