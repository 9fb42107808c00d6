"""The keys that one unit adds to at most once, found as often as any (ε, δ)-differentially private rule finds them.

A key that n units have is released with probability π(n), independently of all others: π(0) = 0 and

    π(n + 1) = min(e^ε·π(n) + δ, 1 − e^(−ε)·(1 − π(n) − δ), 1).

*Privacy.* D' = D + unit differs from D in the count of one key, n + 1 for n, and the decisions about keys are
independent. For released or not, π(n + 1) ≤ e^ε·π(n) + δ and 1 − π(n) ≤ e^ε·(1 − π(n + 1)) + δ are the two terms of the
minimum; π ascends, so the other two hold too. No rule that keeps these four inequalities has a larger π(n), by
induction over n; and a rule that is (ε, δ)-differentially private keeps them [DVGM21, Theorem 1].

*Exactly.* Probabilities are integers over 2²⁵⁶. e^ε and e^(−ε) come from Python's decimals, which round correctly,
moved by a unit in the last place to the side that releases less; products round to that side, too: the two inequalities
hold for the integers themselves. A key is released if 256 random bits are less than its integer.
"""

from __future__ import annotations

import decimal
import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.random import NoiseSource

__all__ = ["KeySelection"]

BITS = 256
_LEAST_EPSILON = 2.0**-12
_DIGITS = decimal.Context(prec=120, Emin=-999999, Emax=999999)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelection:
    """Find the keys of groups that one unit adds to at most once: no rule with this ε and δ finds more.

    Their counts are not released; count them with a budget of its own, or use `KeyThreshold`.

    Parameters
    ----------
    epsilon : float
        ε of the keys; at least 2⁻¹².
    delta : float
        δ of the keys, in (0, 1): the probability with which a key that only one unit has is released.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.

    References
    ----------
    [DVGM21] Desfontaines, Voss, Gipson, Mandayam, "Differentially private partition selection", PoPETs 2022.

    Examples
    --------
    >>> rule = KeySelection(epsilon=0.1, delta=1e-5)
    >>> rule.probability(1), 0.5 < rule.probability(87) < 0.6
    (1e-05, True)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = _validate.positive("epsilon", self.epsilon, toward="down")
        if epsilon < _LEAST_EPSILON:
            raise _validate.out_of_domain("epsilon", "at least 2**-12 for KeySelection", self.epsilon, write="0.1")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", _validate.delta(self.delta))

    def probability(self, count: int) -> float:
        """Return with which probability a key is released that so many units have.

        Parameters
        ----------
        count : int
            At least 0.

        Returns
        -------
        float
            π of the module docstring, rounded to nearest.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is no such number.
        """
        table = probabilities(self.epsilon, self.delta)
        at = _validate.count("count", count, minimum=0)
        return float(Fraction(table[at], 2**BITS)) if at < len(table) else 1.0

    def _chosen(self, counts: npt.NDArray[np.int64], source: NoiseSource) -> npt.NDArray[np.bool_]:
        """Return which keys are released."""
        limits = _words(self.epsilon, self.delta)
        # mutant: common-key-left-to-chance
        return below(limits[np.minimum(counts, len(limits) - 1)], source) | (counts >= len(limits))


def below(limits: npt.NDArray[np.uint64], source: NoiseSource) -> npt.NDArray[np.bool_]:
    """Return for each row of four words, the first one the most significant, whether 256 random bits are below it."""
    drawn = np.frombuffer(source.bytes(BITS // 8 * len(limits)), ">u8").reshape(-1, BITS // 64)
    chosen = np.zeros(len(limits), np.bool_)
    tied = np.ones(len(limits), np.bool_)
    for word in range(BITS // 64):
        limit = limits[:, word]
        # mutant: key-released-where-bits-are-equal
        chosen |= tied & (drawn[:, word] < limit)
        tied &= drawn[:, word] == limit
    return chosen


@functools.lru_cache(maxsize=16)
def probabilities(epsilon: float, delta: float) -> list[int]:
    """Return π(0), π(1), … over 2²⁵⁶, up to the last one that is less than 1."""
    one = 1 << BITS
    growth = Fraction(_DIGITS.next_minus(_DIGITS.exp(decimal.Decimal(epsilon))))
    shrink = Fraction(_DIGITS.next_plus(_DIGITS.exp(decimal.Decimal(-epsilon))))
    step = 1 << (BITS + 64)  # both as integers over 2³²⁰, each rounded to its side
    grown, shrunk = math.floor(growth * step), math.ceil(shrink * step)
    added = math.floor(Fraction(delta) * one)
    found = [0]
    while True:
        last = found[-1]
        # mutant: probability-of-a-key-grows-too-fast
        up = last * grown // step + added
        left = max(one - last - added, 0)
        # mutant: probability-of-a-missing-key-falls-too-fast
        down = one - -(-left * shrunk // step)
        following = min(up, down, one)
        if following >= one or following == last:
            return found
        found.append(following)


@functools.lru_cache(maxsize=16)
def _words(epsilon: float, delta: float) -> npt.NDArray[np.uint64]:
    """Return the same as words of 64 bits."""
    return words_of(probabilities(epsilon, delta))


def words_of(numbers: list[int]) -> npt.NDArray[np.uint64]:
    """Return numbers of 256 bits as words of 64 bits, the first one the most significant."""
    table = b"".join(each.to_bytes(BITS // 8, "big") for each in numbers)
    return np.frombuffer(table, ">u8").reshape(-1, BITS // 64).astype(np.uint64)
