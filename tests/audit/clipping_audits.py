"""Audits of sums of clipped rows: the exact sensitivity of rows of every kind, and the law of what is released."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from alarms import CONFIDENCE

import ferrodp as fd
from ferrodp.audit import _law_test

CLIP = 5.0
_TOLERANCE = 2.0**-19
"""Of an element of a clipped row, relative to the clip norm: of what clipping is to give, float32 rounds off less."""


def rows_of(rng: np.random.Generator, width: int, dtype: Any) -> np.ndarray:
    """Return rows within the bound, at it, beyond it by an ulp and by hundreds of powers of two, and no numbers."""
    ties = np.zeros((8, width), dtype=dtype)
    ties[:, 0], ties[:, -1] = 3.0, 4.0 if width > 1 else 5.0
    ties[1], ties[2] = np.nextafter(ties[1], dtype(np.inf)), np.nextafter(ties[2], dtype(0.0))
    ties[3] *= dtype(1.0 + 4e-7)
    ties[4] *= dtype(1.0 - 4e-7)
    ties[5] = dtype(CLIP / math.sqrt(width))
    ties[6] = np.nextafter(ties[5], dtype(np.inf))
    ties[7] = dtype(-CLIP / math.sqrt(width))
    near = rng.normal(size=(24, width))
    near *= (CLIP * (1.0 - 2.0**-50) / np.linalg.norm(near, axis=1))[:, None]
    usual = rng.normal(size=(24, width)) * 10.0 ** rng.uniform(-3, 3, size=(24, 1))
    powers = 100 if dtype == np.float32 else 900
    far = rng.normal(size=(12, width)) * 2.0 ** rng.uniform(-powers, powers, size=(12, 1))
    single = np.zeros((6, width), dtype=dtype)
    single[0, 0] = single[1, -1] = CLIP
    single[2, 0], single[3, -1] = np.nextafter(dtype(CLIP), dtype(np.inf)), -np.nextafter(dtype(CLIP), dtype(0.0))
    single[4, 0], single[5, -1] = -(2.0**powers), 2.0**-powers
    parts = [ties, near.astype(dtype), usual.astype(dtype), far.astype(dtype), single]
    huge = np.finfo(dtype).max
    none = np.zeros((6, width), dtype=dtype)
    none[0], none[1, 0], none[2, -1], none[3, 0] = np.nan, np.inf, -np.inf, huge
    none[4] = huge
    none[5, -1], none[5, 0] = np.nan, huge
    return np.concatenate([*parts, none])


def clipped(row: np.ndarray, clip: float, stability: float | None) -> np.ndarray:
    """Return a row as it should be, in floats: scaled down to the bound, or normalized."""
    x = row.astype(np.float64)
    if not np.isfinite(x).all():
        return np.zeros(x.shape)
    largest = float(np.abs(x).max()) or 1.0
    ratio = float(np.linalg.norm(x / largest))
    if stability is not None:
        return x / largest * (clip / (ratio + stability / largest))
    return x if ratio <= clip / largest else x / largest * (clip / ratio)


def is_within(integers: np.ndarray, step: float, clip: float) -> bool:
    """Return whether a vector of integers of a grid is within the bound, exactly."""
    square = sum(int(each) ** 2 for each in integers.reshape(-1).tolist())
    return square * Fraction(step) ** 2 <= Fraction(clip) ** 2


def sums(rng: np.random.Generator, width: int, dtype: Any, stability: float | None) -> bool:
    """Whether a row moves a sum farther than stated, or elsewhere than it should, by itself or among others."""
    rows = rows_of(rng, width, dtype)

    def total(some: np.ndarray) -> fd.ClippedSum:
        made = fd.ClippedSum((width,), clip_norm=CLIP, stability=stability, dtype=dtype)
        made.add_many(some)
        return made

    alone = []
    for row in rows:
        made = total(row[None, :])
        alone.append(made.integers)
        if not is_within(alone[-1], made.granularity, CLIP):
            return True
        expected = clipped(row, CLIP, stability)
        if np.abs(alone[-1] * made.granularity - expected).max() > _TOLERANCE * CLIP:
            return True
    # All kinds mixed, and each kind by itself: rows at the bound, far from it, and of one element.
    mixed = [rng.permutation(len(rows))[:size] for size in (len(rows), 17, 3)]
    for some in (*mixed, *(np.resize(np.arange(first, last), 50) for first, last in ((0, 8), (56, 68), (68, 74)))):
        expected = np.sum([alone[i] for i in some], axis=0)
        for among in (rows[some], np.asfortranarray(rows[some])):  # row after row, and side by side
            if not np.array_equal(total(among).integers, expected):
                return True
    return False


def rows_of_sums(stability: float | None) -> bool:
    rng = np.random.default_rng(31)
    widths = (1, 2, 3, 7, 8, 16, 33, 70, 300)
    try:
        return any(sums(rng, width, dtype, stability) for width in widths for dtype in (np.float32, np.float64))
    except fd.errors.InvalidArray:  # whether rows are refused tells of them
        return True


def rows_of_half_precision() -> bool:
    """Whether rows of 16 bits, all that there are, are clipped as the same numbers in single precision."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 8)
    infinite = np.diag(np.full(8, np.inf, dtype=np.float16))
    infinite[infinite == 0.0] = 1.0
    every = np.concatenate([every, infinite, -infinite])
    for first, width in itertools.product(range(0, len(every), 509), (8, 7)):
        rows = every[first : first + 509, :width]
        halves, singles = (fd.ClippedSum((width,), clip_norm=CLIP, dtype=np.float32) for _ in range(2))
        halves.add_many(rows)
        singles.add_many(rows.astype(np.float32))
        if not np.array_equal(halves.integers, singles.integers):
            return True
    return False


