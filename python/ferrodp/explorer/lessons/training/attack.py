"""Lesson 10: membership inference against real trainings, under the curve that no attack can exceed."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, GdpAccountant
from ferrodp.accounting.reports import membership_advantage
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Prediction,
    Role,
    Series,
    Try,
    Value,
    brief,
    upper,
)
from ferrodp.explorer.lessons.training.data import digits
from ferrodp.explorer.rates import band, hits, most_found, told_at

_DELTA = 1e-5
_RECORDS = 40
_RATE = 2.0
_AT = 0.1
_RATES = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.55, 0.75, 1.0)


@functools.lru_cache(64)
def _scores(noise_multiplier: float, steps: int, trainings: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Train with and without one record, all trainings of a world side by side, one row of weights each.

    Return each attacker's score for every training, in both worlds: one sees all steps, the other the model.
    """
    images, digit = digits()
    chosen = np.flatnonzero(digit < 2)[: _RECORDS + 1]
    features, labels = images[chosen] - 0.3, digit[chosen] == 1
    target = features[_RECORDS]
    noise = fd.GaussianMechanism(noise_multiplier=noise_multiplier, l2_sensitivity=1.0)
    source = fd.testing.seeded(seed.to_bytes(32, "big"))
    found = np.zeros((2, 2, trainings))
    for world in (0, 1):  # 1: the target takes part
        weights = np.zeros((trainings, features.shape[1]))
        for _ in range(steps):
            errors = 1 / (1 + np.exp(-weights @ features.T)) - labels  # a gradient is an error times the features
            norms = np.abs(errors) * np.linalg.norm(features, axis=1)
            errors /= np.maximum(norms, 1.0)  # clipped to norm 1
            others, of_target = errors[:, :_RECORDS] @ features[:_RECORDS], errors[:, _RECORDS:] * target
            released = noise.release(others + world * of_target, source=source)
            found[0, world] += ((released - others) * of_target - 0.5 * of_target**2).sum(axis=1)
            weights -= _RATE * released / _RECORDS
        found[1, world] = -np.log1p(np.exp(-(weights @ target) * (1 if labels[_RECORDS] else -1)))
    return found[:, 0], found[:, 1]


def membership(noise_multiplier: float, steps: int, trainings: int, seed: int) -> dict[str, Value]:
    """Attack trainings with and without one record, and bound what any attack can reach."""
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier), steps)
    epsilon = accountant.epsilon(_DELTA)
    without, with_it = _scores(noise_multiplier, steps, trainings, seed)
    found: dict[str, Value] = {"ε at δ = 10⁻⁵": upper(epsilon)}
    for at, name in enumerate(("sees every step", "sees the model")):
        found[f"Found at {_AT:.0%} false alarms, attacker {name}"] = told_at(without[at], with_it[at], _AT)
    found[f"Most that any attack finds at {_AT:.0%}"] = upper(_most_found(noise_multiplier, steps, (_AT,))[0])
    found["Most that a bet at even odds wins, by the curve"] = upper(0.5 + membership_advantage(accountant) / 2)
    found["The same, for pure ε: e^ε / (1 + e^ε)"] = upper(1 / (1 + math.exp(-epsilon)))
    return found


@functools.lru_cache(256)
def _most_found(noise_multiplier: float, steps: int, rates: tuple[float, ...]) -> list[float]:
    """Return an upper bound on what any attack finds, at each rate of false alarms.

    Of the points of the privacy curve, those are taken where the most powerful test for a rate has its threshold.
    """
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=noise_multiplier), steps)
    mu, quantile = math.sqrt(steps) / noise_multiplier, NormalDist().inv_cdf
    for_rates = [1e-9, 1e-6, 1e-3, *(rate for rate in rates if 0 < rate < 1)]
    places = np.array([0.0, *(abs(mu * quantile(1 - rate) - mu**2 / 2) for rate in for_rates)])
    return most_found(places, np.asarray(accountant.delta_curve(places).upper), rates)


