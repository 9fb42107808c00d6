"""What is assumed of PyTorch: what is computed for an example has the same bits, whatever else is in its batch.

These are the kernels for which that was looked at; `docs/proofs/ghost-clipping.md` says what the bound needs elsewhere.
"""

import pytest
import torch
from torch import nn

from ferrodp.integrations.torch._modules import Module
from ferrodp.integrations.torch._tape import Pairs, Rows

MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(33, 65), nn.ReLU(), nn.Linear(65, 10)), (33,)),
    "wide": (lambda: nn.Sequential(nn.Linear(300, 700), nn.GELU(), nn.Linear(700, 10)), (300,)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)),
        (3, 8, 8),
    ),
    "attention": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.Linear(16, 10)),
        (9, 16),
    ),
}


def noted(model, x):
    """Return what is noted about the first example, as tensors."""
    module = Module(model, dict(model.named_parameters()))
    out = module.run(model.forward, (x,), {}, len(x))
    assert module.way == "together", module.reason
    found = []
    for name, uses in sorted(module.backward(out.square().sum(), 1.0).items()):
        for use in uses:
            fields = (use.left, use.right) if isinstance(use, Pairs) else (use.gradients,)
            assert isinstance(use, (Pairs, Rows)), name
            found += [each[0] for each in fields]
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [1, 2, 7, 16, 64])
def test_an_example_has_the_same_bits_whatever_else_is_in_the_batch(name, size):
    make, shape = MODELS[name]
    torch.manual_seed(size)
    model, x = make(), torch.randn(size, *shape)
    others = torch.cat([x[:1], 1e3 * torch.randn(size - 1, *shape)])

    for one, other in zip(noted(model, x), noted(model, others), strict=True):
        assert torch.equal(one, other)
