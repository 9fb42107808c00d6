"""Choices in groups of rows: one a group, or several about the rows of each.

*Cost.* Groups are disjoint. Of a unit with one row one group changes, which a `ParallelEvent` says: its parts are what
the choices about one group cost together. Of a unit with k rows, k_j of them in group j, a choice in that group, made
for k rows at ε, costs ε·k_j/k, as the utility moves in proportion to k_j: all of them cost ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.events import EpsilonDeltaEvent, ParallelEvent, PrivacyEvent
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
    of_group = quantiles.composed(events)
    # mutant: groups-of-several-rows-taken-for-parallel
    parallel = spent.max_contributions == 1
    whole: PrivacyEvent = (
        ParallelEvent(events=(of_group,) * size) if parallel else EpsilonDeltaEvent(epsilon=spent.epsilon)
    )
    each = events if parallel else (whole,) * len(events)
    groups = passed_groups(lambda: _ordered(held, codes, size), lambda: (whole, list(events), size, public, spent.unit))
    # mutant: parallel-groups-charged-as-a-sequence
    sources = iter(spent.sources(*(tuple(each) * size), null_distance=None, event=whole))
    for rows in groups:
        choose(rows, sources)
    return whole


def _ordered(held: Column, codes: npt.NDArray[np.intp], size: int) -> Iterator[Doubles]:
    """Go through the rows of each group in ascending order."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(size + 1))
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        yield candidates.ordered(Column(held.values[order[start:stop]], None, True, True))
