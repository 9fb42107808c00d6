"""Replays of clipping: rows at, and within 2⁻²⁰⁰ of, the bound, against the definition in exact numbers, bit for bit.

Elements are multiples of the grid of sums, so that a row that is taken for a longer one loses a step in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import ferrodp as fd
from reference import clipping
from support.native_testing import testing

Dtype = Any
BOUND = 5.0
"""A bound whose square is one of grid steps as well; its ties are all rows of whole numbers."""


def root_down(square: Fraction, dtype: Dtype) -> float:
    """Return the largest number of a type whose square is at most this."""
    if square <= 0:
        return 0.0
    shift = 2 * max(0, 120 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    root = Fraction(math.isqrt(int(square * 2**shift)), 2 ** (shift // 2))
    nearest = dtype(float(root))
    while Fraction(float(nearest)) ** 2 > square:
        nearest = np.nextafter(nearest, dtype(0))
    return float(nearest)


def near_row(rng: np.random.Generator, width: int, dtype: Dtype, bound: float, fine: int, beyond: bool) -> np.ndarray:
    """Return a row whose norm is as near to the bound as `fine` elements make it, below it or beyond."""
    fine = min(fine, width)
    step = 2.0 ** (clipping.grid(bound) + (7 if dtype == np.float32 else 0))
    coarse = width - fine
    row = np.zeros(width, dtype=dtype)
    if coarse:
        chosen = rng.normal(size=coarse)
        chosen *= bound * math.sqrt(rng.uniform(0.3, 0.999)) / np.linalg.norm(chosen)
        row[:coarse] = np.trunc(chosen / step) * step
    left = Fraction(bound) ** 2 - clipping.exact_power_sum(row[:coarse], 2)
    for i in range(coarse, width):
        row[i] = root_down(left, dtype)
        left -= Fraction(float(row[i])) ** 2
    last = max((i for i in range(width) if row[i]), default=0)
    if beyond:
        row[last] = np.nextafter(row[last], dtype(np.inf))
    return row * rng.choice([-1.0, 1.0], size=width).astype(dtype)


def whole_row(rng: np.random.Generator, width: int, dtype: Dtype) -> np.ndarray:
    """Return a row of whole and zero elements whose norm is exactly 5."""
    row = np.zeros(width, dtype=dtype)
    for x in ((5.0,), (3.0, 4.0), (1.0, 2.0, 4.0, 2.0), (4.0, 2.0, 2.0, 1.0))[int(rng.integers(4)) % max(width, 1)]:
        free = np.flatnonzero(row == 0)
        if free.size:
            row[rng.choice(free)] = x if width > 3 or x in (5.0, 3.0, 4.0) else 0.0
    return row


def seam_row(rng: np.random.Generator, width: int, bound: float) -> np.ndarray:
    """Return a row beyond the bound whose small elements reach, or just miss, a grid step by a factor's last bit."""
    row = rng.normal(size=width)
    small = rng.permutation(width)[: width // 2]
    steps = rng.integers(500, 1000, size=small.size).tolist()
    row[small] = 0.0
    row *= bound * rng.uniform(1.1, 9.0) / np.linalg.norm(row)
    for _ in range(4):  # small elements move the norm by less than its last bit: the factor is soon the same one
        fate, _norm = clipping.plan([row], bound, 2)
        scale, factor = fate
        by = math.ldexp(factor, -clipping.grid(bound))
        for number, (i, step) in enumerate(zip(small, steps, strict=True)):
            x = step / by
            while x * scale * by >= step:
                x = math.nextafter(x, 0.0)
            row[i] = x if number % 2 else math.nextafter(x, math.inf)
    return row


def rows_of(rng: np.random.Generator, width: int, dtype: Dtype, bound: float, count: int) -> np.ndarray:
    """Return rows of every kind around the bound, and some far from it."""
    rows = []
    for i in range(count):
        kind = i % 8
        if kind == 5 and dtype == np.float64 and width > 3:
            rows.append(seam_row(rng, width, bound))
        elif kind == 6:
            rows.append(whole_row(rng, width, dtype))
        elif kind == 7:
            powers = 100 if dtype == np.float32 else 900
            rows.append((rng.normal(size=width) * 2.0 ** rng.uniform(-powers, powers)).astype(dtype))
        else:
            rows.append(near_row(rng, width, dtype, bound, 1 + int(rng.integers(6)), kind % 2 == 1))
    rows[0][0], rows[-1][-1] = np.nan, np.inf
    return np.array(rows, dtype=dtype)


def summed(width: int, dtype: Dtype, bound: float, stability: float | None = None, count: int = 80) -> bool:
    """Whether rows are summed to other integers, or more or fewer are within the bound, than by the definition."""
    rng = np.random.default_rng([width, dtype().itemsize, int(bound * 64)])
    rows = rows_of(rng, width, dtype, bound, count)
    parts = (range(count), range(1, 2), range(1, 14), range(5, count, 2))
    return any(differ(rows, list(some), bound, stability) for some in parts)


def differ(rows: np.ndarray, some: list[int], bound: float, stability: float | None = None) -> bool:
    """Whether the sum of some of these rows, or how many are within the bound, is not what the definition says."""
    kinds, places = np.unique(some, return_inverse=True)
    integers = np.array([clipping.quantize([rows[i]], bound, stability) for i in kinds], dtype=np.int64)
    within = np.array([np.isfinite(rows[i]).all() and clipping.within(rows[i], bound, 2) for i in kinds])
    chosen = rows[some]
    for among in (chosen, np.asfortranarray(chosen)):
        made = fd.ClippedSum(rows.shape[1:], clip_norm=bound, stability=stability, dtype=rows.dtype)
        try:
            made.add_many(among)
        except fd.errors.FerroError:  # whether rows are refused tells of them
            return True
        if not np.array_equal(made.integers, integers[places].sum(axis=0)):
            return True
        if made.within_bound != within[places].sum():
            return True
    return False


def near_panels(width: int) -> bool:
    """Whether panels of rows near the bound, and of ties with it after them, are summed to other integers."""
    rng = np.random.default_rng(width)
    near = [near_row(rng, width, np.float64, BOUND, 6, i % 2 == 1) for i in range(64)]
    rows = np.array([*near, *(whole_row(rng, width, np.float64) for _ in range(64)), *near[:32]])
    return differ(rows, list(range(len(rows))), BOUND)


def far(width: int, bound: float, count: int = 100) -> bool:
    """Whether that is so of many rows of one kind, one after the other, whose squares are no numbers, or zeros."""
    rng = np.random.default_rng([width, int(bound * 64)])
    rows = rng.choice([-1.0, 1.0], size=(40, width)) * rng.uniform(0.5, 1.0, size=(40, width))
    powers = np.concatenate([rng.integers(502, 1024, size=10), rng.integers(-1070, -535, size=10)])
    rows[:20] *= np.ldexp(1.0, powers)[:, np.newaxis]
    rows[20:25] = 0.0
    rows[np.arange(20, 30), rng.integers(width, size=10)] = rng.choice([np.nan, np.inf, -np.inf], size=10)
    rows[30:35, 0], rows[35:] = 1e300, 0.0
    huge, nothing, mixed = range(10), range(10, 30), range(40)
    some = [int(i) for kind in (huge, nothing, mixed, huge, nothing) for i in rng.choice(kind, size=count)]
    return differ(rows, some, bound)


def long_rows(width: int, dtype: Dtype, count: int = 20) -> bool:
    """Whether that is so of rows of several blocks of columns, within the bound and beyond it, and one with a NaN."""
    rng = np.random.default_rng([width, dtype().itemsize])
    norms = rng.uniform(0.5, 1.5, size=(count, 1)) * BOUND
    rows = rng.normal(size=(count, width))
    rows = (rows * (norms / np.linalg.norm(rows, axis=1, keepdims=True))).astype(dtype)
    rows[3, 0] = np.nan
    return differ(rows, list(range(count)), BOUND)


def in_pieces(width: int = 1_060_000) -> bool:
    """Whether a row of huge numbers that is read in pieces has another sum than one that is not."""
    rng = np.random.default_rng(width)
    for place in (0, width // 2, width - 1):
        row = rng.normal(size=width) * 1e200
        for value in (row[place], np.inf, np.nan):
            row[place] = value
            sums = []
            for order in ("=", "S"):  # in the other byte order, long rows come in pieces
                made = fd.ClippedSum((width,), clip_norm=BOUND, dtype=np.float64)
                try:
                    made.add(row.astype(row.dtype.newbyteorder(order)))
                except fd.errors.FerroError:  # whether rows are refused tells of them
                    return True
                sums.append(made)
            if not np.array_equal(sums[0].integers, sums[1].integers):
                return True
            if sums[0].within_bound != sums[1].within_bound:
                return True
    return False


def of_two_elements(width: int, bound: float, count: int = 64) -> bool:
    """Whether that is so of rows with one element at the bound, and of such with a second one that no sum shows."""
    rng = np.random.default_rng([width, int(bound * 64)])
    rows = np.zeros((count, width))
    places = rng.permuted(np.tile(np.arange(width), (count, 1)), axis=1)[:, :2]
    rows[np.arange(count), places[:, 0]] = rng.choice([-bound, bound], size=count)
    second = rng.choice([-1.0, 1.0], size=count) * 2.0 ** rng.uniform(-1000, -200, size=count)
    rows[np.arange(count), places[:, 1]] = np.where(rng.uniform(size=count) < 0.5, 0.0, second)
    return differ(rows, list(range(count)), bound)


def returned(width: int, dtype: Dtype, order: float, bound: float, count: int = 32) -> bool:
    """Whether rows that are clipped and returned, or their norms, are others than by the definition."""
    rng = np.random.default_rng([width, dtype().itemsize, int(order)])
    rows = rows_of(rng, width, dtype, 5.0, count)
    if order == 1 and dtype == np.float64:
        rows[1::4] = rng.normal(size=rows[1::4].shape) * 2.0 ** rng.uniform(490, 1000, size=(len(rows[1::4]), 1))
    expected = [clipping.clip([row], bound, order) for row in rows]
    for among in (rows, np.asfortranarray(rows)):
        found, norms = fd.clip_rows(among, clip_norm=bound, ord=order)
        if not np.array_equal(found, np.array([row for row, _ in expected])):
            return True
        if not np.array_equal(norms, np.array([norm for _, norm in expected]), equal_nan=True):
            return True
    return False


def changed(width: int, count: int = 20, *, others: float = 0.0, threads: int = 1) -> bool:
    """Whether a row that grows between its two readings moves a sum farther than the bound, unless it is refused.

    All elements of the others are `others`, too small to move a sum. The columns of fewer than two rows for each thread
    are shared among threads. Rows that are copied are read once.
    """
    rng = np.random.default_rng([width, 0])
    step = 2.0 ** clipping.grid(1.0)
    tie = np.full(width, 0.5 if width == 4 else 0.0)
    tie[0] = tie[0] if width == 4 else 1.0
    small = np.full(width, 0.01 / math.sqrt(width))
    long = np.full(width, 3.0 / math.sqrt(width))
    for row, grown in ((tie, step), (small, 1.1), (small, 1e16), (small, 1e300), (small, math.nan), (long, 1e-3)):
        for place in {0, width // 2, width - 1, int(rng.integers(width))}:
            for index in (1, count - 2):
                first = np.full((count, width), others)
                first[index] = row
                second = first.copy()
                second[index, place] += grown
                try:
                    found = testing.sums_of_changing_rows(np.ravel(first), np.ravel(second), width, 1.0, threads)
                except (fd.errors.FerroError, RuntimeError):
                    continue
                if sum(int(k) ** 2 for k in found) > int(1 / step) ** 2:
                    return True
    return False


def too_many_rows() -> bool:
    """Whether sums of so many rows that they do not fit are formed, and are others than the exact ones."""
    made = fd.ClippedSum((1,), clip_norm=1.0)
    made.add(np.ones(1))
    for _ in range(34):  # 2^34 rows at the bound, each 2^29 steps, are one step too many
        other = fd.ClippedSum.from_state(made.state())
        try:
            made.merge(other)
        except fd.errors.FerroError:
            return False
        if int(made.integers[0]) != made.count * round(1.0 / made.granularity):
            return True
    return False


NARROW, WIDE = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16), (17, 33, 40, 70, 130, 300)


def _audits() -> Iterator[tuple[str, Callable[[], bool]]]:
    for name, widths in (("narrow", NARROW), ("wide", WIDE)):
        for dtype in (np.float32, np.float64):
            for bound in (BOUND, 1.7):
                yield (
                    f"replay: {name} rows of {np.dtype(dtype)}, bound {bound}",
                    lambda widths=widths, dtype=dtype, bound=bound: any(summed(w, dtype, bound) for w in widths),
                )
    yield (
        "replay: many rows far from the bound",
        lambda: any(far(width, bound) for width in (1, 2, 3, 4, 6, *WIDE) for bound in (BOUND, 2.0**-500)),
    )
    yield "replay: long rows", lambda: any(long_rows(8200, dtype) for dtype in (np.float32, np.float64))
    yield "replay: long rows in pieces", in_pieces
    yield (
        "replay: rows of two elements",
        lambda: any(of_two_elements(width, BOUND) for width in (2, 3, 4, 6, *WIDE)),
    )
    yield "replay: panels near the bound", lambda: any(near_panels(width) for width in (2, 3, 4, 6, 17, 40))
    yield (
        "replay: normalized rows",
        lambda: any(summed(w, dtype, BOUND, 0.01) for w in (1, 3, 8, 40) for dtype in (np.float32, np.float64)),
    )
    yield (
        "replay: rows that change while they are added",
        lambda: any(changed(width) for width in (1, 4, 60, 100, 2100, 9000)),
    )
    yield "replay: more rows than fit", too_many_rows
    yield (
        "replay: rows that change while threads share their columns",
        lambda: changed(132_000, 4, threads=3),
    )
    for order in (1, 2):
        yield (
            f"replay: rows that are returned, L{order}",
            lambda order=order: any(
                returned(w, dtype, order, bound)
                for w in (1, 3, 8, 40, 70, 130)
                for dtype in (np.float32, np.float64)
                for bound in (5.0, 1e-3, 1e-12)
            ),
        )


AUDITS: dict[str, Callable[[], bool]] = dict(_audits())
"""Whether a replay is not what the definition says: certain, at no level."""
