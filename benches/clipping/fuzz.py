"""Time clipped sums of rows of every kind, or compare them with sums by definition.

Run as ``python benches/clipping/fuzz.py [--compare] [--values 300000] [--turns 7] [--only WORD …]``. Every combination
of shape, memory layout, dtype and values is added to a `ClippedSum` on one thread. The cost of a value is compared with
two others: that of the shape's own normal case, its rows beyond the bound in C order, and that of the dtype's *normal
case*, such rows of 1000 columns, both measured in turns with it. Of each, the least processor time of all turns counts,
which other programs disturb least; what seems to be slow gets more turns, and some more at the end, minutes later.
Printed are both ratios of all cases above 3 times a normal cost, the worst of each shape, and at the end the worst of
all. Shapes with fewer than 100,000 values are left out.

With ``--compare``, nothing is timed, and every sum is compared with the definition.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import ferrodp as fd
from support import row_cases
from support.row_cases import CLIP_NORM

LIMIT = 3.0
LOOKS = 3
WIDTHS = (1, 2, 3, 4, 6, 8, 10, 16, 17, 24, 32, 33, 48, 64, 100, 256, 1000, 4097, 30_000)
LEAVES = {"4 arrays": 4, "100 arrays": 100, "1000 arrays": 1000, "10,000 arrays": 10_000}


def shapes(values: int) -> Iterator[tuple[str, tuple[int, int], int]]:
    """Yield names, shapes of matrices and numbers of arrays that rows are cut into."""
    for width in WIDTHS:
        yield f"{max(1, values // width):,} x {width:,}", (max(1, values // width), width), 1
    yield f"1 x {values:,}", (1, values), 1
    yield "256 x 100,000", (256, 100_000), 1
    for name, leaves in LEAVES.items():
        for rows, width in ((256, 40_000), (4, values // 4)):
            yield f"{rows} x {width:,} in {name}", (rows, width), leaves


def empty(arrays: list[np.ndarray]) -> fd.ClippedSum:
    """Return an empty sum of rows like these."""
    short = arrays[0].dtype.newbyteorder("=") != np.float64
    template = [(array.shape[1],) for array in arrays]
    return fd.ClippedSum(template, clip_norm=CLIP_NORM, dtype=np.float32 if short else np.float64)


def least(cases: list[list[np.ndarray]], turns: int) -> list[float]:
    """Return how much processor time of this thread adding a value takes, in each case the least of so many turns."""
    found = [math.inf] * len(cases)
    totals = [empty(arrays) for arrays in cases]
    for _ in range(turns):
        for i, (total, arrays) in enumerate(zip(totals, cases, strict=True)):
            start = time.thread_time()
            total.add_many(arrays, threads=1)
            found[i] = min(found[i], (time.thread_time() - start) / sum(array.size for array in arrays))
    return found


def chosen(dtype: np.dtype, values: int, only: list[str]) -> Iterator[tuple[str, str, str, tuple[int, int], int]]:
    """Yield shape, layout and kind of values by name, the shape, and the number of arrays of all cases to look at."""
    for name, shape, leaves in shapes(values):
        for kind, layout in row_cases.cases(row_cases.VALUES, row_cases.LAYOUTS):
            is_large = leaves > 1 or shape[0] * shape[1] > 10**6
            if is_large and (layout not in ("C", "Fortran") or kind not in ("beyond", "at the bound")):
                continue
            if all(word in f"{dtype}, {name}, {layout}, {kind}" for word in only):
                yield name, layout, kind, shape, leaves


def compare(dtype: np.dtype, values: int, only: list[str]) -> tuple[int, int]:
    """Print what differs from the definition; return how many cases there were and how many differ."""
    count = wrong = 0
    for name, layout, kind, shape, leaves in chosen(dtype, values, only):
        parts = row_cases.cut(row_cases.matrix(kind, dtype, shape), leaves)
        arrays = [row_cases.LAYOUTS[layout](part) for part in parts]
        total = empty(arrays)
        total.add_many(arrays, threads=1)
        expected, within = row_cases.sums(parts, CLIP_NORM)
        found = np.concatenate([np.ravel(each) for each in total.integers])
        count += 1
        if not (expected == found).all() or within != total.within_bound:
            wrong += 1
            different = int((expected != found).sum())
            print(f"WRONG {dtype}, {name}, {layout}, {kind}: {different} of {found.size}", flush=True)
    return count, wrong


@dataclasses.dataclass
class Case:
    """A case, and what a value costs: in it, in its shape's own normal case, and in the dtype's."""

    dtype: np.dtype
    values: int
    name: str
    layout: str
    kind: str
    shape: tuple[int, int]
    leaves: int
    costs: list[float] = dataclasses.field(default_factory=lambda: [math.inf] * 3)

    def __str__(self) -> str:
        """Return what it is called."""
        return f"{self.dtype}, {self.name}, {self.layout}, {self.kind}"

    @property
    def ratios(self) -> tuple[float, float]:
        """The cost over the two normal costs."""
        return self.costs[0] / self.costs[1], self.costs[0] / self.costs[2]

    def row(self) -> str:
        """Return a row of the printed table."""
        own, ratio = self.ratios
        return f"{own:6.1f} {ratio:6.1f}  {self}"

    @property
    def plain(self) -> list[np.ndarray]:
        """The shape's own normal case."""
        return row_cases.cut(row_cases.matrix("beyond", self.dtype, self.shape), self.leaves)

    def time(self, plain: list[np.ndarray], turns: tuple[int, ...]) -> None:
        """Measure it in so many turns, and in more while it seems to be slow."""
        parts = row_cases.cut(row_cases.matrix(self.kind, self.dtype, self.shape), self.leaves)
        arrays = [row_cases.LAYOUTS[self.layout](part) for part in parts]
        for more in turns:
            self.costs = list(map(min, self.costs, least([arrays, plain, normal(self.dtype, self.values)], more)))
            if max(self.ratios) <= LIMIT:
                break


