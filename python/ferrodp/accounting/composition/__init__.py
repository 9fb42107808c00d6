"""Composition of (ε, δ) guarantees by the basic, the advanced and the optimal theorem.

All three hold for mechanisms of which nothing is known but ε and δ, each chosen after seeing the answers of those
before. Where more is known (that the noise was Gaussian, say), an accountant reports a smaller loss.

============================================================  ====================================================
question                                                      function
============================================================  ====================================================
ε and δ of the composition, as a sum                          `compose_basic`
ε for a δ of your choice, in closed form                      `compose_advanced`
the smallest ε for a δ, or the smallest δ for an ε            `compose_optimal`, `compose_optimal_delta`; both bounds:
                                                              `compose_optimal_bounds`,
                                                              `compose_optimal_delta_bounds`
the ε that each of n queries may have                         `optimal_epsilon_per_query`
============================================================  ====================================================
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
