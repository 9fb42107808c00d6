"""The engine: clipping, noise, sampling and accounting of a training from one configuration.

`DifferentialPrivacyEngine`
    Runs rounds: reserve, clip, sum, add noise. Refuses the round that would exceed the budget.
`DPConfig`
    Noise, clipping, sampling and accounting, as `NoiseMechanism` and `AccountingMethod` name them.
`PrivacyBudget`, `PrivacyReport`, `CertifiedReport`
    What may be spent and what was; what a number of rounds costs.
`Sampling`, `poisson_sample`, `uniform_sample`
    How the clients of a round are drawn, and functions that draw them.
`GaussianDifferentialPrivacy`
    Clips and noises one named model as a whole.
`DifferentialPrivacyProtocol`
    The interface of an engine. That of its ledger is `ferrodp.tickets.TicketLedger`.

Names of this package are those of the specification it implements: `max_grad_norm`, `sampling_rate`, `num_steps`.
"""

from ferrodp.engine.engine import DifferentialPrivacyEngine
from ferrodp.engine.model import GaussianDifferentialPrivacy
from ferrodp.engine.protocol import DifferentialPrivacyProtocol
from ferrodp.engine.records import (
    AccountingMethod,
    CertifiedReport,
    DPConfig,
    NoiseMechanism,
    PrivacyBudget,
    PrivacyReport,
)
from ferrodp.engine.sampling import Sampling, poisson_sample, uniform_sample

__all__ = [
    "AccountingMethod",
    "CertifiedReport",
    "DPConfig",
    "DifferentialPrivacyEngine",
    "DifferentialPrivacyProtocol",
    "GaussianDifferentialPrivacy",
    "NoiseMechanism",
    "PrivacyBudget",
    "PrivacyReport",
    "Sampling",
    "poisson_sample",
    "uniform_sample",
]
