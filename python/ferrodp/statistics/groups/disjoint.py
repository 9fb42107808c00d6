"""Choices in groups of rows: one a group, or several about the rows of each.

*Cost.* Groups are disjoint. Of a unit with one row one group changes, which a `ParallelEvent` says: its parts are what
the choices about one group cost together. Of a unit with k rows, k_j of them in group j, a choice in that group, made
for k rows at ε, costs ε·k_j/k, as the utility moves in proportion to k_j: all of them cost ε.

*A unit that is replaced* changes the groups of its rows before and of those after, which no `ParallelEvent` bounds:
stated is ε. Of the choices here those of the most frequent values are made for such units, too. If k_j rows leave group
j and l_j come, each count there moves by a number from −k_j to l_j. An exponential mechanism costs at most the width of
such a range over its scale: with 2k/ε that is (k_j + l_j)·ε/2k, and all groups cost ε, as Σ k_j and Σ l_j are k at
most. Where a null record takes the place of a unit, its rows leave and none come: counts move one way, and k/ε is
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._observer import together
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation, ParallelEvent, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget
from ferrodp.statistics._column import Column
from ferrodp.statistics.parts.exact import passed_groups
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import candidates, quantiles

Doubles = npt.NDArray[np.float64]


def released(
    spent: Budget,
    held: Column,
    codes: npt.NDArray[np.signedinteger[Any]],
    size: int,
    events: Sequence[PrivacyEvent],
    choose: Callable[[Ascending, Iterator[NoiseSource]], None],
    public: Any,
) -> PrivacyEvent:
    """Make all choices about each group, and return what they cost; `events` are those of one group.

    `choose` gets the rows of a group, and a source for each choice; `public` is what else it
    depends on.
    """
    whole = cost(spent, size, events)
    groups = passed_groups(lambda: _ordered(held, codes, size), lambda: (whole, list(events), size, public, spent.unit))
    drawn = sources(spent, size, events, whole)
    with together(whole):
        for rows in groups:
            choose(rows, drawn)
    return whole


def cost(spent: Budget, size: int, events: Sequence[PrivacyEvent]) -> PrivacyEvent:
    """Return what releases about each of so many groups cost together; `events` are those of one group."""
    # mutant: groups-of-several-rows-taken-for-parallel
    parallel = spent.max_contributions == 1
    # mutant: groups-of-replaced-units-taken-for-parallel
    if parallel and spent.relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return ParallelEvent(events=(quantiles.composed(events),) * size)
    return EpsilonDeltaEvent(epsilon=spent.epsilon)


def sources(spent: Budget, size: int, events: Sequence[PrivacyEvent], whole: PrivacyEvent) -> Iterator[NoiseSource]:
    """Return a source for each release about each of so many groups, in the order of groups; they are paid for."""
    each = tuple(events) if isinstance(whole, ParallelEvent) else (whole,) * len(events)
    # mutant: parallel-groups-charged-as-a-sequence
    return iter(spent.sources(*(each * size), null_distance=None, event=whole))


def _ordered(held: Column, codes: npt.NDArray[np.intp], size: int) -> Iterator[Doubles]:
    """Go through the rows of each group in ascending order."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(size + 1))
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        yield candidates.ordered(Column(held.values[order[start:stop]], None, True, True))
