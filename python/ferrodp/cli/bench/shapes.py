"""Cases of clipping: narrow, tall and Fortran-ordered matrices, rows at the bound, many arrays, small calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.cli.bench.measure import OURS, Case, Contender
from ferrodp.clipping import ClippedSum, clip_and_sum

CLIP_NORM = 1.0
SMALL_CALLS = 200


def shapes(elements: int, threads: int) -> Iterator[Case]:
    """Yield cases of about so many elements each."""
    for name, columns in (("narrow", 16), ("tall", 100)):
        rows = np.random.default_rng(1).standard_normal((elements // columns, columns), np.float32)
        yield _sum(f"{name} rows", rows, threads)
    yield _sum("rows in Fortran order", np.asfortranarray(rows), threads)
    double = rows.astype(np.float64)
    double /= np.linalg.norm(double, axis=1, keepdims=True)
    yield _sum("rows of norm 1", double, threads)
    for parts in (4, 1000):
        yield _in_arrays(elements, parts, threads)
    yield _small()


def _sum(what: str, rows: npt.NDArray[Any], threads: int) -> Case:
    def plain() -> npt.NDArray[Any]:
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        factors: npt.NDArray[Any] = np.minimum(1.0, CLIP_NORM / norms).astype(rows.dtype)
        summed: npt.NDArray[Any] = factors @ rows
        return summed

    contenders = [
        Contender(OURS, lambda: clip_and_sum(rows, clip_norm=CLIP_NORM, threads=threads)),
        Contender("numpy: minimum(1, C / sqrt(einsum('ij,ij->i'))) @ rows", plain),
    ]
    size = f"{rows.shape[0]:,} x {rows.shape[1]:,} {rows.dtype}"
    return Case(f"clip and sum {what}, {size}", contenders, rows.size, more=2)


def _in_arrays(elements: int, parts: int, threads: int) -> Case:
    rows, width = 64, max(1, elements // 64 // parts)
    batch = [np.random.default_rng(i).standard_normal((rows, width), np.float32) for i in range(parts)]

    def step() -> Any:
        total = ClippedSum([(width,)] * parts, clip_norm=CLIP_NORM, dtype=np.float32)
        total.add_many(batch, threads=threads)
        return total.release(noise_multiplier=1.0, denominator=rows, threads=threads)

    def plain() -> list[npt.NDArray[Any]]:
        rng = np.random.default_rng()
        norms = np.sqrt(sum(np.einsum("ij,ij->i", each, each) for each in batch))
        factors = np.minimum(1.0, CLIP_NORM / norms).astype(np.float32)
        return [(factors @ each + rng.standard_normal(width, np.float32)) / rows for each in batch]

    contenders = [Contender(OURS, step), Contender("numpy: the same, array by array, in floats", plain)]
    title = f"clip, sum and noise {rows} gradients in {parts:,} arrays of {width:,} float32"
    return Case(title, contenders, rows * width * parts, more=2)


def _small() -> Case:
    rows = np.random.default_rng(1).standard_normal((32, 64), np.float32)

    def calls() -> None:
        for _ in range(SMALL_CALLS):
            total = ClippedSum((64,), clip_norm=CLIP_NORM, dtype=np.float32)
            total.add_many(rows)
            total.release(noise_multiplier=1.0)

    def plain() -> None:
        for _ in range(SMALL_CALLS):
            factors = np.minimum(1.0, CLIP_NORM / np.sqrt(np.einsum("ij,ij->i", rows, rows))).astype(np.float32)
            factors @ rows + np.random.default_rng().standard_normal(64, np.float32)

    contenders = [Contender(OURS, calls, SMALL_CALLS), Contender("numpy: the same in floats", plain, SMALL_CALLS)]
    return Case("make, add and release a sum of 32 x 64 float32", contenders, rows.size)
