"""Membership inference: trainings with and without one record, and the curve that no attack exceeds."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

import ferrodp as fd
from ferrodp._base._pictures import power
from ferrodp.accounting import PldAccountant, PrivacyEvent
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
from ferrodp.explorer.model.attacks.controls import BATCH, CLIP, DATASET, NOISE, RATE
from ferrodp.explorer.model.datasets import load, outlier, softmax
from ferrodp.explorer.rates import band, hits, most_found, told_at
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan
from ferrodp.random import poisson_sample

_DELTA, _MOST_EPSILON = 1e-5, 30.0
_RECORDS = 150
_ATTACKERS = ("attacker knows all others and every step", "attacker sees the final model")
_RATES = (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)


@functools.lru_cache(64)
def proven(event: PrivacyEvent) -> tuple[np.ndarray, np.ndarray]:
    """Return points of a privacy curve: ε, and certified upper bounds on δ."""
    accountant = PldAccountant()
    accountant.compose(event)
    most = min(accountant.epsilon(1e-9), _MOST_EPSILON)
    places = np.concatenate([[0.0], np.geomspace(min(0.01, most / 10.0), most, 40)])
    return places, np.asarray(accountant.delta_curve(places).upper)


def plan_like(dataset: str, clip_norm: float, noise_multiplier: float, batch_size: int, steps: int) -> PrivacyPlan:
    """Return a plan with the rate, noise and clip norm of the playground, on so many records as the attack has."""
    share = batch_size / len(load(dataset).features)
    return PrivacyPlan(
        population_size=min(_RECORDS, len(load(dataset).features)),
        sampling=FullBatch() if share >= 1.0 else PoissonSampling(share),
        num_steps=steps,
        clipping=FlatClipping(clip_norm),
        noise=ConstantNoise(noise_multiplier),
    )


@functools.lru_cache(16)
def scores(plan: PrivacyPlan, dataset: str, learning_rate: float, trainings: int, seed: int) -> np.ndarray:
    """Return what two attackers see: an array of (attacker, world, training); the record is in world 1.

    All trainings of a world run side by side, as one array of (feature, training, class).
    """
    data, target = load(dataset), outlier(dataset)
    size, classes, norm = plan.population_size or 0, data.num_classes, plan.clipping.initial_norm
    chosen = np.concatenate([np.delete(np.arange(len(data.features)), target)[: size - 1], [target]])
    x, y, share = data.features[chosen], data.labels[chosen], (plan.expected_batch_size or 1.0) / size
    lengths = np.linalg.norm(x, axis=1)[:, None, None]
    right = np.eye(classes)[y][:, None, :]
    noise = fd.GaussianMechanism(noise_multiplier=plan.noise_multipliers[0], l2_sensitivity=norm)
    source, found = fd.testing.seeded(f"{seed}".encode().ljust(32)), np.zeros((2, 2, trainings))
    shape = (x.shape[1], trainings, classes)

    def total(errors: np.ndarray) -> np.ndarray:  # a record's gradient is the outer product of its features and errors
        return np.asarray((x.T @ errors.reshape(size, -1)).reshape(shape))

    for world in (0, 1):
        models = np.zeros(shape)
        for _ in range(plan.num_steps):
            errors = softmax((x @ models.reshape(len(models), -1)).reshape(size, trainings, classes)) - right
            norms = np.linalg.norm(errors, axis=2, keepdims=True) * lengths
            errors *= np.minimum(1.0, norm / np.maximum(norms, 1e-300))
            taken = np.zeros((size, trainings, 1))
            taken.flat[poisson_sample(taken.size, share, source=source)] = 1.0
            taken[-1] *= world
            released = noise.release(total(errors * taken), source=source)
            of_target = errors[-1].copy()
            errors[-1] = 0.0
            rest = released - share * total(errors)
            found[0, world] += np.einsum("i,itk,tk->t", x[-1], rest, of_target)
            models -= learning_rate / (share * size) * released
        found[1, world] = softmax(np.einsum("i,itk->tk", x[-1], models))[:, y[-1]]
    return found


def membership(
    *,
    dataset: str,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    learning_rate: float,
    steps: int,
    trainings: int,
    seed: int,
) -> dict[str, Value]:
    """Attack trainings with and without the most unusual record, at 10 % false alarms."""
    plan = plan_like(dataset, clip_norm, noise_multiplier, batch_size, steps)
    accountant = PldAccountant()
    accountant.compose(plan.event)
    points, seen = proven(plan.event), scores(plan, dataset, learning_rate, trainings, seed)
    found: dict[str, Value] = {f"ε at δ = {power(_DELTA)}": upper(accountant.epsilon(_DELTA))}
    for attacker, name in enumerate(_ATTACKERS):
        found[f"Found at about 10 % false alarms, {name}"] = told_at(seen[attacker, 0], seen[attacker, 1], 0.1)
    found["Most that any attack finds at 10 % false alarms"] = upper(most_found(*points, (0.1,))[0])
    found["Won bets at even odds, at most"] = upper(0.5 + membership_advantage(accountant) / 2)
    return found


def first(parameters: Parameters) -> Answer:
    """Return ε, before any attack."""
    names = ("dataset", "clip_norm", "noise_multiplier", "batch_size", "steps")
    accountant, trainings = PldAccountant(), parameters["trainings"]
    accountant.compose(plan_like(**{name: parameters[name] for name in names}).event)
    epsilon = upper(accountant.epsilon(_DELTA))
    numbers: dict[str, Value] = {f"ε at δ = {power(_DELTA)}": epsilon}
    numbers |= {f"Found at about 10 % false alarms, {name}": PENDING for name in _ATTACKERS}
    numbers["Most that any attack finds at 10 % false alarms"] = PENDING
    numbers["Won bets at even odds, at most"] = PENDING
    sentence = f"At ε = {brief(epsilon)}: {trainings} trainings with the record and {trainings} without are running."
    return Answer(sentence, numbers, (), cell_of(membership, parameters))


def compute(parameters: Parameters) -> Answer:
    """Attack, and draw both attackers under the bound."""
    names = ("dataset", "clip_norm", "noise_multiplier", "batch_size", "steps")
    plan = plan_like(**{name: parameters[name] for name in names})
    numbers = membership(**parameters)
    trainings = parameters["trainings"]
    seen = scores(plan, parameters["dataset"], parameters["learning_rate"], trainings, parameters["seed"])
    bound = most_found(*proven(plan.event), _RATES)
    series = [Series("no attack exceeds this", _RATES, bound, "line", "bound")]
    alarms = np.arange(trainings)
    for attacker, name, role in ((0, "knows all others and every step", "a"), (1, "sees the final model", "b")):
        found = hits(seen[attacker, 0], seen[attacker, 1], alarms)
        low, high = band(alarms, found, trainings, _RATES)
        x, y = np.append(alarms / trainings, 1.0), np.append(found / trainings, 1.0)
        series.append(Series(f"{name}, 95 % band", _RATES, low, "band", role, y2=high))  # type: ignore[arg-type]
        series.append(Series(name, x, y, "steps", role))  # type: ignore[arg-type]
    series.append(Series("guessing", [0.0, 1.0], [0.0, 1.0], "line", "neutral"))
    plot = Plot("Was the most unusual record in the training?", "false alarms", "found", tuple(series))
    epsilon, most = next(iter(numbers.values())), numbers["Most that any attack finds at 10 % false alarms"]
    sentence = (
        f"At ε = {brief(epsilon)}, {trainings} trainings with the record and {trainings} without: with 10 in 100 "
        "false alarms "
        f"no attack can find more than {100 * float(most):.1f} in 100."
    )
    return Answer(sentence, numbers, (plot,), cell_of(membership, parameters))


STEPS = Control("steps", "Steps attacked", 12, 1, 40, "log", integer=True, low_label="one", high_label="more to see")
TRAININGS = Control(
    "trainings",
    "Trainings in each world",
    400,
    40,
    400,
    "log",
    integer=True,
    low_label="wide",
    high_label="narrow band",
)
PAGE = Lesson(
    name="membership",
    title="Membership inference",
    idea="Was this record in the training? The question that the guarantee answers for every attack at once.",
    text="""<p>A linear model is trained many times with the record that lies farthest from the mean of its class,
