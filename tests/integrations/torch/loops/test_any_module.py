"""Any module, any loss: gradients of examples equal those of a loop, or a refusal says what is in the way, unpaid."""

import functools

import pytest
import test_private_layers as layers
import test_private_transformers as transformers
import torch
import torch.utils.checkpoint
from private_loops import loader_of, plan_of
from torch import nn
from torch.nn import functional

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations.torch import check, make_private, per_example_gradients, start
from ferrodp.plan import ConstantNoise

TOLERANCE = 1e-6
"""Of float32, in norms of the gradient of an example."""
torch.manual_seed(2)
X, X3, WORDS = torch.randn(6, 5), torch.randn(6, 4, 8), torch.randint(0, 7, (6, 4))
LABELS, NUMBERS = torch.randint(0, 3, (6,)), torch.rand(6, 3)


def linear(width=3):
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, width))


class Masked(nn.Module):
    """Attention with a mask in one of its forms: lengths, keys, queries and keys, and heads besides."""

    def __init__(self, ndim):
        super().__init__()
        self.inputs, self.ndim = nn.Linear(8, 24), ndim

    def forward(self, x, mask):
        if self.ndim == 1:
            mask = torch.arange(x.shape[1]) < mask[:, None]
        if self.ndim <= 2:
            mask = mask[:, None, None, :].bool()
        elif self.ndim == 3:
            mask = mask[:, None]
        q, k, v = self.inputs(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if self.ndim == 2 and mask.all():  # as some libraries leave a mask out
            mask = None
        return functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)


def seen(*shape):
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True
    return mask


MASKS = {1: torch.tensor([1, 2, 3, 4, 4, 2]), 2: seen(6, 4), 3: seen(6, 4, 4), 4: seen(6, 2, 4, 4)}


class Numbers(nn.Module):
    """Has an output that is no function of parameters, a tuple, and a dict."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return {"scores": self.layer(x), "more": (x.sum(1), 3)}


class Branches(nn.Module):
    """Takes another way for half of the examples."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x):
        return torch.cat([(self.one if row.sum() > 0 else self.other)(row[None]) for row in x])


LOSSES = {
    "cross entropy": (linear, lambda m, x, y: functional.cross_entropy(m(x), y), (X, LABELS)),
    "cross entropy, summed": (linear, lambda m, x, y: functional.cross_entropy(m(x), y, reduction="sum"), (X, LABELS)),
    "cross entropy, each": (
        linear,
        lambda m, x, y: functional.cross_entropy(m(x), y, reduction="none").mean(),
        (X, LABELS),
    ),
    "smoothed": (linear, lambda m, x, y: functional.cross_entropy(m(x), y, label_smoothing=0.1), (X, LABELS)),
    "negative log-likelihood": (linear, lambda m, x, y: functional.nll_loss(m(x).log_softmax(1), y), (X, LABELS)),
    "squares": (linear, lambda m, x, y: functional.mse_loss(m(x), y), (X, NUMBERS)),
    "absolute": (linear, lambda m, x, y: functional.l1_loss(m(x), y), (X, NUMBERS)),
    "Huber": (linear, lambda m, x, y: functional.huber_loss(m(x), y), (X, NUMBERS)),
    "smooth absolute": (linear, lambda m, x, y: functional.smooth_l1_loss(m(x), y), (X, NUMBERS)),
    "coins": (linear, lambda m, x, y: functional.binary_cross_entropy_with_logits(m(x), y), (X, NUMBERS)),
    "coins by probability": (linear, lambda m, x, y: functional.binary_cross_entropy(m(x).sigmoid(), y), (X, NUMBERS)),
    "divergence": (
        linear,
        lambda m, x, y: functional.kl_div(m(x).log_softmax(1), y, reduction="batchmean"),
        (X, NUMBERS),
    ),
    "Poisson": (linear, lambda m, x, y: functional.poisson_nll_loss(m(x), y), (X, NUMBERS)),
    "margins": (linear, lambda m, x, y: functional.multi_margin_loss(m(x), y), (X, LABELS)),
    "mean of norms": (linear, lambda m, x: m(x).norm(dim=1).mean(), (X,)),
    "outputs in a dict": (Numbers, lambda m, x: m(x)["scores"].square().mean(), (X,)),
    "branches": (Branches, lambda m, x: m(x).square().mean(), (X,)),
    "two losses": (
        linear,
        lambda m, x, y: functional.cross_entropy(o := m(x), y) + 0.1 * o.square().mean(),
        (X, LABELS),
    ),
    **{
        f"mask of {n} dimensions": (functools.partial(Masked, n), lambda m, x, k: m(x, k).square().mean(), (X3, mask))
        for n, mask in MASKS.items()
    },
}
TABLE = {
    **{name: (make, layers.squares, (x,)) for name, (make, x) in (layers.TOGETHER | layers.ONE_BY_ONE).items()},
    **{
        name: (
            functools.partial(transformers.tiny, name, config, options),
            loss,
            transformers.PICTURES if loss is transformers.seen else transformers.TEXT,
        )
        for name, (config, options, loss, _) in transformers.MODELS.items()
    },
    **LOSSES,
}
OF_START_ALONE = {"reentrant checkpoint"}


