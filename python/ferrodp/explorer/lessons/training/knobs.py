"""Lesson 9: what happens when a parameter of a training is too small or too large, seen on real trainings."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

import ferrodp as fd
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    PENDING,
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Prediction,
    Series,
    Try,
    Value,
    brief,
    upper,
)
from ferrodp.explorer.lessons.training.data import digits
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

_DELTA = 1e-5
_REPEATS = 4
_TRAIN = 1437
_DEFAULTS = {"clip_norm": 0.5, "noise_multiplier": 2.0, "batch": 144.0, "rate": 4.0, "epochs": 5.0}
_RANGES = {
    "clip_norm": (0.004, 64.0),
    "noise_multiplier": (0.3, 80.0),
    "batch": (6.0, 1437.0),
    "rate": (0.01, 1000.0),
    "epochs": (1.0, 30.0),
}
_NAMES = {
    "clip_norm": "Clip norm C",
    "noise_multiplier": "Noise multiplier σ",
    "batch": "Expected batch size",
    "rate": "Learning rate",
    "epochs": "Epochs",
}
_POSITIONS = 9


class Outcome(NamedTuple):
    """What trainings with one setting gave: ε, accuracies on held-out digits, and shares of clipped gradients."""

    epsilon: float
    accuracies: tuple[float, ...]
    clipped: float


def _values(knob: str) -> list[float]:
    """Return the values of a sweep, equally far apart in logarithm."""
    low, high = _RANGES[knob]
    grid = np.geomspace(low, high, _POSITIONS)
    return [
        float(f"{value:.3g}") if knob in ("clip_norm", "noise_multiplier", "rate") else round(value) for value in grid
    ]


def _plan(clip_norm: float, noise_multiplier: float, batch: float, epochs: float, rate: float = 0.0) -> PrivacyPlan:
    """Return the plan of a training, which knows its ε before it runs; the learning rate is no part of it."""
    batch = min(batch, _TRAIN)
    return PrivacyPlan(
        population_size=_TRAIN,
        sampling=FullBatch() if batch == _TRAIN else PoissonSampling(batch / _TRAIN),
        num_steps=max(round(epochs * _TRAIN / batch), 1),
        clipping=FlatClipping(clip_norm),
        noise=ConstantNoise(noise_multiplier),
    )


@functools.lru_cache(256)
def _trained(clip_norm: float, noise_multiplier: float, batch: float, rate: float, epochs: float, seed: int) -> Outcome:
    """Train a linear model to tell even digits from odd ones, several times."""
    images, digit = digits()
    features = np.hstack([images - 0.3, np.ones((len(images), 1))])
    odd = digit % 2
    plan = _plan(clip_norm, noise_multiplier, batch, epochs)
    accuracies, clipped, seen = [], 0, 0
    for repeat in range(_REPEATS):
        weights = np.zeros(features.shape[1])
        for step in plan.start(weights, source=fd.testing.seeded((seed * _REPEATS + repeat).to_bytes(32, "big"))):
            x, y = features[step.indices], odd[step.indices]
            gradients = (1 / (1 + np.exp(-x @ weights)) - y)[:, None] * x
            step.add(gradients)
            weights = weights - rate * step.release()
            clipped += int((np.einsum("ij,ij->i", gradients, gradients) > clip_norm**2).sum())
            seen += len(gradients)
        accuracies.append(float(((features[_TRAIN:] @ weights > 0) == odd[_TRAIN:]).mean()))
    return Outcome(plan.epsilon(_DELTA), tuple(accuracies), clipped / max(seen, 1))


def knobs(knob: str, position: int, seed: int) -> dict[str, Value]:
    """Train with one parameter at a place of its range and the others at their defaults."""
    value = _values(knob)[position - 1]
    outcome = _trained(**(_DEFAULTS | {knob: value}), seed=seed)
    return {
        "Right answers on held-out digits, of 100": 100 * float(np.mean(outcome.accuracies)),
        "Clipped, of 100 gradients": 100 * outcome.clipped,
        "ε at δ = 10⁻⁵": upper(outcome.epsilon),
        _NAMES[knob]: value,
        f"Lowest of {_REPEATS} trainings": 100 * min(outcome.accuracies),
        f"Highest of {_REPEATS} trainings": 100 * max(outcome.accuracies),
    }


def _first(parameters: Parameters) -> Answer:
    """Return what the training costs, which is known before it runs."""
    knob, value = parameters["knob"], _values(parameters["knob"])[parameters["position"] - 1]
    epsilon = upper(_plan(**(_DEFAULTS | {knob: value})).epsilon(_DELTA))
    numbers: dict[str, Value] = {
        "Right answers on held-out digits, of 100": PENDING,
        "Clipped, of 100 gradients": PENDING,
        "ε at δ = 10⁻⁵": epsilon,
        _NAMES[knob]: value,
        f"Lowest of {_REPEATS} trainings": PENDING,
        f"Highest of {_REPEATS} trainings": PENDING,
    }
    sentence = (
        f"{_NAMES[knob]} {brief(value)}: ε = {brief(epsilon)} at δ = 10⁻⁵. {_POSITIONS * _REPEATS} trainings, "
        f"{_REPEATS} with each value, are running."
    )
    return Answer(sentence, numbers, (), cell_of(knobs, parameters))


def _compute(parameters: Parameters) -> Answer:
    numbers = knobs(**parameters)
    knob, seed = parameters["knob"], parameters["seed"]
    values = _values(knob)
    outcomes = [_trained(**(_DEFAULTS | {knob: value}), seed=seed) for value in values]
    here = ((values[parameters["position"] - 1], "your value"),)
    accuracy = Plot(
        "Accuracy on held-out digits",
        _NAMES[knob],
        "Right answers of 100",
        (
            Series(
                f"range of {_REPEATS} trainings",
                x=values,
                y=[100 * min(each.accuracies) for each in outcomes],
                y2=[100 * max(each.accuracies) for each in outcomes],
                kind="band",
                role="private",
            ),
            Series(
                "their mean", x=values, y=[100 * float(np.mean(each.accuracies)) for each in outcomes], role="private"
            ),
            Series("gradients clipped, of 100", x=values, y=[100 * each.clipped for each in outcomes], role="neutral"),
        ),
        x_scale="log",
        marks=here,
    )
    cost = Plot(
        "What the training costs",
        _NAMES[knob],
        "ε at δ = 10⁻⁵",
        (Series("ε", x=values, y=[each.epsilon for each in outcomes], role="bound"),),
        x_scale="log",
        y_scale="log",
        marks=here,
    )
    means = [float(np.mean(each.accuracies)) for each in outcomes]
    best = values[int(np.argmax(means))]
    others = ", ".join(f"{_NAMES[name].lower()} {value:g}" for name, value in _DEFAULTS.items() if name != knob)
    sentence = (
        f"{_NAMES[knob]} {brief(numbers[_NAMES[knob]])}: {numbers['Right answers on held-out digits, of 100']:.0f} in "
        f"100 held-out digits right, "
        f"at ε = {brief(numbers['ε at δ = 10⁻⁵'])}. Of the values drawn, {best:g} is right most often. Held fixed: "
        f"{others}."
    )
    return Answer(sentence, numbers, (accuracy, cost), cell_of(knobs, parameters))


LESSON = Lesson(
    name="knobs",
    title="The knobs",
    idea="Too small or too large: where does a training break?",
    person="An engineer has one budget and one evening. Every training that she publishes spends some of it.",
    question=Prediction(
        "The clip norm is ten times too large. What happens to ε?",
        ("It grows", "It stays", "It falls"),
        1,
        "Noise grows with the clip norm, so what a record may change stays hidden as well as before. What falls is "
        "accuracy.",
    ),
    tries=(Try("Far too small", {"position": "1"}), Try("Far too large", {"position": "9"})),
    text="""
