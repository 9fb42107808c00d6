"""What a loss is given, and what it has to depend on."""

import copy

import pytest
import torch
from torch import nn

import ferrodp as fd
from ferrodp.integrations.torch import per_example_gradients, start
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

PLAN = PrivacyPlan(
    population_size=20,
    sampling=PoissonSampling(0.5),
    num_steps=2,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(2.0),
)


class Parts(nn.Module):
    """A model that is called by its parts; with layers that are not linear, or without."""

    def __init__(self, *more):
        super().__init__()
        self.config = {"scale": 2.0}
        self.encoder, self.head = nn.Sequential(nn.Linear(4, 4), *more), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.encoder(x)) * self.config["scale"]


KINDS = {
    "linear layers": lambda: Parts(),
    "others, too": lambda: Parts(nn.LayerNorm(4)),
    "convolution": lambda: Parts(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 1), nn.Flatten()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_gets_a_module_whatever_the_layers_are(kind):
    model, x = KINDS[kind](), torch.randn(5, 4)

    def by_parts(m, x):
        assert m is model
        assert len(list(m.parameters())) == len(list(model.parameters()))
        return (m.head(m.encoder(x)) * m.config["scale"]).square().sum()

    found = per_example_gradients(model, by_parts, x)
    closed_over = per_example_gradients(model, lambda _, x: model(x).square().sum(), x)

    for i in range(5):
        alone = torch.autograd.grad(model(x[i : i + 1]).square().sum(), list(model.parameters()))
        for each, name in zip(alone, found, strict=True):
            torch.testing.assert_close(found[name][i], each)
            torch.testing.assert_close(closed_over[name][i], each)


@pytest.mark.parametrize("kind", KINDS)
def test_a_penalty_on_the_weights_is_part_of_the_gradient(kind):
    model, x = KINDS[kind](), torch.randn(3, 4)

    def penalized(m, x):
        return m(x).sum() + sum(each.square().sum() for each in m.parameters())

    found = per_example_gradients(model, penalized, x)

    alone = torch.autograd.grad(penalized(model, x[:1]), list(model.parameters()))
    for each, name in zip(alone, found, strict=True):
        torch.testing.assert_close(found[name][0], each)


def without(loss):
    def under_no_grad(m, x):
        with torch.no_grad():
            return loss(m, x)

    return under_no_grad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("way", ["copy", "none", "no_grad"])
def test_a_loss_without_the_model_is_refused_before_a_charge(kind, rows, way, tmp_path):
    model = KINDS[kind]()
    other = copy.deepcopy(model)
    loss = {
        "copy": lambda _, x: other(x).sum(),
        "none": lambda _, x: x.sum(),
        "no_grad": without(lambda m, x: m(x).sum()),
    }[way]
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("training", epsilon=8.0, delta=1e-5)
        with start(PLAN, model, loss, ledger=ledger, scope="training", key="k") as run:
            step = next(run)
            for _ in range(2):  # not only the first time
                with pytest.raises(fd.errors.InvalidParameter, match="loss must depend on a trained parameter"):
                    step.add(torch.randn(rows, 4))

        assert ledger.report("training").epsilon_charged == 0.0
        assert not any(each.grad is not None for each in model.parameters())


def test_the_loss_of_a_group_has_to_depend_on_the_model():
    plan = PrivacyPlan(
        population_size=20,
        sampling=PoissonSampling(0.5),
        num_steps=2,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(2.0),
        records_per_group=2,
    )
    step = next(start(plan, nn.Linear(4, 1), lambda _, x: x.sum()))

    for rows in (0, 2):
        with pytest.raises(fd.errors.InvalidParameter, match="loss must depend on a trained parameter"):
            step.add_group(torch.ones(rows, 4))


def test_a_layer_that_is_never_called_is_named_once_and_trained():
    model = Parts()
    model.spare = nn.Linear(4, 1)
    plan = PrivacyPlan(
        population_size=5, sampling=FullBatch(), num_steps=2, clipping=FlatClipping(1.0), noise=ConstantNoise(2.0)
    )
    run = start(plan, model, lambda m, x: m(x).sum())

    step = next(run)
    with pytest.warns(UserWarning, match=r"depend on 'spare.weight', 'spare.bias', which") as told:
        step.add(torch.randn(5, 4))
    step.release()
    assert told[0].filename == __file__
    assert model.spare.weight.grad is not None
    step = next(run)
    step.add(torch.randn(5, 4))  # a second warning would be an error
    step.release()


def test_looking_at_the_loss_draws_nothing_and_keeps_buffers():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4).eval(), nn.Linear(4, 1))
    model.register_buffer("seen", torch.zeros(()))

    def loss(m, x):
        m.seen += 1
        return m(x).sum()

    before = torch.get_rng_state()
    step = next(start(PLAN, model, loss))
    step.add(torch.zeros(0, 4))

    assert torch.equal(torch.get_rng_state(), before)
    assert model.seen == 0
