"""Lists of (ε, δ), checked at the door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ferrodp import _validate
from ferrodp._numerics.intervals import Interval, arithmetic, point
from ferrodp._validate import Real
from ferrodp.errors import InvalidType

DIGITS = 50
"""Digits of the decimals in which guarantees are added up."""
_EXACT_BITS = 20_000
"""Products of 1 − δ are formed exactly up to so many bits: (ε, δ) once has to give ε back for that δ."""


class Guarantee(NamedTuple):
    """(ε, δ)-differential privacy: P(S) ≤ e^ε·Q(S) + δ for every event S and both orders of the neighbors."""

    epsilon: float
    delta: float


Guarantees: TypeAlias = Sequence[tuple[Real, Real]]


def counted(guarantees: Guarantees, count: int) -> Counter[Guarantee]:
    """Return how often each guarantee occurs in `count` times the list; ε and δ rounded up where they are no floats."""
    if isinstance(guarantees, (str, bytes)) or not isinstance(guarantees, Sequence):
        raise InvalidType(f"guarantees must be a sequence of (epsilon, delta) pairs, got {type(guarantees).__name__}")
    times = _validate.count("count", count, minimum=0)
    result: Counter[Guarantee] = Counter()
    known: dict[tuple[object, object], Guarantee] = {}
    for pair in guarantees:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InvalidType(f"guarantees must hold (epsilon, delta) pairs, got {_validate.shown(pair)}")
        result[_checked(pair[0], pair[1], known)] += times
    return +result


def _checked(epsilon: Real, delta: Real, known: dict[tuple[object, object], Guarantee]) -> Guarantee:
    key = (epsilon, delta)
    if type(epsilon) is float and type(delta) is float and key in known:  # long lists repeat themselves
        return known[key]
    guarantee = Guarantee(_validate.non_negative("epsilon", epsilon), _validate.probability("delta", delta))
    if type(epsilon) is float and type(delta) is float:
        known[key] = guarantee
    return guarantee


def failure(guarantees: Counter[Guarantee]) -> Interval:
    """Return −ln Π(1 − δᵢ), or an upper end of +∞ if a δ is 1."""
    r, total = arithmetic(DIGITS), point(0)
    for (_, delta), times in guarantees.items():
        if delta == 1.0:
            return Interval(total.lower, r.up.create_decimal("Infinity"))
        if delta:
            total = r.add(total, r.mul(point(times), r.minus_log_one_minus(point(delta))))
    return total


def exact_survival(guarantees: Counter[Guarantee]) -> Fraction | None:
    """Return Π(1 − δᵢ), or None where that has too many digits."""
    bits = sum(
        times * Fraction(each.delta).denominator.bit_length() for each, times in guarantees.items() if each.delta
    )
    if bits > _EXACT_BITS:
        return None
    survival = Fraction(1)
    for each, times in guarantees.items():
        if each.delta:
            survival *= (1 - Fraction(each.delta)) ** times
    return survival


def tanh_of_half(epsilon: Interval) -> Interval:
    """Return (1 − e^{−ε})/(1 + e^{−ε})."""
    r = arithmetic(DIGITS)
    negative = epsilon.negated()
    return r.div(r.one_minus_exp(negative), r.add(point(1), r.exp(negative)))
