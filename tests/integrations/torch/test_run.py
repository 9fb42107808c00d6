"""Trainings by a plan: what reaches `.grad`, in which types, and what is refused before anything is drawn."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

import ferrodp as fd
from ferrodp.integrations.torch import PlanLoader, start
from ferrodp.plan import (
    AdaptiveClipping,
    AutomaticClipping,
    ConstantNoise,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    GivenOrder,
    PerGroupClipping,
    PoissonSampling,
    PrivacyPlan,
)
from ferrodp.testing import SeededNoiseSource

LEAST_NOISE = 2.0**-20


def plan_of(**changes):
    plan = PrivacyPlan(
        population_size=20,
        sampling=FullBatch(),
        num_steps=3,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(LEAST_NOISE),
    )
    return dataclasses.replace(plan, **changes)


def summed(model, x):
    return model(x).sum()


def cross_entropy(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def flat(model):
    return torch.cat([parameter.grad.ravel() for parameter in model.parameters()])


def test_a_network_of_two_layers_is_trained_with_adam_within_its_budget():
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
    plan = PrivacyPlan(
        population_size=1437,
        sampling=PoissonSampling(0.3),
        num_steps=60,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    ).calibrated(epsilon=4.0, delta=1e-5)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    run = start(plan, model, cross_entropy)
    for step in run:
        step.add(x[step.indices], y[step.indices])
        step.release()
        optimizer.step()

    accuracy = (model(x[1437:]).argmax(1) == y[1437:]).float().mean().item()
    assert accuracy > 0.8  # 0.86 to 0.90 in ten runs
    assert (run.stopped, run.step_number) == ("finished", 60)
    assert run.epsilon(1e-5) == plan.epsilon(1e-5) <= 4.0


@pytest.mark.parametrize("max_memory", [1, 100, 2**26])
def test_the_released_gradient_is_the_sum_of_clipped_gradients_over_the_expected_size(max_memory):
    torch.manual_seed(1)
    model, x, y = nn.Linear(3, 4), torch.randn(20, 3) * 2, torch.randint(4, (20,))
    expected = torch.zeros(16)
    for i in range(20):
        model.zero_grad()
        cross_entropy(model, x[i : i + 1], y[i : i + 1]).backward()
        expected += flat(model) / max(flat(model).norm().item(), 1.0) / 20

    step = next(start(plan_of(), model, cross_entropy, max_memory=max_memory))
    step.add(x[:7], y[:7])
    step.add(x[7:], y[7:])
    step.release()

    # Noise of deviation 2⁻²⁰ in the sum of 20, and 20 roundings of float32.
    torch.testing.assert_close(flat(model), expected, rtol=1e-5, atol=1e-6)


def test_noise_in_grad_follows_the_stated_law_in_every_step():
    """Kolmogorov-Smirnov on 2 · 40 000 coordinates of empty batches, and their correlation; false alarms: 2e-6."""
    plan = plan_of(sampling=PoissonSampling(1e-9), clipping=FlatClipping(2.0), noise=ConstantNoise(1.5))
    model = nn.Linear(400, 100, bias=False)
    drawn = []
    for step in start(plan, model, summed):
        assert len(step.indices) == 0  # but with probability 2e-8
        step.add(torch.ones(0, 400))
        step.release(denominator=8)
        drawn.append(model.weight.grad.numpy().ravel() * 8 / (1.5 * 2.0))

    assert stats.kstest(np.concatenate(drawn[:2]), "norm").pvalue > 1e-6
    # The correlation of n independent pairs has deviation 1/√n; 4.9 deviations are exceeded with probability 1e-6.
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 4.9 / math.sqrt(40_000)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_grad_has_the_type_of_its_parameter(dtype):
    model = nn.Linear(3, 2).to(dtype)
    step = next(start(plan_of(), model, summed))
    step.add(torch.ones(20, 3, dtype=dtype))
    step.release()

    assert {parameter.grad.dtype for parameter in model.parameters()} == {dtype}
    # 20 equal gradients of ones: 2 · (3 + 1) coordinates scaled to norm 1, rounded to at least 8 bits.
    torch.testing.assert_close(flat(model).double(), torch.full((8,), 1 / math.sqrt(8)).double(), rtol=2**-8, atol=1e-6)


def test_parameters_of_several_types_are_clipped_together():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 2).double(), nn.Linear(2, 1)

        def forward(self, x):
            return self.second(self.first(x).float())

    mixed = Mixed()
    step = next(start(plan_of(), mixed, lambda model, x: 1e3 * model(x).sum()))
    step.add(torch.ones(20, 3, dtype=torch.float64))
    step.release()

    assert torch.cat([parameter.grad.double().ravel() for parameter in mixed.parameters()]).norm() < 1 + 1e-4


def test_a_scaled_loss_is_unscaled_before_clipping():
    model = nn.Linear(3, 2)
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)) * 0.01
    gradients = []
    for scale in (1.0, 2.0**12):
        step = next(start(plan_of(), model, summed, loss_scale=scale))
        step.add(x)
        step.release()
        gradients.append(flat(model).clone())

    # Powers of two scale without rounding; what differs is noise of deviation 2⁻²⁰ / 20.
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-6)


def test_small_gradients_in_float16_need_the_scale_and_overflowing_ones_count_as_zeros():
    found = {}
    for scale in (1.0, 2.0**12, 2.0**24):
        model = nn.Linear(3, 1, bias=False).half()
        plan = plan_of(clipping=FlatClipping(1e-7))
        step = next(start(plan, model, lambda model, x: model(x).sum() * 1e-5, loss_scale=scale))
        step.add(torch.full((20, 3), 1e-3, dtype=torch.float16))
        step.release(denominator=20e-8)
        found[scale] = model.weight.grad.double().max().item()

    # A gradient of 1e-8 is less than half of the least float16, 2⁻²⁴; times 2¹² it is held to some per cent, as its
    # factor 1e-5 is; and the last scale is beyond the largest float16, 65504.
    assert found[1.0] == pytest.approx(0.0, abs=1e-4)
    assert found[2.0**12] == pytest.approx(1.0, rel=0.02)
    assert found[2.0**24] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_example_whose_gradient_is_not_finite_counts_as_zeros_and_is_charged(value):
    model, x = nn.Linear(3, 1), torch.zeros(20, 3)
    x[0, 0] = value
    run = start(plan_of(), model, summed)
    step = next(run)
    step.add(x)
    step.release()

    # Of the other 19 only the bias has a gradient, 1.
    assert model.bias.grad.item() == pytest.approx(19 / 20, abs=1e-5)
    assert run.epsilon(1e-5) == plan_of().epsilon_after(1, 1e-5)


def test_every_step_is_charged_empty_ones_too():
    plan = plan_of(sampling=PoissonSampling(1e-9), noise=ConstantNoise(1.0))
    model = nn.Linear(3, 1)
    run = start(plan, model, summed)
    for done, step in enumerate(run, start=1):
        step.release()
        assert run.epsilon(1e-5) == plan.epsilon_after(done, 1e-5)
        assert model.weight.grad.abs().max() > 0

    assert run.step_number == 3


def test_a_batch_of_another_size_than_drawn_is_refused_and_nothing_is_drawn():
    model = nn.Linear(3, 1)
    run = start(plan_of(), model, summed)
    step = next(run)
    step.add(torch.ones(19, 3))

    with pytest.raises(fd.errors.FerroError, match="units drawn"):
        step.release()

    assert model.weight.grad is None
    assert run.current is step
    with pytest.raises(fd.errors.FerroError, match="must be released"):
        next(run)
    step.add(torch.ones(1, 3))
    step.release()
    assert run.current is None


def test_a_step_is_released_once():
    step = next(start(plan_of(), nn.Linear(3, 1), summed))
    step.add(torch.ones(20, 3))
    step.release()

    for call in (step.release, lambda: step.add(torch.ones(1, 3))):
        with pytest.raises(fd.errors.FerroError, match="was released"):
            call()


def exchange(module, name, tensor):
    setattr(module, name, nn.Parameter(tensor))


def rename(module, old, new):
    setattr(module, new, getattr(module, old))
    delattr(module, old)


CHANGES = {
    "moved": lambda model: exchange(model[0], "weight", model[0].weight.to("meta")),
    "exchanged": lambda model: exchange(model[0], "weight", torch.zeros(1, 3)),
    "exchanged for an equal one": lambda model: exchange(model[0], "bias", model[0].bias.detach().clone()),
    "frozen": lambda model: model[0].bias.requires_grad_(False),
    "widened": lambda model: model.double(),
    "renamed": lambda model: rename(model[0], "weight", "kernel"),
    "in another place": lambda model: (setattr(model[1], "bias", model[0].bias), delattr(model[0], "bias")),
    "another one besides": lambda model: exchange(model[1], "scale", torch.ones(1)),
    "in another layer": lambda model: model.__setitem__(0, nn.Linear(3, 1)),
    "in a layer more": lambda model: model.append(nn.Linear(1, 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_parameters_that_are_no_longer_those_of_the_beginning_are_refused(change):
    model = nn.Sequential(nn.Linear(3, 1), nn.Identity())
    run = start(plan_of(), model, summed)
    step = next(run)
    step.add(torch.ones(20, 3))
    change(model)

    with pytest.raises(fd.errors.InvalidParameter, match=r"device meta|run began with"):
        step.release()

    assert run.step_number == 0


def test_a_model_that_gets_what_is_not_trained_is_trained_on():
    model = nn.Sequential(nn.Linear(3, 1), nn.Identity())
    step = next(start(plan_of(), model, summed))
    step.add(torch.ones(20, 3))
    model[1].scale = nn.Parameter(torch.ones(1), requires_grad=False)
    step.release()

    assert model[0].weight.grad is not None


def test_gradients_that_were_kept_stay_what_they_are():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).double()
    model.empty = nn.Parameter(torch.zeros(0, 2, dtype=torch.float64))
    kept, copies = [], []
    for step in start(plan_of(noise=ConstantNoise(1.0)), model, summed):
        step.add(torch.ones(20, 3, dtype=torch.float64))
        step.release()
        kept.append([parameter.grad for parameter in model.parameters()])
        copies.append([gradient.clone() for gradient in kept[-1]])
        assert all(each.grad.is_contiguous() and not each.grad.requires_grad for each in model.parameters())

    places = {gradient.data_ptr() for step in kept for gradient in step if gradient.numel()}
    assert len(places) == 3 * 4
    for gradients, before in zip(kept, copies, strict=True):
        assert all(map(torch.equal, gradients, before))


HOLDERS = {
    "tensor": lambda gradient: gradient,
    "array": lambda gradient: gradient.numpy(),
    "view": lambda gradient: gradient[:1],
    "detached": lambda gradient: gradient.detach(),
    "list": lambda gradient: [gradient],
    "closure": lambda gradient: lambda: gradient,
}


@pytest.mark.parametrize("set_to_none", [None, False, True])
@pytest.mark.parametrize("held", [0, 1], ids=["weight", "bias"])
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS.keys())
def test_memory_is_used_again_only_while_nothing_else_refers_to_a_gradient(hold, held, set_to_none):
    model = nn.Linear(3, 2)
    run = start(plan_of(noise=ConstantNoise(1.0)), model, summed)

    def released():
        if set_to_none is not None:
            model.zero_grad(set_to_none=set_to_none)
        step = next(run)
        step.add(torch.ones(20, 3))
        step.release()
        return [parameter.grad.data_ptr() for parameter in model.parameters()]

    first = released()
    assert released() == first
    kept = hold([model.weight, model.bias][held].grad)
    assert not set(released()) & set(first)
    del kept


def test_memory_is_used_again_only_where_each_gradient_is_the_one_that_was_released():
    model = nn.Linear(3, 3)
    place = "weight"
    for change in (
        lambda parameter: setattr(parameter, "grad", parameter.grad.clone()),
        lambda parameter: setattr(parameter, "grad", parameter.grad.T),
        lambda parameter: setattr(parameter, "grad", None),
        lambda parameter: model.zero_grad(),
    ):
        run = start(plan_of(), model, summed)
        for _ in range(2):
            step = next(run)
            step.add(torch.ones(20, 3))
            step.release()
            # All gradients are 20 times that of one example over 20, of norm 1 as a whole.
            torch.testing.assert_close(flat(model), torch.full((12,), 12**-0.5), rtol=0, atol=1e-5)
            assert all(each.grad.is_contiguous() for each in model.parameters())
            change(getattr(model, place))


def test_a_graph_that_has_saved_a_gradient_notices_that_it_was_overwritten():
    model, factor = nn.Linear(3, 2), torch.ones(2, 3, requires_grad=True)
    run = start(plan_of(), model, summed)
    for number, step in enumerate(run):
        step.add(torch.ones(20, 3))
        step.release()
        if number == 0:
            saved = (model.weight.grad * factor).sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_what_backward_added_is_overwritten_all_of_it():
    model = nn.Linear(3, 2)
    run = start(plan_of(), model, summed)
    for step in run:
        step.add(torch.ones(20, 3))
        step.release()
        torch.testing.assert_close(flat(model), torch.full((8,), 8**-0.5), rtol=0, atol=1e-5)
        summed(model, torch.ones(20, 3)).backward()
        assert flat(model).min() > 20


def test_a_batch_normalization_that_is_switched_on_later_is_refused():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    step = next(start(plan_of(), model, summed))
    model.train()

    with pytest.raises(fd.errors.InvalidParameter, match="normalizes"):
        step.add(torch.ones(20, 3))


@pytest.mark.parametrize(
    "clipping",
    [
        AutomaticClipping(stability=0.01, clip_norm=1.0),
        PerGroupClipping({"weight": 0.6, "bias": 0.8}),
        AdaptiveClipping(initial=1.0, target_quantile=0.5, learning_rate=0.2, count_noise_multiplier=5.0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_clipping_bounds_the_gradient(clipping):
    model = nn.Linear(3, 1)
    run = start(plan_of(clipping=clipping, noise=ConstantNoise(0.01)), model, lambda model, x: 1e3 * model(x).sum())
    for step in run:
        step.add(torch.ones(20, 3))
        norm = step.plan_step.clip_norm
        step.release()
        # Noise of deviation 0.01·C/20 in four coordinates.
        assert flat(model).norm().item() == pytest.approx(norm, rel=0.02)


def test_groups_share_a_vector_and_cost_double():
    plan = plan_of(sampling=PoissonSampling(0.5), records_per_group=4, noise=ConstantNoise(1.0), num_steps=2)
    model, x = nn.Linear(3, 1), torch.ones(20, 3)
    run = start(plan, model, summed)
    for step in run:
        with pytest.raises(fd.errors.InvalidParameter, match="add_group"):
            step.add(x[step.indices])
        for members in step.groups:
            step.add_group(x[members])
        step.release()

    assert run.epsilon(1e-5) > dataclasses.replace(plan, records_per_group=1).epsilon(1e-5)
    alone = next(start(plan_of(), model, summed))
    with pytest.raises(fd.errors.InvalidParameter, match="no groups"):
        alone.add_group(x)


def test_batches_in_a_given_order_are_taken_from_a_loader():
    relation = fd.events.NeighboringRelation.REPLACE_SPECIAL
    plan = plan_of(sampling=GivenOrder(batch_size=5), num_steps=4, neighboring_relation=relation)
    model = nn.Linear(3, 1)
    run = start(plan, model, summed)
    for x in torch.ones(20, 3).split(5):
        step = next(run)
        assert step.indices is None
        step.add(x)
        step.release()

    assert next(run, None) is None


def test_a_run_goes_on_from_its_state():
    x, plan = torch.ones(20, 3), plan_of(noise=ConstantNoise(1.0))
    model = nn.Linear(3, 1)
    run = start(plan, model, summed)
    step = next(run)
    step.add(x)
    step.release()

    resumed = start(plan, model, summed, state=run.state())

    assert resumed.step_number == 1
    with pytest.raises(fd.errors.InvalidParameter, match="this plan"):
        start(plan_of(), model, summed, state=run.state())
    with pytest.raises(fd.errors.InvalidParameter, match="template"):
        start(plan, nn.Linear(4, 1), summed, state=run.state())


def test_a_ledger_ends_the_training_before_its_budget_is_exceeded(tmp_path):
    plan = plan_of(sampling=PoissonSampling(0.5), noise=ConstantNoise(2.0), num_steps=100)
    model = nn.Linear(3, 1)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("data", epsilon=3.0, delta=1e-5, measure="rdp")
        with pytest.warns(UserWarning, match="of 100 steps fit"):
            run = start(plan, model, summed, ledger=ledger, scope="data", key="training")
        for step in run:
            step.add(torch.ones(len(step.indices), 3))
            step.release()

        assert run.stopped == "budget"
        assert 0 < run.step_number <= plan.max_steps(epsilon=3.0, delta=1e-5)
        assert ledger.epsilon_charged("data") <= 3.0


def test_a_ledger_of_the_plans_epsilon_runs_all_steps_and_a_resumed_training_costs_nothing(tmp_path):
    plan = plan_of(sampling=PoissonSampling(0.5), num_steps=12).calibrated(epsilon=4.0, delta=1e-5)
    model = nn.Linear(3, 1)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("data", epsilon=4.0, delta=1e-5, measure="pure")
        where = {"ledger": ledger, "scope": "data"}
        run = start(plan, model, summed, **where, key="training", plan_delta=1e-5)
        for step in run:
            step.add(torch.ones(len(step.indices), 3))
            step.release()
            if step.number == 4:
                state = run.state()
            if step.number == 5:
                break
        with pytest.raises(fd.errors.InvalidParameter, match="plan_delta must be left out with a state"):
            start(plan, model, summed, **where, state=state, plan_delta=1e-5)
        resumed, numbers = start(plan, model, summed, **where, state=state), []
        for step in resumed:
            step.add(torch.ones(len(step.indices), 3))
            step.release()
            numbers.append(step.number)

        assert numbers == [6, 7, 8, 9, 10, 11]
        assert resumed.stopped == "finished"
        assert ledger.report("data").epsilon_charged == plan.epsilon(1e-5) == resumed.epsilon(1e-5)


def test_equal_seeds_give_equal_gradients_and_no_finite_epsilon():
    drawn = []
    for _ in range(2):
        model = nn.Linear(3, 1)
        plan = plan_of(sampling=FixedSizeSampling(4), noise=ConstantNoise(1.0))
        run = start(plan, model, summed, source=SeededNoiseSource(bytes(32)))
        step = next(run)
        step.add(torch.ones(4, 3))
        step.release()
        drawn.append((step.indices.tolist(), model.weight.grad.tolist()))

    assert drawn[0] == drawn[1]
    assert run.epsilon(1e-5) == math.inf


def test_a_loader_gives_the_batches_of_the_plan_empty_ones_too():
    data = [(torch.full((3,), float(i)), i) for i in range(20)]
    for probability in (0.5, 1e-9):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = start(plan_of(sampling=PoissonSampling(probability)), model, lambda model, x, y: model(x).sum())
        loader = PlanLoader(run, data)
        sizes = []
        for x, y in loader:
            assert y.tolist() == run.current.indices.tolist() == x[:, 0].tolist()
            run.current.add(x, y)
            run.current.release()
            optimizer.step()
            sizes.append(len(x))

        assert len(sizes) == len(loader) == 3

    with pytest.raises(fd.errors.InvalidParameter, match="as many items"):
        PlanLoader(start(plan_of(), model, summed), data[:-1])
    with pytest.raises(fd.errors.InvalidType, match="TorchRun"):
        PlanLoader(plan_of().start({"w": (3,)}), data)


def test_contiguous_gradients_are_read_where_they_are():
    from ferrodp.integrations._tensors import array_of

    tensor = torch.ones(4, 3, requires_grad=True)

    assert array_of("x", tensor, np.float32).ctypes.data == tensor.data_ptr()
    transposed = array_of("x", torch.ones(4, 3).T, np.float32)
    assert transposed.flags.c_contiguous
    with pytest.raises(fd.errors.InvalidArrayType, match="dense"):
        array_of("x", torch.ones(4, 3).to_sparse(), np.float32)


def test_a_loop_over_a_loader_that_moves_nothing_is_told_where_it_stands():
    run = start(plan_of(), nn.Linear(3, 1), lambda model, x: model(x).sum())
    batches = iter(PlanLoader(run, torch.ones(20, 3)))
    batch = next(batches)
    run.current.add(batch)
    run.current.release()
    with pytest.warns(UserWarning, match="no parameter has changed since step 0") as caught:
        next(batches)

    assert [Path(each.filename).name for each in caught] == [Path(__file__).name]


def losing(model, num_steps, optimizer=None):
    for step in start(plan_of(num_steps=num_steps), model, summed):
        step.add(torch.ones(20, 3))
        step.release()
        if optimizer is not None:
            optimizer.zero_grad()
            optimizer.step()


@pytest.mark.parametrize("lose", ["no step", "gradients set to None"])
def test_a_step_that_was_paid_for_and_moved_nothing_is_noticed_once(lose):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="no parameter has changed since step 0 was released") as told:
        losing(model, 4, optimizer if lose == "gradients set to None" else None)

    assert len(told) == 1
    assert "call optimizer.step() after each release, with no zero_grad() in between" in str(told[0].message)
    assert told[0].filename == __file__  # the caller's loop


def test_a_last_step_that_moved_nothing_is_noticed():
    model = nn.Linear(3, 1)
    with pytest.warns(UserWarning, match="since step 0"):
        losing(model, 1)


def by_data(model):
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad.data, alpha=-0.1)


@pytest.mark.parametrize("rate", [0.1, 0.0])
def test_steps_that_move_parameters_or_might_have_are_not_called_lost(rate, recwarn):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)  # 0 at the start of a warm-up
    for step in start(plan_of(num_steps=3), model, summed):
        step.add(torch.ones(20, 3))
        step.release()
        by_data(model) if rate else optimizer.step()

    assert not recwarn.list
