"""The privacy curve of the worst mechanisms with given (ε, δ), and its inverse."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from ferrodp._numerics.intervals import ONE, ZERO, Bounds, Interval, arithmetic, bounds_around, float_up, point
from ferrodp.accounting._solve import zcdp_curve as _zcdp_curve
from ferrodp.accounting.composition import _lattice
from ferrodp.accounting.composition import binomial as _binomial
from ferrodp.accounting.composition import guarantees as given
from ferrodp.accounting.composition.guarantees import DIGITS, Guarantee, weighted_sum

_CUT_MASS = 1e-80
"""The probability that a grid of different ε leaves out; for a smaller δ the bounds are those without a grid."""
_MIN_GRID_SIZE, _MAX_GRID_SIZE = Fraction(1, 10**100), 10**8
"""Σε·max ε between which grids are tried."""
_ROOT_TOLERANCE = 1e-13
"""Relative width to which ε is found."""


class WorstCase:
    """Randomized responses on ±ε, each of which fails with probability δ.

    They dominate every composition of such mechanisms ([KOV15] proof of Theorem 3.3; [MV16] Theorem 1.5):
    δ(E) = 1 − Π(1 − δᵢ)·(1 − δ₀(E)), with the δ₀ of the responses without failure.
    """

    def __init__(self, guarantees: Counter[Guarantee]) -> None:
        self.groups: dict[float, int] = {}
        for each, times in guarantees.items():
            if each.epsilon:
                self.groups[each.epsilon] = self.groups.get(each.epsilon, 0) + times
        self.groups = dict(sorted(self.groups.items()))
        self._sum = sum((times * Fraction(epsilon) for epsilon, times in self.groups.items()), Fraction(0))
        self._failure = given.failure(guarantees)
        self._survival = given.exact_survival(guarantees)

    def delta_bounds(self, total: float) -> Bounds:
        """Return bounds on δ(total), for total ≥ 0."""
        if not self._failure.upper.is_finite():
            return Bounds(1.0, 1.0)
        r = arithmetic(DIGITS)
        pure = self.pure_delta(total)
        if self._survival is not None and not pure.upper:
            certain = 1 - self._survival
            return bounds_around(certain)
        failed = r.one_minus_exp(self._failure.negated())
        bounds = r.add(failed, r.mul(r.exp(self._failure.negated()), pure)).floats()
        return Bounds(max(bounds.lower, 0.0), min(bounds.upper, 1.0))

    def epsilon_bounds(self, target: float) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 with δ(ε) ≤ target, for 0 ≤ target < 1."""
        pure_target = self._pure_target(target)
        if pure_target.upper < ZERO:
            return Bounds(math.inf, math.inf)
        largest = bounds_around(self._sum)
        if not self.groups:
            return Bounds(0.0, 0.0 if pure_target.lower >= ZERO else math.inf)
        if pure_target.upper <= ZERO:
            return Bounds(largest.lower, largest.upper if pure_target.lower >= ZERO else math.inf)
        if self.pure_delta(0.0).upper <= pure_target.lower:
            return Bounds(0.0, 0.0)
        return self._solve(pure_target, largest)

    def pure_delta(self, total: float) -> Interval:
        """Return bounds on δ₀(total)."""
        if self._sum <= Fraction(total):
            return point(0)
        if len(self.groups) == 1:
            ((epsilon, count),) = self.groups.items()
            if count <= _binomial.MAX_COUNT:
                return _binomial.delta(count, epsilon, total)
        grids = self._grids
        if grids is not None:
            above, below = grids
            lower = below.delta(total, upper=False)
            upper = self._simple_delta(total) if above is None else above.delta(total, upper=True)
            return Interval(lower, min(upper, ONE))
        return Interval(self._part_of_it(total), self._simple_delta(total))

    @functools.cached_property
    def _grids(self) -> tuple[_lattice.Grid | None, _lattice.Grid] | None:
        size = self._sum * Fraction(max(self.groups))
        if (
            any(count > _binomial.MAX_COUNT for count in self.groups.values())
            or not _MIN_GRID_SIZE < size < _MAX_GRID_SIZE
        ):
            return None
        return _lattice.enclosing_grids(self.groups, _CUT_MASS)

    @functools.cached_property
    def _rho(self) -> Interval:
        """Σε²/2: [BS16] Proposition 1.4 and Lemma 1.7."""
        r = arithmetic(DIGITS)
        return weighted_sum((count, r.half(r.square(point(epsilon)))) for epsilon, count in self.groups.items())

    def _simple_delta(self, total: float) -> Decimal:
        """Return the least of two bounds on δ₀(total): by zCDP, and by Hoeffding's inequality for the sum of losses."""
        r = arithmetic(DIGITS)
        groups = [(count, point(epsilon)) for epsilon, count in self.groups.items()]
        mean = weighted_sum((count, r.mul(epsilon, given.tanh_of_half(epsilon))) for count, epsilon in groups)
        square = weighted_sum((count, r.square(epsilon)) for count, epsilon in groups)
        bound = _zcdp_curve.delta(self._rho, total)
        excess = r.sub(point(total), mean)
        if excess.is_positive():
            bound = min(bound, r.exp(r.half(r.div(r.square(excess), square)).negated()).upper)
        return bound

    def _part_of_it(self, total: float) -> Decimal:
        """Return the δ₀ of only some of the mechanisms of one group: less than that of all."""
        epsilon, count = max(self.groups.items(), key=lambda group: group[0] * math.sqrt(group[1]))
        return _binomial.delta(min(count, _binomial.MAX_COUNT), epsilon, total).lower

    def _pure_target(self, target: float) -> Interval:
        """Return the δ₀ that the target leaves: 1 − (1 − δ)/Π(1 − δᵢ)."""
        r = arithmetic(DIGITS)
        if self._survival is not None:
            if not self._survival:
                return point(-1)
            left = 1 - (1 - Fraction(target)) / self._survival
            return r.div(point(left.numerator), point(left.denominator))
        if not self._failure.upper.is_finite():
            return point(-1)
        exponent = r.sub(self._failure, r.minus_log_one_minus(point(target)))
        if exponent.lower > ZERO:
            return point(-1)
        return r.one_minus_exp(Interval(exponent.lower, min(exponent.upper, ZERO)))

    def _solve(self, target: Interval, largest: Bounds) -> Bounds:
        @functools.cache
        def at(total: float) -> Interval:
            return self.pure_delta(total)

        start = float_up(_zcdp_curve.epsilon(self._rho, max(float(target.lower), 5e-324)))
        low, high = _root(lambda e: _log_ratio(at(e), target), min(start, largest.upper))
        upper, step = high, _ROOT_TOLERANCE * high or largest.upper
        while upper < largest.upper and at(upper).upper > target.lower:
            upper, step = min(upper + step, largest.upper), 2.0 * step
        lower, step = low, _ROOT_TOLERANCE * low
        while lower > 0.0 and at(lower).lower <= target.upper:
            lower, step = max(lower - step, 0.0), 2.0 * step
        return Bounds(lower, upper)


def _root(excess: Callable[[float], float], high: float) -> tuple[float, float]:
    """Return a short interval in which a falling function changes its sign, by false position and bisection."""
    low, above, below = 0.0, excess(0.0), excess(high)
    for turn in range(200):
        if high - low <= _ROOT_TOLERANCE * high:
            break
        middle = (low + high) / 2.0
        if turn % 3 and math.isfinite(above) and math.isfinite(below):
            place = low + (high - low) * above / (above - below)
            margin = 1e-3 * (high - low) if turn % 3 == 1 else 1e-8 * (high - low)
            middle = min(max(place, low + margin), high - margin)
        if not low < middle < high:
            break
        value = excess(middle)
        low, above, high, below = (middle, value, high, below) if value > 0.0 else (low, above, middle, value)
    return low, high


def _log_ratio(delta: Interval, target: Interval) -> float:
    """Return approximately ln(δ/target) for a positive target."""
    if not delta.upper:
        return -math.inf
    context = arithmetic(20).up
    return float(context.ln(context.divide(delta.upper, target.upper)))
