"""Counts by group, and histograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, budget
from ferrodp.statistics._column import add_counts, blocks, column, column_of
from ferrodp.statistics._foreign import PART, Labels, Numbers
from ferrodp.statistics.counts import bin_places, check_binning, matching, placed, public_labels, timed_edges
from ferrodp.statistics.estimate import Estimate, in_words
from ferrodp.statistics.groups.rows import Ints, Part, Places, RowsInGroups
from ferrodp.statistics.rows import calendars
from ferrodp.statistics.rows.calendars import CalendarBins
from ferrodp.tickets import Ticket

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


class Bins(NamedTuple):
    """The bin of each row, −1 for none, and what the bins are called."""

    places: Places
    labels: tuple[Any, ...]

    @classmethod
    def of(cls, found: Numbers | Labels, values: Any, bins: Any, categories: Any) -> Bins:
        """Return the bins of a column, or refuse what is neither edges nor categories."""
        check_binning(bins, categories)
        if bins is None:
            known = matching(public_labels(categories), found, "categories")
            labels = tuple(known.tolist() if isinstance(known, np.ndarray) else known)
            return cls(placed(found, known), labels)
        if isinstance(bins, CalendarBins):
            return cls(calendars.places(bins, found, "values"), bins.labels)
        clock, edges = timed_edges(bins)
        held = column(values, clock=clock)
        parts = [bin_places(edges, part) for part in blocks(held.values)]
        inside = np.concatenate([np.zeros(0, np.intp), *parts])
        names = tuple(in_words(edges if clock is None else clock._replace(whole=True).moments(edges)))
        return cls(inside if held.nulls is None else np.where(held.nulls, -1, inside), names)

    def cells(self, codes: Places, rows: slice) -> Places:
        """Return the place of each of some rows among the bins of all groups, −1 for none."""
        groups, places = codes[rows], self.places[rows]
        return np.where((groups >= 0) & (places >= 0), groups * np.int64(len(self.labels)) + places, -1)


class CountsByGroup(RowsInGroups):
    """The counts of a `PrivateGroups`, which is one."""

    @_arrays.quiet
    def count(
        self,
        name: str | None = None,
        *,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[Ints]:
        """Return how many rows each group has.

        Parameters
        ----------
        name : str, optional
            A column: rows where it is missing are left out.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            An int64 array, one count a key; it may be negative.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.
        """
        spent = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket)
        codes = self._codes if name is None else self._present(self._any_column(name))
        part = self._count(spent, codes)
        ((released,), event) = self._release(self._said(spent, "counts", name), [part])
        return self._estimate(spent, released, part, event, "counts by group")

    @_arrays.quiet
    def histogram(
        self,
        name: str,
        *,
        bins: Any = None,
        categories: Any = None,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[Ints]:
        """Return how many rows of each group fall into each public bin or category.

        Parameters
        ----------
        name : str
            A column.
        bins, categories
            As for `private_histogram`.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            An int64 array, one count for each bin of each key, those of a key one after another; its labels are pairs
            of a key and a bin.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 300 + ["south"] * 200, "age": [30.0] * 400 + [50.0] * 100}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> groups.histogram("age", bins=[0, 40, 80], epsilon=1.0).labels[0]
        ('north', '[0, 40)')
        """
        spent = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket)
        found = self._any_column(name)
        binned = Bins.of(found, column_of(self._frame, name), bins, categories)
        part = self._count(spent, self._codes, binned)
        said = self._said(spent, f"counts by {len(binned.labels)} bins or categories and", name)
        ((released,), event) = self._release(said, [part])
        labels = tuple((key, label) for key in self.keys for label in binned.labels)
        return self._estimate(spent, released, part, event, f"counts of {name} by group", labels)

    def _count(self, spent: Budget, codes: Places, bins: Bins | None = None) -> Part:
        ends = 2 if spent.replaces else 1
        rows, size = spent.max_contributions, self._size * (1 if bins is None else len(bins.labels))
        # mutant: rows-of-a-unit-in-several-groups
        squared = self._limit.moved(size, replaced=spent.replaces)
        mechanism = spent.mechanism(ends * rows, squared_l2_sensitivity=squared, dimension=size)

        def exact() -> tuple[Ints, ...]:
            counts = np.zeros(size, np.int64)
            for start in range(0, codes.size, PART):
                rows = slice(start, start + PART)
                cells = codes[rows] if bins is None else bins.cells(codes, rows)
                add_counts(counts, cells[cells >= 0])
            return (counts,)

        return Part(mechanism, exact)
