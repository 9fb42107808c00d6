"""δ(ε) and ε(δ) of composed Poisson-sampled Gaussians to 25 digits and more, in mpmath: slow, no bound but convergence.

A step that adds N(0, σ²) to a sum which one record moves by 1, if it is sampled, with probability q, has the likelihood
ratio r(x) = 1 − q + q·exp((2x − 1)/2σ²), x ∼ N(0, σ²) without the record. The losses are L = ln r (the record is
removed, distribution with it) and L = −ln r (it is added). With M(z) = E[exp(zL)] under the first of the two
distributions and c > 0, as in Alghamdi, Gomez, Asoodeh, Calmon, Kosut and Sankar, The saddle-point method in
differential privacy, ICML 2023, Theorem 3.1,

    δ(ε) = 1/(2πi) ∫ Π M(z)^count · exp(−εz) / (z(z + 1)) dz      along Re z = c.

Nothing but analyticity is used: the path may be bent, as Π M has no singularities and the poles at 0 and −1 stay on its
left, and the expectation may be taken along Im x = y for |y| < πσ², where r has no zero. Both integrals are trapezoidal
sums, whose errors fall geometrically. A value counts as true once two paths with other steps agree on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import mpmath as mp
import numpy as np

REMOVE, ADD = "remove", "add"


@dataclass(frozen=True)
class Step:
    """`count` steps with standard deviation `sigma` (doubles, taken as the numbers they are) and probability `q`."""

    sigma: float
    q: float
    count: int


@dataclass(frozen=True)
class Path:
    """A path of integration: z = c + iτ + bend·(√(turn² + τ²) − turn), τ = width·sinh u, cut into steps in u.

    Losses of small q and σ are nearly atoms, and on a straight line the integrand falls like 1/|z|² only. On the bent
    path exp(−εz)·Π M falls geometrically: to the right as all losses are above Σ count·ln(1 − q) when a record is
    removed; to the left as they are below −Σ count·ln(1 − q) when one is added. `digits` is what the sums are meant to
    be good for, relative to the result.
    """

    step: float = 0.056
    bend: float = 0.0
    width: float = 1.0  # in units of the curvature's width at the saddle
    turn: float = 1.0  # in units of c + 1
    shrink: float = 1.0  # of c, away from where the largest losses begin to count
    digits: int = 29
    limit: int = 400


class NotConvergedError(ArithmeticError):
    """The terms along the path did not become small."""


@dataclass
class Composition:
    """A composition seen from one direction."""

    steps: tuple[Step, ...]
    direction: str
    path: Path = field(default_factory=Path)

    def __post_init__(self):
        self._nodes = {}

    # -- the expectation, in doubles and for real arguments: only to place the path ---------------------------------

    def _real_cumulant(self, z: float) -> tuple[float, float, float]:
        """Return ln Π M(z)^count and its first two derivatives in z, to some 10 digits."""
        total = np.zeros(3)
        for step in self.steps:
            total += step.count * np.array(_real_cumulant(step, self.direction, z))
        return tuple(total)

    def saddle(self, epsilon: float) -> tuple[float, float]:
        """Return the c > 0 that makes the integrand smallest, and the width of the peak there."""

        def slope(c):
            _, first, second = self._real_cumulant(c)
            return first - epsilon - 1 / c - 1 / (c + 1), second + 1 / c**2 + 1 / (c + 1) ** 2

        low, high = -40.0, 40.0  # ln c; the slope grows in c
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if slope(math.exp(middle))[0] > 0 else (middle, high)
        c = math.exp((low + high) / 2) * self.path.shrink
        return c, 1 / math.sqrt(slope(c)[1])

    # -- the integral -----------------------------------------------------------------------------------------------

    def line(self, c: float, width: float):
        """Return the z of the path, their weights, and the cumulants Σ count·ln M there; cached by place."""
        if (c, width) not in self._nodes:
            self._nodes[c, width] = _Line(self, c, width)
        return self._nodes[c, width]

    def delta(self, epsilon, place=None):
        """Return δ(ε)."""
        if mp.mpf(epsilon) >= self.largest_loss():
            return mp.mpf(0)
        return self.line(*(place or self.saddle(float(epsilon)))).delta(mp.mpf(epsilon))[0]

    def largest_loss(self):
        """Return −Σ count·ln(1 − q), which no loss reaches when a record is added; ∞ where there is no such bound."""
        if self.direction == REMOVE or any(step.q == 1 for step in self.steps):
            return mp.inf
        return mp.fsum(-step.count * mp.log1p(-mp.mpf(step.q)) for step in self.steps)

    def epsilon(self, delta):
        """Return the ε with δ(ε) = delta, or 0 if δ(0) is smaller."""
        target = mp.mpf(delta)
        rough = Composition(self.steps, self.direction, replace(self.path, step=3 * self.path.step, digits=9))
        epsilon = min(max(self.chernoff(delta), 0.0), float(self.largest_loss()) / 2)
        if rough.delta(epsilon / 100) < target and self.delta(0) <= target:
            return mp.mpf(0)
        for stage in (rough, rough, rough, self):
            line = stage.line(*stage.saddle(float(epsilon)))
            for _ in range(60):
                value, slope = line.delta(epsilon)
                if value <= 0:  # lost in the error: far beyond the ε that was asked for
                    epsilon /= 2
                    continue
                change = (mp.log(value) - mp.log(target)) * value / slope
                epsilon = epsilon - change if change < epsilon else epsilon / 4
                if epsilon >= self.largest_loss():
                    epsilon = (epsilon + change + self.largest_loss()) / 2
                if abs(change) < epsilon * mp.mpf(10) ** (2 - stage.path.digits):
                    break
            else:
                raise NotConvergedError("ε does not settle")
        return epsilon

    def chernoff(self, delta: float) -> float:
        """Return Chernoff's bound on ε(δ) at the best c of a grid, in doubles: roughly ε, and from above."""
        log_delta = math.log(delta)

        def bound(x):
            c = math.exp(x)
            k = self._real_cumulant(c)[0]
            return (k - log_delta + c * math.log(c) - (1 + c) * math.log1p(c)) / c if k < 1e300 else math.inf

        grid = np.linspace(-12, 18, 121)
        values = [bound(x) for x in grid]
        return min(values)


