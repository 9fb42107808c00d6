"""Shuffled messages: which pair of laws bounds them, and for which randomizers it is proven.

Each of n users sends one message of a randomizer that is ε₀-private for replacing the user's value; all messages are
seen in random order. With p = e^ε₀, a message of another user is, with some probability q, one that could as well be
the replaced user's: a *clone*. What is seen of n messages is post-processing of C + 1 bits, C ~ Bin(n − 1, q) of which
are fair coins. Their curve is computed in Rust; the page on theorems, "Shuffled messages", has the proofs:

* q = 1/p for every ε₀-private randomizer ([FMT21] Theorem 3.1);
* q = 2/(p + 1) where no message is less likely than (R₀ + R₁)/(p + 1), R₀ and R₁ being its probabilities under any two
  values: k-ary randomized response is so. For other randomizers this q has no proof: the one that was published for all
  of them has an error, see the errata of [FMT23].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ferrodp._base import _validate
from ferrodp._native import Shuffle
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._laws import costs
from ferrodp.accounting._types import Unsupported
from ferrodp.events import NeighboringRelation, RandomizedResponseEvent, ShuffledEvent

MAX_POPULATION = 10**10
"""More users count as so many: a message more is post-processing."""
MAX_LOCAL_EPSILON = 50.0
"""Local ε above which nothing is gained: the bound is that of a single message."""
_NODES = 200
_SMALLEST = 1e-17
_MASS_ERROR = 4e-9
NOT_LOCAL = Unsupported("the randomizer of a shuffle has to be private for each user by itself, with δ = 0")


def local_epsilon(event: ShuffledEvent, relation: NeighboringRelation) -> float | Unsupported:
    """Return ε₀ of the randomizer, rounded up, or why there is no bound."""
    if relation is not NeighboringRelation.REPLACE_ONE:
        return costs.NOT_REPLACED
    if costs.contains_sampling(event.randomizer):
        return costs.SAMPLE_OF_A_SAMPLE
    found = costs.total_pure_epsilon(event.randomizer, relation)
    if isinstance(found, Unsupported) or found.delta:
        return NOT_LOCAL
    return _validate.rounded(found.amount, "up")


class ShuffledMessages:
    """The pair of an event: its curve from both sides, laws of finitely many outcomes that dominate it, Rényi curve."""

    def __init__(self, epsilon: float, population_size: int, other_answer: float | None) -> None:
        self.local, self.population = epsilon, min(population_size, MAX_POPULATION)
        # mutant: every-randomizer-clones-like-randomized-response
        clones = 2.0 / (math.exp(epsilon) + 1.0) if other_answer else math.exp(-epsilon)
        self.clone_probability = clones * (1.0 - 2.0**-50)  # fewer clones cost more
        self.pair = Shuffle(epsilon, self.clone_probability, self.population)
        self.other_answer = other_answer

    def delta(self, epsilon: float) -> Bounds:
        """Return bounds on δ(ε): above for the event, below for what is seen if all others send the same value."""
        upper = self.pair.delta(epsilon)[1]
        return Bounds(min(self._attained(epsilon), upper), upper)

    def epsilon(self, delta: float) -> Bounds:
        """Return bounds on ε(δ), 0 < δ < 1."""
        upper = self.pair.epsilon(delta)[1]
        low, high = 0.0, upper
        for _ in range(40 if self.other_answer else 0):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._attained(middle) > delta else (low, middle)
        return Bounds(low, upper)

    def _attained(self, epsilon: float) -> float:
        return 0.0 if self.other_answer is None else self.pair.attained(self.other_answer, epsilon)

    @functools.cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Ratios E > 1 and masses q: P has E·q at ratio E and q at 1/E, Q the other way round, both the rest at 1.

        δ(E) is convex, and so at most the lower hull of upper bounds on it at some nodes, which is the curve of these
        atoms ([DGKKM22], connect the dots); scaled up so that no rounding makes it less.
        """
        top = self.local
        while top > 1e-9 * self.local and self.pair.delta(0.5 * top)[1] < _SMALLEST:
            top *= 0.5
        far = np.geomspace(top, self.local, _NODES // 2)
        nodes = np.unique(np.concatenate([np.linspace(0.0, top, _NODES // 2), far[:-1], [self.local]]))
        ratios = np.exp(nodes)
        heights = np.array([self.pair.delta(float(node))[1] for node in nodes])
        heights[-1] = 0.0
        kept: list[int] = []
        for i in range(nodes.size):
            while len(kept) > 1 and _is_above(ratios, heights, kept[-2], kept[-1], i):
                kept.pop()
            kept.append(i)
        ratios, heights = ratios[kept], heights[kept]
        slopes = np.append(np.diff(heights) / np.diff(ratios), 0.0)
        masses = np.maximum(np.diff(slopes), 0.0)
        reached = np.array([float(((ratios[1:] - at).clip(0.0) * masses).sum()) for at in ratios[:-1]])
        low = reached < heights[:-1]
        if low.any():
            masses *= float((heights[:-1][low] / np.maximum(reached[low], 1e-300)).max())
        return ratios[1:], masses * (1.0 + 1e-12)

    @functools.cached_property
    def masses(self) -> tuple[tuple[float, ...], tuple[float, ...], float]:
        """Return the masses of laws that dominate the pair, and a bound on the errors of their logarithms."""
        ratios, masses = self.atoms
        kept = masses * ratios > 1e-240
        large, small = (ratios * masses)[kept], masses[kept]
        small = np.maximum(small, 1e-245)
        rest = max(1.0 - float(large.sum() + small.sum()), 1e-240)
        p = [*large.tolist(), *small.tolist(), rest]
        q = [*small.tolist(), *large.tolist(), rest]
        return tuple(p), tuple(q), _MASS_ERROR

    def curve(self) -> Callable[[Array], Array]:
        """Return the Rényi curve: A = 1 + Σ q·(e^{tL} − 1)(E − e^{−tL}), L = ln E, t = α − 1; never more than ε₀."""

        def curve(orders: Array) -> Array:
            ratios, masses = self.atoms
            losses = np.log(ratios)
            found = np.full(orders.shape, self.local)
            for i, order in enumerate(orders.tolist()):
                t = max(order - 1.0, 2.0**-20)
                if t * self.local < 300.0:
                    moment = float((masses * np.expm1(t * losses) * (ratios - np.exp(-t * losses))).sum())
                    found[i] = min(math.log1p(moment * (1.0 + 1e-9)) / t * (1.0 + 1e-12), self.local)
                elif order < math.inf:  # each term is at most q·e^{(1 + t)L}
                    logs = np.log(np.maximum(masses, 1e-300)) + order * losses
                    total = float(np.logaddexp.reduce(logs))
                    found[i] = min((float(np.logaddexp(0.0, total)) + 1e-9) / t * (1.0 + 1e-9), self.local)
            return found

        return curve


def _is_above(x: Array, y: Array, i: int, j: int, k: int) -> bool:
    return bool((y[j] - y[i]) * (x[k] - x[i]) >= (y[k] - y[i]) * (x[j] - x[i]))


@functools.lru_cache(maxsize=128)
def messages(event: ShuffledEvent, relation: NeighboringRelation) -> ShuffledMessages | Unsupported:
    """Return the pair of an event, or why there is none."""
    found = local_epsilon(event, relation)
    if isinstance(found, Unsupported):
        return found
    if not 0.0 < found <= MAX_LOCAL_EPSILON:
        return Unsupported(f"the local ε of shuffled messages must be above 0 and at most {MAX_LOCAL_EPSILON:g}")
    randomizer, other_answer = event.randomizer, None
    if isinstance(randomizer, RandomizedResponseEvent):
        other_answer = randomizer.noise_parameter / randomizer.num_buckets
    return ShuffledMessages(found, event.population_size, other_answer)
