"""The datasets of the playground, all of which come with scikit-learn, and models small enough to see through."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidParameter, MissingPackage

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

HIDDEN = 32
DATASETS = (("digits", "Digits, 1797 images"), ("cancer", "Breast cancer, 569 records"), ("wine", "Wine, 178 records"))
MODELS = (("linear", "Linear (softmax regression)"), ("mlp", f"Network with {HIDDEN} hidden units"))


@dataclass(frozen=True)
class Dataset:
    """Features in rows of norm about 1 with a constant column, labels, and a fifth of the records to test with."""

    features: Floats
    labels: Ints
    test_features: Floats
    test_labels: Ints
    num_classes: int


@functools.cache
def load(name: str) -> Dataset:
    """Return a dataset. Columns are scaled by the ranges that are published with it, not by what is private in it."""
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingPackage('the datasets come with scikit-learn: pip install "ferrodp[explorer]"') from None
    loaders = {"digits": datasets.load_digits, "cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}
    if name not in loaders:
        raise InvalidParameter(f"dataset must be one of {', '.join(loaders)}")
    x, y = loaders[name](return_X_y=True)
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = 2.0 * (x - low) / np.where(high > low, high - low, 1.0) - 1.0
    scaled[:, high == low] = 0.0
    features = np.hstack([scaled / np.sqrt(x.shape[1]), np.full((len(x), 1), 0.5)])
    order = np.random.default_rng(0).permutation(len(x))
    test, training = order[: len(x) // 5], order[len(x) // 5 :]
    labels = y.astype(np.int64)
    return Dataset(features[training], labels[training], features[test], labels[test], int(y.max()) + 1)


@functools.cache
def outlier(name: str) -> int:
    """Return the training record that lies farthest from the mean of its class: the one whose presence shows most."""
    data = load(name)
    means = np.stack([data.features[data.labels == k].mean(axis=0) for k in range(data.num_classes)])
    return int(np.argmax(np.linalg.norm(data.features - means[data.labels], axis=1)))


def initial(model: str, data: Dataset, seed: int) -> Floats:
    """Return the parameters to begin with, as one vector: zeros, or small random weights of a network."""
    width, classes = data.features.shape[1], data.num_classes
    if model == "linear":
        return np.zeros(width * classes)
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=width * HIDDEN), rng.normal(size=(HIDDEN + 1) * classes) / HIDDEN**0.5])


def probabilities(model: str, parameters: Floats, features: Floats, num_classes: int) -> Floats:
    """Return the probability of each class for each row."""
    return _softmax(_forward(model, parameters, features, num_classes)[1])


def gradients(model: str, parameters: Floats, features: Floats, labels: Ints, num_classes: int) -> Floats:
    """Return the gradient of each record's cross-entropy, one row a record."""
    hidden, scores = _forward(model, parameters, features, num_classes)
    errors = _softmax(scores)
    errors[np.arange(len(labels)), labels] -= 1.0
    last = np.einsum("ni,nk->nik", hidden, errors).reshape(len(labels), -1)
    if model == "linear":
        return np.asarray(last)
    weights = parameters[features.shape[1] * HIDDEN :].reshape(HIDDEN + 1, num_classes)
    back = (errors @ weights[:-1].T) * (1.0 - hidden[:, :-1] ** 2)
    first = np.einsum("ni,nj->nij", features, back).reshape(len(labels), -1)
    return np.asarray(np.hstack([first, last]))


def _forward(model: str, parameters: Floats, features: Floats, num_classes: int) -> tuple[Floats, Floats]:
    """Return what the last layer sees, and the scores."""
    if model == "linear":
        return features, features @ parameters.reshape(-1, num_classes)
    cut = features.shape[1] * HIDDEN
    hidden = np.tanh(features @ parameters[:cut].reshape(-1, HIDDEN))
    hidden = np.hstack([hidden, np.ones((len(hidden), 1))])
    return hidden, hidden @ parameters[cut:].reshape(-1, num_classes)


def _softmax(scores: Floats) -> Floats:
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))
