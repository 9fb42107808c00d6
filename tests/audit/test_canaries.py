"""Audits of one training by canaries: bounds that hold, defects that are caught, guarantees that do not change."""

import json
import math

import numpy as np
import pytest

from ferrodp.accounting import PldAccountant, gaussian_epsilon, gaussian_noise_multiplier
from ferrodp.audit import _canary_bounds, audit_canaries, smallest_canary_violation
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.plan import (
    AdaptiveClipping,
    AutomaticClipping,
    ConstantNoise,
    CyclicPoisson,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    GivenOrder,
    PerGroupClipping,
    PlanRun,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
)
from ferrodp.sums import canary_coordinates, clipped
from ferrodp.testing import seeded
from ferrodp.training import train

DELTA = 1e-5
MU = 1.0 / gaussian_noise_multiplier(epsilon=4.0, delta=DELTA)


def scored(rng, canaries, mu):
    included = rng.random(canaries) < 0.5
    return mu * included + rng.normal(size=canaries), included


def trained(**options):
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=60)
    return train(np.eye(3)[labels], labels, epsilon=4.0, delta=DELTA, classes=range(3), **options)


def test_bounds_of_the_papers_setting_are_reproduced():
    """True ε = 4, 95 %: guesses 2.1 and scores 3.8 of 10⁴ canaries, 2.4 to 2.7 and 3.95 of 10⁵; medians of five."""
    rng = np.random.default_rng(1)
    for canaries, guessed, normal in ((10**4, 2.0, 3.80), (10**5, 2.4, 3.93)):
        found = []
        for _ in range(5):
            scores, included = scored(rng, canaries, MU)
            found.append(audit_canaries(scores, included, epsilon=4.0, delta=DELTA, confidence=0.95).bounds)
        assert abs(np.median([each["guesses"] for each in found]) - guessed) < 0.35
        assert abs(np.median([each["gaussian"] for each in found]) - normal) < 0.12
        assert all(each["guesses"] < each["f_dp"] < each["gaussian"] for each in found)


def test_bounds_are_too_large_no_more_often_than_stated():
    """At confidence 90 %, of 300 trainings: 30 are expected at most, more than 60 with probability below 1e-6."""
    rng = np.random.default_rng(2)
    wrong = dict.fromkeys(("guesses", "f_dp", "gaussian"), 0)
    evidence = 0
    for _ in range(300):
        report = audit_canaries(*scored(rng, 200, MU), epsilon=4.0, delta=DELTA, confidence=0.9)
        for name, bound in report.bounds.items():
            wrong[name] += bound > 4.0
        evidence += report.e_value > 5.0

    assert max(wrong.values()) <= 60
    assert wrong["gaussian"] >= 8  # it is as tight as stated: fewer with probability below 1e-6
    assert evidence <= 95  # 60 at most are expected


def test_the_bound_of_guesses_is_that_of_a_binomial_law_without_delta():
    """Randomized response reaches it: 80 of 100 right at ε have the tail of Bin(100, e^ε/(1 + e^ε))."""
    p = math.e / (1.0 + math.e)
    exact = math.fsum(math.comb(100, k) * p**k * (1.0 - p) ** (100 - k) for k in range(80, 101))
    found = _canary_bounds.chance(1.0, 0.0, canaries=100, guesses=100, correct=80)
    assert exact <= found <= exact * (1.0 + 1e-5)
    assert _canary_bounds.chance(1.0, 1e-3, canaries=100, guesses=100, correct=80) > found + 1e-3


@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_a_gaussian_curve_is_not_refuted_by_the_largest_quantile_of_its_own_guesses(mu):
    """Of two canaries, both guessed by the sign of their scores, all laws are known: Bin(2, Φ(μ/2))."""
    right = _canary_bounds.NORMAL.cdf(0.5 * mu)
    made = {"canaries": 2, "guesses": 2, "correct": 2}
    assert not _canary_bounds.is_refuted_at(mu, right**2 * 0.999, **made)
    assert _canary_bounds.is_refuted_at(mu, _canary_bounds.NORMAL.cdf(mu), **made)


