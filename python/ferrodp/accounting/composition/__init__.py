"""Composition of (ε, δ) guarantees: the basic, the advanced and the optimal theorem.

All speak of mechanisms of which nothing is known but their ε and δ, each of which may be chosen after seeing the
answers of those before. Where more is known (that the noise was Gaussian, say), an accountant promises less loss.
"""

from ferrodp.accounting.composition.advanced import compose_advanced
from ferrodp.accounting.composition.basic import compose_basic
from ferrodp.accounting.composition.guarantees import Guarantee
from ferrodp.accounting.composition.optimal import (
    compose_optimal,
    compose_optimal_bounds,
    compose_optimal_delta,
    compose_optimal_delta_bounds,
    optimal_epsilon_per_query,
)

__all__ = [
    "Guarantee",
    "compose_advanced",
    "compose_basic",
    "compose_optimal",
    "compose_optimal_bounds",
    "compose_optimal_delta",
    "compose_optimal_delta_bounds",
    "optimal_epsilon_per_query",
]
