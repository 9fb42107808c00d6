"""Public values of columns, and the cell of each row: an integer for each column, or none for the whole row.

A row counts in all tables or in none, so a row is one point of the product of all columns' public values. It counts in
none if one of its values is not public and there is no place for other values. Its cell depends on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.statistics._column import blocks, column, column_of, read
from ferrodp.statistics.counts import ascending_edges, matching, places, public_labels

__all__: list[str] = []

MAX_ROWS = 2**32


@dataclass(frozen=True, slots=True)
class Axis:
    """The public values of one column: labels or bins, and a last place for other values if `others` is set."""

    name: str
    known: Any
    edges: npt.NDArray[np.float64] | None
    others: bool

    @property
    def size(self) -> int:
        """How many cells the column alone has."""
        return (len(self.known) if self.edges is None else self.edges.size - 1) + self.others

    @property
    def labels(self) -> list[Any]:
        """What the cells are called; None for other values."""
        if self.edges is None:
            named = self.known.tolist() if isinstance(self.known, np.ndarray) else list(self.known)
        else:
            ends = [f"{edge:g}" for edge in self.edges.tolist()]
            closing = [")"] * (len(ends) - 2) + ["]"]
            named = [f"[{a}, {b}{c}" for a, b, c in zip(ends, ends[1:], closing, strict=False)]
        return [*named, None] if self.others else named

    def cells(self, values: Any) -> npt.NDArray[np.int64]:
        """Return the cell of each row, −1 for a value that has none."""
        if self.edges is None:
            found = read(values, self.name)
            parts = list(places(found, matching(self.known, found, "categories")))
        else:
            held = column(values, "drop", self.name)
            nulls = None if held.nulls is None else blocks(held.nulls)
            parts = [_binned(self.edges, part, None if nulls is None else next(nulls)) for part in blocks(held.values)]
        cells = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64, copy=False)
        # mutant: other-values-of-a-column-counted-as-the-first
        return np.where(cells < 0, self.size - 1, cells) if self.others else cells


def _binned(
    edges: npt.NDArray[np.float64], part: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.intp]:
    """Return the bin of each value, −1 for one outside of all and for a missing one; the last has its upper edge."""
    place = np.searchsorted(edges, part.astype(np.float64), side="right") - 1
    place[part == edges[-1]] = edges.size - 2
    # mutant: missing-values-of-tables-fall-into-a-bin
    outside = place >= edges.size - 1 if nulls is None else (place >= edges.size - 1) | nulls
    place[outside] = -1  # NaN sorts behind everything
    return place


def axes_of(categories: object, bins: object, missing: object) -> dict[str, Axis]:
    """Return the axes by name, in the order in which they were given: labels first."""
    if not isinstance(missing, str) or missing not in ("drop", "category"):
        raise _validate.out_of_domain("missing", '"drop" or "category"', missing)
    found: dict[str, Axis] = {}
    for name, given in (("categories", categories), ("bins", bins)):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise InvalidType(
                f"{name} must be a dict from column names to public {'values' if name == 'categories' else 'edges'}, "
                f"got {type(given).__name__}; as in "
                + ('{"sex": ["f", "m"]}' if name == "categories" else '{"age": [0, 18, 65, 120]}')
            )
        for key, public in given.items():
            if not isinstance(key, str):
                raise InvalidType(f"{name} must have strings as keys, the names of columns, got {type(key).__name__}")
            if key in found:
                raise InvalidParameter(f"categories and bins must name different columns, got {key!r} in both")
            edges = ascending_edges(public) if name == "bins" else None
            known = None if name == "bins" else public_labels(public, "categories")
            found[key] = axis = Axis(key, known, edges, missing == "category")
            if axis.size < 2:
                raise InvalidParameter(
                    f'{name}["{key}"] must have two cells at least, got {axis.size}; leave out a column with only one '
                    "public value"
                )
    if not found:
        raise InvalidParameter('categories or bins must name a column, got none; as in categories={"sex": ["f", "m"]}')
    return found


def cells_of(
    frame: Any, axes: dict[str, Axis], counted: Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]
) -> list[npt.NDArray[np.int64]]:
    """Return for each column the cells of the rows that count: of those that have cells, `counted` says which."""
    found, size = [], None
    for name, axis in axes.items():
        cells = axis.cells(column_of(frame, name))
        if size is not None and cells.size != size:
            raise InvalidArray(f"columns must have the same length, got {size} and {cells.size}")
        size = cells.size
        found.append(cells)
    if found[0].size > MAX_ROWS:
        raise InvalidParameter(f"frame must have at most {MAX_ROWS} rows")
    inside = np.ones(found[0].size, bool)
    for cells in found:
        # mutant: row-outside-of-one-column-counts-elsewhere
        inside &= cells >= 0
    # mutant: rows-of-a-unit-without-bound-in-tables
    inside = counted(inside)
    return found if inside.all() else [cells[inside] for cells in found]
