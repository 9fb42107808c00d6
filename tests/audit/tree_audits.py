"""Audits of trees of arrays that are read where they lie: they have the sums of plain arrays, or are refused.

Nothing is drawn, so an alarm is never a matter of chance.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from exact_audits import passes

import ferrodp as fd

CLIP = 5.0
Leaves = list[np.ndarray]


def sum_of(leaves: Leaves, dtype: Any, front: int = 1) -> fd.ClippedSum[Any]:
    return fd.ClippedSum([leaf.shape[front:] for leaf in leaves], clip_norm=CLIP, dtype=dtype)


def integers(made: fd.ClippedSum[Any]) -> np.ndarray:
    return np.concatenate([each.reshape(-1) for each in made.integers])


def differs(leaves: Leaves, dtype: Any) -> bool:
    """Whether rows in leaves, stacked or each by itself, have another sum than the same numbers in one plain array."""
    count = len(leaves[0])
    rows = np.concatenate([leaf.astype(dtype).reshape(count, -1) for leaf in leaves], axis=1)
    expected = fd.ClippedSum((rows.shape[1],), clip_norm=CLIP, dtype=dtype)
    stacked, alone = (sum_of(leaves, dtype) for _ in range(2))
    expected.add_many(rows)
    try:
        stacked.add_many(leaves)
        for i in range(count):
            alone.add([leaf[i] for leaf in leaves])
    except fd.errors.FerroError:
        return True
    return any(not np.array_equal(integers(each), expected.integers) for each in (stacked, alone))


def shapes_of_trees() -> bool:
    """Whether arrays of other shapes or lengths than asked for are read as if they had these."""
    wanted: Leaves = [np.ones((4, 3, 2), np.float32) for _ in range(12)]
    for first in (0, 1, 11):
        for shape in ((4, 2, 3), (4, 3, 3), (4, 6, 1), (7, 3, 2)):
            others = [np.ones(shape, np.float32) if i == first else leaf for i, leaf in enumerate(wanted)]
            if passes(lambda others=others: sum_of(wanted, np.float32).add_many(others)):
                return True
            one = [leaf[0] for leaf in others]
            if shape[0] == 4 and passes(lambda one=one: sum_of(wanted, np.float32).add(one)):
                return True
    longer: Leaves = [np.ones((4 if i == 0 else 9, 3, 2), np.float32) for i in range(12)]
    return passes(lambda: sum_of(wanted, np.float32).add_many(longer))


def arrays_given_twice() -> bool:
    """Whether one array counts in two places of a tree: what changes it once would move the sum twice."""
    for leaves in (2, 3, 40):
        tree: Leaves = [np.full((4, 3), 0.1) for _ in range(leaves)]
        tree[-1] = tree[0]
        one = [np.full(3, 0.1)] * leaves
        if passes(lambda tree=tree: sum_of(tree, np.float64).add_many(tree)):
            return True
        if passes(lambda tree=tree, one=one: sum_of(tree, np.float64).add(one)):
            return True
    return False


def unaligned(leaf: np.ndarray, by: int) -> np.ndarray:
    """Return a copy that begins so many bytes after an address at which its elements are aligned."""
    memory = np.zeros(leaf.nbytes + by, np.uint8)
    made = np.ndarray(leaf.shape, leaf.dtype, memory, by)
    made[...] = leaf
    return made


def spread(leaf: np.ndarray, by: int) -> np.ndarray:
    """Return a copy whose elements are so many bytes farther apart than they are wide."""
    step = leaf.dtype.itemsize + by
    memory = np.zeros(leaf.size * step + 16, np.uint8)
    strides = np.array([1, *leaf.shape[:0:-1]]).cumprod()[::-1] * step
    made = np.ndarray(leaf.shape, leaf.dtype, memory, 0, tuple(int(each) for each in strides))
    made[...] = leaf
    return made


def inner(leaf: np.ndarray) -> np.ndarray:
    """Return a copy whose last axis lies within a longer one: axes that do not continue each other."""
    wide = np.full((*leaf.shape[:-1], leaf.shape[-1] + 3), 7.0, leaf.dtype)
    wide[..., : leaf.shape[-1]] = leaf
    return wide[..., : leaf.shape[-1]]


def exchanged(leaf: np.ndarray) -> np.ndarray:
    return leaf.swapaxes(-1, -2).copy().swapaxes(-1, -2)


LAYOUTS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.asfortranarray,
    inner,
    exchanged,
    lambda leaf: np.repeat(leaf, 2, axis=-1)[..., ::2],
    lambda leaf: leaf[::-1].copy()[::-1],
    lambda leaf: leaf[..., ::-1].copy()[..., ::-1],
    *(lambda leaf, by=by: unaligned(leaf, by) for by in (1, 2, 4)),
    *(lambda leaf, by=by: spread(leaf, by) for by in (1, 2, 4)),
)


def memory_of_trees() -> bool:
    """Whether it matters in which order, with which gaps and at which addresses elements lie."""
    rng = np.random.default_rng(38)
    for dtype in (np.float16, np.float32, np.float64):
        total = np.float64 if dtype is np.float64 else np.float32
        for shape in ((3, 2), (5, 1), (2, 4, 3), (2, 70)):  # leaves of many columns are read in another way
            plain = [(rng.normal(size=(6, *shape)) / 4).astype(dtype) for _ in range(12)]
            for layout in LAYOUTS:
                if differs([layout(leaf) for leaf in plain], total):
                    return True
                for few in (range(2, 12, 5), range(1)):
                    if differs([layout(leaf) if i in few else leaf for i, leaf in enumerate(plain)], total):
                        return True
    return False


def types_of_trees() -> bool:
    """Whether the dtype of one array of a tree decides on how others are read."""
    rng = np.random.default_rng(39)
    for types in ((np.float32, np.float16), (np.float16, np.float32)):
        for later in (1, 7, 11):
            leaves = [(rng.normal(size=(6, 4)) / 4).astype(types[i >= later]) for i in range(12)]
            if differs(leaves, np.float32):
                return True
    return False


def arrays_of_a_pool() -> bool:
    """Whether arrays that others drop while they are added are read after their memory has been given to others."""
    return any(reads_what_was_dropped() for _ in range(3))


def reads_what_was_dropped() -> bool:
    """Add a tree to a sum that is busy, drop its arrays meanwhile, and have a pool write to their memory then."""
    width, leaves = 20_000, 20
    pool = np.full((leaves, width), 1e-3, np.float32)
    tree = [np.ndarray((width,), np.float32, pool[i].data) for i in range(leaves)]
    for i, leaf in enumerate(tree):
        weakref.finalize(leaf, pool[i].fill, 2e-3)
    del leaf
    made, expected = (fd.ClippedSum([(width,)] * leaves, clip_norm=CLIP, dtype=np.float32) for _ in range(2))
    expected.add([np.full(width, 1e-3, np.float32) for _ in range(leaves)])
    rows = [np.broadcast_to(np.float32(0.0), (4000, width)) for _ in range(leaves)]
    refused: list[Exception] = []

    def add() -> None:
        try:
            made.add(tree, threads=1)
        except fd.errors.FerroError as error:  # the arrays were gone before it began
            refused.append(error)

    busy = threading.Thread(target=made.add_many, args=(rows,), kwargs={"threads": 1})
    second = threading.Thread(target=add)
    busy.start()
    time.sleep(0.05)
    second.start()
    time.sleep(0.05)
    tree.clear()
    busy.join()
    second.join()
    return not refused and not np.array_equal(integers(made), integers(expected))


AUDITS: dict[str, Callable[[], bool]] = {
    "shapes of trees": shapes_of_trees,
    "arrays that are given twice": arrays_given_twice,
    "memory of trees": memory_of_trees,
    "types of trees": types_of_trees,
    "arrays of a pool": arrays_of_a_pool,
}
"""Whether an audit raises an alarm: never by chance."""