class _Line:
    """The integrand without exp(−εz) along one path: what does not depend on ε is computed once."""

    def __init__(self, composition: Composition, c: float, width: float):
        path = composition.path
        self.digits = path.digits
        with mp.workdps(path.digits + 25):
            self.step = mp.mpf(path.step)
            self.c, self.width = mp.mpf(c), mp.mpf(width) * mp.mpf(path.width)
            self.bend = mp.mpf(path.bend if composition.direction == REMOVE else -path.bend)
            self.turn = (self.c + 1) * mp.mpf(path.turn)
            self.limit = path.limit
            self.expectations = [
                _Expectation(s, composition.direction, path.digits + 10 + len(str(s.count)), c, path)
                for s in composition.steps
            ]
            self.points = []

    def _point(self, j):
        """Return z, Σ count·ln M(z), and dz/du/(z(z+1)) of the j-th point."""
        while len(self.points) <= j:
            u = self.step * len(self.points)
            tau, speed = self.width * mp.sinh(u), self.width * mp.cosh(u)
            root = mp.sqrt(self.turn**2 + tau**2)
            z = mp.mpc(self.c + self.bend * (root - self.turn), tau)
            slope = mp.mpc(speed, -self.bend * tau / root * speed)  # dz/du / i
            cumulant = sum(e.step.count * mp.log(e.value(z)) for e in self.expectations)
            self.points.append((z, cumulant, slope / (z * (z + 1))))
        return self.points[j]

    def delta(self, epsilon):
        """Return δ(ε) and dδ/dε."""
        with mp.workdps(self.digits + 25):
            total, slope, small, j = mp.mpf(0), mp.mpf(0), 0, 0
            while True:
                z, cumulant, factor = self._point(j)
                term = mp.exp(cumulant - epsilon * z) * factor
                if j == 0:
                    term /= 2
                total += term.real
                slope -= (z * term).real
                small = small + 1 if abs(term) * (1 + abs(z)) < abs(total) * mp.mpf(10) ** -(self.digits + 2) else 0
                if small == 4:
                    self.used = j
                    return total * self.step / mp.pi, slope * self.step / mp.pi
                j += 1
                if j > self.limit:
                    raise NotConvergedError(f"after {j} terms, the last {mp.nstr(abs(term / total), 5)}")


