"""Steps between compiled code: batches of every size compile once, sums are those of numpy arrays, nothing is cast."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy import stats
from small_runs import examples, full_batches, gradients, loss, model, plan

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.jax import ExampleGradients, JaxRun, batch_rows, pad_rows
from ferrodp.integrations.jax import per_example_gradients as gradients_of
from ferrodp.plan import (
    ConstantNoise,
    CyclicPoisson,
    FixedSizeSampling,
    GivenOrder,
    PerGroupClipping,
    PlanRun,
    PlanStep,
    PoissonSampling,
    RandomAllocation,
)
from ferrodp.training import BudgetStop, Callback, PrivacyMonitor

SEED = bytes(range(32))
NAMES = ["first.bias", "first.kernel", "second"]


@pytest.fixture
def added(monkeypatch):
    """Return a list of what was given to `PlanStep.add`."""
    found = []
    original = PlanStep.add

    def noting(self, gradients):
        found.append(gradients)
        return original(self, gradients)

    monkeypatch.setattr(PlanStep, "add", noting)
    return found


# Batches of a random size


def test_batches_of_every_size_compile_once():
    params, (x, y) = model(), examples()
    run = JaxRun(plan(30, sampling=PoissonSampling(0.3)), params)
    computed = ExampleGradients(loss, num_rows=16)
    sizes = set()
    for step in run:
        sizes.add(len(step.indices))
        computed.add_to(step, params, x, y)
        step.release()

    assert len(sizes) > 3
    assert computed.num_compilations == 1


def test_several_sizes_compile_once_each():
    params, (x, y) = model(), examples()
    computed = ExampleGradients(loss, num_rows=(16, 4))
    for number in range(40):
        run = JaxRun(plan(1, sampling=FixedSizeSampling(number + 1)), params)
        computed.add_to(next(run), params, x, y)

    assert computed.num_compilations == 2


def test_chunks_and_padding_change_no_bit():
    """The gradients of chunks of one size are the same code; what is added is the rows drawn, each once."""
    params, (x, y) = model(), examples()
    compiled = jax.jit(gradients)
    run = JaxRun(plan(1), params, source=fd.testing.seeded(SEED))
    step = next(run)
    ExampleGradients(loss, num_rows=16).add_to(step, params, x, y)
    released = step.release()

    host = plan(1).start(JaxRun(plan(1), params)._tree.template(()), source=fd.testing.seeded(SEED))
    plain = next(host)
    np.testing.assert_array_equal(plain.indices, step.indices)
    for start in range(0, len(plain.indices), 16):
        chunk = plain.indices[start : start + 16]
        rows, _ = pad_rows(chunk, 16)
        leaves = jax.tree.leaves(compiled(params, x[rows], y[rows]))
        plain.add({name: np.asarray(leaf)[: len(chunk)] for name, leaf in zip(NAMES, leaves, strict=True)})
    expected = plain.release()
    for name, leaf in zip(NAMES, jax.tree.leaves(released), strict=True):
        np.testing.assert_array_equal(leaf, expected[name])


def test_an_empty_batch_is_noised_like_any_other():
    """The batch is empty but for a probability of 2⁻³⁹, the rate of false alarms."""
    params, (x, y) = model(), examples(2)
    run = JaxRun(plan(1, population=2, sampling=PoissonSampling(2.0**-40)), params)
    step = next(run)
    assert len(step.indices) == 0

    ExampleGradients(loss).add_to(step, params, x, y)
    released = step.release(denominator=1.0)

    assert all(np.count_nonzero(leaf) == np.size(leaf) for leaf in jax.tree.leaves(released))


def test_padding_leaves_the_rows_and_says_which_are_real():
    rows, mask = pad_rows(np.array([5, 2]), 2)
    assert rows.dtype == np.int32
    assert (rows.tolist(), mask.tolist()) == ([5, 2], [True, True])
    assert pad_rows([], 2)[1].tolist() == [False, False]
    assert pad_rows(np.zeros(0, np.int64), 0)[0].shape == (0,)


@pytest.mark.parametrize(
    ("indices", "size", "error", "text"),
    [
        (
            [1, 2, 3],
            2,
            InvalidParameter,
            r"num_rows must be at least the number of rows drawn, got 2; batch_rows\(plan\) is enough",
        ),
        ([1], -1, InvalidParameter, "num_rows must be an int >= 0, got -1"),
        ([1], 2.0, InvalidType, "num_rows must be an int"),
        ([[1]], 2, InvalidArray, "indices must be one-dimensional"),
        ([0.5], 2, InvalidArray, "of integers below"),
        ([2**31], 2, InvalidArray, "of integers below"),
    ],
)
def test_padding_is_checked(indices, size, error, text):
    with pytest.raises(error, match=text):
        pad_rows(indices, size)


@pytest.mark.parametrize(
    ("changes", "trials", "share"),
    [
        ({"sampling": PoissonSampling(0.1)}, 1000, 0.1),
        ({"sampling": RandomAllocation(10)}, 1000, 0.1),
        (
            {
                "sampling": CyclicPoisson(0.5, num_parts=3),
                "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL,
            },
            334,
            0.5,
        ),
    ],
)
def test_enough_rows_are_enough_but_for_the_stated_probability(changes, trials, share):
    for chance in (0.01, 2.0**-40):
        rows = batch_rows(plan(50, 1000, **changes), failure_probability=chance)

        assert 50 * stats.binom.sf(rows, trials, share) <= chance
        assert 50 * stats.binom.sf(rows - 2, trials, share) > chance  # two rows fewer are not enough


def test_rows_of_samplings_with_a_known_size():
    replaced = NeighboringRelation.REPLACE_ONE
    assert batch_rows(plan(sampling=FixedSizeSampling(7))) == 7
    assert batch_rows(plan(sampling=GivenOrder(9), neighboring_relation=replaced)) == 9
    assert batch_rows(full_batches()) == 40
    assert batch_rows(plan(population=3, sampling=PoissonSampling(0.9))) == 3
    with pytest.raises(InvalidParameter, match="population_size must be known"):
        batch_rows(plan(population=None))
    for wrong in (0.0, 1.0):
        with pytest.raises(InvalidParameter, match=r"failure_probability must be in \(0, 1\)"):
            batch_rows(plan(), failure_probability=wrong)


# Arrays of jax


def test_float32_gradients_are_read_where_they_lie(added):
    step = next(JaxRun(full_batches(), {"w": jnp.zeros(1000)}))
    rows = jnp.ones((40, 1000))

    step.add({"w": rows})

    [given] = added
    assert given["w"].ctypes.data == rows.unsafe_buffer_pointer()
    assert not given["w"].flags.writeable


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn])
def test_narrow_gradients_become_float32_exactly_and_come_back_narrow(dtype, added):
    run = JaxRun(full_batches(noise=ConstantNoise(2.0**-20)), {"w": jnp.zeros(3, dtype)})
    step = next(run)

    step.add({"w": jnp.full((40, 3), 0.40625, dtype)})
    released = step.release()["w"]

    assert added[0]["w"].dtype == np.float32
    assert np.all(added[0]["w"] == 0.40625)
    assert released.dtype == dtype
    assert np.all(released.astype(jnp.float32) == 0.40625)


def test_with_a_float64_leaf_sums_are_float64():
    with jax.enable_x64(True):
        params = {"a": jnp.zeros(3, jnp.float64), "b": jnp.zeros(2, jnp.float32)}
        step = next(JaxRun(full_batches(), params))
        step.add({"a": jnp.ones((40, 3), jnp.float64), "b": jnp.ones((40, 2), jnp.float32)})
        released = step.release()
        assert (released["a"].dtype, released["b"].dtype) == (jnp.float64, jnp.float32)

        narrow = next(JaxRun(full_batches(), jnp.zeros(3, jnp.float32)))
        with pytest.raises(InvalidArrayType, match="must have the dtype of the template, float32"):
            narrow.add(jnp.ones((40, 3), jnp.float64))


def sharded(rows):
    return jax.device_put(rows, NamedSharding(Mesh(np.array(jax.devices()), ("batch",)), PartitionSpec("batch")))


def deleted(rows):
    gone = jnp.asarray(rows)
    gone.delete()
    return gone


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            sharded,
            InvalidArrayType,
            r"gradients\['w'\] must lie on one device, got one sharded over 2; add each of",
        ),
        (deleted, InvalidArray, r"gradients\['w'\] must not be deleted: its memory was donated"),
        (lambda rows: rows.astype(np.int32), InvalidArrayType, "must have a dtype of real numbers, got int32"),
        (lambda rows: rows.astype(bool), InvalidArrayType, "must have a dtype of real numbers, got bool"),
        (lambda rows: jnp.asarray(rows, jnp.complex64), InvalidArrayType, "dtype of real numbers, got complex64"),
        (lambda rows: jax.random.split(jax.random.key(0), (40, 3)), InvalidArrayType, "real numbers, got key<fry>"),
        (lambda rows: rows[:, :2], InvalidArray, r"must have shape \(rows, 3\), got \(40, 2\)"),
    ],
)
def test_arrays_that_are_not_gradients_on_one_cpu_are_refused(given, error, text):
    step = next(JaxRun(full_batches(), {"w": jnp.zeros(3)}))

    with pytest.raises(error, match=text):
        step.add({"w": given(np.ones((40, 3), np.float32))})
    step.add({"w": np.ones((40, 3), np.float32)})  # nothing was added before
    step.release()


def test_arrays_of_another_platform_are_refused(monkeypatch):
    class Elsewhere:
        platform = "gpu"

        def __str__(self):
            return "cuda:0"

    step = next(JaxRun(full_batches(), {"w": jnp.zeros(3)}))
    rows = jnp.ones((40, 3))
    monkeypatch.setattr(type(rows.sharding), "device_set", property(lambda self: {Elsewhere()}))

    with pytest.raises(InvalidArrayType, match=r"must lie on the CPU, got one on cuda:0; collect it"):
        step.add({"w": rows})


def test_traced_gradients_are_refused_outside_of_a_callback():
    run = JaxRun(full_batches(), jnp.zeros(3))
    step = next(run)

    with pytest.raises(InvalidArrayType, match=r"got a traced value; inside jit use JaxRun\.aggregation"):
        jax.jit(lambda rows: step.add(rows))(jnp.ones((40, 3)))
    with pytest.raises(InvalidArrayType, match="got a traced value"):
        jax.jit(lambda total: step.release_sum(total))(jnp.ones(3))


def test_a_list_is_no_array():
    step = next(JaxRun(full_batches(), [jnp.zeros(3)]))

    with pytest.raises(InvalidArray, match="gradients must have the tree structure of the parameters"):
        step.add([[1.0, 2.0, 3.0]] * 2)
    with pytest.raises(InvalidArray, match=r"gradients\['0'\] must have shape"):
        step.add([1.0])


def test_what_is_released_lies_where_the_parameters_were_put():
    device = jax.devices()[1]
    step = next(JaxRun(full_batches(), jax.device_put(jnp.zeros(3), device)))
    step.add(jnp.ones((40, 3)))

    assert step.release().devices() == {device}


# Parameters of any pytree


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A model's own class."""

    kernel: jax.Array
    bias: jax.Array


