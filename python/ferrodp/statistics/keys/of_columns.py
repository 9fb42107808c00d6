"""Whose each row of a column is: of each unit a bounded number of rows counts, and the others are missing.

Let k be `max_contributions`. Of each unit up to k rows count, a random subset or the first ones; rows without an id do
not. The other rows become missing ones, which contribute to nothing, in a column that can have such rows.

*The guarantee.* `keys.contributions` proves that the subset of a unit is a function of its own rows and of coins of
their own. Let D' = D + unit u, with shared coins. Exactly the same rows of all other units are not missing in D and D',
and at most k rows of u besides: what a statistic says of tables that differ in k rows holds for D and D', for each
value of the coins, and so on average. If the unit is replaced, then up to k rows give way to up to k others. Fill the
shorter of both up with missing rows: k rows are replaced, some of them by or of missing ones. That is why the column
always counts as one that can have missing rows, also where its type cannot: how many rows count is not public.

*Different values.* For their number a unit contributes a set of values, so that of each unit k different values count,
each in however many rows: the pairs of a unit and a value take the place of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.statistics._budget import Budget, name_of
from ferrodp.statistics._column import Column, Keep, check_missing, column, read
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics.keys.contributions import contribution, pairs, rows_that_count, units
from ferrodp.statistics.parts.exact import check_owners

Places = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


def of_units(spent: Budget, unit: Any, keep: Keep, missing: object = "drop") -> Budget:
    """Return the budget of a statistic that knows whose each row is; without `unit` the same."""
    if not isinstance(keep, str) or keep not in ("random", "first"):
        raise _validate.out_of_domain("keep", '"random" or "first"', keep)
    if unit is None:
        return spent
    if not check_missing(missing):
        raise InvalidParameter(
            'missing must be "drop" with unit, where rows that do not count are missing, got "zero"; write zeros into '
            "the column, as values.fillna(0) does"
        )
    check_owners(unit)
    words = contribution(spent.max_contributions, None, None).words("unit", keep)
    whose = spent.words._replace(unit=name_of(unit))
    return spent._replace(owners=units(read(unit, "unit")), keep=keep, of=words, words=whose)


def numbers(spent: Budget, values: Any, missing: object) -> Column:
    """Return a column of numbers, of which the rows that do not count are missing."""
    return numbers_of(spent, column(values, missing, clock=spent.clock))


def numbers_of(spent: Budget, found: Column) -> Column:
    """Return the same column, of which the rows that do not count are missing."""
    if spent.owners is None:
        return found
    nulls = np.zeros(found.values.size, np.bool_) if found.nulls is None else found.nulls
    if found.values.dtype.kind == "f":
        nulls = nulls | np.isnan(found.values)
    # mutant: number-of-rows-of-units-taken-for-public
    return Column(found.values, ~counted(spent, ~nulls), True, True)


def labels(spent: Budget, values: Any) -> Numbers | Labels:
    """Return what a column holds, of which the rows that do not count are missing."""
    found = read(values)
    if spent.owners is None:
        return found
    if isinstance(found, Numbers):
        held = numbers_of(spent, Column(found.values, found.nulls, found.can_miss, True))
        return Numbers(held.values, held.nulls, True)
    kept = counted(spent, found.present())
    if found.entries is not None:
        return replace(found, values=np.where(kept, found.values, -1))
    rows = found.values.astype(object)  # a copy
    rows[~kept] = None
    return replace(found, values=rows)


def different(spent: Budget, codes: Places) -> Places:
    """Return the codes of values, −1 for those that do not count: of each unit so many different ones do."""
    if spent.owners is None:
        return codes
    _check_length(spent, codes.size)
    pair_of, firsts = pairs(spent.owners, codes)
    held = rows_that_count(spent.owners[firsts], spent.max_contributions, _coins(spent))
    # mutant: different-values-of-a-unit-without-bound
    return np.where((pair_of >= 0) & np.append(held, False)[pair_of], codes, -1)


def counted(spent: Budget, present: Mask) -> Mask:
    """Return which rows count: up to so many of the present ones of each unit; all of them without `unit`."""
    if spent.owners is None:
        return present
    _check_length(spent, present.size)
    owners = np.where(present, spent.owners, -1)
    # mutant: rows-of-a-unit-without-bound-in-a-column
    return rows_that_count(owners, spent.max_contributions, _coins(spent)) & (owners >= 0)


def _coins(spent: Budget) -> Any:
    return spent.source if spent.keep == "random" else None


def _check_length(spent: Budget, size: int) -> None:
    if spent.owners is not None and spent.owners.size != size:
        raise InvalidArray(f"unit must have an id for each of {size} rows, got {spent.owners.size}")
