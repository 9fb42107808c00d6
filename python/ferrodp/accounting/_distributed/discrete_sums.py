r"""Sums of discrete Gaussians: how much more than a Gaussian of the same parameter they cost.

With n shares of scale σ, f the law of their sum X and g = exp(−x²/2nσ²), f(x) = C·g(x)·W(x), where W depends on x mod n
alone: it is the sum of exp(−|v|²/2σ²) over a shifted lattice of vectors whose coordinates add up to 0. W is what the
sum lacks to be a discrete Gaussian. The proofs are on the page on theorems, "Sums of discrete Gaussians"; in short:

* ρₖ(α), the Rényi divergence of f and f shifted by an integer k, is αk²/2nσ² + ln M/(α − 1), with M a mean of
  W(x−k)^α·W(x)^(1−α). It is evaluated as it stands, with stated errors.
* ρₖ(α) ≤ r·αk²/2nσ² for all k and α follows from ρ₁(α) ≤ r·α/2nσ² for all α ([BS16] Proposition 1.9, groups), and that
  is shown between the nodes of a grid of orders by convexity of (α − 1)ρ₁(α), beyond them by max |ln W(x−1)/W(x)|.
* Where shares are large, W is nearly constant: r follows from its Fourier coefficients (Poisson summation).
* More shares never cost more: what is added is noise. So a bound for fewer is one for more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ferrodp._numerics.rounding import next_up as up
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._types import Unsupported

SMALLEST_SCALE = 0.25
"""Of a share, in steps of the grid, if there are several: below it, nearly all noise is 0."""
MAX_SHARES = 10_000
"""Number of shares whose law is computed; more count as so many where the Fourier bound does not apply."""
MAX_STEPS = 64
"""Shifts of one coordinate whose divergence is computed; larger ones are bounded by the ratio."""
TOLERANCE = 1e-5
"""What the ratio may be above 1 before the law is computed at all."""
_MAX_VARIANCE = 1e5
_SMALLEST_MASS = 1e-240
_BLOCK = 1 << 17
"""About how many terms of sums are in memory at a time."""
_LEAST_CENTERED = 4.0
_LARGEST_ORDER = 1e5
SMALL_SCALE = Unsupported(f"shares of less than {SMALLEST_SCALE} steps of the grid hardly ever are noise at all")


class SumLaw:
    """The law of a sum of n ≤ `MAX_SHARES` discrete Gaussians of scale σ ≥ `SMALLEST_SCALE`, up to stated errors.

    `error` bounds the absolute error of every ln W(x) and ln f(x): the transforms of some 2^16 points and the n-th
    power lose less than (n + 100)·2⁻⁵⁰ of the largest mass, of which the masses that are kept are at least a 64th.
    """

    def __init__(self, num_shares: int, scale: float) -> None:
        self.num_shares, self.scale = num_shares, scale
        self.variance_proxy = num_shares * scale * scale
        self.error = (num_shares + 100.0) * 2.0**-44
        self.log_w = _log_w(num_shares, scale)
        whole = self.w(_integers(0, num_shares))
        self.steepest = float(np.abs(np.diff(whole)).max()) + 2.0 * self.error
        self.swing = float(np.ptp(self.log_w)) + 2.0 * self.error
        self.bent = float(np.abs(np.diff(np.diff(np.concatenate([whole, whole[1:2]])))).max()) + 4.0 * self.error
        reach = self._reach(0.0)
        x = _integers(-reach, reach)
        logs = self.w(x) - x * x / (2.0 * self.variance_proxy)
        top = logs.max()
        self.log_total = float(top + math.log(np.exp(logs - top).sum()))

    def w(self, x: Array) -> Array:
        """Return ln W(x) at integers, up to a constant."""
        rest = np.abs(x) % self.num_shares
        found: Array = self.log_w[np.minimum(rest, self.num_shares - rest).astype(np.int64)]
        return found

    def log_f(self, x: Array) -> Array:
        """Return ln f(x) at integers."""
        return self.w(x) - x * x / (2.0 * self.variance_proxy) - self.log_total

    def _reach(self, moved: float) -> int:
        """Return how far from αk, for αk up to `moved`, less than e^−65 of a sum of g·W(x−k)^α·W(x)^(1−α) is left.

        From αk on, the logarithm of a term falls by at least y²/2V − s·y in y steps, with s the largest that
        αΔw(x−k) − (α−1)Δw(x) can be; or, after m whole periods, in which W returns, by (mn)²/2V.
        """
        n, v = self.num_shares, self.variance_proxy
        periods = n * math.ceil(math.sqrt(160.0 * self.scale * self.scale / n)) + n
        slope = self.steepest + moved * self.bent
        return min(periods, math.ceil(v * slope + math.sqrt((v * slope) ** 2 + 160.0 * v)) + 2)

    def divergences(self, shift: int, orders: Array) -> Array:
        """Return upper bounds on ρₖ(α) at orders > 1."""
        v = self.variance_proxy
        found = 0.5 * shift * shift / v * orders
        far = orders * shift > _LARGEST_ORDER
        excess = (orders * shift * self.steepest + self.swing) / (orders - 1.0)
        found = (found + excess) * (1.0 + 1e-12)
        near = (orders < 2.0) & ~far if shift * shift <= _LEAST_CENTERED * v else np.zeros(orders.shape, np.bool_)
        if near.any():
            found[near] = self.centered(shift, orders[near] - 1.0)
        rest = np.flatnonzero(~far & ~near)
        rest = rest[np.argsort(orders[rest], kind="stable")]
        first = 0
        while first < rest.size:
            # The reach grows with the order: a block of orders shares that of its last one.
            size = 64
            while size > 1 and size * self._reach(float(orders[rest[first : first + size][-1]]) * shift) > _BLOCK:
                size //= 2
            block = rest[first : first + size]
            found[block] = self._summed(shift, np.maximum(orders[block], 1.0 + 2.0**-13))
            first += size
        return found

    def _summed(self, shift: int, orders: Array) -> Array:
        """Return bounds from the sums themselves, all over as many integers as the largest order needs."""
        v = self.variance_proxy
        centers = orders * shift
        reach = self._reach(float(centers.max()))
        x = np.round(centers)[:, None] + _integers(-reach, reach)
        column = orders[:, None]
        logs = column * self.w(x - shift) - (column - 1.0) * self.w(x) - (x - centers[:, None]) ** 2 / (2.0 * v)
        top = logs.max(axis=1)
        log_m = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) - self.log_total
        error = 2.0 * orders * self.error + 2e-13 * (1.0 + orders * self.swing)
        found: Array = (0.5 * orders * shift * shift / v + (log_m + error) / (orders - 1.0)) * (1.0 + 1e-12)
        return found

    def centered(self, shift: int, excess_orders: Array) -> Array:
        """Return ρ of orders 1 + t, ln(1 + A)/t with A = E[e^{αL} − 1 − α(e^L − 1)], as E[e^L] = 1: no digits cancel.

        The integrand is e^L(e^{tL} − 1 − tL) + t(Le^L − e^L + 1), and its derivative by L is α(e^{αL} − e^L).
        """
        reach = self._reach(2.0 * shift)
        x = _integers(-reach, reach + 2 * shift)
        mass, loss = np.exp(self.log_f(x)), self.log_f(x - shift) - self.log_f(x)
        most = float(excess_orders.max())
        keep = mass * np.exp(np.minimum(loss, 0.0) + (1.0 + most) * np.maximum(loss, 0.0)) > 1e-60
        mass, loss = mass[keep], loss[keep]
        ratio = np.exp(loss)
        plain = loss * ratio - np.expm1(loss)
        weight = float((mass * (ratio * (np.abs(loss) + 1.0) + 1.0) * (1.0 + np.abs(loss))).sum())
        found = np.empty(excess_orders.shape)
        step = max(_BLOCK // mass.size, 1)
        for first in range(0, found.size, step):
            t = excess_orders[first : first + step]
            grown = np.expm1(t[:, None] * loss)
            near = ratio * (grown - t[:, None] * loss) + t[:, None] * plain
            excess = np.maximum(near, 0.0) @ mass
            moved = (np.abs(ratio * grown) @ mass) * (1.0 + t)
            excess = (
                excess + moved * 2.0 * self.error + excess * (4.0 * self.error + 1e-13) + 1e-15 * t * weight + 1e-50
            )
            found[first : first + step] = np.log1p(excess) / t * (1.0 + 1e-12)
        return found

    def masses(self, shift: int) -> tuple[Array, Array]:
        """Return the masses of P = f(x − k) and Q = f(x); the last outcomes are those where either is below 1e-240."""
        reach = int(math.sqrt(2.0 * self.variance_proxy * (self.swing + 600.0))) + self.num_shares + shift
        x = _integers(-reach, reach + shift)
        p, q = np.exp(self.log_f(x - shift)), np.exp(self.log_f(x))
        kept = (p >= _SMALLEST_MASS) & (q >= _SMALLEST_MASS)
        lost = np.array([max(float(p[~kept].sum()), _SMALLEST_MASS), 0.0])
        return np.concatenate([p[kept], lost]), np.concatenate([q[kept], lost[::-1]])


def _integers(first: int, last: int) -> Array:
    return np.arange(float(first), float(last) + 1.0)


def _log_w(n: int, scale: float) -> Array:
    """Return ln W(x) up to a constant for 0 ≤ x ≤ n/2.

    Tilted by e^{cx/σ²}, a share is a discrete Gaussian around c, and with ϑ(c) = Σ exp(−(u − c)²/2σ²)
    W(x) = P_c[X = x]·ϑ(c)ⁿ·exp((x − nc)²/2nσ²) for every c. Each c serves the x next to the mean of its sum, where
    masses are not small; P_c is the inverse transform of the n-th power of a share's characteristic function. Sums
    further than N from x are counted in, too: less than e^−80, as the sum's cumulants are at most those of n
    variables of variance 1.145σ² + 0.29.
    """
    half = n // 2
    support = _integers(-math.ceil(13.0 * scale + 2.0), math.ceil(13.0 * scale + 2.0))
    size = 1 << math.ceil(math.log2(2.0 * 13.0 * math.sqrt(n * (1.145 * scale * scale + 0.29)) + 2 * n**0.5 + 64.0))
    angles = 2.0 * math.pi / size * np.arange(size // 2 + 1)
    turns = np.exp(1j * np.outer(angles, support))
    found = np.empty(half + 1)
    first = 0
    while first <= half:
        c, weights = _tilt(first / n, scale, support)
        spread = math.sqrt(n * float(weights @ (support - weights @ support) ** 2))
        last = min(first + max(int(2.0 * spread), 0), half)
        middle = 0.5 * (first + last)
        c, weights = _tilt(middle / n, scale, support)
        power = (turns @ weights) ** n
        x = _integers(first, last)
        masses = np.fft.irfft(np.conj(power), size)[np.arange(first, last + 1) % size]
        log_theta = math.log(float(np.exp(-((support - c) ** 2) / (2.0 * scale * scale)).sum()))
        found[first : last + 1] = np.log(masses) + n * log_theta + (x - n * c) ** 2 / (2.0 * n * scale * scale)
        first = last + 1
    found -= found.max()
    return found


def _tilt(mean: float, scale: float, support: Array) -> tuple[float, Array]:
    """Return a c for which the discrete Gaussian around it has about that mean, from 0 to ½, and its masses."""
    low, high = mean - 0.51, mean + 0.51
    for _ in range(50):
        c = 0.5 * (low + high)
        weights = np.exp(-((support - c) ** 2) / (2.0 * scale * scale))
        weights /= weights.sum()
        low, high = (c, high) if weights @ support < mean else (low, c)
    return c, weights


@functools.lru_cache(maxsize=64)
def law_of(num_shares: int, scale: float) -> SumLaw:
    """Return the law of a sum."""
    return SumLaw(num_shares, scale)


@functools.lru_cache(maxsize=1024)
def ratio(num_shares: int, scale: float) -> float | Unsupported:
    """Return r ≥ 1 with ρₖ(α) ≤ r·αk²/2nσ² for all integers k and orders α ≥ 1, rounded up.

    Parameters
    ----------
    num_shares : int
        n; from 1 to 2⁶³ − 1.
    scale : float
        σ of a share, in steps of the grid; finite, > 0.
    """
    if num_shares == 1:
        return 1.0
    if scale < SMALLEST_SCALE:
        return SMALL_SCALE
    smooth = _ratio_of_large_shares(num_shares, scale)
    if smooth <= 1.0 + TOLERANCE:
        return smooth
    if num_shares <= MAX_SHARES:
        return min(smooth, _ratio_by_orders(law_of(num_shares, scale)))
    fewer = _ratio_by_orders(law_of(MAX_SHARES, scale))
    # mutant: fewer-shares-not-paid-for
    return min(smooth, up(fewer * num_shares / MAX_SHARES))


def _ratio_of_large_shares(n: int, scale: float) -> float:
    """Return the ratio that the Fourier coefficients of W imply, infinite where they do not decay.

    W(x) = Σⱼ wⱼ·cos(2πjx/n) over |j| ≤ n/2, with wⱼ the sum of Q^(|k|² − j²/n) over integer vectors k that add up to
    j, Q = exp(−2π²σ²), and w₀ ≥ 1. Where |j| ≤ n/m, j²/n ≤ |k|²/m; so with c = 1 − 1/m and q = Σ max(1, k²)·Q^(ck²) ≤
    2.1·Q^c, Σ wⱼ ≤ b = e^{nq} − 1 and Σ j²wⱼ ≤ n·q·e^{nq} over j ≠ 0, so that everywhere −(ln W)″ ≤
    (4π²/n)·qe^{nq}/(1 − b) + (2πqe^{nq}/(1 − b))². m = 2 leaves no j out. With m = 50 the Σ wⱼ over |j| > n/50 is at
    most 2e^(6n√Q − n/50), from m = 2 and Markov's inequality for e^|j|: below e^−100 for n > 10⁴ and √Q ≤ 0.0016.
    """
    log_q = -2.0 * math.pi**2 * scale * scale
    root = math.exp(0.5 * log_q)
    if root > 0.02:
        return math.inf
    few = n <= MAX_SHARES or root > 0.0016
    q = 2.1 * (1.0 + 1e-12) * (root if few else math.exp(0.98 * log_q)) + (0.0 if few else 1e-40)
    if n * q > 0.5:
        return math.inf
    grown, rest = q * math.exp(n * q), 1.0 - math.expm1(n * q)
    bent = 4.0 * math.pi**2 / n * grown / rest + (2.0 * math.pi * grown / rest) ** 2
    return up(1.0 + n * scale * scale * bent * (1.0 + 1e-12))


class _Node(NamedTuple):
    order: float
    cumulant: float  # an upper bound on (α − 1)ρ₁(α)


def _ratio_by_orders(law: SumLaw) -> float:
    """Return the least r that the orders of a grid allow, and all between and beyond them.

    K(α) = (α − 1)ρ₁(α) is convex and 0 at α = 1, and ρ₁ rises. Below the first node, ρ₁ is at most that of the node;
    between two nodes K is at most the chord, and at most that of the second; beyond the last node ln M ≤ α·steepest +
    swing.
    """
    v = law.variance_proxy
    near = [2.0**-16]
    while near[-1] < 1.0:
        near.append(min(near[-1] + 0.02 * math.sqrt(near[-1]), 1.0))
    cumulants = (law.divergences(1, 1.0 + np.array(near)) * np.array(near)).tolist()
    first = float(law.centered(1, np.array(near[:1]))[0])
    last = _Node(1.0 + near[0], first * near[0])
    best = 2.0 * v * first

    for t, cumulant in zip(near[1:], cumulants[1:], strict=True):
        node = _Node(1.0 + t, cumulant)
        best, last = max(best, _worst_on_chord(last, node, v)), node
    ahead: list[_Node] = []
    order = 2.0
    while True:
        beyond = 1.0 + 2.0 * v * (order * law.steepest + law.swing) / (order * (order - 1.0))
        if beyond <= max(best, 1.0 + TOLERANCE):
            break
        if not ahead:
            orders = order * np.cumprod(np.full(48, 1.02))
            ahead = [
                _Node(*pair)
                for pair in zip(orders.tolist(), (law.divergences(1, orders) * (orders - 1.0)).tolist(), strict=True)
            ]
        node = ahead.pop(0)
        best, last = max(best, _worst_on_chord(last, node, v)), node
        order = node.order
    best = max(best, beyond)
    return up(best * (1.0 + 1e-12))


def _worst_on_chord(one: _Node, two: _Node, v: float) -> float:
    """Return the largest (chord of K)·2v/(α(α − 1)) between two nodes.

    With chord c + s·α, the derivative of the quotient vanishes where s·α² + 2c·α − c = 0.
    """
    slope = (two.cumulant - one.cumulant) / (two.order - one.order)
    offset = one.cumulant - slope * one.order
    places = [one.order, two.order]
    inside = offset * offset + slope * offset
    if slope and inside >= 0.0:
        places += [min(max((-offset + sign * math.sqrt(inside)) / slope, one.order), two.order) for sign in (1, -1)]
    return max((offset + slope * a) * 2.0 * v / (a * (a - 1.0)) for a in places) * (1.0 + 1e-9)


class SumCurve:
    """Rényi curve of a sum of n discrete Gaussians under integer shifts with Σkᵢ² ≤ S, in d coordinates or any number.

    Divergences add up over coordinates. With h(s) the concave hull of the points (k², ρₖ(α)), Σρ(kᵢ) ≤ d·h(S/d) by
    Jensen's inequality, and in any number of coordinates at most S times its slope at 0.
    """

    def __init__(self, num_shares: int, scale: float, squared_steps: int, dimension: int | None) -> None:
        found = ratio(num_shares, scale)
        assert not isinstance(found, Unsupported)
        self.variance_proxy = num_shares * scale * scale
        self.squared, self.ratio = squared_steps, found
        self.dimension = squared_steps if dimension is None else min(dimension, squared_steps)
        self.rho = up(up(0.5 * found * squared_steps) / self.variance_proxy) * (1.0 + 2.0**-50)
        is_near = num_shares == 1 or found <= 1.0 + TOLERANCE
        self.law = None if is_near else law_of(min(num_shares, MAX_SHARES), scale)

    def __call__(self, orders: Array) -> Array:
        linear: Array = orders * self.rho * (1.0 + 2.0**-50)
        if self.law is None:
            return linear
        found = linear.copy()
        above = (orders > 1.0) & (orders < math.inf)
        found[above] = np.minimum(linear[above], self._exact(orders[above]))
        return found

    def _exact(self, orders: Array) -> Array:
        assert self.law is not None
        law, far = self.law, 0.5 * orders * self.ratio / self.variance_proxy * (1.0 + 1e-12)
        return of_vectors(lambda shift: law.divergences(shift, orders), far, self.squared, self.dimension)


def of_vectors(divergences: Callable[[int], Array], rates: Array, squared: int, dimension: int) -> Array:
    """Return bounds on Σρ(kᵢ) over integer vectors with Σkᵢ² ≤ S in d coordinates, for some orders.

    Parameters
    ----------
    divergences : callable
        Takes k > 0 and returns ρₖ at the orders, which rises with k.
    rates : array
        Bounds on ρₖ/k² for all k, at the orders.
    squared, dimension : int
        S and d; both at least 1.
    """
    longest = math.isqrt(squared)
    if dimension == 1:  # ρₖ rises with k, as f is log-concave
        return divergences(longest)
    known = np.array([divergences(k) for k in range(1, min(longest, MAX_STEPS) + 1)])
    squares = [float(k * k) for k in range(1, known.shape[0] + 1)]
    if longest > MAX_STEPS:
        slope = np.maximum((known / np.array(squares)[:, None]).max(axis=0), rates)
        worst: Array = slope * squared * (1.0 + 1e-12)
        return worst
    total: Array = dimension * _hull(squares, known, squared / dimension) * (1.0 + 1e-12)
    return total


def _hull(squares: list[float], rates: Array, share: float) -> Array:
    """Return the concave hull of (0, 0) and the points, rising and constant beyond the last one, at `share`.

    It is the largest chord over `share` between a point on its left and one on its right.
    """
    xs = [0.0, *squares]
    ys = np.vstack([np.zeros(rates.shape[1]), rates])
    left = [i for i, x in enumerate(xs) if x <= share]
    best: Array = ys[left].max(axis=0)
    for i in left:
        for j in range(left[-1] + 1, len(xs)):
            weight = (share - xs[i]) / (xs[j] - xs[i])
            best = np.maximum(best, (1.0 - weight) * ys[i] + weight * ys[j])
    return best


def masses_of(num_shares: int, scale: float, shift: int) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
    """Return the masses of the two laws of a shift in one coordinate, and a bound on the errors of their logarithms.

    None where they are too many, or too far from each other for floats.
    """
    if num_shares > MAX_SHARES or num_shares * scale * scale > _MAX_VARIANCE:
        return None
    law = law_of(num_shares, scale)
    p, q = law.masses(shift)
    if not p[:-2].size or p[-2] > 1e-100:
        return None
    return tuple(p.tolist()), tuple(q.tolist()), 2.0 * law.error + 1e-12
