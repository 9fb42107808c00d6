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
from ferrodp.errors import InvalidArray
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.statistics._foreign import Labels, Numbers, is_missing, plain_label

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


def distinct(found: Numbers | Labels) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Return for each row the place of its value among all values, −1 for a missing one, and these values."""
    if isinstance(found, Labels):
        if found.entries is not None:
            known = [entry for entry in found.entries if plain_label(entry)]
            return found.places(known), known
        # mutant: label-of-equal-keys-is-that-of-the-first-row
        table: dict[tuple[str, Any], int] = {}  # 1, 1.0 and True are equal: which of them came first must not show
        rows = found.values.tolist()
        codes = (
            table.setdefault((type(row).__name__, row), len(table)) if plain_label(row) and not is_missing(row) else -1
            for row in rows
        )
        return np.fromiter(codes, np.intp, len(rows)), [_unsigned(row) for _, row in table]
    present = np.isfinite(found.values) if found.values.dtype.kind == "f" else np.ones(found.values.size, bool)
    if found.nulls is not None:
        present &= ~found.nulls
    entries, inverse = np.unique(found.values[present], return_inverse=True)
    codes_of_rows = np.full(found.values.size, -1, np.intp)
    codes_of_rows[present] = inverse
    return codes_of_rows, [_unsigned(entry) for entry in entries.tolist()]


def _units(found: Numbers | Labels) -> npt.NDArray[np.intp]:
    """Return for each row the place of its unit, −1 where there is none; ids that are equal are one unit."""
    if isinstance(found, Numbers) or found.entries is not None:
        return distinct(found)[0]
    table: dict[Any, int] = {}
    rows = found.values.tolist()
    # mutant: unit-is-as-many-as-its-id-has-types
    codes = (table.setdefault(row, len(table)) if plain_label(row) and not is_missing(row) else -1 for row in rows)
    return np.fromiter(codes, np.intp, len(rows))


def _unsigned(label: Any) -> Any:
    """Return a label without what is not seen when labels are compared: the sign of a zero."""
    return label + 0.0 if isinstance(label, float) else str(label) if isinstance(label, str) else label


def first_rows(found: Numbers | Labels, rows: int, size: int) -> npt.NDArray[np.bool_]:
    """Return which rows are among the first of their unit."""
    if found.values.size != size:
        raise InvalidArray("the column of units must have as many rows as the others")
    units = _units(found)
    order = np.argsort(units, kind="stable")
    ascending = units[order]
    counted = np.zeros(units.size, np.bool_)
    rank = np.arange(units.size) - np.searchsorted(ascending, ascending, side="left")
    counted[order] = (rank < rows) & (ascending >= 0)
    return counted