class _Expectation:
    """M(z) of one step: E[r^(z+1)] or E[r^(−z)] as a trapezoidal sum along Im x = y.

    Where the path of z is bent, r^s turns fast and is small only on a line of its own: with s = ρ + iτ, τ > 0,
    |r^s| ≤ |r|^ρ·exp(−τ·arg r), and arg r = arg(1 − q + q·e^{…}) grows with y/σ². All zeros of r have the real part
    z₀ = σ² ln(1/q − 1) + ½. Right of it the line rises, so that it does not meet the point x = s where |φ·r^s| has a
    ridge. For s below the axis all of this is mirrored.
    """

    RISE = 0.7

    def __init__(self, step: Step, direction: str, digits: int, c: float, path: Path):
        self.step, self.direction, self.digits = step, direction, digits
        sign = 1 if direction == REMOVE else -1
        power = c + 1 if direction == REMOVE else -c
        self.peak = _real_cumulant(step, direction, c)[0]
        top, lost = c, 0.0
        if path.bend and direction == REMOVE:  # the largest Re z before the line rises, and what M has grown there
            turn, tau = path.turn * (c + 1), 0.0
            while self.RISE * tau - 1 < top + 1:
                tau += 0.01 * (c + 1)
                top = c + path.bend * (math.hypot(turn, tau) - turn)
            lost = _real_cumulant(step, direction, top)[0] - self.peak
            power = top + 1
        low, high, y, width = _grid(step, power, digits + lost / math.log(10))
        self.level = self._table(low, high, width, lambda t: (mp.mpc(t, sign * y), mp.mpf(1)))
        self.rising = None
        if path.bend and step.q < 1:
            sigma, q = mp.mpf(step.sigma), mp.mpf(step.q)
            angle, reach = math.pi / 2, 0.36 * math.pi
            width = 2 * math.pi * reach * step.sigma**2 / (digits * math.log(10) + (angle + reach) ** 2 * sigma**2 / 2)
            far = math.sqrt(2 * digits * math.log(10) + (angle * step.sigma) ** 2) * step.sigma + step.sigma
            edge = sigma**2 * mp.log(1 / q - 1) + mp.mpf(1) / 2
            corner = (mp.pi / 2) * sigma**2

            def line(t):
                d = t - edge - corner
                root = mp.sqrt(d * d + corner**2)
                x = mp.mpc(t, sign * (corner + self.RISE * (d + root) / 2))
                return x, mp.mpc(1, sign * self.RISE * (1 + d / root) / 2)

            self.rising = self._table(-far, max(2 * far, float(edge) + 2 * far), float(width), line)

    def _table(self, low, high, width, line):
        """Return logarithms of weights, and of r, at the points of a line."""
        sigma, q = mp.mpf(self.step.sigma), mp.mpf(self.step.q)
        table = []
        h = mp.mpf(width)
        for k in range(math.floor(low / width), math.ceil(high / width) + 1):
            x, slope = line(k * h)
            y = (2 * x - 1) / (2 * sigma**2)
            if q * mp.exp(y.real) < 1 - q:
                ratio = mp.log(1 - q + q * mp.exp(y))
            else:  # the same branch further up
                ratio = mp.log(q) + y + mp.log(1 + (1 - q) / q * mp.exp(-y))
            table.append((mp.log(slope * h / (sigma * mp.sqrt(2 * mp.pi))) - x * x / (2 * sigma**2), ratio))
        sizes = np.array([[float(w.real), float(r.real), float(r.imag)] for w, r in table])
        return table, sizes

    def value(self, z):
        """Return M(z)."""
        s = z + 1 if self.direction == REMOVE else -z
        table = self.rising if self.rising and 0 < s.real < self.RISE * abs(s.imag) - 1 else self.level
        terms, sizes = table
        size = sizes[:, 0] + float(s.real) * sizes[:, 1] - float(s.imag) * sizes[:, 2]
        kept = np.flatnonzero(size > self.peak - (self.digits + 3) * math.log(10))
        return sum_of_exponentials(terms, kept, s)


