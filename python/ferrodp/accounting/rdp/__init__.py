"""Rényi curves ρ(α) of mechanisms, as arrays of upper bounds, and their conversion to (ε, δ).

ρ(α) is the largest Rényi divergence of order α between the outputs on neighboring datasets ([Mir17] Definition 4).
Orders are real numbers ≥ 1, infinity included. Parameters and orders
broadcast against each other as numpy arrays do; scalars alone give a float.

============================================================  ====================================================
you have                                                      function
============================================================  ====================================================
noise                                                         `gaussian`, `laplace`, `discrete_gaussian`,
                                                              `discrete_laplace`
a choice or a randomized answer                               `exponential_mechanism`, `randomized_response`
a guarantee that somebody states                              `pure`, `zcdp`
a Poisson sample with Gaussian noise                          `poisson_sampled_gaussian`,
                                                              `poisson_sampled_gaussian_bounds`
a Poisson sample of any other release                         `poisson_sampled`
a Poisson sample cut to a largest size                        `truncated_poisson_gaussian`
a sample of fixed size without replacement                    `fixed_size_sampled_gaussian`,
                                                              `fixed_size_sampled_pure`, `fixed_size_sampled`
steps allocated to records at random                          `random_allocation_gaussian`
an event                                                      `curve_of`
an event class of your own                                    `register` its curve
a curve, and want ε or δ                                      `rdp_to_epsilon`, `rdp_to_delta`, `rdp_to_log_delta`
============================================================  ====================================================
"""

from ferrodp.accounting._laws.truncated_poisson import truncated_poisson_gaussian
from ferrodp.accounting.rdp import _rules_of_samples  # noqa: F401  # it registers the rules of sampled events
from ferrodp.accounting.rdp.allocation import random_allocation_gaussian
from ferrodp.accounting.rdp.conversion import Converted, rdp_to_delta, rdp_to_epsilon, rdp_to_log_delta
from ferrodp.accounting.rdp.fixed_size import fixed_size_sampled, fixed_size_sampled_gaussian, fixed_size_sampled_pure
from ferrodp.accounting.rdp.functions import (
    discrete_gaussian,
    discrete_laplace,
    exponential_mechanism,
    gaussian,
    laplace,
    poisson_sampled_gaussian,
    poisson_sampled_gaussian_bounds,
    pure,
    randomized_response,
    zcdp,
)
from ferrodp.accounting.rdp.poisson import poisson_sampled
from ferrodp.accounting.rdp.rules import Curve, curve_of, register

__all__ = [
    "Converted",
    "Curve",
    "curve_of",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_mechanism",
    "fixed_size_sampled",
    "fixed_size_sampled_gaussian",
    "fixed_size_sampled_pure",
    "gaussian",
    "laplace",
    "poisson_sampled",
    "poisson_sampled_gaussian",
    "poisson_sampled_gaussian_bounds",
    "pure",
    "random_allocation_gaussian",
    "randomized_response",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "rdp_to_log_delta",
    "register",
    "truncated_poisson_gaussian",
    "zcdp",
]
