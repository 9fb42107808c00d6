"""Rényi divergence of a round of random allocation when a record is removed: a finite sum, in decimals.

r̄ = (r_1 + … + r_T)/T with independent lognormals of mean 1 (`ferrodp_accounting::allocation` says why). With B(k) =
E(r − 1)^k,

    E r̄^α − 1 = Σ_{j=2}^α C(α, j)·j!·p_j/T^j,   p_j = [x^j] (Σ_k B(k)·x^k/k!)^T,

a sum of positive terms for integer α: [FS25] Theorem 4.4 and Corollary 4.6, for r − 1 instead of r, so that nothing
cancels even if the moment is close to 1.

In decimals because moments leave the range of floats, and because coefficients of both signs need more digits where the
orders exceed the steps. A table of 64 orders takes 17 ms of one core (100 steps, 2026-11), one of 256 orders 0.2 s
(1000 steps); it is remembered.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal

from ferrodp._numerics.intervals import arithmetic
from ferrodp._numerics.rounding import float_above
from ferrodp.accounting.rdp._ternary import central_moments

LARGEST_ORDER = 256
_DIGITS = 60
_ZERO, _ONE = Decimal(0), Decimal(1)


@functools.lru_cache(maxsize=64)
def log_moments(noise_multiplier: float, num_steps: int, largest: int) -> tuple[Decimal, ...]:
    """Return ln E r̄^α for α = 0, …, `largest`, each to 20 digits and rounded up."""
    c = arithmetic(_DIGITS).nearest
    factorial, scale, series = _ONE, _ONE, []
    for k, moment in enumerate(_moments(noise_multiplier, largest)):
        if k:
            factorial, scale = c.multiply(factorial, Decimal(k)), c.multiply(scale, Decimal(num_steps))
        series.append(c.divide(moment, c.multiply(factorial, scale)))
    coefficients = power(series, num_steps, largest)
    logs = []
    for order in range(largest + 1):
        falling, total = _ONE, _ZERO  # C(α, j)·j! = α(α − 1)⋯(α − j + 1)
        for j in range(1, order + 1):
            falling = c.multiply(falling, Decimal(order - j + 1))
            total = c.add(total, c.multiply(falling, coefficients[j]))
        log = total if total < Decimal("1e-28") else c.ln(c.add(_ONE, total))
        logs.append(c.multiply(log, Decimal("1.00000000000000000001")))
    return tuple(logs)


def _moments(noise_multiplier: float, largest: int) -> list[Decimal]:
    """Return B(k) for k ≤ `largest`, to 25 digits.

    Where `central_moments` does not say, B(k) ≥ c_k/2, and the alternating sum Σ (−1)^{k−i}·C(k, i)·c_i loses no more
    than k + 1 bits, as no C(k, i)·c_i is more than c_k·2^k.
    """
    found = central_moments(noise_multiplier, largest)
    if all(moment is not None for moment in found):
        return [moment for moment in found if moment is not None]
    c = arithmetic(_DIGITS + largest // 3).nearest
    square = c.multiply(Decimal(noise_multiplier), Decimal(noise_multiplier))
    growth = [c.exp(c.divide(Decimal(i * (i - 1) // 2), square)) for i in range(largest + 1)]
    moments = []
    for k, moment in enumerate(found):
        if moment is None:
            binomial, moment = _ONE, _ZERO
            for i in range(k, -1, -1):
                term = c.multiply(binomial, growth[i])
                moment = c.subtract(moment, term) if (k - i) % 2 else c.add(moment, term)
                binomial = c.divide(c.multiply(binomial, Decimal(i)), Decimal(k - i + 1))
        moments.append(moment)
    return moments


def power(series: list[Decimal], exponent: int, largest: int) -> list[Decimal]:
    """Return the coefficients up to x^`largest` of the power of a series 1 + … with terms ≥ 0, to 25 digits.

    n·p_n = Σ_{k=1}^n (k·(T + 1) − n)·a_k·p_{n−k} (Knuth, "The art of computer programming", volume 2, section 4.7,
    (9)). For n ≤ T + 1 no term is negative. Beyond, a bound on the error is carried along, and digits are added until
    it is small enough.
    """
    digits = _DIGITS
    while True:
        found = _power(series, exponent, largest, digits)
        if found is not None:
            return found
        digits *= 2


def _power(series: list[Decimal], exponent: int, largest: int, digits: int) -> list[Decimal] | None:
    c, up = arithmetic(digits).nearest, arithmetic(12).up
    unit = Decimal(f"1e{1 - digits}")
    found, errors = [_ONE], [_ZERO]
    for n in range(1, largest + 1):
        total, error, size = _ZERO, _ZERO, _ZERO
        is_signed = n > exponent + 1
        for k in range(1, n + 1):
            if not series[k]:
                continue
            factor = Decimal(k * (exponent + 1) - n)
            term = c.multiply(factor, c.multiply(series[k], found[n - k]))
            total = c.add(total, term)
            if is_signed:
                size = up.add(size, up.abs(term))
                error = up.add(error, up.multiply(up.abs(factor), up.multiply(series[k], errors[n - k])))
            elif errors[n - k]:
                error = up.add(error, up.multiply(factor, up.multiply(series[k], errors[n - k])))
        if not is_signed:
            size = total
        found.append(c.divide(total, Decimal(n)))
        error = up.add(error, up.multiply(up.multiply(size, unit), Decimal(8 * n)))
        errors.append(up.divide(error, Decimal(n)))
        if errors[n] > up.multiply(up.abs(found[n]), Decimal("1e-30")):
            return None
    return found


def rate(noise_multiplier: float, num_steps: int, order: float) -> float:
    """Return an upper bound on ρ(α), exact at integers; between them ln E r̄^α is convex in α and 0 at 1."""
    if order > LARGEST_ORDER:
        return math.inf
    above = math.ceil(order)
    # So many at a time that not every order makes a table of its own.
    logs = log_moments(noise_multiplier, num_steps, min(LARGEST_ORDER, max(32, 1 << (above - 1).bit_length())))
    c = arithmetic(_DIGITS).nearest
    share = c.subtract(Decimal(above), Decimal(order))
    log = c.multiply(c.subtract(_ONE, share), logs[above])
    if share:
        log = c.add(log, c.multiply(share, logs[above - 1]))
    value = c.divide(log, c.subtract(Decimal(order), _ONE))
    return float_above(value)
