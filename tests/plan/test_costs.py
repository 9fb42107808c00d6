"""What a plan costs: the composition of its steps' events, put together here a second time, by hand."""

import math
import random
from fractions import Fraction

import pytest

from ferrodp.accounting import PldAccountant, RdpAccountant
from ferrodp.errors import InvalidParameter
from ferrodp.events import (
    AdaptiveClipEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
)
from ferrodp.plan import (
    AdaptiveClipping,
    AutomaticClipping,
    ConstantNoise,
    CosineDecay,
    CyclicPoisson,
    ExponentialDecay,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    GivenOrder,
    InverseTimeDecay,
    PerGroupClipping,
    PiecewiseNoise,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
    StepDecay,
)

AO, RO, RS = NeighboringRelation
DELTA = 1e-5


def plan_of(sampling, *, relation=AO, steps=6, noise=None, clipping=None, **others):
    return PrivacyPlan(
        population_size=1000,
        sampling=sampling,
        num_steps=steps,
        clipping=clipping or FlatClipping(1.0),
        noise=noise or ConstantNoise(3.0),
        neighboring_relation=relation,
        **others,
    )


def epsilon_of(events, relation):
    accountant = PldAccountant(neighboring_relation=relation)
    for event in events:
        accountant.compose(event)
    return accountant.epsilon(DELTA)


def poisson(chance, z, distance=math.inf):
    return PoissonSampledEvent(
        sampling_probability=chance, event=GaussianEvent(noise_multiplier=z), null_distance=distance
    )


DECAY = InverseTimeDecay(6.0, 0.2)
Z = [6.0 / (1.0 + 0.2 * t) for t in range(6)]


@pytest.mark.parametrize(
    ("plan", "events"),
    [
        (plan_of(PoissonSampling(0.1), noise=DECAY), [poisson(0.1, z) for z in Z]),
        (plan_of(PoissonSampling(0.1), noise=DECAY, relation=RS), [poisson(0.1, z) for z in Z]),
        (plan_of(PoissonSampling(0.1), noise=DECAY, relation=RO), [poisson(0.1, z / 2, 0.5) for z in Z]),
        (plan_of(PoissonSampling(1.0), noise=DECAY), [GaussianEvent(noise_multiplier=z) for z in Z]),
        (plan_of(FullBatch(), noise=DECAY, relation=RO), [GaussianEvent(noise_multiplier=z / 2) for z in Z]),
        (
            plan_of(FixedSizeSampling(50), noise=DECAY, relation=RO),
            [
                FixedSizeSampledEvent(population_size=1000, sample_size=50, event=GaussianEvent(noise_multiplier=z / 2))
                for z in Z
            ],
        ),
        (
            plan_of(RandomAllocation(3, 1), noise=PiecewiseNoise((6.0, 4.0), (3,))),
            [
                RandomAllocationEvent(num_steps=3, num_selected=1, event=GaussianEvent(noise_multiplier=z))
                for z in (6.0, 4.0)
            ],
        ),
        (
            plan_of(RandomAllocation(4, 2)),
            [RandomAllocationEvent(num_steps=4, num_selected=2, event=GaussianEvent(noise_multiplier=3.0))] * 2,
        ),
        (plan_of(CyclicPoisson(0.1, 3), noise=DECAY, relation=RS), [poisson(0.1, Z[2]), poisson(0.1, Z[5])]),
        (
            plan_of(CyclicPoisson(0.1, 4), noise=CosineDecay(3.0, 6.0), relation=RO),
            [poisson(0.1, 1.5, 0.5), poisson(0.1, CosineDecay(3.0, 6.0).at(4, 6) / 2, 0.5)],
        ),
        (plan_of(GivenOrder(10), noise=DECAY, relation=RS), [GaussianEvent(noise_multiplier=z) for z in Z]),
        (
            plan_of(GivenOrder(10, 2), noise=CosineDecay(3.0, 6.0), relation=RO),
            [GaussianEvent(noise_multiplier=CosineDecay(3.0, 6.0).at(t, 6) / 2) for t in (0, 1)],
        ),
        (
            plan_of(GivenOrder(10, 2), noise=DECAY, relation=RS),
            [GaussianEvent(noise_multiplier=z) for z in (Z[5], Z[4])],
        ),
        (plan_of(PoissonSampling(0.1), records_per_group=4), [poisson(0.1, 1.5)] * 6),
        (plan_of(PoissonSampling(0.1), records_per_group=4, relation=RO), [poisson(0.1, 1.5, 1.0)] * 6),
        (plan_of(PoissonSampling(0.1), records_per_group=4, relation=RS), [poisson(0.1, 1.5)] * 6),
        (plan_of(PoissonSampling(0.1), clipping=PerGroupClipping({"a": 3.0, "b": 4.0})), [poisson(0.1, 3.0)] * 6),
        (plan_of(PoissonSampling(0.1), clipping=AutomaticClipping()), [poisson(0.1, 3.0)] * 6),
    ],
    ids=lambda value: str(value)[:80] if isinstance(value, PrivacyPlan) else "",
)
def test_a_plan_costs_what_its_steps_do(plan, events):
    assert plan.epsilon(DELTA) == pytest.approx(epsilon_of(events, plan.neighboring_relation), rel=1e-9)
    assert plan.epsilon_bounds(DELTA).lower <= plan.epsilon(DELTA)


