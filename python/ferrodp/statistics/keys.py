"""Keys of groups that are found in the data, and which rows of a unit of privacy count.

Counts with discrete Laplace noise are compared with a threshold τ, and only keys that occur are looked
at. Neighbors D and D' = D + unit; keys that only the unit has are released with probability at most
max(P(N ≥ τ − k), k·P(N ≥ τ − 1)) ≤ δ: k rows in j such keys have tails whose sum is convex in the counts, so it is
largest for one key or for k. Without them, the counts of common keys are an ε-differentially private release. With p
and p' the probabilities of a set of outcomes of the common keys, P'(set) ≥ p'(1 − δ), as the noises are independent,
and p ≤ p(1 − δ) + δ ≤ e^ε·p'(1 − δ) + δ; the other direction is p' ≤ e^ε·p plus δ. So the keys are (ε,
δ)-differentially private [KKMN09], [WZLDSG20].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _validate
from ferrodp._observer import OBSERVER
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics._foreign import Labels, Numbers, canonical

__all__ = ["KeyThreshold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyThreshold:
    """Find the keys of groups in the data: those whose noised count reaches a threshold.

    Parameters
    ----------
    epsilon : float
        ε of the keys; finite, > 0.
    delta : float
        δ of the keys, in (0, 1): the probability with which a key that only one unit has may be released.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.

    Examples
    --------
    >>> KeyThreshold(epsilon=1.0, delta=1e-6).threshold(1)
    15
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon, toward="down"))
        object.__setattr__(self, "delta", _validate.delta(self.delta))

    def threshold(self, rows_per_unit: int = 1) -> int:
        """Return the least count that is released, noise included.

        Parameters
        ----------
        rows_per_unit : int
            The most rows of a unit.

        Returns
        -------
        int
            τ of the module docstring, rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is not at least 1.
        """
        rows = _validate.count("rows_per_unit", rows_per_unit, maximum=2**20)
        scale = float(self._noise(rows).scale)
        # P(N ≥ t) = r^t/(1 + r): both terms at most δ, less 1e-9 of it for the rounding of logarithms
        log_target = math.log(self.delta) + math.log1p(math.exp(-1.0 / scale)) - 1e-9
        # mutant: threshold-for-one-row-of-a-unit
        one_key, many_keys = rows - scale * log_target, 1.0 + scale * (math.log(rows) - log_target)
        return math.ceil(max(one_key, many_keys, rows + 1.0) * (1.0 + 1e-12))

    def _noise(self, rows: int) -> DiscreteLaplaceMechanism:
        return DiscreteLaplaceMechanism.calibrated(epsilon=self.epsilon, l1_sensitivity=rows)


def distinct(found: Numbers | Labels) -> tuple[npt.NDArray[np.intp], list[Any], list[tuple[str, Any]]]:
    """Return for each row the place of its value among all values, −1 for none; these values, and how they sort."""
    if isinstance(found, Labels):
        # mutant: label-of-equal-keys-is-that-of-the-first-row
        table: dict[tuple[str, Any], int] = {}  # 1, 1.0 and True are equal: which of them came first must not show
        entries: list[Any] = []
        rows = found.values.tolist() if found.entries is None else found.entries
        places = np.fromiter((_placed(canonical(row), table, entries) for row in rows), np.intp, len(rows))
        codes = places if found.entries is None else np.append(places, -1)[found.values]
        return codes.astype(np.intp), entries, list(table)
    present = np.isfinite(found.values) if found.values.dtype.kind == "f" else np.ones(found.values.size, bool)
    if found.nulls is not None:
        present &= ~found.nulls
    numbers, inverse = np.unique(found.values[present], return_inverse=True)
    codes = np.full(found.values.size, -1, np.intp)
    codes[present] = inverse
    entries = [entry + 0.0 if isinstance(entry, float) else entry for entry in numbers.tolist()]
    return codes, entries, [("", entry) for entry in entries]


def _placed(found: tuple[str, Any, Any] | None, table: dict[tuple[str, Any], int], entries: list[Any]) -> int:
    """Return the place of a canonical label, which is a new one if it is not there yet."""
    if found is None:
        return -1
    place = table.setdefault(found[:2], len(entries))
    if place == len(entries):
        entries.append(found[2])
    return place


def units(found: Numbers | Labels) -> npt.NDArray[np.intp]:
    """Return for each row the place of its unit, −1 where there is none; ids that are equal are one unit."""
    if isinstance(found, Numbers):
        return distinct(found)[0]
    table: dict[Any, int] = {}
    # mutant: unit-is-as-many-as-its-id-has-types
    places = [-1 if key is None else table.setdefault(key, len(table)) for key in found.compared()]
    if found.entries is None:
        return np.array(places, np.intp)
    codes: npt.NDArray[np.intp] = np.array([*places, -1], np.intp)[found.values]
    return codes


def rows_that_count(owners: npt.NDArray[np.intp], rows: int, drawn_from: NoiseSource | None) -> npt.NDArray[np.bool_]:
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

    Sorting may use one key for unit and coin, but ties must not be left to the sort: it might decide by rows of others.
    The number of bits must not depend on the number of units, or a further unit would change the law of the others.

    While a run is recorded or replayed on a neighbor the first rows count: coins that both tables share.
    """
    if drawn_from is None or OBSERVER.get() is not None:
        order = np.argsort(owners, kind="stable")
    else:
        coins = np.frombuffer(drawn_from.bytes(4 * owners.size), np.uint32)
        # mutant: subset-of-a-unit-depends-on-the-rows-of-others
        order = _by_owner_and_coin(owners, coins)
    ascending = owners[order]
    starts = np.flatnonzero(np.diff(ascending, prepend=-2))
    lengths = np.diff(starts, append=ascending.size)
    rank = np.arange(ascending.size) - np.repeat(starts, lengths)
    counted = np.zeros(owners.size, np.bool_)
    counted[order] = (rank < rows) & (ascending >= 0)
    return counted


def _by_owner_and_coin(owners: npt.NDArray[np.intp], coins: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """Return the order of rows by owner, coin and place; there are less than 2³¹ owners."""
    joined = ((owners + 1).astype(np.uint64) << np.uint64(32)) | coins
    order = np.argsort(joined)
    ascending = joined[order]
    tied = np.flatnonzero(ascending[1:] == ascending[:-1])
    if tied.size:
        # mutant: equal-coins-left-to-the-sort
        tied = np.unique(np.concatenate([tied, tied + 1]))
        order[tied] = order[tied][np.lexsort((order[tied], ascending[tied]))]
    return order
