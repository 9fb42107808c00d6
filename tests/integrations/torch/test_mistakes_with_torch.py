"""Mistakes of those who train with PyTorch, and what they are told."""

import pytest
import torch
from torch import nn

import ferrodp as fd
from ferrodp.errors import FerroError
from ferrodp.integrations.torch import PlanLoader, start
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling

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


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda: start(1.0, nn.Linear(4, 2), loss),
            ("plan must be a PrivacyPlan", "start(plan, model, loss)"),
        ),
        (lambda: start(PLAN, nn.Linear, loss), ("model must be a torch.nn.Module", "the class Linear: make one")),
        (
            lambda: start(PLAN, nn.Linear(4, 2), nn.CrossEntropyLoss()),
            ("loss must be a function", "CrossEntropyLoss", "lambda model, x, y: criterion(model(x), y)"),
        ),
        (lambda: start(PLAN, nn.Linear(4, 2), 5), ("loss must be a function loss(model, *batch), got int",)),
        (lambda: add(X, Y, loss=lambda model, x, y: model(x)), ("loss must return one number", "2 dimensions")),
        (lambda: add(X, Y, loss=lambda model, x, y: 1.0), ("loss must return one number", "got float")),
        (lambda: add(X.numpy(), Y.numpy()), ("a batch must be made of tensors", "torch.from_numpy(array)")),
        (lambda: add(X, Y[:3]), ("the tensors of a batch must have the same length",)),
        (lambda: add(X[:3], Y[:3]), ("the number of vectors added must be that of the units drawn",)),
        (
            lambda: start(PLAN, nn.Linear(4, 2).requires_grad_(False), loss),
            ("model must have a parameter that requires a gradient", "requires_grad_(True)"),
        ),
        (
            lambda: start(PLAN, nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), loss),
            ("module '1' normalizes over the batch", "use GroupNorm or LayerNorm"),
        ),
        (
            lambda: start(PLAN, nn.Linear(4, 2), loss, ledger="b.db", scope="a"),
            ("ledger must be an open PrivacyLedger, got str", "PrivacyLedger.open('b.db')"),
        ),
        (lambda: start(PLAN, nn.Linear(4, 2), loss, sigma=1.0), ("start() got an unknown keyword argument 'sigma'",)),
        (lambda: start(PLAN, nn.Linear(4, 2)), ("start() is missing 'loss'", "callable")),
        (
            lambda: PlanLoader(start(PLAN, nn.Linear(4, 2), loss), [(X[0], Y[0])]),
            ("dataset must have as many items as the plan: 20",),
        ),
    ],
)
def test_a_mistake_with_torch_is_told_with_what_is_allowed(mistake, words):
    with pytest.raises((FerroError, ValueError, TypeError)) as caught:
        mistake()

    assert [word for word in words if word not in str(caught.value)] == [], caught.value
