"""Federated learning: where the noise is drawn.

`FederatedRun`
    The server draws it, once a round, on the sum of the clipped updates: rounds of one `PrivacyPlan` whose unit is a
    client. Hands out a `FederatedRound` for each, and keeps a `RoundRecord`.
`RoundCheckpoint`
    Model, round, accountant and what is owed, as one unit on disk: a server that is killed loses no paid round.
`PlacedRun`
    The clients draw it: rounds of a plan with a `LocalPlacement`, `DistributedPlacement` or `ShuffledPlacement`. Hands
    out a `PlacedRound` for each.
`SecureSum`
    Each client adds a share, and secure aggregation shows the server nothing but the sum. `SecureTotal` is what the
    server makes of it.
`LocalNoise`
    Each client noises its own update before it is sent.
`ShuffledReports`
    Each client sends one randomized bit, and a shuffler hides who sent which.

`masking` is a reference protocol of secure aggregation, for tests and simulations.
"""

from ferrodp.federated import masking
from ferrodp.federated.checkpoints import RoundCheckpoint
from ferrodp.federated.local import LocalNoise
from ferrodp.federated.placed import PlacedRound, PlacedRun
from ferrodp.federated.placements import DistributedPlacement, LocalPlacement, Placement, ShuffledPlacement
from ferrodp.federated.records import RoundRecord
from ferrodp.federated.rounds import FederatedRound, FederatedRun
from ferrodp.federated.secure import SecureSum, SecureTotal
from ferrodp.federated.shuffled import ShuffledReports

__all__ = [
    "DistributedPlacement",
    "FederatedRound",
    "FederatedRun",
    "LocalNoise",
    "LocalPlacement",
    "PlacedRound",
    "PlacedRun",
    "Placement",
    "RoundCheckpoint",
    "RoundRecord",
    "SecureSum",
    "SecureTotal",
    "ShuffledPlacement",
    "ShuffledReports",
    "masking",
]