def test_more_shown_is_more_bound_and_nothing_shown_is_nothing():
    rng = np.random.default_rng(3)
    scores, included = scored(rng, 1000, 0.0)
    none = audit_canaries(-scores * (2.0 * included - 1.0), included, epsilon=1.0, delta=DELTA)
    assert all(bound < 1.0 for bound in none.bounds.values())
    assert not none.violation
    all_known = audit_canaries(included + 0.0, included, epsilon=2.0, delta=DELTA, method="gaussian")
    assert all_known.violation
    assert all_known.epsilon_lower_bound == math.inf
    assert all_known.e_value > 100
    assert json.loads(all_known.to_json())["epsilon_lower_bound"] == "inf"
    assert "VIOLATED" in str(all_known)
    assert all_known.roc[0] == (0.0, 0.0)
    assert (0.0, 1.0) in all_known.roc


@pytest.mark.parametrize("method", ["guesses", "f_dp", "gaussian"])
def test_the_least_visible_violation_is_seen_nine_times_of_ten(method):
    """Of 150 trainings 135 are expected; fewer than 110 with probability below 1e-6."""
    options = {"epsilon": 1.0, "delta": DELTA, "method": method, "confidence": 0.99}
    visible = smallest_canary_violation(canaries=500, **options)
    mu = 1.0 / gaussian_noise_multiplier(epsilon=visible, delta=DELTA)
    rng = np.random.default_rng(4)
    seen = sum(audit_canaries(*scored(rng, 500, mu), **options).violation for _ in range(150))
    assert 1.0 < visible < 12.0
    assert seen >= 110


def test_what_cannot_be_tested_is_refused():
    scores, included = scored(np.random.default_rng(0), 50, 1.0)
    claim = {"epsilon": 1.0, "delta": DELTA}
    for bad in ({"method": "other"}, {"confidence": 1.0}, {"guesses": 51}, {"guesses": 7}, {"epsilon": -1.0}):
        with pytest.raises(InvalidParameter):
            audit_canaries(scores, included, **{**claim, **bad})
    with pytest.raises(InvalidArrayType):
        audit_canaries(scores, included.astype(int), **claim)
    for bad in ((scores[1:], included), (scores * np.inf, included), (scores, included | True)):
        with pytest.raises(InvalidArray):
            audit_canaries(*bad, **claim)
    with pytest.raises(InvalidParameter, match="at least 20"):
        audit_canaries(scores[:10], included[:10], **claim)


