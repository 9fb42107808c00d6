"""Privacy events: immutable descriptions of what was released, for accountants to add up.

An event says what happened, not what it costs: the cost depends on the accountant, the meaning of the event does not.
Events compare and hash by value, and convert to JSON and back without losing a bit.

============================================================  ====================================================
what was released                                             event
============================================================  ====================================================
a value with noise                                            `GaussianEvent`, `LaplaceEvent`,
                                                              `DiscreteGaussianEvent`, `DiscreteLaplaceEvent`
a sum with noise that many parties share                      `DistributedDiscreteGaussianEvent`, `SkellamEvent`
a sum and the count that adapts its clip norm                 `AdaptiveClipEvent`
a choice                                                      `ExponentialMechanismEvent`, `RandomizedResponseEvent`
something with a stated guarantee, or none                    `EpsilonDeltaEvent`, `ZcdpEvent`, `NonPrivateEvent`
something about a secret random sample                        `PoissonSampledEvent`, `FixedSizeSampledEvent`,
                                                              `TruncatedPoissonSampledEvent`, `RandomAllocationEvent`,
                                                              `MixtureOfGaussiansEvent`
several releases                                              `ComposedEvent`, `SelfComposedEvent`
releases about disjoint groups                                `ParallelEvent`
a message of each user, in random order                       `ShuffledEvent`
the best of several runs                                      `RepeatAndSelectEvent`
a stream with correlated noise                                `TreeAggregationEvent`, `MatrixMechanismEvent`
============================================================  ====================================================

`NeighboringRelation` says which datasets count as neighbors, `decompose` takes events apart, and
`tree_sensitivity_squared` returns the sensitivity of a tree of partial sums.
"""

from ferrodp.events.base import MAX_DEPTH, NeighboringRelation, PrivacyEvent
from ferrodp.events.composition import ComposedEvent, ParallelEvent, RepeatAndSelectEvent, SelfComposedEvent
from ferrodp.events.correlated import MatrixMechanismEvent, TreeAggregationEvent
from ferrodp.events.decomposition import decompose
from ferrodp.events.distributed import DistributedDiscreteGaussianEvent, ShuffledEvent, SkellamEvent
from ferrodp.events.noise import (
    AdaptiveClipEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from ferrodp.events.sampling import (
    FixedSizeSampledEvent,
    MixtureOfGaussiansEvent,
    PoissonSampledEvent,
    RandomAllocationEvent,
    TruncatedPoissonSampledEvent,
)
from ferrodp.events.stated import (
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    NonPrivateEvent,
    RandomizedResponseEvent,
    ZcdpEvent,
)
from ferrodp.events.tree import tree_sensitivity_squared

__all__ = [
    "MAX_DEPTH",
    "AdaptiveClipEvent",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "DistributedDiscreteGaussianEvent",
    "EpsilonDeltaEvent",
    "ExponentialMechanismEvent",
    "FixedSizeSampledEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "MatrixMechanismEvent",
    "MixtureOfGaussiansEvent",
    "NeighboringRelation",
    "NonPrivateEvent",
    "ParallelEvent",
    "PoissonSampledEvent",
    "PrivacyEvent",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "RepeatAndSelectEvent",
    "SelfComposedEvent",
    "ShuffledEvent",
    "SkellamEvent",
    "TreeAggregationEvent",
    "TruncatedPoissonSampledEvent",
    "ZcdpEvent",
    "decompose",
    "tree_sensitivity_squared",
]
