"""What of a part of a table is no vector of integers: sets of values, and counts by keys that are in the data.

*Sets.* The values of the whole table are the union of those of its parts, and the union of a set with itself is that
set: values that are in several parts, and a part that is there twice, count once. With a column of units each part has
all rows of a unit, of which so many different values count: Vᵤ, which depends on the rows of u and its coins. The union
over all parts is ⋃ᵤ Vᵤ, that of one process. Values are compared as there, by `==` and `hash`. A hash may be another in
each process, so that none travels: a set is made anew from its values where it arrives.

*Sets of groups.* Groups are those of public keys, so that each part has a set for each of them. A union a group is the
union of the pairs of a group and a value.

*Keys in the data.* How many rows, or units, a key has is the sum of how many it has in the parts, 0 where it does not
occur; a unit has all of its rows in one part where units are counted or their rows bounded. Keys are compared by their
type and by a form that equal ones share, so which of them came first shows nowhere, and they are noised in ascending
order: the same counts, each with noise of its own, as in one process, where keys are noised in the order of the table.

*Keys of units.* A `KeyUnion` is a function of the sets S_u of keys, one for each unit u: its rounds add up weights of
pairs of a unit and a key, and draw coins for pairs and noise for keys, of one law each. So neither the names of units
nor the order of units and keys change the law of what is released. S_u depends on the rows of u alone, which are all in
one part: the sets of the whole table are those of its parts together, and what is released of them, its guarantee
included, is that of one process. Ids of units do not travel.

A value of a type that compares objects by their identity equals itself alone, in one process too: a part has objects
of its own, and nothing tells those of two parts to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.statistics._foreign import Labels, Numbers, keys_of
from ferrodp.statistics.parts import exact

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Different:
    """Different values: numbers in ascending order, or what labels are compared by."""

    values: npt.NDArray[Any] | frozenset[Any]

    @classmethod
    def of(cls, found: Numbers | Labels, places: Places) -> Different:
        """Return the values of the rows of a column that count; equal ones have one place, others −1."""
        held = places >= 0
        if isinstance(found, Numbers):
            return cls(np.unique(found.values[held]))
        if found.entries is not None:
            entries = found.entries
            return cls(frozenset(keys_of(entries[place] for place in np.unique(found.values[held]).tolist())))
        _, firsts = np.unique(places[held], return_index=True)
        return cls(frozenset(keys_of(found.values[held][firsts].tolist())))

    def __len__(self) -> int:
        return len(self.values)

    def __add__(self, other: Different) -> Different:
        """Return the values that are in one of both."""
        if isinstance(self.values, frozenset) and isinstance(other.values, frozenset):
            # mutant: values-in-two-parts-count-twice
            return Different(self.values | other.values)
        return Different(np.unique(np.concatenate([self.values, other.values])))


def by_group(found: Numbers | Labels, places: Places, codes: Places, size: int) -> list[Different]:
    """Return the values of the rows of each of so many groups; rows without a group, or a place, do not count."""
    held = np.flatnonzero((codes >= 0) & (places >= 0))
    held = held[np.argsort(codes[held], kind="stable")]
    ends = np.searchsorted(codes[held], np.arange(size + 1)).tolist()
    rows = [held[start:stop] for start, stop in pairwise(ends)]
    return [Different.of(_taken(found, each), places[each]) for each in rows]


def _taken(found: Numbers | Labels, rows: Places) -> Numbers | Labels:
    if isinstance(found, Numbers):
        return found._replace(values=found.values[rows], nulls=None)
    return replace(found, values=found.values[rows])


def counted_values_by_group(
    numbers: Callable[[], Ints], values: Callable[[], list[Different]], public: Callable[[], Any]
) -> Ints:
    """Return how many different values each group has, in one process or in all parts of its table."""
    return numbers() if exact.is_whole() else np.array([len(each) for each in exact.passed(values, public)], np.int64)


def counted_values(number: Callable[[], int], values: Callable[[], Different], public: Callable[[], Any]) -> int:
    """Return how many different values a table has, in one process or in all of its parts."""
    return number() if exact.is_whole() else len(exact.passed(values, public))


@dataclass(frozen=True, slots=True)
class Tally:
    """The keys that occur, by how they sort, each with its label and its count, which is at least 1."""

    keys: dict[Any, tuple[Any, int]]

    @classmethod
    def of(cls, order: Sequence[Any], labels: Sequence[Any], counts: Ints) -> Tally:
        """Return the keys of some rows and their counts."""
        occurs = np.flatnonzero(counts > 0).tolist()
        return cls({order[place]: (labels[place], int(counts[place])) for place in occurs})

    def __add__(self, other: Tally) -> Tally:
        """Return the keys of both."""
        keys = dict(self.keys)
        for key, (label, count) in other.keys.items():
            # mutant: key-in-two-parts-has-one-count
            keys[key] = label, count + keys.get(key, (label, 0))[1]
        return Tally(keys)


@dataclass(frozen=True, slots=True, eq=False)
class KeysOfUnits:
    """The keys that occur, by how they sort, in that order with their labels; and pairs of a unit and a key."""

    keys: dict[Any, Any]
    owners: Places
    """Places of units, each of which has a pair."""
    codes: Places

    @classmethod
    def of(cls, order: Sequence[Any], labels: Sequence[Any], owners: Places, codes: Places) -> KeysOfUnits:
        """Return the keys of the units of some rows; each pair of places is there once."""
        occurs = np.unique(codes).tolist()
        known = sorted((order[place], place) for place in occurs)
        moved = np.zeros(len(order) + 1, np.intp)
        moved[[place for _, place in known]] = np.arange(len(known))
        named = np.unique(owners, return_inverse=True)[1].reshape(-1)
        return cls({key: labels[place] for key, place in known}, named.astype(np.intp), moved[codes])

    def __add__(self, other: KeysOfUnits) -> KeysOfUnits:
        """Return those of both, whose units are different ones."""
        keys = self.keys | other.keys
        at = {key: place for place, key in enumerate(sorted(keys))}
        codes = [np.array([at[key] for key in each.keys], np.intp)[each.codes] for each in (self, other)]
        # mutant: units-of-two-parts-are-one
        above = int(self.owners.max(initial=-1)) + 1
        return KeysOfUnits(
            {key: keys[key] for key in at}, np.concatenate([self.owners, other.owners + above]), np.concatenate(codes)
        )
