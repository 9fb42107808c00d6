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

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._laws import allocated
from ferrodp.accounting._types import Direction
from ferrodp.accounting.curves.gaussian import gaussian_delta_bounds, gaussian_epsilon_bounds
from ferrodp.accounting.rdp import allocation as rdp_allocation
from ferrodp.accounting.rdp.allocation import directions_of


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
        one that needs about 3000 nodes.

    Returns
    -------
    Bounds
        Where one step is selected, both are bounds on the same law. With 1 < `num_selected` < `num_steps` the upper one
        is that of a mechanism that also shows into which blocks of steps the selected ones fall, one or two in each,
        and the lower one that of a count of what is released: they differ by a per cent, or two where δ is far out.

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
    """Rounds, with the laws of their losses where these are small enough to be computed."""

    def __init__(self, z: float, steps: int, selected: int, rounds: int, spacing: float | None) -> None:
        self.z, self.steps, self.selected, self.rounds = z, steps, selected, rounds
        self.is_sampled = 0 < selected < steps and rounds > 0
        self.laws = allocated.Laws(None, None)
        if self.is_sampled and rdp_allocation.is_sampled(z):
            step = ("gaussian", z)
            self.laws = allocated.laws(step, step, steps, selected, spacing)

    def delta(self, epsilon: float, directions: tuple[Direction, ...]) -> Bounds:
        plain = self._plain(lambda z: gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z))
        if not self.is_sampled:
            return plain
        found = self._of_laws("delta", epsilon, directions)
        if self.steps == 2 and self.rounds == 1 and self.z <= 100.0 and self.laws.above is not None:
            found = self._of_two(found, epsilon, directions)
        upper = min(plain.upper, found.upper)
        return Bounds(min(found.lower, upper), upper)

    def epsilon(self, delta: float, directions: tuple[Direction, ...]) -> Bounds:
        plain = self._plain(lambda z: gaussian_epsilon_bounds(delta=delta, noise_multiplier=z))
        if not self.is_sampled:
            return plain
        lower, upper = self._of_laws("epsilon", delta, directions)
        upper = min(plain.upper, upper)
        if self.steps == 2 and self.rounds == 1 and self.z <= 100.0 and self.laws.above is not None:
            upper = _least(lambda e: self.delta(e, directions).upper <= delta, upper)
            lower = max(lower, math.nextafter(_least(lambda e: self.delta(e, directions).lower <= delta, upper), 0.0))
        if lower < 0.99 * upper and self.laws.above is not None:
            upper = min(upper, self._by_moments(delta, directions))
        return Bounds(min(lower, upper), upper)

    def _of_laws(self, quantity: Literal["epsilon", "delta"], at: float, directions: tuple[Direction, ...]) -> Bounds:
        """Return the bounds of the laws, the upper one of that from above and the lower one of that from below."""
        worst = math.inf if quantity == "epsilon" else 1.0
        above, below = (law and self._ask(quantity, at, law, directions) for law in self.laws)
        lower = below[0] if below else 0.0
        if self.selected > 1 and above:
            sizes = (self.steps, self.selected, self.rounds)
            counted = (
                _native.allocation_counted_lower(("gaussian", self.z), sizes, direction, quantity, at)
                for direction in directions
            )
            lower = max(lower, *counted)
        return Bounds(lower, above[1] if above else worst)

    def _ask(
        self, quantity: Literal["epsilon", "delta"], at: float, law: allocated.Spec, directions: tuple[Direction, ...]
    ) -> tuple[float, float]:
        specs = [law if direction == "remove" else ("reversed", law) for direction in directions]
        if self.rounds == 1:
            return (_native.pair_epsilon if quantity == "epsilon" else _native.pair_delta)(specs, at)
        composed = [[(spec, self.rounds)] for spec in specs]
        return _native.pld_bounds(composed, quantity, at, 1e-4, None, (21, 2e6))[:2]

    def _of_two(self, found: Bounds, epsilon: float, directions: tuple[Direction, ...]) -> Bounds:
        """Return the bounds of one round of two steps: an integral."""
        lower, upper = rdp_allocation.inverse(self.z, is_upper=False), rdp_allocation.inverse(self.z)
        below = max(_native.allocation_two_bins(lower, epsilon, direction)[0] for direction in directions)
        above = max(_native.allocation_two_bins(upper, epsilon, direction)[1] for direction in directions)
        return Bounds(max(found.lower, below), min(found.upper, above))

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
            rho = self.rounds * rdp_allocation.rate(self.z, self.steps, self.selected, float(order), directions)
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
    steps, selected = rdp_allocation.steps_of(num_steps, num_selected)
    rounds = _validate.count("num_rounds", num_rounds, minimum=0)
    spacing = None if interval is None else _validate.positive("value_discretization_interval", interval, toward="down")
    if spacing is not None and not 1e-9 <= spacing <= 1.0:
        raise _validate.out_of_domain("value_discretization_interval", "from 1e-9 to 1", spacing)
    return _Rounds(z, steps, selected, rounds, spacing)


def _least(holds: Callable[[float], bool], highest: float) -> float:
    """Return the least float, nearly, where a monotone statement holds, or `highest`."""
    if holds(0.0):
        return 0.0
    below, above = 0.0, highest
    while above - below > 1e-12 * above:
        middle = 0.5 * (below + above)
        if holds(middle):
            above = middle
        else:
            below = middle
    return above
