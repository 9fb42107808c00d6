"""Lesson 6: one training, accounted by six theorems, from one step to a thousand million."""

from __future__ import annotations

import dataclasses
import functools

from ferrodp.accounting import (
    GaussianEvent,
    Guarantee,
    MomentsAccountant,
    PldAccountant,
    PoissonSampledEvent,
    PrivacyAccountant,
    PrivacyEvent,
    RdpAccountant,
    compose_advanced,
    compose_basic,
)
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
    lower,
    upper,
)

_POINTS = tuple(round(10 ** (0.75 * i)) for i in range(13))


def _step(noise_multiplier: float, probability: float) -> PrivacyEvent:
    """Return one step of DP-SGD: Gaussian noise about a Poisson sample."""
    noise = GaussianEvent(noise_multiplier=noise_multiplier)
    return noise if probability == 1 else PoissonSampledEvent(sampling_probability=probability, event=noise)


def _composed(accountant: PrivacyAccountant, event: PrivacyEvent, steps: int) -> PrivacyAccountant:
    accountant.compose(event, steps)
    return accountant


def _from_single_steps(event: PrivacyEvent, steps: int, delta: float) -> tuple[float, float]:
    """Return ε by the basic and the advanced theorem, from one step's ε at its part of half of δ."""
    part = delta / (2 * steps)
    single = Guarantee(_composed(PldAccountant(), event, 1).epsilon(part), part)
    basic = compose_basic([single], count=steps)
    return basic.epsilon, compose_advanced([single], count=steps, extra_delta=delta / 2).epsilon


def composition(noise_multiplier: float, probability: float, steps: int, delta: float) -> dict[str, Value]:
    """Bound the ε of so many steps of DP-SGD by each theorem."""
    event = _step(noise_multiplier, probability)
    basic, advanced = _from_single_steps(event, steps, delta)
    certified = _composed(PldAccountant(), event, steps).epsilon_bounds(delta)
    return {
        "ε, privacy loss distribution": upper(certified.upper),
        "ε is at least": lower(certified.lower),
        "ε, Rényi (RDP)": upper(_composed(RdpAccountant(), event, steps).epsilon(delta)),
        "ε, moments accountant": upper(_composed(MomentsAccountant(), event, steps).epsilon(delta)),
        "ε, advanced composition": upper(advanced),
        "ε, basic composition": upper(basic),
    }


@functools.lru_cache(64)
def _curves(noise_multiplier: float, probability: float, delta: float) -> tuple[Series, ...]:
    """Return ε over the number of steps by each theorem; the same for every position of the step slider."""
    event = _step(noise_multiplier, probability)
    pairs = [_from_single_steps(event, steps, delta) for steps in _POINTS]
    bounds = [_composed(PldAccountant(), event, steps).epsilon_bounds(delta) for steps in _POINTS]
    return (
        Series("basic", x=_POINTS, y=[basic for basic, _ in pairs], role="neutral"),
        Series("advanced", x=_POINTS, y=[advanced for _, advanced in pairs], role="b"),
        Series(
            "moments",
            x=_POINTS,
            y=[_composed(MomentsAccountant(), event, n).epsilon(delta) for n in _POINTS],
            role="non-private",
        ),
        Series("Rényi", x=_POINTS, y=[_composed(RdpAccountant(), event, n).epsilon(delta) for n in _POINTS], role="a"),
        Series("privacy loss distribution", x=_POINTS, y=[max(each.upper, 1e-6) for each in bounds], role="private"),
    )


_MANY_SAMPLES = 8.0
"""If a record is expected in fewer samples, single points of the privacy loss distribution may take 100 ms."""


def _first(parameters: Parameters) -> Answer:
    """Return all numbers where they are fast, or those of Rényi accounting, which always are."""
    steps, probability, delta = parameters["steps"], parameters["probability"], parameters["delta"]
    if steps == 1 or probability == 1 or steps * probability >= _MANY_SAMPLES:
        return _answer(parameters)
    event = _step(parameters["noise_multiplier"], probability)
    moments, renyi = (_composed(each(), event, steps).epsilon(delta) for each in (MomentsAccountant, RdpAccountant))
    numbers = {
        "ε, privacy loss distribution": PENDING,
        "ε is at least": PENDING,
        "ε, Rényi (RDP)": upper(renyi),
        "ε, moments accountant": upper(moments),
        "ε, advanced composition": PENDING,
        "ε, basic composition": PENDING,
    }
    sentence = (
        f"After {steps} steps, ε is at most {brief(numbers['ε, Rényi (RDP)'])} at δ = {delta:.3g}, by Rényi accounting."
    )
    return Answer(sentence, numbers, (), cell_of(composition, parameters))


def _compute(parameters: Parameters) -> Answer:
    plot = Plot(
        "ε of a training over its steps",
        "Steps",
        f"ε at δ = {parameters['delta']:.3g}",
        _curves(parameters["noise_multiplier"], parameters["probability"], parameters["delta"]),
        x_scale="log",
        y_scale="log",
        marks=((parameters["steps"], "your steps"),),
        drag="steps",
    )
    answer = _answer(parameters)
    better = [(name, float(answer.numbers[f"ε, {name}"])) for name in _THEOREMS]
    dots = Plot(
        f"The same after {parameters['steps']} steps, without the two oldest theorems",
        "Theorem",
        f"ε at δ = {parameters['delta']:.3g}",
        (
            Series(
                "upper bound",
                x=range(1, 1 + len(better)),
                y=[each for _, each in better],
                kind="points",
                role="private",
            ),
            Series(
                "no accountant can say less",
                x=[0.7, len(better) + 0.3],
                y=[float(answer.numbers["ε is at least"])] * 2,
                role="lower",
            ),
        ),
        x_names=tuple((place, name) for place, name in enumerate(_THEOREMS, 1)),
    )
    return dataclasses.replace(answer, plots=(plot, dots))


