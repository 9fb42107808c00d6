"""Canaries of a run: units of no person, with a coordinate each beside the model, that a coin puts into it or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ferrodp.audit.canaries import LEAST_CANARIES
from ferrodp.plan.sampling import CyclicPoisson, FixedSizeSampling, GivenOrder, PoissonSampling, RandomAllocation
from ferrodp.random import poisson_sample, random_allocation

if TYPE_CHECKING:
    from ferrodp.plan.plan import PrivacyPlan
    from ferrodp.random import NoiseSource

_LARGEST = 700.0


class Canaries:
    """The canaries of one run, and the evidence that its releases give about each: its score.

    An included canary takes part like a unit of the plan, in steps drawn for it alone, and moves its own coordinate by
    the clip norm; where units are replaced by others, one that is not included moves it the other way. A canary's
    score is the logarithm of the likelihood ratio of its coordinates, for one who does not know when it took part.
    """

    def __init__(self, plan: PrivacyPlan, distance: int, number: int, source: NoiseSource | None) -> None:
        self._plan, self._distance, self._source = plan, distance, source
        self.included = np.zeros(number, np.bool_)
        self.included[poisson_sample(number, 0.5, source=source)] = True
        self.scores = np.zeros(number)
        self.skipped_steps = False
        self._allocation: list[npt.NDArray[np.int64]] | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return which canaries are included and their scores, as JSON data."""
        scores = [score.hex() for score in self.scores.tolist()]
        return {"included": self.included.astype(int).tolist(), "scores": scores, "missed": self.skipped_steps}

    @classmethod
    def from_plain(cls, plan: PrivacyPlan, distance: int, plain: Any, source: NoiseSource | None) -> Canaries | None:
        """Return the canaries of `to_plain`, or None if these are no such data.

        An allocation of theirs is not saved, just as that of units is not: its round is left out.
        """
        if not isinstance(plain, dict) or plain.keys() != {"included", "scores", "missed"}:
            return None
        coins, scores = plain["included"], plain["scores"]
        if not isinstance(coins, list) or not isinstance(scores, list) or len(coins) != len(scores):
            return None
        if len(coins) < LEAST_CANARIES or any(type(coin) is not int or coin not in (0, 1) for coin in coins):
            return None
        try:
            numbers = np.array([float.fromhex(score) for score in scores])
        except (TypeError, ValueError, OverflowError):
            return None
        if not np.isfinite(numbers).all() or type(plain["missed"]) is not bool:
            return None
        found = cls.__new__(cls)
        found._plan, found._distance, found._source = plan, distance, source
        found.included, found.scores = np.array(coins, dtype=np.bool_), numbers
        found.skipped_steps, found._allocation = plain["missed"], None
        return found

    def participation_signs(self, step: int, offset: int) -> npt.NDArray[np.int8]:
        """Return for each canary whether it takes part in a step, the `offset`-th of its round: ±1 or 0."""
        joins = np.zeros(self.included.size, np.bool_)
        joins[self._members(step, offset)] = True
        others = -1 if self._distance == 2 else 0
        found: npt.NDArray[np.int8] = np.where(joins, np.where(self.included, 1, others), 0).astype(np.int8)
        return found

    def add_scores(self, step: int, marks: npt.NDArray[np.float64] | None, multiplier: float) -> None:
        """Add what a step released about each canary to its score; coordinates are in clip norms, None if left out."""
        if marks is None:
            self.skipped_steps = True
            return
        chance = self._chances(step)
        weight = 1.0 / (multiplier * multiplier)

        def log_ratio(sign: float) -> npt.NDArray[np.float64]:
            always = (sign * marks - 0.5) * weight
            some = np.minimum(chance, 1.0 - 2.0**-53) * np.expm1(np.clip(always, -_LARGEST, _LARGEST))
            return np.where(chance >= 1.0, always, np.log1p(some))

        self.scores += log_ratio(1.0) - (log_ratio(-1.0) if self._distance == 2 else 0.0)

    def _members(self, step: int, offset: int) -> npt.NDArray[np.int64]:
        number, sampling = self.included.size, self._plan.sampling
        if isinstance(sampling, RandomAllocation):
            if offset == 0 or self._allocation is None:
                drawn = random_allocation(number, sampling.num_steps, sampling.num_selected, source=self._source)
                self._allocation = list(drawn)
            return self._allocation[offset]
        chances = self._chances(step)
        joins = np.flatnonzero(chances > 0.0)
        chance = float(chances.max(initial=0.0))
        if chance == 1.0 or not joins.size:
            return joins
        return joins[poisson_sample(joins.size, chance, source=self._source)]

    def _chances(self, step: int) -> npt.NDArray[np.float64]:
        """Return with which probability each canary joins a step."""
        number, sampling = self.included.size, self._plan.sampling
        if isinstance(sampling, PoissonSampling):
            return np.full(number, sampling.probability)
        if isinstance(sampling, FixedSizeSampling):
            return np.full(number, sampling.size / (self._plan.population_size or sampling.size))
        if isinstance(sampling, RandomAllocation):
            return np.full(number, sampling.num_selected / sampling.num_steps)
        if isinstance(sampling, CyclicPoisson):
            parts = np.arange(number) % sampling.num_parts
            return np.where(parts == step % sampling.num_parts, sampling.probability, 0.0)
        if isinstance(sampling, GivenOrder) and sampling.max_participations is not None:
            apart = max(self._plan.num_steps // sampling.max_participations, 1)
            takes = step // apart < sampling.max_participations
            return np.where((np.arange(number) % apart == step % apart) & takes, 1.0, 0.0)
        return np.ones(number)