@pytest.mark.parametrize("name", sorted(TABLE.keys() - OF_START_ALONE))
def test_gradients_of_both_ways_are_those_of_a_loop(name):
    make, loss, batch = TABLE[name]

    found = check(make(), batch, loss, tolerance=TOLERANCE)

    assert found.passed, str(found)
    assert not found.unused or name == "branches"  # of zeros, one of two


def test_a_reentrant_checkpoint_is_refused_by_one_way_and_right_in_the_other():
    make, loss, batch = TABLE["reentrant checkpoint"]

    found = check(make(), batch, loss, tolerance=TOLERANCE)

    assert "use_reentrant=False" in found.refusals["start"]
    assert found.differences["make_private"] < TOLERANCE
    assert not found.passed


class Renormalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.full((7, 5), 3.0))

    def forward(self, words):
        return functional.embedding(words, self.table, max_norm=1.0)


class Partly(nn.Module):
    """A checkpoint between layers that are seen."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 5), nn.Linear(5, 3)
        self.first.requires_grad_(False)
        self.middle = nn.Linear(5, 5)

    def forward(self, x):
        x = self.first(x) + torch.zeros((), requires_grad=True)
        return self.last(torch.utils.checkpoint.checkpoint(self.middle, x, use_reentrant=True))


def hooked():
    model = nn.GRUCell(5, 3)
    model.weight_ih.register_post_accumulate_grad_hook(lambda each: None)
    return model


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


REFUSED = {
    "batch normalization": (lambda: nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)), X, "normalizes over the batch"),
    "averages of examples": (
        lambda: nn.Sequential(nn.Conv1d(4, 3, 3), nn.InstanceNorm1d(3, track_running_stats=True)),
        X3,
        "keeps averages",
    ),
    "a renormalized table": (lambda: nn.Embedding(7, 5, max_norm=1.0), WORDS, "writes to its table"),
    "a renormalized bag": (lambda: nn.EmbeddingBag(7, 5, max_norm=1.0), WORDS, "writes to its table"),
    "renormalization by a function": (Renormalized, WORDS, "writes to parameter 'table'"),
    "devices": (lambda: nn.Sequential(nn.DataParallel(nn.Linear(5, 3))), X, "DataParallel"),
    "complex numbers": (lambda: nn.Linear(5, 3, dtype=torch.complex64), X, "real floating-point"),
    "nothing to train": (lambda: nn.Linear(5, 3).requires_grad_(False), X, "requires a gradient"),
}
REFUSED_BY_START = {
    "a checkpoint in the middle": (Partly, X, "use_reentrant=False"),
    "a hook": (hooked, X, "has a hook that is called when its gradient was added up"),
}


@pytest.fixture
def ledger(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("training", epsilon=8.0, delta=1e-5)
        yield ledger
        assert ledger.report("training").epsilon_charged == 0.0


PLAN = plan_of(6, noise=ConstantNoise(8.0))


@pytest.mark.parametrize("name", REFUSED | REFUSED_BY_START)
def test_start_refuses_by_name_before_a_charge(name, ledger):
    make, x, message = (REFUSED | REFUSED_BY_START)[name]
    model = make()

    def train():
        with start(PLAN, model, layers.squares, ledger=ledger, scope="training", key="k") as run:
            next(run).add(x)

    with pytest.raises(FerroError, match=message):
        train()

    assert all(each.grad is None for each in model.parameters())


@pytest.mark.parametrize("name", REFUSED)
def test_private_loops_refuse_by_name_before_a_charge(name, ledger):
    make, x, message = REFUSED[name]
    model = make()

    def train():
        _, optimizer, loader = make_private(
            model, sgd(model), loader_of(x), plan=PLAN, ledger=ledger, scope="training", key="k"
        )
        try:
            for (part,) in loader:
                layers.squares(model, part).backward()
                optimizer.step()
        finally:
            optimizer.private.close()

    with pytest.raises(FerroError, match=message):
        train()


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.SparseAdam])
def test_an_optimizer_that_cannot_take_the_release_is_refused(kind):
    model = nn.Embedding(7, 5)

    with pytest.raises(InvalidParameter, match=f"dense gradients, once a step, got {kind.__name__}"):
        make_private(model, kind(model.parameters()), loader_of(WORDS), plan=PLAN)


class Centered(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


def test_a_model_that_mixes_examples_is_named():
    found = check(Centered(5, 3), X, layers.squares)

    assert found.wrong["make_private"][0] == "weight"
    assert "start" not in found.wrong
    assert not found.passed
    assert "make_private: together; WRONG by" in str(found)


def test_a_loss_that_is_no_mean_is_refused_by_name():
    found = check(linear(), X, lambda model, x: model(x).square().mean().exp())

    assert found.refusals["make_private"].startswith("the loss must be a mean or a sum over the examples")
    assert found.differences["start"] < TOLERANCE


def test_a_loss_without_the_model_is_refused_by_name():
    other = linear()

    found = check(linear(), X, lambda _, x: other(x).square().mean())

    assert "loss must depend on a trained parameter" in found.refusals["start"]
    assert "make_private" in found.refusals
    assert all(each.grad is None for each in other.parameters())


def test_what_the_loss_does_not_depend_on_is_named():
    model = linear()
    model.spare = nn.Linear(2, 2)

    found = check(model, X, lambda m, x: m[2](m[1](m[0](x))).square().mean())

    assert found.unused == ["spare.weight", "spare.bias"]


def test_a_model_that_draws_is_compared_in_evaluation_mode_and_left_as_it_was():
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.BatchNorm1d(4).eval(), nn.Linear(4, 2))
    before, state = torch.get_rng_state(), {name: each.clone() for name, each in model.state_dict().items()}
    model[0].weight.grad = kept = torch.ones(4, 5)

    found = check(model, X, layers.squares)

    assert found.is_in_evaluation
    assert found.passed, str(found)
    assert model[1].training
    assert not model[2].training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(each, state[name]) for name, each in model.state_dict().items())
    assert model[0].weight.grad is kept
    assert torch.equal(kept, torch.ones(4, 5))


def test_one_example_is_no_batch():
    with pytest.raises(InvalidParameter, match="two examples at least"):
        check(linear(), X[:1], layers.squares)


class Counting(nn.Module):
    """Cannot be mapped, and writes what it saw into a buffer, in place or anew."""

    def __init__(self, into):
        super().__init__()
        self.cell, self.into = nn.GRUCell(5, 3), into
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        with torch.no_grad():
            if self.into == "place":
                self.seen += x.sum(0)
            else:
                self.seen = self.seen + x.sum(0)
        return self.cell(x)


@pytest.mark.parametrize("into", ["place", "new"])
def test_buffers_do_not_keep_what_was_written_one_by_one(into):
    model = Counting(into)
    buffer = model.seen

    found = per_example_gradients(model, layers.squares, X)

    assert model.seen is buffer
    assert not model.seen.any()
    assert found["cell.weight_ih"].any()


def test_a_run_says_how_and_why():
    run = start(PLAN, nn.GRU(8, 3, batch_first=True), layers.squares)
    assert (run.way, run.reason) == ("together", None)
    next(run).add(X3)

    assert run.way == "one by one"
    assert "torch.func.vmap cannot run the model" in run.reason


def test_an_error_of_the_loss_is_the_users():
    def broken(model, x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        per_example_gradients(linear(), broken, X)
    assert check(linear(), X, layers.squares).passed


def test_groups_of_records_may_be_of_any_module():
    model = nn.GRU(8, 3, batch_first=True)
    checkpointed = layers.Checkpointed(False)
    plan = plan_of(6, records_per_group=2, sampling=fd.plan.PoissonSampling(0.99), noise=ConstantNoise(8.0))

    for each, x in ((model, X3), (checkpointed, X)):
        step = next(start(plan, each, layers.squares))
        for members in step.groups:
            step.add_group(x[members])
        step.release()

        assert all(one.grad is not None for one in each.parameters())
