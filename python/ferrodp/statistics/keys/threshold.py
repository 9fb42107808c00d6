"""Keys whose noised counts reach a threshold; the counts are released with them.

Counts with discrete Laplace noise are compared with a threshold τ, and only keys that occur are looked at. Neighbors D
and D' = D + unit. A key that only the unit has, with c of its rows, is released with probability P(N ≥ τ − c) =
e^(c/b)·e^(−τ/b)/(1 + e^(−1/b)). A unit with k rows, r at most in each of g groups, has j ≤ min(g, k) such keys. e^(c/b)
is convex in c, so for 1 ≤ c ≤ r it is at most s(c), linear with s(1) = e^(1/b) and s(r) = e^(r/b), and the sum over the
keys is at most j·e^(1/b) + (min(k, jr) − j)·(s(2) − s(1)). As j grows to k/r each further key adds e^(r/b); beyond, a
key takes the place of rows, and the sum is linear in j: it is largest at one of the ends, k/r and min(g, k). τ is the
least integer for which both are at most δ. For g = r = k that is max(P(N ≥ τ − k), k·P(N ≥ τ − 1)) ≤ δ.

Without these keys, the noised counts of common keys are an ε-differentially private release: that of which reach τ, and
of how many they are. With p and p' the probabilities of a set of outcomes of the common keys, P'(set) ≥ p'(1 − δ), as
the noises are independent, and p ≤ p(1 − δ) + δ ≤ e^ε·p'(1 − δ) + δ; the other direction is p' ≤ e^ε·p plus δ. So keys
and counts together are (ε, δ)-differentially private [KKMN09], [WZLDSG20].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ferrodp._base import _validate
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.statistics.keys.contributions import Contribution, contribution

__all__ = ["KeyThreshold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyThreshold:
    """Find the keys of groups in the data: those whose noised count reaches a threshold. The counts come with them.

    Rows are counted, or units where `private_group_by` has `unit` and `groups_per_unit`.

    Parameters
    ----------
    epsilon : float
        ε of the keys and their counts; finite, > 0.
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

    def threshold(
        self, rows_per_unit: int | None = None, *, groups_per_unit: int | None = None, rows_per_group: int | None = None
    ) -> int:
        """Return the least count that is released, noise included.

        Parameters
        ----------
        rows_per_unit, groups_per_unit, rows_per_group : int, optional
            The most rows of a unit, the most groups that it has, and the most rows in one of them; by default one row.

        Returns
        -------
        int
            τ of the module docstring, rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If one of them is not at least 1.
        """
        return self._least(contribution(rows_per_unit, groups_per_unit, rows_per_group))

    def _least(self, limit: Contribution) -> int:
        scale = float(self._noise(limit).scale)
        rows, in_group, keys = limit.rows, limit.rows_per_group, min(limit.groups, limit.rows)
        # P(N ≥ t) = r^t/(1 + r): all terms at most δ, less 1e-9 of it for the rounding of logarithms
        log_target = math.log(self.delta) + math.log1p(math.exp(-1.0 / scale)) - 1e-9
        # mutant: threshold-for-one-row-of-a-unit
        few = in_group + scale * math.log(rows / in_group)  # τ − b·log(…): in units of the noise
        many = 1.0 + scale * math.log(keys)
        further = rows - keys
        if further and in_group > 1:
            rise = (in_group - 1) / scale + math.log1p(-math.exp(-(in_group - 1) / scale)) - math.log(in_group - 1)
            # mutant: threshold-for-keys-of-one-row-each
            many += scale * _log_of_sum(0.0, rise + math.log(further / keys))
        return math.ceil(max(few - scale * log_target, many - scale * log_target, in_group + 1.0) * (1.0 + 1e-12))

    def _noise(self, limit: Contribution) -> DiscreteLaplaceMechanism:
        return DiscreteLaplaceMechanism.calibrated(epsilon=self.epsilon, l1_sensitivity=limit.rows)


def _log_of_sum(first: float, second: float) -> float:
    """Return log(eᵃ + eᵇ)."""
    return max(first, second) + math.log1p(math.exp(-abs(first - second)))
