"""What was released, as immutable descriptions that an accountant can add up.

An event says what happened, not what it costs: the cost depends on the accountant, the meaning of an event never does.
Events compare and hash by value, and turn into plain JSON and back without losing a bit.
"""

from ferrodp.events.base import MAX_DEPTH, NeighboringRelation, PrivacyEvent
from ferrodp.events.composition import ComposedEvent, RepeatAndSelectEvent, SelfComposedEvent
from ferrodp.events.correlated import MatrixMechanismEvent, TreeAggregationEvent
from ferrodp.events.decomposition import decompose
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

__all__ = [
    "MAX_DEPTH",
    "AdaptiveClipEvent",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "EpsilonDeltaEvent",
    "ExponentialMechanismEvent",
    "FixedSizeSampledEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "MatrixMechanismEvent",
    "MixtureOfGaussiansEvent",
    "NeighboringRelation",
    "NonPrivateEvent",
    "PoissonSampledEvent",
    "PrivacyEvent",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "RepeatAndSelectEvent",
    "SelfComposedEvent",
    "TreeAggregationEvent",
    "TruncatedPoissonSampledEvent",
    "ZcdpEvent",
    "decompose",
]
