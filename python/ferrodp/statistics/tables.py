"""Counts and sums of a table, released in one charge.

Every number of the table shares the budget evenly with the others: m vectors are (ε/m, δ/m)-differentially private
each, and together (ε, δ) by basic composition; an accountant that composes the event may find less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ferrodp._base import _arrays, _validate
from ferrodp._base._pictures import power
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import bounds as _bounds
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import column_of, names_of
from ferrodp.statistics._pictures import panels
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.groups import PrivateGroups
from ferrodp.statistics.keys.contributions import Contribution
from ferrodp.statistics.rows.frames import frame_of
from ferrodp.statistics.sums import check_durations
from ferrodp.tickets import Ticket

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReleasedTable", "release"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReleasedTable(Mapping[str, Estimate[Any]]):
    """Several statistics that were paid for together: a mapping from their names to estimates.

    Attributes
    ----------
    epsilon, delta : float
        What all of them guarantee together.
    event : PrivacyEvent
        What an accountant composes, once.
    """

    epsilon: float
    delta: float
    event: PrivacyEvent
    _columns: dict[str, Estimate[Any]]

    def __getitem__(self, name: str) -> Estimate[Any]:
        if name not in self._columns:
            raise KeyError(f"{name!r}; the table has {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        cost = f"ε={self.epsilon:g}" + (f", δ={self.delta:g}" if self.delta else "")
        return f"<ReleasedTable {', '.join(self._columns)}; {cost}>"

    def to_frame(self, *, library: str = "pandas") -> Any:
        """Return the released numbers as a table with a row for each group.

        Parameters
        ----------
        library : {"pandas", "polars", "arrow"}
            Whose table it is, as for `Estimate.to_frame`.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each statistic.

        Raises
        ------
        MissingPackage
            If the library is not installed.
        InvalidParameter
            If it is another one.

        Examples
        --------
        >>> import ferrodp as fd
        >>> table = fd.release({"age": [30.0, 40.0]}, sums={"age": (0, 100)}, epsilon=1.0)
        >>> table.to_frame().columns.tolist()
        ['count', 'age']
        """
        index = next(iter(self._columns.values())).labels
        return frame_of(library, list(index or ()), {name: each.value for name, each in self._columns.items()})

    def plot(self, *, level: float = 0.95) -> Figure:
        """Draw all statistics side by side, each number with its interval. Needs ``pip install "ferrodp[plot]"``.

        Parameters
        ----------
        level : float
            Of the intervals, as for `Estimate.plot`.

        Returns
        -------
        matplotlib.figure.Figure
            With axes for each statistic.

        Raises
        ------
        MissingPackage
            If matplotlib is not installed.
        InvalidParameter
            If `level` is outside its domain.

        Examples
        --------
        >>> import ferrodp as fd
        >>> table = fd.release({"age": [30.0, 40.0]}, sums={"age": (0, 100)}, epsilon=1.0)
        >>> len(table.plot().axes)
        2
        """
        figure, beside = panels(len(self._columns), max(len(each._index()) for each in self._columns.values()))
        for each, axes in zip(self._columns.values(), beside, strict=True):
            each.plot(level=level, axes=axes).set_title(each.statistic)
        cost = f"ε = {self.epsilon:g}" + (f", δ = {power(self.delta)}" if self.delta else "")
        figure.suptitle(f"Released together at {cost}")
        return figure

    def _repr_html_(self) -> str:
        """Return the tables of all statistics for notebooks."""
        return "".join(each._repr_html_() for each in self._columns.values())


@_arrays.quiet
def release(
    frame: Any,
    *,
    groups: PrivateGroups | None = None,
    count: bool = True,
    sums: Mapping[str, tuple[Real, Real]] | None = None,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> ReleasedTable:
    """Return counts and sums of a table, all of them paid for at once.

    Together they are (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    frame : DataFrame, Table or dict of columns
        Of pandas, polars or Arrow, or columns by name, all of one length.
    groups : PrivateGroups, optional
        Groups of the rows of this table: then each statistic has one number a key, and the groups' own bound on the
        rows of a unit takes the place of `max_contributions`.
    count : bool
        Whether rows are counted.
    sums : mapping of str to (float, float), optional
        Columns that are summed, and the public bounds that their values are clamped to. Missing values are left out.
    epsilon, delta, max_contributions, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    ReleasedTable
        The count under "count", sums under the names of their columns.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Examples
    --------
    >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 1000, "stay": [2.0] * 1000}
    >>> table = release(frame, sums={"age": (0, 100), "stay": (0, 30)}, epsilon=1.5)
    >>> table, round(table["stay"].standard_error)
    (<ReleasedTable count, age, stay; ε=1.5>, 85)
    """
    if sums is not None and not isinstance(sums, Mapping):
        kind = type(sums).__name__
        raise InvalidType(
            f'sums must be a dict from column names to public bounds, got {kind}; as in {{"age": (0, 120)}}'
        )
    chosen = dict(sums or {})
    if not _validate.truth("count", count) and not chosen:
        raise InvalidParameter("sums must name a column where nothing is counted, got none; write count=True")
    if "count" in chosen:
        raise InvalidParameter('sums must not name a column "count": the number of rows has that name')
    if groups is not None and not isinstance(groups, PrivateGroups):
        raise InvalidType(f"groups must be PrivateGroups or None, got {type(groups).__name__}")
    if groups is None:
        groups = _whole(frame, next(iter(chosen), None), max_contributions)
    elif groups._frame is not frame:
        raise InvalidParameter("groups must be groups of this frame")
    spent = budget(epsilon, delta, groups._rows, neighboring_relation, source, ticket)
    # mutant: statistics-of-a-table-with-the-whole-budget-each
    share = spent.share(1, len(chosen) + count)
    parts = {"count": groups._count(share, groups._codes)} if count else {}
    timed = {name: share.timed(ends) for name, ends in chosen.items()}
    for each, _ in timed.values():
        check_durations(each)
    parts |= {name: groups._sum(each, name, ends) for name, (each, ends) in timed.items()}
    within = ", ".join(f"{name} in {each.between(*_bounds(ends))}" for name, (each, ends) in timed.items())
    said = groups._said(spent, "counts and sums" if count else "sums", ", ".join(chosen))
    said = said._replace(words=said.words._replace(bounds=within or None))
    vectors, event = groups._release(said, list(parts.values()))
    found = {}
    for (name, part), vector in zip(parts.items(), vectors, strict=True):
        what = "counts" if name == "count" else f"sums of {name}"
        of = timed[name][0] if name in timed else share
        found[name] = groups._estimate(of, vector, part, part.mechanism.event, what)
    return ReleasedTable(epsilon=spent.epsilon, delta=spent.delta, event=event, _columns=found)


def _whole(frame: Any, name: str | None, rows: int) -> PrivateGroups:
    """Return all rows of a table as one group."""
    if name is None:
        name = next(iter(names_of(frame)))
    size = len(column_of(frame, name))
    most = _validate.count("max_contributions", rows, maximum=2**20)
    return PrivateGroups(frame, np.zeros(size, np.intp), ("all",), Contribution(most, most, most))
