"""From an exact sum of ρ, which holds but for a probability of failure, to (ε, δ): rounded up.

The crate `ferrodp_accounting::zcdp` has the formulas. The rational sum is enclosed in decimals first: 20 µs.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ferrodp import _native
from ferrodp._numerics.intervals import Interval, arithmetic, point
from ferrodp.accounting._laws.costs import Cost, with_failure, without_failure

_DIGITS_OF_RHO = 120


def epsilon_of(cost: Cost, target: float) -> float:
    """Return an upper bound on ε at 0 < δ < 1."""
    rest = without_failure(Fraction(target), cost.delta)
    return _native.zcdp_epsilon(_interval(cost.amount), rest) if rest > 0.0 else math.inf


def delta_of(cost: Cost, epsilon: float) -> float:
    """Return an upper bound on δ at ε ≥ 0."""
    return with_failure(Fraction(_native.zcdp_delta(_interval(cost.amount), epsilon)), min(cost.delta, Fraction(1)))


def _interval(rho: Fraction) -> Interval:
    return arithmetic(_DIGITS_OF_RHO).ratio(rho) if rho else point(0)
