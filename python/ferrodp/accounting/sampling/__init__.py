"""Sampling schemes, and what changes when several records share one unit of privacy.

============================================================  ====================================================
question                                                      function
============================================================  ====================================================
what does a secret random sample save, mechanism unknown?     `amplify_by_sampling`
what does a group of records lose?                            `group_privacy`, `group_rho`; for a known mechanism
                                                              `grouped` returns the group's event
what does truncating a Poisson sample cost?                   `truncation_probability`, `truncation_delta`,
                                                              `truncated_sample`
what do rounds of random allocation cost?                     `random_allocation_delta_bounds`,
                                                              `random_allocation_epsilon_bounds`
what does publishing the best of many runs cost?              `repeat_and_select_epsilon`, `RepeatAndSelectCurve`
============================================================  ====================================================

For a sampled mechanism, put its event into `PoissonSampledEvent` or `FixedSizeSampledEvent` and ask an accountant.
"""

from ferrodp.accounting._laws.truncated_poisson import (
    TruncatedSample,
    truncated_sample,
    truncation_delta,
    truncation_probability,
)
from ferrodp.accounting.sampling.allocation import random_allocation_delta_bounds, random_allocation_epsilon_bounds
from ferrodp.accounting.sampling.amplification import amplify_by_sampling
from ferrodp.accounting.sampling.group_privacy import group_privacy, group_rho
from ferrodp.accounting.sampling.groups import grouped
from ferrodp.accounting.sampling.repeat_and_select import RepeatAndSelectCurve, repeat_and_select_epsilon

__all__ = [
    "RepeatAndSelectCurve",
    "TruncatedSample",
    "amplify_by_sampling",
    "group_privacy",
    "group_rho",
    "grouped",
    "random_allocation_delta_bounds",
    "random_allocation_epsilon_bounds",
    "repeat_and_select_epsilon",
    "truncated_sample",
    "truncation_delta",
    "truncation_probability",
]
