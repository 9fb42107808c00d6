"""The engine: one configuration from which clipping, noise, sampling and accounting of a training follow.

`DifferentialPrivacyEngine` runs rounds and refuses the one that its budget does not allow; `DPConfig`, `PrivacyBudget`
and `PrivacyReport` are what it is told and what it says; `GaussianDifferentialPrivacy` noises one model as a whole.
"""

from ferrodp.engine.engine import DifferentialPrivacyEngine
from ferrodp.engine.model import GaussianDifferentialPrivacy
from ferrodp.engine.protocol import DifferentialPrivacyProtocol, RoundLedger
from ferrodp.engine.records import AccountingMethod, DPConfig, NoiseMechanism, PrivacyBudget, PrivacyReport
from ferrodp.engine.sampling import Sampling, poisson_sample, uniform_sample

__all__ = [
    "AccountingMethod",
    "DPConfig",
    "DifferentialPrivacyEngine",
    "DifferentialPrivacyProtocol",
    "GaussianDifferentialPrivacy",
    "NoiseMechanism",
    "PrivacyBudget",
    "PrivacyReport",
    "RoundLedger",
    "Sampling",
    "poisson_sample",
    "uniform_sample",
]
