"""The datasets of the playground, all of which come with scikit-learn, and models small enough to inspect."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidParameter, MissingPackage

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

HIDDEN = 32
DATASETS = (("digits", "Digits, 1797 images"), ("cancer", "Breast cancer, 569 records"), ("wine", "Wine, 178 records"))
_FILES = {"digits": ("digits.csv.gz", 0), "cancer": ("breast_cancer.csv", 1), "wine": ("wine_data.csv", 1)}
"""Of each dataset, the file in scikit-learn and how many lines of it are no data."""
PICTURED = {"cancer": ((0, "mean radius"), (7, "mean concave points")), "wine": ((0, "alcohol"), (6, "flavanoids"))}
"""Of each table, the place and name of two columns in which its records are drawn; digits are images."""
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
def raw(name: str) -> tuple[Floats, Ints]:
    """Return features and labels as scikit-learn ships them, without importing it, which takes a second.

    Its files are tables of numbers whose last column is the label; two of them begin with a line of names.
    """
    if name not in _FILES:
        raise InvalidParameter(f"dataset must be one of {', '.join(_FILES)}")
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise MissingPackage('the datasets come with scikit-learn: pip install "ferrodp[explorer]"')
    file, skipped = _FILES[name]
    path = Path(found.origin).parent / "datasets" / "data" / file
    table = np.loadtxt(path, delimiter=",", skiprows=skipped)
    return table[:, :-1], table[:, -1].astype(np.int64)


@functools.cache
def load(name: str) -> Dataset:
    """Return a dataset. Columns are scaled by the ranges that are published with it, not by what is private in it."""
    x, y = raw(name)
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = 2.0 * (x - low) / np.where(high > low, high - low, 1.0) - 1.0
    scaled[:, high == low] = 0.0
    features = np.hstack([scaled / np.sqrt(x.shape[1]), np.full((len(x), 1), 0.5)])
    test, training = _split(len(x))
    return Dataset(features[training], y[training], features[test], y[test], int(y.max()) + 1)


def _split(size: int) -> tuple[Ints, Ints]:
    """Return the places of the records to test with, and of the others."""
    order = np.random.default_rng(0).permutation(size)
    return order[: size // 5], order[size // 5 :]


@functools.cache
def test_records(name: str) -> Floats:
    """Return the records to test with in the units of the data: gray values from 0 to 16, or what was measured."""
    x = raw(name)[0]
    return np.asarray(x[_split(len(x))[0]])


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
    return softmax(_forward(model, parameters, features, num_classes)[1])


def gradients(model: str, parameters: Floats, features: Floats, labels: Ints, num_classes: int) -> Floats:
    """Return the gradient of each record's cross-entropy, one row a record."""
    hidden, scores = _forward(model, parameters, features, num_classes)
    errors = softmax(scores)
    errors[np.arange(len(labels)), labels] -= 1.0
    last = np.einsum("ni,nk->nik", hidden, errors).reshape(len(labels), hidden.shape[1] * num_classes)
    if model == "linear":
        return np.asarray(last)
    weights = parameters[features.shape[1] * HIDDEN :].reshape(HIDDEN + 1, num_classes)
    back = (errors @ weights[:-1].T) * (1.0 - hidden[:, :-1] ** 2)
    first = np.einsum("ni,nj->nij", features, back).reshape(len(labels), features.shape[1] * HIDDEN)
    return np.asarray(np.hstack([first, last]))


def _forward(model: str, parameters: Floats, features: Floats, num_classes: int) -> tuple[Floats, Floats]:
    """Return what the last layer sees, and the scores."""
    if model == "linear":
        return features, features @ parameters.reshape(-1, num_classes)
    cut = features.shape[1] * HIDDEN
    hidden = np.tanh(features @ parameters[:cut].reshape(-1, HIDDEN))
    hidden = np.hstack([hidden, np.ones((len(hidden), 1))])
    return hidden, hidden @ parameters[cut:].reshape(-1, num_classes)


def softmax(scores: Floats) -> Floats:
    """Return the probabilities of the classes, which are the last axis."""
    grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))
