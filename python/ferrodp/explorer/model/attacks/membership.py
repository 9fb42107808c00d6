"""Membership inference: trainings with and without one record, and the curve that no attack exceeds."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

import ferrodp as fd
from ferrodp.accounting import PldAccountant
from ferrodp.accounting.reports import binomial_upper_bound, membership_advantage, true_positive_rate
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import Answer, Control, Figure, Lesson, Parameters, Plot, Series, Value, upper
from ferrodp.explorer.model.attacks.controls import BATCH, CLIP, DATASET, NOISE, RATE
from ferrodp.explorer.model.datasets import gradients, initial, load, outlier, probabilities
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

_DELTA = 1e-5
_RECORDS = 150
_RATES = (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)


@functools.lru_cache(16)
def proven(plan: PrivacyPlan) -> Callable[[float], float]:
    """Return an upper bound on δ(ε) of a plan, computed once: that at the nearest smaller ε of a grid."""
    accountant = PldAccountant()
    accountant.compose(plan.event)
    places = np.concatenate([[0.0], np.geomspace(0.005, 300.0, 400)])
    deltas = accountant.delta_curve(places).upper
    return lambda epsilon: float(deltas[np.searchsorted(places, epsilon, side="right") - 1])


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


def clipped_sum(model: np.ndarray, x: np.ndarray, y: np.ndarray, num_classes: int, clip_norm: float) -> np.ndarray:
    """Return the sum of clipped gradients of a linear model, each an outer product, without forming them."""
    errors = probabilities("linear", model, x, num_classes)
    errors[np.arange(len(y)), y] -= 1.0
    norms = np.linalg.norm(errors, axis=1) * np.linalg.norm(x, axis=1)
    factors = np.minimum(1.0, clip_norm / np.maximum(norms, 1e-300))
    return np.asarray(x.T @ (errors * factors[:, None])).ravel()


@functools.lru_cache(16)
def scores(plan: PrivacyPlan, dataset: str, learning_rate: float, trainings: int, seed: int) -> np.ndarray:
    """Return what two attackers see: an array of (attacker, world, training); the record is in world 1."""
    data, target = load(dataset), outlier(dataset)
    size, classes, norm = plan.population_size or 0, data.num_classes, plan.clipping.initial_norm
    chosen = np.concatenate([np.delete(np.arange(len(data.features)), target)[: size - 1], [target]])
    x, y = data.features[chosen], data.labels[chosen]
    share, found = (plan.expected_batch_size or 1.0) / size, np.zeros((2, 2, trainings))
    for world in (0, 1):
        for number in range(trainings):
            model = initial("linear", data, seed)
            source = fd.testing.seeded(f"{seed} {world} {number}".encode().ljust(32))
            for step in plan.start(model, source=source):
                rows = gradients("linear", model, x[step.indices], y[step.indices], classes)
                if not world:
                    rows[step.indices == size - 1] = 0.0
                step.add(rows)
                mean = step.release()
                others = clipped_sum(model, x[:-1], y[:-1], classes, norm)
                rest = mean * share * size - share * others
                found[0, world, number] += rest @ clipped_sum(model, x[-1:], y[-1:], classes, norm)
                model = model - learning_rate * mean
            found[1, world, number] = probabilities("linear", model, x[-1:], classes)[0, y[-1]]
    return found


def hits(without: np.ndarray, with_it: np.ndarray, alarms: int) -> int:
    """Return how many trainings with the record exceed the threshold that so many without it exceed."""
    return int((with_it > np.sort(without)[::-1][min(alarms, len(without) - 1)]).sum())


def interval(found: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of Clopper and Pearson."""
    low = 1.0 - binomial_upper_bound(hits=trials - found, num_samples=trials, confidence=0.975)
    return low, binomial_upper_bound(hits=found, num_samples=trials, confidence=0.975)