def test_parameters_are_any_pytree():
    params = [Layer(jnp.zeros((2, 3)), jnp.zeros(3)), None, {"b": jnp.zeros(()), "a": (jnp.zeros(1),)}]
    step = next(JaxRun(full_batches(), params))
    step.add(jax.tree.map(lambda leaf: jnp.ones((40, *leaf.shape)), params))
    released = step.release()

    assert jax.tree.structure(released) == jax.tree.structure(params)
    assert isinstance(released[0], Layer)
    assert released[2]["b"].shape == ()


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({}, InvalidArray, "params must hold at least one array"),
        ({"w": 1.0}, InvalidArrayType, r"params\['w'\] must be an array of real numbers, got float"),
        ({"w": np.zeros(3, np.int64)}, InvalidArrayType, r"params\['w'\] must be an array of real numbers, got int64"),
        ({"a.b": np.zeros(1), "a": {"b": np.zeros(1)}}, InvalidArray, "params must have leaves with different names"),
    ],
)
def test_other_parameters_are_refused(params, error, text):
    with pytest.raises(error, match=text):
        JaxRun(full_batches(), params)


def test_shapes_are_enough():
    run = JaxRun(full_batches(), jax.eval_shape(model))
    step = next(run)
    step.add(jax.tree.map(lambda leaf: jnp.ones((40, *leaf.shape)), model()))

    assert jax.tree.structure(step.release()) == jax.tree.structure(model())


