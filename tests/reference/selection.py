"""Choices and randomized responses: their probabilities by formulas, and the outcome for a key, bit for bit.

Probabilities are mpmath numbers of the working precision. Outcomes follow the bit addressing of the library and look at
`DIGITS` binary digits of every uniform number at once, without any filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import mpmath
import numpy as np
import numpy.typing as npt
from mpmath import mp, mpf

from . import keystream

DIGITS = 64 + 4 * 128


def exact(value: float | Fraction) -> mpf:
    """Return the number itself, to the working precision."""
    ratio = Fraction(value)
    return mpf(ratio.numerator) / ratio.denominator


def scaled(utilities: Sequence[float], scale: float) -> list[mpf]:
    """Return (u − max u)/s."""
    top = max(Fraction(u) for u in utilities)
    return [exact((Fraction(u) - top) / Fraction(scale)) for u in utilities]


def gumbel(utilities: Sequence[float], scale: float) -> list[mpf]:
    """Return e^(u/s), normalized: the exponential mechanism."""
    weights = [mpmath.exp(u) for u in scaled(utilities, scale)]
    return [weight / mpmath.fsum(weights) for weight in weights]


def exponential(utilities: Sequence[float], scale: float) -> list[mpf]:
    """Return the probabilities of permute-and-flip.

    Candidates come in random order, each taken with probability q = e^((u − max u)/s): p_i is q_i times the integral
    over t from 0 to 1 of Π (1 − t·q_j), j ≠ i, as a later place t lets those before it be turned down; expanded, a sum
    over subsets of the others of ±Π q_j/(size + 1).
    """
    coins = [mpmath.exp(u) for u in scaled(utilities, scale)]
    found = []
    for i, own in enumerate(coins):
        others = coins[:i] + coins[i + 1 :]
        subsets = (chosen for size in range(len(others) + 1) for chosen in combinations(others, size))
        found.append(own * mpmath.fsum((-1) ** len(each) * mpmath.fprod(each) / (len(each) + 1) for each in subsets))
    return found


def race(utilities: Sequence[float], scale: float, whole: Sequence[int], weights: Sequence[float]) -> list[mpf]:
    """Return the probability that the winner is one of `whole[i]` uniform arrivals, and of a weight, for each i.

    With w = e^((u − max u)/s), none of the uniform arrivals of a run is before z with probability (1 − w·z)^m, and no
    exponential one with e^(−λ·w·z): the integral over z of the rate of one times the product of all.
    """
    coins = [mpmath.exp(u) for u in scaled(utilities, scale)]
    present = [(w, mpf(m), exact(weight)) for w, m, weight in zip(coins, whole, weights, strict=True)]
    end = min([1 / w for w, m, _ in present if m] or [mpf(300) / mpmath.fsum(w * weight for w, _, weight in present)])

    def none_before(z: mpf) -> mpf:
        return mpmath.fprod((1 - w * z) ** m * mpmath.exp(-weight * w * z) for w, m, weight in present)

    def rate(w: mpf, m: mpf, z: mpf) -> mpf:
        return m * w / (1 - w * z) * none_before(z)

    ends = [mpf(0), *(end / 2**k for k in range(14, -1, -1))]  # many arrivals: all of it is near 0
    rest = mpmath.quad(none_before, ends)
    first = [mpmath.quad(lambda z, w=w, m=m: rate(w, m, z), ends) if m else mpf(0) for w, m, _ in present]
    return first + [weight * w * rest for w, _, weight in present]


def permuted(utilities: npt.ArrayLike, scale: float, copies: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the probabilities of permute-and-flip in floats: the integral of a polynomial, by a rule exact for it."""
    u, m = np.asarray(utilities, float), np.asarray(copies, int)
    coins = np.where(m > 0, np.exp((u - u[m > 0].max()) / scale), 0.0)
    nodes, weights = np.polynomial.legendre.leggauss(int(m.sum()) // 2 + 1)
    z = (nodes + 1.0) / 2.0
    others = (1.0 - np.outer(z, coins)) ** np.maximum(m - (np.eye(u.size, dtype=int)[:, None, :]), 0)
    return m * coins * (others.prod(axis=2) @ (weights / 2.0))


Terms = dict[int, mpf]
"""A sum of c·e^(n·x), as {n: c}."""

DENSITIES: dict[str, tuple[Terms, Terms]] = {
    "exponential": ({}, {-1: mpf(1)}),
    "laplace": ({1: mpf(1) / 2}, {-1: mpf(1) / 2}),
}
DISTRIBUTIONS: dict[str, tuple[Terms, Terms]] = {
    "exponential": ({}, {0: mpf(1), -1: mpf(-1)}),
    "laplace": ({1: mpf(1) / 2}, {0: mpf(1), -1: mpf(-1) / 2}),
}
"""Of noise of scale 1: below 0, and above."""


def by_pieces(noise: str, utilities: Sequence[float], scale: float) -> list[mpf]:
    """Return P[u_i + r_i is the largest], the integral of density × Π distribution functions, exactly piece by piece.

    Between two utilities each factor is a sum of multiples of e^(n·x), and so is their product.
    """
    at = scaled(utilities, scale)
    ends = [-mpmath.inf, *sorted(set(at)), mpmath.inf]
    powers = [{0: mpf(1), 1: mpmath.exp(-u), -1: mpmath.exp(u)} for u in at]

    def piece(i: int, low: mpf, high: mpf) -> mpf:
        product: Terms = {0: mpf(1)}
        for j, u in enumerate(at):
            factor = (DENSITIES if j == i else DISTRIBUTIONS)[noise][low >= u]
            grown: Terms = {}
            for n, c in product.items():
                for m, d in factor.items():
                    grown[n + m] = grown.get(n + m, mpf(0)) + c * d * powers[j][m]
            product = grown
        return mpmath.fsum(
            c * (high - low) if not n else c * (mpmath.exp(n * high) - mpmath.exp(n * low)) / n
            for n, c in product.items()
            if c
        )

    return [mpmath.fsum(piece(i, low, high) for low, high in pairwise(ends)) for i in range(len(at))]


def probabilities(noise: str, utilities: Sequence[float], scale: float) -> list[mpf]:
    """Return the probability of each candidate."""
    if noise == "gumbel":
        return gumbel(utilities, scale)
    if noise == "exponential":
        return exponential(utilities, scale)
    return by_pieces(noise, utilities, scale)


def uniform(key: bytes, index: int, count: int = DIGITS) -> int:
    """Return the first `count` binary digits, 64 + 128·n, of the uniform number of candidate `index`."""
    digits = keystream.first_word(key, index, 64)
    for number in range((count - 64) // 128):
        digits = digits << 128 | keystream.extension(key, index, 1 + number)
    return digits


def noise_of(noise: str, key: bytes, index: int, count: int = DIGITS) -> mpf:
    """Return the noise of candidate `index`, for scale 1, from the middle of what its first digits leave open."""
    middle = (mpf(uniform(key, index, count)) + mpf(0.5)) / mpf(2) ** count
    if noise == "gumbel":
        return -mpmath.log(-mpmath.log1p(-middle))
    size = -mpmath.log(middle)
    negative = noise == "laplace" and keystream.block_words(key, 1, index)[0] >> 63
    return -size if negative else size


def choose(noise: str, key: bytes, utilities: Sequence[float], scale: float) -> int:
    """Return the index of the largest noisy utility."""
    with mp.workprec(2 * DIGITS):
        noisy = [u + noise_of(noise, key, i) for i, u in enumerate(scaled(utilities, scale))]
        winner = max(range(len(noisy)), key=lambda i: noisy[i])
        assert all(noisy[winner] - other > mpf(2) ** -400 for i, other in enumerate(noisy) if i != winner)
    return winner


def choose_run(
    key: bytes, utilities: Sequence[float], counts: Sequence[int], permuted: int, unit: int, scale: float
) -> tuple[int, int]:
    """Return the run that arrives first, and the place in it: the first `permuted` are of uniform arrivals."""
    with mp.workprec(2 * DIGITS):
        best = []
        for i, (u, count) in enumerate(zip(scaled(utilities, scale), counts, strict=True)):
            if not count:
                continue
            middle = (mpf(uniform(key, i)) + mpf(0.5)) / mpf(2) ** DIGITS
            first = -mpmath.log1p(-middle) / count
            arrival = -mpmath.expm1(-first) if i < permuted else first * mpf(2) ** unit
            best.append((arrival * mpmath.exp(-u), i))
        run = min(best)[1]
    return run, place(key, counts[run])


def place(key: bytes, count: int) -> int:
    """Return the first word below a number, of those of the last stream, cut to as many bits as the largest has."""
    bits, counter = max((count - 1).bit_length(), 1), 0
    while True:
        for word in keystream.block_words(key, 2**64 - 1, counter):
            if word % 2**bits < count:
                return word % 2**bits
        counter += 1


def respond(key: bytes, index: int, answer: int, noise_parameter: float, categories: int) -> int:
    """Return randomized answer number `index`."""
    coin, choice = keystream.block_words(key, 0, index)
    digits = coin << 64 | keystream.block_words(key, 1, index)[0]
    stream, unbiased = 2, 2**64 - 2**64 % categories
    # the words whose product with k has a lower half below 2⁶⁴ mod k are one too many for some category
    while choice * categories % 2**64 < 2**64 - unbiased:
        choice = keystream.block_words(key, stream, index)[0]
        stream += 1
    replaced = digits < Fraction(noise_parameter) * 2**128
    return choice * categories >> 64 if replaced else answer if 0 <= answer < categories else 0
