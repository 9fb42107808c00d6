"""Compare clipped sums of rows of every kind with sums by definition.

Run as ``python benches/clipping/fuzz.py [--values 300000] [--only WORD …]``. Every combination of shape, memory layout,
dtype and values is added to a `ClippedSum` on one thread. What is promised of speed is in ``shapes.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import ferrodp as fd
from support import row_cases
from support.row_cases import CLIP_NORM

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


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=300_000)
    parser.add_argument("--only", nargs="*", default=[], help="only cases whose name holds all of these words")
    arguments = parser.parse_args()
    print(fd._native.isa)
    pairs = [compare(dtype, arguments.values, arguments.only) for dtype in row_cases.dtypes().values()]
    count, wrong = (sum(numbers) for numbers in zip(*pairs, strict=True))
    print(f"{count} cases, {wrong} wrong")


if __name__ == "__main__":
    main()
