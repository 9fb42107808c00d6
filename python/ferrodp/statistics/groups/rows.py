"""Rows of a table in groups, and how their integers are noised; what every statistic of groups stands on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import ComposedEvent, PrivacyEvent
from ferrodp.statistics import sums
from ferrodp.statistics._budget import Budget, Mechanism
from ferrodp.statistics._column import Column, column, column_of, read
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics._noise import Additive
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys.contributions import Contribution
from ferrodp.statistics.parts.exact import is_whole, passed

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.signedinteger[Any]]


class Part(NamedTuple):
    """A vector with one integer a group, and what noises it."""

    mechanism: Mechanism
    exact: Callable[[], tuple[Ints, ...]]
    """The integers, or for sums steps and the parts beyond them."""
    width: float = 1.0
    slack: int = 0


class RowsInGroups:
    """Rows in groups: a `PrivateGroups` without its statistics."""

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

    def _said(
        self, spent: Budget, what: str, name: str | None = None, ends: tuple[float, float] | None = None
    ) -> Budget:
        """Return the budget that knows what is released, by which groups, and of whom."""
        by = f" by groups of {', '.join(map(str, self._by))}" if self._by else ""
        words = spent.words._replace(unit=self._unit, kept=self._of)
        return spent._replace(words=words).says(what + by, name, ends)

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
