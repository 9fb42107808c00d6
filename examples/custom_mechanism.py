"""A mechanism of one's own: the second moments of clipped rows, noised as integers, for a private linear regression.

Private unit: one row, added or removed.
Guarantee: (1, 1e-6). Sums are integers, so the sensitivity holds exactly; the noise is an exact discrete Gaussian.
"""

from dataclasses import dataclass

import numpy as np

import ferrodp as fd
from ferrodp.accounting import ZcdpAccountant, ZcdpEvent, zcdp_rho

UNIT = 2**12  # a row is rounded to multiples of 1/UNIT


@dataclass(frozen=True, kw_only=True)
class PrivateMoments:
    """Release the sum of x·xᵀ over rows x clipped to L2 norm 1."""

    rho: float

    @property
    def event(self) -> ZcdpEvent:
        """What one release costs: an accountant takes this, and nothing else has to be told to it."""
        return ZcdpEvent(rho=self.rho)

    def release(self, rows: np.ndarray) -> np.ndarray:
        """Return the noised sum, symmetric."""
        clipped, _ = fd.clip_rows(rows, clip_norm=1.0)  # the norm is at most 1 in exact arithmetic
        integers = np.trunc(clipped.astype(np.float64) * UNIT).astype(np.int64)  # toward zero: no norm grows
        moments = integers.T @ integers  # exact: one row adds a matrix of Frobenius norm at most UNIT²
        # ρ = Δ²/2σ² for discrete Gaussian noise of scale σ, [CKS20] Theorem 4; σ is rounded up to a whole number.
        scale = int(np.ceil(UNIT**2 / np.sqrt(2 * self.rho))) + 1
        noise = fd.NoiseSource().discrete_gaussian(moments.shape, scale=scale)
        noise = np.tril(noise) + np.tril(noise, -1).T  # the upper triangle repeats the lower one
        return (moments + noise) / UNIT**2


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    features = rng.uniform(-0.5, 0.5, (50_000, 3))
    target = features @ [0.6, -0.3, 0.2] + rng.normal(0, 0.05, 50_000)
    mechanism = PrivateMoments(rho=zcdp_rho(epsilon=1.0, delta=1e-6))
    moments = mechanism.release(np.column_stack([features, target]))
    print("coefficients:", np.linalg.solve(moments[:3, :3], moments[:3, 3]).round(3), "true: [0.6, -0.3, 0.2]")

    accountant = ZcdpAccountant()
    accountant.compose(mechanism.event)
    print(f"ε ≤ {accountant.epsilon(1e-6)} at δ = 1e-6")
