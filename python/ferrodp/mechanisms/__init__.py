"""Mechanisms: immutable values that release data with noise and state what a release costs.

========================================================  ======================================================
value with a known L2 sensitivity                         `GaussianMechanism`
value with a known L1 sensitivity                         `LaplaceMechanism`
integers with a known sensitivity                         `DiscreteGaussianMechanism`, `DiscreteLaplaceMechanism`
one of many candidates                                    `ExponentialMechanism`, `PermuteAndFlip`, `ReportNoisyMax`
whether queries are above a threshold                     `SparseVector`
answers that each unit randomizes by itself               `RandomizedResponse`, `SubsetResponse`,
                                                          `HadamardResponse`, `UnaryResponse`, `VectorResponse`
========================================================  ======================================================

Each has `calibrated` (the mechanism for an ε and δ), `release`, `epsilon`, `delta` and `event`; a `SparseVector` is a
run of queries instead.

The label `guarantee` of a class says what is proven of the law of its output:

==============  ==============================================================================================
"exact"         it is the stated law, on the integers or rounded to a grid, with no error but that of AES-256
                as a source of random bits
"certified"     the same, and the time of a call does not depend on the noise; no mechanism claims it
"experimental"  nothing; no mechanism has this label
==============  ==============================================================================================
"""

from ferrodp.mechanisms.discrete_gaussian import DiscreteGaussianMechanism
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.mechanisms.gaussian import GaussianMechanism
from ferrodp.mechanisms.hadamard_response import HadamardResponse
from ferrodp.mechanisms.laplace import LaplaceMechanism
from ferrodp.mechanisms.randomized_response import RandomizedResponse
from ferrodp.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from ferrodp.mechanisms.sparse_vector import SparseVector
from ferrodp.mechanisms.subset_response import SubsetResponse
from ferrodp.mechanisms.unary_response import UnaryResponse
from ferrodp.mechanisms.vector_response import VectorResponse

__all__ = [
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExponentialMechanism",
    "GaussianMechanism",
    "HadamardResponse",
    "LaplaceMechanism",
    "PermuteAndFlip",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SparseVector",
    "SubsetResponse",
    "UnaryResponse",
    "VectorResponse",
]
