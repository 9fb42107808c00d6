"""Lists of guarantees (ε, δ): validation, and what their sums and products need.

Decimals of 50 digits are fast enough: a sum over the distinct guarantees costs some 0.1 ms for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import ZERO, Interval, arithmetic, point
from ferrodp.errors import InvalidType

DIGITS = 50
"""Digits of the decimals in which guarantees are added up."""
_MAX_SURVIVAL_BITS = 20_000
"""Products of 1 − δ are exact up to this size, so that one (ε, δ) gives back its ε for its own δ."""


class Guarantee(NamedTuple):
    """(ε, δ)-differential privacy: P(S) ≤ e^ε·Q(S) + δ for every event S and both orders of the neighbors.

    Attributes
    ----------
    epsilon : float
        ε ≥ 0, perhaps infinite.
    delta : float
        δ in [0, 1].

    Examples
    --------
    >>> from ferrodp.accounting import compose_basic
    >>> compose_basic([(1.0, 1e-6)], count=2)
    Guarantee(epsilon=2.0, delta=2e-06)
    """

    epsilon: float
    delta: float


Guarantees: TypeAlias = Sequence[tuple[Real, Real]]


def counted(guarantees: Guarantees, count: int) -> Counter[Guarantee]:
    """Return how often each guarantee occurs in `count` times the list; ε and δ are rounded up to floats."""
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
    if type(epsilon) is float and type(delta) is float and key in known:  # long lists repeat values
        return known[key]
    guarantee = Guarantee(_validate.non_negative("epsilon", epsilon), _validate.probability("delta", delta))
    if type(epsilon) is float and type(delta) is float:
        known[key] = guarantee
    return guarantee


def weighted_sum(terms: Iterable[tuple[int, Interval]]) -> Interval:
    """Return Σ times·term."""
    r, total = arithmetic(DIGITS), point(0)
    for times, term in terms:
        total = r.add(total, r.mul(point(times), term))
    return total


def failure(guarantees: Counter[Guarantee]) -> Interval:
    """Return −ln Π(1 − δᵢ), with an upper end of +∞ if a δ is 1."""
    r = arithmetic(DIGITS)
    if any(each.delta == 1.0 for each in guarantees):
        return Interval(ZERO, r.up.create_decimal("Infinity"))
    logs = ((times, r.minus_log_one_minus(point(each.delta))) for each, times in guarantees.items() if each.delta)
    return weighted_sum(logs)


def exact_survival(guarantees: Counter[Guarantee]) -> Fraction | None:
    """Return Π(1 − δᵢ), or None where it has too many digits."""
    bits = sum(
        times * Fraction(each.delta).denominator.bit_length() for each, times in guarantees.items() if each.delta
    )
    if bits > _MAX_SURVIVAL_BITS:
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
