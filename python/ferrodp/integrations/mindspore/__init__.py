"""Private training with MindSpore, under the names of the earlier toolkit.

`DPModel`
    Trains a network by a `ferrodp.plan.PrivacyPlan`, on CPU or any other device, and evaluates it.
`NoiseMechanismsFactory`, `NoiseGaussianRandom`, `NoiseAdaGaussianRandom`, `NoiseLaplaceRandom`
    How much noise, constant or decaying, or Laplace noise for gradients that are clipped in L1 norm.
`NoiseCorrelatedGaussianRandom`
    Noise that cancels over the steps.
`ClipMechanismsFactory`, `AdaClippingWithGaussianRandom`
    A clip norm that follows a quantile.
`DPOptimizerClassFactory`
    Optimizers that carry the noise mechanism.
`PrivacyMonitorFactory`, `RDPMonitor`, `ZCDPMonitor`
    Callbacks that report the cost, and how many epochs a budget allows.
`IndexedDataset`
    Records from which the plan draws Poisson samples.

Needs MindSpore for the model and the optimizers alone: ``pip install "ferrodp[mindspore]" "numpy<2"``. MindSpore reads
the source of what it compiles, so networks have to be defined in files.
"""

from ferrodp._base import _public
from ferrodp.integrations.mindspore._settings import UnknownName
from ferrodp.integrations.mindspore.datasets import IndexedDataset
from ferrodp.integrations.mindspore.mechanisms import (
    AdaClippingWithGaussianRandom,
    ClipMechanismsFactory,
    NoiseAdaGaussianRandom,
    NoiseCorrelatedGaussianRandom,
    NoiseGaussianRandom,
    NoiseLaplaceRandom,
    NoiseMechanismsFactory,
)
from ferrodp.integrations.mindspore.model import DPModel
from ferrodp.integrations.mindspore.monitors import PrivacyMonitorFactory, RDPMonitor, ZCDPMonitor
from ferrodp.integrations.mindspore.optimizers import DPOptimizerClassFactory

__all__ = [
    "AdaClippingWithGaussianRandom",
    "ClipMechanismsFactory",
    "DPModel",
    "DPOptimizerClassFactory",
    "IndexedDataset",
    "NoiseAdaGaussianRandom",
    "NoiseCorrelatedGaussianRandom",
    "NoiseGaussianRandom",
    "NoiseLaplaceRandom",
    "NoiseMechanismsFactory",
    "PrivacyMonitorFactory",
    "RDPMonitor",
    "UnknownName",
    "ZCDPMonitor",
]

_public.install_in(__name__)
