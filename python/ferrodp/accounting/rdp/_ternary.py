"""Moment bounds of [WBK19] for samples of fixed size, in decimals.

A(α) = E_Q[(dP/dQ)^α] is at most 1 + Σ_{j=2}^α C(α, j)·q^j·t_j; `gaussian_terms` has the t_j of Theorem
27, `generic_terms` those of Theorem 9. Everything is rounded up by 10⁻²⁵ of itself, which is 10⁵ times what 40 digits
lose.

Decimals are fast enough here: a curve at 63 orders takes 8 ms of one core (2026-11), and no accountant asks for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Context, Decimal

from ferrodp._numerics.intervals import arithmetic
from ferrodp._numerics.rounding import float_above

LARGEST_ORDER = 1024
_DIGITS = 60
_UP = Decimal(1) + Decimal("1e-25")


def gaussian_terms(noise_multiplier: float, largest: int) -> list[Decimal]:
    """Return t_j for j ≤ `largest`, the first two being 0: Theorem 27 for Gaussian noise.

    c_j = e^{j(j−1)/2z²} is e^{(j−1)ρ(j)}; t₂ = min(4(c₂ − 1), 2c₂), t_j = min(4·√(B(2⌊j/2⌋)·B(2⌈j/2⌉)), 2c_j) with
    B(l) = E_Q[(r − 1)^l], the l-th forward difference of the c_i at 0.
    """
    c = arithmetic(_DIGITS).nearest
    square = c.power(Decimal(noise_multiplier), 2)
    growth = [c.exp(c.divide(Decimal(j * (j - 1) // 2), square)) for j in range(largest + 2)]
    central = central_moments(noise_multiplier, largest + 1)
    terms = [Decimal(0)] * min(2, largest + 1)
    for j in range(2, largest + 1):
        plain = c.multiply(Decimal(2), growth[j])
        low, high = central[j - j % 2], central[j + j % 2]
        if j == 2:
            plain = min(plain, c.multiply(Decimal(4), c.subtract(growth[2], Decimal(1))))
        elif low is not None and high is not None:
            plain = min(plain, c.multiply(Decimal(4), c.sqrt(c.multiply(low, high))))
        terms.append(plain)
    return terms


def central_moments(noise_multiplier: float, largest: int) -> list[Decimal | None]:
    """Return B(l) for l ≤ `largest`, to 25 digits; None where B(l) ≥ c_l/2, and then at every later l.

    Expanding c_i = (1 + t)^{i(i−1)/2}, t = e^{1/z²} − 1, as a sum over graphs on i vertices, t to the number of edges,
    turns B(l) into the sum over graphs without isolated vertices. All its terms are positive: B(l) ≥ t^{⌈l/2⌉}, and
    B(l) ≥ c_l − l·c_{l−1}. Differences lose at most a factor 2^l·c_l/B(l) of digits, and so many more are carried. For
    even l = j, and for odd j between two such l, B ≥ c/2 makes 2c_j the smaller one of the two bounds in Theorem 27.
    """
    inverse = 1.0 / noise_multiplier**2
    kept = largest + 1
    for order in range(2, largest + 1):
        if math.log(2.01 * order) < (order - 1) * inverse * (1.0 - 1e-12):
            kept = order
            break
    log_t = math.log(math.expm1(inverse)) if 1e-300 < inverse < 700.0 else math.log(max(inverse, 1e-300))
    top = kept - 1
    lost = top * math.log(2.0) + top * top * inverse / 2 - min(0.0, log_t) * (top / 2 + 1)
    c = arithmetic(40 + math.ceil(lost / math.log(10.0))).nearest
    step = c.exp(c.divide(Decimal(1), c.multiply(Decimal(noise_multiplier), Decimal(noise_multiplier))))
    row = [Decimal(1)] * min(2, kept)
    power = Decimal(1)
    for _ in range(2, kept):
        power = c.multiply(power, step)
        row.append(c.multiply(row[-1], power))
    moments: list[Decimal | None] = []
    while row:
        moments.append(row[0])
        row = [c.subtract(after, before) for before, after in itertools.pairwise(row)]
    return moments + [None] * (largest + 1 - kept)


def generic_terms(base: Callable[[int], float], base_epsilon: float, largest: int) -> list[Decimal]:
    """Return t_j for j ≤ `largest`: Theorem 9, for a release with Rényi curve `base` and pure ε `base_epsilon`."""
    c = arithmetic(_DIGITS).nearest
    range_ = None if base_epsilon == math.inf else c.subtract(c.exp(Decimal(base_epsilon)), Decimal(1))
    terms = [Decimal(0)] * min(2, largest + 1)
    for j in range(2, largest + 1):
        rho = base(j)
        if rho == math.inf:
            terms.append(Decimal("Infinity"))
            continue
        growth = c.exp(c.multiply(Decimal(j - 1), Decimal(rho)))
        factor = Decimal(2) if range_ is None else min(Decimal(2), c.power(range_, j))
        term = c.multiply(growth, factor)
        if j == 2:
            term = min(term, c.multiply(Decimal(4), c.subtract(growth, Decimal(1))))
        terms.append(term)
    return terms


def log_moment(terms: list[Decimal], sampling_probability: float, order: int) -> Decimal:
    """Return an upper bound on ln A(α) for an integer α ≥ 1."""
    c = arithmetic(_DIGITS).nearest
    q, binomial, power, total = Decimal(sampling_probability), Decimal(1), Decimal(1), Decimal(0)
    for j in range(1, order + 1):
        binomial = c.divide(c.multiply(binomial, Decimal(order - j + 1)), Decimal(j))
        power = c.multiply(power, q)
        total = c.add(total, c.multiply(c.multiply(binomial, power), terms[j])) if terms[j] else total
    return c.multiply(_log_one_plus(c, total), _UP)


def rate(terms: list[Decimal], sampling_probability: float, order: float) -> float:
    """Return an upper bound on ρ(α) for any α > 1: ln A is convex in α (Corollary 10) and ln A(1) = 0."""
    c = arithmetic(_DIGITS).nearest
    below = math.floor(order)
    share = c.subtract(Decimal(order), Decimal(below))
    log = c.multiply(c.subtract(Decimal(1), share), log_moment(terms, sampling_probability, below))
    if share:
        log = c.add(log, c.multiply(share, log_moment(terms, sampling_probability, below + 1)))
    found = c.multiply(c.divide(log, c.subtract(Decimal(order), Decimal(1))), _UP)
    return float_above(found)


def _log_one_plus(c: Context, x: Decimal) -> Decimal:
    """Return ln(1 + x) for x ≥ 0, or for tiny x the larger x."""
    return x if x < Decimal("1e-28") else c.ln(c.add(Decimal(1), x))
