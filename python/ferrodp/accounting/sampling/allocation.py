"""Random allocation, balls into bins: rounds in which each record takes part in a few of the steps, drawn at random.

A round has T steps with Gaussian noise; each record takes part in k of them, all choices being equally likely, and
which is kept secret. One record is added, removed or zeroed; sensitivities are stated for that.
`ferrodp_accounting::allocation` has the law and the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

from ferrodp import _native, _validate
from ferrodp._numerics.intervals import Bounds
from ferrodp._validate import Real
from ferrodp.accounting._types import Direction
from ferrodp.accounting.curves.gaussian import gaussian_delta_bounds, gaussian_epsilon_bounds
from ferrodp.accounting.rdp import allocation
from ferrodp.accounting.rdp.allocation import directions_of, inverse

MOST_NODES = 60_000
_NODES = 3_000  # of the law of one round, unless an interval is given


def random_allocation_delta_bounds(
    *,
    epsilon: Real,
    noise_multiplier: Real,
    num_steps: int,
    num_selected: int = 1,
    num_rounds: int = 1,
    direction: Direction | Literal["both"] = "both",
    value_discretization_interval: Real | None = None,
) -> Bounds:
    """Return a lower and an upper bound on the smallest δ for which the rounds together are (ε, δ)-DP.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. Rounded down if it is no float.
    noise_multiplier : float
        Standard deviation of the noise of a step divided by its L2 sensitivity; finite, > 0. Rounded down.
    num_steps, num_selected : int
        Steps of a round, from 1 to 2⁵³, and in how many of them each record takes part.
    num_rounds : int
        How many rounds, each with an allocation of its own; from 0 to 2⁶³ − 1.
    direction : {"both", "remove", "add"}
        As in `random_allocation_gaussian`.
    value_discretization_interval : float, optional
        Spacing of the privacy losses, > 0: a finer one gives tighter bounds for more time. By default as fine as 3000
        nodes make it.

    Returns
    -------
    Bounds
        The lower bound is 0 where 1 < `num_selected` < `num_steps`: the law that is used is then only an upper one.

    Notes
    -----
    Upper and lower laws of r̄ in convex order, on a geometric grid; sums of steps and products of rounds keep the
    order. Two steps and one round: one integral, to 12 digits. The upper bound is never more than without the
    allocation. Feldman, Shenfeld, NeurIPS 2025; Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha, Zhang,
    "Balls-and-bins sampling for DP-SGD", AISTATS 2025.

    Examples
    --------
    >>> lower, upper = random_allocation_delta_bounds(epsilon=0.5, noise_multiplier=1.0, num_steps=2, direction="add")
    >>> round(lower, 9), round(upper, 9)
    (0.142686966, 0.142686966)
    """
    epsilon = _validate.non_negative("epsilon", epsilon, toward="down")
    rounds = _rounds(noise_multiplier, num_steps, num_selected, num_rounds, value_discretization_interval)
    return rounds.delta(epsilon, directions_of(direction))


def random_allocation_epsilon_bounds(
    *,
    delta: Real,
    noise_multiplier: Real,
    num_steps: int,
    num_selected: int = 1,
    num_rounds: int = 1,
    direction: Direction | Literal["both"] = "both",
    value_discretization_interval: Real | None = None,
) -> Bounds:
    """Return a lower and an upper bound on the smallest ε ≥ 0 for which the rounds together are (ε, δ)-DP.

    Parameters
    ----------
    delta : float
        In (0, 1), at least 10⁻³⁰⁰. Rounded down if it is no float.
    noise_multiplier, num_steps, num_selected, num_rounds, direction, value_discretization_interval
        As in `random_allocation_delta_bounds`, whose inverse this is.

    Notes
    -----
    The upper bound is also no more than the Rényi curve of `random_allocation_gaussian` gives by Canonne, Kamath,
    Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12.

    Examples
    --------
    >>> bounds = random_allocation_epsilon_bounds(delta=1e-6, noise_multiplier=1.0, num_steps=10)
    >>> 2.64 < bounds.lower < bounds.upper < 2.66
    True
    """
    delta = _validate.delta(delta)
    if delta < 1e-300:
        raise _validate.out_of_domain("delta", "at least 1e-300", delta)
    rounds = _rounds(noise_multiplier, num_steps, num_selected, num_rounds, value_discretization_interval)
    return rounds.epsilon(delta, directions_of(direction))


class _Rounds:
    """Rounds that have a cost, and the laws of their losses where these are small enough to be made."""

    def __init__(self, z: float, steps: int, selected: int, rounds: int, spacing: float | None) -> None:
        self.z, self.steps, self.selected, self.rounds = z, steps, selected, rounds
        self.is_exact = selected == 1
        self.is_plain = selected in (0, steps) or rounds == 0 or not allocation.is_sampled(z)
        self.laws = None if self.is_plain else _laws(z, steps, selected, rounds, spacing)

    def delta(self, epsilon: float, directions: tuple[Direction, ...]) -> Bounds:
        plain = self._plain(lambda z: gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z))
        if self.laws is None:
            return plain if self.selected in (0, self.steps) or not self.rounds else Bounds(0.0, plain.upper)
        bounds = [self._one(epsilon, direction) for direction in directions]
        lower = max(bound.lower for bound in bounds) if self.is_exact else 0.0
        return Bounds(lower, min(plain.upper, max(bound.upper for bound in bounds)))

    def _one(self, epsilon: float, direction: Direction) -> Bounds:
        assert self.laws is not None, "asked only where there are laws"
        lower, upper = (law.delta(epsilon, direction) for law in self.laws)
        if self.steps == 2 and self.rounds == 1 and self.z <= 100.0:
            lower = max(lower, _native.allocation_two_bins(inverse(self.z, is_upper=False), epsilon, direction)[0])
            upper = min(upper, _native.allocation_two_bins(inverse(self.z), epsilon, direction)[1])
        return Bounds(lower, upper)

    def epsilon(self, delta: float, directions: tuple[Direction, ...]) -> Bounds:
        plain = self._plain(lambda z: gaussian_epsilon_bounds(delta=delta, noise_multiplier=z))
        if self.laws is None:
            return plain if self.selected in (0, self.steps) or not self.rounds else Bounds(0.0, plain.upper)
        highest = min(plain.upper, self._by_moments(delta, directions))
        upper = _bracket(lambda e: self._delta(e, directions).upper <= delta, highest)[1]
        lower = 0.0
        if self.is_exact:
            lower = _bracket(lambda e: self._delta(e, directions).lower <= delta, highest)[0]
        return Bounds(min(lower, upper), upper)

    def _delta(self, epsilon: float, directions: tuple[Direction, ...]) -> Bounds:
        bounds = [self._one(epsilon, direction) for direction in directions]
        return Bounds(max(b.lower for b in bounds), max(b.upper for b in bounds))

    def _plain(self, bounds: Callable[[float], Bounds]) -> Bounds:
        """Return what as many releases without sampling cost: Gaussian with z/√n."""
        number = self.selected * self.rounds
        if not number:
            return Bounds(0.0, 0.0)
        root = math.sqrt(number)
        exact = number == 1 or (root * root == number and math.frexp(root)[0] == 0.5)
        low, high = bounds(self.z / root * (1.0 - (0.0 if exact else 2.0**-51))), bounds(self.z / root)
        return Bounds(
            low.lower if exact else bounds(self.z / root * (1.0 + 2.0**-51)).lower, max(low.upper, high.upper)
        )

    def _by_moments(self, delta: float, directions: tuple[Direction, ...]) -> float:
        """Canonne, Kamath, Steinke 2020, Proposition 12; the slack is for a dozen roundings of sums below 10³."""
        best = math.inf
        for order in (1.5, *range(2, 13), 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256):
            rho = self.rounds * allocation.rate(self.z, self.steps, self.selected, float(order), directions)
            parts = (rho, math.log1p(-1.0 / order), -math.log(delta) / (order - 1), -math.log(order) / (order - 1))
            found = sum(parts) + 2.0**-48 * sum(map(abs, parts))
            if found > 1.1 * best:
                break  # it only grows from here on, and large orders take time
            best = min(best, found)
        return max(best, 0.0)


@functools.lru_cache(maxsize=32)
def _rounds_of(z: float, steps: int, selected: int, rounds: int, spacing: float | None) -> _Rounds:
    return _Rounds(z, steps, selected, rounds, spacing)


def _rounds(
    noise_multiplier: Real, num_steps: int, num_selected: int, num_rounds: int, interval: Real | None
) -> _Rounds:
    z = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    steps, selected = allocation.steps_of(num_steps, num_selected)
    rounds = _validate.count("num_rounds", num_rounds, minimum=0)
    spacing = None if interval is None else _validate.positive("value_discretization_interval", interval, toward="down")
    if spacing is not None and not 1e-9 <= spacing <= 1.0:
        raise _validate.out_of_domain("value_discretization_interval", "from 1e-9 to 1", spacing)
    return _rounds_of(z, steps, selected, rounds, spacing)


def _laws(
    z: float, steps: int, selected: int, rounds: int, spacing: float | None
) -> tuple[_native.AllocationLaw, _native.AllocationLaw] | None:
    """Return the lower and the upper law of the product of all r̄, with coarser spacings until they fit."""
    lower, upper = inverse(z, is_upper=False), inverse(z)
    span = upper * (23.0 + upper) + math.log(steps)
    spacing = min(1.0, span / _NODES) if spacing is None else spacing
    while spacing <= 1.0:
        try:
            return (
                _law(lower, steps, selected, rounds, spacing, False),
                _law(upper, steps, selected, rounds, spacing, True),
            )
        except MemoryError:
            spacing *= 2.0
    return None


def _law(s: float, steps: int, selected: int, rounds: int, spacing: float, is_upper: bool) -> _native.AllocationLaw:
    law = None
    for length, times in allocation.blocks(steps, selected):
        block = _native.AllocationLaw(s, length, spacing, is_upper, MOST_NODES)
        if times * rounds > 1:
            block = block.repeated(times * rounds, MOST_NODES)
        law = block if law is None else law.joined(block, MOST_NODES)
    assert law is not None, "at least one step is selected"
    return law


def _bracket(holds: Callable[[float], bool], highest: float) -> tuple[float, float]:
    """Return floats close together: where a monotone statement does not hold, or 0, and where it does, or `highest`."""
    if holds(0.0):
        return 0.0, 0.0
    below, above = 0.0, highest
    while above - below > 1e-12 * above:
        middle = 0.5 * (below + above)
        if holds(middle):
            above = middle
        else:
            below = middle
    return below, above
