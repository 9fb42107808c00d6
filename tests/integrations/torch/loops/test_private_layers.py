"""Gradients of single examples in a private loop, of many kinds of layers, against PyTorch's own, one by one."""

import pytest
import torch
import torch.utils.checkpoint
from private_loops import largest_difference
from torch import nn

torch.manual_seed(0)
X, X3, IMAGES = torch.randn(6, 5), torch.randn(6, 4, 8), torch.randn(6, 2, 8, 8)
SQUARE, WORDS = torch.randn(6, 6, 8), torch.randint(0, 7, (6, 4))

TOLERANCE = 3e-6
"""The residue of the bound is below 3e-7 here; gradients are in float32, with at most 200 terms."""


def squares(model, *batch):
    out = model(*batch)
    out = out[0] if isinstance(out, tuple) else out
    return out.flatten(1).square().sum(1).mean()


class Attention(nn.Module):
    def __init__(self, batch_first, **options):
        super().__init__()
        self.attention, self.first = nn.MultiheadAttention(8, 2, batch_first=batch_first), batch_first
        self.options = options

    def forward(self, x):
        x = x if self.first else x.transpose(0, 1)
        out = self.attention(x, x, x, **self.options)[0]
        return out if self.first else out.transpose(0, 1)


class PaddedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        padding = torch.arange(x.shape[1]).expand(len(x), -1) >= 3
        causal = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        return self.attention(x, x, x, key_padding_mask=padding, attn_mask=causal, need_weights=False)[0]


class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x[:, :3], x[:, :3], need_weights=False)[0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, words):
        return self.head(torch.tanh(self.table(words)))


class Tokens(nn.Module):
    """Parameters that are expanded, added and multiplied."""

    def __init__(self):
        super().__init__()
        self.first, self.places = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.head, self.scale = nn.Linear(8, 3), nn.Parameter(torch.randn(()))

    def forward(self, x):
        return self.head(torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places) * self.scale


class LooksAtValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x) * (2.0 if x.sum().item() > 0 else 1.0)


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))
        self.use_reentrant = use_reentrant

    def forward(self, x):
        x = x + torch.zeros((), requires_grad=True)
        return torch.utils.checkpoint.checkpoint(self.layers, x, use_reentrant=self.use_reentrant)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x):
        return self.layer(torch.relu(self.layer(x)))


class Both(nn.Module):
    """A weight that is a factor of rows and is multiplied elementwise."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5, bias=False)

    def forward(self, x):
        return self.layer(x) + (x[:, None, :] * self.layer.weight).sum(2)


class BothAxes(nn.Module):
    """A layer that meets the examples along its first axis, and along its second."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(self.layer(x).transpose(0, 1)).transpose(0, 1)


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(5, 5, 2)

    def forward(self, x):
        return self.layer(x, x)


