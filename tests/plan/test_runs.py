"""Runs of a plan: what is drawn, clipped, noised and divided; and the mistakes that they make impossible."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import PldAccountant
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, NonPrivateEvent, PoissonSampledEvent
from ferrodp.plan import (
    AdaptiveClipping,
    AutomaticClipping,
    ConstantNoise,
    CosineDecay,
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
from ferrodp.plan.step import release_flat
from ferrodp.testing import SeededNoiseSource
from support import children

AO, RO, RS = NeighboringRelation
DELTA = 1e-5
WIDTH = 4


def plan_of(sampling=None, *, steps=3, population=100, relation=AO, clipping=None, noise=None, **others):
    return PrivacyPlan(
        population_size=population,
        sampling=sampling or PoissonSampling(0.5),
        num_steps=steps,
        clipping=clipping or FlatClipping(1.0),
        noise=noise or ConstantNoise(2.0),
        neighboring_relation=relation,
        **others,
    )


def rows(step, value=1.0):
    return np.full((len(step.indices), WIDTH), value)


def finished(run, gradients=rows):
    released = []
    for step in run:
        step.add(gradients(step))
        released.append(step.release())
    return released


SAMPLINGS = [
    (PoissonSampling(0.3), AO),
    (FixedSizeSampling(30), RO),
    (RandomAllocation(3, 2), AO),
    (CyclicPoisson(0.5, 2), RS),
    (FullBatch(), RO),
]


@pytest.mark.parametrize(("sampling", "relation"), SAMPLINGS)
def test_a_run_has_the_steps_of_its_plan_and_costs_what_it_says(sampling, relation):
    plan = plan_of(sampling, relation=relation, steps=5)
    run = plan.start((WIDTH,))

    released = finished(run)

    assert len(released) == 5
    assert run.stopped == "finished"
    assert run.stop_reason is None
    assert run.epsilon(DELTA) == plan.epsilon(DELTA)
    assert list(run) == []


def test_units_are_drawn_by_the_law_that_is_accounted():
    """False alarm 1e-6 a case: 5 standard deviations of a binomial count."""
    steps, size = 400, 100
    share = {
        PoissonSampling(0.3): 0.3,
        FixedSizeSampling(30): 0.3,
        RandomAllocation(5, 2): 0.4,
        CyclicPoisson(0.6, 2): 0.3,
    }
    for sampling, chance in share.items():
        run = plan_of(sampling, steps=steps, relation=RS, population=size).start((WIDTH,))
        seen = np.zeros((steps, size))
        for step in run:
            assert (np.diff(step.indices) > 0).all()
            assert step.indices.dtype == np.int64
            seen[step.number, step.indices] = 1
            step.add(rows(step))
            step.release()
        deviation = math.sqrt(chance * (1 - chance) / (steps * size))
        assert abs(seen.mean() - chance) < 5 * deviation
        if isinstance(sampling, FixedSizeSampling):
            assert (seen.sum(axis=1) == 30).all()
        if isinstance(sampling, RandomAllocation):
            assert (seen.reshape(-1, 5, size).sum(axis=1) == 2).all()
        if isinstance(sampling, CyclicPoisson):
            assert not seen[0::2, 1::2].any()
            assert not seen[1::2, 0::2].any()
        if isinstance(sampling, PoissonSampling):
            assert abs(np.corrcoef(seen[:-1, 0], seen[1:, 0])[0, 1]) < 5 / math.sqrt(steps)


CLIPPINGS = {
    "flat": FlatClipping(0.5),
    "automatic": AutomaticClipping(0.25, 0.5),
    "per group": PerGroupClipping({"a": 0.3, "b": 0.4}),
    "adaptive": AdaptiveClipping(0.5, count_noise_multiplier=20.0, learning_rate=1e-9),
}


@pytest.mark.parametrize("name", CLIPPINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_release_is_the_sum_of_clipped_vectors_with_the_stated_noise(name, dtype):
    """False alarm 1e-6: 5 standard errors of mean and variance over 40 000 coordinates."""
    size, count = 20_000, 50
    plan = plan_of(FullBatch(), clipping=CLIPPINGS[name], population=count, steps=1, noise=ConstantNoise(3.0))
    template = {"a": np.zeros(size, dtype), "b": np.zeros(size, dtype)}
    step = next(plan.start(template))
    gradient = np.zeros((count, size), dtype)
    gradient[:, 0] = 3.0
    step.add({"a": gradient, "b": gradient.copy()})
    released = step.release(denominator=1)

    joint = 3.0 * math.sqrt(2.0)
    if name == "per group":
        deviation, clipped = 3.0 * 0.5, {"a": 0.3, "b": 0.4}
    else:
        split = 1.0 / math.sqrt(1.0 - (3.0 / 20.0) ** 2) if name == "adaptive" else 1.0
        each = 0.5 * 3.0 / (joint + 0.25) if name == "automatic" else 0.5 * 3.0 / joint
        deviation, clipped = 3.0 * 0.5 * split, {"a": each, "b": each}
    noise = np.concatenate([released["a"][1:], released["b"][1:]]).astype(float)
    assert abs(noise.mean()) < 5 * deviation / math.sqrt(noise.size)
    assert abs(noise.var() / deviation**2 - 1) < 5 * math.sqrt(2 / noise.size)
    for group in ("a", "b"):
        assert released[group].dtype == dtype
        assert abs(released[group][0] - count * clipped[group]) < 5 * deviation


# what the four objects of others let happen


def test_noise_and_cost_come_from_one_schedule():
    plan = plan_of(noise=CosineDecay(4.0, 2.0), steps=4)
    accountant = PldAccountant()
    for step in (run := plan.start((WIDTH,))):
        event = GaussianEvent(noise_multiplier=step.noise_multiplier)
        accountant.compose(PoissonSampledEvent(sampling_probability=0.5, event=event))
        step.add(rows(step))
        step.release()
        assert run.epsilon(DELTA) == accountant.epsilon(DELTA)


@pytest.mark.parametrize(("sampling", "relation"), SAMPLINGS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_batch_that_was_not_drawn_is_refused_before_any_noise(sampling, relation, change):
    run = plan_of(sampling, relation=relation, population=1000).start((WIDTH,))
    step = next(run)
    step.add(np.ones((len(step.indices) + change, WIDTH)))

    with pytest.raises(FerroError, match="must be that of the units drawn") as caught:
        step.release()
    assert str(len(step.indices)) not in str(caught.value)  # how many there are is secret
    assert run.epsilon(DELTA) == 0.0
    if change < 0:
        step.add(np.ones((1, WIDTH)))
        step.release()
        assert run.epsilon(DELTA) > 0.0


@pytest.mark.parametrize("bad", [np.ones((4, 3), np.float32), np.ones((4, 2)), np.full((4, 3), "no number")])
def test_a_vector_that_one_group_refuses_is_added_to_none(bad):
    """The one that is added in its place would count twice in the groups before."""
    clipping = PerGroupClipping({"a": 1.0, "b": 1.0})
    plan = plan_of(GivenOrder(64, 1), relation=RS, clipping=clipping)
    step = next(plan.start({"a": (2,), "b": (3,)}))
    good = {"a": np.ones((4, 2)), "b": np.ones((4, 3))}
    with pytest.raises((InvalidArray, InvalidArrayType)):
        step.add(good | {"b": bad})
    with pytest.raises((InvalidArray, InvalidArrayType)):
        step.add_one({"a": good["a"][0], "b": bad[0]})
    with pytest.raises((InvalidArray, InvalidArrayType)):
        step.add_one({name: rows[0] for name, rows in good.items()}, minus={"a": good["a"][0], "b": bad[0]})
    assert {total.count for total in step._sum._totals.values()} == {0}
    assert not any(total.integers.any() for total in step._sum._totals.values())
    step.add(good)
    step.add_one({name: rows[0] for name, rows in good.items()}, minus={name: rows[1] for name, rows in good.items()})
    assert {total.count for total in step._sum._totals.values()} == {5}


def test_units_that_sent_nothing_count_as_zeros_and_the_denominator_stays():
    plan = plan_of(FullBatch(), population=10, steps=1, noise=ConstantNoise(1e-4))
    step = next(plan.start((WIDTH,)))
    step.add(np.full((4, WIDTH), 0.5))
    step.add_missing(5)
    with pytest.raises(FerroError, match="must be that of the units drawn"):
        step.release()
    step.add_missing(1)
    assert np.allclose(step.release(), 0.2, atol=0.01)
    for bad in (-1, 1.0, True):
        with pytest.raises((InvalidParameter, InvalidType)):
            next(plan_of().start((WIDTH,))).add_missing(bad)


def test_the_denominator_is_public():
    plan = plan_of(PoissonSampling(0.5), population=1001, noise=ConstantNoise(1e-3))
    for released in finished(plan.start((WIDTH,)), lambda step: rows(step, 0.5)):
        assert abs(released[0] * 500.5 / 0.5 - round(released[0] * 500.5 / 0.5)) < 0.05  # a whole number of halves
    step = next(
        PrivacyPlan(sampling=FullBatch(), num_steps=1, clipping=FlatClipping(1.0), noise=ConstantNoise(1.0)).start(
            (WIDTH,)
        )
    )
    with pytest.raises(InvalidParameter, match="denominator must be given"):
        step.release()
    assert step.release(denominator=7).shape == (WIDTH,)


def test_groups_get_a_vector_each_and_twice_the_bill():
    plan = plan_of(PoissonSampling(0.5), population=1000, records_per_group=4, noise=ConstantNoise(1e-2))
    assert plan.num_groups == plan.expected_batch_size == 125
    run = plan.start((WIDTH,))
    for step in run:
        assert len(step.groups) == 125
        assert sorted(np.concatenate(step.groups).tolist()) == step.indices.tolist()
        step.add(np.full((125, WIDTH), 0.5))
        assert abs(step.release() - 0.5).max() < 0.01
    assert run.epsilon(DELTA) == plan_of(PoissonSampling(0.5), population=1000, noise=ConstantNoise(5e-3)).epsilon(
        DELTA
    )
    step = next(plan.start((WIDTH,)))
    step.add(np.ones((len(step.indices), WIDTH)))
    with pytest.raises(FerroError, match="must be that of the groups"):
        step.release()


@pytest.mark.parametrize("rule", ["geometric", "linear"])
@pytest.mark.parametrize("relation", [AO, RO, RS])
@pytest.mark.parametrize("initial", [0.1, 4.0])
def test_an_adaptive_clip_norm_moves_toward_the_quantile(rule, relation, initial):
    rate = 0.3 if rule == "geometric" else 0.1
    clipping = AdaptiveClipping(initial, 0.7, rate, count_noise_multiplier=10.0, rule=rule)
    plan = plan_of(PoissonSampling(0.5), population=4000, steps=150, clipping=clipping, relation=relation)
    norms = np.random.default_rng(3).uniform(0.5, 1.5, 4000)  # the quantile 0.7 is 1.2
    run = plan.start((1,))
    distances = []
    for step in run:
        assert step.clip_norm == run.clip_norm
        step.add(norms[step.indices][:, None])
        step.release()
        distances.append(abs(run.clip_norm - 1.2))
    assert max(distances[-20:]) < 0.15 < distances[0]
    assert run.epsilon(DELTA) == plan.epsilon(DELTA)


@pytest.mark.parametrize(("relation", "group", "halves"), [(AO, 1, 1), (RO, 1, 1), (RS, 1, 2), (RS, 2, 1)])
def test_the_count_of_norms_is_noised_for_what_a_unit_can_change(relation, group, halves):
    """A unit that is there or not changes a count of ±½ by ½; the event of `REPLACE_ONE` says that it is replaced.

    Where units are replaced by null units, those beyond the norm are counted, which changes by 1, so its noise is
    doubled. False alarm 1e-6: 5 standard errors of a standard deviation.
    """
    rate, steps, size = 1e-3, 500, 1000
    clipping = AdaptiveClipping(1.0, 0.5, rate, count_noise_multiplier=20.0, rule="linear")
    plan = plan_of(
        FullBatch(), population=size * group, steps=steps, clipping=clipping, relation=relation, records_per_group=group
    )
    run = plan.start((1,))
    moves = []
    for step in run:
        before = step.clip_norm
        step.add(np.repeat([[0.0], [50.0]], size // 2, axis=0))
        step.release()
        moves.append((before - run.clip_norm) / rate * size)
    deviation = 20.0 * 0.5 * halves
    assert abs(np.std(moves) / deviation - 1) < 5 / math.sqrt(2 * steps)
    assert abs(np.mean(moves)) < 5 * deviation / math.sqrt(steps)


def test_noise_follows_the_clip_norm_that_adapts():
    clipping = AdaptiveClipping(64.0, 0.5, 2.0, count_noise_multiplier=20.0)
    plan = plan_of(FullBatch(), population=500, steps=8, clipping=clipping, noise=ConstantNoise(2.0))
    for step in plan.start((10_000,)):
        step.add(np.zeros((500, 10_000)))
        released = step.release(denominator=1)
        deviation = 2.0 / math.sqrt(1 - 0.01) * step.clip_norm
        assert abs(released.std() / deviation - 1) < 5 / math.sqrt(2 * 10_000)
    assert step.clip_norm < 1.0


def test_an_empty_batch_is_noised_and_charged_like_any_other():
    plan = plan_of(PoissonSampling(1e-6), steps=4)
    run = plan.start((WIDTH,))
    for step in run:
        assert len(step.indices) == 0
        if step.number == 2:
            step.add(np.zeros((0, WIDTH)))
        assert step.release().std() > 0.0
    assert run.epsilon(DELTA) == plan.epsilon(DELTA)


def test_a_step_cannot_be_left_out():
    run = plan_of().start((WIDTH,))
    step = next(run)
    with pytest.raises(FerroError, match="step 0 must be released before the next one"):
        next(run)
    assert run.current is step
    step.add(rows(step))
    step.release()
    assert run.current is None
    assert next(run).number == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_counts_as_zero_and_its_step_is_charged(bad):
    plan = plan_of(FullBatch(), population=3, steps=1, noise=ConstantNoise(1e-4))
    run = plan.start((WIDTH,))
    step = next(run)
    gradient = np.full((3, WIDTH), 0.25)
    gradient[1, 2] = bad
    step.add(gradient)
    assert np.allclose(step.release() * 3, 0.5, atol=0.01)
    assert run.epsilon(DELTA) == plan.epsilon(DELTA)


def test_planning_is_pure_and_every_step_is_an_event():
    plan = plan_of(steps=5)
    allowed = plan.max_steps(epsilon=plan.epsilon_after(3, DELTA), delta=DELTA)
    run = plan.start((WIDTH,))
    spent = []
    for step in run:
        before = run.epsilon(DELTA)
        step.add(rows(step))
        step.release()
        spent.append(run.epsilon(DELTA))
        assert before < spent[-1] == plan.epsilon_after(step.number + 1, DELTA)
    assert allowed == 3
    assert spent[-1] == plan.epsilon(DELTA)
    assert plan.max_steps(epsilon=spent[2], delta=DELTA) == 3


def test_batches_that_others_cut_are_bounded_and_never_amplified():
    plan = plan_of(GivenOrder(8), relation=RS, steps=2)
    run = plan.start((WIDTH,))
    step = next(run)
    assert step.indices is None
    step.add(np.ones((9, WIDTH)))
    with pytest.raises(FerroError, match="at most batch_size = 8"):
        step.release()
    run = plan.start((WIDTH,))
    step = next(run)
    step.add(np.ones((3, WIDTH)))
    step.add(np.ones((5, WIDTH)))
    step.release()
    alone = PldAccountant(neighboring_relation=RS)
    alone.compose(GaussianEvent(noise_multiplier=2.0))
    assert run.epsilon(DELTA) == alone.epsilon(DELTA)


# handing over, ending, misuse


def test_steps_are_released_once_from_whatever_thread():
    step = next(plan_of(FullBatch(), population=5).start((WIDTH,)))
    step.add(np.ones((5, WIDTH)))
    done = []

    def release():
        try:
            done.append(step.release())
        except FerroError:
            done.append(None)

    threads = [threading.Thread(target=release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in done) == 1
    for call in (lambda: step.add(np.ones((1, WIDTH))), lambda: step.add_one(np.ones(WIDTH)), step.release):
        with pytest.raises(FerroError, match="step 0 was released"):
            call()


def test_chunks_single_vectors_and_merged_sums_are_one_batch():
    source = SeededNoiseSource(bytes(32))
    vectors = np.random.default_rng(1).normal(size=(20, WIDTH))
    whole, parts = (plan_of(FullBatch(), population=20, steps=1).start((WIDTH,), source=source) for _ in range(2))
    step = next(parts)
    step.add(vectors[:7])
    for vector in vectors[7:12]:
        step.add_one(vector)
    elsewhere = fd.ClippedSum((WIDTH,), clip_norm=1.0)
    elsewhere.add_many(vectors[12:])
    step.merge(elsewhere)
    assert step._sum._total.integers.tolist() == _integers(next(whole), vectors)
    step.release()


def _integers(step, vectors):
    step.add(vectors)
    return step._sum._total.integers.tolist()


def test_a_sum_of_the_callers_own_gets_the_noise_and_the_cost_of_the_step():
    plan = plan_of(FullBatch(), population=10, steps=2, clipping=FlatClipping(0.5))
    run = plan.start({"w": (20_000,)})
    released = next(run).release_sum({"w": np.full(20_000, 5.0)})
    assert abs(released["w"].mean() - 0.5) < 5 * 0.1 / math.sqrt(20_000)
    assert abs(released["w"].std() / 0.1 - 1) < 5 / math.sqrt(40_000)
    assert run.epsilon(DELTA) == plan.epsilon_after(1, DELTA)
    step = next(run)
    with pytest.raises((InvalidArray, InvalidType)):
        step.release_sum({"w": np.zeros(3)})
    assert run.epsilon(DELTA) == plan.epsilon_after(1, DELTA)
    step.add({"w": np.zeros((1, 20_000))})
    with pytest.raises(InvalidParameter, match="release_sum takes the whole sum"):
        step.release_sum({"w": np.zeros(20_000)})
    adaptive = plan_of(FullBatch(), clipping=AdaptiveClipping(1.0)).start((WIDTH,))
    with pytest.raises(InvalidParameter, match="release_sum takes the whole sum"):
        next(adaptive).release_sum(np.zeros(WIDTH))


def test_a_state_goes_on_where_it_was_saved_and_restoring_it_twice_is_refused():
    clipping = AdaptiveClipping(2.0, count_noise_multiplier=10.0)
    plan = plan_of(steps=6, clipping=clipping)
    run = plan.start({"w": np.zeros((2, 3), np.float32), "b": [np.zeros(2, np.float32)]})
    for step in run:
        n = len(step.indices)
        step.add({"w": np.ones((n, 2, 3), np.float32), "b": [np.ones((n, 2), np.float32)]})
        step.release()
        if step.number == 2:
            break
    state = run.state()
    assert isinstance(state, bytes)
    again = PlanRun.from_state(state)
    assert (again.step_number, again.clip_norm, again.plan) == (3, run.clip_norm, plan)
    assert again.epsilon(DELTA) == run.epsilon(DELTA)
    twice = PlanRun.from_state(state)

    step = next(again)
    step.add({"w": np.ones((len(step.indices), 2, 3), np.float32), "b": [np.ones((len(step.indices), 2), np.float32)]})
    assert step.release()["w"].dtype == np.float32
    for other in (run, twice):
        step = next(other)
        n = len(step.indices)
        step.add({"w": np.ones((n, 2, 3), np.float32), "b": [np.ones((n, 2), np.float32)]})
        with pytest.raises(FerroError, match="released by another run"):
            step.release()
    with pytest.raises(FerroError, match="state must be the newest"):
        PlanRun.from_state(state)
    assert PlanRun.from_state(again.state()).step_number == 4


def test_a_round_of_an_allocation_is_not_gone_on_with_after_a_restart():
    plan = plan_of(RandomAllocation(4), steps=10)
    run = plan.start((WIDTH,))
    for step in run:
        step.add(rows(step))
        step.release()
        if step.number == 1:
            break
    again = PlanRun.from_state(run.state())
    assert again.step_number == 4
    finished(again)
    assert again.epsilon(DELTA) == plan.epsilon(DELTA)


@pytest.mark.parametrize(
    "change",
    [b"", b"{}", b"null", b"[" * 10_000, {"version": 2}, {"next_step": -1}, {"next_step": 7}, {"charged": 9},
     {"clip_norm": "nan"}, {"clip_norm": "-0x1p+0"}, {"clip_norm": 1.0}, {"dtype": "int8"}, {"template": {}},
     {"run": 5}, {"plan": {}}, {"more": 1}, {"template": [-1]}],
)  # fmt: skip
def test_a_state_that_is_none_is_refused(change):
    import json

    state = plan_of().start((WIDTH,)).state()
    changed = change if isinstance(change, bytes) else json.dumps(json.loads(state) | change).encode()
    with pytest.raises((InvalidParameter, InvalidType)):
        PlanRun.from_state(changed)


def test_another_template_or_type_is_refused():
    run = plan_of().start({"w": (WIDTH,)})
    with pytest.raises(InvalidParameter, match="template must look like"):
        PlanRun.from_state(run.state(), {"w": (WIDTH + 1,)})
    with pytest.raises(InvalidType, match="state must be bytes"):
        PlanRun.from_state("text")
    with pytest.raises(InvalidParameter, match=r"groups \['a', 'b'\]"):
        plan_of(clipping=CLIPPINGS["per group"]).start({"a": (1,)})
    step = next(plan_of(FullBatch(), population=2, clipping=CLIPPINGS["per group"]).start({"a": (1,), "b": (1,)}))
    with pytest.raises(InvalidParameter, match="same length"):
        step.add({"a": np.ones((2, 1)), "b": np.ones((1, 1))})
    with pytest.raises(InvalidParameter, match="with the groups"):
        step.add({"a": np.ones((2, 1))})


def test_a_seeded_run_repeats_its_bits_and_states_no_privacy():
    source = SeededNoiseSource(bytes(range(32)))
    runs = [plan_of().start((WIDTH,), source=SeededNoiseSource(bytes(range(32)))) for _ in range(2)]
    first, second = (np.array(finished(run)) for run in runs)

    assert (first == second).all()
    assert runs[0].epsilon(DELTA) == math.inf
    assert runs[0].event == NonPrivateEvent()
    assert plan_of().start((WIDTH,), source=source).epsilon(DELTA) == 0.0


def test_runs_and_steps_cannot_be_copied_and_are_refused_in_a_forked_child():
    run = plan_of(FullBatch(), population=3).start((WIDTH,))
    step = next(run)
    step.add(np.ones((3, WIDTH)))
    for thing in (run, step):
        with pytest.raises(TypeError, match="cannot be copied"):
            pickle.dumps(thing)
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(thing)

    def child():
        for call in (step.release, lambda: next(run), run.close):
            with pytest.raises(FerroError, match="forked"):
                call()

    assert children.run(child) == 0
    step.release()


def test_a_closed_run_has_ended():
    with plan_of().start((WIDTH,)) as run:
        step = next(run)
    assert list(run) == []
    with pytest.raises(FerroError, match="its run has ended"):
        step.release()
    assert run.epsilon(DELTA) == 0.0


@pytest.mark.parametrize(
    "clipping",
    [
        FlatClipping(1.0),
        PerGroupClipping({"b": 0.6, "a": 0.8}),
        AdaptiveClipping(initial=1.0, target_quantile=0.5, learning_rate=0.2, count_noise_multiplier=20.0),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("audit_canaries", [0, 100])
def test_a_flat_release_has_the_coordinates_of_the_tree_in_the_order_of_the_template(clipping, audit_canaries):
    template = {"b": {"w": np.zeros((2, 3)), "v": np.zeros(())}, "a": [np.zeros(4), np.zeros((0, 2))]}
    plan = plan_of(FullBatch(), population=5, steps=1, clipping=clipping)
    rng = np.random.default_rng(0)
    gradients = {
        "a": [rng.normal(size=(5, 4)), np.zeros((5, 0, 2))],
        "b": {"v": rng.normal(size=5), "w": rng.normal(size=(5, 2, 3))},
    }
    tree, flat = (
        next(plan.start(template, source=SeededNoiseSource(bytes(32)), audit_canaries=audit_canaries)) for _ in range(2)
    )
    tree.add(gradients)
    flat.add(gradients)

    released = tree.release()
    coordinates = release_flat(flat)

    assert list(released) == ["b", "a"]
    assert (released["b"]["w"].shape, released["b"]["v"].shape, released["a"][1].shape) == ((2, 3), (), (0, 2))
    leaves = [released["b"]["w"].ravel(), released["b"]["v"][None], released["a"][0], released["a"][1].ravel()]
    assert np.array_equal(np.concatenate(leaves), coordinates)
    assert (tree.marks is None) == (flat.marks is None) == (audit_canaries == 0)
