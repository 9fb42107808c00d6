"""Mechanisms: immutable values that release data with noise, and say what a release costs."""

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
