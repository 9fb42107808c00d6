"""The squared L2 sensitivity of a tree of partial sums.

The nodes are the complete blocks of 2ⁱ steps that start at multiples of 2ⁱ, among the first n steps. A unit of privacy
adds at most the clip norm to each node above each of its steps, so that the squared L2 norm of its effect is at most
S = Σ over nodes of (number of its steps below)², in units of the squared clip norm; S is reached when all contributions
have the same direction ([KMSTTX21] Appendix D.2).
"""

from __future__ import annotations

import functools

from ferrodp._base import _validate

MAX_COMPARED_PAIRS = 2_000_000
"""Pairs of partial solutions that are compared before the answer is the upper bound of `_level_bound`."""

_Front = list[tuple[int, int]]
"""Partial solutions (carry, value) of which none dominates another: as the carry grows, the value does."""


def tree_sensitivity_squared(*, num_steps: int, max_participation: int = 1, min_separation: int = 0) -> int:
    """Return the largest sum of squared contributions of one unit of privacy over the nodes of a tree.

    Its square root is the L2 sensitivity of the whole stream of prefix sums, in units of the clip norm.

    Parameters
    ----------
    num_steps : int
        Leaves of the tree; from 0 to 2⁶³ − 1.
    max_participation : int
        In how many steps a unit may take part; at least 1.
    min_separation : int
        Least number of steps between two participations; ≥ 0.

    Returns
    -------
    int
        The exact maximum for one participation, and for a `min_separation` of 2ⁱ − 1. Otherwise the exact maximum as
        long as at most 2·10⁶ pairs of partial solutions have to be compared (10⁴ steps with 100 participations take
        4·10⁴); beyond that an upper bound, larger by a few percent: at each level of the tree a node contains at most
        ⌈2ⁱ/(min_separation + 1)⌉ of the steps.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not an int.

    Notes
    -----
    For one participation it is the number of levels, ⌊log₂ n⌋ + 1 = ⌈log₂(n + 1)⌉.

    A dynamic program up the tree. For a complete block only three numbers matter: its participations, the sum over its
    own nodes, and how many of the steps after it the last participation blocks (the carry). Of two ways to fill a block
    with equally many participations, one with a smaller sum and no smaller carry is never needed. The same block with a
    different number of blocked steps at its beginning is a separate problem. A block of at most `min_separation` + 1
    steps contains at most one participation, and its earliest allowed place is the best.

    Examples
    --------
    >>> tree_sensitivity_squared(num_steps=1000)
    10
    >>> tree_sensitivity_squared(num_steps=24, max_participation=8, min_separation=2)
    88
    """
    steps = _validate.count("num_steps", num_steps, minimum=0)
    most = _validate.count("max_participation", max_participation)
    separation = _validate.count("min_separation", min_separation, minimum=0)
    # mutant: participations-may-one-step-closer
    return _largest(steps, most, separation + 1)


@functools.lru_cache(maxsize=256)
def _largest(steps: int, most: int, gap: int) -> int:
    if most == 1 or gap >= steps:
        return steps.bit_length()
    bound = _level_bound(steps, most, gap)
    if gap & (gap - 1) == 0:
        return bound
    exact = _Search(gap, most).run(steps)
    return bound if exact is None else exact


def _level_bound(steps: int, most: int, gap: int) -> int:
    """Return an upper bound: at each level, participations fill as few nodes as possible.

    For gap = 2ᵏ the steps 0, gap, 2·gap, … reach it: at every level all nodes but one are then full or empty.
    """
    total = 0
    for level in range(steps.bit_length()):
        in_node = -(-(1 << level) // gap)
        participations = min(most, -(-(steps >> level << level) // gap))
        full, rest = divmod(participations, in_node)
        total += full * in_node**2 + rest**2
    return total


class _Search:
    """The largest sum, by the number of participations, for blocks of one size and beginning."""

    def __init__(self, gap: int, most: int) -> None:
        self.gap = gap
        self.most = most
        self.work = 0
        self.known: dict[tuple[int, int], dict[int, _Front]] = {}

    def run(self, steps: int) -> int | None:
        """Return the maximum over all blocks that make up `steps`, or None if it would take too long."""
        solutions: dict[int, _Front] = {0: [(0, 0)]}
        try:
            for level in reversed(range(steps.bit_length())):
                if steps >> level & 1:
                    solutions = self._followed_by(solutions, level)
        except _TooMuchWorkError:
            return None
        return max(value for front in solutions.values() for _, value in front)

    def _block(self, level: int, blocked: int) -> dict[int, _Front]:
        """Return the solutions for a complete block of 2^level steps whose first `blocked` ones are not allowed."""
        size = 1 << level
        if size <= self.gap:
            empty = {0: [(max(0, blocked - size), 0)]}
            return empty if blocked >= size else {**empty, 1: [(blocked + self.gap - size, level + 1)]}
        if (level, blocked) not in self.known:
            halves = self._followed_by(self._block(level - 1, blocked), level - 1)
            self.known[level, blocked] = {
                count: [(carry, value + count**2) for carry, value in front] for count, front in halves.items()
            }
        return self.known[level, blocked]

    def _followed_by(self, solutions: dict[int, _Front], level: int) -> dict[int, _Front]:
        """Return the solutions for what came before together with a complete block of 2^level steps."""
        found: dict[int, dict[int, int]] = {}
        for before, front in solutions.items():
            for blocked, value in front:
                for after, others in self._block(level, blocked).items():
                    if before + after > self.most:
                        continue
                    self.work += len(others)
                    if self.work > MAX_COMPARED_PAIRS:
                        raise _TooMuchWorkError
                    best = found.setdefault(before + after, {})
                    for carry, more in others:
                        if best.get(carry, -1) < value + more:
                            best[carry] = value + more
        return {count: _undominated(best) for count, best in found.items()}


def _undominated(best: dict[int, int]) -> _Front:
    front: _Front = []
    for carry in sorted(best):
        # mutant: of-tree-partial-sums-only-earliest-kept
        if not front or best[carry] > front[-1][1]:
            front.append((carry, best[carry]))
    return front


class _TooMuchWorkError(Exception):
    """Ends a search that would take too long; never leaves this module."""
