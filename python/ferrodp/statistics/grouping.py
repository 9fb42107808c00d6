"""Rows of a table in groups, by public keys or by keys that are found in the data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.statistics import sums
from ferrodp.statistics._budget import Budget, budget
from ferrodp.statistics._column import column_of, read
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics._noise import Additive
from ferrodp.statistics.counts import MAX_BINS, matching, placed, public_labels
from ferrodp.statistics.groups import PrivateGroups
from ferrodp.statistics.keys import KeySelection, KeyThreshold, KeyUnion
from ferrodp.statistics.keys.contributions import Contribution, contribution, pairs, pairs_among, units
from ferrodp.statistics.keys.labels import Values, combined, counted, distinct, of_units, together
from ferrodp.statistics.keys.union import rounds
from ferrodp.statistics.parts.exact import check_owners, is_whole
from ferrodp.statistics.rows import calendars
from ferrodp.statistics.rows.calendars import CalendarBins
from ferrodp.tickets import Ticket

__all__ = ["private_group_by"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_FINDERS = (KeyThreshold, KeySelection, KeyUnion)
Places = npt.NDArray[np.signedinteger[Any]]


@_arrays.quiet
def private_group_by(
    frame: Any,
    by: str | Sequence[str],
    *,
    keys: Any,
    unit: str | None = None,
    rows_per_unit: int | None = None,
    groups_per_unit: int | None = None,
    rows_per_group: int | None = None,
    keep: Literal["random", "first"] = "random",
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> PrivateGroups:
    """Return the rows of a table in groups, whose statistics are released together.

    Keys that are given are public and cost nothing. With a `KeyThreshold`, `KeySelection` or `KeyUnion` they are found
    in the data, which is an (ε, δ)-differentially private release of its own.

    Parameters
    ----------
    frame : DataFrame, Table or dict of columns
        Of pandas, polars or Arrow, or columns by name, all of one length.
    by : str or sequence of str
        The column that says which group a row belongs to, or several: then a key is a tuple with a value of each. Rows
        where one is missing, or that have no key, are left out.
    keys : sequence of labels, dict of such sequences, KeyThreshold, KeySelection or KeyUnion
        Public keys, all different, of a type that the column can hold: numbers, strings, dates or other labels. For
        several columns tuples, or a dict with the categories of each column, of which all combinations are keys;
        `CalendarBins` in place of the categories of a column of dates or datetimes. Or how
        to find them: then numbers, strings, bytes, times, UUIDs and tuples of them are found, and no keys of other
        types.
    unit : str, optional
        The column that says whose a row is: of each unit up to `rows_per_unit` rows count, and rows without a unit do
        not. An id is anything that can be hashed: numbers, strings, UUIDs, bytes, dates, tuples. Ids that are equal are
        one unit, such as 7 and 7.0; "7" is another. Missing and unhashable ids are none. Without `unit` the caller
        promises that no unit has more rows.
    rows_per_unit : int, optional
        The most rows of a unit in all groups together; ≥ 1. By default as many as the next two allow, or one.
    groups_per_unit, rows_per_group : int, optional
        The most groups that a unit has rows in, and the most rows in one of them; ≥ 1. A unit with one row in each of g
        groups moves counts by √g in L2, and needs so much Gaussian noise; g rows anywhere would need g.
    keep : {"random", "first"}
        Which groups and rows of a unit count if it has more: a uniformly random subset, with fresh randomness, or the
        first in the order of the table. The first ones of a table that is sorted by time are all early.
    source : NoiseSource, optional
        None, or a seeded source for tests; for the keys and the subset alone.
    ticket : Ticket, optional
        What pays for the keys: for an `EpsilonDeltaEvent` of their ε and δ.

    Returns
    -------
    PrivateGroups
        With `count`, `distinct`, `histogram`, `top`, `sum`, `mean`, `variance`, `standard_deviation`, `quantile`,
        `quantiles`, `median`, `min`, `max` and `bounds`. Those of a `KeyThreshold` have the counts that were noised to
        find the keys: `found_counts`.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        If an argument is not accepted, or the table has no such column. Nothing was drawn.

    Notes
    -----
    Sensitivities are in the docstrings of `ferrodp.statistics.groups` and of `ferrodp.statistics.keys.contributions`,
    the theorems for keys that are found in those of `threshold`, `selection` and `union` in `ferrodp.statistics.keys`.
    A `KeySelection` counts units, and needs ``groups_per_unit=1`` where a unit may have several rows.

    References
    ----------
    [KKMN09] Korolova, Kenthapadi, Mishra, Ntoulas, "Releasing search queries and clicks privately", WWW 2009.
    [WZLDSG20] Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson, "Differentially private SQL with bounded user
    contribution", PoPETs 2020.

    Examples
    --------
    >>> import ferrodp as fd
    >>> frame = {"city": ["A"] * 300 + ["B"] * 200 + ["C"], "person": list(range(500)) + [7]}
    >>> groups = fd.private_group_by(frame, "city", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-9), unit="person")
    >>> groups.keys
    ('A', 'B')
    >>> groups.found_counts.labels, groups.count(epsilon=1.0).value.shape
    (('A', 'B'), (2,))
    >>> table = {"city": ["A", "B", "A"], "year": [2024, 2024, 2025], "person": [1, 1, 2]}
    >>> keys = {"city": ["A", "B"], "year": [2024, 2025]}
    >>> by_year = fd.private_group_by(table, ["city", "year"], keys=keys, unit="person", groups_per_unit=2)
    >>> by_year.count(epsilon=1.0, delta=1e-6).labels
    (('A', 2024), ('A', 2025), ('B', 2024), ('B', 2025))
    """
    limit = contribution(rows_per_unit, groups_per_unit, rows_per_group)
    names = _names(by)
    columns = [read(column_of(frame, name), name) for name in names]
    if not isinstance(keep, str) or keep not in ("random", "first"):
        raise _validate.out_of_domain("keep", '"random" or "first"', keep)
    coins = source_or_default(source) if keep == "random" else None
    whose = None if unit is None else column_of(frame, unit)
    check_owners(whose)
    owners = None if whose is None else units(read(whose, str(unit)))
    for column in columns[1:]:
        if column.values.size != columns[0].values.size:
            raise InvalidArray(f"the columns {', '.join(names)} must have as many rows as one another")
    if owners is not None and owners.size != columns[0].values.size:
        raise InvalidArray("the column of units must have as many rows as the others")
    if columns[0].values.size > sums._MAX_ROWS:
        raise InvalidParameter(f"a table must have at most {sums._MAX_ROWS} rows")
    of = limit.words(unit, keep)
    if not isinstance(keys, _FINDERS):
        if ticket is not None:
            raise InvalidParameter("ticket must be None where keys are given: they cost nothing")
        if isinstance(keys, str):
            raise InvalidType(
                f"keys must be a list of public keys, got str {keys!r}; to find them in the data, at a price: "
                "KeyThreshold(epsilon=..., delta=...)"
            )
        codes, labels = _given(columns, names, keys)
        return PrivateGroups(frame, limit.counted(codes, owners, coins), labels, limit, of=of, by=names, unit=unit)
    spent = budget(keys.epsilon, keys.delta, limit.rows, _ADD_OR_REMOVE, source, ticket)
    # mutant: keys-found-at-more-than-the-open-budget-is-charged
    keys = type(keys)(epsilon=spent.epsilon, delta=spent.delta)
    if isinstance(keys, KeySelection) and (limit.groups > 1 or (owners is None and limit.rows > 1)):
        raise InvalidParameter(
            f"groups_per_unit must be 1 for a KeySelection, with a column of units or one row of each, got "
            f"{limit.groups} groups and {limit.rows} rows; a KeyUnion finds the keys of units with several"
        )
    spent = spent._replace(words=spent.words._replace(unit=unit, kept=of)).says("keys of groups", ", ".join(names))
    values = together([distinct(column) for column in columns])
    if isinstance(keys, KeyThreshold):
        return _by_threshold(keys, frame, values, owners, limit, coins, spent, of)
    if isinstance(keys, KeySelection):
        return _by_selection(keys, frame, values, owners, limit, coins, spent, of)
    return _by_union(keys, frame, values, owners, limit, coins, spent, of)


def _names(by: Any) -> list[str]:
    """Return the names of columns; that each is one, `column_of` sees."""
    if isinstance(by, str) or not isinstance(by, (list, tuple)):
        return [by]
    if not by or len({str(name) for name in by}) < len(by):
        raise _validate.out_of_domain("by", "a column or several, all different", list(by), write="['city', 'year']")
    return list(by)


def _given(columns: Sequence[Numbers | Labels], names: list[str], keys: Any) -> tuple[Places, tuple[Any, ...]]:
    """Return the place of each row among public keys, −1 for none, and the keys."""
    if len(columns) == 1 and not isinstance(keys, Mapping):
        return _placed(columns[0], keys, "keys")
    if isinstance(keys, Mapping):
        if list(keys) != names and set(keys) != set(names):
            raise InvalidParameter(
                f"keys must have the categories of each of {', '.join(names)}, got those of {', '.join(map(str, keys))}"
            )
        size = math.prod(_number_of(keys[name]) for name in names)
        if size > MAX_BINS:
            raise InvalidArray(f"keys must be at most {MAX_BINS}, got {size} combinations")
        found = [_placed(column, keys[name], f"keys[{name!r}]") for column, name in zip(columns, names, strict=True)]
        labels = tuple(itertools.product(*(each[1] for each in found)))
        codes = found[0][0]
        for place, each in found[1:]:
            # mutant: row-without-one-of-its-keys-counts
            codes = np.where((codes >= 0) & (place >= 0), codes * np.int64(len(each)) + place, -1)
        return codes, labels if len(names) > 1 else tuple(label[0] for label in labels)
    rows = list(keys) if isinstance(keys, (list, tuple)) else []
    if not rows or not all(isinstance(row, tuple) and len(row) == len(names) for row in rows):
        raise InvalidArrayType(
            f"keys must be tuples with a value of each of {', '.join(names)}, or a dict with the categories of each"
        )
    if len(rows) > MAX_BINS:
        raise InvalidArray(f"keys must be at most {MAX_BINS}, got {len(rows)}")
    parts, at = [], []
    for number, (column, name) in enumerate(zip(columns, names, strict=True)):
        own = list(dict.fromkeys(row[number] for row in rows))
        place, labels = _placed(column, own, f"keys of {name}")
        where = {label: index for index, label in enumerate(own)}
        parts.append((place, len(labels)))
        at.append([where[row[number]] for row in rows])
    wanted = list(zip(*at, strict=True))
    if len(set(wanted)) < len(wanted):
        raise InvalidArray(f"keys must be all different, at most {MAX_BINS}")
    return combined([place for place, _ in parts], [size for _, size in parts], wanted), tuple(rows)


def _number_of(keys: Any) -> int:
    return len(keys.starts if isinstance(keys, CalendarBins) else keys)


def _placed(column: Numbers | Labels, keys: Any, name: str) -> tuple[Places, tuple[Any, ...]]:
    if isinstance(keys, CalendarBins):
        return calendars.places(keys, column, name), keys.labels
    known = matching(public_labels(keys, name), column, name)
    return placed(column, known), tuple(known.tolist() if isinstance(known, np.ndarray) else known)


def _kept(
    chosen: npt.NDArray[Any],
    frame: Any,
    values: Values,
    codes: Places,
    limit: Contribution,
    spent: Budget,
    of: str,
) -> tuple[PrivateGroups, list[int]]:
    """Return the groups of keys that were found, in ascending order, and their places."""
    asked = EpsilonDeltaEvent(epsilon=spent.epsilon, delta=spent.delta)
    kept: list[int] = sorted(chosen.tolist(), key=lambda place: values.order[place])
    table = np.full(len(values.entries) + 1, -1, np.intp)
    table[kept] = np.arange(len(kept))
    labels = tuple(values.entries[place] for place in kept)
    by, unit = (spent.words.column or "").split(", "), spent.words.unit
    return PrivateGroups(frame, table[codes], labels, limit, asked, of=of, by=by, unit=unit), kept


def _source(spent: Budget) -> NoiseSource:
    asked = EpsilonDeltaEvent(epsilon=spent.epsilon, delta=spent.delta)
    return spent.sources(asked, null_distance=None)[0]


def _by_threshold(
    keys: KeyThreshold,
    frame: Any,
    values: Values,
    owners: Places | None,
    limit: Contribution,
    coins: NoiseSource | None,
    spent: Budget,
    of: str,
) -> PrivateGroups:
    counts_units = owners is not None and limit.is_by_group
    # mutant: units-of-a-key-noised-as-one
    few = Contribution(limit.groups, limit.groups, 1) if counts_units else limit
    mechanism, least = keys._noise(few), keys._least(few)
    codes = limit.counted(values.codes, owners, coins)
    seen = codes[pairs(owners, codes)[1]] if counts_units and owners is not None else codes
    values, codes, counts = counted(values, codes, seen, lambda: (mechanism.event, least, keys, limit, of))
    drawn = _source(spent)
    occurs = counts > 0
    noised = mechanism.release(counts, source=drawn)
    # mutant: keys-below-the-threshold
    found, kept = _kept(np.flatnonzero(occurs & (noised >= least)), frame, values, codes, limit, spent, of)
    what = f"{'units' if counts_units else 'counts'} by group that was found, at least {least}" + of
    event = EpsilonDeltaEvent(epsilon=spent.epsilon, delta=spent.delta)
    # mutant: counts-of-found-keys-without-their-noise
    released = noised[kept]
    error = mechanism.standard_deviation
    found.found_counts = spent.estimate(released, error, event, what, Additive(mechanism), labels=found.keys)
    return found


def _by_selection(
    keys: KeySelection,
    frame: Any,
    values: Values,
    owners: Places | None,
    limit: Contribution,
    coins: NoiseSource | None,
    spent: Budget,
    of: str,
) -> PrivateGroups:
    codes = limit.counted(values.codes, owners, coins)
    # mutant: rows-of-a-unit-counted-for-a-selection
    seen = codes if owners is None else codes[pairs(owners, codes)[1]]
    values, codes, counts = counted(values, codes, seen, lambda: (keys, limit, of))
    drawn = _source(spent)
    return _kept(np.flatnonzero(keys._chosen(counts, drawn)), frame, values, codes, limit, spent, of)[0]


def _by_union(
    keys: KeyUnion,
    frame: Any,
    values: Values,
    owners: Places | None,
    limit: Contribution,
    coins: NoiseSource | None,
    spent: Budget,
    of: str,
) -> PrivateGroups:
    groups = limit.groups
    rounds(keys.epsilon, keys.delta, groups)  # refused before anything is charged
    if owners is None:
        owners = np.arange(values.codes.size)
    held = pairs(owners, values.codes)
    firsts = held[1]
    values, whose, which = of_units(values, owners[firsts], values.codes[firsts], lambda: (keys, limit, of))
    drawn = _source(spent)
    found = keys._found(whose, which, len(values.entries), groups, drawn)
    if not is_whole():  # the rows are elsewhere
        return _kept(found, frame, values, values.codes, limit, spent, of)[0]
    known = np.zeros(len(values.entries) + 1, np.bool_)
    known[found] = True
    # rows of found keys alone take the places of a unit: which keys those are is released
    held = pairs_among(held, values.codes, known)
    codes = limit.counted(np.where(known[values.codes], values.codes, -1), owners, coins, held)
    return _kept(found, frame, values, codes, limit, spent, of)[0]
