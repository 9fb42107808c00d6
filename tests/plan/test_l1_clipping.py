"""Plans with Laplace noise: exact sums of vectors that are clipped in L1 norm, the stated law, where it is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import PldAccountant
from ferrodp.errors import InvalidParameter
from ferrodp.events import LaplaceEvent, NeighboringRelation, PoissonSampledEvent
from ferrodp.plan import (
    ConstantNoise,
    CorrelatedNoise,
    FlatClipping,
    FullBatch,
    GivenOrder,
    L1Clipping,
    PoissonSampling,
    PrivacyPlan,
)
from ferrodp.plan.step import release_bounded
from ferrodp.testing import seeded

VALUES = [0.0, -0.0, 0.3, -0.7, 1e-20, 5e300, -1.7e308, math.inf, math.nan]


def plan_of(sampling=None, *, population=20, steps=2, clip_norm=0.7, noise=2.0, **more):
    return PrivacyPlan(
        population_size=population,
        sampling=sampling or FullBatch(),
        num_steps=steps,
        clipping=L1Clipping(clip_norm),
        noise=noise if isinstance(noise, CorrelatedNoise) else ConstantNoise(noise),
        **more,
    )


def sum_of(rows, dtype=np.float64, clip_norm=0.7):
    """Return the exact sum that a step has of some rows."""
    step = next(plan_of(population=max(1, len(rows)), clip_norm=clip_norm).start(np.zeros(rows.shape[1], dtype)))
    step.add(rows.astype(dtype))
    return [Fraction(each) for each in step._sum._total.values()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("clip_norm", [0.7, 1.0, 3e-5, 1e20])
def test_a_row_moves_the_sum_by_the_norm_at_most_in_exact_arithmetic(dtype, clip_norm):
    """All rows of three coordinates out of nine values, each beside another: 729 neighbors."""
    others = np.array([[0.2, -9.0, 4.0]])
    without = sum_of(others, dtype, clip_norm)
    longest = Fraction(0)
    with np.errstate(over="ignore"):
        rows = np.array(list(itertools.product(VALUES, repeat=3))).astype(dtype)
    for row in rows:
        moved = sum(
            abs(a - b) for a, b in zip(sum_of(np.vstack([others, row]), dtype, clip_norm), without, strict=True)
        )
        assert moved <= Fraction(clip_norm)
        if not np.isfinite(row).all():
            assert moved == 0
        longest = max(longest, moved)
    if (dtype, clip_norm) != (np.float32, 1e20):  # beside which all numbers of this type are small or infinite
        assert longest > Fraction(clip_norm) * (1 - Fraction(1, 2**22))


def test_short_rows_are_left_as_they_are():
    assert sum_of(np.array([[0.25, -0.125], [0.0, 0.5]])) == [Fraction(1, 4), Fraction(3, 8)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE])
def test_the_noise_of_a_release_is_laplace_noise_of_the_stated_scale(dtype, relation):
    """Kolmogorov's test of 200 000 coordinates: false alarm 2e-8 a case, by the inequality of Massart."""
    size, scale = 200_000, 3.0 * 0.7
    step = next(plan_of(noise=3.0, neighboring_relation=relation).start(np.zeros(size, dtype)))
    step.add(np.zeros((20, size), dtype))

    noise = np.sort(step.release(denominator=1).astype(float))

    tail = 0.5 * np.exp(-np.abs(noise) / scale)
    law = np.where(noise < 0, tail, 1 - tail)
    apart = max(np.abs(law - np.arange(size) / size).max(), np.abs(law - np.arange(1, size + 1) / size).max())
    assert apart < math.sqrt(math.log(2 / 2e-8) / (2 * size))


def test_a_release_is_divided_by_the_expected_batch_size():
    step = next(plan_of(clip_norm=100.0, noise=1e-6).start({"w": (1,)}))
    step.add({"w": np.full((20, 1), 3.0)})

    assert step.release()["w"][0] == pytest.approx(3.0, abs=0.01)  # noise of 5e-6


def test_one_added_vector_and_stacked_ones_are_the_same():
    template = {"a": np.zeros(2, np.float32), "b": np.zeros((2, 2), np.float32)}
    rng = np.random.default_rng(0)
    rows = {"a": rng.normal(size=(20, 2)).astype(np.float32), "b": rng.normal(size=(20, 2, 2)).astype(np.float32)}
    found = []
    for stacked in (True, False):
        step = next(plan_of().start(template, source=seeded(bytes(32))))
        if stacked:
            step.add(rows)
        else:
            for i in range(20):
                step.add_one({name: each[i] for name, each in rows.items()})
        found.append(step.release())
    assert all(np.array_equal(found[0][name], found[1][name]) for name in template)
    step = next(plan_of(population=1).start(np.zeros(2)))
    step.add_one(np.array([5.0, 2.25]), minus=np.array([5.0, 2.0]))
    assert step._sum._total.values().tolist() == [0.0, 0.25]


