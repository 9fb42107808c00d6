"""What a scope allows, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ferrodp.events import NeighboringRelation

__all__ = ["Reading", "ScopeReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A bound on the privacy loss so far, whenever it is read; see `PrivacyLedger.odometer`.

    Attributes
    ----------
    epsilon, delta : float
        But with probability δ, the privacy loss of what was charged is at most the ε read, at every moment. It counts
        what is reserved and not yet released. Rounded up; infinite where δ was used up by events with a δ of their own.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReport:
    """A scope at one moment.

    Attributes
    ----------
    scope : str
        Its name.
    measure : str
        In which costs are added up: "pure", "zcdp", "gdp" or "rdp".
    neighboring_relation : NeighboringRelation
        Which datasets the guarantee tells apart.
    epsilon, delta : float or Fraction
        The budget.
    promised_epsilon, promised_delta : float or Fraction, or None
        What is promised even if caps are changed in view of results: the highest that was declared when the scope was
        made, or else the budget that it was made with. None if more was allowed later: then no promise was fixed in
        advance, and the budget is one only if it was raised for reasons that have nothing to do with results.
    epsilon_charged, delta_charged : float
        How much of the budget is used: the least ε, at the scope's δ, of a budget in which all charges fit. A guarantee
        if the charges were fixed in advance; at a moment chosen in view of results `PrivacyLedger.odometer` is one.
    exact_epsilon_charged : Fraction or None
        For "pure": the sum of all ε, of which `epsilon_charged` is the next float.
    held, armed, spent, cancelled : int
        How many releases are in which state, a lease counting as all that it was made for. Armed ones are spent, too:
        their release began, or may begin at any time.
    frozen : bool
        Whether charges are refused.
    """

    scope: str
    measure: str
    neighboring_relation: NeighboringRelation
    epsilon: float | Fraction
    delta: float | Fraction
    promised_epsilon: float | Fraction | None
    promised_delta: float | Fraction | None
    epsilon_charged: float
    delta_charged: float
    exact_epsilon_charged: Fraction | None
    held: int
    armed: int
    spent: int
    cancelled: int
    frozen: bool

    @property
    def epsilon_remaining(self) -> float:
        """ε minus what was charged: a rough idea only, for ε does not add up; see `PrivacyLedger.remaining_count`."""
        return max(0.0, float(self.epsilon) - self.epsilon_charged)
