"""Rows of every kind for clipped sums: shapes, memory layouts, dtypes and values; and their sums by definition.

Shared by a quick test of small sizes and by ``benches/clipping/fuzz.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from reference import clipping as reference

Doubles = npt.NDArray[np.float64]

CLIP_NORM = 0.8


def dtypes() -> dict[str, np.dtype]:
    """Return the dtypes that rows may have; bfloat16 where the package of that dtype is installed."""
    found = {name: np.dtype(name) for name in ("float64", "float32", "float16")}
    try:
        import ml_dtypes
    except ImportError:
        return found
    return found | {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


def _near(rng: np.random.Generator, shape: tuple[int, int], norm: float) -> Doubles:
    rows = rng.standard_normal(shape)
    return rows * (norm / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


def _every(rows: Doubles, step: int, value: float) -> Doubles:
    rows[::step, rows.shape[1] // 2] = value
    return rows


def _one_hot(rng: np.random.Generator, shape: tuple[int, int]) -> Doubles:
    rows = np.zeros(shape)
    rows[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = CLIP_NORM
    return rows


VALUES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Doubles]] = {
    "beyond": lambda rng, shape: _near(rng, shape, 3.0),
    "within": lambda rng, shape: _near(rng, shape, 0.2),
    "half of them beyond": lambda rng, shape: rng.standard_normal(shape) * (CLIP_NORM / shape[1] ** 0.5),
    "at the bound": lambda rng, shape: _near(rng, shape, CLIP_NORM),
    "one-hot": _one_hot,
    "zeros": lambda rng, shape: np.zeros(shape),
    "one in ten NaN": lambda rng, shape: _every(_near(rng, shape, 3.0), 10, np.nan),
    "all infinite": lambda rng, shape: _every(_near(rng, shape, 3.0), 1, -np.inf),
    "subnormal": lambda rng, shape: rng.standard_normal(shape),  # scaled down by `matrix`
    "huge": lambda rng, shape: rng.standard_normal(shape),  # scaled up by `matrix`
}
"""What rows hold; bounds on norms are `CLIP_NORM`."""


def matrix(kind: str, dtype: np.dtype, shape: tuple[int, int], seed: int = 1) -> npt.NDArray:
    """Return rows of a kind of values, in C order."""
    rows = VALUES[kind](np.random.default_rng(seed), shape)
    exponents = {"float64": (-1070, 1020), "float32": (-145, 125), "float16": (-22, 13), "bfloat16": (-129, 125)}
    smallest, largest = exponents[dtype.name]
    if kind in ("subnormal", "huge"):
        rows = np.ldexp(rows, smallest if kind == "subnormal" else largest)
    with np.errstate(over="ignore", under="ignore"):
        return rows.astype(dtype)


def _strided(rows: npt.NDArray, shape: tuple[int, ...], view: Callable[[npt.NDArray], npt.NDArray]) -> npt.NDArray:
    """Return a view, of an array of that shape, with the content of `rows`."""
    whole = np.ones(shape, rows.dtype)
    found = view(whole)
    found[...] = rows
    return found


LAYOUTS: dict[str, Callable[[npt.NDArray], npt.NDArray]] = {
    "C": lambda rows: rows,
    "Fortran": np.asfortranarray,
    "every other row": lambda rows: _strided(rows, (2 * len(rows), rows.shape[1]), lambda whole: whole[::2]),
    "every other column": lambda rows: _strided(rows, (len(rows), 2 * rows.shape[1]), lambda whole: whole[:, 1::2]),
    "some columns": lambda rows: _strided(rows, (len(rows), rows.shape[1] + 5), lambda whole: whole[:, 3:-2]),
    "rows backwards": lambda rows: _strided(rows, rows.shape, lambda whole: whole[::-1]),
    "columns backwards": lambda rows: _strided(rows, rows.shape, lambda whole: whole[:, ::-1]),
    "Fortran, every other column": lambda rows: _strided(
        rows, (2 * rows.shape[1], len(rows)), lambda whole: whole.T[:, ::2]
    ),
    "Fortran, some rows backwards": lambda rows: _strided(
        rows, (rows.shape[1], len(rows) + 3), lambda whole: whole.T[-2:1:-1]
    ),
    "the other byte order": lambda rows: _swapped(rows),
    "the other byte order, Fortran": lambda rows: _swapped(np.asfortranarray(rows)),
    "the other byte order, every other row backwards": lambda rows: _strided(
        _swapped(rows), (2 * len(rows), rows.shape[1]), lambda whole: whole[::-2]
    ),
    "not aligned": lambda rows: _not_aligned(rows),
    "not aligned, Fortran": lambda rows: _not_aligned(rows.T).T,
    "not aligned, strides of any bytes": lambda rows: _in_records(rows),
}
"""The same numbers, elsewhere in memory."""


def _swapped(rows: npt.NDArray) -> npt.NDArray:
    return rows.astype(rows.dtype.newbyteorder(">")) if rows.dtype.kind == "f" else rows  # bfloat16 has no other order


def _not_aligned(rows: npt.NDArray) -> npt.NDArray:
    whole = np.zeros(rows.nbytes + 1, np.uint8)
    found = np.ndarray(rows.shape, rows.dtype, whole, 1)
    found[...] = rows
    return found


def _in_records(rows: npt.NDArray) -> npt.NDArray:
    whole = np.zeros(rows.shape, np.dtype([("kind", np.uint8), ("number", rows.dtype)]))
    found = whole["number"]
    found[...] = rows
    return found


def cut(rows: npt.NDArray, leaves: int) -> list[npt.NDArray]:
    """Return the columns in so many arrays, each in C order."""
    return [np.ascontiguousarray(part) for part in np.array_split(rows, leaves, axis=1)]


def cases(*parts: dict) -> Iterator[tuple]:
    """Yield every choice of keys."""
    return itertools.product(*parts)


def sums(leaves: list[npt.NDArray], clip_norm: float) -> tuple[npt.NDArray[np.int64], int]:
    """Return the sum of the rows' integers by definition, and how many rows were within the bound.

    As `reference.quantize`, which a test holds beside it, for all rows at once. Rows whose norm is within 10⁻⁹ of the
    bound are decided exactly.
    """
    with np.errstate(all="ignore"):
        wide = [leaf.astype(np.float64) for leaf in leaves]
        rows = np.concatenate(wide, axis=1)
        total = _powers(wide)
        largest = np.abs(rows).max(axis=1, initial=0.0)
        scale = np.ones(len(rows))
        low, high = reference.TRUSTED[2]
        if leaves[0].dtype == np.float64:
            again = ~((total >= low) & (total <= high)) & (largest > 0.0) & np.isfinite(largest)
            scale[again] = np.ldexp(1.0, np.clip(1 - np.frexp(largest[again])[1], -1022, 1023))
            total = np.where(again, _powers([leaf * scale[:, None] for leaf in wide]), total)
        norm = np.sqrt(total) / scale
        kept = (norm <= clip_norm) | (largest == 0.0)
        near = np.flatnonzero(np.abs(norm - clip_norm) <= 1e-9 * clip_norm)
        kept[near] = _within(rows[near], clip_norm)
        finite = np.isfinite(largest)
        factor = np.where(kept, 1.0, clip_norm / np.sqrt(total) * reference.shrink([leaf[0] for leaf in leaves]))
        scale = np.where(kept, 1.0, scale)
        steps = np.ldexp(factor, -reference.grid(clip_norm))
        products = np.where(finite[:, None], rows, 0.0) * scale[:, None] * np.where(finite, steps, 0.0)[:, None]
        return np.trunc(products).astype(np.int64).sum(axis=0), int((kept & finite).sum())


def _within(rows: Doubles, bound: float) -> list[bool]:
    """Say of rows near the bound whether their norm is at most `bound`, exactly.

    Σx² − bound² is a sum of floats, the squares and their errors, whose sign `math.fsum` does not change. An element
    whose square may have an error that underflows is decided in rational numbers.
    """
    plain = ((rows == 0.0) | (np.abs(rows) > 2.0**-480)).all(axis=1)
    exact = np.concatenate([*_squares(rows), *(-part for part in _squares(np.full((len(rows), 1), bound)))], axis=1)
    return [
        math.fsum(terms) <= 0.0 if is_plain else reference.within(row, bound, 2)
        for row, terms, is_plain in zip(rows, exact.tolist(), plain, strict=True)
    ]


def _squares(x: Doubles) -> tuple[Doubles, Doubles]:
    """Return squares, and what rounding took from each: Dekker's product of the two halves of a number."""
    split = x * (2.0**27 + 1.0)
    high = split - (split - x)
    low = x - high
    squares = x * x
    return squares, low * low - ((squares - high * high) - 2.0 * high * low)


def _powers(leaves: list[Doubles]) -> Doubles:
    """Return the sums of squares of rows in the order that `reference.power_sum` states."""
    total = np.zeros(len(leaves[0]))
    for leaf in leaves:
        for start in range(0, leaf.shape[1], reference.BLOCK):
            block = leaf[:, start : start + reference.BLOCK]
            lanes = np.zeros((len(block), reference.LANES))
            for first in range(0, block.shape[1], reference.LANES):
                chunk = block[:, first : first + reference.LANES]
                lanes[:, reference.LANES - chunk.shape[1] :] += chunk * chunk
            while lanes.shape[1] > 1:
                half = lanes.shape[1] // 2
                lanes = lanes[:, :half] + lanes[:, half:]
            total += lanes[:, 0]
    return total
