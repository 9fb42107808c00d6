"""Federated learning: where the noise is drawn.

`SecureSum`
    Each client adds a share of the noise, and secure aggregation shows the server nothing but the sum. `SecureTotal` is
    what the server makes of it.

`ferrodp.federated.masking` is a reference protocol of secure aggregation, for tests and simulations.
"""

from ferrodp.federated import masking
from ferrodp.federated.secure import SecureSum, SecureTotal

__all__ = ["SecureSum", "SecureTotal", "masking"]
