"""Releases described by what they guarantee, or by having no guarantee."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp.events import base
from ferrodp.events.base import PrivacyEvent, event_class


@event_class
class NonPrivateEvent(PrivacyEvent):
    """A release without protection: no ε bounds its privacy loss.

    Examples
    --------
    >>> from ferrodp.accounting import PureDpAccountant
    >>> accountant = PureDpAccountant()
    >>> accountant.compose(NonPrivateEvent())
    >>> accountant.epsilon(0.0)
    inf
    """

    kind: ClassVar[str] = "non_private"


@event_class
class EpsilonDeltaEvent(PrivacyEvent):
    """One release of which nothing is known but that it is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon : float or Fraction
        Finite, ≥ 0. A Decimal or Fraction that is not a float is kept as it is, so that ten times ``Decimal("0.1")`` is
        1; one with more than 64 bits in numerator or denominator is rounded up to a float.
    delta : float or Fraction
        In [0, 1); 0 for pure differential privacy. Kept or rounded like `epsilon`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Notes
    -----
    Everything that adds up ε and δ themselves does so exactly: `PureDpAccountant`, zCDP, the filters and the ledger.
    For the other accountants both are rounded up.

    Examples
    --------
    >>> from decimal import Decimal
    >>> from ferrodp.accounting.filters import PureDpFilter
    >>> tenth = EpsilonDeltaEvent(epsilon=Decimal("0.1"))
    >>> tenth.to_dict()["epsilon"]
    '1/10'
    >>> PureDpFilter(epsilon=1.0).remaining_count(tenth)
    10
    """

    kind: ClassVar[str] = "epsilon_delta"
    ratios: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    epsilon: float | Fraction
    delta: float | Fraction = 0.0

    def __post_init__(self) -> None:
        epsilon = base.NON_NEGATIVE_UP("epsilon", self.epsilon)
        delta = base.PROBABILITY_UP("delta", self.delta)
        if delta == 1.0:
            raise _validate.out_of_domain("delta", "finite and in [0, 1); use NonPrivateEvent for 1", self.delta)
        exact = _validate.short_ratio
        base.settle(self, epsilon=exact(self.epsilon, epsilon), delta=exact(self.delta, delta))


@event_class
class ZcdpEvent(PrivacyEvent):
    """One release of which nothing is known but that it is ρ-zero-concentrated differentially private.

    Parameters
    ----------
    rho : float
        ρ: the Rényi divergence of every order α > 1 is at most ρα ([BS16] Definition 1.1). Finite, ≥ 0. Rounded up if
        not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If ρ is outside its domain, or not a real number.

    Examples
    --------
    >>> ZcdpEvent(rho=0.5)
    ZcdpEvent(rho=0.5)
    """

    kind: ClassVar[str] = "zcdp"
    checks: ClassVar[base.Checks] = {"rho": base.NON_NEGATIVE_UP}
    rho: float


@event_class
class ExponentialMechanismEvent(PrivacyEvent):
    """One choice by a mechanism whose privacy loss has a range of at most ε: exponential mechanism, report noisy max.

    Parameters
    ----------
    epsilon : float
        The width of an interval that contains all privacy losses of a pair of neighbors ([DR19]). The exponential
        mechanism with probabilities ∝ exp(ε·score/2Δ), Δ being the sensitivity of each score, has such a range; an
        ε-bounded range implies ε-differential privacy. Finite, ≥ 0. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If ε is outside its domain, or not a real number.

    Examples
    --------
    >>> ExponentialMechanismEvent(epsilon=0.5)
    ExponentialMechanismEvent(epsilon=0.5)
    """

    kind: ClassVar[str] = "exponential_mechanism"
    checks: ClassVar[base.Checks] = {"epsilon": base.NON_NEGATIVE_UP}
    epsilon: float


@event_class
class RandomizedResponseEvent(PrivacyEvent):
    """One answer out of k, told truthfully or drawn at random ([War65]).

    Parameters
    ----------
    noise_parameter : float
        Probability p with which the answer is drawn uniformly from all k, the true one included; in [0, 1]. At 0 the
        answer is always true, at 1 always random. Rounded down if not exactly representable.
    num_buckets : int
        k, from 2 to 2⁶³ − 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The privacy loss is ±ln(1 + k(1 − p)/p) or 0. The relation is that the one answer is replaced.

    Examples
    --------
    >>> RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2)
    RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2)
    """

    kind: ClassVar[str] = "randomized_response"
    checks: ClassVar[base.Checks] = {
        "noise_parameter": lambda name, value: _probability_down(name, value),
        "num_buckets": lambda name, value: _validate.count(name, value, minimum=2),
    }
    noise_parameter: float
    num_buckets: int


def _probability_down(name: str, value: object) -> float:
    """Return a probability rounded down, to 0 where it is below all positive floats."""
    _validate.probability(name, value)
    return _validate.rounded(_validate.exact(name, value), "down")
