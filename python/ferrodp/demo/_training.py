"""Federated averaging with server momentum, with and without privacy.

McMahan, Ramage, Talwar, Zhang, "Learning differentially private recurrent language models", ICLR 2018, with every
client in every round (no amplification by sampling is claimed) and server momentum as in Hsu, Qi, Brown, "Measuring
the effects of non-identical data distribution for federated visual classification", 2019. All that the server sees of
the clients is the noised sums, so every model of every round is private, not only the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.accounting import GaussianEvent, GdpAccountant
from ferrodp.clipping import ClippedSum
from ferrodp.demo._data import Client, Digits
from ferrodp.errors import BudgetExceeded

Model: TypeAlias = dict[str, npt.NDArray[np.float32]]
"""Multinomial regression: `weights` of shape (64, 10) and `bias` of shape (10,)."""

SHAPES = {"weights": (64, 10), "bias": (10,)}
LOCAL_STEPS = 5
LOCAL_RATE = 0.5
MOMENTUM = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a private training is allowed to cost, and how it spends it.

    Parameters
    ----------
    epsilon, delta : float
        The budget for the whole training, for one client replaced by one that sends zeros: their number is public.
    noise_multiplier : float
        Standard deviation of the noise on the sum of a round, divided by `clip_norm`.
    clip_norm : float
        L2 norm to which the update of a client is scaled down.
    rounds : int
        At most as many; the budget may end the training earlier.
    """

    epsilon: float = 8.0
    delta: float = 1e-5
    noise_multiplier: float = 3.3
    clip_norm: float = 0.5
    rounds: int = 100


@dataclass(frozen=True, slots=True)
class Round:
    """Where the training stood after a round: accuracy on the test images, and ε spent so far."""

    accuracy: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class Training:
    """A finished training.

    Attributes
    ----------
    model : Model
        The model after the last round.
    rounds : tuple of Round
        What was measured after each round.
    next_epsilon : float
        What ε would have been after one more round.
    refusal : str or None
        Why there was no more: what the ledger said, if it was paid from one.
    """

    model: Model
    rounds: tuple[Round, ...]
    next_epsilon: float
    refusal: str | None = None


def allowed_rounds(settings: Settings) -> int:
    """Return how many rounds a training will have, as far as is known before it begins.

    Raises
    ------
    BudgetExceeded
        If the budget does not allow a single one.
    """
    event = GaussianEvent(noise_multiplier=settings.noise_multiplier)
    accountant = GdpAccountant()
    if accountant.would_exceed(event, epsilon=settings.epsilon, delta=settings.delta):
        cost = _next_epsilon(accountant, event, settings.delta)
        raise BudgetExceeded(
            f"one round costs epsilon {cost:.4g} at delta {settings.delta:g}, the budget is {settings.epsilon:g}"
        )
    return min(settings.rounds, accountant.remaining_count(event, epsilon=settings.epsilon, delta=settings.delta))


def train(data: Digits, settings: Settings, advance: Callable[[], None] = lambda: None) -> Training:
    """Train until the next round would exceed the budget, or all rounds are done; call `advance` after each.

    Raises
    ------
    BudgetExceeded
        If the budget does not allow a single round. Nothing was drawn then.
    """
    allowed_rounds(settings)
    event = GaussianEvent(noise_multiplier=settings.noise_multiplier)
    accountant = GdpAccountant()
    server = Server()
    rounds: list[Round] = []
    while len(rounds) < settings.rounds:
        if accountant.would_exceed(event, epsilon=settings.epsilon, delta=settings.delta):
            break
        total = clipped_sum(server.model, data, settings)
        noised = total.release(noise_multiplier=settings.noise_multiplier)
        accountant.compose(total.event)
        server.step(noised, len(data.clients))
        rounds.append(Round(accuracy(server.model, data.test), accountant.epsilon(settings.delta)))
        advance()
    return Training(server.model, tuple(rounds), _next_epsilon(accountant, event, settings.delta))


def train_without_privacy(data: Digits, rounds: int, advance: Callable[[], None] = lambda: None) -> list[float]:
    """Return the test accuracy after each round of the same training without clipping and noise: what privacy costs."""
    server, accuracies = Server(), []
    for _ in range(rounds):
        updates = [local_update(server.model, client) for client in data.clients]
        total = {name: np.sum([update[name] for update in updates], axis=0) for name in server.model}
        server.step(total, len(updates))
        accuracies.append(accuracy(server.model, data.test))
        advance()
    return accuracies


def clipped_sum(model: Model, data: Digits, settings: Settings) -> ClippedSum[Model]:
    """Return the sum of what the clients send in a round, each clipped: not private before it is released."""
    total = ClippedSum(model, clip_norm=settings.clip_norm)
    for client in data.clients:
        total.add(local_update(model, client))
    return total


def local_update(model: Model, client: Client) -> Model:
    """Return how the model changes by a few steps of gradient descent on the images of one client."""
    weights, bias = model["weights"].copy(), model["bias"].copy()
    rate = np.float32(LOCAL_RATE / len(client.images))
    for _ in range(LOCAL_STEPS):
        error = _softmax(client.images @ weights + bias) - client.labels
        weights -= rate * (client.images.T @ error)
        bias -= rate * error.sum(axis=0)
    return {"weights": weights - model["weights"], "bias": bias - model["bias"]}


def accuracy(model: Model, test: Client) -> float:
    """Return the part of the images whose digit the model names."""
    guesses = np.argmax(test.images @ model["weights"] + model["bias"], axis=1)
    return float(np.mean(guesses == np.argmax(test.labels, axis=1)))


class Server:
    """The model, and the velocity with which it moves along the mean updates. A function of the noised sums alone."""

    def __init__(self, model: Model | None = None, velocity: Model | None = None) -> None:
        self.model = model or {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
        self.velocity = velocity or {name: np.zeros_like(array) for name, array in self.model.items()}

    def step(self, total: Model, denominator: int) -> None:
        """Move the model by a sum of updates, divided by the public number of clients."""
        for name, array in self.model.items():
            self.velocity[name] = np.float32(MOMENTUM) * self.velocity[name] + total[name] / np.float32(denominator)
            self.model[name] = array + self.velocity[name]


def _softmax(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    powers: npt.NDArray[np.float32] = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def _next_epsilon(accountant: GdpAccountant, event: GaussianEvent, delta: float) -> float:
    """Return ε as it would be after one more event."""
    ahead = GdpAccountant.from_state_dict(accountant.state_dict())
    ahead.compose(event)
    return ahead.epsilon(delta)
