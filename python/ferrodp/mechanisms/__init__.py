"""Mechanisms: immutable values that release data with noise and state what a release costs.

========================================================  ======================================================
value with a known L2 sensitivity                         `GaussianMechanism`
value with a known L1 sensitivity                         `LaplaceMechanism`
integers with a known sensitivity                         `DiscreteGaussianMechanism`, `DiscreteLaplaceMechanism`
one of many candidates                                    `ExponentialMechanism`, `PermuteAndFlip`, `ReportNoisyMax`
whether queries are above a threshold                     `SparseVector`
answers that each unit randomizes by itself               `RandomizedResponse`
========================================================  ======================================================

Each has `calibrated` (the mechanism for an ε and δ), `release`, `epsilon`, `delta` and `event`; a `SparseVector` is a
run of queries instead.
"""

from ferrodp.mechanisms.discrete_gaussian import DiscreteGaussianMechanism
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.mechanisms.gaussian import GaussianMechanism
from ferrodp.mechanisms.laplace import LaplaceMechanism
from ferrodp.mechanisms.randomized_response import RandomizedResponse
from ferrodp.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from ferrodp.mechanisms.sparse_vector import SparseVector

__all__ = [
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExponentialMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "PermuteAndFlip",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SparseVector",
]
