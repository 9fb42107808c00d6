r"""Skellam noise: the difference of two Poisson numbers of one mean, in each coordinate of an integer vector.

With variance μ, f(x) = e^−μ·Iₓ(μ) is log-concave, and the second differences of −ln f are largest at 0:
b = 2·ln(I₀/I₁), about 1/μ. The proofs are on the page on theorems, "Skellam noise"; in short:

* For integer orders α and integer shifts k, ρₖ(α) ≤ bαk²/2: with J(x) = ln f(x) + bx²/2, convex on the integers,
  αJ(x − k) − (α − 1)J(x) ≤ J(x − αk). Divergences add up over coordinates, and so do the squares of shifts.
* Between integer orders (α − 1)ρ is at most its chord. ρₖ(α) ≤ r·bαk²/2 for all k and α follows from the same for k = 1
  ([BS16] Proposition 1.9, groups), whose chords run between the nodes of a grid of orders.
* ρₖ(α) itself is a sum over the integers, evaluated with stated errors where a law is computed.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from ferrodp._numerics.rounding import next_up as up
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._distributed.discrete_sums import of_vectors
from ferrodp.accounting._types import Unsupported

LEAST_VARIANCE = 0.01
"""In squared steps of the grid: below it, nearly all noise is 0."""
MAX_VARIANCE = 1e5
"""Up to which the law is computed."""
NEARLY_GAUSSIAN = 500.0
"""Variance from which on b is within 10⁻³ of 1/μ, and sums over the integers gain no more in several coordinates."""
SMALL_VARIANCE = Unsupported(
    f"Skellam noise of a variance below {LEAST_VARIANCE} squared steps of the grid is hardly ever noise at all"
)
_GUARD_BITS = 128
_SMALLEST_LOG = 552.0  # of masses: 1e-240
_STARTING_LOG = 620.0
_LOG_ERROR = 1e-12
_RELATIVE_ERROR = 1e-11
_REST_LOG = 70.0
_LAST_ORDER = 64


class SkellamLaw:
    """The law of Skellam noise of variance μ from `LEAST_VARIANCE` to `MAX_VARIANCE`, and its Rényi divergences.

    Masses have a relative error, and logarithms of their ratios an absolute error, of at most `_LOG_ERROR`: they are
    ratios of integers, from the recurrence f(x − 1) = f(x + 1) + (2x/μ)f(x) downward, in which nothing is subtracted.
    What it starts with is forgotten in proportion to the square of f, which falls by e^−67 before the first one kept.
    """

    def __init__(self, variance: float) -> None:
        self.variance = variance
        weights = _weights(variance)
        total = weights[0] + 2 * sum(weights[1:])
        depths = [math.log(weights[0] / each) if each else math.inf for each in weights]
        base = math.log(total / weights[0])
        self.last = next((x for x, depth in enumerate(depths) if depth + base > _SMALLEST_LOG), len(weights)) - 1
        self.depths = np.array(depths[: self.last + 1])
        self.half = np.array([each / total for each in weights[: self.last + 1]])
        # a difference of integers: b has no cancellation
        self.bend = up(2.0 * math.log1p((weights[0] - weights[1]) / weights[1]) * (1.0 + 1e-14))
        ahead = weights[self.last + 1] / weights[self.last]
        beyond = self.half[-1] * ahead / (1.0 - ahead) * (1.0 + _RELATIVE_ERROR)
        # tails[n] ≥ P[X ≥ n], 0 ≤ n ≤ last + 1; ratios of masses fall
        self.tails = (np.cumsum(np.append(self.half, beyond)[::-1])[::-1]) * (1.0 + _RELATIVE_ERROR)

    def divergences(self, shift: int, orders: Array) -> Array:
        """Return upper bounds on ρₖ(α) at orders > 1, infinite where the law is not computed far enough."""
        return np.array([self._divergence(shift, order) for order in orders.tolist()])

    def _divergence(self, shift: int, order: float) -> float:
        """Return ln(1 + A)/t, α = 1 + t, with A = E[e^{αL} − 1 − α(e^L − 1)]: no digits cancel, as E[e^L] = 1.

        A is the sum of f(x − k)·((e^{tL} − 1 − tL) + t(e^−L − 1 + L)). What is outside of the window of x and x − k is
        at most the tails of α·f(x) and of f(x − k)^α·f(x)^(1−α) ≤ e^{bα(α−1)k²/2}·F(x − αk), where
        F(n + s) = f(n)^{1−s}·f(n+1)^s·e^{bs(1−s)/2}.
        """
        log_peak = 0.5 * self.bend * order * (order - 1.0) * shift * shift + self.bend / 8.0
        if log_peak > 500.0:
            return math.inf
        moved = math.ceil(order * shift)
        kept = int(np.searchsorted(-self.tails, -math.exp(-_REST_LOG - log_peak)))
        last = min(moved + kept, self.last)
        if last <= moved:
            return math.inf
        x, t = np.arange(shift - last, last + 1), order - 1.0
        loss = self.depths[np.abs(x)] - self.depths[np.abs(x - shift)]
        mass = self.half[np.abs(x - shift)]
        with np.errstate(over="ignore"):
            excess = float(mass @ (_after_two_terms(t * loss) + t * _after_two_terms(-loss)))
            slope = float(mass @ (np.abs(np.expm1(t * loss)) + np.abs(np.expm1(-loss))))
        outside = 2.0 * (math.exp(log_peak) + order) * float(self.tails[last - moved])
        # mutant: rest-of-skellam-noise-left-out
        bound = (excess + 4.0 * _LOG_ERROR * t * slope + outside) * (1.0 + _RELATIVE_ERROR)
        return math.log1p(bound) / t * (1.0 + 1e-14)

    def masses(self, shift: int) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
        """Return the masses of f(x − k) and f(x), the last outcomes where either is too small, and their error."""
        if 2 * shift >= self.last:
            return None
        x = np.arange(shift - self.last, self.last + 1)
        p, q = self.half[np.abs(x - shift)], self.half[np.abs(x)]
        lost = float(self.tails[self.last - shift + 1]) + float(self.tails[self.last])
        if lost > 1e-100:
            return None
        return (*p.tolist(), lost, 0.0), (*q.tolist(), 0.0, lost), 2.0 * _LOG_ERROR


def _weights(variance: float) -> list[int]:
    """Return whole numbers in proportion to f(0), f(1), …, as far as e^−620 of the first and two more."""
    exact = Fraction(variance)
    double, divisor = 2 * exact.denominator, exact.numerator  # 2x/μ = x·double/divisor

    def depth(x: int) -> float:
        return x * math.asinh(x / variance) - variance * (math.hypot(1.0, x / variance) - 1.0)

    start = 8
    while depth(start) < _STARTING_LOG:
        start += max(start // 64, 1)
    found = [0, 1 << _GUARD_BITS]
    for x in range(start, 0, -1):
        found.append(found[-2] + found[-1] * x * double // divisor)
    found.reverse()
    return found


def _after_two_terms(y: Array) -> Array:
    """Return e^y − 1 − y ≥ 0 with its leading digits."""
    near = np.abs(y) < 1e-2
    small = np.where(near, y, 0.0)
    series = 0.5 * small * small * (1.0 + small / 3.0 * (1.0 + small / 4.0 * (1.0 + small / 5.0 * (1.0 + small / 6.0))))
    found: Array = np.where(near, series * (1.0 + 1e-12), np.maximum(np.expm1(y) - y, 0.0))
    return found


@functools.lru_cache(maxsize=64)
def law_of(variance: float) -> SkellamLaw:
    """Return the law of Skellam noise."""
    return SkellamLaw(variance)


@functools.lru_cache(maxsize=1024)
def bend(variance: float) -> float | Unsupported:
    """Return an upper bound on b, the largest second difference of −ln f: ρₖ(α) ≤ bαk²/2 at integer orders."""
    if variance < LEAST_VARIANCE:
        return SMALL_VARIANCE
    if variance <= MAX_VARIANCE:
        return law_of(variance).bend
    # μI₁/I₀ ≥ μ − ½ − 1/7μ for μ ≥ 10
    less = (0.5 + 1.0 / (7.0 * variance)) / variance * (1.0 + 1e-14)
    # mutant: second-order-of-bend-left-out
    return up(-2.0 * math.log1p(-less) * (1.0 + 1e-14))


@functools.lru_cache(maxsize=1024)
def rate(variance: float) -> float | Unsupported:
    """Return rb/2, rounded up: ρₖ(α) ≤ (rb/2)·αk² for all integer shifts and all orders, integer or not.

    Beyond A, between integer orders, chords of α(α − 1) are at most 1 + 1/4A(A − 1) times as high. Below A: by the
    nodes of a grid where the law is computed. Else K(α) = (α − 1)ρ₁(α) has K″ ≤ b²·(μ + ¼)·e^{bA²/2} and is
    0 at 0 and 1.
    """
    b = bend(variance)
    if isinstance(b, Unsupported):
        return b
    if variance <= MAX_VARIANCE:
        found = _ratio_by_orders(law_of(variance))
    else:
        most = max(int(math.sqrt(math.sqrt(0.5 * variance))), 2)
        curved = b * (variance + 0.25) * math.exp(0.5 * b * most * most)
        found = max(curved, 1.0 + 0.25 / (most * (most - 1.0)))
    return up(0.5 * b * found * (1.0 + 1e-14))


def _ratio_by_orders(law: SkellamLaw) -> float:
    """Return r ≥ 1 with K(α) ≤ r·bα(α − 1)/2 for all α > 1: ρ₁ rises, and K is convex."""
    nodes = [2.0**-12]  # α − 1; chords of α(α − 1) are at most 1 + 0.03²/4 times as high
    while nodes[-1] < _LAST_ORDER - 1.0:
        nodes.append(min(nodes[-1] + 0.03 * math.sqrt(nodes[-1] * (1.0 + nodes[-1])), _LAST_ORDER - 1.0))
    orders = 1.0 + np.array(nodes)
    bounds = law.divergences(1, orders) * 2.0 / law.bend  # of ρ₁·2/b
    best = float(bounds[0])  # below the first node ρ₁ is at most that of the node
    for i in range(orders.size - 1):
        one, two = orders[i], orders[i + 1]
        if not math.isfinite(bounds[i] + bounds[i + 1]):
            floor = math.floor(one)
            return max(best, 1.0 + 0.25 / (floor * (floor - 1.0)) if floor > 1 else 2.0)
        best = max(best, _worst_on_chord(one, bounds[i] * (one - 1.0), two, bounds[i + 1] * (two - 1.0)))
    return max(best, 1.0 + 0.25 / (_LAST_ORDER * (_LAST_ORDER - 1.0)))


def _worst_on_chord(one: float, first: float, two: float, second: float) -> float:
    """Return the largest (chord)/(α(α − 1)) between two nodes: at an end, or where sα² + 2cα − c = 0 for c + sα."""
    slope = (second - first) / (two - one)
    offset = first - slope * one
    places = [one, two]
    inside = offset * offset + slope * offset
    if slope and inside >= 0.0:
        places += [min(max((-offset + sign * math.sqrt(inside)) / slope, one), two) for sign in (1, -1)]
    return float(max((offset + slope * a) / (a * (a - 1.0)) for a in places)) * (1.0 + 1e-12)


class SkellamCurve:
    """Rényi curve of Skellam noise under integer shifts with Σkᵢ² ≤ S, in d coordinates or any number."""

    def __init__(self, variance: float, squared_steps: int, dimension: int | None) -> None:
        found, b = rate(variance), bend(variance)
        assert not isinstance(found, Unsupported)
        assert not isinstance(b, Unsupported)
        self.squared = squared_steps
        self.rho = up(found * squared_steps) * (1.0 + 2.0**-50)
        self.integer_rho = up(0.5 * b * squared_steps) * (1.0 + 2.0**-50)
        self.dimension = squared_steps if dimension is None else min(dimension, squared_steps)
        is_computed = variance < (MAX_VARIANCE if self.dimension == 1 else NEARLY_GAUSSIAN)
        self.law = law_of(variance) if is_computed else None

    def __call__(self, orders: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(orders < 2.0**52, orders - np.floor(orders), 0.0)
            chord = np.where(
                orders >= 2.0, self.integer_rho * (orders + part * (1.0 - part) / (orders - 1.0)), math.inf
            )
        linear: Array = np.minimum(self.rho * orders, chord) * (1.0 + 2.0**-48)
        above = (orders > 1.0) & (orders < math.inf)
        if self.law is None or not above.any():
            return linear
        found = linear.copy()
        law, asked = self.law, orders[above]

        def divergences(shift: int) -> Array:
            exact = law.divergences(shift, asked)
            return np.minimum(exact, linear[above] / self.squared * (shift * shift) * (1.0 + 1e-14))

        found[above] = np.minimum(
            linear[above], of_vectors(divergences, linear[above] / self.squared, self.squared, self.dimension)
        )
        return found


def masses_of(variance: float, shift: int) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
    """Return the masses of the two laws of a shift in one coordinate, and a bound on the errors of their logarithms.

    None where they are too many, or too far from each other for floats.
    """
    return law_of(variance).masses(shift) if variance <= MAX_VARIANCE else None
