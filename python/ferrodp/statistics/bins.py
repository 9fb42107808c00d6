"""Edges of bins with about as many rows each, of one column or of several, under one payment.

Of d columns with m bins each the d·(m − 1) inner edges are quantiles i/m: choices as those of `ranks.quantiles`, with
an equal share of ε each. A unit with at most k rows has at most k values in each column, so each choice, which is made
for k rows at ε/(d·(m − 1)), costs that share for it, whatever the other columns hold: together they cost ε, by
composition [DR14] Theorem 3.14. Each relation is that of the choices: a unit that is replaced, or becomes a null
record, does so in all columns. The outer edges are the public bounds; sorting the edges of a column is post-processing.

With `unit` of each unit k values of each column count, which may lie in different rows: for each column a subset with
coins of its own, to which the proof of `keys.of_columns` applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Bounds, Budget, budget
from ferrodp.statistics._column import Column, Keep, column, column_of
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts.exact import passed_groups
from ferrodp.statistics.ranks import candidates as _candidates
from ferrodp.statistics.ranks import quantiles
from ferrodp.statistics.ranks.quantiles import Among, Sought
from ferrodp.statistics.tables import ReleasedTable
from ferrodp.tickets import Ticket

__all__ = ["private_quantile_bins"]

_MAX_BINS = 1000


class _Edges(NamedTuple):
    """A column whose edges are looked for, and the choices that find them."""

    spent: Budget
    held: Column
    points: Among
    inner: list[Sought]

    @property
    def rows(self) -> npt.NDArray[np.float64]:
        """The rows that count, in ascending order."""
        return _candidates.ordered(_units.numbers_of(self.spent, self.held))


@_arrays.quiet
def private_quantile_bins(
    frame: Any,
    num_bins: int,
    *,
    bounds: Mapping[str, Bounds],
    num_candidates: int | None = None,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> ReleasedTable:
    """Return edges of bins with about as many rows each, of one column or of several, all of them paid for at once.

    Together they are ε-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    frame : DataFrame, Table or dict of columns
        Of pandas, polars or Arrow, or columns by name, all of one length. Missing values are left out of their column.
    num_bins : int
        How many bins a column has, from 2 to 1000.
    bounds : mapping of str to (float, float)
        The columns that are binned, and the public bounds between which their edges are: the outermost edges. A value
        outside counts as the nearer one. For dates, datetimes, durations or times of day, bounds of that kind.
    num_candidates : int, optional
        As for `private_quantile`, of each column.
    unit : str, or array, Series or list, optional
        Whose each row is, or the column that says so, as for `private_count`: of the values of each unit
        `max_contributions` count in each column.
    epsilon, max_contributions, keep, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    ReleasedTable
        Under the name of each column its edges in ascending order, one more than bins; labels are the shares of rows
        below. Equal edges are those of an empty bin: `numpy.unique` leaves them out for `private_histogram`.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_quantile`. Nothing was drawn.

    Notes
    -----
    Each inner edge of each column is a choice with an equal share of ε: the module docstring has the proof. With m bins
    of d columns and 1000 candidates of each, an edge is off by some 20·m·d/ε rows at most, with 95 percent; among
    decimals of wide bounds by a few times as many.

    References
    ----------
    [DR14] Dwork, Roth, "The algorithmic foundations of differential privacy", 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> from ferrodp.statistics import private_quantile_bins
    >>> frame = {"age": np.arange(10_000) % 80, "stay": np.arange(10_000) / 500}
    >>> edges = private_quantile_bins(frame, 4, bounds={"age": (0, 120), "stay": (0, 30)}, epsilon=6.0)
    >>> edges["age"].labels, bool(np.abs(edges["age"].value - [0, 20, 40, 60, 120]).max() < 4)
    ((0.0, 0.25, 0.5, 0.75, 1.0), True)
    >>> counts = fd.private_histogram(frame["stay"], bins=np.unique(edges["stay"].value), epsilon=1.0)
    >>> bool(np.abs(counts.value - 2_500).max() < 500)
    True
    """
    spent = budget(epsilon, 0.0, max_contributions, neighboring_relation, source, ticket)
    number = _validate.count("num_bins", num_bins, minimum=2, maximum=_MAX_BINS)
    if not isinstance(bounds, Mapping):
        kind = type(bounds).__name__
        raise InvalidType(
            f'bounds must be a dict from column names to public bounds, got {kind}; as in {{"age": (0, 120)}}'
        )
    if not bounds:
        raise InvalidParameter('bounds must name a column, got none; as in {"age": (0, 120)}')
    whole = len(bounds) * (number - 1)
    spent = _units.of_units(spent, column_of(frame, unit) if isinstance(unit, str) else unit, keep)
    if isinstance(unit, str):
        spent = spent._replace(words=spent.words._replace(unit=unit))
    # mutant: each-column-of-bins-has-the-whole-budget
    share = spent.share(1, whole)
    ratios = [Fraction(place, number) for place in range(1, number)]
    found = {name: _looked_for(frame, name, share, ends, num_candidates, ratios) for name, ends in bounds.items()}
    if len({each.held.values.size for each in found.values()} | _sizes(spent)) > 1:
        raise InvalidArray("the columns of a table, and that of units, must have as many rows as one another")
    events = [event for each in found.values() for sought in each.inner for event in sought.events]
    points = [each.points for each in found.values()]
    rows = passed_groups(lambda: _rows(found), lambda: (events, points, number, list(found), spent.unit))
    within = ", ".join(f"{name} in {each.spent.between(*each.points.ends(True))}" for name, each in found.items())
    said = spent.says(f"edges of {number} quantile bins", ", ".join(found))
    said = said._replace(words=said.words._replace(bounds=within))
    drawn = iter(said.sources(*events, null_distance=None))
    of_column, table = spent.share(number - 1, whole), {}
    labels = tuple(place / number for place in range(number + 1))
    for (name, each), held in zip(found.items(), rows, strict=True):
        lower, upper = each.points.ends(True)
        inner = sorted(sought.of(held, drawn)[0] for sought in each.inner)
        event = quantiles.composed([event for sought in each.inner for event in sought.events])
        table[name] = of_column._replace(clock=each.spent.clock).estimate(
            np.array([lower, *inner, upper]), None, event, f"edges of {number} quantile bins of {name}", labels=labels
        )
    return ReleasedTable(epsilon=spent.epsilon, delta=0.0, event=quantiles.composed(events), _columns=table)


def _looked_for(frame: Any, name: Any, share: Budget, ends: Any, number: Any, ratios: list[Fraction]) -> _Edges:
    """Return a column and its choices, or refuse what is none."""
    spent, numbers, _ = quantiles.timed(share, ends, None)
    values = column_of(frame, name)
    held = column(values, "drop", name, spent.clock)
    points = quantiles.among(numbers, None, number, quantiles.not_too_long(held))
    return _Edges(spent, held, points, [quantiles.sought(spent, ratio, points, None) for ratio in ratios])


def _sizes(spent: Budget) -> set[int]:
    return set() if spent.owners is None else {spent.owners.size}


def _rows(found: Mapping[str, _Edges]) -> Iterator[npt.NDArray[np.float64]]:
    return (each.rows for each in found.values())
