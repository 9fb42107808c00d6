"""Private training of PyTorch modules by a plan, with any of PyTorch's optimizers.

The loop that is there, made private        `make_private`, `PrivateLoader`, `PrivateTraining`
Its mean loss, noised and paid for          `TrainingCurves`, `CurvePoint`
Training by a plan                          `start`, `TorchRun`, `TorchStep`
Per-example gradients by themselves         `per_example_gradients`
Are they right for this model?              `check`
Batches of a plan for other loops           `PlanLoader`
ε while Hugging Face or Lightning train     `PrivacyMonitor`

PyTorch is imported by the first call that needs it.
"""

from ferrodp._base import _public
from ferrodp.integrations.torch.check import GradientCheck, check
from ferrodp.integrations.torch.gradients import per_example_gradients
from ferrodp.integrations.torch.loader import PlanLoader
from ferrodp.integrations.torch.monitor import PrivacyMonitor
from ferrodp.integrations.torch.private import (
    CurvePoint,
    PrivateLoader,
    PrivateTraining,
    TrainingCurves,
    make_private,
)
from ferrodp.integrations.torch.run import TorchRun, TorchStep, start

__all__ = [
    "CurvePoint",
    "GradientCheck",
    "PlanLoader",
    "PrivacyMonitor",
    "PrivateLoader",
    "PrivateTraining",
    "TorchRun",
    "TorchStep",
    "TrainingCurves",
    "check",
    "make_private",
    "per_example_gradients",
    "start",
]

_public.install_in(__name__)