def rows_that_are_brought() -> bool:
    """Whether rows in the other byte order, backwards, or not aligned, are clipped as the same numbers elsewhere."""
    rng = np.random.default_rng(38)
    shapes = ((900, 40, np.float32), (40, 1100, np.float64), (1, 40_000, np.float64), (5, 263_000, np.float32))
    for count, width, dtype in shapes:
        rows = (rng.normal(size=(count, width)) * CLIP / math.sqrt(width)).astype(dtype)
        rows[::5], rows[3::5, -1] = 2.0 * rows[::5], np.nan
        apart = np.zeros((count, width), np.dtype([("kind", np.uint8), ("number", dtype)]))
        apart["number"] = rows
        plain = fd.clip_and_sum(rows, clip_norm=CLIP)
        for order in "CF":
            for each in (
                np.asarray(rows, rows.dtype.newbyteorder(), order=order),
                np.asarray(apart, order=order)["number"],
                np.repeat(rows.astype(rows.dtype.newbyteorder()), 2, axis=1)[:, ::2],
                np.asarray(rows[:, ::-1], order=order)[:, ::-1],
                np.asarray(rows[:, ::-1], rows.dtype.newbyteorder(), order=order)[:, ::-1],
            ):
                found = fd.clip_and_sum(each, clip_norm=CLIP)
                if found.within_bound != plain.within_bound or not np.array_equal(found.integers, plain.integers):
                    return True
    return False


def merged_stabilities() -> bool:
    """Whether sums of two stabilities become one, which would have neither."""
    one, other = (fd.ClippedSum((2,), clip_norm=1.0, stability=each) for each in (0.01, 0.02))
    try:
        one.merge(other)
    except fd.errors.FerroError:
        return False
    return True


def long_sums() -> bool:
    """Whether many rows, added by threads, are the sum of each."""
    rng = np.random.default_rng(32)
    for width, dtype in ((4, np.float32), (64, np.float64), (1100, np.float32)):
        rows = (rng.normal(size=(397, width)) * CLIP / math.sqrt(width)).astype(dtype)
        rows[::50], rows[7::50, -1], rows[9::50] = np.nan, np.inf, 0.0
        made, parts, beside, apart = (fd.ClippedSum((width,), clip_norm=CLIP, dtype=dtype) for _ in range(4))
        made.add_many(rows, threads=2)
        beside.add_many(np.asfortranarray(rows))
        apart.add_many(np.asfortranarray(np.repeat(rows, 2, axis=0))[::2])  # copied, a group of rows after the other
        for first in range(0, 397, 40):
            other = fd.ClippedSum((width,), clip_norm=CLIP, dtype=dtype)
            other.add_many(rows[first : first + 40], threads=1)
            parts.merge(other)
        kept = fd.ClippedSum((width,), clip_norm=CLIP, dtype=dtype)
        kept.merge_state(made.state())
        tallies = [(each.count, each.within_bound) for each in (made, parts, kept, beside, apart)]
        norms = np.linalg.norm(rows.astype(np.float64), axis=1)
        if len(set(tallies)) > 1 or tallies[0] != (397, int(np.count_nonzero(norms <= CLIP))):
            return True
        if not all(np.array_equal(made.integers, each.integers) for each in (parts, kept, beside, apart)):
            return True
    return False


def rows_from_memory() -> bool:
    """Whether more rows than a cache holds are the sum of some of them at a time."""
    rng = np.random.default_rng(36)
    for count, width, dtype in ((3000, 1500, np.float32), (530, 4165, np.float64)):
        rows = (rng.normal(size=(count, width)) * CLIP / math.sqrt(width)).astype(dtype)
        rows[33::50], rows[37::50, -1], rows[39::50] = np.nan, np.inf, 0.0
        made, parts = (fd.ClippedSum((width,), clip_norm=CLIP, dtype=dtype) for _ in range(2))
        made.add_many(rows, threads=1)
        for first in range(0, count, 40):
            parts.add_many(rows[first : first + 40], threads=1)
        if made.within_bound != parts.within_bound or not np.array_equal(made.integers, parts.integers):
            return True
    return False


