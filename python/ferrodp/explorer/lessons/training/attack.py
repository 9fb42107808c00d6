"""Lesson 10: membership inference against real trainings, under the curve that no attack can exceed."""

from __future__ import annotations

import functools
import math

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, GdpAccountant
from ferrodp.accounting.reports import binomial_upper_bound, membership_advantage, true_positive_rate
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import Answer, Control, Figure, Lesson, Parameters, Plot, Role, Series, Value, upper
from ferrodp.explorer.lessons.training.data import digits
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

_DELTA = 1e-5
_RECORDS = 40
_RATE = 2.0
_AT = 0.1
_RATES = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.55, 0.75, 1.0)


@functools.lru_cache(64)
def _scores(noise_multiplier: float, steps: int, trainings: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Train with and without one record; return each attacker's score for every training: all steps, and the model."""
    images, digit = digits()
    chosen = np.flatnonzero(digit < 2)[: _RECORDS + 1]
    features = images[chosen] - 0.3
    labels = digit[chosen] == 1
    plan = PrivacyPlan(
        population_size=None,
        sampling=FullBatch(),
        num_steps=steps,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(noise_multiplier),
    )
    found = np.zeros((2, 2, trainings))
    for world in (0, 1):  # 1: the last record takes part
        x, y = features[: _RECORDS + world], labels[: _RECORDS + world]
        for number in range(trainings):
            weights = np.zeros(features.shape[1])
            key = (seed * 2 + world) * 10_000 + number
            for step in plan.start(weights, source=fd.testing.seeded(key.to_bytes(32, "big"))):
                others, _ = fd.clip_rows(_gradients(weights, features[:_RECORDS], labels[:_RECORDS]), clip_norm=1.0)
                target, _ = fd.clip_rows(_gradients(weights, features[_RECORDS:], labels[_RECORDS:]), clip_norm=1.0)
                step.add(_gradients(weights, x, y))
                released = step.release(denominator=1.0)
                found[0, world, number] += (released - others.sum(axis=0)) @ target[0] - 0.5 * target[0] @ target[0]
                weights = weights - _RATE * released / _RECORDS
            margin = features[_RECORDS] @ weights * (1 if labels[_RECORDS] else -1)
            found[1, world, number] = -math.log1p(math.exp(-margin))
    return found[:, 0], found[:, 1]


def _gradients(weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.asarray((1 / (1 + np.exp(-features @ weights)) - labels)[:, None] * features)


def _hits(without: np.ndarray, with_it: np.ndarray, alarms: int) -> int:
    """Return how many trainings with the record score above the threshold that so many without it exceed."""
    threshold = np.sort(without)[::-1][min(alarms, len(without) - 1)]
    return int((with_it > threshold).sum())


@functools.lru_cache(4096)
def _interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of Clopper and Pearson."""
    low = 1 - binomial_upper_bound(hits=trials - hits, num_samples=trials, confidence=0.975)
    return low, binomial_upper_bound(hits=hits, num_samples=trials, confidence=0.975)


def membership(noise_multiplier: float, steps: int, trainings: int, seed: int) -> dict[str, Value]:
    """Attack trainings with and without one record, and bound what any attack can reach."""
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier), steps)
    epsilon = accountant.epsilon(_DELTA)
    without, with_it = _scores(noise_multiplier, steps, trainings, seed)
    found: dict[str, Value] = {f"ε at δ = {_DELTA:g}": upper(epsilon)}
    for at, name in enumerate(("sees every step", "sees the model")):
        hits = _hits(without[at], with_it[at], int(_AT * trainings))
        low, high = _interval(hits, trainings)
        found[f"Found at {_AT:.0%} false alarms, attacker {name}"] = f"{hits / trainings:.3f} ({low:.3f} to {high:.3f})"
    found[f"Most that any attack finds at {_AT:.0%}"] = upper(true_positive_rate(accountant, false_positive_rate=_AT))
    found["Most that a bet at even odds wins, by the curve"] = upper(0.5 + membership_advantage(accountant) / 2)
    found["The same, for pure ε: e^ε / (1 + e^ε)"] = upper(1 / (1 + math.exp(-epsilon)))
    return found


@functools.lru_cache(256)
def _proven(noise_multiplier: float, steps: int) -> list[float]:
    """Return the most that any attack finds, at each rate of false alarms of the plot."""
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier), steps)
    return [true_positive_rate(accountant, false_positive_rate=rate) for rate in _RATES]


def _band(alarms: list[tuple[float, float]], found: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return what the intervals of both rates at each threshold leave open, at the rates of the plot.

    A threshold whose false alarms are at most x shows what is found at x at least, and one with at least x shows what
    is found at most.
    """
    both = list(zip(alarms, found, strict=True))
    low = [max((hits[0] for rate, hits in both if rate[1] <= x), default=0.0) for x in _RATES]
    high = [min((hits[1] for rate, hits in both if rate[0] >= x), default=1.0) for x in _RATES]
    return low, high


def _compute(parameters: Parameters) -> Answer:
    numbers = membership(**parameters)
    without, with_it = _scores(**parameters)
    trainings = parameters["trainings"]
    bound = _proven(parameters["noise_multiplier"], parameters["steps"])
    series = [Series("no attack can exceed", x=_RATES, y=bound, role="bound")]
    roles: tuple[tuple[str, Role], ...] = (("sees every step", "a"), ("sees the model alone", "b"))
    for at, (name, role) in enumerate(roles):
        alarms = sorted({round(rate * (trainings - 1)) for rate in _RATES})
        hits = [_hits(without[at], with_it[at], each) for each in alarms]
        low, high = _band(
            [_interval(each, trainings) for each in alarms], [_interval(each, trainings) for each in hits]
        )
        series.append(Series(f"{name}: 95 % band", x=_RATES, y=low, y2=high, kind="band", role=role))
        x = [each / trainings for each in range(trainings)]
        y = [_hits(without[at], with_it[at], each) / trainings for each in range(trainings)]
        series.append(Series(f"attacker {name}", x=[*x, 1.0], y=[*y, 1.0], kind="steps", role=role))
    series.append(Series("guessing", x=[0, 1], y=[0, 1], role="neutral"))
    plot = Plot("Was the record in the training?", "False alarms", "Found", tuple(series))
    measured = str(numbers[f"Found at {_AT:.0%} false alarms, attacker sees every step"])
    sentence = (
        f"At ε = {numbers[f'ε at δ = {_DELTA:g}']}, of 100 trainings with the record an attacker with 10 false alarms "
        f"in 100 finds at most "
        f"{100 * float(numbers[f'Most that any attack finds at {_AT:.0%}']):.0f}. Measured on {trainings} trainings "
        f"with it and as many without: "
        f"{measured} as a share, with its 95 % interval."
    )
    return Answer(sentence, numbers, (plot,), cell_of(membership, parameters))


LESSON = Lesson(
    name="attack",
    title="Attack it",
    idea="The guarantee is a bound on every attack; an attack is a bound on the guarantee.",
    text="""
<p>A <em>membership inference</em> attack asks whether a record was in the training. It is the purest form of the
promise of lesson 2: tell the two worlds apart. Here a model is trained many times with a certain image and many times
without it, and two attackers guess.</p>
<ul>
<li>One sees <em>every step</em>, and knows all other records. In each step it subtracts what they contribute, and
looks whether the rest points to the target's gradient. This is what the guarantee is about, and no better test
exists: the measured curve lies near the bound.</li>
<li>One sees <em>the final model</em> alone, and uses the loss on the target: a low loss speaks for membership. It
does much worse. That is no reason to claim a smaller ε: the next attack may be better, and nobody has to publish
it.</li>
</ul>
<p>The curve above both holds for <em>all</em> attacks, also those that know everything but one record. As a number:
under pure ε, who bets on membership at even odds wins with chance at most e<sup>ε</sup>/(1 + e<sup>ε</sup>): 0.731 at
ε = 1, 0.881 at ε = 2.</p>
<p>Turned around, this is <em>auditing</em>: if an attack finds more than the curve allows, beyond the statistical
error shown as a band, the claimed ε is false, and the program has a defect. An audit that finds nothing proves
nothing, but it has found many defects. Other attacks (<em>reconstruction</em> of a record, <em>model inversion</em>,
<em>property inference</em>) are on the page Attack.</p>
""",
    figure=Figure(
        "attack",
        (
            Control(
                "noise_multiplier",
                "Noise multiplier σ",
                2.0,
                0.3,
                20.0,
                "log",
                low_label="little noise",
                high_label="much noise",
            ),
            Control("steps", "Steps", 2, 1, 12, integer=True),
            Control(
                "trainings",
                "Trainings in each world",
                200,
                40,
                400,
                "log",
                integer=True,
                low_label="wide bands",
                high_label="narrow bands",
            ),
        ),
        _compute,
        seeded=True,
    ),
    why="""
<p><strong>Theorem</strong> (Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh, Viswanath 2015). A mechanism is (ε,
δ)-differentially private if and only if each test of one neighbor against the other with false alarms α finds at most
min(e<sup>ε</sup>α + δ, 1 − e<sup>−ε</sup>(1 − δ − α)). The bound drawn is the minimum over all points (ε, δ) of the
curve (Dong, Roth, Su 2022, Proposition 2.12). For T steps with noise multiplier σ and no sampling it is
Φ(Φ<sup>−1</sup>(α) + √T/σ).</p>
<p><strong>The attacker who sees every step</strong> sums the log-likelihood ratios of the releases; by Neyman and
Pearson no test is better. It meets the bound where the target's clipped gradient has norm C in every step, and stays
below otherwise. White-box worst cases: Nasr, Song, Thakurta, Papernot, Carlini, S&amp;P 2021.</p>
<p><strong>From even odds</strong> a bet wins with chance (1 + δ(0))/2 at most, δ(0) being the total variation
distance (Yeom, Giacomelli, Fredrikson, Jha 2018). Intervals are those of Clopper and Pearson (1934).</p>
""",
    terms=("membership inference", "auditing", "hypothesis testing"),
)
