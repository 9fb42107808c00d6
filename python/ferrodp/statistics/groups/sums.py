"""Sums, means and variances by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics import moments, sums
from ferrodp.statistics._budget import Bounds, Budget, budget
from ferrodp.statistics._budget import bounds as _bounds
from ferrodp.statistics._column import Column
from ferrodp.statistics._foreign import PART
from ferrodp.statistics._noise import Transformed, ratio_interval
from ferrodp.statistics.estimate import Estimate, Sample
from ferrodp.statistics.groups.counts import CountsByGroup
from ferrodp.statistics.groups.rows import Ints, Part
from ferrodp.statistics.rows.times import of_bounds
from ferrodp.tickets import Ticket

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


class SumsByGroup(CountsByGroup):
    """The sums of a `PrivateGroups`, which is one; means and variances need its counts, too."""

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

    def standard_deviation(
        self,
        name: str,
        *,
        bounds: Bounds,
        epsilon: Real | None = None,
        delta: Real = 0.0,
        neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[Any]:
        """Return the standard deviation of a column in each group, its values clamped to public bounds.

        Parameters
        ----------
        name, bounds, epsilon, delta, neighboring_relation, source, ticket
            As for `variance`, whose roots are returned: post-processing.

        Returns
        -------
        Estimate
            A float64 array, one standard deviation a key, or durations where bounds are times.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_count`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 6000 + ["south"] * 4000, "age": [20.0, 40.0] * 3000 + [50.0] * 4000}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> found = groups.standard_deviation("age", bounds=(0, 60), epsilon=1.0)
        >>> found.labels, abs(float(found[0]) - 10.0) < 2.0
        (('north', 'south'), True)
        """
        variances = self.variance(
            name,
            bounds=bounds,
            epsilon=epsilon,
            delta=delta,
            neighboring_relation=neighboring_relation,
            source=source,
            ticket=ticket,
        )
        clock, _ = of_bounds(bounds)
        values, laws = variances.value, variances._laws or ()
        errors, roots = np.asarray(variances._errors), np.sqrt(values)
        found = replace(
            variances,
            value=roots,
            statistic=f"standard deviations of {name} by group{self._of}",
            _laws=tuple(moments.root_law(law, value) for law, value in zip(laws, values.tolist(), strict=True)),
            _errors=np.where(roots > 0.0, errors / (2.0 * np.where(roots > 0.0, roots, 1.0)), np.nan),
        )
        return found if clock is None else moments.in_durations(found, clock)

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
