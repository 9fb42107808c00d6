"""Optimal composition: the smallest ε and δ that hold for all mechanisms with the given guarantees."""

from __future__ import annotations

import math
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._upper_bounds import upper_end_of
from ferrodp.accounting.composition._worst_case import WorstCase
from ferrodp.accounting.composition.guarantees import Guarantee, Guarantees, counted
from ferrodp.errors import InvalidParameter

_MAX_BISECTIONS = 60  # more than a float's mantissa has bits


def compose_optimal(guarantees: Guarantees, *, delta: Real, count: int = 1, on_grid: bool = False) -> Guarantee:
    """Return the smallest ε that holds with `delta` for the composition of any such mechanisms, rounded up.

    No theorem that uses only the given (ε, δ) can give less: randomized response attains it.

    Parameters
    ----------
    guarantees : sequence of (float, float)
        The ε ≥ 0 and δ in [0, 1] of each mechanism; they may differ.
    delta : float
        The δ of the whole; in [0, 1). Rounded down if not exactly representable.
    count : int
        How often the whole list happens; from 0 to 2⁶³ − 1.
    on_grid : bool
        Return one of the values (k − 2i)·ε that the theorem lists, the next one above the optimum; for equal
        guarantees only.

    Returns
    -------
    Guarantee
        With ε = `inf` where `delta` is less than the probability that one of the δᵢ occurs.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    Equal guarantees: [KOV15] Theorem 3.3, also at ε between the listed ones; different ones: [MV16] Theorem 1.5.
    Adaptive choice of the mechanisms is covered.

    =======================================  ==========================================================
    equal ε, k ≤ 10¹⁰                        exact up to 10⁻⁹ of δ; 1 ms at k = 10³, 0.2 s at 10⁹
    different ε                              a grid of losses: above the optimum by some 10⁻⁵ of ε
    more, or ε that no grid of 2¹⁸ covers    zCDP with ρ = Σε²/2, or Σε: above it by some percent
    =======================================  ==========================================================

    `compose_optimal_bounds` shows the distance to the optimum.

    Examples
    --------
    >>> round(compose_optimal([(0.1, 0.0)], count=100, delta=1e-6).epsilon, 4)
    4.7746
    >>> compose_optimal([(1.0, 0.001)], count=30, delta=0.06, on_grid=True).epsilon
    22.0
    """
    on_grid = _validate.truth("on_grid", on_grid)
    worst = WorstCase(counted(guarantees, count))
    target = _validate.delta(delta, zero=True)
    epsilon = worst.epsilon_bounds(target).upper
    return Guarantee(_on_grid(worst, epsilon) if on_grid else epsilon, target)


def compose_optimal_bounds(guarantees: Guarantees, *, delta: Real, count: int = 1) -> Bounds:
    """Return a lower and an upper bound on the optimal ε of a composition.

    Parameters
    ----------
    guarantees, delta, count
        As for `compose_optimal`.

    Returns
    -------
    Bounds
        `upper` is the ε of `compose_optimal`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> bounds = compose_optimal_bounds([(0.1, 0.0)], count=100, delta=1e-6)
    >>> 0.0 <= bounds.upper - bounds.lower < 1e-8
    True
    """
    return WorstCase(counted(guarantees, count)).epsilon_bounds(_validate.delta(delta, zero=True))


def compose_optimal_delta_bounds(guarantees: Guarantees, *, epsilon: Real, count: int = 1) -> Bounds:
    """Return a lower and an upper bound on the optimal δ of a composition.

    Parameters
    ----------
    guarantees, epsilon, count
        As for `compose_optimal_delta`.

    Returns
    -------
    Bounds
        `upper` is the δ of `compose_optimal_delta`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> bounds = compose_optimal_delta_bounds([(0.1, 0.0)], count=100, epsilon=3.0)
    >>> 0.0 <= bounds.upper - bounds.lower < 1e-10
    True
    """
    total = _validate.non_negative("epsilon", epsilon, toward="down")
    return WorstCase(counted(guarantees, count)).delta_bounds(total)


@upper_end_of(compose_optimal_delta_bounds)
def compose_optimal_delta() -> None:
    """Return the smallest δ that holds with `epsilon` for the composition of any such mechanisms, rounded up.

    Parameters
    ----------
    guarantees : sequence of (float, float)
        The ε ≥ 0 and δ in [0, 1] of each mechanism; they may differ.
    epsilon : float
        The ε of the whole; finite, ≥ 0. Rounded down if not exactly representable.
    count : int
        How often the whole list happens; from 0 to 2⁶³ − 1.

    Returns
    -------
    float
        An upper bound, as close to the optimum as that of `compose_optimal`, by the same theorems.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> f"{compose_optimal_delta([(1.0, 0.0)], count=30, epsilon=22.5):.10f}"
    '0.0187455490'
    """


def optimal_epsilon_per_query(*, epsilon: Real, delta: Real, count: int, delta_per_query: Real = 0.0) -> float:
    """Return the largest ε that each of `count` mechanisms may have for the whole to be (ε, δ)-private, rounded down.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of the whole; ε ≥ 0 finite, δ in [0, 1). Rounded down if not exactly representable.
    count : int
        How many mechanisms; from 1 to 2⁶³ − 1.
    delta_per_query : float
        The δ of each; in [0, 1].

    Returns
    -------
    float
        An ε for which the composition has been proven to keep the guarantee.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type, or the δ of the mechanisms alone exceed `delta`.

    Notes
    -----
    The inverse of `compose_optimal`, by bisection.

    Examples
    --------
    >>> optimal_epsilon_per_query(epsilon=30.0, delta=0.0, count=30)
    1.0
    """
    total, target = _validate.non_negative("epsilon", epsilon, toward="down"), _validate.delta(delta, zero=True)
    times = _validate.count("count", count)
    delta_per_query = _validate.probability("delta_per_query", delta_per_query)

    def within(each: float) -> bool:
        worst = WorstCase(counted([(each, delta_per_query)], times))
        return worst.delta_bounds(total).upper <= target

    if not within(0.0):
        raise InvalidParameter(
            f"delta_per_query={delta_per_query!r} alone comes to more than delta={target!r}; allow a larger delta"
        )
    low, high = _validate.rounded(Fraction(total) / times, "down"), total + 1.0
    if not target:
        return low
    while within(high):
        low, high = high, 2.0 * high
    for _ in range(_MAX_BISECTIONS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _on_grid(worst: WorstCase, epsilon: float) -> float:
    """Return the smallest (k − 2i)·ε₀ that is at least epsilon, or 0."""
    if len(worst.groups) > 1:
        raise InvalidParameter("on_grid needs guarantees that are all equal")
    if not worst.groups or not 0.0 < epsilon < math.inf:
        return epsilon
    ((each, times),) = worst.groups.items()
    steps = -int(-Fraction(epsilon) / Fraction(each) // 1)
    return _validate.rounded((steps + (times - steps) % 2) * Fraction(each), "up")