def test_groups_are_leaves_or_subtrees_by_their_path(added):
    clipping = PerGroupClipping({"first.kernel": 0.5, "first.bias": 0.25, "second": 1.0})
    step = next(JaxRun(full_batches(clipping=clipping), model()))
    step.add(jax.tree.map(lambda leaf: jnp.ones((40, *leaf.shape)), model()))
    released = step.release()

    assert {name: sorted(group) for name, group in added[0].items()} == {name: [name] for name in clipping.clip_norms}
    assert jax.tree.structure(released) == jax.tree.structure(model())


# What a plan ensures


def test_each_row_is_added_once_or_the_step_is_refused():
    params, (x, y) = model(), examples()
    run = JaxRun(plan(), params)
    step = next(run)
    computed = ExampleGradients(loss)

    with pytest.raises(FerroError, match="number of vectors added must be that of the units drawn"):
        step.release()
    computed.add_to(step, params, x, y)
    with pytest.raises(FerroError, match="must be released before the next one"):
        next(run)
    step.release()
    with pytest.raises(FerroError, match="step 0 was released"):
        computed.add_to(step, params, x, y)


def test_a_run_goes_on_where_its_state_was_saved():
    params, (x, y) = model(), examples()
    run = JaxRun(plan(4), params)
    computed = ExampleGradients(loss)
    for step in run:
        computed.add_to(step, params, x, y)
        step.release()
        if step.number == 1:
            break
    state = run.state()
    again = JaxRun.from_state(state, params)

    assert (again.step_number, again.plan) == (2, run.plan)
    assert again.epsilon(1e-5) == run.epsilon(1e-5) == run.plan.epsilon_after(2, 1e-5)
    assert [step.number for step in again if computed.add_to(step, params, x, y) or step.release()] == [2, 3]
    assert again.stopped == "finished"
    assert again.epsilon(1e-5) == run.plan.epsilon(1e-5)
    assert json.loads(state)["next_step"] == 2
    assert isinstance(again.plan_run, PlanRun)
    assert repr(again) == "<JaxRun at step 4 of 4>"


