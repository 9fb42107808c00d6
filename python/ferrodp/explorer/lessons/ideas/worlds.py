"""Lesson 2: the laws of the output with and without one record, and the area that δ is."""

from __future__ import annotations

import math

import numpy as np

import ferrodp as fd
from ferrodp.accounting import PrivacyLossDistribution
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
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

_COUNT = 100
_VOTES = (12, 14, 15, 13, 9)
_CHOSEN = 2
"""Which option the record votes for."""
_DELTA = 1e-5
_MOST_RAISED = 2.0
"""How much higher than the laws the picture is; what is raised by more is cut, and its name says so."""


def _votes(scale: float, voted: bool) -> np.ndarray:
    """Return the law of the exponential mechanism on the votes, with the record's or without it."""
    utilities = np.array(_VOTES, float)
    utilities[_CHOSEN] -= not voted
    weights = np.exp((utilities - utilities.max()) / scale)
    return np.asarray(weights / weights.sum())


def _density(mechanism: str, scale: float, at: np.ndarray) -> np.ndarray:
    """Return the density of Laplace or Gaussian noise of this scale."""
    if mechanism == "laplace":
        return np.asarray(np.exp(-np.abs(at) / scale) / (2 * scale))
    return np.asarray(np.exp(-0.5 * (at / scale) ** 2) / (scale * math.sqrt(2 * math.pi)))


def two_worlds(mechanism: str, scale: float, epsilon: float, record: str, seed: int) -> dict[str, Value]:
    """Release once in one of two worlds, and say what the release tells of which world it is."""
    source = fd.testing.seeded(seed.to_bytes(32, "big"))
    if mechanism == "exponential":
        chooser = fd.ExponentialMechanism(scale=scale, sensitivity=1.0, monotonic=True)
        utilities = [count - (at == _CHOSEN and record == "off") for at, count in enumerate(_VOTES)]
        chosen = chooser.release(utilities, source=source)
        on, off = _votes(scale, True), _votes(scale, False)
        losses = PrivacyLossDistribution.from_masses(on, off)
        released: Value = f"option {chosen + 1}"
        ratio = on[chosen] / off[chosen]
        delta, at_delta = losses.delta_bounds(epsilon).upper, losses.epsilon_bounds(_DELTA).upper
    else:
        noise: fd.LaplaceMechanism | fd.GaussianMechanism
        if mechanism == "laplace":
            noise = fd.LaplaceMechanism(scale=scale, l1_sensitivity=1.0)
        else:
            noise = fd.GaussianMechanism(noise_multiplier=scale, l2_sensitivity=1.0)
        released = noise.release(float(_COUNT + (record == "on")), source=source)
        shift = np.array([released - _COUNT - 1, released - _COUNT])
        ratio = np.divide(*_density(mechanism, scale, shift))
        delta, at_delta = noise.delta(epsilon), noise.epsilon(_DELTA)
    return {
        "One release": released,
        "It is so many times as likely with the record": float(ratio),
        f"δ at ε = {epsilon:g}": upper(delta),
        "ε at δ = 10⁻⁵": upper(at_delta),
    }


def _compute(parameters: Parameters) -> Answer:
    numbers = two_worlds(**parameters)
    kind, scale, epsilon = parameters["mechanism"], parameters["scale"], parameters["epsilon"]
    factor = math.exp(epsilon)
    if kind == "exponential":
        x = np.arange(1.0, len(_VOTES) + 1)
        on, off = _votes(scale, True), _votes(scale, False)
        first, second = on, off
        series: tuple[Series, ...] = (
            Series("with the record", x=x, y=on, kind="bars", role="a"),
            Series("without it", x=x, y=off, kind="bars", role="b"),
            Series("e^ε times without it", x=x, y=factor * off, kind="points", role="bound"),
        )
        labels = "The option that is chosen", "Probability"
    else:
        x = np.linspace(_COUNT - 6 * scale, _COUNT + 1 + 6 * scale, 401)
        first, second = _density(kind, scale, x - _COUNT - 1), _density(kind, scale, x - _COUNT)
        raised = factor * second
        top = _MOST_RAISED * float(first.max())
        series = (
            Series(
                "the area that is δ",
                x=x,
                y=np.minimum(first, raised),
                y2=first,
                kind="band",
                role="non-private",
            ),
            Series("with the record", x=x, y=first, role="a"),
            Series("without it", x=x, y=second, role="b"),
            Series(
                "e^ε times without it" + ("" if top >= raised.max() else ", which goes on above"),
                x=x,
                y=np.where(raised > top, np.nan, raised),
                role="bound",
            ),
        )
        labels = "Released count", "Density"
    marks = ((float(numbers["One release"]), "one release"),) if kind != "exponential" else ()
    real = "is in the data" if parameters["record"] == "on" else "is not in the data"
    delta = brief(numbers[f"δ at ε = {epsilon:g}"])
    sentence = (
        f"The record {real}. Seeing this release multiplies the odds that it is by "
        f"{numbers['It is so many times as likely with the record']:.3g}. The law with the record exceeds "
        f"e^{epsilon:g} = "
        f"{factor:.3g} times the law without it by a total of at most δ = {delta}."
    )
    plot = Plot("The output in two worlds that differ in one record", *labels, series, marks=marks)
    return Answer(sentence, numbers, (plot,), cell_of(two_worlds, parameters))