@functools.lru_cache(maxsize=1)
def normal(dtype: np.dtype, values: int) -> list[np.ndarray]:
    """Return the dtype's normal case."""
    return [row_cases.matrix("beyond", dtype, (values // 1000, 1000))]


def measure(dtype: np.dtype, values: int, only: list[str], turns: int) -> list[Case]:
    """Print slow cases and the worst of each shape; return all cases."""
    if not any(chosen(dtype, values, only)):
        return []
    cost = least([normal(dtype, values)], 10 * turns)[0]
    print(f"{dtype}: {1e9 * cost:.3f} ns a value in the normal case", flush=True)
    found: list[Case] = []
    for name, group in itertools.groupby(chosen(dtype, values, only), key=lambda case: case[0]):
        cases = [Case(dtype, values, *case) for case in group if math.prod(case[3]) >= 10**5]
        plain: list[np.ndarray] = []
        for case in cases:
            plain = plain or case.plain
            case.time(plain, (turns, 4 * turns, 16 * turns))
            if max(case.ratios) > LIMIT:
                print(case.row(), flush=True)
        for which, column in ((0, "of its own"), (1, "of the normal cost")):
            if cases:
                worst = max(cases, key=lambda case: case.ratios[which])
                print(f"        worst of {dtype}, {name}: {worst.ratios[which]:.1f} {column} ({worst})", flush=True)
        found += cases
    return found


def main() -> None:
    """Read the arguments, measure or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="compare with the definition, and time nothing")
    parser.add_argument("--values", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[], help="only cases whose name holds all of these words")
    arguments = parser.parse_args()
    print(f"{fd._native.isa}, load {os.getloadavg()[0]:.1f}")
    if arguments.compare:
        pairs = [compare(dtype, arguments.values, arguments.only) for dtype in row_cases.dtypes().values()]
        count, wrong = (sum(numbers) for numbers in zip(*pairs, strict=True))
        print(f"{count} cases, {wrong} wrong")
        return
    found: list[Case] = []
    for dtype in row_cases.dtypes().values():
        found += measure(dtype, arguments.values, arguments.only, arguments.turns)
    for _ in range(LOOKS):
        slow = [case for case in found if case.ratios[0] > LIMIT]
        if not slow:
            break
        print(f"{len(slow)} cases above {LIMIT:g} times their shape's own normal cost, measured again", flush=True)
        for case in slow:
            case.time(case.plain, (16 * arguments.turns,))
    slow_by = [[case for case in found if case.ratios[which] > LIMIT] for which in (0, 1)]
    for case in sorted(slow_by[0], key=lambda case: case.ratios, reverse=True)[:40]:
        print(case.row())
    counts = " and ".join(str(len(cases)) for cases in slow_by)
    print(f"{len(found)} cases: {counts} above {LIMIT:g} times their shape's own and the dtype's normal cost; ", end="")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
