"""Certified sensitivities of strategies: upper bounds on ‖C·G‖ over all that one unit can contribute.

G has a row of norm at most 1 for each step in which the unit takes part, and zeros elsewhere. A pattern is a set of at
most k steps of which any two are at least b apart. With X = CᵀC, ‖C·G‖² = Σ X[i, j]·⟨gᵢ, gⱼ⟩ ≤ Σ |X[i, j]| over the
steps i, j of the pattern, with equality for equal rows where no such X[i, j] is negative.

*Toeplitz matrices.* Let c₀ ≥ c₁ ≥ … ≥ 0 be the first column. For i ≤ j, X[i, j] = Σ cₛ·cₛ₊₍ⱼ₋ᵢ₎, s from 0 to
T − 1 − j. This falls in j with j − i fixed, as terms are lost, and in j − i with j fixed, as terms shrink. The m-th
step of a pattern is at least (m − 1)·b, and the m-th and n-th are at least |m − n|·b apart: the steps 0, b, 2b, … are
the worst pattern, and k of them are worse than fewer ([KL24] Theorem 2). Any other Toeplitz matrix is bounded by the
one whose column is the least non-increasing bound on |cₛ|: each |X[i, j]| grows with the |cₛ|.

*Numerics.* Every float here is ≥ 0. An operation returns at least its true result divided by 1 + u, u = 2⁻⁵³: after n
of them the true number is at most (1 + u)ⁿ times the float, plus what underflow can hide. Sums of squares are exact
(`math.fsum`), then rounded once; the last steps are done with rationals, and short sums from the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ferrodp._numerics.rounding import sqrt_up

Doubles = npt.NDArray[np.float64]

_UNIT = Fraction(1, 2**53)
_TINY = Fraction(1, 2**1000)
"""More than any product that underflows."""
_FEW_TERMS = 4096
"""Coefficients, over all participations, up to which sums are exact."""
_FEW_PARTICIPATIONS = 64
"""Columns up to which they are added one by one."""
_MOST_PATTERNS, _FEW_STEPS = 20_000, 1000
"""Patterns of participation, and steps, up to which all patterns are looked at."""


def most_participations(num_steps: int, num_participations: int, min_separation: int) -> int:
    """Return how many of these participations fit into so many steps."""
    return min(num_participations, -(-num_steps // min_separation))


def toeplitz(column: Doubles, num_steps: int, participations: int, separation: int, roundings: int = 0) -> float:
    """Return an upper bound on the sensitivity of a Toeplitz matrix, exact up to rounding where its column is monotone.

    Parameters
    ----------
    column : (b,) ndarray
        First column; zeros follow.
    num_steps, participations, separation : int
        Of the stream.
    roundings : int
        Each coefficient is within (1 + 2⁻⁵³)^±roundings of the true one.
    """
    # mutant: coefficients-that-grow-taken-for-falling
    bound = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
    count = most_participations(num_steps, participations, separation)
    # mutant: participations-of-a-strategy-one-step-apart
    starts = range(0, count * separation, separation)
    if not roundings and count * bound.size <= _FEW_TERMS:
        exact = [Fraction(0)] * num_steps
        terms = [Fraction(each) for each in bound.tolist()]
        for start in starts:
            for step, term in zip(range(start, num_steps), terms, strict=False):
                exact[step] += term
        return sqrt_up(sum((each * each for each in exact), Fraction(0)))
    if count > _FEW_PARTICIPATIONS:
        return root_of_squares(_sums_apart(bound, num_steps, count, separation), roundings + count)
    total = np.zeros(num_steps)
    for start in starts:
        length = min(bound.size, num_steps - start)
        total[start : start + length] += bound[:length]
    return root_of_squares(total, roundings + count)


def _sums_apart(bound: Doubles, num_steps: int, count: int, separation: int) -> Doubles:
    """Return Σ c[t − m·separation] over m < count for each t < num_steps, each after less than `count` additions.

    In rows of `separation` terms these are sums of `count` rows, one below the other. Cut into blocks of `count` rows,
    any such rows are the end of one block and the beginning of the next one: two running sums, and no subtraction.
    """
    rows = -(-num_steps // separation)
    blocks = -(-rows // count)
    padded = np.zeros((blocks * count, separation))
    padded.reshape(-1)[: bound.size] = bound[:num_steps]
    inside = padded.reshape(blocks, count, separation)
    found = np.cumsum(inside, axis=1)
    ends = np.cumsum(inside[:, ::-1], axis=1)[:, ::-1]
    # mutant: rows-of-the-block-before-left-out
    found[1:, :-1] += ends[:-1, 1:]
    whole: Doubles = found.reshape(-1)[:num_steps]
    return whole


def root_of_squares(values: Doubles, roundings: int) -> float:
    """Return a float that is at least the norm of true values within (1 + 2⁻⁵³)^±roundings of these, all ≥ 0."""
    total = Fraction(math.fsum((values * values).tolist()))
    # mutant: norm-rounded-down
    return sqrt_up(total * _hidden(2 * roundings + 2) + _TINY if total else total)


def _hidden(roundings: int) -> Fraction:
    """Return by which factor a true number can exceed what so many roundings made of it: (1 + u)ⁿ ≤ 1/(1 − n·u)."""
    return 1 / (1 - roundings * _UNIT)


def banded(diagonals: Doubles, participations: int, separation: int) -> float:
    """Return an upper bound on the sensitivity of a lower triangular matrix with few diagonals.

    Parameters
    ----------
    diagonals : (b, T) ndarray
        ``diagonals[d, j]`` is C[j + d, j]; zero where j + d ≥ T.
    participations, separation : int
        Of the stream.

    Notes
    -----
    Columns at least b apart do not meet: with b ≤ separation, X is diagonal within a pattern, and the best pattern of
    squared column norms is found by dynamic programming. Otherwise all patterns are looked at if they are few. Else
    Σᵢⱼ |X[i, j]| ≤ Σᵢ maxₚ Σⱼ |X[i, j]|: the best pattern for each row alone, then the best pattern of these sums.
    """
    width, num_steps = diagonals.shape
    count = most_participations(num_steps, participations, separation)
    gram = _gram(diagonals)
    # mutant: columns-that-meet-counted-apart
    if width <= separation or count == 1:
        return _root(_best(gram[0].tolist(), count, separation), width + count)
    if num_steps <= _FEW_STEPS and _num_patterns(num_steps, count, separation) <= _MOST_PATTERNS:
        full = _full(gram)
        worst = max(float(full[np.ix_(each, each)].sum()) for each in patterns(num_steps, count, separation))
        return _root(worst, width + 2 * count * count)
    rows = [_best(each, count, separation) for each in _rows(gram)]
    return _root(_best(rows, count, separation), width + 2 * count + 2)


def patterns(num_steps: int, count: int, separation: int, start: int = 0) -> Iterator[list[int]]:
    """Yield every pattern of at most `count` steps, each at least `separation` after the one before."""
    yield []
    if count:
        for first in range(start, num_steps):
            for rest in patterns(num_steps, count - 1, separation, first + separation):
                yield [first, *rest]


def _num_patterns(num_steps: int, count: int, separation: int) -> int:
    return sum(math.comb(max(num_steps - (size - 1) * (separation - 1), 0), size) for size in range(count + 1))


def _gram(diagonals: Doubles) -> Doubles:
    """Return Σₜ |C[t, j]|·|C[t, j + d]| ≥ |X[j, j + d]| as row d: exact for entries ≥ 0."""
    width, num_steps = diagonals.shape
    size = np.abs(diagonals)
    gram = np.zeros_like(size)
    for apart in range(width):
        for row in range(apart, width):
            gram[apart, : num_steps - apart] += size[row, : num_steps - apart] * size[row - apart, apart:]
    return gram


def _full(gram: Doubles) -> Doubles:
    width, num_steps = gram.shape
    full = np.zeros((num_steps, num_steps))
    for apart in range(width):
        along = np.arange(num_steps - apart)
        full[along, along + apart] = full[along + apart, along] = gram[apart, : num_steps - apart]
    return full


def _rows(gram: Doubles) -> Iterator[list[float]]:
    """Yield the rows of |X| within the band."""
    width, num_steps = gram.shape
    for step in range(num_steps):
        before = [float(gram[step - j, j]) for j in range(max(0, step - width + 1), step)]
        after = gram[: min(width, num_steps - step), step].tolist()
        yield before + after


def _best(weights: Sequence[float], count: int, separation: int) -> float:
    """Return the largest sum of `count` weights ≥ 0 of which any two are at least `separation` apart."""
    size = len(weights)
    best: list[float] = [0.0] * (size + separation)
    for _ in range(min(count, -(-size // separation))):
        now: list[float] = [0.0] * (size + separation)
        for step in range(size - 1, -1, -1):
            now[step] = max(now[step + 1], weights[step] + best[step + separation])
        best = now
    return best[0]


def _root(total: float, roundings: int) -> float:
    exact = Fraction(total)
    return sqrt_up(exact * _hidden(roundings) + _TINY if exact else exact)