LESSON = Lesson(
    name="worlds",
    title="Two worlds",
    idea="Would the published number look any different without you?",
    person="A nurse had a test that her employer must not know of. Her clinic publishes how many tests were positive.",
    question=Prediction(
        "The clinic adds noise to its count and publishes it. Can the employer tell whether the nurse is in it?",
        ("Yes, for certain", "Only by odds", "Not at all"),
        1,
        "Either world can lead to any number, one of them a little more often. ε bounds how far the odds can move, "
        "and δ "
        "what is left over.",
    ),
    tries=(
        Try("Less noise", {"scale": "0.5"}),
        Try("More noise", {"scale": "10"}),
        Try("Laplace", {"mechanism": "laplace"}),
    ),
    text="""
<p>Think of two worlds that are equal but for one record: yours is in the data, or it is not. A mechanism is a law of
outputs in each. Switch the record on and off: one law is moved a little, and nothing else happens.</p>
<p>A mechanism is <em>(ε, δ)-differentially private</em> if for all such pairs of worlds, in both directions, and for
every set of outputs the probability in one world is at most e<sup>ε</sup> times that in the other, plus δ. ε bounds
how far odds can move, and δ is what is left over: in the picture the shaded area, which sticks out of the raised
curve. The chance of an output that moves the odds further is larger than δ, as its whole probability counts and not
only what sticks out. There are many true pairs (ε, δ) for one mechanism: a guarantee is a curve, and a point of it has
two numbers.</p>
<ul>
<li><em>Laplace mechanism</em>: noise with density exp(−|x|/b)/2b. The ratio of the two laws never exceeds
e<sup>1/b</sup> for a count, so δ = 0 for ε ≥ 1/b.</li>
<li><em>Gaussian mechanism</em>: the ratio grows without bound in the tails, so δ is never 0. For many answers at once
it needs less noise: a record that changes d counts by one each moves them by d in the L1 norm, to which Laplace noise
is scaled, and by √d in the L2 norm.</li>
<li><em>Exponential mechanism</em>: chooses one of several options, with probability proportional to
e<sup>utility/scale</sup>. Here the utility is the number of votes, and the record is a vote for option 3.</li>
</ul>
<p>What is <em>not</em> promised: that nothing can be learned about you. A study that finds that smoking causes cancer
tells something of every smoker, whether they took part or not. The promise is that taking part changes little.</p>
""",
    figure=Figure(
        "worlds",
        (
            Control(
                "mechanism",
                "Mechanism",
                "gaussian",
                choices=(("laplace", "Laplace"), ("gaussian", "Gaussian"), ("exponential", "Exponential")),
            ),
            Control(
                "scale",
                "Scale of the noise, in units of the sensitivity",
                2.0,
                0.3,
                20.0,
                "log",
                low_label="worlds apart",
                high_label="worlds alike",
            ),
            Control(
                "epsilon", "ε", 0.5, 0.05, 5.0, "log", low_label="odds hardly move", high_label="odds may move × 148"
            ),
            Control("record", "Your record", "on", choices=(("on", "is in the data"), ("off", "is not in the data"))),
        ),
        _compute,
        seeded=True,
        main=("scale", "epsilon"),
    ),
    why="""
<p><strong>Definition</strong> (Dwork, McSherry, Nissim, Smith 2006; with δ: Dwork, Kenthapadi, McSherry, Mironov,
Naor 2006). M is (ε, δ)-differentially private if P(M(D) ∈ S) ≤ e<sup>ε</sup> P(M(D′) ∈ S) + δ for all neighbors D, D′
and all sets S.</p>
<p><strong>The area.</strong> For laws with densities p and q, the smallest δ for an ε is the <em>hockey-stick
divergence</em>, the integral of max(0, p(x) − e<sup>ε</sup> q(x)): the best set S is where p exceeds e<sup>ε</sup> q.
Take the larger of both directions. It is the mean of max(0, 1 −
e<sup>ε − L</sup>) under p for the loss L = ln(p/q), which is smaller than the chance that L exceeds ε (Canonne, Kamath,
Steinke 2020, section 2).</p>
<p><strong>Theorem</strong> (Balle and Wang 2018, Theorem 8). Gaussian noise with standard deviation σ times the
sensitivity has δ(ε) = Φ(1/(2σ) − εσ) − e<sup>ε</sup> Φ(−1/(2σ) − εσ), exactly. The formula √(2 ln(1.25/δ))/ε for σ
that textbooks give holds for ε &lt; 1 only, and is larger than needed (Dwork and Roth 2014, Theorem A.1).</p>
<p>The page's releases lie on a fixed grid: they are these laws, rounded, and rounding is post-processing, which costs
nothing (Dwork and Roth 2014, Proposition 2.1).</p>
""",
    terms=("(ε, δ) definition", "Laplace mechanism", "Gaussian mechanism", "exponential mechanism", "δ"),
)
