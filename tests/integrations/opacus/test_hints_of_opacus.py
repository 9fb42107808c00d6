"""Each way out that a message of `integrations.opacus` names is taken, and no place with one is without a row."""

import pytest
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer

from ferrodp.integrations.opacus import make_exact
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.ones(4, 3)


def private(device="cpu"):
    """Return a model and an optimizer of Opacus for it."""
    model = GradSampleModule(torch.nn.Linear(3, 2).to(device))
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, DPOptimizer(inner, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=4)


def stepped(model, optimizer, *, steps=1, zeroed=True):
    for _ in range(steps):
        if zeroed:
            optimizer.zero_grad()
        model(X).square().mean().backward()
        optimizer.step()


def used_twice():
    """Give gradients that were used to another step."""
    model, optimizer = private()
    make_exact(optimizer)
    stepped(model, optimizer)
    optimizer.step()


def used_once():
    model, optimizer = private()
    make_exact(optimizer)
    stepped(model, optimizer, steps=3)


def made_exact(*, late):
    model, optimizer = private()
    if late:
        model(X).square().mean().backward()
        optimizer.clip_and_accumulate()
    make_exact(optimizer)
    stepped(model, optimizer)


def moved():
    """Move the model before its optimizer is made."""
    model = torch.nn.Linear(3, 2).to("cpu")
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    make_exact(DPOptimizer(inner, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=4))


HINTS = [
    Hint("call optimizer.zero_grad() on each step", lambda c: used_twice(), lambda c: used_once()),
    Hint("call make_exact before the first step", lambda c: made_exact(late=True), lambda c: made_exact(late=False)),
    Hint(
        'move the model with .to("cpu") before the optimizer is made',
        lambda c: make_exact(private("meta")[1]),
        lambda c: moved(),
    ),
]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_opacus_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_opacus_is_without_a_test():
    assert_all_lead_out("opacus", HINTS)
