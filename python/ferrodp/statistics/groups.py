"""Statistics of groups of rows, and how many rows one unit of privacy may have in all of them.

*Groups.* Rows of different groups are disjoint, so a row moves one number of a vector with one number a group: counts
by at most 1, sums by at most the larger bound M. A unit with at most k rows moves the vector by at most kM in L1 and in
L2, in however many groups its rows lie; one that is replaced by 2kM (k rows leave, k others come). With at most r rows
in a group the bound of L2 is M times that of `keys.contributions`: √g·r·M for r rows in each of g groups; r·M if there
is one group in all. That is parallel composition, by the sensitivity of the vector. The bins of a histogram are cells
of the groups, and disjoint too: r rows of a group move L2 most if they lie in one cell. Quantiles are choices, one a
group: what they cost is in the docstring of `ranks.of_groups`.

*Units.* `unit` names a column; of each unit a random subset of `rows_per_unit` rows counts, or its first ones. Which
they are depends on the rows of that unit and on coins of their own, so a unit that comes or goes changes nothing about
the rows of others: the proof is in `keys.contributions`. Rows without a unit are left out. Ids are compared exactly,
as Python compares them: rounded to floats two people could be one unit, and one person whose id is written as 7 and as
7.0 must not be two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics import moments, sums
from ferrodp.statistics._budget import Bounds, Budget, Mechanism, budget
from ferrodp.statistics._budget import bounds as _bounds
from ferrodp.statistics._column import Column, add_counts, blocks, column, column_of, read
from ferrodp.statistics._foreign import PART, Labels, Numbers
from ferrodp.statistics._noise import Additive, Transformed, ratio_interval
from ferrodp.statistics.counts import bin_places, check_binning, matching, placed, public_labels, timed_edges
from ferrodp.statistics.estimate import Estimate, Sample, in_words
from ferrodp.statistics.keys.contributions import Contribution
from ferrodp.statistics.parts.exact import is_whole, passed
from ferrodp.statistics.ranks.by_group import ChoicesByGroup
from ferrodp.statistics.rows import calendars
from ferrodp.statistics.rows.calendars import CalendarBins
from ferrodp.tickets import Ticket

__all__ = ["PrivateGroups"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.signedinteger[Any]]


class Part(NamedTuple):
    """A vector with one integer a group, and what noises it."""

    mechanism: Mechanism
    exact: Callable[[], tuple[Ints, ...]]
    """The integers, or for sums steps and the parts beyond them."""
    width: float = 1.0
    slack: int = 0


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


class PrivateGroups(ChoicesByGroup):
    """Rows in groups with public keys; made by `private_group_by`. Each statistic is one release about all groups.

    Attributes
    ----------
    keys : tuple
        The keys, in the order in which numbers are released.
    event : PrivacyEvent or None
        What finding the keys cost; None if they were given.
    found_counts : Estimate or None
        The noised counts by which a `KeyThreshold` found the keys: `event` has paid for them. Keys are there because
        their noise was not too low, so counts near the threshold are too high on average, and so are their intervals.

    Examples
    --------
    >>> import ferrodp as fd
    >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 600 + [50.0] * 400}
    >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
    >>> len(groups), groups.mean("age", bounds=(0, 100), epsilon=1.0).labels
    (2, ('north', 'south'))
    >>> groups.count(epsilon=1.0).value.dtype, groups.sum("age", bounds=(0, 100), epsilon=1.0).value.dtype
    (dtype('int64'), dtype('float64'))
    >>> groups.quantile("age", 0.5, bounds=(0, 100), num_candidates=11, epsilon=2.0).value
    array([30., 50.])
    """

    def __init__(
        self,
        frame: Any,
        codes: Places,
        keys: tuple[Any, ...],
        limit: Contribution,
        event: Any = None,
        *,
        of: str = "",
        by: Sequence[str] = (),
        unit: str | None = None,
        found_counts: Estimate[Ints] | None = None,
    ) -> None:
        self._frame, self._codes, self._limit, self._of = frame, codes, limit, of
        self._rows = limit.rows
        self._by, self._unit = tuple(by), unit
        self.keys: tuple[Any, ...] = keys
        self.event: PrivacyEvent | None = event
        self.found_counts: Estimate[Ints] | None = found_counts
        self._are_rows_here = is_whole()

    @property
    def _size(self) -> int:
        # mutant: statistics-of-no-rows-for-those-of-partitions
        if not self._are_rows_here and is_whole():
            raise InvalidParameter(
                "the rows of these groups must be at hand, and they are in partitions: give the keys that were found "
                "to a statistic of their own, private_group_by(frame, ..., keys=groups.keys) in private_statistic"
            )
        if not self.keys:
            raise InvalidParameter("there are no groups: no key reached the threshold")
        return len(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"<PrivateGroups: {len(self.keys)} keys, up to {self._rows} rows a unit>"

    def most_frequent(self, number: int) -> Estimate[Ints]:
        """Return the found keys with the largest released counts, in descending order: heavy hitters of unknown keys.

        Post-processing of `found_counts`, which `event` has paid for: it costs nothing, with any number, again and
        again. Of equal counts the one whose key comes first in `keys` is first.

        Parameters
        ----------
        number : int
            How many, ≥ 1; all of them if fewer were found.

        Returns
        -------
        Estimate
            Counts with the noise of `found_counts`, and keys as labels. The largest of noised counts are too high on
            average, and so are their intervals.

        Raises
        ------
        InvalidParameter, InvalidType
            If `number` is out of its domain, or the keys were not found by a `KeyThreshold`.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"word": ["sea"] * 300 + ["whale"] * 900 + ["ship"] * 500 + ["Ishmael"]}
        >>> groups = fd.private_group_by(frame, "word", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-6))
        >>> groups.most_frequent(2).labels
        ('whale', 'ship')
        """
        number = _validate.count("number", number)
        if self.found_counts is None:
            raise InvalidParameter(
                "keys must have been found by a KeyThreshold, which releases counts, to be ordered by them"
            )
        order = np.argsort(-self.found_counts.value, kind="stable")[:number]
        labels = tuple(self.keys[place] for place in order.tolist())
        return replace(self.found_counts, value=self.found_counts.value[order], labels=labels)

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
    def sum(
        self,
        name: str,
        *,
        bounds: Bounds,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return the sum of a column in each group, its values clamped to public bounds.

        Parameters
        ----------
        name : str
            A column of numbers, or of times as bounds are; missing ones are left out.
        bounds : (float, float)
            As for `private_sum`.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, one sum a key.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.
        """
        spent, bounds = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket).timed(bounds)
        sums.check_durations(spent)
        part = self._sum(spent, name, bounds)
        ((released,), event) = self._release(self._said(spent, "sums", name, _bounds(bounds)), [part])
        return self._estimate(spent, released, part, event, f"sums of {name} by group")

    @_arrays.quiet
    def mean(
        self,
        name: str,
        *,
        bounds: Bounds,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return the mean of a column in each group, its values clamped to public bounds.

        Half of the budget is for the numbers of rows, half for the sums.

        Parameters
        ----------
        name : str
            A column of numbers, or of times as bounds are; missing ones are left out.
        bounds : (float, float)
            As for `private_sum`.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, one mean a key, within the bounds.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.
        """
        spent, bounds = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket).timed(bounds)
        lower, upper = _bounds(bounds)
        middle = 0.5 * lower + 0.5 * upper
        # mutant: parts-of-a-mean-by-group-get-the-whole-budget
        half = spent.share(1, 2)
        parts = [self._count(half, self._present(self._column(name, spent))), self._sum(half, name, bounds, middle)]
        ((rows, totals), event) = self._release(self._said(spent, "means", name, (lower, upper)), parts)
        summer = parts[1]
        ratios = totals * summer.width / np.maximum(rows, 1)
        values = np.clip(middle + ratios, lower, upper)
        laws = tuple(
            Transformed(_mean_interval(total * summer.width, count, parts, middle, (lower, upper)))
            for total, count in zip(totals.tolist(), rows.tolist(), strict=True)
        )
        noise = summer.mechanism.standard_deviation * summer.width
        of_rows = (values - middle) * parts[0].mechanism.standard_deviation
        errors = np.where(rows > 0, np.hypot(noise, of_rows) / np.maximum(rows, 1), np.nan)
        what = f"means of {name} by group{self._of}"
        sample = Sample(rows, sums.reach_of_rows(parts[0].mechanism), (lower, upper)) if self._rows == 1 else None
        return spent.estimate(values, None, event, what, labels=self.keys, _laws=laws, _errors=errors, _sample=sample)

    @_arrays.quiet
    def variance(
        self,
        name: str,
        *,
        bounds: Bounds,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return the variance of a column in each group, its values clamped to public bounds.

        A third of the budget each is for the numbers of rows, the sums of distances, and the sums of their squares.

        Parameters
        ----------
        name : str
            A column of numbers, or of times as bounds are; missing ones are left out.
        bounds : (float, float)
            As for `private_variance`.
        epsilon, delta, neighboring_relation, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, one variance a key.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 600 + [50.0] * 400}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> groups.variance("age", bounds=(0, 100), epsilon=1.0).labels
        ('north', 'south')
        """
        spent, bounds = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket).timed(bounds)
        about = moments.About.of(bounds)
        third = spent.share(1, 3)
        held = self._column(name, spent)
        parts = [
            self._count(third, self._present(held)),
            self._summed(third, held, about.distances, about.distance),
            self._summed(third, held, about.squares, about.square),
        ]
        said = self._said(spent, "variances", name, (about.lower, about.upper))
        ((rows, first, second), event) = self._release(said, parts)
        of_parts = parts[0].mechanism, parts[1].mechanism, parts[2].mechanism
        found = [
            about.variance(each, of_parts) for each in zip(rows.tolist(), first.tolist(), second.tolist(), strict=True)
        ]
        errors = np.array([math.nan if each.error is None else each.error for each in found])
        return spent._replace(clock=None).estimate(
            np.array([each.value for each in found]),
            None,
            event,
            f"variances of {name} by group{moments.squared_unit(spent)}{self._of}",
            labels=self.keys,
            _laws=tuple(Transformed(each.interval) for each in found),
            _errors=errors,
        )

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

    def _said(
        self, spent: Budget, what: str, name: str | None = None, ends: tuple[float, float] | None = None
    ) -> Budget:
        """Return the budget that knows what is released, by which groups, and of whom."""
        by = f" by groups of {', '.join(map(str, self._by))}" if self._by else ""
        words = spent.words._replace(unit=self._unit, kept=self._of)
        return spent._replace(words=words).says(what + by, name, ends)

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

    def _sum(self, spent: Budget, name: str, ends: Any, middle: float = 0.0) -> Part:
        lower, upper = _bounds(ends)
        reach = max(upper - middle, middle - lower)
        if not 1e-250 <= reach <= 1e300:
            raise InvalidParameter("bounds must be at least 2e-250 apart")
        grid = sums._grid(lower - middle, upper - middle) if not middle else sums._grid(-reach, reach)
        return self._summed(spent, self._column(name, spent), grid, lambda rows: np.clip(rows, lower, upper) - middle)

    def _summed(
        self,
        spent: Budget,
        held: Column,
        grid: sums._Grid,
        taken_as: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    ) -> Part:
        """Return the sums of what rows are taken as, which lies within the range of the grid."""
        step = (2 if spent.replaces else 1) * grid.moved_by(1, replaced=False)
        # mutant: sums-of-a-unit-move-less-than-its-rows
        squared = step**2 * self._limit.moved(self._size)
        mechanism = spent.mechanism(
            step * spent.max_contributions, squared_l2_sensitivity=squared, dimension=self._size
        )
        codes = self._present(held)

        def exact() -> tuple[Ints, ...]:
            totals, beyond = np.zeros((2, len(self.keys)), np.int64)
            for start in range(0, codes.size, PART):
                part = codes[start : start + PART]
                taken = part >= 0
                values = np.array(held.values[start : start + PART][taken], np.float64)
                halves = grid.quantized(taken_as(values))
                # bincount adds floats: steps of 31 bits and parts of 22 keep every partial sum below 2⁵³: exact
                for sums_of_halves, half in zip((totals, beyond), halves, strict=True):
                    found = np.bincount(part[taken], weights=half, minlength=totals.size)
                    sums_of_halves += found.astype(np.int64)
            return totals, beyond

        return Part(mechanism, exact, grid.width, sums.SLACK)

    def _any_column(self, name: str) -> Numbers | Labels:
        found = read(column_of(self._frame, name), name)
        if found.values.size > sums._MAX_ROWS:
            raise InvalidParameter(f"a table must have at most {sums._MAX_ROWS} rows")
        if found.values.size != self._codes.size:
            raise InvalidArray(f"column {name} must have as many rows as the others")
        return found

    def _column(self, name: str, spent: Budget) -> Column:
        self._any_column(name)
        return column(column_of(self._frame, name), "drop", name, spent.clock)

    def _present(self, found: Numbers | Labels | Column) -> Places:
        """Return the groups of rows, −1 for those that are missing in a column."""
        if isinstance(found, Labels):
            return np.where(found.present(), self._codes, -1)
        codes = self._codes if found.nulls is None else np.where(found.nulls, -1, self._codes)
        return np.where(np.isnan(found.values), -1, codes) if found.values.dtype.kind == "f" else codes

    def _release(self, spent: Budget, parts: Sequence[Part]) -> tuple[list[Ints], PrivacyEvent]:
        """Return the noised vectors of all parts, and what they cost together."""
        events = tuple(part.mechanism.event for part in parts)
        found = passed(
            lambda: [part.exact() for part in parts],
            lambda: (events, [(part.width, part.slack) for part in parts], self.keys, self._limit, self._of),
        )
        vectors = [whole + sums.rounded_steps(beyond[0]) if beyond else whole for whole, *beyond in found]
        sources = spent.sources(*events, null_distance=None)
        for part, vector, drawn in zip(parts, vectors, sources, strict=True):
            # mutant: groups-without-rows-get-no-noise
            part.mechanism.release(vector, out=vector, source=drawn)
        return vectors, events[0] if len(events) == 1 else ComposedEvent(events=events)

    def _estimate(
        self,
        spent: Budget,
        released: Ints,
        part: Part,
        event: PrivacyEvent,
        what: str,
        labels: tuple[Any, ...] | None = None,
    ) -> Estimate[Any]:
        values = released if part.width == 1.0 and what.startswith("counts") else released * part.width
        error = part.mechanism.standard_deviation * part.width
        return spent.estimate(
            values,
            error,
            event,
            what + self._of,
            Additive(part.mechanism, part.width, part.slack),
            labels=self.keys if labels is None else labels,
        )


def _mean_interval(
    total: float, rows: int, parts: Sequence[Part], middle: float, ends: tuple[float, float]
) -> Callable[[float], tuple[float, float]]:
    lower, upper = ends
    counter, summer = parts

    def interval(level: float) -> tuple[float, float]:
        if rows < 1:
            return lower, upper
        of_sum = summer.mechanism, summer.width, summer.slack
        low, high = ratio_interval(total, rows, of_sum, counter.mechanism, level)
        return min(max(middle + low, lower), upper), min(max(middle + high, lower), upper)

    return interval
