"""Basic composition: the sum of all ε and the sum of all δ."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp.accounting.composition.guarantees import Guarantee, Guarantees, counted


def compose_basic(guarantees: Guarantees, *, count: int = 1) -> Guarantee:
    """Return the (ε, δ) of a composition by adding up all ε and all δ, rounded up.

    Parameters
    ----------
    guarantees : sequence of (float, float)
        The ε ≥ 0 and δ in [0, 1] of each mechanism.
    count : int
        How often the whole list happens; from 0 to 2⁶³ − 1.

    Returns
    -------
    Guarantee
        ε is `inf` where the sum is beyond the range of floats; δ is at most 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [DKMMN06] Theorem 1. Sums are exact rationals. For δ = 0 this is the optimum.

    Examples
    --------
    >>> compose_basic([(1.0, 1e-6), (0.5, 0.0)], count=2)
    Guarantee(epsilon=3.0, delta=2e-06)
    """
    found = counted(guarantees, count)
    return Guarantee(sum_of_epsilons(found), sum_of_deltas(found))


def sum_of_epsilons(found: Counter[Guarantee]) -> float:
    """Return Σε, rounded up."""
    return _validate.rounded(sum((times * Fraction(each.epsilon) for each, times in found.items()), Fraction(0)), "up")


def sum_of_deltas(found: Counter[Guarantee], extra: float = 0.0) -> float:
    """Return Σδ plus an extra δ, rounded up, at most 1."""
    total = sum((times * Fraction(each.delta) for each, times in found.items()), Fraction(extra))
    return min(_validate.rounded(total, "up"), 1.0)
