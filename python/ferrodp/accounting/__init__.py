"""Accounting: what releases cost, as bounds that are proven to the last float.

Events say what happened (`events`); functions and accountants say what that costs. Every ε and δ that is returned is an
upper bound on the exact one, rounding included; functions ending in `_bounds` return the lower one beside it.
"""

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import rdp
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.accountants.gdp import GdpAccountant
from ferrodp.accounting.accountants.moments import MomentsAccountant
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.accounting.accountants.pure import PureDpAccountant
from ferrodp.accounting.accountants.rdp import RdpAccountant
from ferrodp.accounting.accountants.zcdp import ZcdpAccountant, zcdp_delta, zcdp_epsilon, zcdp_rho
from ferrodp.accounting.calibration import (
    CalibratedCount,
    CalibratedValue,
    calibrate_count,
    calibrate_noise_multiplier,
    calibrate_parameter,
    calibrate_sampling_probability,
)
from ferrodp.accounting.composition import (
    Guarantee,
    compose_advanced,
    compose_basic,
    compose_optimal,
    compose_optimal_bounds,
    compose_optimal_delta,
    compose_optimal_delta_bounds,
    optimal_epsilon_per_query,
)
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
from ferrodp.accounting.explanation import Explanation
from ferrodp.accounting.filters import GdpFilter, PrivacyFilter, PureDpFilter, RdpFilter, ZcdpFilter, privacy_filter
from ferrodp.accounting.filters.odometers import Odometer
from ferrodp.accounting.loss_distribution import LossPmf, PrivacyLossDistribution
from ferrodp.accounting.rdp.conversion import Converted, rdp_to_delta, rdp_to_epsilon, rdp_to_log_delta
from ferrodp.accounting.reports.central_limit import (
    estimate_central_limit_delta,
    estimate_central_limit_epsilon,
    estimate_central_limit_mu,
    explain_central_limit,
)
from ferrodp.accounting.reports.comparison import SchemeCost, compare_sampling_schemes
from ferrodp.accounting.reports.dp_sgd import dp_sgd_epsilon
from ferrodp.accounting.reports.importers import from_dp_accounting, from_opacus_history, to_dp_accounting
from ferrodp.accounting.reports.monte_carlo import (
    binomial_upper_bound,
    estimate_delta_from_losses,
    mean_upper_bound,
    verification_failure_probability,
    verified_delta,
)
from ferrodp.accounting.reports.trade_off import membership_advantage, trade_off_curve, true_positive_rate
from ferrodp.accounting.sampling.allocation import random_allocation_delta_bounds, random_allocation_epsilon_bounds
from ferrodp.accounting.sampling.amplification import amplify_by_sampling
from ferrodp.accounting.sampling.group_privacy import group_privacy, group_rho
from ferrodp.accounting.sampling.groups import grouped
from ferrodp.accounting.sampling.repeat_and_select import RepeatAndSelectCurve, repeat_and_select_epsilon
from ferrodp.accounting.sampling.truncated_poisson import (
    TruncatedSample,
    truncated_sample,
    truncation_delta,
    truncation_probability,
)
from ferrodp.events import (
    AdaptiveClipEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MatrixMechanismEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    SelfComposedEvent,
    TreeAggregationEvent,
    TruncatedPoissonSampledEvent,
    ZcdpEvent,
)
from ferrodp.events.tree import tree_sensitivity_squared

__all__ = [
    "AdaptiveClipEvent",
    "Bounds",
    "CalibratedCount",
    "CalibratedValue",
    "ComposedEvent",
    "Converted",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "EpsilonDeltaEvent",
    "Explanation",
    "ExponentialMechanismEvent",
    "FixedSizeSampledEvent",
    "GaussianEvent",
    "GdpAccountant",
    "GdpFilter",
    "Guarantee",
    "LaplaceEvent",
    "LossPmf",
    "MatrixMechanismEvent",
    "MixtureOfGaussiansEvent",
    "MomentsAccountant",
    "NeighboringRelation",
    "NonPrivateEvent",
    "Odometer",
    "PldAccountant",
    "PoissonSampledEvent",
    "PrivacyAccountant",
    "PrivacyEvent",
    "PrivacyFilter",
    "PrivacyLossDistribution",
    "PureDpAccountant",
    "PureDpFilter",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "RdpAccountant",
    "RdpFilter",
    "RepeatAndSelectCurve",
    "RepeatAndSelectEvent",
    "SchemeCost",
    "SelfComposedEvent",
    "TreeAggregationEvent",
    "TruncatedPoissonSampledEvent",
    "TruncatedSample",
    "ZcdpAccountant",
    "ZcdpEvent",
    "ZcdpFilter",
    "amplify_by_sampling",
    "binomial_upper_bound",
    "calibrate_count",
    "calibrate_noise_multiplier",
    "calibrate_parameter",
    "calibrate_sampling_probability",
    "compare_sampling_schemes",
    "compose_advanced",
    "compose_basic",
    "compose_optimal",
    "compose_optimal_bounds",
    "compose_optimal_delta",
    "compose_optimal_delta_bounds",
    "discrete_gaussian_delta",
    "discrete_gaussian_delta_bounds",
    "discrete_gaussian_epsilon",
    "discrete_gaussian_epsilon_bounds",
    "discrete_gaussian_variance",
    "discrete_laplace_delta",
    "discrete_laplace_delta_bounds",
    "discrete_laplace_epsilon",
    "discrete_laplace_epsilon_bounds",
    "dp_sgd_epsilon",
    "estimate_central_limit_delta",
    "estimate_central_limit_epsilon",
    "estimate_central_limit_mu",
    "estimate_delta_from_losses",
    "explain_central_limit",
    "from_dp_accounting",
    "from_opacus_history",
    "gaussian_delta",
    "gaussian_delta_bounds",
    "gaussian_epsilon",
    "gaussian_epsilon_bounds",
    "gaussian_log_delta",
    "gaussian_noise_multiplier",
    "gaussian_standard_deviation",
    "group_privacy",
    "group_rho",
    "grouped",
    "hockey_stick_delta",
    "hockey_stick_epsilon",
    "laplace_delta",
    "laplace_delta_bounds",
    "laplace_epsilon",
    "laplace_epsilon_bounds",
    "laplace_scale",
    "mean_upper_bound",
    "membership_advantage",
    "optimal_epsilon_per_query",
    "privacy_filter",
    "profile_to_epsilon",
    "random_allocation_delta_bounds",
    "random_allocation_epsilon_bounds",
    "randomized_response_delta",
    "randomized_response_delta_bounds",
    "randomized_response_epsilon",
    "randomized_response_epsilon_bounds",
    "rdp",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "rdp_to_log_delta",
    "repeat_and_select_epsilon",
    "single_step_noise",
    "to_dp_accounting",
    "trade_off_curve",
    "tree_sensitivity_squared",
    "true_positive_rate",
    "truncated_sample",
    "truncation_delta",
    "truncation_probability",
    "verification_failure_probability",
    "verified_delta",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
