"""Real images, dealt to clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NUM_CLIENTS = 100
NUM_TEST_IMAGES = 360  # a fifth of 1797
_CENTER = 0.3  # the mean brightness of a pixel, as a public constant: centered images train faster
_LARGEST_PIXEL = 16.0


@dataclass(frozen=True, slots=True)
class Client:
    """What one client holds: `images` of shape (n, 64), float32, and `labels` of shape (n, 10), one-hot."""

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Digits:
    """The training images by client, and the test images, which belong to nobody."""

    clients: tuple[Client, ...]
    test: Client


def load_digits(data_seed: int = 0) -> Digits:
    """Return scikit-learn's 1797 handwritten digits: 360 to test with, the others dealt to 100 clients.

    Half of the training images are dealt at random, half by digit, so that most clients see more of some digits than of
    others. `data_seed` decides who holds what, and nothing else: the noise never depends on it.

    Raises
    ------
    ModuleNotFoundError
        Without scikit-learn.
    """
    from sklearn import datasets  # heavy, and not needed by the rest of the package

    pixels, digits = datasets.load_digits(return_X_y=True)
    images = (pixels / _LARGEST_PIXEL - _CENTER).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[digits]
    order = np.random.default_rng(data_seed).permutation(len(images))
    test, training = order[:NUM_TEST_IMAGES], order[NUM_TEST_IMAGES:]

    def of(rows: npt.NDArray[Any]) -> Client:
        return Client(images[rows], labels[rows])

    at_random, by_digit = np.array_split(training, 2)
    by_digit = by_digit[np.argsort(digits[by_digit], kind="stable")]
    hands = zip(np.array_split(at_random, NUM_CLIENTS), np.array_split(by_digit, NUM_CLIENTS), strict=True)
    return Digits(tuple(of(np.concatenate(hand)) for hand in hands), of(test))
