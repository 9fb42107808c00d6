"""What a scope allows, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ferrodp.accounting.events import NeighboringRelation

__all__ = ["Reading", "ScopeReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A bound on the privacy loss so far.

    Attributes
    ----------
    epsilon, delta : float
        What was charged so far is (ε, δ)-differentially private together: the promise of a filter with just this
        budget. It counts what is reserved and not yet released. Rounded up.
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
    epsilon_spent, delta_spent : float
        What was charged so far: see `Reading`.
    exact_epsilon_spent : Fraction or None
        For "pure": the sum of all ε, of which `epsilon_spent` is the next float.
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
    epsilon_spent: float
    delta_spent: float
    exact_epsilon_spent: Fraction | None
    held: int
    armed: int
    spent: int
    cancelled: int
    frozen: bool

    @property
    def epsilon_remaining(self) -> float:
        """ε minus what was spent: a rough idea only, for ε does not add up; see `PrivacyLedger.remaining_count`."""
        return max(0.0, float(self.epsilon) - self.epsilon_spent)
