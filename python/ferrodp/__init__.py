"""Exact differential privacy at memory speed.

Clip, sum, noise and account numpy buffers. Every released number lies on a grid fixed before any data is seen, noise
has exactly the stated law, and every reported ε or δ is an upper bound.

Where to look: `ClippedSum` (a server's round), `mechanisms` (values whose sensitivity you know, choices, answers),
`NoiseSource` (noise alone), `accounting` (what it costs), `PrivacyLedger` (what may be spent), `engine` (a training
from one configuration), `testing` (replays; NOT PRIVATE).
"""

from ferrodp import accounting, budget, clipping, engine, errors, mechanisms, random, statistics, sums, testing
from ferrodp._native import __version__
from ferrodp.budget import PrivacyLedger
from ferrodp.clipping import clip_and_sum, clip_by_global_norm, clip_rows
from ferrodp.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
)
from ferrodp.random import NoiseSource
from ferrodp.statistics import private_count, private_histogram, private_mean, private_quantile, private_sum
from ferrodp.sums import ClippedSum, GridSum

__all__ = [
    "ClippedSum",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExponentialMechanism",
    "GaussianMechanism",
    "GridSum",
    "LaplaceMechanism",
    "NoiseSource",
    "PermuteAndFlip",
    "PrivacyLedger",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SparseVector",
    "__version__",
    "accounting",
    "budget",
    "clip_and_sum",
    "clip_by_global_norm",
    "clip_rows",
    "clipping",
    "engine",
    "errors",
    "mechanisms",
    "private_count",
    "private_histogram",
    "private_mean",
    "private_quantile",
    "private_sum",
    "random",
    "statistics",
    "sums",
    "testing",
]
