"""The keys of units that have many: weights are added up in rounds, of which each looks at what is left.

*A round of sums.* A unit with d keys among those that no earlier round has found gives each of them the weight
w(d) = ⌊2²⁰/√d⌋, so that d·w(d)² ≤ 2⁴⁰ in integers: its vector of weights has an L2 norm of at most 2²⁰, exactly, and
sums of weights are exact. Keys that occur get Gaussian noise and are released if they reach τ. [GGKSSY20] is one such
round; that later ones spend their weights on keys not yet found is [SKDH23].

*The last round* releases no sum, and decides about each key by a coin that its weight has: `keys.weighted`. Its coins
cost less than thresholds of noised sums [HM26]. Where there are no coins, for ε < 1/4 and more than 1000 keys of a
unit, all rounds are rounds of sums.

*Privacy.* Neighbors D and D' = D + unit u; let the coins of all other units' subsets be shared. Given what earlier
rounds released, the other units have the same keys left in D and D', with the same weights, so u moves the vector of
sums over the keys that others have by at most 2²⁰ in L2: for these keys a round with noise of standard deviation
σᵢ·2²⁰ is (α, α/(2σᵢ²))-Rényi differentially private for every α [Mir17, Proposition 7], and the last one (α, ρ) for
one α. Rényi divergences of one order add up under adaptive composition [Mir17, Proposition 1], and their sum is
calibrated for (ε, δ₁) [CKS20, Proposition 12]. With rounds of sums alone, all are μ-GDP together with μ² = Σ 1/σᵢ²
[DRS22, Corollary 2], (ε, δ₁)-differentially private for a σ = 1/μ that is calibrated for them. A key that u alone has
reaches τᵢ with probability Φ̄((τᵢ − w(d))/σᵢ), and one of d such keys with at most d times that; τᵢ is so large that
this is at most δ₂/rounds for every d, and so is the chance of the last round's coins. Let p be a probability under D
of a set of transcripts, which hold no key of u alone, p' that of the same rounds under D' without such keys. Under D'
the set has at least p'·Π(1 − δ₂/rounds) ≥ p'(1 − δ₂), and p ≤ p(1 − δ₂) + δ₂ ≤ (e^ε·p' + δ₁)(1 − δ₂) + δ₂ ≤
e^ε·P'(set) + δ₁ + δ₂. The other direction: P' is at most p' plus the probability δ₂ that such a key is released, and
p' ≤ e^ε·p + δ₁. Half of δ is δ₁, half is δ₂.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.mechanisms.gaussian import GaussianMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics.keys import weighted
from ferrodp.statistics.keys.weighted import Coins

__all__ = ["KeyUnion"]

_NORM = 2**20
_SHARES = (Fraction(1, 50), Fraction(2, 25), Fraction(9, 10))
"""Of μ², or of Rényi divergence, by round."""
Places = npt.NDArray[np.intp]


class Round(NamedTuple):
    """The noise of a round, and what a noised sum has to reach."""

    mechanism: GaussianMechanism
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUnion:
    """Find the keys of groups where units have many: each shares a weight among those of its keys not found before.

    Parameters
    ----------
    epsilon : float
        ε of the keys; finite, > 0.
    delta : float
        δ of the keys, in (0, 1).

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain.

    References
    ----------
    [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
    [DRS22] Dong, Roth, Su, "Gaussian differential privacy", J. R. Stat. Soc. B 84, 2022.
    [GGKSSY20] Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin, "Differentially private set union", ICML 2020.
    [HM26] Harrison, Manurangsi, "Optimal partition selection with Rényi differential privacy", arXiv:2603.09167, 2026.
    [Mir17] Mironov, "Rényi differential privacy", CSF 2017.
    [SKDH23] Swanberg, Desfontaines, Haney, "DP-SIPS: a simpler, more scalable mechanism for differentially private
    partition selection", PoPETs 2023.

    Examples
    --------
    >>> import ferrodp as fd
    >>> frame = {"word": ["a", "b"] * 200 + ["c"], "person": [i // 2 for i in range(400)] + [7]}
    >>> keys = fd.KeyUnion(epsilon=1.0, delta=1e-6)
    >>> fd.private_group_by(frame, "word", keys=keys, unit="person", groups_per_unit=2).keys
    ('a', 'b')
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon, toward="down"))
        object.__setattr__(self, "delta", _validate.delta(self.delta))

    def _found(self, owners: Places, codes: Places, size: int, groups: int, drawn: NoiseSource) -> Places:
        """Return the places of the keys that are released; each pair of a unit and a key is there once."""
        found = np.zeros(size, np.bool_)
        norms = np.array([0, *(math.isqrt(_NORM**2 // d) for d in range(1, groups + 1))], np.int64)
        for rule in rounds(self.epsilon, self.delta, groups):
            left = ~found[codes]
            owners, codes = owners[left], codes[left]
            degrees = np.bincount(owners)
            kept = self._some(owners, degrees, groups, drawn)
            weights = rule.weights if isinstance(rule, Coins) else norms
            # mutant: weights-of-a-unit-as-if-it-had-one-key
            given = weights[np.minimum(degrees, groups)][owners[kept]]
            sums = np.bincount(codes[kept], weights=given, minlength=size).astype(np.float64)  # below 2⁵³: exact
            occurs = np.flatnonzero(sums > 0.0)
            if isinstance(rule, Coins):
                found[occurs[rule.chosen(sums[occurs].astype(np.int64), drawn)]] = True
                continue
            noised = rule.mechanism.release(sums[occurs], source=drawn)
            # mutant: key-of-one-unit-reaches-the-threshold
            found[occurs[noised >= rule.threshold]] = True
        return np.flatnonzero(found)

    @staticmethod
    def _some(owners: Places, degrees: Places, groups: int, drawn: NoiseSource) -> npt.NDArray[np.bool_]:
        """Return which pairs count: of a unit with more keys than it may have, a random subset of them."""
        from ferrodp.statistics.keys.contributions import rows_that_count

        counted = np.ones(owners.size, np.bool_)
        many = np.flatnonzero(degrees[owners] > groups)
        if many.size:
            # mutant: keys-beyond-the-bound-of-a-unit-count
            counted[many] = rows_that_count(owners[many], groups, drawn)
        return counted


@functools.lru_cache(maxsize=64)
def rounds(epsilon: float, delta: float, groups: int) -> tuple[Round | Coins, ...]:
    """Return the noise and threshold, or the coins, of each round, for units with up to so many keys."""
    half = _validate.rounded(Fraction(delta) / 2, "down")
    own = half / len(_SHARES)
    if epsilon >= weighted.MIN_EPSILON and groups <= weighted.MAX_KEYS:
        alpha, rho = weighted.order(epsilon, half)
        # mutant: last-round-of-a-union-with-the-whole-budget
        last = weighted.coins(alpha, rho * float(_SHARES[-1]), own, groups)
        if last is not None:
            sums = [_round(math.sqrt(alpha / (2.0 * rho)) / math.sqrt(share), own, groups) for share in _SHARES[:-1]]
            return (*sums, last)
    whole = GaussianMechanism.calibrated(epsilon=epsilon, delta=half, l2_sensitivity=1.0).noise_multiplier
    # mutant: rounds-with-the-whole-budget-each
    return tuple(_round(whole / math.sqrt(share), own, groups) for share in _SHARES)


def _round(noise_multiplier: float, own: float, groups: int) -> Round:
    """Return a round with so much noise, or a little more, and its threshold."""
    multiplier = math.nextafter(noise_multiplier * (1.0 + 2.0**-50), math.inf)
    mechanism = GaussianMechanism(noise_multiplier=multiplier, l2_sensitivity=float(_NORM))
    return Round(mechanism, _threshold(mechanism, own, groups))


def _threshold(mechanism: GaussianMechanism, delta: float, groups: int) -> float:
    """Return what one key of a unit, of as many as it has, reaches with probability δ at most, rounding included."""
    from scipy import special  # slow to import

    deviation = mechanism.standard_deviation
    degrees = np.arange(1, groups + 1, dtype=np.float64)
    # 1e-9 of δ for the rounding of the quantile
    # mutant: threshold-of-a-unit-with-one-key
    reach = special.ndtri_exp(np.log(delta * (1.0 - 1e-9) / degrees))
    weights = np.floor(_NORM / np.sqrt(degrees)) + 1.0
    return float(np.max(weights - deviation * reach)) + deviation * 2.0**-18  # the grid is finer than half of that
