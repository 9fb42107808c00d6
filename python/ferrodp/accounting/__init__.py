"""What releases cost: events state what was released, accountants and functions bound its ε and δ.

Every ε and δ that is returned is an upper bound on the exact one, rounding included; functions ending in `_bounds`
return the lower bound beside it.

============================================================  ====================================================
task                                                          what to use
============================================================  ====================================================
state what was released                                       an event: `GaussianEvent`, `LaplaceEvent`,
                                                              `ExponentialMechanismEvent`, …; sampled:
                                                              `PoissonSampledEvent`, `FixedSizeSampledEvent`,
                                                              `RandomAllocationEvent`; repeated or combined:
                                                              `SelfComposedEvent`, `ComposedEvent`; `grouped` for
                                                              groups of records
ε of a DP-SGD training run                                    `dp_sgd_epsilon`
ε or δ of any sequence of releases, as tight as possible      `PldAccountant` (the default choice)
the same for Gaussian noise without sampling, exactly         `GdpAccountant`
ε at many δ or counts, δ at many ε                            `epsilon_curve`, `delta_curve`, `epsilon_over_counts` of
                                                              any accountant
Rényi, zCDP, pure or moments accounting                       `RdpAccountant`, `ZcdpAccountant`, `PureDpAccountant`,
                                                              `MomentsAccountant`
noise, steps or batch size for a target (ε, δ)                `calibrate_noise_multiplier`, `calibrate_count`,
                                                              `calibrate_sampling_probability`, `calibrate_parameter`
one release with Gaussian or Laplace noise                    `gaussian_epsilon`, `gaussian_delta`,
                                                              `gaussian_noise_multiplier`, `laplace_epsilon`,
                                                              `laplace_delta`; other mechanisms: `curves`
a guarantee in zCDP                                           `zcdp_epsilon`, `zcdp_rho`
guarantees (ε, δ) of unknown mechanisms together              `compose_basic`, `compose_advanced`, `compose_optimal`;
                                                              more in `composition`
a Rényi curve to ε or δ                                       `rdp_to_epsilon`, `rdp_to_delta`; curves in `rdp`
a secret sample, or several records of one person             `amplify_by_sampling`, `group_privacy`; more in
                                                              `sampling`
stop before a budget is exceeded, queries chosen adaptively   `privacy_filter`; the loss so far: `Odometer`; more in
                                                              `filters`
which sampling scheme costs least                             `reports.compare_sampling_schemes`
what an attacker could infer                                  `trade_off_curve`; plots and estimates: `reports`
events from or for other libraries                            `from_dp_accounting`, `to_dp_accounting`,
                                                              `from_opacus_history`, `reports.from_jax_privacy`
the distribution of the privacy loss itself                   `PrivacyLossDistribution`
============================================================  ====================================================

`Bounds`, `Guarantee` and `Explanation` are what these return; `PrivacyAccountant` is the type of all accountants,
`filters.PrivacyFilter` that of all filters. The rooms `calibration`, `composition`, `curves`, `filters`, `rdp`,
`reports` and `sampling` have the rest; the docstring of each says which function is for what.
"""

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import calibration, composition, curves, filters, rdp, reports, sampling
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.accountants.gdp import GdpAccountant
from ferrodp.accounting.accountants.moments import MomentsAccountant
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.accounting.accountants.pure import PureDpAccountant
from ferrodp.accounting.accountants.rdp import RdpAccountant
from ferrodp.accounting.accountants.zcdp import ZcdpAccountant
from ferrodp.accounting.calibration import (
    calibrate_count,
    calibrate_noise_multiplier,
    calibrate_parameter,
    calibrate_sampling_probability,
)
from ferrodp.accounting.composition import Guarantee, compose_advanced, compose_basic, compose_optimal
from ferrodp.accounting.curves import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    laplace_delta,
    laplace_epsilon,
    zcdp_epsilon,
    zcdp_rho,
)
from ferrodp.accounting.explanation import Explanation
from ferrodp.accounting.filters import Odometer, privacy_filter
from ferrodp.accounting.loss_distribution import PrivacyLossDistribution
from ferrodp.accounting.rdp import rdp_to_delta, rdp_to_epsilon
from ferrodp.accounting.reports import (
    dp_sgd_epsilon,
    from_dp_accounting,
    from_opacus_history,
    to_dp_accounting,
    trade_off_curve,
)
from ferrodp.accounting.sampling import amplify_by_sampling, group_privacy, grouped
from ferrodp.events import (
    AdaptiveClipEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    DistributedDiscreteGaussianEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MatrixMechanismEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    SelfComposedEvent,
    ShuffledEvent,
    SkellamEvent,
    TreeAggregationEvent,
    TruncatedPoissonSampledEvent,
    ZcdpEvent,
)

__all__ = [
    "AdaptiveClipEvent",
    "Bounds",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "DistributedDiscreteGaussianEvent",
    "EpsilonDeltaEvent",
    "Explanation",
    "ExponentialMechanismEvent",
    "FixedSizeSampledEvent",
    "GaussianEvent",
    "GdpAccountant",
    "Guarantee",
    "LaplaceEvent",
    "MatrixMechanismEvent",
    "MixtureOfGaussiansEvent",
    "MomentsAccountant",
    "NeighboringRelation",
    "NonPrivateEvent",
    "Odometer",
    "ParallelEvent",
    "PldAccountant",
    "PoissonSampledEvent",
    "PrivacyAccountant",
    "PrivacyEvent",
    "PrivacyLossDistribution",
    "PureDpAccountant",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "RdpAccountant",
    "RepeatAndSelectEvent",
    "SelfComposedEvent",
    "ShuffledEvent",
    "SkellamEvent",
    "TreeAggregationEvent",
    "TruncatedPoissonSampledEvent",
    "ZcdpAccountant",
    "ZcdpEvent",
    "amplify_by_sampling",
    "calibrate_count",
    "calibrate_noise_multiplier",
    "calibrate_parameter",
    "calibrate_sampling_probability",
    "calibration",
    "compose_advanced",
    "compose_basic",
    "compose_optimal",
    "composition",
    "curves",
    "dp_sgd_epsilon",
    "filters",
    "from_dp_accounting",
    "from_opacus_history",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_multiplier",
    "group_privacy",
    "grouped",
    "laplace_delta",
    "laplace_epsilon",
    "privacy_filter",
    "rdp",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "reports",
    "sampling",
    "to_dp_accounting",
    "trade_off_curve",
    "zcdp_epsilon",
    "zcdp_rho",
]
