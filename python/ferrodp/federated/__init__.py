"""Federated learning: where the noise is drawn.

`FederatedRun`
    The server draws it, once a round, on the sum of the clipped updates: rounds of one `PrivacyPlan` whose unit is a
    client. Hands out a `FederatedRound` for each, and keeps a `RoundRecord`.
`SecureSum`
    Each client adds a share, and secure aggregation shows the server nothing but the sum. `SecureTotal` is what the
    server makes of it.
`LocalNoise`
    Each client noises its own update before it is sent.

`masking` is a reference protocol of secure aggregation, for tests and simulations.
"""

from ferrodp.federated import masking
from ferrodp.federated.local import LocalNoise
from ferrodp.federated.records import RoundRecord
from ferrodp.federated.rounds import FederatedRound, FederatedRun
from ferrodp.federated.secure import SecureSum, SecureTotal

__all__ = [
    "FederatedRound",
    "FederatedRun",
    "LocalNoise",
    "RoundRecord",
    "SecureSum",
    "SecureTotal",
    "masking",
]
