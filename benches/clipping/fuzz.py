"""Time clipped sums of rows of every kind, and compare them with sums by definition.

Run as ``python benches/clipping/fuzz.py [--values 300000] [--turns 5] [--only WORD …]``. Every combination of shape,
memory layout, dtype and values is added to a `ClippedSum` on one thread. The cost of a value, in processor time, is
compared with that of the dtype's *normal case*, rows of 1000 columns beyond the bound in C order, which is measured in
turns with it. Printed are all cases above 3 times the normal cost, the worst case of each shape, and everything that
differs from the definition. Cases of fewer than 100,000 values are compared and not timed.
"""

from __future__ import annotations

import argparse
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
WIDTHS = (1, 2, 3, 4, 6, 8, 10, 16, 17, 24, 32, 33, 48, 64, 100, 256, 1000, 4097, 30_000)
LEAVES = {"4 arrays": 4, "100 arrays": 100, "1000 arrays": 1000, "10,000 arrays": 10_000}


def shapes(values: int) -> Iterator[tuple[str, tuple[int, int], int]]:
    """Yield names, shapes of matrices and numbers of arrays that rows are cut into."""
    for width in WIDTHS:
        yield f"{max(1, values // width):,} x {width:,}", (max(1, values // width), width), 1
    yield f"1 x {values:,}", (1, values), 1
    for name, leaves in LEAVES.items():
        for rows, width in ((256, 40_000), (4, values // 4)):
            yield f"{rows} x {width:,} in {name}", (rows, width), leaves


def adding(arrays: list[np.ndarray]) -> tuple[fd.ClippedSum, list[np.ndarray] | np.ndarray]:
    """Return an empty sum of rows like these, and what is added to it."""
    template = [(array.shape[1],) for array in arrays]
    short = arrays[0].dtype.newbyteorder("=") != np.float64
    total = fd.ClippedSum(template, clip_norm=CLIP_NORM, dtype=np.float32 if short else np.float64)
    return total, arrays


def seconds(total: fd.ClippedSum, arrays: list[np.ndarray]) -> float:
    """Return how much processor time of this thread adding takes."""
    start = time.thread_time()
    total.add_many(arrays, threads=1)
    return time.thread_time() - start


def main() -> None:
    """Read the arguments, measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="only cases whose name holds all of these words")
    arguments = parser.parse_args()
    slow = wrong = count = 0
    print(f"{fd._native.isa}, load {os.getloadavg()[0]:.1f}")
    for dtype in row_cases.dtypes().values():
        normal, normal_arrays = adding([row_cases.matrix("beyond", dtype, (arguments.values // 1000, 1000))])
        normal_size = normal_arrays[0].size
        refused = False
        try:
            seconds(normal, normal_arrays)
        except fd.errors.InvalidArrayType:
            refused = True
        print(f"{dtype}: " + ("refused" if refused else f"{1e9 * seconds(normal, normal_arrays) / normal_size:.2f} ns"))
        if refused:
            continue
        for name, shape, leaves in shapes(arguments.values):
            worst = 0.0, ""
            for kind, layout in row_cases.cases(row_cases.VALUES, row_cases.LAYOUTS):
                title = f"{dtype}, {name}, {layout}, {kind}"
                plain = leaves > 1 or shape[0] * shape[1] > 10**6
                if (plain and (layout not in ("C", "Fortran") or kind not in ("beyond", "at the bound"))) or not all(
                    word in title for word in arguments.only
                ):
                    continue
                rows = row_cases.matrix(kind, dtype, shape)
                parts = row_cases.cut(rows, leaves)
                total, arrays = adding([row_cases.LAYOUTS[layout](part) for part in parts])
                seconds(total, arrays)
                count += 1
                expected, within = row_cases.sums(parts, CLIP_NORM)
                found = np.concatenate([np.ravel(each) for each in total.integers])
                if not (expected == found).all() or within != total.within_bound:
                    wrong += 1
                    print(f"WRONG {title}: {int((expected != found).sum())} of {found.size}", flush=True)
                if rows.size < 10**5:
                    continue
                ours, theirs = [], []
                for _ in range(arguments.turns):
                    theirs.append(seconds(normal, normal_arrays) / normal_size)
                    ours.append(seconds(total, arrays) / rows.size)
                ratio = float(np.median(ours) / np.median(theirs))
                worst = max(worst, (ratio, f"{layout}, {kind}"))
                if ratio > LIMIT:
                    slow += 1
                    print(f"{ratio:6.1f}  {title}", flush=True)
            if worst[1]:
                print(f"        worst of {dtype}, {name}: {worst[0]:.1f} ({worst[1]})", flush=True)
    print(f"{count} cases: {slow} above {LIMIT:g} times the normal cost, {wrong} wrong; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