@pytest.mark.parametrize(
    ("plan", "event", "distance"),
    [
        (plan_of(), LaplaceEvent(noise_multiplier=2.0), 1),
        (plan_of(PoissonSampling(0.5), records_per_group=2), None, 2),
        (plan_of(GivenOrder(4), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL), None, 1),
        (plan_of(neighboring_relation=NeighboringRelation.REPLACE_ONE), LaplaceEvent(noise_multiplier=1.0), 2),
    ],
)
def test_cost_is_that_of_laplace_noise_for_what_neighbors_are_apart(plan, event, distance):
    run = plan.start(np.zeros(1))
    step = next(run)

    assert plan.distance == step._sum.distance == distance
    assert event is None or plan.event_after(1) == event
    assert plan.epsilon(1e-9) <= 2 * distance / 2.0 * (1 + 1e-9)  # pure ε of two steps, whatever the sample
    mechanism = fd.LaplaceMechanism(scale=2.0 * 0.7, l1_sensitivity=distance * 0.7)
    assert mechanism.epsilon(0.0) == pytest.approx(distance / 2.0)


def test_a_sampled_plan_is_accounted_as_a_sample_of_laplace_noise():
    plan = plan_of(PoissonSampling(0.1), population=1000, steps=50)
    accountant = PldAccountant()
    accountant.compose(PoissonSampledEvent(sampling_probability=0.1, event=LaplaceEvent(noise_multiplier=2.0)), 50)

    assert plan.epsilon(1e-6) == accountant.epsilon(1e-6) < 50 / 2.0 / 10
    assert plan.calibrated(epsilon=1.0, delta=1e-6).epsilon(1e-6) <= 1.0
    assert plan.epsilon(1e-6, accountant="rdp") >= plan.epsilon(1e-6)
    assert plan.forecast(1e-6).standard_deviation[0] == pytest.approx(2.0 * 0.7 * math.sqrt(2))


def test_a_ledger_is_charged_and_the_training_goes_on(tmp_path):
    plan = plan_of(PoissonSampling(0.5), population=30, steps=3)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("s", epsilon=10.0, delta=1e-6, measure="pure")
        run = plan.start({"w": (2,)}, ledger=ledger, scope="s", key="k", plan_delta=1e-6)
        step = next(run)
        step.add({"w": np.ones((len(step.indices), 2))})
        step.release()
        again = plan.start({"w": (2,)}, ledger=ledger, scope="s", key="k", plan_delta=1e-6)
        numbers = []
        for step in again:
            step.add({"w": np.ones((len(step.indices), 2))})
            step.release()
            numbers.append(step.number)
        assert numbers == [1, 2]
        assert ledger.report("s").epsilon_charged == plan.epsilon(1e-6)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: next(plan_of().start(np.zeros(2))).release_sum(np.zeros(2)), "clips in L2 norm, got L1Clipping"),
        (
            lambda: release_bounded(next(plan_of().start(np.zeros(2))), np.zeros(2), count=20, within=20),
            "clips in L2 norm, got L1Clipping",
        ),
        (
            lambda: next(plan_of().start(np.zeros(2))).merge(fd.ClippedSum(np.zeros(2), clip_norm=0.7)),
            "with L1Clipping",
        ),
        (lambda: plan_of().start(np.zeros(2), audit_canaries=1000), "audit_canaries must be 0 with L1Clipping"),
        (lambda: plan_of().start(np.zeros(2)).keep_sums(print), "must be without L1Clipping"),
        (lambda: plan_of(population=2**22 + 1), "population_size must be at most 4194304 with L1Clipping"),
        (
            lambda: plan_of(
                steps=4, noise=CorrelatedNoise(fd.correlated.BufferedToeplitz(num_steps=4, buffers=2), 1.0)
            ),
            "FlatClipping",
        ),
    ],
)
def test_what_has_no_laplace_noise_refuses_it(call, match):
    with pytest.raises(InvalidParameter, match=match):
        call()


def test_what_is_refused_is_not_charged(tmp_path):
    plan = plan_of(PoissonSampling(0.5))
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("s", epsilon=10.0, delta=1e-6, measure="rdp")
        step = next(plan.start(np.zeros(2), ledger=ledger, scope="s"))
        with pytest.raises(InvalidParameter):
            step.release_sum(np.zeros(2))
        with pytest.raises(InvalidParameter):
            release_bounded(step, np.zeros(2), count=len(step.indices), within=0)
        assert (ledger.report("s").held, ledger.report("s").spent) == (1, 0)
        step.add(np.zeros((len(step.indices), 2)))
        step.release()
        assert (ledger.report("s").held, ledger.report("s").spent) == (0, 1)


def test_placed_rounds_refuse_it():
    plan = plan_of(unit="client")
    with pytest.raises(InvalidParameter, match="FlatClipping"):
        fd.federated.PlacedRun(plan, {"w": (2,)}, fd.federated.LocalPlacement())


def test_flat_clipping_is_as_it_was():
    plan = PrivacyPlan(
        population_size=20, sampling=FullBatch(), num_steps=1, clipping=FlatClipping(1.0), noise=ConstantNoise(1.0)
    )
    assert plan.forecast(1e-6).standard_deviation == (1.0,)
