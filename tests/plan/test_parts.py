"""Samplings, clippings and noise schedules: what they accept, what they say, and what they are in JSON."""

import dataclasses
import json
import math

import pytest

import ferrodp as fd
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
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
    L1Clipping,
    PerGroupClipping,
    PiecewiseNoise,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
    StepDecay,
)

SCHEDULES = {
    "constant": (ConstantNoise(2.0), lambda t: 2.0),
    "inverse time": (InverseTimeDecay(2.0, 0.5), lambda t: 2.0 / (1.0 + 0.5 * t)),
    "inverse time with a floor": (InverseTimeDecay(2.0, 0.5, 0.9), lambda t: max(2.0 / (1.0 + 0.5 * t), 0.9)),
    "step": (StepDecay(2.0, 0.5, 3), lambda t: 2.0 * 0.5 ** (t // 3)),
    "step of one": (StepDecay(2.0, 0.9), lambda t: 2.0 * 0.9**t),
    "exponential": (ExponentialDecay(2.0, 0.1), lambda t: 2.0 * math.exp(-0.1 * t)),
    "cosine": (CosineDecay(2.0, 1.0), lambda t: 1.0 + 0.5 * (1 + math.cos(math.pi * min(t, 9) / 9))),
    "rising cosine": (CosineDecay(1.0, 2.0), lambda t: 2.0 - 0.5 * (1 + math.cos(math.pi * min(t, 9) / 9))),
    "piecewise": (PiecewiseNoise((2.0, 1.0, 3.0), (2, 5)), lambda t: 2.0 if t < 2 else 1.0 if t < 5 else 3.0),
    "piecewise with a floor": (PiecewiseNoise((2.0, 1.0), (2,), 1.5), lambda t: 2.0 if t < 2 else 1.5),
}
RELATION = NeighboringRelation.REPLACE_SPECIAL


def plan_of(**parts):
    given = {
        "population_size": 1000,
        "sampling": PoissonSampling(0.1),
        "num_steps": 10,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(2.0),
        "neighboring_relation": RELATION,
    }
    return PrivacyPlan(**given | parts)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_its_formula(name):
    schedule, formula = SCHEDULES[name]

    for step in range(25):
        assert schedule.at(step, 10) == pytest.approx(formula(step), rel=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_scaled_schedule_has_every_multiplier_times_the_factor(name):
    schedule, _ = SCHEDULES[name]

    for step in range(12):
        assert schedule.scaled(3).at(step, 10) == pytest.approx(3 * schedule.at(step, 10), rel=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_from_its_constant_end_on_a_schedule_does_not_change(name):
    schedule, _ = SCHEDULES[name]
    end = schedule._constant_from(10)

    if end is None:
        assert schedule.at(1000, 10) < schedule.at(100, 10)
    else:
        assert {schedule.at(step, 10) for step in range(end, end + 40)} == {schedule.at(10**6, 10)}
        assert end == 0 or schedule.at(end - 1, 10) != schedule.at(end, 10)


PARTS = {
    "sampling": [
        PoissonSampling(0.25),
        FixedSizeSampling(10),
        RandomAllocation(10, 2),
        CyclicPoisson(0.5, 4),
        FullBatch(),
        GivenOrder(32),
        GivenOrder(32, 3),
    ],
    "clipping": [
        FlatClipping(0.1),
        L1Clipping(0.1),
        PerGroupClipping({"w": 1.0, "b": 0.5}),
        AutomaticClipping(0.02, 2.0),
        AdaptiveClipping(0.1, 0.4, 0.3, 30.0, "linear"),
    ],
    "noise": [
        schedule.scaled(2.0) for name, (schedule, _) in SCHEDULES.items() if name != "step of one" or schedule is None
    ],
}
CASES = [(field, part) for field, parts in PARTS.items() for part in parts]


@pytest.mark.parametrize(("field", "part"), CASES, ids=lambda value: str(value))
def test_json_keeps_every_part_of_a_plan(field, part):
    if isinstance(part, RandomAllocation):
        plan = plan_of(sampling=part, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    else:
        plan = plan_of(**{field: part})
    again = PrivacyPlan.from_json(plan.to_json(indent=2))

    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert hash(again) == hash(plan)
    assert again.event == plan.event


def test_every_change_of_a_plan_changes_its_fingerprint():
    plans = [plan_of(**{field: part}) for field, part in CASES if not isinstance(part, RandomAllocation)]
    plans += [
        plan_of(unit="client"),
        plan_of(num_steps=11),
        plan_of(population_size=1001),
        plan_of(records_per_group=2),
    ]
    distinct = {plan.to_json(): plan.fingerprint for plan in plans}

    assert len(set(distinct.values())) == len(distinct) >= 20


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": True},
        {"format": "something"},
        {"extra": 1},
        {"noise": {"type": "constant"}},
        {"noise": {"type": "constant", "noise_multiplier": 1.0, "more": 1}},
        {"noise": {"type": "flat", "clip_norm": 1.0}},
        {"noise": {"type": "constant", "noise_multiplier": "1.0"}},
        {"sampling": None},
        {"sampling": {"type": ["poisson"]}},
        {"neighboring_relation": "add"},
        {"num_steps": 10.0},
        {"num_steps": 0},
        {"unit": "user"},
        {"clipping": {"type": "per_group", "clip_norms": {}}},
    ],
)
def test_json_that_is_not_exactly_a_plan_is_refused(change):
    plain = json.loads(plan_of().to_json()) | change

    with pytest.raises((InvalidParameter, InvalidType)):
        PrivacyPlan.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, b"\xff", 7, None])
def test_text_that_is_no_plan_is_refused(text):
    with pytest.raises((InvalidParameter, InvalidType)):
        PrivacyPlan.from_json(text)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"sampling": 0.1}, "sampling must be a Sampling such as PoissonSampling"),
        ({"noise": 1.1}, "noise must be a NoiseSchedule such as ConstantNoise"),
        ({"clipping": 1.0}, "clipping must be a Clipping such as FlatClipping"),
        ({"num_steps": 10**7 + 1}, "num_steps must be"),
        ({"population_size": 0}, "population_size must be"),
        ({"sampling": FixedSizeSampling(1001)}, "size must be at most population_size = 1000"),
        ({"sampling": FixedSizeSampling(5), "population_size": None}, "population_size must be given"),
        ({"clipping": AdaptiveClipping(1.0, count_noise_multiplier=2.0)}, "count_noise_multiplier must be > noise"),
        ({"clipping": AdaptiveClipping(1.0), "population_size": None}, "population_size must be given"),
        ({"records_per_group": 2, "sampling": FixedSizeSampling(5)}, "records_per_group must be 1"),
        ({"noise": ConstantNoise(1e9)}, "noise must have multipliers"),
        ({"clipping": PerGroupClipping({"a": 1e-9, "b": 1.0})}, "clip norms of groups differ too much"),
        ({"noise": ExponentialDecay(1.0, 400.0)}, "noise must have a floor"),
        (
            {"sampling": GivenOrder(5), "neighboring_relation": NeighboringRelation.ADD_OR_REMOVE_ONE},
            "would move others",
        ),
        (
            {"sampling": CyclicPoisson(0.5, 2), "neighboring_relation": NeighboringRelation.ADD_OR_REMOVE_ONE},
            "would move others",
        ),
        ({"neighboring_relation": "add"}, "neighboring_relation must be one of add_or_remove_one"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(parts, said):
    with pytest.raises((InvalidParameter, InvalidType), match=said):
        plan_of(**parts)


@pytest.mark.parametrize(
    "make",
    [
        lambda bad: PoissonSampling(bad),
        lambda bad: CyclicPoisson(bad, 2),
        lambda bad: ConstantNoise(bad),
        lambda bad: InverseTimeDecay(bad, 1.0),
        lambda bad: StepDecay(1.0, bad),
        lambda bad: CosineDecay(1.0, bad),
        lambda bad: PiecewiseNoise((1.0, bad), (1,)),
        lambda bad: FlatClipping(bad),
        lambda bad: PerGroupClipping({"w": bad}),
        lambda bad: AutomaticClipping(bad),
        lambda bad: L1Clipping(bad),
        lambda bad: AdaptiveClipping(bad),
        lambda bad: AdaptiveClipping(1.0, bad),
        lambda bad: ConstantNoise(1.0).scaled(bad),
    ],
)
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True, [1.0]])
def test_numbers_that_are_none_are_refused(make, bad):
    with pytest.raises((InvalidParameter, InvalidType)):
        make(bad)


def test_parts_are_immutable_values():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ConstantNoise(1.0).noise_multiplier = 2.0
    with pytest.raises(TypeError):
        PerGroupClipping({"w": 1.0}).clip_norms["w"] = 2.0
    assert PerGroupClipping({"b": 1.0, "w": 2.0}) == PerGroupClipping({"w": 2.0, "b": 1.0})
    assert fd.PrivacyPlan is PrivacyPlan
