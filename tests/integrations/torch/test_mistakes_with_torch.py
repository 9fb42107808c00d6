"""Mistakes of those who train with PyTorch, and what they are told."""

import pytest
import torch
from torch import nn

import ferrodp as fd
from ferrodp.integrations.torch import PlanLoader, start
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
from support.mistakes import Mistake, Reason, objections

PLAN = fd.PrivacyPlan(
    population_size=20,
    sampling=PoissonSampling(1.0),
    num_steps=2,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(1.0),
)
X, Y = torch.zeros(20, 4), torch.zeros(20, dtype=torch.int64)


def loss(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def add(*batch, loss=loss, model=None):
    """Add a batch to the first step of a run."""
    step = next(iter(start(PLAN, model or nn.Linear(4, 2), loss)))
    step.add(*batch)
    step.release()


MISTAKES = [
    Mistake(
        "a number for a plan",
        lambda c: start(1.0, nn.Linear(4, 2), loss),
        "plan",
        "got float",
        "a PrivacyPlan",
        "as in start(plan, model, loss)",
    ),
    Mistake(
        "a class for a model",
        lambda c: start(PLAN, nn.Linear, loss),
        "model",
        "got the class Linear",
        "a torch.nn.Module",
        "make one, Linear(...)",
    ),
    Mistake(
        "a number for a model",
        lambda c: start(PLAN, 5, loss),
        "model",
        "got int",
        "a torch.nn.Module",
        "for example torch.nn.Linear(10, 2)",
    ),
    Mistake(
        "a criterion for a loss",
        lambda c: start(PLAN, nn.Linear(4, 2), nn.CrossEntropyLoss()),
        "loss",
        "got the module CrossEntropyLoss",
        "a function loss(model, x, y)",
        "write lambda model, x, y: criterion(model(x), y)",
    ),
    Mistake(
        "a number for a loss",
        lambda c: start(PLAN, nn.Linear(4, 2), 5),
        "loss",
        "got int",
        "a function loss(model, *batch)",
        "for example lambda model, x, y: cross_entropy(model(x), y)",
    ),
    Mistake(
        "a loss of many numbers",
        lambda c: add(X, Y, loss=lambda model, x, y: model(x)),
        "loss",
        "got a tensor of 2 dimensions",
        "one number",
        "such as cross_entropy(model(x), y)",
    ),
    Mistake(
        "a loss that is a float",
        lambda c: add(X, Y, loss=lambda model, x, y: 1.0),
        "loss",
        "got float",
        "one number",
        "such as cross_entropy(model(x), y)",
    ),
    Mistake(
        "arrays for tensors",
        lambda c: add(X.numpy(), Y.numpy()),
        "a batch",
        "got ndarray",
        "tensors with the examples along their first axis",
        "for example torch.from_numpy(array)",
    ),
    Mistake(
        "fewer labels than examples",
        lambda c: add(X, Y[:3]),
        "a batch",
        "got [3, 20]",
        "the same length along their first axis",
        "give each example its label",
    ),
    Mistake(
        "fewer examples than were drawn",
        lambda c: add(X[:3], Y[:3]),
        "the number of vectors added",
        Reason.DATA,
        "that of the units drawn",
        "add each of them exactly once",
    ),
    Mistake(
        "nothing to train",
        lambda c: start(PLAN, nn.Linear(4, 2).requires_grad_(False), loss),
        "model",
        "got none",
        "a parameter that requires a gradient",
        "write parameter.requires_grad_(True)",
    ),
    Mistake(
        "batch normalization",
        lambda c: start(PLAN, nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), loss),
        "module '1'",
        "normalizes over the batch",
        "no example has a gradient of its own",
        "use GroupNorm or LayerNorm",
    ),
    Mistake(
        "a path for a ledger",
        lambda c: start(PLAN, nn.Linear(4, 2), loss, ledger="b.db", scope="a"),
        "ledger",
        "got str",
        "an open PrivacyLedger",
        "PrivacyLedger.open('b.db')",
    ),
    Mistake(
        "sigma",
        lambda c: start(PLAN, nn.Linear(4, 2), loss, sigma=1.0),
        "argument 'sigma'",
        Reason.NOT_LOOKED_AT,
        "it takes plan, model, loss",
        "leave 'sigma' out",
    ),
    Mistake(
        "no loss",
        lambda c: start(PLAN, nn.Linear(4, 2)),
        "start() is missing 'loss'",
        Reason.NOTHING_GIVEN,
        "returns the scalar loss of a batch",
        "write start(..., loss=...)",
    ),
    Mistake(
        "fewer items than the plan has",
        lambda c: PlanLoader(start(PLAN, nn.Linear(4, 2), loss), [(X[0], Y[0])]),
        "dataset",
        "got another number",
        "as many items as the plan, 20",
        "write population_size=len(dataset) in the plan where that is public",
    ),
    Mistake(
        "a misspelt keyword of a class",
        lambda c: PlanLoader(start(PLAN, nn.Linear(4, 2), loss), [], colate=None),
        "'colate'",
        Reason.NOT_LOOKED_AT,
        "it takes run, dataset, collate",
        "did you mean 'collate'",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_torch_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
