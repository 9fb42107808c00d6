"""Each way out that a message of `integrations.torch` names is taken, and no place with one is without a row."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from ferrodp.events import NeighboringRelation
from ferrodp.integrations.torch import PlanLoader, TrainingCurves, check, make_private, start
from ferrodp.integrations.torch._bound import MOST_EXAMPLES, Bound
from ferrodp.integrations.torch._ghost import GhostSum
from ferrodp.integrations.torch._tape import Pairs
from ferrodp.plan import (
    ConstantNoise,
    FlatClipping,
    FullBatch,
    GivenOrder,
    PerGroupClipping,
    PoissonSampling,
    PrivacyPlan,
)
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

SIZE = 20
X, Y = torch.ones(SIZE, 4), torch.zeros(SIZE, dtype=torch.int64)
WORDS = torch.ones(SIZE, 6, 4), torch.zeros(SIZE, 6, dtype=torch.int64)
TOKENS = torch.ones(SIZE, 2, dtype=torch.int64), torch.zeros(SIZE, dtype=torch.int64)


def plan_of(**changes):
    fields = {
        "population_size": SIZE,
        "sampling": FullBatch(),
        "num_steps": 2,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(1.0),
    }
    return PrivacyPlan(**{**fields, **changes})


def mean_loss(model, x, y):
    return functional.cross_entropy(model(x), y)


class Table(nn.Module):
    """Looks words up, and perhaps writes to its table."""

    def __init__(self, limit=None):
        super().__init__()
        self.table, self.last, self.limit = nn.Parameter(torch.ones(3, 4)), nn.Linear(4, 3), limit

    def forward(self, words):
        return self.last(functional.embedding(words, self.table, max_norm=self.limit).mean(1))


class Saving(nn.Module):
    """Runs its first layer again in the backward pass."""

    def __init__(self, use_reentrant):
        super().__init__()
        self.first, self.last, self.use_reentrant = nn.Linear(4, 4), nn.Linear(4, 3), use_reentrant

    def forward(self, x):
        x = x.clone().requires_grad_()
        return self.last(checkpoint(self.first, x, use_reentrant=self.use_reentrant))


class Partly(nn.Module):
    """Has a layer that it does not call."""

    def __init__(self, frozen=False):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(not frozen)

    def forward(self, x):
        return self.used(x)


# runs, whose loss is a function of the model and a batch


def run_of(model=None, loss=mean_loss, plan=None):
    return start(plan_of() if plan is None else plan, nn.Linear(4, 3) if model is None else model, loss)


def stepped(model=None, loss=mean_loss, batch=(X, Y)):
    """Make a step of a run."""
    model = nn.Linear(4, 3) if model is None else model
    step = next(run_of(model, loss))
    step.add(*batch)
    step.release()
    assert any(each.grad is not None for each in model.parameters())


def of_groups(plan):
    for step in run_of(plan=plan):
        for members in step.groups:
            step.add_group(X[members], Y[members])
        step.release()
        return


def in_given_order():
    step = next(run_of(plan=ORDERED))
    step.add(X[:5], Y[:5])
    step.release()


def of_one_number(model, x, y):
    """A loss that is read by Python, so that examples are taken one by one."""
    return mean_loss(model, x, y) * (1.0 + 0.0 * x.sum().item())


def hooked(*, remove):
    model = nn.Linear(4, 3)
    handle = model.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    if remove:
        handle.remove()
    stepped(model, of_one_number)


def copied(model):
    other = copy.deepcopy(model)
    return lambda _, x, y: mean_loss(other, x, y)


def unmoved(*, steps):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in run_of(model):
        step.add(X, Y)
        step.release()
        if steps:
            optimizer.step()


def of_many(plan):
    """Draw a step from a population that is too large for sums in float64."""
    step = next(run_of(plan=plan))
    step.add(X[:1].expand(len(step.indices), 4), Y[:1].expand(len(step.indices)))
    step.release()


# private loops


def private(model=None, plan=None, data=(X, Y), optimizer=None, loader=None, **options):
    model = nn.Linear(4, 3) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer
    loader = DataLoader(TensorDataset(*data), batch_size=10) if loader is None else loader
    return make_private(model, optimizer, loader, plan=plan_of() if plan is None else plan, **options)


def looped(model=None, loss=mean_loss, data=(X, Y), step=lambda optimizer: optimizer.step(), **options):
    """Train to the end of the plan, and return the training."""
    model, optimizer, loader = private(model, data=data, **options)
    for batch in loader:
        optimizer.zero_grad()
        loss(model, *batch).backward()
        step(optimizer)
    assert optimizer.private.step_number > 0
    return optimizer.private


def begun(do, **options):
    """Begin a private loop, and do something with its first batch."""
    model, optimizer, loader = private(**options)
    batches = iter(loader)
    return do(model, optimizer, *next(batches))


def two_models(together):
    one, optimizer, loader = private()
    other, another, others = private()
    (x, y), (u, v) = next(iter(loader)), next(iter(others))
    if together:
        functional.cross_entropy(one(x) + other(u), y).backward()
    mean_loss(one, x, y).backward()
    optimizer.step()
    mean_loss(other, u, v).backward()
    another.step()


def backward_twice(model, optimizer, x, y):
    loss = mean_loss(model, x, y)
    loss.backward(retain_graph=True)
    loss.backward()


def backward_once(model, optimizer, x, y):
    (mean_loss(model, x, y) + mean_loss(model, x, 1 - y)).backward()
    optimizer.step()


def called_in_between(model, optimizer, x, y):
    mean_loss(model, x, y).backward()
    mean_loss(model, x, y)


def called_without_gradients(model, optimizer, x, y):
    mean_loss(model, x, y).backward()
    with torch.no_grad():
        mean_loss(model, x, y)
    optimizer.step()


def evaluated(model, optimizer, x, y):
    mean_loss(model, x, y).backward()
    optimizer.step()
    with torch.no_grad():
        mean_loss(model, X[:3], Y[:3])


def zeroed_in_between(model, optimizer, x, y):
    mean_loss(model, x, y).backward()
    optimizer.zero_grad()


def zeroed_around(model, optimizer, x, y):
    optimizer.zero_grad()
    mean_loss(model, x, y).backward()
    optimizer.step()
    optimizer.zero_grad()


def texts(loss, lengths):
    model, optimizer, loader = private(data=WORDS, part_size=10)
    for (x, y), length in zip(loader, lengths, strict=True):
        loss(model(x[:, :length]).transpose(1, 2), y[:, :length]).backward()
        optimizer.step()


def summed_by_text(scores, y):
    return functional.cross_entropy(scores, y, reduction="none").sum(1).mean()


def penalized(model, x, y):
    return mean_loss(model, x, y) + model.weight.square().mean()


def checked(loss):
    """Look at a model and its loss, and raise what speaks against them."""
    found = check(nn.Linear(4, 3), (X, Y), loss)
    if found.refusals:
        raise ValueError("\n".join(found.refusals.values()))
    assert found.passed


def decaying():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    looped(model, optimizer=optimizer)


def stepped_with(*args, **kwargs):
    def step(optimizer):
        optimizer.step(*args, **kwargs)

    return looped(step=step)


def slower(optimizer):
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    optimizer.step()


CURVES = TrainingCurves(loss_bound=5)


def watched(model, optimizer, x, y):
    losses = functional.cross_entropy(model(x), y, reduction="none")
    optimizer.private.watch(losses)
    losses.mean().backward()
    optimizer.step()


def watch_mean(model, optimizer, x, y):
    optimizer.private.watch(mean_loss(model, x, y))


def watch_twice(model, optimizer, x, y):
    losses = functional.cross_entropy(model(x), y, reduction="none")
    optimizer.private.watch(losses)
    optimizer.private.watch(losses)


def watch_after_step(model, optimizer, x, y):
    watched(model, optimizer, x, y)
    optimizer.private.watch(torch.ones(len(x)))


def private_twice(close):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    private(model, optimizer=optimizer)
    if close:
        optimizer.private.close()
    looped(model, optimizer=optimizer)


def other_optimizer(make):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    looped(model, optimizer=make(model))


def of_part(model):
    """An optimizer of the first layer, the rest of the model frozen."""
    model[1].requires_grad_(False)
    return torch.optim.SGD(model[0].parameters(), lr=0.1)


def added_in(parts):
    """Add four examples to the sum of a step that has room for three parts."""
    total = GhostSum(torch, {"w": torch.Size((1, 1))}, Bound(64, 4096.0, 3, 1e-6), torch.device("cpu"), None)
    size = 4 // parts
    pair = torch.ones(size, 1, 1)
    for _ in range(parts):
        total.add({"w": [Pairs(pair, pair)]}, [(["w"], 1.0)], 1.0, torch.ones(size, dtype=torch.bool), size)


MANY = plan_of(population_size=MOST_EXAMPLES + 1, sampling=PoissonSampling(1e-6))
GROUPS = plan_of(records_per_group=2, sampling=PoissonSampling(0.5))
NAMED = plan_of(clipping=PerGroupClipping({"weight": 1.0, "bias": 1.0}))
ORDERED = plan_of(sampling=GivenOrder(batch_size=5), neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)

RUNS = [
    Hint("; as in start(plan, model, loss)", lambda c: run_of(plan=1.0), lambda c: run_of()),
    Hint("the class Linear: make one, Linear(...)", lambda c: run_of(nn.Linear), lambda c: run_of(nn.Linear(4, 3))),
    Hint("for example torch.nn.Linear(10, 2)", lambda c: run_of(5), lambda c: run_of(torch.nn.Linear(10, 2))),
    Hint(
        "write lambda model, x, y: criterion(model(x), y)",
        lambda c: run_of(loss=nn.CrossEntropyLoss()),
        lambda c: (
            criterion := nn.CrossEntropyLoss(),
            stepped(loss=lambda model, x, y: criterion(model(x), y)),
        ),
    ),
    Hint(
        "for example lambda model, x, y: cross_entropy(model(x), y)",
        lambda c: run_of(loss=5),
        lambda c: stepped(loss=lambda model, x, y: functional.cross_entropy(model(x), y)),
    ),
    Hint(
        "write parameter.requires_grad_(True)",
        lambda c: run_of(nn.Linear(4, 3).requires_grad_(False)),
        lambda c: (
            model := nn.Linear(4, 3).requires_grad_(False),
            [parameter.requires_grad_(True) for parameter in model.parameters()],
            stepped(model),
        ),
    ),
    Hint(
        "writes to its table when it looks something up, which no noise protects: make it without max_norm",
        lambda c: run_of(nn.Embedding(3, 4, max_norm=1.0)),
        lambda c: run_of(nn.Embedding(3, 4)),
    ),
    Hint(
        "make it with track_running_stats=False, or put it into evaluation mode",
        lambda c: run_of(nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True), nn.Linear(4, 3))),
        lambda c: (
            run_of(nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=False), nn.Linear(4, 3))),
            run_of(nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True).eval(), nn.Linear(4, 3))),
        ),
    ),
    Hint(
        "use GroupNorm or LayerNorm, or put it into evaluation mode",
        lambda c: stepped(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))),
        lambda c: (
            stepped(nn.Sequential(nn.GroupNorm(2, 4), nn.Linear(4, 3))),
            stepped(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3))),
            stepped(nn.Sequential(nn.BatchNorm1d(4).eval(), nn.Linear(4, 3))),
        ),
    ),
    Hint(
        "for example torch.from_numpy(array)",
        lambda c: stepped(batch=(X.numpy(), Y.numpy())),
        lambda c: stepped(batch=(torch.from_numpy(X.numpy()), torch.from_numpy(Y.numpy()))),
    ),
    Hint("give each example its label", lambda c: stepped(batch=(X, Y[:3])), lambda c: stepped(batch=(X, Y))),
    Hint(
        "remove it; the optimizer steps after the release",
        lambda c: hooked(remove=False),
        lambda c: hooked(remove=True),
    ),
    Hint(
        "the model or the loss writes to parameter 'table'",
        lambda c: stepped(Table(limit=1.0), batch=TOKENS),
        lambda c: stepped(Table(), batch=TOKENS),
    ),
    Hint(
        "until the backward pass: write checkpoint(..., use_reentrant=False)",
        lambda c: stepped(Saving(True), of_one_number),
        lambda c: stepped(Saving(False), of_one_number),
    ),
    Hint(
        "such as cross_entropy(model(x), y)",
        lambda c: stepped(loss=lambda model, x, y: model(x)),
        lambda c: stepped(loss=lambda model, x, y: functional.cross_entropy(model(x), y)),
    ),
    Hint(
        "Let it call its argument, as in lambda model, x, y: cross_entropy(model(x), y)",
        lambda c: (model := nn.Linear(4, 3), stepped(model, copied(model))),
        lambda c: stepped(loss=lambda model, x, y: functional.cross_entropy(model(x), y)),
    ),
    Hint(
        "write population_size=len(dataset) in the plan",
        lambda c: PlanLoader(run_of(), [(X[0], Y[0])] * 7),
        lambda c: PlanLoader(run_of(plan=plan_of(population_size=7)), [(X[0], Y[0])] * 7),
    ),
    Hint(
        "has no groups: use add",
        lambda c: next(run_of()).add_group(X, Y),
        lambda c: next(run_of()).add(X, Y),
    ),
    Hint(
        "write parameter.requires_grad_(False) before the run is started",
        lambda c: stepped(Partly()),
        lambda c: stepped(Partly(frozen=True)),
    ),
    Hint(
        "call optimizer.step() after each release",
        lambda c: unmoved(steps=False),
        lambda c: unmoved(steps=True),
    ),
]
"""Of `start`, its steps and its loader."""

LOOPS = [
    Hint(
        "for example DataLoader(TensorDataset(x, y), batch_size=64)",
        lambda c: private(loader=[(X, Y)]),
        lambda c: looped(loader=DataLoader(TensorDataset(X, Y), batch_size=64)),
    ),
    Hint("without groups of records: use start", lambda c: private(plan=GROUPS), lambda c: of_groups(GROUPS)),
    Hint(
        "got GivenOrder: use PoissonSampling, or start",
        lambda c: private(plan=ORDERED),
        lambda c: (looped(plan=plan_of(sampling=PoissonSampling(0.5))), in_given_order()),
    ),
    Hint(
        "write population_size=len(dataset) in the plan",
        lambda c: private(plan=plan_of(population_size=7)),
        lambda c: looped(plan=plan_of(population_size=len(X))),
    ),
    Hint(
        "call optimizer.private.close() first",
        lambda c: private_twice(close=False),
        lambda c: private_twice(close=True),
    ),
    Hint(
        "write parameter.requires_grad_(True)",
        lambda c: private(nn.Linear(4, 3).requires_grad_(False)),
        lambda c: looped(nn.Linear(4, 3).requires_grad_(False).requires_grad_(True)),
    ),
    Hint(
        'move it with .to("cpu")',
        lambda c: private(nn.Linear(4, 3, device="meta")),
        lambda c: looped(nn.Linear(4, 3).to("cpu")),
    ),
    Hint(
        "must be a torch.optim.Optimizer, got int; for example torch.optim.Adam(model.parameters())",
        lambda c: private(optimizer=5),
        lambda c: other_optimizer(lambda model: torch.optim.Adam(model.parameters())),
    ),
    Hint(
        "got LBFGS; for example torch.optim.Adam(model.parameters())",
        lambda c: other_optimizer(lambda model: torch.optim.LBFGS(model.parameters())),
        lambda c: other_optimizer(lambda model: torch.optim.Adam(model.parameters())),
    ),
    Hint(
        "make it of model.parameters(), or freeze the parameter with requires_grad_(False)",
        lambda c: other_optimizer(lambda model: torch.optim.SGD(model[0].parameters(), lr=0.1)),
        lambda c: (
            other_optimizer(lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
            other_optimizer(of_part),
        ),
    ),
    Hint(
        "for sums in float64, got 16777217; use start",
        lambda c: private(plan=MANY, data=(X[:1, 0].expand(MOST_EXAMPLES + 1),)),
        lambda c: of_many(MANY),
    ),
    Hint("make part_size larger", lambda c: added_in(4), lambda c: added_in(2)),
    Hint(
        "for example cross_entropy(model(x), y), or losses.mean()",
        lambda c: looped(loss=lambda model, x, y: model(x).square().mean().sqrt()),
        lambda c: (looped(), looped(loss=lambda model, x, y: model(x).square().sum(1).mean())),
    ),
    Hint("give each model a loss and a loader", lambda c: two_models(True), lambda c: two_models(False)),
    Hint(
        "add the losses of a batch up, call backward once, and optimizer.step() after it",
        lambda c: begun(backward_twice),
        lambda c: begun(backward_once),
    ),
    Hint(
        "the model writes to parameter 'table'",
        lambda c: looped(Table(limit=1.0), data=TOKENS),
        lambda c: looped(Table(), data=TOKENS),
    ),
    Hint(
        "give it what the private loader gives, or put other calls into torch.no_grad()",
        lambda c: begun(lambda model, optimizer, x, y: mean_loss(model, x[:3], y[:3])),
        lambda c: begun(evaluated),
    ),
    Hint(
        "take each batch from the loader that make_private returned, and put evaluations into torch.no_grad()",
        lambda c: mean_loss(private()[0], X, Y),
        lambda c: begun(evaluated),
    ),
    Hint(
        "call it for all outputs of a batch before, or within torch.no_grad()",
        lambda c: begun(called_in_between),
        lambda c: (begun(backward_once), begun(called_without_gradients)),
    ),
    Hint(
        "Pad all texts to one length, or add the losses of a text up, as in losses.sum(1).mean()",
        lambda c: texts(functional.cross_entropy, (6, 4)),
        lambda c: (texts(functional.cross_entropy, (6, 6)), texts(summed_by_text, (6, 4))),
    ),
    Hint(
        "takes a closure at most, which is called once; set learning rates in the groups of the optimizer",
        lambda c: stepped_with(lr=0.01),
        lambda c: looped(step=slower),
    ),
    Hint(
        "take one from the loader that make_private returned, and call loss.backward() and optimizer.step() once",
        lambda c: private()[1].step(),
        lambda c: looped(),
    ),
    Hint(
        "call it before loss.backward() or after optimizer.step()",
        lambda c: begun(zeroed_in_between),
        lambda c: begun(zeroed_around),
    ),
    Hint(
        "leave penalties on parameters to the optimizer, as in weight_decay=0.01",
        lambda c: looped(loss=penalized),
        lambda c: decaying(),
    ),
    Hint(
        "besides outputs of the model",
        lambda c: checked(penalized),
        lambda c: checked(mean_loss),
    ),
    Hint(
        "and write checkpoint(..., use_reentrant=False)",
        lambda c: looped(Saving(True).double(), data=(X.double(), Y)),  # float64: one example at a time
        lambda c: looped(Saving(False).double(), data=(X.double(), Y)),
    ),
    Hint(
        "write parameter.requires_grad_(False) before make_private",
        lambda c: looped(Partly()),
        lambda c: looped(Partly(frozen=True)),
    ),
]
"""Of `make_private`, and of the loops that it makes private."""

OF_CURVES = [
    Hint(
        "got PerGroupClipping: use FlatClipping",
        lambda c: private(plan=NAMED, curves=CURVES),
        lambda c: begun(watched, plan=plan_of(clipping=FlatClipping(1.0)), curves=CURVES),
    ),
    Hint(
        'write cross_entropy(model(x), y, reduction="none")',
        lambda c: begun(watch_mean, curves=CURVES),
        lambda c: begun(watched, curves=CURVES),
    ),
    Hint(
        "watch was called for this batch already: give it all losses at once",
        lambda c: begun(watch_twice, curves=CURVES),
        lambda c: begun(watched, curves=CURVES),
    ),
    Hint(
        "write make_private(..., curves=TrainingCurves(loss_bound=5))",
        lambda c: begun(watched),
        lambda c: begun(watched, curves=TrainingCurves(loss_bound=5)),
    ),
    Hint(
        "watch was called without a batch: call it before optimizer.step()",
        lambda c: begun(watch_after_step, curves=CURVES),
        lambda c: begun(watched, curves=CURVES),
    ),
]
"""Of the curves of a training."""

HINTS = [*RUNS, *LOOPS, *OF_CURVES]
SEVERAL = "in several processes: loops/test_several_loops.py"
ELSEWHERE = {
    ("integrations/torch/_several.py", "must exchange tensors of the CPU"): SEVERAL,
    ("integrations/torch/_several.py", "another process of the training has ended"): SEVERAL,
}
"""Places without a row here: file, words of the text, and where the way out is taken."""


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_torch_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_torch_is_without_a_test():
    assert_all_lead_out("torch", HINTS, ELSEWHERE)