@pytest.mark.parametrize("relation", [AO, RO, RS])
def test_a_schedule_with_adaptive_clipping_costs_the_composition_of_its_sums_and_counts(relation):
    clipping = AdaptiveClipping(1.0, count_noise_multiplier=15.0)
    plan = plan_of(PoissonSampling(0.1), noise=DECAY, clipping=clipping, relation=relation)
    half = 2 if relation is RO else 1
    events = []
    for z in Z:
        of_sum = 1.0 / math.sqrt(1.0 / z**2 - 1.0 / 15.0**2)
        event = AdaptiveClipEvent(sum_noise_multiplier=of_sum / half, count_noise_multiplier=15.0 / half)
        events.append(PoissonSampledEvent(sampling_probability=0.1, event=event, null_distance=0.5))

    assert plan.epsilon(DELTA) == pytest.approx(epsilon_of(events, relation), rel=1e-9)
    without = plan_of(PoissonSampling(0.1), noise=DECAY, relation=relation)
    assert plan.epsilon(DELTA) == pytest.approx(without.epsilon(DELTA), rel=1e-9)
    assert plan.epsilon(DELTA) <= without.epsilon(DELTA) * (1 + 1e-12)  # the split rounds towards more noise


def test_groups_double_the_bill():
    alone, grouped = (plan_of(PoissonSampling(0.1), records_per_group=k) for k in (1, 8))

    assert grouped.epsilon(DELTA) == plan_of(PoissonSampling(0.1), noise=ConstantNoise(1.5)).epsilon(DELTA)
    assert grouped.epsilon(DELTA) > 1.9 * alone.epsilon(DELTA)
    assert "double the sensitivity" in grouped.forecast(DELTA).notes[0]


def test_a_given_order_amplifies_nothing_and_says_so_with_a_number():
    plan = plan_of(GivenOrder(100), relation=RS)
    poisson_plan = plan_of(PoissonSampling(0.1), relation=RS)

    assert plan.epsilon(DELTA) > 3 * poisson_plan.epsilon(DELTA)
    assert f"{poisson_plan.epsilon(DELTA):.4g}" in plan.forecast(DELTA).notes[0]
    assert "amplify nothing" in str(plan.forecast(DELTA))


def test_noise_that_changes_within_a_round_of_an_allocation_is_refused():
    with pytest.raises(InvalidParameter, match="noise must be constant within each round of 3 steps"):
        plan_of(RandomAllocation(3), noise=PiecewiseNoise((6.0, 5.0, 6.0), (1, 2)))


LADDER = [
    plan_of(PoissonSampling(0.1)),
    plan_of(PoissonSampling(0.1), noise=ExponentialDecay(4.0, 0.3, 1.0)),
    plan_of(PoissonSampling(0.1), noise=ExponentialDecay(4.0, 0.05)),
    plan_of(PoissonSampling(0.1), noise=CosineDecay(2.0, 5.0)),
    plan_of(PoissonSampling(0.1), noise=StepDecay(4.0, 0.8, 2, 2.0)),
    plan_of(FixedSizeSampling(100), relation=RO),
    plan_of(RandomAllocation(4)),
    plan_of(CyclicPoisson(0.5, 4), relation=RS, noise=CosineDecay(2.0, 5.0)),
    plan_of(FullBatch(), relation=RO),
    plan_of(GivenOrder(10), relation=RS, noise=CosineDecay(2.0, 5.0)),
]


@pytest.mark.parametrize("target", [0.05, 0.6, 2.0, 5.0])
@pytest.mark.parametrize("plan", LADDER, ids=lambda plan: f"{plan.sampling} {plan.noise}")
def test_the_largest_number_of_steps_is_the_last_safe_one(plan, target):
    found = plan.max_steps(epsilon=target, delta=DELTA)

    spent = [PldAccountant(neighboring_relation=plan.neighboring_relation) for _ in range(2)]
    for accountant, steps in zip(spent, (found, found + 1), strict=True):
        if steps:
            accountant.compose(plan.event_after(steps))
    assert spent[0].epsilon(DELTA) <= target < spent[1].epsilon(DELTA)
    assert plan.max_steps(epsilon=target, delta=DELTA) == found  # nothing was spent by asking


