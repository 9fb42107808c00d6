"""How much one unit of privacy adds to groups of rows, and which of its rows count.

A unit has rows in at most g groups, r rows in each of them and k rows in all, k ≤ g·r. Its counts c₁, …, c_g in the
groups have Σc ≤ k, which bounds the L1 norm, and c ≤ r. Σc² is convex in them, so it is largest at a corner of what is
allowed: ⌊k/r⌋ groups with r rows and one with the rest. For k rows in however many groups it is k².
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._observer import OBSERVER
from ferrodp.errors import InvalidParameter
from ferrodp.random import NoiseSource
from ferrodp.statistics._foreign import PART, Labels, Numbers

Places = npt.NDArray[np.signedinteger[Any]]
_MOST = 2**20


class Contribution(NamedTuple):
    """The most rows of a unit, the most groups that they are in, and the most in one group."""

    rows: int
    groups: int
    rows_per_group: int
    is_by_group: bool = False
    """Whether groups of a unit are bounded, and not its rows alone."""

    @property
    def squared(self) -> int:
        """The largest sum of squares of the counts of a unit: the square of their L2 norm."""
        full, rest = divmod(self.rows, self.rows_per_group)
        # mutant: squares-of-a-unit-without-its-last-group
        return full * self.rows_per_group**2 + rest**2

    def moved(self, cells: int, *, replaced: bool = False) -> int:
        """Return the largest square of the L2 norm by which a unit moves so many counts.

        Rows that leave and others that come move a single count by the greater number of them; of several counts the
        squares add up, as no count is negative.
        """
        if cells == 1:
            # mutant: square-of-a-unit-in-one-group-of-several
            return min(self.rows, self.rows_per_group) ** 2
        return (2 if replaced else 1) * self.squared

    def words(self, unit: str | None, keep: str) -> str:
        """Return which rows of a unit count, for the words of a statistic."""
        if unit is None:
            return ""
        few = f"{self.rows} row{'s' * (self.rows > 1)}"
        if self.is_by_group:
            few = f"{self.rows_per_group} row{'s' * (self.rows_per_group > 1)} in {self.groups} group"
            few += "s" * (self.groups > 1)
        return f", of {'at most' if keep == 'random' else 'the first'} {few} a unit"

    def counted(
        self,
        codes: Places,
        owners: Places | None,
        coins: NoiseSource | None,
        held: tuple[Places, Places] | None = None,
    ) -> Places:
        """Return the group of each row, −1 for rows that do not count; `held` is what `pairs` returns, if it is known.

        Of each unit so many groups are kept, of each of those so many rows, and of these so many in all; each time a
        random subset, or the first ones without a source. All of it is decided by the rows of the unit and by coins of
        their own, so the proof of `rows_that_count` holds with the coins of groups among those that are shared.
        """
        if owners is None:
            return codes
        if not self.is_by_group:
            # mutant: rows-beyond-the-bound-of-a-unit-count
            return np.where(rows_that_count(owners, self.rows, coins), codes, -1)
        codes = np.where(owners >= 0, codes, -1)
        pair_of, firsts = pairs(owners, codes) if held is None else held
        kept = rows_that_count(owners[firsts], self.groups, coins)
        # mutant: groups-beyond-the-bound-of-a-unit-count
        codes = np.where((pair_of >= 0) & np.append(kept, False)[pair_of], codes, -1)
        # mutant: rows-beyond-the-bound-of-a-group-count
        codes = np.where(rows_that_count(np.where(codes >= 0, pair_of, -1), self.rows_per_group, coins), codes, -1)
        if self.rows < self.groups * self.rows_per_group:
            codes = np.where(rows_that_count(np.where(codes >= 0, owners, -1), self.rows, coins), codes, -1)
        return codes


def contribution(rows_per_unit: Any, groups_per_unit: Any, rows_per_group: Any) -> Contribution:
    """Check the bounds that are given; with none of them a unit has one row."""
    rows, groups, in_group = (
        None if given is None else _validate.count(name, given, maximum=_MOST)
        for name, given in (
            ("rows_per_unit", rows_per_unit),
            ("groups_per_unit", groups_per_unit),
            ("rows_per_group", rows_per_group),
        )
    )
    if groups is None and rows is None and in_group is not None:
        raise InvalidParameter(
            f"groups_per_unit must be given with rows_per_group, got None: how many groups a unit has is not bounded; "
            f"for example groups_per_unit=1, rows_per_group={in_group}"
        )
    if groups is None:
        most = 1 if rows is None else rows
        return Contribution(most, most, most if in_group is None else min(in_group, most), in_group is not None)
    in_group = (1 if rows is None else rows) if in_group is None else in_group
    in_all = groups * in_group if rows is None else min(rows, groups * in_group)
    if in_all > _MOST:
        raise InvalidParameter(
            f"groups_per_unit and rows_per_group must be at most {_MOST} rows of a unit together, got {in_all}"
        )
    return Contribution(in_all, min(groups, in_all), min(in_group, in_all), True)


def pairs(owners: Places, codes: Places) -> tuple[Places, Places]:
    """Return for each row the place of its unit and group among all such pairs, and the first row of each pair.

    −1 for a row without one of them. Pairs stand in the order of their first rows: where the pairs of one unit stand
    among each other does not depend on rows of others.
    """
    return _native.pairs_of_units(_whole(owners), np.ascontiguousarray(codes, np.int64))


def pairs_among(held: tuple[Places, Places], codes: Places, wanted: npt.NDArray[np.bool_]) -> tuple[Places, Places]:
    """Return the same for the rows of wanted groups alone, from the pairs of all: their order is that of those."""
    pair_of, firsts = held
    kept = wanted[codes[firsts]]
    # mutant: pair-of-a-group-that-is-not-wanted-has-a-place
    places = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    return places[pair_of], firsts[kept]


def units(found: Numbers | Labels) -> Places:
    """Return for each row the place of its unit, −1 where there is none; ids that are equal are one unit."""
    if isinstance(found, Numbers):
        return _of_numbers(found)
    if found.all_different:
        return found.values
    table: dict[Any, int] = {}
    # mutant: unit-is-as-many-as-its-id-has-types
    places = [-1 if key is None else table.setdefault(key, len(table)) for key in found.compared()]
    if found.entries is None:
        return np.array(places, np.intp)
    codes: Places = np.array([*places, -1], np.intp)[found.values]
    return codes


def _of_numbers(found: Numbers) -> Places:
    """Return for each row the place of its number among all of them, in ascending order."""
    values, missing = found.values, found.nulls
    if values.dtype.kind == "f":
        missing = ~np.isfinite(values) if missing is None else missing | ~np.isfinite(values)
    if values.dtype.kind in "iu" and missing is None and values.size:
        lowest = values.min()
        if int(values.max()) - int(lowest) < 2 * values.size:
            return _of_near_integers(values, lowest)
    ascending = np.sort(values if missing is None else values[~missing])
    different = np.ones(ascending.size, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=different[1:])
    ascending = ascending[different]
    codes: Places = np.empty(values.size, np.int32 if ascending.size < 2**31 else np.intp)
    for start in range(0, values.size, PART):  # so that no copy of all rows is made
        codes[start : start + PART] = np.searchsorted(ascending, values[start : start + PART])
    if missing is not None:
        # mutant: missing-ids-are-one-unit
        codes[missing] = -1
    return codes


def _of_near_integers(values: npt.NDArray[Any], lowest: Any) -> Places:
    """Return the same for integers of a range that is not much larger than their number, without a sort."""
    parts = [slice(start, start + PART) for start in range(0, values.size, PART)]
    there = np.zeros(2 * values.size, np.bool_)
    for part in parts:
        there[_above(values[part], lowest)] = True
    dtype = np.int32 if there.size < 2**31 else np.intp
    places = np.cumsum(there, dtype=dtype)
    codes: Places = np.empty(values.size, dtype)
    for part in parts:
        codes[part] = places[_above(values[part], lowest)] - 1
    return codes


def _above(values: npt.NDArray[Any], lowest: Any) -> npt.NDArray[np.int64]:
    """Return how far integers are above the lowest one: less than 2⁶³, also where they are unsigned."""
    above = values - lowest if values.dtype.kind == "u" else values.astype(np.int64) - int(lowest)
    return np.asarray(above, np.int64)


def rows_that_count(owners: Places, rows: int, drawn_from: NoiseSource | None) -> npt.NDArray[np.bool_]:
    """Return which rows count: of each unit a random subset of so many, or its first ones without a source.

    Each row draws 32 bits of its own, and a unit keeps the rows that drew the least, of equal ones the first.

    *The subset keeps the sensitivity.* Let D' = D + unit u, and let the coins of all rows be independent. Which rows of
    another unit count is a function of that unit's rows, in their order, and of their own coins. Let these coins be the
    same for D and D', whose laws do not change by that; then exactly the same rows of all other units count in D and
    D', and at most `rows` of u besides. For each value c of the coins that the two share, a release M is about two
    tables that differ in at most `rows` rows of u, so P(M(D') ∈ E | c) ≤ e^ε·P(M(D) ∈ E | c) + δ, and the reverse; the
    mean over c says the same of M. As c might even be published, several releases about one subset compose, and every
    other measure of privacy that holds for each c holds: these are quasi-convex. A unit that is replaced is the same
    with rows of u on both sides.

    Rows with equal coins must count in an order that no other unit decides on, which their order in the table is. The
    number of bits must not depend on the number of units, or a further unit would change the law of the others.

    All rows of a unit that has no more than so many count, whatever their coins, so rows of units with more are looked
    at alone: a unit's own, one unit after another.

    While a run is recorded or replayed on a neighbor the first rows count: coins that both tables share.
    """
    coins = None
    if drawn_from is not None and OBSERVER.get() is None:
        coins = np.frombuffer(drawn_from.bytes(4 * owners.size), np.uint32)
    # mutant: subset-of-a-unit-depends-on-the-rows-of-others
    return _native.rows_of_units(_whole(owners), rows, coins)


def _whole(owners: Places) -> Places:
    """Return places of units as the native module takes them, if they are not already."""
    return np.ascontiguousarray(owners, None if owners.dtype in (np.int32, np.int64) else np.int64)
