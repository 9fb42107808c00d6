"""Model inversion: the input that a model finds most typical of a class."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ferrodp.accounting import PldAccountant
from ferrodp.accounting.reports import membership_advantage
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    PENDING,
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Series,
    Value,
    brief,
    upper,
)
from ferrodp.explorer.model.attacks.controls import BATCH, CLIP, EPOCHS, NOISE, RATE
from ferrodp.explorer.model.datasets import load
from ferrodp.explorer.model.training import Training

_PIXELS = 64


def _training(
    clip_norm: float, noise_multiplier: float, batch_size: int, learning_rate: float, epochs: int, seed: int
) -> Training:
    settings: dict[str, Any] = {"clip_norm": clip_norm, "noise_multiplier": noise_multiplier, "batch_size": batch_size}
    settings |= {"learning_rate": learning_rate, "epochs": epochs, "delta": 1e-5, "epsilon": 1.0}
    return Training(seed=seed, repeats=1, dataset="digits", model="linear", noise_by="noise", **settings)


def _known(training: Training) -> dict[str, Value]:
    """Return ε and what it says of attacks on a record, which are known before the training runs."""
    accountant = PldAccountant()
    assert training.plan is not None  # the noise multiplier is positive
    accountant.compose(training.plan.event)
    return {
        "ε at δ = 10⁻⁵": upper(accountant.epsilon(1e-5)),
        "Won bets about one record, at even odds, at most": upper(0.5 + membership_advantage(accountant) / 2),
    }


@functools.lru_cache(16)
def pictures(
    digit: int, clip_norm: float, noise_multiplier: float, batch_size: int, learning_rate: float, epochs: int, seed: int
) -> tuple[dict[str, np.ndarray], Training]:
    """Return the mean image of a class and what two models think of it, and their training."""
    training = _training(clip_norm, noise_multiplier, batch_size, learning_rate, epochs, seed)
    for _ in range(training.num_steps):
        training.advance()
    data = load("digits")
    found = {"mean of the class": data.features[data.labels == digit, :_PIXELS].mean(axis=0)}
    for name, world in (("from the model without privacy", "public"), ("from the private model", "private")):
        weights = training.model(world).reshape(-1, data.num_classes)[:_PIXELS]
        found[name] = weights[:, digit] - weights.mean(axis=1)
    return found, training


def inversion(
    *,
    digit: int,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    learning_rate: float,
    epochs: int,
    seed: int,
) -> dict[str, Value]:
    """Invert a model trained without and with privacy."""
    found, training = pictures(digit, clip_norm, noise_multiplier, batch_size, learning_rate, epochs, seed)
    others = load("digits").features[:, :_PIXELS].mean(axis=0)
    truth = found["mean of the class"] - others
    numbers = _known(training)
    for name in ("from the model without privacy", "from the private model"):
        numbers[f"Likeness to the class, {name}"] = round(float(np.corrcoef(truth, found[name])[0, 1]), 6)
    return numbers


def first(parameters: Parameters) -> Answer:
    """Return ε, before the models are trained."""
    training = _training(**{name: value for name, value in parameters.items() if name != "digit"})
    numbers = _known(training)
    for name in ("from the model without privacy", "from the private model"):
        numbers[f"Likeness to the class, {name}"] = PENDING
    sentence = (
        f"At ε = {brief(numbers['ε at δ = 10⁻⁵'])}: {training.num_steps} steps are running, with privacy and without."
    )
    return Answer(sentence, numbers, (), cell_of(inversion, parameters))


def compute(parameters: Parameters) -> Answer:
    """Invert, and show the images."""
    numbers, (found, _) = inversion(**parameters), pictures(**parameters)
    images = []
    for name, values in found.items():
        low, high = values.min(), values.max()
        images.append(Series(name, [8], ((values - low) / max(high - low, 1e-12)).tolist(), "image"))
    plot = Plot(f"What a model knows of the digit {parameters['digit']}", "column", "row", tuple(images))
    plain, private = list(numbers.values())[2:]
    sentence = (
        f"The typical input of the class is like the class with correlation {brief(plain)} without privacy "
        f"and {brief(private)} with ε = {brief(numbers['ε at δ = 10⁻⁵'])}: both know the class, "
        "which is what they were trained for."
    )
    return Answer(sentence, numbers, (plot,), cell_of(inversion, parameters))


PAGE = Lesson(
    name="inversion",
    title="Model inversion",
    idea="A model shows what a class looks like. Privacy protects its members, not the class.",
    text="""<p>The input that raises the score of a class most, within a given length, is for a linear model the
weights of the class, less the mean of all. It resembles the mean of the class. Where a class is one
person, that is an image of the person, and one record's guarantee is not enough: the unit of privacy
has to be the person.</p>""",
    figure=Figure(
        "inversion",
        (
            Control("digit", "Class", 3, 0, 9, integer=True, low_label="digit 0", high_label="digit 9"),
            CLIP,
            NOISE,
            BATCH,
            RATE,
            EPOCHS,
        ),
        compute,
        seeded=True,
        first=first,
    ),
    why="""<p>Fredrikson, Jha, Ristenpart, CCS 2015, invert models of faces in which each class is one person.
Differential privacy for a record bounds what changes when one record is taken out; the mean of a class
of 140 hardly does, so a model may show it at any ε. A person with m records is protected by m·ε at most
(group privacy: Dwork, Roth 2014, Theorem 2.2); choosing the person as the unit makes it ε again.
Between two values of one record, at even odds, an attacker is right with chance at most
e<sup>ε</sup>/(1 + e<sup>ε</sup>) under pure ε.</p>""",
    terms=(),
)