def rows_that_are_returned() -> bool:
    """Whether a row that is clipped and returned in floats is longer than the bound, by any amount."""
    rng = np.random.default_rng(35)
    for width in (1, 3, 16, 70):
        for dtype in (np.float32, np.float64):
            rows = rows_of(rng, width, dtype)
            for power, layout in ((2, np.ascontiguousarray), (2, np.asfortranarray), (1, np.ascontiguousarray)):
                found = fd.clip_rows(layout(rows), clip_norm=CLIP, ord=power)[0]
                if any(
                    sum(abs(Fraction(float(each))) ** power for each in row) > Fraction(CLIP) ** power for row in found
                ):
                    return True
    return False


def differences() -> bool:
    """Whether the difference of two updates is what is clipped."""
    rng = np.random.default_rng(33)
    for width in (1, 5, 19, 64):
        update, before = rng.normal(size=(2, width))
        made, whole = (fd.ClippedSum((width,), clip_norm=1.0) for _ in range(2))
        made.add(update, minus=before)
        whole.add(update - before)
        if not is_within(made.integers, made.granularity, 1.0) or not np.array_equal(made.integers, whole.integers):
            return True
    return False


def trees() -> bool:
    """Whether leaves of a tree are clipped together."""
    rng = np.random.default_rng(34)
    for dtype in (np.float32, np.float64):
        leaves = [(rng.normal(size=(20, *shape)) * 4).astype(dtype) for shape in ((3,), (2, 5), (130,))]
        made = fd.ClippedSum([(3,), (2, 5), (130,)], clip_norm=CLIP, dtype=dtype)
        flat = fd.ClippedSum((143,), clip_norm=CLIP, dtype=dtype)
        made.add_many(leaves)
        flat.add_many(np.concatenate([leaf.reshape(20, -1) for leaf in leaves], axis=1))
        if not np.array_equal(np.concatenate([each.reshape(-1) for each in made.integers]), flat.integers):
            return True
    return False


def trees_of_many_leaves() -> bool:
    """Whether small leaves, of which several are measured at once, are clipped together."""
    rng = np.random.default_rng(37)
    for dtype in (np.float32, np.float64):
        leaves = [(rng.normal(size=(21, width)) / 4).astype(dtype) for width in (3, 8, 1, 20, 40) for _ in range(40)]
        leaves = [np.asfortranarray(leaf) if leaf.shape[1] == 20 else leaf for leaf in leaves]
        made = fd.ClippedSum([leaf.shape[1:] for leaf in leaves], clip_norm=CLIP, dtype=dtype)
        flat = fd.ClippedSum((2880,), clip_norm=CLIP, dtype=dtype)
        try:
            made.add_many(leaves)
            flat.add_many(np.concatenate(leaves, axis=1))
        except fd.errors.InvalidArray:  # its norms are not certain
            return True
        if made.within_bound != flat.within_bound:
            return True
        if np.abs(np.concatenate(made.integers) - flat.integers).max() > 20:  # another order of summation
            return True
    return False


def noise_of_sums(multiplier: float, dtype: Any, clip: float, draws: int = 400_000) -> bool:
    """Whether what is released is the exact sum with the stated noise."""
    total = fd.ClippedSum((draws,), clip_norm=clip, dtype=dtype)
    total.add_many(np.full((1, draws), -0.3 * clip / math.sqrt(draws), dtype=dtype))
    exact = total.to_float()
    noise = np.asarray(total.release(noise_multiplier=multiplier), dtype=np.float64) - exact
    tails = _law_test.Tails(_law_test.real_events(_law_test.gaussian, multiplier * clip))
    tails.count(noise)
    return not tails.hold(1.0 - CONFIDENCE)


def released_once() -> bool:
    """Whether a sum that was released can be released again, or be released divided by a number alone."""
    total = fd.ClippedSum((2,), clip_norm=1.0)
    first = total.release(noise_multiplier=1.0)
    try:
        again = total.release(noise_multiplier=1.0)
    except fd.errors.FerroError:
        return bool(np.array_equal(first, np.zeros(2)))
    return bool(np.isfinite(again).all())


def _audits() -> Iterator[tuple[str, Callable[[], bool]]]:
    yield "rows of sums", lambda: rows_of_sums(None)
    yield "normalized rows of sums", lambda: rows_of_sums(0.01)
    yield "rows of half precision", rows_of_half_precision
    yield "rows that are brought", rows_that_are_brought
    yield "sums of two stabilities", merged_stabilities
    yield "rows that are returned", rows_that_are_returned
    yield "long sums", long_sums
    yield "rows from memory", rows_from_memory
    yield "differences", differences
    yield "trees", trees
    yield "trees of many leaves", trees_of_many_leaves
    yield "noise of a sum", lambda: noise_of_sums(1.0, np.float64, 2.0)
    yield "noise of a sum of floats", lambda: noise_of_sums(1.0, np.float32, 2.0)
    yield "noise of a sum, large", lambda: noise_of_sums(2.0**13, np.float64, 2.0)
    yield "noise of a sum, small", lambda: noise_of_sums(2.0**-12, np.float64, 2.0)
    yield "a sum released twice", released_once


AUDITS: dict[str, Callable[[], bool]] = dict(_audits())
