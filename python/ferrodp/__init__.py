"""Differential privacy with exact noise and certified accounting, on numpy arrays.

Every released number lies on a grid fixed before any data is seen, noise follows exactly the stated distribution, and
every reported ε or δ is an upper bound. Which name to use:

Release a column
    `private_count`, `private_sum`, `private_mean`, `private_variance`, `private_standard_deviation`,
    `private_histogram`, `private_quantile`, `private_quantiles`, `private_median`, `private_min`,
    `private_max`, `private_bounds`, `private_distinct`, `private_top`, `private_rows_per_unit` (package `statistics`);
    counts and sums of a table at once: `release`; contingency tables of several columns: `private_marginals`; of groups
    of rows `private_group_by`, whose keys may be found by a `KeyThreshold`, `KeySelection` or `KeyUnion`;
    `CalendarBins`.
Release a value whose sensitivity you know
    `GaussianMechanism`, `LaplaceMechanism`, `DiscreteGaussianMechanism`, `DiscreteLaplaceMechanism`.
Release running totals day after day
    `Counter`, `CounterStream` (package `counters`): up to a million counters, a year under one payment.
Choose a candidate, answer queries, randomize answers
    `ExponentialMechanism`, `PermuteAndFlip`, `ReportNoisyMax`; `SparseVector`; `RandomizedResponse`,
    `SubsetResponse`, `HadamardResponse`, `UnaryResponse`; of vectors: `VectorResponse`. All mechanisms are in the
    package `mechanisms`.
Sum vectors of bounded norm, such as client updates
    `ClippedSum`, `GridSum` (package `sums`); `clip_rows`, `clip_and_sum`, `clip_by_global_norm` (module `clipping`).
    On several processes or machines: `distributed.clipped_sum`.
Train a model, or run federated rounds
    `PrivacyPlan` (package `plan`): sampling, clipping, noise and accounting as one value. Package `training`: a trainer
    that needs no tuning, optimizers, callbacks. Package `engine` is the plan under the names of a specification.
Compute what releases cost
    Package `accounting`, in terms of the `events` that every mechanism states.
Limit what may be spent
    ``with budget(epsilon=…):`` charges all releases of a block of code; `PrivacyLedger` (package `budget`) outlives the
    process, and issues `tickets` that pay for releases.
Say what is promised, for a review board
    `statement` (package `statements`): Markdown, HTML or JSON about a plan, a scope, a mechanism.
Correlate the noise of a stream's steps
    Package `correlated`: strategies whose noise cancels in prefix sums, their sensitivity and cost.
Draw noise alone
    `NoiseSource` and the numpy bit generator of the package `random`.
Test
    Package `audit`: claims tested on draws, with the power to see a violation. Module `testing`: seeded noise, recorded
    and replayed releases, NOT PRIVATE.

Exceptions are in the module `errors`; the version is `__version__`.
"""

from typing import TYPE_CHECKING

from ferrodp import (
    accounting,
    audit,
    clipping,
    correlated,
    counters,
    distributed,
    engine,
    errors,
    events,
    federated,
    mechanisms,
    plan,
    random,
    statements,
    statistics,
    sums,
    testing,
    tickets,
    training,
)
from ferrodp._base import _public
from ferrodp._native import __version__
from ferrodp.budget import PrivacyLedger
from ferrodp.clipping import clip_and_sum, clip_by_global_norm, clip_rows
from ferrodp.counters import Counter, CounterStream
from ferrodp.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    HadamardResponse,
    LaplaceMechanism,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
    SubsetResponse,
    UnaryResponse,
    VectorResponse,
)
from ferrodp.plan import PrivacyPlan
from ferrodp.random import NoiseSource
from ferrodp.statements import statement
from ferrodp.statistics import (
    CalendarBins,
    KeySelection,
    KeyThreshold,
    KeyUnion,
    private_bounds,
    private_count,
    private_distinct,
    private_group_by,
    private_histogram,
    private_marginals,
    private_max,
    private_mean,
    private_median,
    private_min,
    private_quantile,
    private_quantiles,
    private_rows_per_unit,
    private_standard_deviation,
    private_sum,
    private_top,
    private_variance,
    release,
)
from ferrodp.sums import ClippedSum, GridSum

if TYPE_CHECKING:  # the package can be called, which no type checker knows of packages
    from ferrodp.budget.blocks.for_types import budget
else:
    from ferrodp import budget

__all__ = [
    "CalendarBins",
    "ClippedSum",
    "Counter",
    "CounterStream",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExponentialMechanism",
    "GaussianMechanism",
    "GridSum",
    "HadamardResponse",
    "KeySelection",
    "KeyThreshold",
    "KeyUnion",
    "LaplaceMechanism",
    "NoiseSource",
    "PermuteAndFlip",
    "PrivacyLedger",
    "PrivacyPlan",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SparseVector",
    "SubsetResponse",
    "UnaryResponse",
    "VectorResponse",
    "__version__",
    "accounting",
    "audit",
    "budget",
    "clip_and_sum",
    "clip_by_global_norm",
    "clip_rows",
    "clipping",
    "correlated",
    "counters",
    "distributed",
    "engine",
    "errors",
    "events",
    "federated",
    "mechanisms",
    "plan",
    "private_bounds",
    "private_count",
    "private_distinct",
    "private_group_by",
    "private_histogram",
    "private_marginals",
    "private_max",
    "private_mean",
    "private_median",
    "private_min",
    "private_quantile",
    "private_quantiles",
    "private_rows_per_unit",
    "private_standard_deviation",
    "private_sum",
    "private_top",
    "private_variance",
    "random",
    "release",
    "statement",
    "statements",
    "statistics",
    "sums",
    "testing",
    "tickets",
    "training",
]

_public.install()