def sum_of_exponentials(terms, kept, s):
    """Return Σ exp(weight + s·ratio) over the terms that are kept: nearly all the time is spent here."""
    return mp.fsum(mp.exp(terms[k][0] + s * terms[k][1]) for k in kept)


def _log_integrand(step: Step, power: float, x, y: float):
    """Return ln |φ(x + iy)·r(x + iy)^power| in doubles, without the constant of φ."""
    exponent = (2 * x - 1) / (2 * step.sigma**2) + 1j * y / step.sigma**2
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        small = np.where(exponent.real < 300, exponent, 300)
        log_ratio = np.where(
            exponent.real < 300, np.log(1 - step.q + step.q * np.exp(small)), math.log(step.q) + exponent
        )
    return (y * y - x * x) / (2 * step.sigma**2) + power * log_ratio.real


def _scan(step: Step, power: float, digits: int):
    """Return points around those where the real integrand is above 10^−(4·digits) of its peak."""
    low, high = min(0.0, power) - 45 * step.sigma, max(0.0, power) + 45 * step.sigma
    for _ in range(6):
        x = np.linspace(low, high, 3001)
        logs = _log_integrand(step, power, x, 0.0)
        inside = np.flatnonzero(logs > logs.max() - 4 * digits * math.log(10))
        spread = x[1] - x[0]
        new_low, new_high = max(low, x[inside[0]] - 3 * spread), min(high, x[inside[-1]] + 3 * spread)
        if new_high - new_low > 0.5 * (high - low):
            break
        low, high = new_low, new_high
    return x


def _grid(step: Step, power: float, digits: int) -> tuple[float, float, float, float]:
    """Return the ends of the sum, the height of its line and its step."""
    x = _scan(step, power, digits)
    real = _log_integrand(step, power, x, 0.0)
    peak = real.max()
    best = (0.0, 0.0)
    for angle in [0.95 * math.pi * 0.8**k for k in range(40)]:
        top = angle * step.sigma**2
        growth = max(_log_integrand(step, power, x, top).max() - peak, 0.0)
        best = max(best, (math.pi * top / (digits * math.log(10) + growth), top / 2))
    width, y = best
    inside = x[_log_integrand(step, power, x, y) > peak - (digits + 3) * math.log(10)]
    margin = x[1] - x[0]
    return inside[0] - margin, inside[-1] + margin, y, width


def _real_cumulant(step: Step, direction: str, z: float) -> tuple[float, float, float]:
    """Return ln M(z) and two derivatives in doubles."""
    power = z + 1 if direction == REMOVE else -z
    sigma, q = step.sigma, step.q
    if q == 1:
        return (z * z + z) / (2 * sigma**2), (2 * z + 1) / (2 * sigma**2), 1 / sigma**2
    if power > 1e4 * sigma:
        return math.inf, math.inf, math.inf
    low = -12 * sigma - (min(z, sigma**2 * math.log1p(z * q / (1 - q))) if power < 0 else 0)
    x = np.arange(low, max(power, 0.0) + 12 * sigma, sigma / 10)
    exponent = (2 * x - 1) / (2 * sigma**2)
    log_ratio = np.where(exponent < 300, np.log1p(q * np.expm1(np.minimum(exponent, 300))), math.log(q) + exponent)
    logs = -x * x / (2 * sigma**2) + power * log_ratio
    peak = logs.max()
    weights = np.exp(logs - peak)
    total = weights.sum()
    first = (weights * log_ratio).sum() / total
    second = (weights * (log_ratio - first) ** 2).sum() / total
    value = peak + math.log(total / (10 * math.sqrt(2 * math.pi)))
    return value, first if direction == REMOVE else -first, second


