"""Measure a step of DP-SGD, clip, sum and noise, on per-example gradients in many arrays beside those in one.

Run as ``python benches/training/step.py [--rows 256] [--columns 100000] [--turns 15] [--stability S]``. Gradients of
the same size are cut into 1, 4, 100 and 1000 arrays and into the layers of a small network; each step makes a
`ClippedSum`, adds the batch and releases it, on one thread. Steps are measured in turns with `clip_and_sum` and
`release` on the flat matrix, in processor time, for the load of a shared machine changes from minute to minute: what
counts is the ratio.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import ferrodp as fd

NOISE = {"noise_multiplier": 1.1, "threads": 1}


def seconds(work: Callable[[], object]) -> float:
    """Return how much processor time of this thread `work` takes."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def cut(columns: int) -> dict[str, list[int]]:
    """Return the widths of the arrays of each way to cut a row."""
    even = {f"{parts:>5} arrays": [columns // parts] * parts for parts in (1, 4, 100, 1000) if columns >= parts}
    layers = [width for hidden in (columns // 2, columns // 4, columns // 8) for width in (hidden, 64, 10)]
    return even | {"a network's": [*layers, columns - sum(layers)]}


def step(batch: list[npt.NDArray[np.float32]], template: list[tuple[int]], stability: float | None) -> object:
    """Clip, sum and release a batch."""
    total = fd.ClippedSum(template, clip_norm=1.0, stability=stability, dtype=np.float32)
    total.add_many(batch, threads=1)
    return total.release(**NOISE, denominator=len(batch[0]))


def compare(flat: npt.NDArray[np.float32], turns: int, stability: float | None) -> None:
    """Print what steps cost, part by part, and beside the flat matrix."""
    rows, columns = flat.shape
    print(f"{'gradients':<12} {'flat ms':>8} {'step ms':>8} {'ratio':>6}   {'make':>6} {'add':>6} {'release':>8}")
    for name, widths in cut(columns).items():
        starts = np.cumsum([0, *widths])
        batch = [np.ascontiguousarray(flat[:, a:b]) for a, b in itertools.pairwise(starts)]
        template = [(width,) for width in widths]
        taken: list[list[float]] = []
        for _ in range(turns + 1):
            whole = seconds(
                lambda: fd.clip_and_sum(flat, clip_norm=1.0, stability=stability, threads=1).release(**NOISE)
            )
            parts = seconds(lambda batch=batch, template=template: step(batch, template, stability))
            total = fd.ClippedSum(template, clip_norm=1.0, stability=stability, dtype=np.float32)
            make = seconds(lambda template=template: fd.ClippedSum(template, clip_norm=1.0, dtype=np.float32))
            add = seconds(lambda batch=batch, total=total: total.add_many(batch, threads=1))
            release = seconds(lambda total=total: total.release(**NOISE))
            taken.append([whole, parts, parts / whole, make, add, release])
        whole, parts, ratio, make, add, release = (statistics.median(column) for column in zip(*taken[1:], strict=True))
        print(
            f"{name:<12} {1e3 * whole:8.2f} {1e3 * parts:8.2f} {ratio:6.2f}   "
            f"{1e3 * make:6.2f} {1e3 * add:6.2f} {1e3 * release:8.2f}",
            flush=True,
        )
    print(f"{rows} x {columns} float32, stability {stability}, {fd._native.isa}, {platform.machine()}")


def small(turns: int) -> None:
    """Print what one of many small sums costs, as for clipping by groups of parameters."""
    gradients = np.ones((32, 64), np.float32)

    def one() -> None:
        total = fd.ClippedSum((64,), clip_norm=1.0, dtype=np.float32)
        total.add_many(gradients)
        total.release(noise_multiplier=1.0, denominator=32)

    def hundred() -> None:
        for _ in range(100):
            one()

    hundred()
    taken = statistics.median(seconds(hundred) for _ in range(turns))
    print(f"a group of 32 x 64: {1e4 * taken:.1f} us to make, add and release its sum")


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--stability", type=float)
    arguments = parser.parse_args()
    flat = np.random.default_rng(1).normal(size=(arguments.rows, arguments.columns)).astype(np.float32)
    compare(flat, arguments.turns, arguments.stability)
    small(arguments.turns)


if __name__ == "__main__":
    main()
