"""Audits of a training that somebody wrote in PyTorch, sound or without its clip or noise."""

import numpy as np
import pytest
import torch
from torch import nn

from ferrodp.accounting import gaussian_epsilon
from ferrodp.audit import audit_canaries

DELTA, CANARIES, STEPS = 1e-5, 300, 16


def trained(included, *, clip=1.0, noise=8.0, clip_after=False):
    """Return weights of a linear model after full steps of gradient descent, with the gradients of each row by hand."""
    generator = torch.Generator().manual_seed(int(included.sum()) + 1000 * int(included[:9] @ (1 << np.arange(9))))
    canaries = 200.0 * torch.eye(CANARIES, CANARIES + 10)[torch.from_numpy(included)]
    people = torch.cat([torch.zeros(100, CANARIES), torch.randn(100, 10, generator=generator)], dim=1)
    rows = torch.cat([canaries, people])
    labels = torch.cat([torch.ones(len(canaries)), (people[:, -1] > 0).float()])
    model = nn.Linear(rows.shape[1], 1, bias=False)
    nn.init.zeros_(model.weight)
    for _ in range(STEPS):
        with torch.no_grad():
            errors = torch.sigmoid(model(rows)[:, 0]) - labels
            gradients = errors[:, None] * rows
            norms = gradients.norm(dim=1, keepdim=True).clamp_min(1e-30)
            if clip_after:
                total = gradients.sum(dim=0)
                total = total * min(1.0, 200.0 * clip / float(total.norm()))
            else:
                total = (gradients * (clip / norms).clamp_max(1.0)).sum(dim=0)
            total = total + noise * torch.randn(total.shape, generator=generator)
            model.weight -= 1e-5 * total
    return model.weight.detach().numpy()[0, :CANARIES].astype(np.float64)


@pytest.mark.parametrize(
    ("defect", "is_sound"),
    [
        ({}, True),
        ({"clip": 1e6}, False),
        ({"noise": 0.0}, False),
        ({"noise": 0.8}, False),
        ({"clip_after": True}, False),
    ],
)
def test_a_trainer_without_its_clip_or_noise_is_caught_in_every_run(defect, is_sound):
    """It claims 16 steps of noise 8: μ = 0.5. Noise and coins are seeded."""
    rng = np.random.default_rng(21)
    claimed = gaussian_epsilon(delta=DELTA, noise_multiplier=2.0)
    for _ in range(10):
        included = rng.random(CANARIES) < 0.5
        shown = trained(included, **defect)
        report = audit_canaries(shown, included, epsilon=claimed, delta=DELTA, guesses=200)
        assert report.violation != is_sound, str(report)
        assert is_sound or report.epsilon_lower_bound > 1.1 * claimed