PLANS = {
    "full": {"sampling": FullBatch()},
    "poisson": {"sampling": PoissonSampling(0.3)},
    "replaced": {"sampling": PoissonSampling(0.5), "neighboring_relation": NeighboringRelation.REPLACE_ONE},
    "fixed": {"sampling": FixedSizeSampling(10)},
    "allocated": {"sampling": RandomAllocation(5)},
    "cyclic": {"sampling": CyclicPoisson(0.5, 2), "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL},
    "given": {
        "sampling": GivenOrder(5, max_participations=4),
        "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL,
    },
    "normalized": {"sampling": FullBatch(), "clipping": AutomaticClipping(0.01, 2.0)},
    "adaptive": {"sampling": FullBatch(), "clipping": AdaptiveClipping(0.5)},
    "grouped": {"sampling": FullBatch(), "records_per_group": 3},
}


@pytest.mark.parametrize("name", PLANS)
def test_canaries_of_every_plan_show_some_of_its_epsilon_and_no_more(name):
    """At confidence 1 − 1e-7. They add nothing to the released sums.

    The least shares lie six standard deviations of 60 runs below their means: full batches .84 and .03, Poisson .52
    and .055. The others spread more, and are only told from nothing.
    """
    settings = {"clipping": FlatClipping(0.5), **PLANS[name]}
    plan = PrivacyPlan(population_size=30, num_steps=20, noise=ConstantNoise(2.0), **settings)
    run = plan.start(np.zeros(2), audit_canaries=2000)
    for step in run:
        rows = 5 if step.indices is None else len(step.groups or step.indices)
        step.add(np.zeros((rows, 2)))
        released = step.release(denominator=1.0)
        assert released.shape == (2,)
        assert np.abs(released).max() < 10 * 2.0 * 2.0 * step.clip_norm  # eight thousand of them are below 9 deviations
    report = run.audit(DELTA, confidence=1.0 - 1e-7)
    assert not report.violation
    sampled = {"poisson": 0.18, "fixed": 0.05, "allocated": 0.05, "cyclic": 0.3, "given": 0.4}
    assert sampled.get(name, 0.64) * report.epsilon < report.epsilon_lower_bound <= report.epsilon
    assert report.epsilon == run.epsilon(DELTA)


def test_groups_have_one_coordinate_for_each_canary():
    plan = PrivacyPlan(
        population_size=4,
        sampling=FullBatch(),
        num_steps=6,
        clipping=PerGroupClipping({"a": 3.0, "b": 4.0}),
        noise=ConstantNoise(2.0),
    )
    run = plan.start({"a": (2,), "b": (3,)}, audit_canaries=4000)
    for step in run:
        step.add({"a": np.ones((4, 2)), "b": np.ones((4, 3))})
        step.release()
    report = run.audit(DELTA, confidence=1.0 - 1e-7)
    assert 0.6 * report.epsilon < report.epsilon_lower_bound <= report.epsilon


def test_sums_of_the_caller_and_frameworks_have_canaries_too():
    plan = PrivacyPlan(
        population_size=4, sampling=FullBatch(), num_steps=6, clipping=FlatClipping(0.5), noise=ConstantNoise(2.0)
    )
    run = plan.start(np.zeros(2, np.float32), audit_canaries=4000)
    for step in run:
        released = step.release_sum(np.zeros(2, np.float32))
        assert released.shape == (2,)
        assert released.dtype == np.float32
    report = run.audit(DELTA, confidence=1.0 - 1e-7)
    assert 0.6 * report.epsilon < report.epsilon_lower_bound <= report.epsilon


def test_a_model_has_the_same_values_with_canaries_where_nothing_is_sampled():
    """The noise of the model's coordinates is drawn first."""
    plan = PrivacyPlan(
        population_size=4, sampling=FullBatch(), num_steps=1, clipping=FlatClipping(0.5), noise=ConstantNoise(2.0)
    )
    source = seeded(bytes(32))
    source.gaussian(1, standard_deviation=1.0)  # the coins
    runs = plan.start(np.zeros(3), source=source), plan.start(np.zeros(3), source=seeded(bytes(32)), audit_canaries=20)
    found = []
    for run in runs:
        step = next(run)
        step.add(np.ones((4, 3)))
        found.append(step.release())
    assert np.array_equal(*found)
    assert runs[1].epsilon(DELTA) == math.inf
    assert runs[1].audit(DELTA).epsilon == plan.epsilon(DELTA)


def test_the_trainer_reports_what_its_canaries_showed():
    model = trained(audit_canaries=1000)
    assert model.audit.epsilon == model.epsilon
    assert not model.audit.violation or model.audit.epsilon_lower_bound < 1.2 * model.epsilon  # 0.1 % of trainings
    assert model.audit.epsilon_lower_bound > 0.36 * model.epsilon  # mean .73, standard deviation .06
    assert trained().audit is None
    for bad in (-1, 19):
        with pytest.raises(InvalidParameter):
            trained(audit_canaries=bad)


@pytest.mark.parametrize("defect", ["no clipping", "no noise", "half the noise", "noise of another norm"])
def test_a_trainer_without_its_clipping_or_noise_is_caught(defect, monkeypatch):
    def quieter(total, multiplier, *options, **others):
        share = {"no noise": 1e-6, "half the noise": 0.5, "noise of another norm": 0.1}[defect]
        return clipped.release_flat(total, multiplier * share, *options, **others)

    if defect == "no clipping":
        monkeypatch.setattr(
            canary_coordinates,
            "canary_vector",
            lambda total: np.array([int(20.0 * total.clip_norm / total.granularity)]),
        )
    else:
        monkeypatch.setattr("ferrodp.plan._sums.release_flat", quieter)
    for _ in range(3):
        report = trained(audit_canaries=1000).audit
        assert report.violation
        assert report.epsilon_lower_bound > 1.3 * report.epsilon


def test_a_run_without_canaries_has_no_audit():
    plan = PrivacyPlan(
        population_size=4, sampling=FullBatch(), num_steps=1, clipping=FlatClipping(0.5), noise=ConstantNoise(2.0)
    )
    with pytest.raises(FerroError, match="audit_canaries"):
        plan.start(np.zeros(3)).audit(DELTA)
    run = plan.start(np.zeros(3), audit_canaries=100)
    step = next(run)
    step._sum.signs = None  # as of a release that knows no canaries
    step.add(np.ones((4, 3)))
    step.release()
    with pytest.raises(FerroError, match="leaves canaries out"):
        run.audit(DELTA)


@pytest.mark.parametrize("sampling", [FullBatch(), PoissonSampling(0.5)])
def test_a_run_that_goes_on_from_a_state_has_its_canaries(sampling):
    plan = PrivacyPlan(
        population_size=8, sampling=sampling, num_steps=6, clipping=FlatClipping(0.5), noise=ConstantNoise(2.0)
    )
    run = plan.start(np.zeros(3), audit_canaries=2000)
    for _ in range(3):
        step = next(run)
        step.add(np.ones((len(step.indices), 3)))
        step.release()
    before, state = run.audit(DELTA), run.state()
    run.close()
    again = PlanRun.from_state(state)

    assert again.audit(DELTA).to_dict() == before.to_dict()
    for step in again:
        step.add(np.ones((len(step.indices), 3)))
        step.release()
    after = again.audit(DELTA, confidence=1 - 1e-9)
    assert after.epsilon == plan.epsilon(DELTA)
    assert 0.05 * after.epsilon < after.epsilon_lower_bound <= after.epsilon  # mean .43, standard deviation .06
    assert "canaries" not in json.loads(plan.start(np.zeros(3)).state())


def test_a_state_with_other_canaries_is_refused():
    plan = PrivacyPlan(
        population_size=8, sampling=FullBatch(), num_steps=6, clipping=FlatClipping(0.5), noise=ConstantNoise(2.0)
    )
    state = json.loads(plan.start(np.zeros(3), audit_canaries=20).state())
    good = state["canaries"]
    for bad in (
        None,
        [],
        {**good, "more": 1},
        {**good, "included": good["included"][:-1]},
        {**good, "included": [2] * 20},
        {**good, "included": [True] * 20},
        {**good, "scores": ["nan"] * 20},
        {**good, "scores": [0.0] * 20},
        {**good, "missed": 0},
        {"included": [1], "scores": ["0x0p+0"], "missed": False},
    ):
        with pytest.raises(InvalidParameter, match="canaries are none"):
            PlanRun.from_state(json.dumps({**state, "canaries": bad}).encode())


def trained_by_hand(rows, labels, rng, *, clip=1.0, noise=8.0, clip_after=False, steps=16):
    """Return the weights of a logistic regression that somebody wrote in numpy: full batches, float noise."""
    weights = np.zeros(rows.shape[1])
    for _ in range(steps):
        gradients = (1.0 / (1.0 + np.exp(-rows @ weights)) - labels)[:, None] * rows
        if clip_after:
            total = gradients.sum(axis=0)
            total *= min(1.0, 200.0 * clip / np.linalg.norm(total))
        else:
            total = (gradients * np.minimum(1.0, clip / np.linalg.norm(gradients, axis=1))[:, None]).sum(axis=0)
        weights -= 1e-5 * (total + noise * rng.normal(size=weights.size))
    return weights


@pytest.mark.parametrize(
    ("defect", "is_sound"),
    [
        ({}, True),
        ({"clip": 1e6}, False),
        ({"noise": 0.0}, False),
        ({"noise": 0.8}, False),
        ({"clip_after": True}, False),
    ],
)
def test_a_trainer_of_somebody_else_without_its_clip_or_noise_is_caught_in_every_run(defect, is_sound):
    """It claims 16 steps of noise 8: μ = 0.5. Canaries are long rows in directions of their own."""
    rng = np.random.default_rng(21)
    claimed = gaussian_epsilon(delta=DELTA, noise_multiplier=2.0)
    for _ in range(10):
        included = rng.random(300) < 0.5
        canaries = 200.0 * np.eye(300, 310)[included]
        people = np.hstack([np.zeros((100, 300)), rng.normal(size=(100, 10))])
        labels = np.concatenate([np.ones(len(canaries)), people[:, -1] > 0])
        weights = trained_by_hand(np.vstack([canaries, people]), labels, rng, **defect)
        report = audit_canaries(weights[:300], included, epsilon=claimed, delta=DELTA, guesses=200)
        assert report.violation != is_sound, str(report)
        assert is_sound or report.epsilon_lower_bound > 1.1 * claimed


def test_certified_and_shown_are_of_the_same_steps():
    plan = PrivacyPlan(
        population_size=4, sampling=FullBatch(), num_steps=9, clipping=FlatClipping(0.5), noise=ConstantNoise(2.0)
    )
    run = plan.start(np.zeros(3), audit_canaries=100)
    step = next(run)
    step.add(np.ones((4, 3)))
    step.release()
    assert (
        run.audit(DELTA).epsilon
        == plan.epsilon_after(1, DELTA)
        == pytest.approx(gaussian_epsilon(delta=DELTA, noise_multiplier=2.0), rel=1e-9)
    )
    counted = PldAccountant()
    counted.compose(plan.event_after(1))
    assert run.audit(DELTA).epsilon == counted.epsilon(DELTA)
