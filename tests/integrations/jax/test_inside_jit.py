"""Aggregation, noise and sampling called back from compiled code: once a step, in order, paid for, and independent."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy import stats
from small_runs import (
    correlation,
    examples,
    full_batches,
    gradients,
    model,
    plan,
    standardized,
    zero_gradients,
)

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.integrations.jax import JaxRun, batch_rows, clipped_sum, pad_rows
from ferrodp.plan import AdaptiveClipping, GivenOrder, PerGroupClipping, PlanStep

SEED = bytes(range(32))
WIDE = 100_000


@pytest.fixture
def draws(monkeypatch):
    """Return a list of the numbers of the steps whose noise was drawn."""
    found = []
    for name in ("release", "release_sum"):
        original = getattr(PlanStep, name)

        def counted(self, *args, original=original, **kwargs):
            number = self.number
            released = original(self, *args, **kwargs)
            found.append(number)
            return released

        monkeypatch.setattr(PlanStep, name, counted)
    return found


def aggregating(run, **options):
    """Return a compiled function from gradients, mask and state to updates and state."""
    transformation = run.aggregation()
    return run.jit(lambda grads, mask=None: transformation.update(grads, optax.EmptyState(), mask=mask)[0], **options)


def wide_noise(run):
    """Return the noise of one step over many coordinates in two leaves."""
    rows = np.zeros((40, WIDE // 2), np.float32)
    return aggregating(run)({"a": rows, "b": rows})


def wide_params():
    return {"a": np.zeros(WIDE // 2, np.float32), "b": np.zeros(WIDE // 2, np.float32)}


# What is released


def test_an_update_inside_jit_is_what_the_plan_releases_on_the_host():
    """The same seed gives the same bits, whether the gradients come from compiled code or from numpy."""
    params, (x, y) = model(), examples()
    ours, theirs = (fd.testing.seeded(SEED) for _ in range(2))
    run = JaxRun(plan(), params, source=ours)
    update, compiled = aggregating(run), jax.jit(gradients)
    names = ["first.bias", "first.kernel", "second"]
    host = plan().start(dict(zip(names, map(np.asarray, jax.tree.leaves(params)), strict=True)), source=theirs)

    for step, plain in zip(run, host, strict=True):
        rows, mask = pad_rows(step.indices, 40)
        given = compiled(params, x[rows], y[rows])
        released = update(given, mask)
        real = [np.asarray(leaf)[: len(plain.indices)] for leaf in jax.tree.leaves(given)]
        plain.add(dict(zip(names, real, strict=True)))
        expected = plain.release()
        for name, leaf in zip(names, jax.tree.leaves(released), strict=True):
            np.testing.assert_array_equal(leaf, expected[name])


def test_padding_never_reaches_the_sum_wherever_it_lies():
    params = {"w": np.zeros(6, np.float32)}
    rows = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    results = []
    for order in (np.arange(40), np.random.default_rng(1).permutation(40)):
        run = JaxRun(plan(1), params, source=fd.testing.seeded(SEED))
        step = next(run)
        padded, mask = pad_rows(step.indices, 40)
        batch = np.where(mask[:, None], rows[padded], np.nan)  # what is masked may be anything
        results.append(aggregating(run)({"w": batch[order]}, mask[order])["w"])

    np.testing.assert_array_equal(*results)


def test_the_noise_of_both_transformations_has_the_law_of_the_plan():
    """Kolmogorov-Smirnov, two-sided, at 1e-6 each: a false alarm in two of a million runs."""
    for name in ("aggregation", "noise"):
        run = JaxRun(full_batches(1), wide_params())
        transformation = getattr(run, name)()
        given = wide_params() if name == "noise" else zero_gradients(wide_params(), 40)
        released = run.jit(lambda given, t=transformation: t.update(given, optax.EmptyState())[0])(given)

        assert stats.kstest(standardized(released, run.plan), "norm").pvalue > 1e-6


def test_a_sum_clipped_inside_jit_gets_the_noise_of_the_plan():
    params, (x, y) = model(), examples()
    results = []
    for name in ("aggregation", "noise"):
        run = JaxRun(plan(1), params, source=fd.testing.seeded(SEED))
        transformation = getattr(run, name)()

        @run.jit
        def update(x, y, mask, name=name, transformation=transformation):
            given = gradients(params, x, y)
            if name == "noise":
                return transformation.update(clipped_sum(given, 1.0, mask=mask), optax.EmptyState())[0]
            return transformation.update(given, optax.EmptyState(), mask=mask)[0]

        step = next(run)
        rows, mask = pad_rows(step.indices, 40)
        results.append(update(x[rows], y[rows], mask))
        assert run.epsilon(1e-5) == np.inf  # seeded

    # Both noises have one standard deviation but other grids and other random words, so only the scale is compared:
    # the noise has 0.1 = 2 / 20 a coordinate, and 36 coordinates of two results differ by less than 10 times that.
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        assert np.abs(one - other).max() < 1.0


def test_clipping_inside_jit_bounds_each_row_and_drops_padding():
    rng = np.random.default_rng(0)
    rows = {"a": rng.standard_normal((6, 4)).astype(np.float32), "b": rng.standard_normal((6, 2, 3)).astype(np.float32)}
    rows["a"][1] *= 1e25  # its square overflows
    rows["a"][2], rows["b"][2] = 1e-30, 0  # its square vanishes
    rows["b"][3, 0, 0] = np.nan
    rows["a"][4] = np.inf
    mask = np.array([True] * 5 + [False])

    total = jax.jit(functools.partial(clipped_sum, clip_norm=0.5))(rows, mask=mask)

    exact = fd.ClippedSum({"a": (4,), "b": (2, 3)}, clip_norm=0.5, dtype=np.float32)
    exact.add_many({name: leaf[:5] for name, leaf in rows.items()})
    for name, leaf in exact.to_float().items():
        np.testing.assert_allclose(total[name], leaf, atol=2**-14)  # four rows, each 2⁻¹⁶ and rounding off
    alone = clipped_sum({name: leaf[:1] for name, leaf in rows.items()}, 0.5)
    assert np.sqrt(sum(np.sum(np.float64(leaf) ** 2) for leaf in alone.values())) <= 0.5


def test_gradients_of_bfloat16_are_summed_as_float32_and_come_back_as_bfloat16():
    params = {"w": jnp.zeros(5, jnp.bfloat16)}
    run = JaxRun(full_batches(1, noise=fd.plan.ConstantNoise(2.0**-20)), params)

    released = aggregating(run)({"w": jnp.full((40, 5), 0.125, jnp.bfloat16)})

    assert released["w"].dtype == jnp.bfloat16
    np.testing.assert_allclose(released["w"].astype(np.float32), 0.125, atol=1e-3)


def test_groups_are_clipped_by_themselves_inside_jit():
    params = model()
    clipping = PerGroupClipping({"first": 0.25, "second": 0.5})
    run = JaxRun(full_batches(1, clipping=clipping, noise=fd.plan.ConstantNoise(2.0**-16)), params)
    x, y = examples()

    released = aggregating(run)(jax.tree.map(lambda leaf: 1e6 * leaf, gradients(params, x, y)))

    norms = {key: optax.tree.norm(released[key]) for key in ("first", "second")}
    assert 0.01 < norms["first"] <= 0.2501
    assert 0.01 < norms["second"] <= 0.5001
    with pytest.raises(InvalidParameter, match="clip_norms must have one group for 'second'"):
        JaxRun(full_batches(1, clipping=PerGroupClipping({"first": 0.25})), params)


def test_adaptive_clipping_moves_between_compiled_updates():
    clipping = AdaptiveClipping(initial=8.0, target_quantile=0.5, learning_rate=0.5, count_noise_multiplier=4.0)
    run = JaxRun(full_batches(6, clipping=clipping), {"w": np.zeros(3, np.float32)})
    update = aggregating(run)
    norms = []
    for step in run:
        norms.append(step.clip_norm)
        update({"w": np.full((40, 3), 0.5, np.float32)})

    assert norms[-1] < norms[0]  # all norms are below 8; the noise of the share is 4 / 40 a step
    with pytest.raises(InvalidParameter, match="clipped to a norm fixed in advance"):
        next(JaxRun(full_batches(1, clipping=clipping), np.zeros(3, np.float32))).release_sum(np.zeros(3, np.float32))


# Exactly once


@pytest.mark.parametrize("name", ["aggregation", "noise"])
def test_a_compiled_update_holds_one_ordered_callback_and_no_pure_one(name):
    run = JaxRun(full_batches(1), model())
    transformation = getattr(run, name)()
    given = model() if name == "noise" else zero_gradients(model(), 40)

    jaxpr = str(jax.make_jaxpr(lambda given: transformation.update(given, optax.EmptyState())[0])(given))

    assert jaxpr.count("io_callback[") == 1
    assert "ordered=True" in jaxpr
    assert "pure_callback" not in jaxpr


@pytest.mark.parametrize("name", ["aggregation", "noise"])
def test_noise_is_drawn_once_for_each_executed_update(name, draws):
    params = model()
    run = JaxRun(full_batches(5), params)
    transformation = getattr(run, name)()
    given = params if name == "noise" else zero_gradients(params, 40)
    update = run.jit(lambda given: transformation.update(given, optax.EmptyState())[0])

    update.__wrapped__  # noqa: B018  # tracing alone draws nothing
    jax.eval_shape(lambda given: transformation.update(given, optax.EmptyState())[0], given)
    jax.make_jaxpr(lambda given: transformation.update(given, optax.EmptyState())[0])(given)
    assert draws == []
    for _ in range(5):
        update(given)

    assert draws == [0, 1, 2, 3, 4]


def test_the_result_may_be_thrown_away_and_the_step_is_drawn_and_charged_all_the_same(draws):
    run = JaxRun(full_batches(2), model())
    transformation = run.aggregation()

    @run.jit
    def forgetful(grads):
        transformation.update(grads, optax.EmptyState())
        return 0

    forgetful(zero_gradients(model(), 40))

    assert draws == [0]
    assert run.step_number == 1


def test_loops_and_branches_draw_once_a_turn(draws):
    params = {"w": jnp.zeros(4)}
    run = JaxRun(full_batches(9), params)
    transformation = run.aggregation()

    def one(carry, _=None):
        return transformation.update({"w": jnp.zeros((40, 4))}, optax.EmptyState())[0]["w"], None

    scanned = run.jit(lambda: jax.lax.scan(one, jnp.zeros(4), length=3)[0])
    counted = run.jit(lambda: jax.lax.fori_loop(0, 3, lambda i, carry: one(carry)[0], jnp.zeros(4)))
    branched = run.jit(lambda go: jax.lax.cond(go, lambda: one(None)[0], lambda: jnp.zeros(4)))
    again = run.jit(jax.checkpoint(lambda: one(None)[0]))

    scanned(), counted(), branched(True), branched(False), again()

    assert draws == list(range(8))


def test_captured_constants_do_not_repeat_noise(draws):
    """Nothing that the update takes changes from call to call: compiled noise would be the same each time."""
    run = JaxRun(full_batches(4), wide_params())
    transformation = run.aggregation()
    constant = zero_gradients(wide_params(), 40)
    update = run.jit(lambda: transformation.update(constant, optax.EmptyState())[0])

    first, second = (standardized(update(), run.plan) for _ in range(2))

    assert draws == [0, 1]
    assert not np.any(first == second) or np.mean(first == second) < 1e-3  # equal grid points: about 2⁻²⁰ of them
    assert abs(correlation(first, second)) < 6  # false alarm: 2e-9


def test_two_updates_in_one_compiled_step_are_two_draws_of_two_steps(draws):
    run = JaxRun(full_batches(2), wide_params())
    transformation = run.aggregation()
    constant = zero_gradients(wide_params(), 40)

    one, other = run.jit(lambda: [transformation.update(constant, optax.EmptyState())[0] for _ in range(2)])()

    assert draws == [0, 1]
    assert abs(correlation(standardized(one, run.plan), standardized(other, run.plan))) < 6  # false alarm: 2e-9


def test_noise_is_independent_across_leaves_and_steps():
    """Correlations of 50 000 coordinates, each within 6 of its standard deviations: a false alarm in 1 of 10⁸ runs."""
    run = JaxRun(full_batches(2), wide_params())
    steps = [wide_noise(run) for _ in range(2)]
    parts = [standardized(step[name], run.plan) for step in steps for name in ("a", "b")]

    for i, one in enumerate(parts):
        assert abs(np.sum(one**2) - len(one)) < 6 * np.sqrt(2 * len(one))
        for other in parts[:i]:
            assert abs(correlation(one, other)) < 6
            assert abs(correlation(one[:-1], other[1:])) < 6


# Charged first, refused after the last step


def test_an_update_after_the_last_step_is_refused_and_draws_nothing(draws):
    run = JaxRun(full_batches(2), model())
    update = aggregating(run)
    grads = zero_gradients(model(), 40)
    update(grads), update(grads)

    for _ in range(2):
        with pytest.raises(FerroError, match="the run is over: all 2 steps of the plan were begun"):
            update(grads)
    assert draws == [0, 1]
    assert run.epsilon(1e-5) == run.plan.epsilon(1e-5)


def test_a_refusal_inside_jit_is_not_met_by_what_runs_after_it():
    """An exception that leaves an ordered callback stays in the tokens of jax, for the next one to meet."""
    grads = zero_gradients(model(), 40)
    for _ in range(10):
        run = JaxRun(full_batches(1), model())
        update = aggregating(run)
        update(grads)
        with pytest.raises(FerroError, match="the run is over"):
            update(grads)
        jax.effects_barrier()


def test_nothing_is_drawn_in_a_loop_after_a_failure(draws, monkeypatch):
    """The first step finds the disk full, the others would not."""
    run = JaxRun(full_batches(3), {"w": jnp.zeros(4)})
    transformation = run.aggregation()
    original, failures = PlanStep.add, iter([OSError("no space left on the device")])

    def failing_once(self, *args, **kwargs):
        for failure in failures:
            raise failure
        return original(self, *args, **kwargs)

    monkeypatch.setattr(PlanStep, "add", failing_once)

    def one(carry, _):
        grads, mask = {"w": jnp.zeros((40, 4))}, jnp.ones(40, bool)
        return transformation.update(grads, optax.EmptyState(), mask=mask)[0]["w"], None

    with pytest.raises(OSError, match="no space left"):
        run.jit(lambda: jax.lax.scan(one, jnp.zeros(4), None, length=3)[0])()

    assert draws == []
    assert run.epsilon(1e-5) == 0.0


def test_plain_jit_quotes_a_refusal_and_the_next_step_raises_it():
    run = JaxRun(plan(), model())
    transformation = run.aggregation()
    update = jax.jit(lambda grads: transformation.update(grads, optax.EmptyState())[0])

    with pytest.raises(jax.errors.JaxRuntimeError, match="FerroError: no step is open: none was drawn"):
        jax.block_until_ready(update(zero_gradients(model(), 40)))
    with pytest.raises(FerroError, match="no step is open: none was drawn"):
        next(run)
    assert next(run).number == 0  # it is told once


def test_a_step_is_updated_once(draws):
    run = JaxRun(plan(2), model())
    update = aggregating(run)
    mask = pad_rows(next(run).indices, 40)[1]
    grads = zero_gradients(model(), 40)
    update(grads, mask)

    with pytest.raises(FerroError, match="no step is open: the last one was released"):
        update(grads, mask)
    assert draws == [0]


def test_a_batch_that_is_not_the_one_drawn_is_refused_before_any_noise(draws):
    run = JaxRun(plan(1), model())
    update = aggregating(run)
    step = next(run)
    _, mask = pad_rows(step.indices, 40)
    mask[np.argmin(mask)] ^= True  # one more, or one less where all were drawn

    with pytest.raises(FerroError, match="the number of vectors added must be that of the units drawn"):
        update(zero_gradients(model(), 40), mask)
    assert draws == []


def test_a_ledger_pays_for_each_step_before_its_noise_and_ends_the_run(tmp_path, draws):
    one_step = fd.events.GaussianEvent(noise_multiplier=2.0)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=4.0, delta=1e-5)
        room = ledger.remaining_count("digits", one_step)
        run = JaxRun(full_batches(10), model(), ledger=ledger, scope="digits")
        update = aggregating(run)
        grads = zero_gradients(model(), 40)
        for number in range(room):
            update(grads)
            assert ledger.remaining_count("digits", one_step) == room - number - 1
        with pytest.raises(FerroError, match=r"the run is over: a release of GaussianEvent does not fit into scope"):
            update(grads)
    assert run.stopped == "budget"
    assert draws == list(range(room))
    assert 1 <= room < 10


def test_what_was_spent_is_not_in_the_state_of_the_optimizer():
    """A checkpoint of the optimizer that is restored gives no step back."""
    run = JaxRun(full_batches(1), model())
    optimizer = optax.chain(run.aggregation(), optax.adam(0.1))
    saved = optimizer.init(model())
    update = run.jit(lambda grads, state: optimizer.update(grads, state, model()))
    update(zero_gradients(model(), 40), saved)

    with pytest.raises(FerroError, match="the run is over"):
        update(zero_gradients(model(), 40), saved)


# Sampling inside jit


def test_a_whole_training_is_one_compiled_loop(draws):
    params, (x, y) = model(), examples()
    run = JaxRun(plan(20), params)
    optimizer = optax.chain(run.aggregation(), optax.sgd(0.1))
    x, y = jnp.asarray(x), jnp.asarray(y)

    def one(carry, _):
        params, state = carry
        rows, mask = run.sample(batch_rows(run.plan))
        updates, state = optimizer.update(gradients(params, x[rows], y[rows]), state, params, mask=mask)
        return (optax.apply_updates(params, updates), state), mask.sum()

    train = run.jit(lambda params, state: jax.lax.scan(one, (params, state), length=20))
    (_, _), sizes = train(params, optimizer.init(params))

    assert draws == list(range(20))
    assert run.epsilon(1e-5) == run.plan.epsilon(1e-5)
    assert abs(int(sizes.sum()) - 400) < 6 * np.sqrt(200)  # binomial of 800 coins: a false alarm in 5·10⁸ runs
    with pytest.raises(FerroError, match="the run is over: all 20 steps"):
        train(params, optimizer.init(params))


def test_a_batch_larger_than_its_rows_is_refused_and_never_cut(draws):
    run = JaxRun(full_batches(1), model())

    with pytest.raises(InvalidParameter, match="num_rows must be at least the number of rows drawn, got 39"):
        run.jit(lambda: run.sample(39))()
    assert draws == []


def test_rows_that_somebody_else_chooses_are_not_sampled():
    relation = fd.events.NeighboringRelation.REPLACE_ONE
    run = JaxRun(plan(2, sampling=GivenOrder(10), neighboring_relation=relation), model())

    with pytest.raises(InvalidParameter, match="sampling must draw rows"):
        run.jit(lambda: run.sample(10))()
    aggregating(run)(zero_gradients(model(), 10))
    assert run.step_number == 1


# Devices


def test_code_that_each_device_runs_for_itself_is_refused_when_traced(draws):
    run = JaxRun(full_batches(1), {"w": jnp.zeros(4)})
    transformation = run.aggregation()
    mesh = jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))

    def update(rows):
        return transformation.update({"w": rows}, optax.EmptyState())[0]["w"]

    mapped = jax.shard_map(update, mesh=mesh, in_specs=PartitionSpec("batch"), out_specs=PartitionSpec())
    with pytest.raises(FerroError, match=r"must be outside of shard_map and pmap, .* mapped over 'batch'"):
        jax.jit(mapped)(jnp.zeros((40, 4)))
    with pytest.raises(FerroError, match="must be outside of shard_map and pmap"):
        jax.pmap(update)(jnp.zeros((2, 20, 4)))
    assert draws == []


def test_vmap_and_grad_of_an_update_are_refused(draws):
    run = JaxRun(full_batches(1), {"w": jnp.zeros(4)})
    transformation = run.aggregation()

    def update(rows):
        return transformation.update({"w": rows}, optax.EmptyState())[0]["w"]

    with pytest.raises(ValueError, match="vmap"):
        jax.vmap(update)(jnp.zeros((2, 40, 4)))
    with pytest.raises(ValueError, match="JVP"):
        jax.grad(lambda rows: update(rows).sum())(jnp.zeros((40, 4)))
    assert draws == []


def test_gradients_sharded_over_two_devices_are_one_batch_and_one_draw(draws):
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    rows = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    results = []
    for sharding in (NamedSharding(mesh, PartitionSpec("batch")), None):
        run = JaxRun(full_batches(1), {"w": np.zeros(6, np.float32)}, source=fd.testing.seeded(SEED))
        batch = rows if sharding is None else jax.device_put(rows, sharding)
        results.append(aggregating(run)({"w": batch})["w"])

    assert len(jax.devices()) == 2
    assert draws == [0, 0]  # one of each run
    assert len({shard.data.tobytes() for shard in results[0].addressable_shards}) == 1
    np.testing.assert_array_equal(np.asarray(results[0]), results[1])


def test_noise_is_independent_across_two_devices():
    """Steps of one run on two devices, and two runs at once; correlations beyond 6 sigma: a false alarm in 10⁸ runs."""
    one_run = JaxRun(full_batches(2), wide_params())
    update = aggregating(one_run)
    found = []
    for device in jax.devices():
        released = update(jax.device_put(zero_gradients(wide_params(), 40), device))
        assert released["a"].devices() == {device}
        found.append(standardized(released, one_run.plan))

    at_once = {}

    def train(device):
        run = JaxRun(full_batches(3), wide_params())
        zeros = jax.device_put(zero_gradients(wide_params(), 40), device)
        at_once[device] = [standardized(aggregating(run)(zeros), run.plan) for _ in range(3)]

    threads = [threading.Thread(target=train, args=(device,)) for device in jax.devices()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found += [noise for steps in at_once.values() for noise in steps]

    assert len(found) == 8
    for i, one in enumerate(found):
        assert abs(np.sum(one**2) - len(one)) < 6 * np.sqrt(2 * len(one))
        assert all(abs(correlation(one, other)) < 6 for other in found[:i])


# What does not fit is refused when traced


@pytest.mark.parametrize(
    ("given", "mask", "error", "text"),
    [
        ({"w": np.zeros((40, 4))}, None, InvalidArray, "gradients must have the tree structure of the parameters"),
        (np.zeros((40, 3), np.float32), None, InvalidArray, r"gradients\['params'\] must have shape \(rows, 4\), got"),
        (np.zeros((4,), np.float32), None, InvalidArray, r"must have shape \(rows, 4\), got \(4,\)"),
        (np.zeros((), np.float32), None, InvalidArray, r"must have shape \(rows, 4\), got \(\)"),
        (np.zeros((40, 4), np.float32), np.ones(40, np.float32), InvalidArrayType, "mask must be of bool, got float"),
        (
            np.zeros((40, 4), np.float32),
            np.ones(39, bool),
            InvalidArray,
            r"mask must have one entry a row, shape",
        ),
    ],
)
def test_what_does_not_look_like_the_parameters_is_refused(given, mask, error, text, draws):
    run = JaxRun(full_batches(1), jnp.zeros(4))

    with pytest.raises(error, match=text):
        aggregating(run)(given, mask)
    assert draws == []
    assert run.step_number == 0


def test_an_optimizer_is_for_the_parameters_of_the_run():
    run = JaxRun(full_batches(1), jnp.zeros(4))

    with pytest.raises(InvalidArray, match=r"params\['params'\] must have shape \(4,\), got \(5,\)"):
        run.aggregation().init(jnp.zeros(5))
    with pytest.raises(InvalidArray, match=r"total\['params'\] must have shape \(4,\), got \(40, 4\)"):
        run.noise().update(jnp.zeros((40, 4)), optax.EmptyState())
