"""Per-example gradients of modules: equal to those of one backward pass for each example."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

import ferrodp as fd
from ferrodp.integrations.torch import per_example_gradients, start

PLAN = fd.PrivacyPlan(
    population_size=10,
    sampling=fd.plan.PoissonSampling(0.5),
    num_steps=1,
    clipping=fd.plan.FlatClipping(1.0),
    noise=fd.plan.ConstantNoise(2.0),
)


def cross_entropy(model, x, y):
    found = model(x)
    found, penalty = found if isinstance(found, tuple) else (found, 0.0)
    return nn.functional.cross_entropy(found, y) + penalty


class Tied(nn.Module):
    """Two layers that share a weight, with a parameter without axes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x))) * self.scale


class Twice(nn.Module):
    """A layer that is called twice, and whose weight and bias are used besides."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x))) + x @ self.layer.weight.square() + self.layer.bias.exp()


class Penalized(nn.Module):
    """A layer whose weight adds to the loss what is the same for all examples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6, bias=False)

    def forward(self, x):
        return self.layer(x), self.layer.weight.square().sum()


class Rounded(nn.Module):
    """Makes words of numbers."""

    def forward(self, x):
        return x.abs().long().clamp(max=8)


MODELS = {
    "layers": (nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 6)), (6,)),
    "convolution": (nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 6)), (1, 6, 6)),
    "tied": (Tied(), (6,)),
    "twice": (Twice(), (6,)),
    "penalized": (Penalized(), (6,)),
    "without bias": (nn.Sequential(nn.Linear(6, 9, bias=False), nn.Tanh(), nn.Linear(9, 6)), (6,)),
    "several rows": (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Flatten(), nn.Linear(8, 6)), (2, 3)),
    "double": (nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 6)).double(), (6,)),
    "embedding": (nn.Sequential(Rounded(), nn.Embedding(9, 5), nn.Flatten(), nn.Linear(30, 6)), (6,)),
}


@pytest.mark.parametrize("name", MODELS)
def test_they_are_those_of_a_backward_pass_for_each_example(name):
    model, shape = MODELS[name]
    dtype = next(model.parameters()).dtype
    x, y = torch.randn(5, *shape, dtype=dtype), torch.randint(6, (5,))

    found = per_example_gradients(model, cross_entropy, x, y)

    assert all("forward" not in vars(module) for module in model.modules())
    assert found.keys() == {key for key, _ in model.named_parameters()}
    for i in range(5):
        each = copy.deepcopy(model)
        cross_entropy(each, x[i : i + 1], y[i : i + 1]).backward()
        for key, parameter in each.named_parameters():
            # Sums of at most 64 products in float32, in another order.
            torch.testing.assert_close(found[key][i], parameter.grad, rtol=1e-5, atol=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "2.weight"])
def test_a_layer_may_be_trained_in_part(frozen):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
    x, y = torch.randn(5, 6), torch.randint(6, (5,))
    whole = per_example_gradients(model, cross_entropy, x, y)
    model.get_parameter(frozen).requires_grad_(False)

    found = per_example_gradients(model, cross_entropy, x, y)

    assert found.keys() == whole.keys() - {frozen}
    for key, each in found.items():
        torch.testing.assert_close(each, whole[key], rtol=1e-5, atol=1e-6)  # as above


def test_a_loss_that_ignores_the_output_has_the_gradient_of_the_rest():
    model = Penalized()

    found = per_example_gradients(model, lambda model, x: model(x)[1], torch.randn(5, 6))

    torch.testing.assert_close(found["layer.weight"], (2 * model.layer.weight.detach()).expand(5, 6, 6))


def test_a_loss_that_raises_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))

    def loss(model, x):
        model(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        per_example_gradients(model, loss, torch.randn(5, 6))

    assert all("forward" not in vars(module) for module in model.modules())


def test_hooks_and_a_forward_of_ones_own_see_what_they_always_saw():
    model, seen = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 6)), []
    model[0].register_forward_hook(lambda module, given, result: seen.append(result.shape))
    model[1].forward = lambda x: 2.0 * nn.functional.linear(x, model[1].weight, model[1].bias)
    x, y = torch.randn(5, 6), torch.randint(6, (5,))

    found = per_example_gradients(model, cross_entropy, x, y)

    assert seen == [(1, 8), (1, 8)]  # of zeros, to see what the loss depends on, and of the examples
    cross_entropy(model, x[:1], y[:1]).backward()
    torch.testing.assert_close(found["1.weight"][0], model[1].weight.grad, rtol=1e-5, atol=1e-6)  # as above


