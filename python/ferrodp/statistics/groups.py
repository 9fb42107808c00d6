"""Statistics of groups of rows, and how many rows one unit of privacy may have in all of them.

*Groups.* Rows of different groups are disjoint, so a row moves one number of a vector with one number a group: counts
by at most 1, sums by at most the larger bound M. A unit with at most k rows moves the vector by at most kM in L1 and in
L2, in however many groups its rows lie; one that is replaced by 2kM (k rows leave, k others come). With at most r rows
in a group the bound of L2 is M times that of `keys.contributions`: √g·r·M for r rows in each of g groups. That is
parallel composition, by the sensitivity of the vector. Quantiles are choices, one a group: of a unit with one row one
choice changes, which a `ParallelEvent` says. With k rows, k_j of them in group j, the choice of that group, made for
k rows at ε, costs ε·k_j/k, all of them ε: the utility moves in proportion to k_j.

*Units.* `unit` names a column; of each unit a random subset of `rows_per_unit` rows counts, or its first ones. Which
they are depends on the rows of that unit and on coins of their own, so a unit that comes or goes changes nothing about
the rows of others: the proof is in `keys.contributions`. Rows without a unit are left out. Ids are compared exactly,
as Python compares them: rounded to floats two people could be one unit, and one person whose id is written as 7 and as
7.0 must not be two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _validate
from ferrodp._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, NeighboringRelation, ParallelEvent, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics import sums
from ferrodp.statistics._budget import Bounds, Budget, Mechanism, budget
from ferrodp.statistics._budget import bounds as _bounds
from ferrodp.statistics._column import Column, column, column_of, read
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics._noise import Additive, Transformed, ratio_interval
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys.contributions import Contribution
from ferrodp.statistics.ranks import quantiles
from ferrodp.tickets import Ticket

__all__ = ["PrivateGroups"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
Ints = npt.NDArray[np.int64]


class Part(NamedTuple):
    """A vector with one integer a group, and what noises it."""

    mechanism: Mechanism
    exact: Callable[[], Ints]
    width: float = 1.0


class PrivateGroups:
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
        codes: npt.NDArray[np.intp],
        keys: tuple[Any, ...],
        limit: Contribution,
        event: Any = None,
        *,
        of: str = "",
        found_counts: Estimate[Ints] | None = None,
    ) -> None:
        self._frame, self._codes, self._limit, self._of = frame, codes, limit, of
        self._rows = limit.rows
        self.keys: tuple[Any, ...] = keys
        self.event: PrivacyEvent | None = event
        self.found_counts: Estimate[Ints] | None = found_counts

    @property
    def _size(self) -> int:
        if not self.keys:
            raise InvalidParameter("there are no groups: no key reached the threshold")
        return len(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"<PrivateGroups: {len(self.keys)} keys, up to {self._rows} rows a unit>"

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
        ((released,), event) = self._release(spent, [part])
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
            A column of numbers; missing ones are left out.
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
        spent = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket)
        part = self._sum(spent, name, bounds)
        ((released,), event) = self._release(spent, [part])
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
            A column of numbers; missing ones are left out.
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
        spent = budget(epsilon, delta, self._rows, neighboring_relation, source, ticket)
        lower, upper = _bounds(bounds)
        middle = 0.5 * lower + 0.5 * upper
        # mutant: parts-of-a-mean-by-group-get-the-whole-budget
        half = spent.share(1, 2)
        parts = [self._count(half, self._present(self._column(name))), self._sum(half, name, bounds, middle)]
        ((rows, totals), event) = self._release(spent, parts)
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
        return spent.estimate(values, None, event, what, labels=self.keys, _laws=laws, _errors=errors)

    @_arrays.quiet
    def quantile(
        self,
        name: str,
        quantile: Real,
        *,
        bounds: Bounds,
        num_candidates: int | None = None,
        epsilon: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return a candidate near the quantile of a column in each group.

        Parameters
        ----------
        name : str
            A column of numbers; missing ones are left out.
        quantile, bounds, num_candidates
            As for `private_quantile`.
        epsilon, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, one candidate a key. Its event is a `ParallelEvent` where a unit has one row.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.
        """
        spent = budget(epsilon, 0.0, self._rows, _ADD_OR_REMOVE, source, ticket)
        ratio = quantiles._ratio(quantile)
        mechanism = quantiles._choice(spent, ratio)
        if num_candidates is not None:
            _validate.count("num_candidates", num_candidates, minimum=2, maximum=quantiles.MAX_CANDIDATES)
        held = self._column(name)
        points = quantiles._points(bounds, None, num_candidates, held)
        known = self._present(held)
        order = np.argsort(known, kind="stable")
        ends = np.searchsorted(known[order], np.arange(len(self.keys) + 1))
        parts = [order[a:b] for a, b in zip(ends.tolist(), ends[1:].tolist(), strict=False)]
        events = (mechanism.event,) * self._size
        # mutant: groups-of-several-rows-taken-for-parallel
        parallel = self._rows == 1
        event: PrivacyEvent = ParallelEvent(events=events) if parallel else EpsilonDeltaEvent(epsilon=spent.epsilon)
        drawn_by = events if parallel else (event,) * len(events)
        # mutant: parallel-groups-charged-as-a-sequence
        sources = spent.sources(*drawn_by, null_distance=None, event=event)
        chosen = []
        for part, drawn in zip(parts, sources, strict=True):
            chosen.append(
                quantiles.choose(Column(held.values[part], None, True, True), points, ratio, mechanism, drawn)
            )
        what = f"quantiles {float(ratio):g} of {name} by group{self._of}"
        return spent.estimate(np.array(chosen, np.float64), None, event, what, labels=self.keys)

    def _count(self, spent: Budget, codes: npt.NDArray[np.intp]) -> Part:
        ends = 2 if spent.replaces else 1
        rows, size = spent.max_contributions, self._size
        # mutant: rows-of-a-unit-in-several-groups
        squared = ends * self._limit.squared
        mechanism = spent.mechanism(ends * rows, squared_l2_sensitivity=squared, dimension=size)
        return Part(mechanism, lambda: np.bincount(codes[codes >= 0], minlength=size).astype(np.int64))

    def _sum(self, spent: Budget, name: str, ends: Any, middle: float = 0.0) -> Part:
        lower, upper = _bounds(ends)
        reach = max(upper - middle, middle - lower)
        if not 1e-250 <= reach <= 1e300:
            raise InvalidParameter("bounds must be at least 2e-250 apart")
        grid = sums._grid(lower - middle, upper - middle) if not middle else sums._grid(-reach, reach)
        held = self._column(name)
        step = (2 if spent.replaces else 1) * grid.moved_by(1, replaced=False)
        # mutant: sums-of-a-unit-move-less-than-its-rows
        squared = step**2 * self._limit.squared
        mechanism = spent.mechanism(
            step * spent.max_contributions, squared_l2_sensitivity=squared, dimension=self._size
        )
        codes = self._present(held)

        def exact() -> Ints:
            totals = np.zeros(len(self.keys), np.int64)
            for start in range(0, codes.size, 1 << 18):
                part = codes[start : start + (1 << 18)]
                taken = part >= 0
                values = np.array(held.values[start : start + (1 << 18)][taken], np.float64)
                steps = grid.quantized(np.clip(values, lower, upper) - middle)
                # bincount adds floats: halves of 32-bit steps keep every partial sum below 2⁵³, so they are exact
                for shift, half in ((16, steps >> 16), (0, steps & 0xFFFF)):
                    found = np.bincount(part[taken], weights=half, minlength=totals.size)
                    totals += found.astype(np.int64) << shift
            return totals

        return Part(mechanism, exact, grid.width)

    def _any_column(self, name: str) -> Numbers | Labels:
        found = read(column_of(self._frame, name), name)
        if found.values.size > sums._MAX_ROWS:
            raise InvalidParameter(f"a table must have at most {sums._MAX_ROWS} rows")
        if found.values.size != self._codes.size:
            raise InvalidArray(f"column {name} must have as many rows as the others")
        return found

    def _column(self, name: str) -> Column:
        self._any_column(name)
        return column(column_of(self._frame, name), "drop", name)

    def _present(self, found: Numbers | Labels | Column) -> npt.NDArray[np.intp]:
        """Return the groups of rows, −1 for those that are missing in a column."""
        if isinstance(found, Labels):
            return np.where(found.present(), self._codes, -1)
        codes = self._codes if found.nulls is None else np.where(found.nulls, -1, self._codes)
        return np.where(np.isnan(found.values), -1, codes) if found.values.dtype.kind == "f" else codes

    def _release(self, spent: Budget, parts: Sequence[Part]) -> tuple[list[Ints], PrivacyEvent]:
        """Return the noised vectors of all parts, and what they cost together."""
        vectors = [part.exact() for part in parts]
        events = tuple(part.mechanism.event for part in parts)
        sources = spent.sources(*events, null_distance=None)
        for part, vector, drawn in zip(parts, vectors, sources, strict=True):
            # mutant: groups-without-rows-get-no-noise
            part.mechanism.release(vector, out=vector, source=drawn)
        return vectors, events[0] if len(events) == 1 else ComposedEvent(events=events)

    def _estimate(self, spent: Budget, released: Ints, part: Part, event: PrivacyEvent, what: str) -> Estimate[Any]:
        values = released if part.width == 1.0 and what.startswith("counts") else released * part.width
        error = part.mechanism.standard_deviation * part.width
        return spent.estimate(
            values, error, event, what + self._of, Additive(part.mechanism, part.width), labels=self.keys
        )


def _mean_interval(
    total: float, rows: int, parts: Sequence[Part], middle: float, ends: tuple[float, float]
) -> Callable[[float], tuple[float, float]]:
    lower, upper = ends
    counter, summer = parts

    def interval(level: float) -> tuple[float, float]:
        if rows < 1:
            return lower, upper
        low, high = ratio_interval(total, rows, summer.mechanism, summer.width, counter.mechanism, level)
        return min(max(middle + low, lower), upper), min(max(middle + high, lower), upper)

    return interval
