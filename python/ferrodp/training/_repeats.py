"""How often a search repeats: the truncated negative binomial and Poisson laws of [PS22], drawn exactly.

By inversion: a uniform number, of which bits are drawn as they are needed, is compared with partial sums of the
probabilities in interval arithmetic. Where the intervals overlap, more bits and more digits decide.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

from ferrodp._numerics.intervals import Arithmetic, Interval, arithmetic, point
from ferrodp.accounting.sampling.repeat_and_select import log_one_over_gamma
from ferrodp.events import RepeatAndSelectEvent

_BITS, _DIGITS = 128, 60
"""Of the first attempt; each further one has as many more. 60 digits are 199 bits."""


def num_runs(event: RepeatAndSelectEvent, random_bits: Callable[[int], int] = secrets.randbits) -> int:
    """Return a number of runs drawn from the law of an event, from cryptographic bits: secret.

    γ of the truncated negative binomial law is rounded up, so the mean is at most that of the event; a smaller one
    costs no more.
    """
    length = 0.0 if event.shape == math.inf else _log_one_over_gamma(event.mean, event.shape)
    if event.shape < math.inf and not length:
        return 1
    number, bits, digits = 0, 0, 0
    while True:
        number, bits, digits = number << _BITS | random_bits(_BITS), bits + _BITS, digits + _DIGITS
        found = _inverted(event, length, number, bits, arithmetic(digits))
        if found is not None:
            return found


def _inverted(event: RepeatAndSelectEvent, length: float, number: int, bits: int, r: Arithmetic) -> int | None:
    """Return k with P[K < k] ≤ u < P[K ≤ k] for all u with these leading bits, or None if they are too few."""
    low, high = r.ratio(Fraction(number, 2**bits)), r.ratio(Fraction(number + 1, 2**bits))
    if event.shape == math.inf:
        count, chance, ratio = 0, r.exp(point(event.mean).negated()), point(event.mean)
    else:
        ratio = r.one_minus_exp(point(length).negated())
        count, chance = 1, _first_chance(event.shape, length, ratio, r)
    total = chance
    while high.upper > total.lower:
        if low.lower < total.upper:
            return None
        if event.shape == math.inf:
            growth = r.div(ratio, point(count + 1))
        else:  # P[k + 1] = P[k]·(1 − γ)·(k + η)/(k + 1)
            growth = r.mul(ratio, r.div(r.add(point(count), point(event.shape)), point(count + 1)))
        chance = r.mul(chance, growth)
        total, count = r.add(total, chance), count + 1
        if chance.upper < total.upper and not r.sub(r.add(total, chance), total).is_positive():
            return None  # the tail that is left is below the digits
    return count


def _first_chance(shape: float, length: float, ratio: Interval, r: Arithmetic) -> Interval:
    """Return P[K = 1]: (1 − γ)·η/(γ^{−η} − 1), or (1 − γ)/ln(1/γ) for η = 0."""
    if not shape:
        return r.div(ratio, point(length))
    lengths = r.mul(point(shape), point(length))
    growth = r.mul(r.one_minus_exp(lengths.negated()), r.exp(lengths))  # γ^{−η} − 1
    return r.div(r.mul(ratio, point(shape)), growth)


def _log_one_over_gamma(mean: float, shape: float) -> float:
    """Return ln(1/γ) of a law whose mean is proven to be at most `mean`, and close to it."""
    value, step = log_one_over_gamma(mean, shape), 2.0**-46
    while value > 0.0 and _mean(value, shape).upper > Fraction(mean):
        value, step = value * (1.0 - step) if step < 1.0 else 0.0, 2.0 * step
    return value


def _mean(length: float, shape: float) -> Interval:
    r = arithmetic(_DIGITS)
    whole = point(length)
    growth = r.mul(r.one_minus_exp(whole.negated()), r.exp(whole))
    if not shape:
        return r.div(growth, whole)
    return r.mul(point(shape), r.div(growth, r.one_minus_exp(r.mul(point(shape), whole).negated())))