def test_a_state_goes_on_with_parameters_of_its_own_shapes_only():
    state = JaxRun(full_batches(2), jnp.zeros(3)).state()
    step = next(JaxRun.from_state(state, jnp.zeros(4)))

    with pytest.raises(InvalidArray, match=r"must have shape \(40, 3\), got \(40, 4\)"):
        step.add(jnp.zeros((40, 4)))


def test_data_of_different_lengths_is_refused():
    params, (x, y) = model(), examples()
    step = next(JaxRun(plan(), params))

    with pytest.raises(InvalidArray, match=r"data must be arrays of one number of rows, got \[39, 40\]"):
        ExampleGradients(loss).add_to(step, params, x, y[1:])


def test_groups_of_records_are_added_by_the_caller():
    params, (x, y) = model(), examples()
    step = next(JaxRun(plan(records_per_group=2), params))

    with pytest.raises(InvalidParameter, match="step must have examples for units, not groups of them"):
        ExampleGradients(loss).add_to(step, params, x, y)
    step.add(jax.tree.map(lambda leaf: np.ones((len(step.groups), *leaf.shape), np.float32), params))
    assert jax.tree.structure(step.release()) == jax.tree.structure(params)


def test_sizes_of_chunks_are_checked():
    for wrong, error in (((), InvalidParameter), (0, InvalidParameter), ((4, 1.5), InvalidType)):
        with pytest.raises(error, match="num_rows must"):
            ExampleGradients(loss, num_rows=wrong)
    assert repr(ExampleGradients(loss, num_rows=(8, 4))) == "<ExampleGradients in chunks of 4, 8>"


# Callbacks


