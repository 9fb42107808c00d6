"""Random allocation, or balls into bins: each record takes part in a few steps of a round, selected at random.

A round has T steps with Gaussian noise; each record takes part in k of them, all choices being equally likely and
secret. One record is added, removed or zeroed; sensitivities are those for that relation. The Rust module
`ferrodp_accounting::sampling::allocation` has the distribution and the proofs.
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

MAX_NODES = 60_000
"""Of the grid of one distribution; beyond, its spacing is doubled."""
_DEFAULT_NODES = 3_000
"""Of the distribution of one round, unless an interval is given."""


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
        Finite, ≥ 0. Rounded down if not exactly representable.
    noise_multiplier : float
        Standard deviation of the noise of a step divided by its L2 sensitivity; finite, > 0. Rounded down.
    num_steps, num_selected : int
        Steps of a round, from 1 to 2⁵³, and in how many of them each record takes part.
    num_rounds : int
        How many rounds, each with its own allocation; from 0 to 2⁶³ − 1.
    direction : {"both", "remove", "add"}
        "remove" if the first of the two datasets has the record, "add" if the second has it, "both" for the worse one.
    value_discretization_interval : float, optional
        Spacing of the privacy losses, from 1e-9 to 1: a finer one gives tighter bounds and takes longer. By default the
        one that needs 3000 nodes.

    Returns
    -------
    Bounds
        The lower bound is 0 where 1 < `num_selected` < `num_steps`: the distribution in use is then only an upper one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    Upper and lower distributions of the mean likelihood ratio in convex order, on a geometric grid; sums of steps and
    products of rounds keep the order. Two steps and one round: one integral, to 12 digits. The upper bound never
    exceeds that without the allocation. [FS25], [CGHKKLMSZ25].

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
        In (0, 1), at least 10⁻³⁰⁰. Rounded down if not exactly representable.
    noise_multiplier, num_steps, num_selected, num_rounds, direction, value_discretization_interval
        As for `random_allocation_delta_bounds`.

    Returns
    -------
    Bounds
        The inverse of `random_allocation_delta_bounds`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The upper bound is also no more than what the Rényi curve of `random_allocation_gaussian` gives by [CKS20]
    Proposition 12.

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


@functools.lru_cache(maxsize=32)
class _Rounds:
    """Rounds, with the distributions of their losses where these are small enough to be computed."""

    def __init__(self, z: float, steps: int, selected: int, rounds: int, spacing: float | None) -> None:
        self.z, self.steps, self.selected, self.rounds = z, steps, selected, rounds
        self.is_sampled = 0 < selected < steps and rounds > 0
        has_laws = self.is_sampled and allocation.is_sampled(z)
        self.laws = _laws(z, steps, selected, rounds, spacing) if has_laws else None

    def delta(self, epsilon: float, directions: tuple[Direction, ...]) -> Bounds:
        plain = self._plain(lambda z: gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z))
        if self.laws is None:
            return Bounds(0.0, plain.upper) if self.is_sampled else plain
        found = self._delta(epsilon, directions)
        return Bounds(found.lower if self.selected == 1 else 0.0, min(plain.upper, found.upper))

    def epsilon(self, delta: float, directions: tuple[Direction, ...]) -> Bounds:
        plain = self._plain(lambda z: gaussian_epsilon_bounds(delta=delta, noise_multiplier=z))
        if self.laws is None:
            return Bounds(0.0, plain.upper) if self.is_sampled else plain
        highest = min(plain.upper, self._by_moments(delta, directions))
        _, upper = _bracket(lambda e: self._delta(e, directions).upper <= delta, highest)
        lower = 0.0
        if self.selected == 1:
            lower, _ = _bracket(lambda e: self._delta(e, directions).lower <= delta, highest)
        return Bounds(min(lower, upper), upper)

    def _delta(self, epsilon: float, directions: tuple[Direction, ...]) -> Bounds:
        assert self.laws is not None, "asked only where there are laws"
        bounds = []
        for direction in directions:
            lower, upper = (law.delta(epsilon, direction) for law in self.laws)
            if self.steps == 2 and self.rounds == 1 and self.z <= 100.0:
                lower = max(lower, _native.allocation_two_bins(inverse(self.z, is_upper=False), epsilon, direction)[0])
                upper = min(upper, _native.allocation_two_bins(inverse(self.z), epsilon, direction)[1])
            bounds.append((lower, upper))
        return Bounds(*map(max, zip(*bounds, strict=True)))

    def _plain(self, bounds: Callable[[float], Bounds]) -> Bounds:
        """Return the cost of as many releases without sampling: one Gaussian release with z/√n."""
        number = self.selected * self.rounds
        if not number:
            return Bounds(0.0, 0.0)
        root = math.sqrt(number)
        z = self.z / root
        if number == 1 or (root * root == number and math.frexp(root)[0] == 0.5):  # z is exact
            return bounds(z)
        return Bounds(bounds(z * (1.0 + 2.0**-51)).lower, max(bounds(z * (1.0 - 2.0**-51)).upper, bounds(z).upper))

    def _by_moments(self, delta: float, directions: tuple[Direction, ...]) -> float:
        """Return ε by [CKS20] Proposition 12; the slack is for a dozen roundings of sums below 10³."""
        best = math.inf
        for order in (1.5, *range(2, 13), 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256):
            rho = self.rounds * allocation.rate(self.z, self.steps, self.selected, float(order), directions)
            parts = (rho, math.log1p(-1.0 / order), -math.log(delta) / (order - 1), -math.log(order) / (order - 1))
            found = sum(parts) + 2.0**-48 * sum(map(abs, parts))
            if found > 1.1 * best:
                break  # from here on it only grows, and large orders take long
            best = min(best, found)
        return max(best, 0.0)


def _rounds(
    noise_multiplier: Real, num_steps: int, num_selected: int, num_rounds: int, interval: Real | None
) -> _Rounds:
    z = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    steps, selected = allocation.steps_of(num_steps, num_selected)
    rounds = _validate.count("num_rounds", num_rounds, minimum=0)
    spacing = None if interval is None else _validate.positive("value_discretization_interval", interval, toward="down")
    if spacing is not None and not 1e-9 <= spacing <= 1.0:
        raise _validate.out_of_domain("value_discretization_interval", "from 1e-9 to 1", spacing)
    return _Rounds(z, steps, selected, rounds, spacing)


def _laws(
    z: float, steps: int, selected: int, rounds: int, spacing: float | None
) -> tuple[_native.AllocationLaw, _native.AllocationLaw] | None:
    """Return the lower and the upper distribution, with the spacing doubled until they fit."""
    lower, upper = inverse(z, is_upper=False), inverse(z)
    spacing = min(1.0, (upper * (23.0 + upper) + math.log(steps)) / _DEFAULT_NODES) if spacing is None else spacing
    while spacing <= 1.0:
        rest = steps, selected, rounds, spacing
        try:
            return _law(lower, *rest, is_upper=False), _law(upper, *rest, is_upper=True)
        except MemoryError:
            spacing *= 2.0
    return None


def _law(s: float, steps: int, selected: int, rounds: int, spacing: float, *, is_upper: bool) -> _native.AllocationLaw:
    law = None
    for length, times in allocation.blocks(steps, selected):
        block = _native.AllocationLaw(s, length, spacing, is_upper, MAX_NODES)
        if times * rounds > 1:
            block = block.repeated(times * rounds, MAX_NODES)
        law = block if law is None else law.joined(block, MAX_NODES)
    assert law is not None, "at least one step is selected"
    return law


def _bracket(holds: Callable[[float], bool], highest: float) -> tuple[float, float]:
    """Return two close floats: one where a monotone statement does not hold, or 0; one where it does, or `highest`."""
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