_THEOREMS = ("moments accountant", "Rényi (RDP)", "privacy loss distribution")
"""Those whose difference can be seen."""


def _answer(parameters: Parameters) -> Answer:
    """Return everything but the plot."""
    numbers = composition(**parameters)
    sentence = (
        f"After {parameters['steps']} steps the same releases cost ε = {brief(numbers['ε, basic composition'])} by "
        "basic "
        f"composition, {brief(numbers['ε, Rényi (RDP)'])} by Rényi accounting and "
        f"{brief(numbers['ε, privacy loss distribution'])} by the privacy loss distribution; it is proven that no "
        f"accountant can report less than {brief(numbers['ε is at least'])}. All are at δ = {parameters['delta']:.3g}."
    )
    return Answer(sentence, numbers, (), cell_of(composition, parameters))


LESSON = Lesson(
    name="composition",
    title="Composition",
    idea="Ten thousand steps: what do they cost together?",
    person="A patient's scan was in about every hundredth batch of a model that now runs in forty hospitals. "
    "Her insurer can buy it.",
    question=Prediction(
        "One step costs ε = 0.05. What do 10 000 such steps cost?",
        ("500: they add up", "Far less than 500"),
        1,
        "Losses of single steps have both signs and mostly cancel. The theorems know this better and better; none of "
        "them "
        "changes what was released.",
    ),
    tries=(Try("A million steps", {"steps": "1000000"}), Try("Less sampling", {"probability": "0.001"})),
    text="""
<p>A training releases thousands of noised gradients. What do they cost together? All curves are about the
<em>same</em> releases, and all are true. A better theorem makes no privacy: it proves more of what is there.</p>
<ul>
<li><em>Basic composition</em>: ε and δ add up. Always true, and hopeless for long trainings.</li>
<li><em>Advanced composition</em>: losses of single steps have both signs, and mostly cancel: ε grows like the square
root of the number of steps, while it is small.</li>
<li><em>Moments accountant</em> (Abadi et al. 2016): follows the moments of the loss of the sampled Gaussian. It made
DP-SGD usable.</li>
<li><em>Rényi differential privacy</em>: the same idea as a definition of its own; the bounds at each order add up, and
only the last conversion to (ε, δ) loses something.</li>
<li><em>Privacy loss distribution</em>: the loss of a step is a random variable; of many steps it is the sum. Its law
gives δ(ε) exactly, up to numerical error, and this page shows that error: a band, with the lower bound as proven as
the upper one.</li>
</ul>
<p>Move the steps from 1 to 10<sup>9</sup>: the answer takes about as long for all of them. δ stays in view because an ε
without it says nothing.</p>
<p>To choose settings by trying many of them is composition, too: the trials are releases if the best is published. A
search that draws the number of trials at random costs about two or three times the ε of one training, however many
settings there are to choose from (Papernot and Steinke 2022).</p>
""",
    figure=Figure(
        "composition",
        (
            Control(
                "noise_multiplier",
                "Noise multiplier σ",
                1.0,
                0.4,
                50.0,
                "log",
                low_label="little noise",
                high_label="much noise",
            ),
            Control(
                "probability",
                "Sampling probability q",
                0.01,
                1e-5,
                1.0,
                "log",
                low_label="few records a step",
                high_label="all records",
            ),
            Control("steps", "Steps", 10_000, 1, 10**9, "log", integer=True),
            Control("delta", "δ", 1e-5, 1e-12, 1e-2, "log"),
        ),
        _compute,
        main=("steps", "noise_multiplier"),
        first=_first,
    ),
    why="""
<p><strong>Basic</strong> (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006): (ε₁, δ₁) and (ε₂, δ₂) together are (ε₁ +
ε₂, δ₁ + δ₂). Here each step is taken at its certified ε for δ/2T.</p>
<p><strong>Advanced</strong> (Dwork, Rothblum, Vadhan 2010; here in the closed form of Kairouz, Oh, Viswanath 2015,
Theorem 3.5): T steps of (ε₀, δ₀) cost about ε₀√(2T ln(1/δ′)) + T ε₀²/2 at Tδ₀ + δ′.</p>
<p><strong>Rényi</strong> (Mironov 2017, Proposition 1): divergences of order α add up under adaptive composition. To
(ε, δ): Canonne, Kamath, Steinke 2020, Proposition 12. The sampled Gaussian: Mironov, Talwar, Zhang 2019.</p>
<p><strong>Privacy loss distribution</strong> (Sommer, Meiser, Mohammadi 2019). For a dominating pair P, Q (Zhu, Dong,
Wang 2022, Theorem 10) with loss L = ln dP/dQ and independent copies L₁ … L_T, δ(ε) is the expectation of max(0, 1 −
e<sup>ε − ΣL</sup>) under P. Poisson sampling has a dominating pair for each direction; both are computed and the
larger δ counts.</p>
""",
    terms=(
        "composition",
        "basic composition",
        "advanced composition",
        "moments accountant",
        "RDP",
        "privacy loss distribution",
        "tuning cost",
    ),
)