def test_monitors_read_the_plan_and_every_step_is_reported(capsys):
    steps = plan(4)
    run = JaxRun(steps, jnp.zeros(3))
    monitor = PrivacyMonitor(1e-5, every=2)

    for step in run.steps([monitor]):
        step.add(np.zeros((len(step.indices), 3), np.float32))
        step.release()

    assert [line["step"] for line in monitor.history] == [2, 4]
    assert [line["pld"] for line in monitor.history] == [steps.epsilon_after(2, 1e-5), steps.epsilon(1e-5)]
    assert capsys.readouterr().out.count("step ") == 2


def test_a_stop_ends_the_iteration_before_the_step_that_would_exceed():
    steps = plan(10)
    run = JaxRun(steps, jnp.zeros(3))
    transformation = run.aggregation()
    update = run.jit(lambda grads, mask: transformation.update(grads, optax.EmptyState(), mask=mask)[0])

    for step in run.steps([BudgetStop(steps.epsilon_after(3, 1e-5), 1e-5)]):
        update(jnp.zeros((40, 3)), pad_rows(step.indices, 40)[1])

    assert run.step_number == 3
    assert run.epsilon(1e-5) == steps.epsilon_after(3, 1e-5)


def test_the_end_of_a_training_that_is_broken_off_is_told():
    class Noting(Callback):
        def __init__(self):
            self.seen = []

        def on_train_begin(self, progress):
            self.seen.append("begin")

        def on_step_end(self, progress):
            self.seen.append(progress.num_steps)

        def on_train_end(self, progress):
            self.seen.append("end")

    noting = Noting()
    steps = JaxRun(full_batches(5), jnp.zeros(3)).steps([noting])
    for step in steps:
        step.add(np.zeros((40, 3), np.float32))
        step.release()
        if step.number == 1:
            break
    steps.close()

    assert noting.seen == ["begin", 1, "end"]
    with pytest.raises(InvalidType, match="callbacks must be instances of Callback, got function"):
        JaxRun(full_batches(), jnp.zeros(3)).steps([lambda progress: None])


def test_a_ledger_of_the_plans_epsilon_runs_all_steps(tmp_path):
    params, (x, y) = model(), examples()
    calibrated = plan(10).calibrated(epsilon=4.0, delta=1e-5)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=4.0, delta=1e-5, measure="pure")
        paid = {"ledger": ledger, "scope": "digits", "key": "k", "plan_delta": 1e-5}
        run = JaxRun(calibrated, params, **paid)
        computed = ExampleGradients(loss, num_rows=16)
        for step in run:
            computed.add_to(step, params, x, y)
            step.release()
            if step.number == 5:
                run = JaxRun(calibrated, params, **paid)
                break
        for step in run:
            computed.add_to(step, params, x, y)
            step.release()

        assert run.step_number == 10
        assert ledger.report("digits").epsilon_charged == run.epsilon(1e-5) == calibrated.epsilon(1e-5)


@pytest.mark.parametrize("probability", [1e-9, 1.0])
def test_a_loss_without_the_parameters_is_refused_before_a_charge(tmp_path, probability):
    params, (x, y) = model(), examples()
    other = model()
    losses = [
        lambda _, x, y: loss(other, x, y),
        lambda _, x, y: jnp.sum(x),
        lambda _, x, y: 0.0,
    ]
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("digits", epsilon=1000.0, delta=1e-5)
        for wrong in losses:
            with pytest.raises(InvalidParameter, match="loss must depend on the parameters"):
                gradients_of(wrong)(params, x, y)
            sampling = PoissonSampling(probability)
            run = JaxRun(plan(sampling=sampling), params, ledger=ledger, scope="digits")
            step = next(run)
            with pytest.raises(InvalidParameter, match="loss must depend on the parameters"):
                ExampleGradients(wrong).add_to(step, params, x, y)
            run.plan_run.close()
        assert ledger.epsilon_charged("digits") == 0.0


def test_losses_that_use_a_parameter_in_any_way_are_taken():
    params, (x, y) = model(), examples()
    for right in (
        loss,
        jax.jit(loss),
        lambda p, x, y: jnp.sum(p["second"]),
        lambda p, x, y: jax.lax.scan(lambda carry, row: (carry + row * p["second"][0, 0], None), 0.0, x)[0],
    ):
        assert gradients_of(right)(params, x, y)["second"].shape == (40, 4, 3)