def band(alarms: list[tuple[float, float]], found: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return what the intervals of both rates, threshold by threshold, leave open at the rates of the plot."""
    both = list(zip(alarms, found, strict=True))
    low = [max((hit[0] for rate, hit in both if rate[1] <= x), default=0.0) for x in _RATES]
    high = [min((hit[1] for rate, hit in both if rate[0] >= x), default=1.0) for x in _RATES]
    return low, high


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
    curve, seen = proven(plan), scores(plan, dataset, learning_rate, trainings, seed)
    found: dict[str, Value] = {f"ε at δ = {_DELTA:g}": upper(accountant.epsilon(_DELTA))}
    for attacker, name in enumerate(("attacker knows all others and every step", "attacker sees the final model")):
        count = hits(seen[attacker, 0], seen[attacker, 1], trainings // 10)
        low, high = interval(count, trainings)
        found[f"Found at about 10 % false alarms, {name}"] = f"{count / trainings:.3f} ({low:.3f} to {high:.3f})"
    found["Most that any attack finds at 10 % false alarms"] = upper(true_positive_rate(curve, false_positive_rate=0.1))
    found["Won bets at even odds, at most"] = upper(0.5 + membership_advantage(curve) / 2)
    return found


def compute(parameters: Parameters) -> Answer:
    """Attack, and draw both attackers under the bound."""
    names = ("dataset", "clip_norm", "noise_multiplier", "batch_size", "steps")
    plan = plan_like(**{name: parameters[name] for name in names})
    numbers = membership(**parameters)
    trainings = parameters["trainings"]
    seen = scores(plan, parameters["dataset"], parameters["learning_rate"], trainings, parameters["seed"])
    curve = proven(plan)
    bound = [true_positive_rate(curve, false_positive_rate=rate) for rate in _RATES]
    series = [Series("no attack exceeds this", _RATES, bound, "line", "bound")]
    alarms = sorted({round(i * trainings / 20) for i in range(20)})
    x = [each / trainings for each in alarms]
    for attacker, name, role in ((0, "knows all others and every step", "a"), (1, "sees the final model", "b")):
        found = [hits(seen[attacker, 0], seen[attacker, 1], each) for each in alarms]
        low, high = band([interval(each, trainings) for each in alarms], [interval(each, trainings) for each in found])
        y = [each / trainings for each in found]
        series.append(Series(f"{name}, 95 % band", _RATES, low, "band", role, y2=high))  # type: ignore[arg-type]
        series.append(Series(name, [*x, 1.0], [*y, 1.0], "steps", role))  # type: ignore[arg-type]
    series.append(Series("guessing", [0.0, 1.0], [0.0, 1.0], "line", "neutral"))
    plot = Plot("Was the most unusual record in the training?", "false alarms", "found", tuple(series))
    epsilon, most = next(iter(numbers.values())), numbers["Most that any attack finds at 10 % false alarms"]
    sentence = (
        f"At ε = {epsilon}, {trainings} trainings with the record and {trainings} without: with 10 in 100 false alarms "
        f"no attack can find more than {100 * float(most):.1f} in 100."
    )
    return Answer(sentence, numbers, (plot,), cell_of(membership, parameters))


STEPS = Control("steps", "Steps attacked", 12, 1, 40, "log", integer=True, low_label="one", high_label="more to see")
TRAININGS = Control(
    "trainings",
    "Trainings in each world",
    100,
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
and as many times without it, on 150 records with the clip norm, noise and sampling rate that you set.
One attacker knows all other records and sees every step; it adds up how far each release points to the
record's gradient. The other sees only how sure the final model is of the record's label.</p>""",
    figure=Figure("membership", (DATASET, CLIP, NOISE, BATCH, RATE, STEPS, TRAININGS), compute, seeded=True),
    why="""<p>If all steps together are (ε, δ(ε))-differentially private, a test with false alarms α finds at most
min<sub>ε</sub> e<sup>ε</sup>α + δ(ε) (Wasserman, Zhou, JASA 2010, Theorem 2.4; Dong, Roth, Su, JRSS B
2022, Proposition 2.12). The drawn bound takes the best ε at each α, with δ(ε) certified. Bands combine
the intervals of Clopper and Pearson for both rates at each threshold, as false alarms are counted,
too.</p>""",
    terms=(),
)
