"""Plans: sampling, clipping, noise and accounting of a training, or of federated rounds, as one immutable value.

`PrivacyPlan`
    The value: calibrated, forecast, written to JSON, started.
`PlanRun`, `PlanStep`
    A run of it, step by step: draws who takes part, clips and sums their vectors, releases the sum with noise.
`KeptSum`
    What a run that must lose no step keeps of one before it is paid for.
`Forecast`
    What a plan will cost: a table, a plot, JSON.
`PoissonSampling`, `FixedSizeSampling`, `RandomAllocation`, `CyclicPoisson`, `FullBatch`, `GivenOrder`
    Who takes part in a step (`Sampling`).
`FlatClipping`, `PerGroupClipping`, `AutomaticClipping`, `AdaptiveClipping`
    How vectors are bounded (`Clipping`), for Gaussian noise.
`L1Clipping`
    Vectors bounded in L1 norm, and Laplace noise.
`ConstantNoise`, `InverseTimeDecay`, `StepDecay`, `ExponentialDecay`, `CosineDecay`, `PiecewiseNoise`
    The noise multiplier of each step (`NoiseSchedule`).
`CorrelatedNoise`
    Noise that cancels over the steps, by a strategy of `ferrodp.correlated`.

What is drawn is what is accounted: none of the four can be configured apart from the others.
"""

from ferrodp.plan._kept import KeptSum
from ferrodp.plan.clipping import (
    AdaptiveClipping,
    AutomaticClipping,
    Clipping,
    FlatClipping,
    L1Clipping,
    PerGroupClipping,
)
from ferrodp.plan.correlated import CorrelatedNoise
from ferrodp.plan.forecast import Forecast
from ferrodp.plan.noise import (
    ConstantNoise,
    CosineDecay,
    ExponentialDecay,
    InverseTimeDecay,
    NoiseSchedule,
    PiecewiseNoise,
    StepDecay,
)
from ferrodp.plan.plan import PrivacyPlan
from ferrodp.plan.run import PlanRun
from ferrodp.plan.sampling import (
    CyclicPoisson,
    FixedSizeSampling,
    FullBatch,
    GivenOrder,
    PoissonSampling,
    RandomAllocation,
    Sampling,
)
from ferrodp.plan.step import PlanStep

__all__ = [
    "AdaptiveClipping",
    "AutomaticClipping",
    "Clipping",
    "ConstantNoise",
    "CorrelatedNoise",
    "CosineDecay",
    "CyclicPoisson",
    "ExponentialDecay",
    "FixedSizeSampling",
    "FlatClipping",
    "Forecast",
    "FullBatch",
    "GivenOrder",
    "InverseTimeDecay",
    "KeptSum",
    "L1Clipping",
    "NoiseSchedule",
    "PerGroupClipping",
    "PiecewiseNoise",
    "PlanRun",
    "PlanStep",
    "PoissonSampling",
    "PrivacyPlan",
    "RandomAllocation",
    "Sampling",
    "StepDecay",
]