and as many times without it, on 150 records with the clip norm, noise and sampling rate that you set: a batch of 719
takes each of the 1438 records of the playground, and of these 150, with chance one half.
One attacker knows all other records and sees every step; it adds up how far each release points to the
record's gradient. The other sees only how sure the final model is of the record's label.</p>""",
    figure=Figure(
        "membership",
        (
            DATASET,
            CLIP,
            dataclasses.replace(NOISE, default=0.5),
            dataclasses.replace(BATCH, default=719),
            RATE,
            dataclasses.replace(STEPS, default=2),
            TRAININGS,
        ),
        compute,
        main=("noise_multiplier", "batch_size"),
        seeded=True,
        first=first,
    ),
    why="""<p>If all steps together are (ε, δ(ε))-differentially private, a test with false alarms α finds at most
e<sup>ε</sup>α + δ(ε) and at most 1 − e<sup>−ε</sup>(1 − δ(ε) − α), for every ε (Wasserman, Zhou, JASA
2010, Theorem 2.4; Dong, Roth, Su, JRSS B 2022, Proposition 2.12). The drawn bound is the least over 41
values of ε, with δ(ε) certified. Bands combine the intervals of Clopper and Pearson for both rates at
each threshold, as false alarms are counted, too.</p>""",
    terms=(),
)
