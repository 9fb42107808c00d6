"""Flower with a plan: private rounds of real strategies, modifiers for clients, certified accounting.

`PrivateStrategy`
    Wraps FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad or FedProx: each round is a step of a `PrivacyPlan`.
`clip_mod`, `local_noise_mod`
    Modifiers of client apps: clip on the client; clip and noise there.
`SecureAggregation`, `secure_share_mod`
    Flower's SecAgg+ with noise that the clients draw: the server sees noised sums alone.
`PlanAccountant`
    Certified ε for Flower's own wrappers, behind its protocol.

Needs ``pip install "ferrodp[flower]"`` (flwr ≥ 1.41), imported by the first call.
"""

from ferrodp._base import _public
from ferrodp.integrations.flower.accountant import PlanAccountant
from ferrodp.integrations.flower.mods import clip_mod, local_noise_mod
from ferrodp.integrations.flower.secure import SecureAggregation, secure_share_mod
from ferrodp.integrations.flower.strategy import PrivateStrategy

__all__ = [
    "PlanAccountant",
    "PrivateStrategy",
    "SecureAggregation",
    "clip_mod",
    "local_noise_mod",
    "secure_share_mod",
]

_public.install_in(__name__)
