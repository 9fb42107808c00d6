"""The plan of a training under the earlier toolkit's names, and what monitors are told about its run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PoissonSampledEvent, PrivacyEvent, SelfComposedEvent
from ferrodp.integrations.mindspore.mechanisms import AdaClippingWithGaussianRandom, NoiseGaussianRandom
from ferrodp.plan import (
    Clipping,
    ConstantNoise,
    CyclicPoisson,
    FlatClipping,
    FullBatch,
    GivenOrder,
    NoiseSchedule,
    PlanRun,
    PoissonSampling,
    PrivacyPlan,
    Sampling,
)


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What a training does with its records, as far as it is public."""

    sampling: Sampling
    population_size: int | None
    batch_size: int
    steps_per_epoch: int
    once_an_epoch: bool = False
    """Whether a loader gives each record once an epoch."""

    def sampling_for(self, epochs: int) -> Sampling:
        """Return the sampling of a training of so many epochs."""
        if isinstance(self.sampling, GivenOrder) and self.once_an_epoch:
            # mutant: participations-of-epochs-not-counted
            return dataclasses.replace(self.sampling, max_participations=epochs)
        return self.sampling


def poisson_or_full(batch_size: int, population_size: int) -> Sampling:
    """Return Poisson samples of an expected size, or everything."""
    if batch_size == population_size:
        return FullBatch()
    chance = batch_size / population_size
    if chance * population_size > batch_size:  # the public batch size, and with it the number of groups, stays whole
        chance = math.nextafter(chance, 0.0)
    return PoissonSampling(chance)


def records_per_group(micro_batches: int | None, batch_size: int) -> int:
    """Return how many records share a vector where a batch is cut into so many groups; None is one for each record."""
    if micro_batches is None:
        return 1
    if micro_batches > batch_size or batch_size % micro_batches:
        raise InvalidParameter(
            f"micro_batches must divide the batch size {batch_size}, got {micro_batches}; with one for each record "
            f"(micro_batches=None or {batch_size}) nothing is charged twice"
        )
    return batch_size // micro_batches


def plan_of(
    batches: Batches,
    epochs: int,
    *,
    schedule: NoiseSchedule,
    norm_bound: float,
    clip_mech: AdaClippingWithGaussianRandom | None,
    micro_batches: int | None,
    clipping: Clipping | None = None,
) -> PrivacyPlan:
    """Return the plan of a training of so many epochs, with the clipping of its mechanism if that is given."""
    sampling = batches.sampling_for(epochs)
    in_slots = isinstance(sampling, (GivenOrder, CyclicPoisson))
    plan = PrivacyPlan(
        unit="record",
        population_size=batches.population_size,
        sampling=sampling,
        num_steps=epochs * batches.steps_per_epoch,
        clipping=FlatClipping(norm_bound) if clipping is None else clipping,
        noise=schedule,
        neighboring_relation=(
            NeighboringRelation.REPLACE_SPECIAL if in_slots else NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
        records_per_group=records_per_group(micro_batches, batches.batch_size),
    )
    if clip_mech is None:
        return plan
    assert isinstance(schedule, ConstantNoise), "decaying noise and adaptive clipping are refused together"
    # A null record counts as within the norm: the count of ±1/2 changes by 1 when one takes a record's place.
    unit_of_count = 1.0 if in_slots and plan.records_per_group == 1 else 0.5
    vectors = plan.expected_batch_size or batches.batch_size
    adaptive = clip_mech.clipping(norm_bound, num_vectors=vectors, unit_of_count=unit_of_count)
    # The mechanism states the noise of the sum; the count is paid on top of it.
    # mutant: quantile-paid-by-the-sum
    total = 1.0 / math.hypot(1.0 / schedule.noise_multiplier, 1.0 / adaptive.count_noise_multiplier)
    return dataclasses.replace(plan, clipping=adaptive, noise=ConstantNoise(total))


def checked_epochs(value: object) -> int:
    """Return a number of epochs."""
    return _validate.count("epoch", value)


def unsampled(event: PrivacyEvent) -> PrivacyEvent:
    """Return an event that costs no less and has no Poisson sample in it.

    A sampled mechanism mixes the outputs with and without a record. Rényi divergences are jointly quasi-convex
    ([EH14] Theorem 13), so it is no more divergent than the mechanism without sampling.
    """
    if isinstance(event, PoissonSampledEvent):
        return unsampled(event.event)
    if isinstance(event, SelfComposedEvent):
        return SelfComposedEvent(event=unsampled(event.event), count=event.count)
    if isinstance(event, ComposedEvent):
        return ComposedEvent(events=tuple(unsampled(each) for each in event.events))
    return event


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training under way: what a monitor may be told, and nothing that it could get wrong."""

    batches: Batches
    mechanism: NoiseGaussianRandom
    micro_batches: int | None
    plan: PrivacyPlan
    run: PlanRun[Any]
    earlier: Sequence[PrivacyEvent]

    @property
    def event(self) -> PrivacyEvent:
        """What was charged so far, earlier trainings of the model included."""
        # mutant: earlier-trainings-forgotten
        return ComposedEvent(events=(*self.earlier, self.run.event))


def training_of(run_context: Any) -> Training:
    """Return the training that a callback is called for; refuse one whose noise and batches nobody knows."""
    training = run_context.original_args().get("private_training")
    if not isinstance(training, Training):
        raise InvalidParameter(
            "a privacy monitor reports on DPModel.train alone: any other training has no plan, and perhaps no privacy"
        )
    return training
