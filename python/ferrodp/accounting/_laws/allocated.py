"""Rounds of random allocation as pairs of laws: from above and from below, for any pair of laws of a step.

The Rust module `ferrodp_accounting::sampling::allocation` has laws and proofs. Rounds in which a record takes part in
k > 1 of T steps cost no more than k rounds of one step each, as in [FS25]: divide the steps at random into k blocks,
all divisions equally likely, and let the record take part in one step of each. Every choice of k steps is then equally
likely, and whoever learns the blocks as well learns no less. Given the blocks, the likelihood ratio is the product of
their means, and a convex function of it is convex in the ratio of each step by itself: going backward in time, as for
one block, its mean is largest if all ratios have the law of the pair.

Where a few steps outweigh all others, two steps of one block of twice the length are closer to the truth: its laws are
`couples` in the Rust module. The selected steps are divided in twos, and one by itself if their number is odd.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, TypeAlias

from ferrodp import _native

Spec: TypeAlias = tuple[Any, ...]

MAX_NODES = 40_000
"""Of the law of a round; beyond, its spacing is doubled."""
NODES = 3_000
"""Of the law of a round, about, unless a spacing is given."""
_FINEST, _WIDEST = 1e-7, 2.0**-6
_OF_COUPLES = 2.0**-8
"""The spacing of laws of couples, whose nodes were farther apart before."""
MAX_STEPS = 2**53


class Laws(NamedTuple):
    """Pairs of laws of one round, the record in the first law: None where there is none."""

    above: Spec | None
    below: Spec | None


@functools.lru_cache(maxsize=64)
def laws(above: Spec, below: Spec | None, steps: int, selected: int, spacing: float | None = None) -> Laws:
    """Return the laws of a round whose steps are dominated by one pair and dominate another."""
    return Laws(
        _law(above, steps, selected, spacing, is_upper=True),
        None if below is None or selected > 1 else _law(below, steps, selected, spacing, is_upper=False),
    )


def _law(step: Spec, steps: int, selected: int, spacing: float | None, *, is_upper: bool) -> Spec | None:
    if spacing is not None:
        return _fitting(step, steps, selected, spacing, is_upper)
    spacing = _WIDEST
    couples = _couples(step, steps, selected) if is_upper else None
    if couples is not None:
        return couples
    while True:
        law = _fitting(step, steps, selected, spacing, is_upper)
        if law is None:
            return None
        nodes = len(law[1].masses()[1])
        finer = spacing * 2.0 ** max(math.floor(math.log2(nodes / NODES)), -3)
        if nodes > NODES // 2 or finer < _FINEST:
            return law
        spacing = finer


def _couples(step: Spec, steps: int, selected: int) -> Spec | None:
    """Return the law from above of selected steps in twos, or None if it is not the one to take."""
    if selected < 2 or not _native.AllocationCouples.suits(step, 2 * steps // selected):
        return None
    alone = steps // selected if selected % 2 else 0
    try:
        law = _native.AllocationLaw(step, alone, _OF_COUPLES, True, MAX_NODES) if alone else None
        for length, times in blocks(steps - alone, selected // 2):
            block = _native.AllocationCouples(step, length, MAX_NODES).law(_OF_COUPLES, MAX_NODES)
            if times > 1:
                block = block.repeated(times, MAX_NODES)
            law = block if law is None else law.joined(block, MAX_NODES)
    except MemoryError:
        return None
    return ("allocated", law)


def _fitting(step: Spec, steps: int, selected: int, spacing: float, is_upper: bool) -> Spec | None:
    """Return the law with the spacing doubled until it fits."""
    while spacing <= 1.0:
        try:
            law = None
            for length, times in blocks(steps, selected):
                block = _native.AllocationLaw(step, length, spacing, is_upper, MAX_NODES)
                if times > 1:
                    block = block.repeated(times, MAX_NODES)
                law = block if law is None else law.joined(block, MAX_NODES)
        except MemoryError:
            spacing *= 2.0
        else:
            return ("allocated", law)
    return None


def blocks(steps: int, selected: int) -> list[tuple[int, int]]:
    """Return the lengths of the blocks that a round is divided into, and how many there are of each."""
    if not selected:
        return []
    length, longer = divmod(steps, selected)
    return [(each, times) for each, times in ((length, selected - longer), (length + 1, longer)) if times]