<p>Every point is a set of real trainings: a linear model that tells even digits from odd ones, on 1437 images,
measured on 360 others. Choose a parameter and go through its range; the others stay as they are.</p>
<ul>
<li><em>Clip norm C</em>. Too small: all gradients count alike, and steps are tiny unless the learning rate makes up
for it. Too large: nothing is clipped, and the noise σC drowns the gradients. ε does not depend on it. Often from 0.01
to 10; a usual start is the median of the norms, which tells of the data and has to be
released privately itself.</li>
<li><em>Noise multiplier σ</em>. Decides ε together with the next two. Below about 0.5 the accounted ε grows very
fast; usual values are 0.5 to 20.</li>
<li><em>Batch size</em>. A larger batch averages the noise over more records and costs more per step. With the noise
chosen to fit a budget, larger batches are mostly better, up to all records; the limit is what one can compute.</li>
<li><em>Learning rate</em>. Depends on C: what counts is their product. Too large, and the noise moves the weights
farther than the gradients do. Often 0.01 to 10.</li>
<li><em>Epochs</em>. More steps learn more and cost more, ε growing about with the square root of their number. Unlike
without privacy, a longer training can be the worse one at a fixed budget.</li>
</ul>
<p>The parameters that this sweep finds best are a function of these digits. To tune on private data is to release
something each time: it must be accounted (lesson 6), or done on public data.</p>
""",
    figure=Figure(
        "knobs",
        (
            Control("knob", "Parameter", "clip_norm", choices=tuple(_NAMES.items())),
            Control(
                "position",
                "Place in its range",
                5,
                1,
                _POSITIONS,
                integer=True,
                low_label="too small",
                high_label="too large",
            ),
        ),
        _compute,
        main=("position", "knob"),
        seeded=True,
        first=_first,
    ),
    why="""
<p><strong>What ε depends on.</strong> The noise multiplier, the sampling probability (batch size over number of
records), the number of steps and δ: the training is a composition of Poisson-sampled Gaussian mechanisms (lesson 6).
Clip norm, learning rate and model are post-processing, or scale sensitivity and noise alike.</p>
<p><strong>Why C and the learning rate are tied.</strong> With all gradients clipped, the step is rate · C · (mean of
directions + noise σ/batch): only the product counts (De, Berrada, Hayes, Smith, Balle 2022; Bu, Wang, Zha, Karypis
2023).</p>
<p>Ranges and their effects: Ponomareva et al., "How to DP-fy ML", JAIR 2023. Clip norms that follow a quantile
privately: Andrew, Thakkar, McMahan, Ramaswamy 2021. The cost of a search: Papernot and Steinke 2022.</p>
""",
    terms=("hyper-parameters", "ranges of hyper-parameters", "learning rate", "epochs", "tuning cost"),
)