def _compute(parameters: Parameters) -> Answer:
    drawn = {name: value for name, value in parameters.items() if name != "attackers"}
    numbers = membership(**drawn)
    without, with_it = _scores(**drawn)
    trainings = parameters["trainings"]
    bound = _most_found(parameters["noise_multiplier"], parameters["steps"], _RATES)
    series = [Series("no attack can exceed", x=_RATES, y=bound, role="bound")]
    roles: tuple[tuple[str, Role], ...] = (("sees every step", "a"), ("sees the model alone", "b"))
    for at, (name, role) in enumerate(roles if parameters["attackers"] == "both" else roles[:1]):
        alarms = np.arange(trainings)
        found = hits(without[at], with_it[at], alarms)
        low, high = band(alarms, found, trainings, _RATES)
        if parameters["attackers"] == "both":
            series.append(Series(f"{name}: 95 % band", x=_RATES, y=low, y2=high, kind="band", role=role))
        x, y = np.append(alarms / trainings, 1.0), np.append(found / trainings, 1.0)
        series.append(Series(f"attacker {name}", x=x, y=y, kind="steps", role=role))
    series.append(Series("guessing", x=[0, 1], y=[0, 1], role="neutral"))
    plot = Plot("Was the record in the training?", "False alarms", "Found", tuple(series))
    found_by_all = str(numbers[f"Found at {_AT:.0%} false alarms, attacker sees every step"])
    most = float(numbers[f"Most that any attack finds at {_AT:.0%}"])
    sentence = (
        f"Of 20 people who were in the training, this attacker finds about "
        f"{20 * float(found_by_all.split()[0]):.0f}, and "
        f"accuses 2 of 20 who were not. No attacker, however clever, finds more than {20 * most:.3g} on average, at "
        f"ε = {brief(numbers['ε at δ = 10⁻⁵'])}. As shares, with the 95 % interval of {trainings} trainings in each "
        "world: "
        f"{found_by_all}, and at most {brief(most)}."
    )
    return Answer(sentence, numbers, (plot,), cell_of(membership, drawn))


LESSON = Lesson(
    name="attack",
    title="Attack it",
    idea="Was this image in the training? How often is a good attacker right?",
    person="A patient's scan may have been in the training of a model, and only people with a certain illness "
    "were asked. An insurer has the model, and a copy of the scan.",
    question=Prediction(
        "The attacker is improved for ten years. Which line moves?",
        ("The attacker's curve", "The bound above it", "Both"),
        0,
        "The bound holds for every attacker, also one who knows all other records and sees every step. Only noise "
        "moves it.",
    ),
    tries=(
        Try("σ = 3: the curve falls to the diagonal", {"noise_multiplier": "3"}),
        Try("Both attackers, with bands", {"attackers": "both"}),
    ),
    text="""
<p>A <em>membership inference</em> attack asks whether a record was in the training. It is the purest form of the
promise of lesson 2: tell the two worlds apart. Here a model is trained many times with a certain image and many times
without it, and two attackers guess.</p>
<ul>
<li>One sees <em>every step</em>, and knows all other records. In each step it subtracts what they contribute, and
looks whether the rest points to the target's gradient. This is what the guarantee is about, and no
better test of these two worlds exists: the measured curve lies near the bound, the nearer the more steps clip the
target's gradient.</li>
<li>One sees <em>the final model</em> alone, and uses the loss on the target: a low loss speaks for membership. It does
much worse here. That is no reason to claim a smaller ε: the next attack may be better, and nobody has to publish
it.</li>
</ul>
<p>The bound above both curves holds for <em>all</em> attacks, also those that know everything but one record. As a
number: under pure ε, who bets on membership at even odds wins with chance at most e<sup>ε</sup>/(1 + e<sup>ε</sup>):
0.731 at ε = 1, 0.881 at ε = 2.</p>
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
                0.8,
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
                400,
                40,
                400,
                "log",
                integer=True,
                low_label="wide bands",
                high_label="narrow bands",
            ),
            Control(
                "attackers",
                "Attackers that are drawn",
                "one",
                choices=(("one", "the one who sees every step"), ("both", "both, with 95 % bands")),
            ),
        ),
        _compute,
        main=("noise_multiplier", "steps"),
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
distance (Yeom, Giacomelli, Fredrikson, Jha 2018). Intervals are those of Clopper and Pearson (1934). All
trainings of a world run side by side, each with noise of its own.</p>
""",
    terms=("membership inference", "auditing", "hypothesis testing"),
)