class Cell(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(5, 4)

    def forward(self, x):
        out = self.cell(x)
        return out[0] if isinstance(out, tuple) else out


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(8, 3, batch_first=True)

    def forward(self, x):
        lengths = torch.full((len(x),), 3)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


class OldFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2.0 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2.0 * gradient


class WithOldFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return OldFunction.apply(self.layer(x))


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.layer.weight.requires_grad_(False)

    def forward(self, x):
        return self.layer(x)


def padded(index):
    """Return a table whose row of padding is not zeros, so that a gradient would be seen."""
    return nn.Embedding.from_pretrained(torch.randn(7, 5), freeze=False, padding_idx=index)


TOGETHER = {
    "linear": (lambda: nn.Linear(5, 3), X),
    "linear without bias": (lambda: nn.Linear(5, 3, bias=False), X),
    "linear of sequences": (lambda: nn.Linear(8, 3), X3),
    "two layers": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)), X),
    "a bias alone": (Frozen, X),
    "embedding": (lambda: nn.Embedding(7, 5), WORDS),
    "embedding with padding": (lambda: padded(2), WORDS),
    "embedding with padding at the end": (lambda: padded(-1), WORDS),
    "sparse embedding": (lambda: nn.Embedding(7, 5, sparse=True), WORDS),
    "convolution, 1": (lambda: nn.Conv1d(4, 3, 3), X3),
    "convolution, 2": (lambda: nn.Conv2d(2, 3, 3), IMAGES),
    "convolution with steps": (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=2), IMAGES),
    "convolution of few places": (lambda: nn.Conv2d(2, 9, 7), IMAGES),
    "convolution of groups": (lambda: nn.Conv2d(2, 4, 3, groups=2), IMAGES),
    "convolution of the same size": (lambda: nn.Conv2d(2, 4, 4, padding="same"), IMAGES),
    "convolution with mirrors": (lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), IMAGES),
    "convolution, transposed": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), IMAGES),
    "convolution, 3": (lambda: nn.Conv3d(2, 3, 2), torch.randn(6, 2, 4, 4, 4)),
    "layer norm": (lambda: nn.LayerNorm(8), X3),
    "layer norm of two axes": (lambda: nn.LayerNorm((4, 8)), X3),
    "group norm": (lambda: nn.GroupNorm(2, 4), X3),
    "instance norm": (lambda: nn.InstanceNorm2d(2, affine=True), IMAGES),
    "root mean square norm": (lambda: nn.RMSNorm(8), X3),
    "batch norm in evaluation": (lambda: nn.BatchNorm2d(2).eval(), IMAGES),
    "attention": (lambda: Attention(True), X3),
    "attention without weights": (lambda: Attention(True, need_weights=False), X3),
    "attention with time first": (lambda: Attention(False), X3),
    "attention, as long as the batch": (lambda: Attention(False), SQUARE),
    "attention with masks": (PaddedAttention, X3),
    "attention to others": (CrossAttention, X3),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), X3),
    "encoder layer, as long as the batch": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
        SQUARE,
    ),
    "tied weights": (Tied, WORDS),
    "expanded and scaled": (Tokens, X3),
    "a layer twice": (Twice, X),
    "checkpoint": (lambda: Checkpointed(False), X),
    "reentrant checkpoint": (lambda: Checkpointed(True), X),
    "old function": (WithOldFunction, X),
}
ONE_BY_ONE = {
    "GRU": (lambda: nn.GRU(8, 3, batch_first=True), X3),
    "LSTM": (lambda: nn.LSTM(8, 3, num_layers=2, batch_first=True), X3),
    "RNN of two directions": (lambda: nn.RNN(8, 3, batch_first=True, bidirectional=True), X3),
    "packed sequences": (Packed, X3),
    "LSTM cell": (lambda: Cell(nn.LSTMCell), X),
    "GRU cell": (lambda: Cell(nn.GRUCell), X),
    "item": (LooksAtValues, X),
    "PReLU": (lambda: nn.Sequential(nn.Linear(5, 4), nn.PReLU()), X),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)), X),
    "bag of words": (lambda: nn.EmbeddingBag(7, 5), WORDS),
    "bilinear": (Bilinear, X),
    "a layer along two axes": (BothAxes, SQUARE),
    "float64": (lambda: nn.Linear(5, 3).double(), X.double()),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_gradients_of_examples_are_right_without_being_written_out(name):
    make, x = TOGETHER[name]

    difference, training = largest_difference(make(), squares, (x,))

    assert training.way == "together", training.reason
    assert difference < TOLERANCE


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_any_other_module_runs_one_example_at_a_time_and_says_why(name):
    make, x = ONE_BY_ONE[name]

    difference, training = largest_difference(make(), squares, (x,))

    assert training.way == "one by one"
    assert training.reason
    assert difference < TOLERANCE


def test_a_weight_of_several_uses_is_right():
    difference, training = largest_difference(Both(), squares, (X,))

    assert difference < TOLERANCE, training.reason


@pytest.mark.parametrize("name", ["two layers", "tied weights", "attention", "convolution, 2"])
def test_bfloat16_and_autocast_are_right_to_their_own_rounding(name):
    make, x = TOGETHER[name]
    model = make()

    def loss(model, x):
        with torch.autocast("cpu", torch.bfloat16):
            return squares(model, x).float()

    difference, training = largest_difference(model, loss, (x,))

    assert training.way == "together", training.reason
    assert difference < 0.1  # 2⁻⁸ a product, and some layers