def test_participations_that_are_all_paid_set_no_limit():
    plan = plan_of(GivenOrder(10, 3), relation=RS)

    assert plan.max_steps(epsilon=plan.epsilon(DELTA), delta=DELTA) == 2**63 - 1
    assert plan.max_steps(epsilon=0.99 * plan.epsilon(DELTA), delta=DELTA) == 2


@pytest.mark.parametrize("target", [0.1, 1.0, 8.0])
@pytest.mark.parametrize(
    "plan",
    [*LADDER[:8:2], plan_of(PoissonSampling(0.1), clipping=AdaptiveClipping(1.0), noise=CosineDecay(3.0, 2.0))],
    ids=lambda plan: f"{plan.sampling} {plan.noise}",
)
def test_calibrated_noise_is_enough_and_a_little_less_is_not(plan, target):
    calibrated = plan.calibrated(epsilon=target, delta=DELTA)

    assert calibrated.epsilon(DELTA) <= target
    assert calibrated._scaled(1.0 - 1e-5).epsilon_bounds(DELTA).upper > target
    ratios = {
        Fraction(after) / Fraction(before)
        for before, after in zip(plan.noise_multipliers, calibrated.noise_multipliers, strict=True)
    }
    assert float(max(ratios) / min(ratios)) == pytest.approx(1.0, rel=1e-12)


def test_the_cost_so_far_never_falls_and_ends_at_the_plans():
    for plan in LADDER:
        so_far = [plan.epsilon_after(step, DELTA) for step in range(plan.num_steps + 1)]
        assert so_far[0] == 0.0
        assert so_far == sorted(so_far)
        assert so_far[-1] == plan.epsilon(DELTA)


def test_any_accountant_can_be_asked():
    plan = plan_of(PoissonSampling(0.1), steps=50)
    by_rdp = RdpAccountant()
    by_rdp.compose(poisson(0.1, 3.0), 50)

    assert plan.epsilon(DELTA, accountant="rdp") == by_rdp.epsilon(DELTA)
    assert plan.epsilon(DELTA, accountant=lambda: RdpAccountant([2, 4])) >= by_rdp.epsilon(DELTA)
    assert plan.epsilon(DELTA) <= by_rdp.epsilon(DELTA)


def test_a_forecast_says_what_the_plan_says():
    plan = plan_of(PoissonSampling(0.1), noise=DECAY, clipping=FlatClipping(0.5))
    forecast = plan.forecast(DELTA, num_points=6)

    assert forecast.steps == (1, 2, 3, 4, 5, 6)
    assert forecast.epsilon == tuple(plan.epsilon_after(step, DELTA) for step in forecast.steps)
    assert forecast.noise_multiplier == plan.noise_multipliers
    assert forecast.standard_deviation == tuple(0.5 * z for z in plan.noise_multipliers)
    assert forecast.expected_batch_size == 100.0
    assert len(str(forecast).splitlines()) == 8


def test_random_plans_cost_what_rdp_says_at_most_and_no_less_than_their_lower_bound():
    draw = random.Random(5)
    for _ in range(20):
        noise = draw.choice([ConstantNoise, lambda z: CosineDecay(z, z / 2), lambda z: StepDecay(z, 0.9, 7)])
        plan = plan_of(
            PoissonSampling(draw.choice([0.01, 0.2, 1.0])), steps=draw.randint(1, 30), noise=noise(draw.uniform(2, 8))
        )
        bounds = plan.epsilon_bounds(DELTA)
        assert bounds.lower <= bounds.upper <= plan.epsilon(DELTA, accountant="rdp")


@pytest.mark.parametrize(
    "noise",
    [
        ConstantNoise(1.5),
        PiecewiseNoise((2.0, 1.5, 1.5, 1.0), boundaries=(3, 5, 9)),
        InverseTimeDecay(2.0, rate=0.5, floor=0.7),
        StepDecay(2.0, factor=0.75, every=3, floor=1.0),
        ExponentialDecay(2.0, rate=0.2, floor=0.5),
        CosineDecay(2.0, final=1.0),
    ],
    ids=lambda noise: type(noise).__name__,
)
@pytest.mark.parametrize("num_steps", [1, 4, 10, 25])
def test_each_step_is_charged_at_its_own_noise(noise, num_steps):
    """Also where all later steps share a charge, since their noise does not change any more."""
    plan = PrivacyPlan(
        population_size=100, sampling=FullBatch(), num_steps=num_steps, clipping=FlatClipping(1.0), noise=noise
    )
    expected = tuple(noise.at(step, num_steps) for step in range(num_steps))

    assert plan.noise_multipliers == expected
    assert tuple(charge.event.noise_multiplier for charge in plan.charges()) == expected
