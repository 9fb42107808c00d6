"""Counts by group: of rows, of bins, of different values, and what follows from them: bounds, the most frequent values.

*Different values.* Groups are disjoint, so the values of a group are those of its own rows. A unit with k_j rows in
group j adds at most k_j different values to it when it comes, and takes at most so many away when it goes. One that is
replaced, by one with l_j rows there, moves the number by at most max(k_j, l_j), as what comes cancels what goes. Counts
of rows move by up to k_j, l_j and max(k_j, l_j), too, so L1 and L2 have the same bounds, and the noise is that of
`count`.

*Bounds.* Powers of two are bins of a histogram by group, and the bounds of a group follow from its noised counts as
those of `private_bounds` do from theirs.

*Most frequent values.* The docstring of `values` has the choices and the noise of one group, that of `disjoint` what
those of all groups cost together: half of ε. The counts of what was chosen, in all groups, are counts of disjoint rows.
A unit moves them by k in L1, one that is replaced by 2k, also where each group releases a single one. Their noise costs
the other half.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp._observer import together
from ferrodp.errors import InvalidArray
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, Mechanism, budget
from ferrodp.statistics._column import Column, add_counts, blocks, column, column_of
from ferrodp.statistics._foreign import PART, Labels, Numbers
from ferrodp.statistics._noise import Additive
from ferrodp.statistics.counts import MAX_BINS, bin_places, check_binning, matching, placed, public_labels, timed_edges
from ferrodp.statistics.estimate import Estimate, in_words
from ferrodp.statistics.groups import disjoint
from ferrodp.statistics.groups.rows import Ints, Part, Places, RowsInGroups
from ferrodp.statistics.keys.contributions import pairs, units
from ferrodp.statistics.parts.exact import passed
from ferrodp.statistics.parts.unions import by_group, counted_values_by_group
from ferrodp.statistics.ranks.extremes import Bounded
from ferrodp.statistics.rows import calendars
from ferrodp.statistics.rows.calendars import CalendarBins
from ferrodp.statistics.values import Top
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

    @classmethod
    def around(cls, held: Column, edges: npt.NDArray[np.float64]) -> Bins:
        """Return the bins of numbers between public edges; what is beyond is in the outermost."""
        parts = [np.clip(part.astype(np.float64), edges[0], edges[-1]) for part in blocks(held.values)]
        inside = np.concatenate([np.zeros(0, np.intp), *(bin_places(edges, part) for part in parts)])
        held_in = inside if held.nulls is None else np.where(held.nulls, -1, inside)
        return cls(held_in, tuple(range(edges.size - 1)))

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

    @_arrays.quiet
    def distinct(
        self,
        name: str,
        *,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[Ints]:
        """Return how many different values a column has in each group.

        Parameters
        ----------
        name : str
            A column, as for `private_distinct`: missing rows are left out, and equal values are one. Of each unit the
            rows count that count in all statistics of these groups.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            An int64 array, one number a key; it may be negative.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "doctor": [*range(300)] * 2 + [*range(100)] * 4}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> found = groups.distinct("doctor", epsilon=1.0)
        >>> found.labels, bool(abs(found.value[0] - 300) < 60)
        (('north', 'south'), True)
        """
        spent = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket)
        found = self._any_column(name)
        # mutant: different-values-of-a-unit-in-groups-move-as-one
        mechanism = self._mechanism(spent, self._size)
        places, event = units(found), mechanism.event

        def numbers() -> Ints:
            firsts = pairs(self._codes, places)[1]
            # mutant: values-of-several-rows-of-a-group-counted-as-rows
            return np.bincount(self._codes[firsts], minlength=self._size).astype(np.int64)

        counted = counted_values_by_group(
            numbers,
            lambda: by_group(found, places, self._codes, self._size),
            lambda: (event, self.keys, self._limit, self._of),
        )
        (drawn,) = self._said(spent, "numbers of different values", name).sources(event, null_distance=None)
        released = mechanism.release(counted, source=drawn)
        what = f"numbers of different values of {name} by group{self._of}"
        error = mechanism.standard_deviation
        return spent.estimate(released, error, event, what, Additive(mechanism), labels=self.keys)

    @_arrays.quiet
    def bounds(
        self,
        name: str,
        *,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        magnitudes: tuple[Real, Real] = (2.0**-10, 2.0**64),
        failure_probability: Real = 1e-3,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return bounds of a column in each group: powers of two between which most of its values lie.

        Parameters
        ----------
        name : str
            A column of numbers; missing ones are left out.
        magnitudes, failure_probability
            As for `private_bounds`, of each group.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, the lower bound and the upper one of each key, those of a key one after another; its labels
            are pairs of a key and an end.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_bounds`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "stay": [3.0, 7.0] * 300 + [20.0, 25.0] * 200}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> found = groups.bounds("stay", epsilon=2.0)
        >>> found.value, found.labels[:2]
        (array([ 2.,  8., 16., 32.]), (('north', 'lower'), ('north', 'upper')))
        >>> in_all = (found.value.min(), found.value.max())
        >>> abs(float(groups.mean("stay", bounds=in_all, epsilon=2.0)[0]) - 5.0) < 2.0
        True
        """
        spent = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket)
        looked = Bounded.of(magnitudes, failure_probability)
        held = self._column(name, spent)
        binned = Bins.around(held, looked.edges)
        part = self._count(spent, self._codes, binned)
        ((released,), event) = self._release(self._said(spent, "bounds", name), [part])
        # mutant: bounds-of-groups-of-bare-counts
        noised = released.reshape(self._size, -1)
        ends = [looked.around(each, part.mechanism) for each in noised]
        labels = tuple((key, end) for key in self.keys for end in ("lower", "upper"))
        what = f"bounds of {name} by group{self._of}"
        return spent.estimate(np.concatenate(ends), None, event, what, labels=labels)

    @_arrays.quiet
    def top(
        self,
        name: str,
        number: int,
        *,
        categories: Any,
        epsilon: Real | None = None,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[Ints]:
        """Return the counts of the most frequent public categories of a column in each group, in descending order.

        Parameters
        ----------
        name : str
            A column.
        number : int
            How many categories are released of each group; from 1 to 1000, and at most as many as there are.
        categories
            As for `private_top`: the same in each group.
        epsilon, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            An int64 array, so many noised counts of each key, those of a key one after another in descending order; its
            labels are pairs of a key and a category. Its event is a `ParallelEvent` where a unit has one row and comes
            or goes: all groups cost what one of them does.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_top`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "pet": ["cat"] * 500 + ["dog"] * 500}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> groups.top("pet", 1, categories=["cat", "dog", "fish"], epsilon=2.0).labels
        (('north', 'cat'), ('south', 'dog'))
        """
        spent = budget(epsilon, 0.0, self._rows, neighboring_relation, source, ticket)
        found = self._any_column(name)
        binned = Bins.of(found, column_of(self._frame, name), None, categories)
        size, known = self._size, binned.labels
        # mutant: counts-of-the-tops-of-groups-replaced-in-one-group
        chooser = Top.of(spent, number, len(known), groups=size)
        cells = self._cells(binned)
        whole = disjoint.cost(spent, size, chooser.events)
        (counts,) = passed(
            lambda: self._counted(self._codes, cells, binned),
            lambda: (whole, list(chooser.events), known, self.keys, self._limit, self._of),
        )
        what = f"the {chooser.number} most frequent of {len(known)} public categories"
        drawn = disjoint.sources(self._said(spent, what, name), size, chooser.events, whole)
        with together(whole):
            of_groups = [chooser.released(each, drawn) for each in counts.reshape(size, -1)]
        labels = tuple(
            (key, known[place]) for key, (places, _) in zip(self.keys, of_groups, strict=True) for place in places
        )
        law, values = Additive(chooser.noise), np.concatenate([noised for _, noised in of_groups])
        what = f"counts of the {chooser.number} most frequent categories of {name} by group{self._of}"
        return spent.estimate(values, chooser.noise.standard_deviation, whole, what, law, labels=labels)

    def _count(self, spent: Budget, codes: Places, bins: Bins | None = None) -> Part:
        size = self._cells(bins)
        return Part(self._mechanism(spent, size), lambda: self._counted(codes, size, bins))

    def _cells(self, bins: Bins | None) -> int:
        """Return how many counts there are: of groups, or of the bins of each."""
        size = self._size * (1 if bins is None else len(bins.labels))
        if size > MAX_BINS:
            raise InvalidArray(f"keys and bins must be at most {MAX_BINS} pairs, got {size}")
        return size

    def _mechanism(self, spent: Budget, size: int) -> Mechanism:
        """Return what noises so many counts of disjoint rows, or of their different values."""
        ends = 2 if spent.replaces else 1
        # mutant: rows-of-a-unit-in-several-groups
        squared = self._limit.moved(size, replaced=spent.replaces)
        return spent.mechanism(ends * spent.max_contributions, squared_l2_sensitivity=squared, dimension=size)

    def _counted(self, codes: Places, size: int, bins: Bins | None) -> tuple[Ints, ...]:
        counts = np.zeros(size, np.int64)
        for start in range(0, codes.size, PART):
            rows = slice(start, start + PART)
            cells = codes[rows] if bins is None else bins.cells(codes, rows)
            add_counts(counts, cells[cells >= 0])
        return (counts,)
