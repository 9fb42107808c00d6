"""Comparisons, attack success, plots, estimates and the exchange of events with other libraries.

============================================================  ====================================================
question                                                      function
============================================================  ====================================================
ε of a DP-SGD training run, in one call                       `dp_sgd_epsilon`
ε under each sampling scheme                                  `compare_sampling_schemes`
how well can an attacker tell a member?                       `trade_off_curve`, `true_positive_rate`,
                                                              `membership_advantage`
a plot                                                        `plot_epsilon_over_steps`, `plot_privacy_profile`,
                                                              `plot_trade_off`, `plot_rdp_curve`,
                                                              `plot_sweep` (with matplotlib)
events of dp_accounting, Opacus or jax_privacy                `from_dp_accounting`, `to_dp_accounting`,
                                                              `from_opacus_history`, `from_jax_privacy`
what does the central limit theorem estimate? (no bound)      `estimate_central_limit_epsilon`,
                                                              `estimate_central_limit_delta`,
                                                              `estimate_central_limit_mu`, `explain_central_limit`
δ from sampled privacy losses, with confidence                `estimate_delta_from_losses` (no bound),
                                                              `mean_upper_bound`, `binomial_upper_bound`,
                                                              `verified_delta`, `verification_failure_probability`
============================================================  ====================================================
"""

from ferrodp.accounting.reports.central_limit import (
    estimate_central_limit_delta,
    estimate_central_limit_epsilon,
    estimate_central_limit_mu,
    explain_central_limit,
)
from ferrodp.accounting.reports.comparison import SchemeCost, compare_sampling_schemes
from ferrodp.accounting.reports.dp_sgd import dp_sgd_epsilon
from ferrodp.accounting.reports.heat_map import plot_sweep
from ferrodp.accounting.reports.importers import (
    from_dp_accounting,
    from_jax_privacy,
    from_opacus_history,
    to_dp_accounting,
)
from ferrodp.accounting.reports.monte_carlo import (
    binomial_upper_bound,
    estimate_delta_from_losses,
    mean_upper_bound,
    verification_failure_probability,
    verified_delta,
)
from ferrodp.accounting.reports.plots import (
    plot_epsilon_over_steps,
    plot_privacy_profile,
    plot_rdp_curve,
    plot_trade_off,
)
from ferrodp.accounting.reports.trade_off import membership_advantage, trade_off_curve, true_positive_rate

__all__ = [
    "SchemeCost",
    "binomial_upper_bound",
    "compare_sampling_schemes",
    "dp_sgd_epsilon",
    "estimate_central_limit_delta",
    "estimate_central_limit_epsilon",
    "estimate_central_limit_mu",
    "estimate_delta_from_losses",
    "explain_central_limit",
    "from_dp_accounting",
    "from_jax_privacy",
    "from_opacus_history",
    "mean_upper_bound",
    "membership_advantage",
    "plot_epsilon_over_steps",
    "plot_privacy_profile",
    "plot_rdp_curve",
    "plot_sweep",
    "plot_trade_off",
    "to_dp_accounting",
    "trade_off_curve",
    "true_positive_rate",
    "verification_failure_probability",
    "verified_delta",
]
