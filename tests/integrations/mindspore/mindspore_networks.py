"""Networks and data of these tests: MindSpore reads the source of what it compiles, which has to be in a file."""

import mindspore
import numpy as np
from mindspore import nn
from sklearn.datasets import load_digits

mindspore.set_device("CPU")


class SmallLeNet(nn.Cell):
    """Two convolutions with pooling and two dense layers, for digits of 8 by 8 pixels."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, pad_mode="same", has_bias=True)
        self.second = nn.Conv2d(4, 8, 3, pad_mode="same", has_bias=True)
        self.pool = nn.MaxPool2d(2, 2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.hidden = nn.Dense(32, 32)
        self.out = nn.Dense(32, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.first(x)))
        x = self.pool(self.relu(self.second(x)))
        return self.out(self.relu(self.hidden(self.flatten(x))))


class Linear(nn.Cell):
    """Softmax regression on pixels."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.out = nn.Dense(64, 10, weight_init="zeros", bias_init="zeros")

    def construct(self, x):
        return self.out(self.flatten(x))


class Normalized(nn.Cell):
    """A network whose batch normalization mixes examples."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.norm = nn.BatchNorm1d(64)
        self.out = nn.Dense(64, 10)

    def construct(self, x):
        return self.out(self.norm(self.flatten(x)))


class GroupNormalized(nn.Cell):
    """A network that normalizes each example by itself, over its channels."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, 1)
        self.flatten = nn.Flatten()
        self.out = nn.Dense(64, 10)

    def construct(self, x):
        return self.out(self.flatten(self.norm(x)))


class LayerNormalized(nn.Cell):
    """A network that normalizes each example by itself, over its pixels."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.norm = nn.LayerNorm((64,))
        self.out = nn.Dense(64, 10)

    def construct(self, x):
        return self.out(self.norm(self.flatten(x)))


class WithLossInside(nn.Cell):
    """A network that returns its loss."""

    def __init__(self):
        super().__init__()
        self.network = Linear()
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, images, labels):
        return self.loss(self.network(images), labels)


def cross_entropy():
    return nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")


def digits():
    """Return images (1797, 1, 8, 8) of float32 in [0, 1] and labels of int32."""
    data = load_digits()
    return (data.images[:, None] / 16).astype(np.float32), data.target.astype(np.int32)
