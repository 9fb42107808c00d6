"""δ(ε) and ε(δ) of single mechanisms, as bounds rounded outward, and the calibration of one release.

============================================================  ====================================================
mechanism                                                     functions
============================================================  ====================================================
Gaussian noise                                                `gaussian_delta`, `gaussian_epsilon`; the noise for a
                                                              target: `gaussian_noise_multiplier`,
                                                              `gaussian_standard_deviation`
Laplace noise                                                 `laplace_delta`, `laplace_epsilon`; the noise for a
                                                              target: `laplace_scale`
discrete Gaussian noise on an integer                         `discrete_gaussian_delta`, `discrete_gaussian_epsilon`;
                                                              its variance: `discrete_gaussian_variance`
discrete Laplace noise on an integer                          `discrete_laplace_delta`, `discrete_laplace_epsilon`
k-ary randomized response                                     `randomized_response_delta`,
                                                              `randomized_response_epsilon`
any ρ-zCDP mechanism                                          `zcdp_delta`, `zcdp_epsilon`; the ρ for a target:
                                                              `zcdp_rho`
any event whose dominating pair is known, sampled or not      `hockey_stick_delta`, `hockey_stick_epsilon`; the noise
                                                              for a target: `single_step_noise`
a privacy profile δ(ε) of your own                            `profile_to_epsilon`
============================================================  ====================================================

A function named `…_bounds` returns the lower bound beside the upper one. For several releases use an accountant.
"""

from ferrodp.accounting.curves.discrete_gaussian import (
    discrete_gaussian_delta,
    discrete_gaussian_delta_bounds,
    discrete_gaussian_epsilon,
    discrete_gaussian_epsilon_bounds,
    discrete_gaussian_variance,
)
from ferrodp.accounting.curves.discrete_laplace import (
    discrete_laplace_delta,
    discrete_laplace_delta_bounds,
    discrete_laplace_epsilon,
    discrete_laplace_epsilon_bounds,
)
from ferrodp.accounting.curves.gaussian import (
    gaussian_delta,
    gaussian_delta_bounds,
    gaussian_epsilon,
    gaussian_epsilon_bounds,
    gaussian_log_delta,
    gaussian_noise_multiplier,
    gaussian_standard_deviation,
)
from ferrodp.accounting.curves.hockey_stick import (
    hockey_stick_delta,
    hockey_stick_epsilon,
    profile_to_epsilon,
    single_step_noise,
)
from ferrodp.accounting.curves.laplace import (
    laplace_delta,
    laplace_delta_bounds,
    laplace_epsilon,
    laplace_epsilon_bounds,
    laplace_scale,
)
from ferrodp.accounting.curves.randomized_response import (
    randomized_response_delta,
    randomized_response_delta_bounds,
    randomized_response_epsilon,
    randomized_response_epsilon_bounds,
)
from ferrodp.accounting.curves.zcdp import zcdp_delta, zcdp_epsilon, zcdp_rho

__all__ = [
    "discrete_gaussian_delta",
    "discrete_gaussian_delta_bounds",
    "discrete_gaussian_epsilon",
    "discrete_gaussian_epsilon_bounds",
    "discrete_gaussian_variance",
    "discrete_laplace_delta",
    "discrete_laplace_delta_bounds",
    "discrete_laplace_epsilon",
    "discrete_laplace_epsilon_bounds",
    "gaussian_delta",
    "gaussian_delta_bounds",
    "gaussian_epsilon",
    "gaussian_epsilon_bounds",
    "gaussian_log_delta",
    "gaussian_noise_multiplier",
    "gaussian_standard_deviation",
    "hockey_stick_delta",
    "hockey_stick_epsilon",
    "laplace_delta",
    "laplace_delta_bounds",
    "laplace_epsilon",
    "laplace_epsilon_bounds",
    "laplace_scale",
    "profile_to_epsilon",
    "randomized_response_delta",
    "randomized_response_delta_bounds",
    "randomized_response_epsilon",
    "randomized_response_epsilon_bounds",
    "single_step_noise",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