def test_batches_are_any_nesting_of_tensors():
    model = nn.Linear(3, 1)
    batch = {"x": torch.ones(4, 3), "more": [torch.ones(4)]}

    found = per_example_gradients(model, lambda model, batch: (model(batch["x"]).sum() * batch["more"][0]).sum(), batch)

    assert found["weight"].shape == (4, 1, 3)


def test_dropout_draws_for_each_example():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(200, 1))

    found = per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 200))

    # Each coordinate is 0 or 2 by a coin: 200 equal ones have a probability of 2⁻²⁰⁰.
    assert not torch.equal(*found["1.weight"])
    assert set(found["1.weight"].unique().tolist()) == {0.0, 2.0}


def test_parameters_without_gradient_are_left_out():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)

    found = per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3))

    assert found.keys() == {"1.weight", "1.bias"}


def test_an_empty_batch_has_no_gradients():
    found = per_example_gradients(nn.Linear(3, 1), lambda model, x: model(x).sum(), torch.ones(0, 3))

    assert found["weight"].shape == (0, 1, 3)


def test_layers_that_mix_examples_are_refused():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    with pytest.raises(fd.errors.InvalidParameter, match=r"module '1' normalizes over the batch.*GroupNorm"):
        per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3))

    model.eval()
    assert per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3))["0.bias"].shape == (2, 3)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((), "made of tensors"),
        ((torch.ones(2, 3), torch.ones(3)), "same length"),
        ((torch.tensor(1.0),), "first axis"),
        (([1.0, 2.0],), "made of tensors"),
    ],
)
def test_what_is_no_batch_is_refused(batch, message):
    with pytest.raises(fd.errors.FerroError, match=message):
        per_example_gradients(nn.Linear(3, 1), lambda model, *batch: model(batch[0]).sum(), *batch)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(3, 1, device="meta"), "device meta"),
        (nn.Linear(3, 1).requires_grad_(False), "requires a gradient"),
        (nn.Linear(3, 1, dtype=torch.complex64), "real floating-point"),
        (torch.ones(3), r"torch\.nn\.Module"),
    ],
)
def test_what_is_no_module_on_the_cpu_is_refused(model, message):
    with pytest.raises(fd.errors.FerroError, match=message):
        per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3))


class Averaging(nn.Module):
    """Keeps an average of what it sees, and counts how often it was called."""

    def __init__(self, into):
        super().__init__()
        self.layer, self.into = nn.Linear(3, 3), into
        self.register_buffer("average", torch.zeros(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        with torch.no_grad():
            self.calls += 1
            if self.into == "place":
                self.average.mul_(0.9).add_(0.1 * x.mean(0))
            else:
                self.average = 0.9 * self.average + 0.1 * x.mean(0)
        return self.layer(x)


@pytest.mark.parametrize("into", ["place", "new"])
@pytest.mark.parametrize("records", [1, 4])
def test_what_layers_write_about_examples_does_not_stay_in_the_model(into, records):
    """It would leave with the model's state, without noise; so would how many parts a batch was cut into."""
    if (into, records) == ("place", 1):
        pytest.skip("vmap refuses to write an example into a buffer")
    model, x = Averaging(into).train(), torch.ones(40, 3)
    plan = dataclasses.replace(PLAN, population_size=40, records_per_group=records)
    step = next(start(plan, model, lambda model, x: model(x).sum()))
    if records == 1:
        step.add(x[step.indices])
    else:
        for members in step.groups:
            step.add_group(x[members])
    step.release()

    assert not model.average.any()
    assert not model.calls.any()
    assert model.layer.weight.grad.any()


def test_layers_that_keep_averages_of_examples_are_refused():
    model = nn.Sequential(nn.InstanceNorm1d(3, affine=True, track_running_stats=True), nn.Linear(8, 2))
    with pytest.raises(fd.errors.InvalidParameter, match="keeps averages of the examples"):
        per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3, 8))
    with pytest.raises(fd.errors.InvalidParameter, match="keeps averages of the examples"):
        start(PLAN, model, lambda model, x: model(x).sum())
    model[0].eval()
    assert per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3, 8))["1.bias"].shape == (2, 2)
    model = nn.Sequential(nn.InstanceNorm1d(3, affine=True), nn.Linear(8, 2)).train()
    assert per_example_gradients(model, lambda model, x: model(x).sum(), torch.ones(2, 3, 8))["1.bias"].shape == (2, 2)
