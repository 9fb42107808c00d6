"""Releases that are described by what they guarantee, or by having no guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ferrodp import _validate
from ferrodp.events.base import PrivacyEvent, register, settle

__all__ = [
    "EpsilonDeltaEvent",
    "ExponentialMechanismEvent",
    "NonPrivateEvent",
    "RandomizedResponseEvent",
    "ZcdpEvent",
]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivateEvent(PrivacyEvent):
    """A release without protection: no ε bounds it."""

    kind: ClassVar[str] = "non_private"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonDeltaEvent(PrivacyEvent):
    """One release of which nothing is known but that it is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon : float or Fraction
        Finite, ≥ 0. A Decimal or Fraction that is no float is kept as it is, so that ten times ``Decimal("0.1")`` is 1;
        with more than 64 bits above or below the line it is rounded up to a float.
    delta : float or Fraction
        In [0, 1); 0 for pure differential privacy. Kept or rounded like `epsilon`.

    Notes
    -----
    Who adds up ε and δ themselves does so exactly: `PureDpAccountant`, zCDP, the filters and the ledger. For the other
    accountants both are rounded up.

    Examples
    --------
    >>> from decimal import Decimal
    >>> from ferrodp.accounting import EpsilonDeltaEvent, PureDpFilter
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
        epsilon = _validate.non_negative("epsilon", self.epsilon, toward="up")
        delta = _validate.probability("delta", self.delta, toward="up")
        if delta == 1.0:
            raise _validate.out_of_domain("delta", "finite and in [0, 1); use NonPrivateEvent for 1", self.delta)
        settle(
            self, epsilon=_validate.short_ratio(self.epsilon, epsilon), delta=_validate.short_ratio(self.delta, delta)
        )


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpEvent(PrivacyEvent):
    """One release of which nothing is known but that it is ρ-zero-concentrated differentially private.

    Parameters
    ----------
    rho : float
        ρ: the Rényi divergence of every order α > 1 is at most ρα (Bun, Steinke, "Concentrated differential privacy",
        TCC 2016, Definition 1.1). Finite, ≥ 0. Rounded up if it is no float.
    """

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        settle(self, rho=_validate.non_negative("rho", self.rho, toward="up"))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialMechanismEvent(PrivacyEvent):
    """One choice by a mechanism whose privacy loss has a range of at most ε: exponential mechanism, report noisy max.

    Parameters
    ----------
    epsilon : float
        The width of an interval that holds all privacy losses of a pair of neighbors (Durfee, Rogers, "Practical
        differentially private top-k selection with pay-what-you-get composition", NeurIPS 2019). The
        exponential mechanism with probabilities ∝ exp(ε·score/2Δ) has it, Δ being the sensitivity of each score;
        ε-bounded range implies ε-differential privacy. Finite, ≥ 0. Rounded up if it is no float.
    """

    kind: ClassVar[str] = "exponential_mechanism"
    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=_validate.non_negative("epsilon", self.epsilon, toward="up"))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponseEvent(PrivacyEvent):
    """One answer out of k, told truthfully or drawn at random (Warner, "Randomized response", JASA 1965).

    Parameters
    ----------
    noise_parameter : float
        Probability p with which the answer is drawn uniformly from all k, the true one included; in [0, 1]. At 0 the
        answer is told, at 1 nothing is. Rounded down if it is no float.
    num_buckets : int
        k, from 2 to 2⁶³ − 1.

    Notes
    -----
    The loss is ±ln(1 + k(1 − p)/p) or 0. The relation is that the one answer is replaced.
    """

    kind: ClassVar[str] = "randomized_response"
    noise_parameter: float
    num_buckets: int

    def __post_init__(self) -> None:
        settle(
            self,
            noise_parameter=_round_down("noise_parameter", self.noise_parameter),
            num_buckets=_validate.count("num_buckets", self.num_buckets, minimum=2),
        )


def _round_down(name: str, value: object) -> float:
    """Return a probability as a float no larger, down to 0."""
    _validate.probability(name, value)
    return _validate.rounded(_validate.exact(name, value), "down")
