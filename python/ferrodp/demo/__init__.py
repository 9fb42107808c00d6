"""Federated training of a classifier at small scale, on real data, private for every client.

100 clients hold scikit-learn's handwritten digits. Each round, every client takes a few steps of gradient descent and
sends the change of its model; the server clips each change, adds them up, noises the sum once, and asks the accountant
before each round whether the budget still allows it. The result is private for a whole client, however many images the
client holds.
"""

from ferrodp.demo._data import Client, Digits, load_digits
from ferrodp.demo._training import (
    Model,
    Round,
    Settings,
    Training,
    accuracy,
    allowed_rounds,
    train,
    train_without_privacy,
)
from ferrodp.demo.checkpoint import Checkpoint
from ferrodp.demo.paid import CHECKPOINT, PaidTraining

__all__ = [
    "CHECKPOINT",
    "Checkpoint",
    "Client",
    "Digits",
    "Model",
    "PaidTraining",
    "Round",
    "Settings",
    "Training",
    "accuracy",
    "allowed_rounds",
    "load_digits",
    "train",
    "train_without_privacy",
]
