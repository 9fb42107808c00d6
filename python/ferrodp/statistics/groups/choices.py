"""Choices in groups of rows: quantiles, medians, minima and maxima of a column in each group.

What they cost is in the docstring of `disjoint`; utilities and intervals are those of `quantiles` and `extremes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Bounds, Budget, budget
from ferrodp.statistics._column import Column
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.groups import disjoint
from ferrodp.statistics.groups.rows import RowsInGroups
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import extremes, quantiles
from ferrodp.statistics.ranks.quantiles import Among, ratios_of
from ferrodp.tickets import Ticket

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


class ChoicesByGroup(RowsInGroups):
    """The choices of a `PrivateGroups`, which is one."""

    @_arrays.quiet
    def quantile(
        self,
        name: str,
        quantile: Real,
        *,
        bounds: Bounds,
        num_candidates: int | None = None,
        interval_level: Real | None = None,
        epsilon: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return a candidate near the quantile of a column in each group.

        Parameters
        ----------
        name : str
            A column of numbers, or of times as bounds are; missing ones are left out.
        quantile, bounds, num_candidates, interval_level
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
            As for `private_quantile`. Nothing was drawn.
        """
        spent = budget(epsilon, 0.0, self._rows, _ADD_OR_REMOVE, source, ticket)
        ratio = quantiles.ratio_of(quantile)
        what = f"quantiles {float(ratio):g} of {name} by group{self._of}"
        return self._quantiles(spent, name, [ratio], (bounds, None, num_candidates), interval_level, what, self.keys)

    def median(
        self,
        name: str,
        *,
        bounds: Bounds,
        num_candidates: int | None = None,
        interval_level: Real | None = None,
        epsilon: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return a candidate near the median of a column in each group: the quantile 0.5.

        Parameters
        ----------
        name, bounds, num_candidates, interval_level, epsilon, source, ticket
            As for `quantile`.

        Returns
        -------
        Estimate
            As for `quantile`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_quantile`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 600 + [50.0] * 400}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> groups.median("age", bounds=(0, 100), epsilon=4.0).value
        array([30., 50.])
        """
        return self.quantile(
            name,
            0.5,
            bounds=bounds,
            num_candidates=num_candidates,
            interval_level=interval_level,
            epsilon=epsilon,
            source=source,
            ticket=ticket,
        )

    @_arrays.quiet
    def quantiles(
        self,
        name: str,
        quantiles: Sequence[Real],
        *,
        bounds: Bounds,
        num_candidates: int | None = None,
        interval_level: Real | None = None,
        epsilon: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return candidates near several quantiles of a column in each group, with an equal share of ε each.

        Parameters
        ----------
        name : str
            A column of numbers, or of times as bounds are; missing ones are left out.
        quantiles, bounds, num_candidates, interval_level
            As for `private_quantiles`.
        epsilon, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, one candidate for each quantile of each key, those of a key one after another, in
            ascending order; its labels are pairs of a key and a quantile.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_quantiles`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 600 + [50.0] * 400}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> found = groups.quantiles("age", [0.25, 0.5], bounds=(0, 100), epsilon=4.0)
        >>> found.value, found.labels[:2]
        (array([30., 30., 50., 50.]), (('north', 0.25), ('north', 0.5)))
        """
        spent = budget(epsilon, 0.0, self._rows, _ADD_OR_REMOVE, source, ticket)
        ratios = ratios_of(quantiles)
        labels = tuple((key, float(ratio)) for key in self.keys for ratio in ratios)
        what = f"quantiles of {name} by group{self._of}"
        return self._quantiles(spent, name, ratios, (bounds, None, num_candidates), interval_level, what, labels)

    def min(
        self,
        name: str,
        *,
        bounds: Bounds,
        num_candidates: int | None = None,
        rank: int | None = None,
        epsilon: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return a candidate near the smallest value of a column in each group.

        Parameters
        ----------
        name, bounds, num_candidates, epsilon, source, ticket
            As for `max`.
        rank : int, optional
            As for `private_min`: the same in each group.

        Returns
        -------
        Estimate
            A float64 array, one candidate a key, with intervals as those of `private_min`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_min`. Nothing was drawn.
        """
        return self._extreme(name, bounds, num_candidates, rank, False, (epsilon, source, ticket))

    def max(
        self,
        name: str,
        *,
        bounds: Bounds,
        num_candidates: int | None = None,
        rank: int | None = None,
        epsilon: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Estimate[npt.NDArray[np.float64]]:
        """Return a candidate near the largest value of a column in each group.

        Parameters
        ----------
        name : str
            A column of numbers, or of times as bounds are; missing ones are left out.
        bounds, num_candidates
            As for `private_quantile`.
        rank : int, optional
            As for `private_max`: the same in each group.
        epsilon, source, ticket
            As for `private_count`.

        Returns
        -------
        Estimate
            A float64 array, one candidate a key, with intervals as those of `private_max`. Its event is a
            `ParallelEvent` where a unit has one row.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
            As for `private_max`. Nothing was drawn.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 600 + [50.0] * 400}
        >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
        >>> groups.max("age", bounds=(0, 100), rank=20, epsilon=4.0).value
        array([30., 50.])
        """
        return self._extreme(name, bounds, num_candidates, rank, True, (epsilon, source, ticket))

    def _extreme(
        self, name: str, ends: Bounds, number: int | None, rank: int | None, is_max: bool, about: tuple[Any, Any, Any]
    ) -> Estimate[npt.NDArray[np.float64]]:
        epsilon, source, ticket = about
        spent = budget(epsilon, 0.0, self._rows, _ADD_OR_REMOVE, source, ticket)
        spent, held, points = self._among(spent, name, ends, number)
        looked_for = extremes.looked_for(spent, points, is_max, rank)
        found: list[tuple[float, Any]] = []

        def choose(rows: Ascending, sources: Iterator[NoiseSource]) -> None:
            found.append(looked_for.of(rows, sources))

        words = "maxima" if is_max else "minima"
        said = self._said(spent, words, name, points.ends(True))
        event = disjoint.released(
            said, held, self._present(held), self._size, looked_for.events, choose,
            (points, rank, is_max, self.keys, self._of),
        )  # fmt: skip
        values = np.array([value for value, _ in found], np.float64)
        near = "" if rank is None else f" near rank {rank}"
        what = f"{words}{near} of {name} by group{self._of}"
        return spent.estimate(values, None, event, what, labels=self.keys, _laws=tuple(law for _, law in found))

    def _among(self, spent: Budget, name: str, ends: Any, number: Any) -> tuple[Budget, Column, Among]:
        """Return the budget that knows times, the column, and the public numbers to choose among."""
        if number is not None:
            _validate.count("num_candidates", number, minimum=2, maximum=quantiles.MAX_CANDIDATES)
        spent, ends = spent.timed(ends, whole=True)
        held = self._column(name, spent)
        return spent, held, quantiles.among(ends, None, number, held)

    def _quantiles(
        self,
        spent: Budget,
        name: str,
        ratios: list[Fraction],
        among: tuple[Any, Any, Any],
        level: Real | None,
        what: str,
        labels: tuple[Any, ...],
    ) -> Estimate[npt.NDArray[np.float64]]:
        if level is not None:
            quantiles.level_of(level)
        spent, held, points = self._among(spent, name, among[0], among[2])
        # mutant: quantiles-of-a-group-with-the-whole-budget-each
        share = spent.share(1, len(ratios))
        found = [quantiles.sought(share, ratio, points, level) for ratio in ratios]
        values: list[float] = []
        laws: list[Any] = []

        def choose(rows: Ascending, sources: Iterator[NoiseSource]) -> None:
            chosen = [each.of(rows, sources) for each in found]
            ascending = np.sort(np.array([each[0] for each in chosen]))
            values.extend(ascending.tolist())
            laws.extend(quantiles.laws(found, ascending, [each[1:] for each in chosen]) or ())

        events = [event for each in found for event in each.events]
        levels = ", ".join(f"{float(ratio):g}" for ratio in ratios)
        said = self._said(spent, f"quantiles {levels}", name, points.ends(True))
        event = disjoint.released(
            said, held, self._present(held), self._size, events, choose, (points, ratios, level, self.keys, self._of)
        )
        return spent.estimate(
            np.array(values, np.float64), None, event, what, labels=labels, _laws=tuple(laws) if laws else None
        )
