"""What a run needs to know of a plan. `PrivacyPlan` implements it; it is the only class that does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ferrodp._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.plan.clipping import Clipping
from ferrodp.plan.noise import NoiseSchedule
from ferrodp.plan.sampling import Charge, Sampling


class Plan(Protocol):
    """A plan, as its runs see it."""

    @property
    def population_size(self) -> int | None:
        """Public number of units."""

    @property
    def sampling(self) -> Sampling:
        """Who takes part in a step."""

    @property
    def num_steps(self) -> int:
        """Number of steps."""

    @property
    def clipping(self) -> Clipping:
        """How vectors are bounded."""

    @property
    def noise(self) -> NoiseSchedule:
        """Noise multiplier of each step."""

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """Which datasets the guarantee tells apart."""

    @property
    def distance(self) -> int:
        """How many clip norms apart the sums of neighbors can be."""

    @property
    def records_per_group(self) -> int:
        """How many units share a vector."""

    @property
    def num_groups(self) -> int | None:
        """Number of groups in each step."""

    @property
    def expected_batch_size(self) -> float | None:
        """What sums are divided by."""

    @property
    def event(self) -> PrivacyEvent:
        """What all steps cost."""

    @property
    def fingerprint(self) -> str:
        """Hash of the plan."""

    def event_after(self, step: int) -> PrivacyEvent:
        """Return what is charged for the first steps."""

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of all steps."""

    def epsilon_after(self, step: int, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of the first steps."""

    def max_steps(self, *, epsilon: Real, delta: Real, accountant: AccountantChoice = "pld") -> int:
        """Return the last number of steps that keeps (ε, δ)."""

    def charges(self) -> Sequence[Charge]:
        """Return what is paid for the steps, in order."""

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the plan as JSON."""
