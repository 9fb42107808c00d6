"""Exact tests of tables with two rows and two columns, given their margins ([Fis35]), in floating point."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.audit import _binomial

_SLACK = 1e-5
"""Relative error of a probability, and more."""


class Table(NamedTuple):
    """Of `total` pairs, in how many the first has a property, the second has, and both have."""

    total: int
    first: int
    second: int
    both: int

    def excess(self) -> float:
        """Return a bound on P[so many have both, or more], if the two are independent."""
        return tail(self.both, self.total, self.first, self.second)

    def lack(self) -> float:
        """Return a bound on P[so many have both, or fewer], if the two are independent."""
        return tail(self.first - self.both, self.total, self.first, self.total - self.second)


def tail(both: int, total: int, first: int, second: int) -> float:
    """Return an upper bound on P[X ≥ both]: of `total` things `first` have a mark, and X of `second` that are drawn.

    Ratios of neighboring probabilities fall, so a geometric series from the first one on is above all of them.
    """
    least, most = max(0, first + second - total), min(first, second)
    if both <= least or both * total <= first * second:
        return 1.0
    if both > most:
        return 0.0
    ratio = (first - both) * (second - both) / ((both + 1.0) * (total - first - second + both + 1.0))
    if ratio >= 1.0:
        return 1.0
    share = first / total  # any other would do: the probability does not depend on it
    log = _log_mass(both, second, share) + _log_mass(first - both, total - second, share)
    log -= _log_mass(first, total, share)
    return min(math.exp(min(log, 0.0)) * (1.0 + _SLACK) / (1.0 - ratio), 1.0)


def _log_mass(k: int, n: int, p: float) -> float:
    if n == 0 or p >= 1.0:
        return 0.0
    return _binomial.log_mass(k, n, p)


Words: TypeAlias = npt.NDArray[np.uint64]
"""64 bits each, the first the lowest."""
_BITS = 64
_COUNT = getattr(np, "bitwise_count", None)
"""Of numpy 2; before, 16 bits are looked up."""
_ONES = np.array([bin(i).count("1") for i in range(1 << 16)], dtype=np.uint8)


def packed(holds: npt.NDArray[np.bool_]) -> Words:
    """Return bits as words, and one word of zeros more."""
    found = np.zeros((holds.size // _BITS + 2) * 8, dtype=np.uint8)
    bits = np.packbits(holds, bitorder="little")
    found[: bits.size] = bits
    return found.view(np.dtype("<u8")).astype(np.uint64)


def pairs(size: int, lag: int) -> tuple[Words, Words]:
    """Return which of the first `size` − `lag` elements begin a pair: two choices of pairs that share no element."""
    is_early = np.arange(size - lag) // lag % 2 == 0
    return packed(is_early), packed(~is_early)


def later(words: Words, lag: int) -> Words:
    """Return the bits from number `lag` on, and a word of zeros."""
    whole, rest = divmod(lag, _BITS)
    found = np.zeros(words.size - whole, dtype=np.uint64)
    found[:] = words[whole:] >> np.uint64(rest)
    if rest:
        found[:-1] |= words[whole + 1 :] << np.uint64(_BITS - rest)
    return found


def table(one: Words, other: Words, begins: Words) -> Table:
    """Return the table of properties of the pairs that begin at some places."""
    size = min(one.size, other.size, begins.size)
    begins = begins[:size]
    first, second = one[:size] & begins, other[:size] & begins
    return Table(ones(begins), ones(first), ones(second), ones(first & second))


def ones(words: Words) -> int:
    """Return how many bits are 1."""
    if _COUNT is not None:
        return int(_COUNT(words).sum(dtype=np.int64))
    return int(_ONES[words.view(np.uint16)].sum(dtype=np.int64))