class OneStep:
    """A single step: the Neyman–Pearson test is a threshold of x, and δ(ε) two or three values of Φ."""

    def __init__(self, steps, direction):
        (self.step,) = steps
        self.direction = direction

    def delta(self, epsilon):
        """Return δ(ε), ε ≥ 0."""
        sigma, q, growth = mp.mpf(self.step.sigma), mp.mpf(self.step.q), mp.exp(mp.mpf(epsilon))
        ratio = growth if self.direction == REMOVE else 1 / growth
        if ratio <= 1 - q:
            return mp.mpf(0)
        edge = sigma**2 * mp.log((ratio - 1 + q) / q) + mp.mpf(1) / 2
        if self.direction == REMOVE:  # all x above the edge
            beyond = mp.erfc((edge - 1) / sigma / mp.sqrt(2)) / 2, mp.erfc(edge / sigma / mp.sqrt(2)) / 2
            return q * beyond[0] + (1 - q - growth) * beyond[1]
        below = mp.erfc((1 - edge) / sigma / mp.sqrt(2)) / 2, mp.erfc(-edge / sigma / mp.sqrt(2)) / 2
        return below[1] - growth * (q * below[0] + (1 - q) * below[1])

    def epsilon(self, delta):
        """Return the ε with δ(ε) = delta, or 0 if δ(0) is smaller."""
        with mp.workdps(400):  # the terms of δ cancel
            target = mp.mpf(delta)
            if self.delta(0) <= target:
                return mp.mpf(0)
            low, high = mp.mpf(0), mp.mpf(1)
            while self.delta(high) > target:
                low, high = high, 2 * high
            for _ in range(300):
                middle = (low + high) / 2
                low, high = (middle, high) if self.delta(middle) > target else (low, middle)
            return high


STRAIGHT = (Path(), Path(step=0.048, width=1.2, digits=30))
SHRUNK = (Path(shrink=0.6), Path(shrink=0.65, step=0.048, width=1.2, digits=30))
BENT = (Path(step=0.026, bend=0.3, limit=1600), Path(step=0.023, bend=0.35, turn=1.5, digits=30, limit=1600))
FINE = (Path(step=0.0115, bend=0.3, turn=2.0, limit=3000), Path(step=0.01, bend=0.33, turn=2.5, digits=30, limit=3000))


def solve(steps, direction, delta, agreement=25):
    """Return ε(δ) and the composition that gave it, once two paths agree on δ at that ε to `agreement` digits.

    If δ(0) is below half of `delta`, eight digits of it tell that ε = 0: they do where no two paths agree on more.
    """
    if len(steps) == 1 and steps[0].count == 1:
        exact = OneStep(steps, direction)
        return exact.epsilon(delta), exact
    rough = None
    for first, second in (STRAIGHT, SHRUNK, BENT, FINE):
        try:
            composition = Composition(steps, direction, first)
            epsilon = composition.epsilon(delta)
            value, other = composition.delta(epsilon), Composition(steps, direction, second).delta(epsilon)
        except NotConvergedError:
            continue
        off = abs(other - value)
        if off <= value * mp.mpf(10) ** -agreement:
            return epsilon, composition
        if epsilon == 0 and value < delta / 2 and off <= value * mp.mpf(10) ** -8 and rough is None:
            rough = epsilon, composition
    if rough is None:
        raise NotConvergedError(f"{steps} {direction} {delta}")
    return rough
