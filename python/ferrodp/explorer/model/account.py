"""The account: what a training costs by each accountant, the number that meets a target, and the forecast of a plan."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from ferrodp.accounting import (
    MomentsAccountant,
    PldAccountant,
    PoissonSampledEvent,
    PrivacyAccountant,
    RdpAccountant,
    ZcdpAccountant,
    calibrate_count,
    calibrate_noise_multiplier,
    calibrate_sampling_probability,
)
from ferrodp.accounting.reports import estimate_central_limit_epsilon
from ferrodp.events import GaussianEvent, PrivacyEvent
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
    lower,
    shown,
    upper,
)

NOISE = Control(
    "noise_multiplier",
    "Noise multiplier σ",
    1.1,
    low=0.3,
    high=50.0,
    scale="log",
    low_label="little noise, large ε",
    high_label="much noise, small ε",
)
RATE = Control(
    "sampling_probability",
    "Sampling rate q",
    0.01,
    low=1e-5,
    high=1.0,
    scale="log",
    low_label="rarely sampled",
    high_label="every record in every step",
)
STEPS = Control(
    "num_steps",
    "Steps T",
    10_000,
    low=1,
    high=1_000_000,
    scale="log",
    integer=True,
    low_label="one release",
    high_label="a million releases",
)
DELTA = Control(
    "delta",
    "δ",
    1e-5,
    low=1e-12,
    high=1e-2,
    scale="log",
    low_label="far below 1/N",
    high_label="above 1/N for most data",
)
EPSILON = Control(
    "epsilon",
    "Target ε",
    2.0,
    low=0.01,
    high=20.0,
    scale="log",
    low_label="much noise",
    high_label="little noise",
)
_POINTS = 24
_MANY_SAMPLES = 8.0
"""If a record is expected in fewer samples, single points of a privacy loss distribution may take 100 ms."""
_LEAST_DELTA = 1e-13
"""Where a privacy curve ends: smaller values take long and are below all that is requested."""
_SPAN = 300.0
_CELL = """\
from ferrodp.accounting import *
from ferrodp.explorer.figures import lower, shown, upper
"""


def step_event(noise_multiplier: float, sampling_probability: float) -> PrivacyEvent:
    """Return the event of one step of DP-SGD."""
    noise = GaussianEvent(noise_multiplier=noise_multiplier)
    if sampling_probability == 1.0:
        return noise
    return PoissonSampledEvent(sampling_probability=sampling_probability, event=noise)


def counts_up_to(most: int, points: int = _POINTS) -> list[int]:
    """Return numbers of steps for a curve, evenly on a log scale; few steps of very many say little and cost most."""
    first = max(1.0, most / _SPAN)
    return sorted({max(1, round(first * (most / first) ** (i / (points - 1)))) for i in range(points)})


def _spent(accountant: PrivacyAccountant, event: PrivacyEvent, count: int) -> PrivacyAccountant:
    accountant.compose(event, count=count)
    return accountant


def compare_first(p: Parameters) -> Answer:
    """Compute the bounds that are fast whatever the training: all but those of privacy loss distributions."""
    event, delta, steps = step_event(p["noise_multiplier"], p["sampling_probability"]), p["delta"], p["num_steps"]
    found = {name: upper(_spent(make(), event, steps).epsilon(delta)) for name, make in _makers(p)}
    numbers: dict[str, Value] = {"ε, certified (PLD)": PENDING, "ε, lower bound": PENDING}
    numbers |= {f"ε, {name}": value for name, value in found.items()}
    if "zCDP" not in found:
        numbers["ε, zCDP"] = "not for samples"
    numbers |= {"ε, GDP central limit (estimate)": PENDING, "δ": shown(delta)}
    sentence = f"After {steps} steps at δ = {shown(delta)}, ε is at most {brief(found['RDP'])}, by RDP."
    return Answer(sentence, numbers, (), _compare_cell(p, found))


def _makers(p: Parameters) -> list[tuple[str, type[PrivacyAccountant]]]:
    makers: list[tuple[str, type[PrivacyAccountant]]] = [("RDP", RdpAccountant), ("moments", MomentsAccountant)]
    return [*makers, ("zCDP", ZcdpAccountant)] if p["sampling_probability"] == 1.0 else makers


def compare(p: Parameters) -> Answer:
    """Compute ε over the steps by all accountants."""
    event, delta, steps = step_event(p["noise_multiplier"], p["sampling_probability"]), p["delta"], p["num_steps"]
    counts = counts_up_to(steps)
    makers = _makers(p)
    certified = PldAccountant().epsilon_over_counts(event, counts, delta=delta)
    others = {name: make().epsilon_over_counts(event, counts, delta=delta).upper.tolist() for name, make in makers}
    states = {name: _spent(make(), event, steps).epsilon(delta) for name, make in makers}
    limit = {
        "noise_multiplier": p["noise_multiplier"],
        "sampling_probability": p["sampling_probability"],
        "delta": delta,
    }
    few = counts_up_to(steps, 5)  # nearly a line on these scales
    estimates = [estimate_central_limit_epsilon(count=count, **limit) for count in few]
    last = _spent(PldAccountant(), event, steps).epsilon_bounds(delta)
    numbers: dict[str, Value] = {"ε, certified (PLD)": upper(last.upper), "ε, lower bound": lower(last.lower)}
    numbers |= {f"ε, {name}": upper(value) for name, value in states.items()}
    if "zCDP" not in others:
        numbers["ε, zCDP"] = "not for samples"
    numbers |= {"ε, GDP central limit (estimate)": shown(estimates[-1]), "δ": shown(delta)}
    series = [
        Series(
            "between the bounds (PLD)",
            counts,
            certified.lower.tolist(),
            "band",
            "private",
            y2=certified.upper.tolist(),
        ),
        Series("certified (PLD)", counts, certified.upper.tolist(), "line", "private"),
        Series("RDP", counts, others["RDP"], "line", "a"),
        Series("moments", counts, others["moments"], "line", "b"),
        Series("GDP central limit, an estimate", few, estimates, "line", "neutral"),
    ]
    if "zCDP" in others:
        series.append(Series("zCDP", counts, others["zCDP"], "line", "lower"))
    plot = Plot(f"ε at δ = {shown(delta)} over the steps", "steps", "ε", tuple(series), x_scale="log", y_scale="log")
    gap = states["RDP"] / last.upper - 1.0 if last.upper else 0.0
    sentence = (
        f"After {steps} steps at δ = {shown(delta)}, the certified ε is {brief(upper(last.upper))}; nothing below "
        f"{brief(lower(last.lower))} can be proven. RDP states {shown(round(100 * gap, 1))} % more."
    )
    return Answer(sentence, numbers, (plot,), _compare_cell(p, others))


def _compare_cell(p: Parameters, others: dict[str, Any]) -> str:
    classes = {"RDP": "RdpAccountant", "moments": "MomentsAccountant", "zCDP": "ZcdpAccountant"}
    lines = [
        _CELL + "from ferrodp.accounting.reports import estimate_central_limit_epsilon",
        "",
        f"noise_multiplier, q = {p['noise_multiplier']!r}, {p['sampling_probability']!r}",
        f"steps, delta = {p['num_steps']!r}, {p['delta']!r}",
        "step = GaussianEvent(noise_multiplier=noise_multiplier)",
        *([] if "zCDP" in others else ["step = PoissonSampledEvent(sampling_probability=q, event=step)"]),
        "",
        "def bounds(accountant):",
        "    accountant.compose(step, count=steps)",
        "    return accountant.epsilon_bounds(delta)",
        "",
        "certified = bounds(PldAccountant())",
        'print("ε, certified (PLD):", upper(certified.upper))',
        'print("ε, lower bound:", lower(certified.lower))',
        *(f'print("ε, {name}:", upper(bounds({classes[name]}()).upper))' for name in others),
        *([] if "zCDP" in others else ['print("ε, zCDP: not for samples")']),
        "estimate = estimate_central_limit_epsilon(",
        "    delta=delta, noise_multiplier=noise_multiplier, sampling_probability=q, count=steps",
        ")",
        'print("ε, GDP central limit (estimate):", shown(estimate))',
        'print("δ:", shown(delta))',
    ]
    return "\n".join(lines) + "\n"


UNKNOWN = Control(
    "unknown",
    "Solve for",
    "noise_multiplier",
    choices=(
        ("noise_multiplier", "σ, the noise multiplier"),
        ("sampling_probability", "q, the sampling rate"),
        ("num_steps", "T, the number of steps"),
        ("epsilon", "ε"),
        ("delta", "δ"),
    ),
)


_FIVE = (NOISE, RATE, STEPS, EPSILON, DELTA)


def _if_known(control: Control) -> Control:
    """Return a control that has no effect while it is what is solved for."""
    others = tuple(name for name, _ in UNKNOWN.choices if name != control.name)
    return dataclasses.replace(control, needs=(UNKNOWN.name, others))


def _solve_cell(p: Parameters) -> str:
    """Return a cell that prints what is unknown."""
    noise, rate, steps, epsilon, delta = (
        p[k] for k in ("noise_multiplier", "sampling_probability", "num_steps", "epsilon", "delta")
    )
    target = f"target_epsilon={epsilon!r}, target_delta={delta!r}"
    call, write = {
        "noise_multiplier": (
            f"calibrate_noise_multiplier(sampling_probability={rate!r}, count={steps!r}, {target})",
            "upper",
        ),
        "sampling_probability": (
            f"calibrate_sampling_probability(noise_multiplier={noise!r}, count={steps!r}, {target})",
            "lower",
        ),
        "num_steps": (f"calibrate_count(step({noise!r}, {rate!r}), {target})", "shown"),
        "epsilon": (f"spent({noise!r}, {rate!r}, {steps!r}).epsilon({delta!r})", "upper"),
        "delta": (f"spent({noise!r}, {rate!r}, {steps!r}).delta({epsilon!r})", "upper"),
    }[p["unknown"]]
    return (
        f"{_CELL}\n\ndef step(noise_multiplier, q):\n    event = GaussianEvent(noise_multiplier=noise_multiplier)\n"
        "    return event if q == 1 else PoissonSampledEvent(sampling_probability=q, event=event)\n\n\n"
        "def spent(noise_multiplier, q, steps):\n    accountant = PldAccountant()\n"
        f"    accountant.compose(step(noise_multiplier, q), count=steps)\n    return accountant\n\n\nfound = {call}\n"
        f'print("{dict(UNKNOWN.choices)[p["unknown"]]}:", {write}(found))\n'
    )


def solve_first(p: Parameters) -> Answer:
    """Say what is being solved for."""
    label = dict(UNKNOWN.choices)[p["unknown"]]
    return Answer(f"Solving for {label}.", {label: PENDING}, (), _solve_cell(p))


def solve(p: Parameters) -> Answer:
    """Compute the one of σ, q, T, ε and δ that the other four leave."""
    noise, rate, steps, epsilon, delta = (
        p[k] for k in ("noise_multiplier", "sampling_probability", "num_steps", "epsilon", "delta")
    )
    target = {"target_epsilon": epsilon, "target_delta": delta}
    unknown = p["unknown"]
    if unknown == "noise_multiplier":
        noise = float(calibrate_noise_multiplier(sampling_probability=rate, count=steps, **target))
        found: str = upper(noise)
    elif unknown == "sampling_probability":
        rate = float(calibrate_sampling_probability(noise_multiplier=noise, count=steps, **target))
        found = lower(rate)
    elif unknown == "num_steps":
        steps = int(calibrate_count(step_event(noise, rate), **target))
        found = shown(steps)
    elif unknown == "epsilon":
        epsilon = _spent(PldAccountant(), step_event(noise, rate), steps).epsilon(delta)
        found = upper(epsilon)
    else:
        delta = _spent(PldAccountant(), step_event(noise, rate), steps).delta(epsilon)
        found = upper(delta)
    label = dict(UNKNOWN.choices)[unknown]
    all_five = {
        "noise_multiplier": f"σ = {shown(noise)}",
        "sampling_probability": f"q = {shown(rate)}",
        "num_steps": f"T = {steps}",
        "epsilon": f"ε = {shown(epsilon)}",
        "delta": f"δ = {shown(delta)}",
    }
    known = ", ".join(each for name, each in all_five.items() if name != unknown)
    spent = _spent(PldAccountant(), step_event(noise, rate), steps)
    most = min(10.0 * epsilon, max(epsilon, spent.epsilon(min(_LEAST_DELTA, delta))))
    places = [0.1 * epsilon * (10.0 * most / epsilon) ** (i / 48) for i in range(49)] if epsilon else [0.0]
    curve = spent.delta_curve(places)
    line = Series("δ(ε), certified", places, [max(float(each), 1e-16) for each in curve.upper], "line", "private")
    mark = ((epsilon, f"ε = {shown(epsilon)}"),) if epsilon > 0 else ()
    plot = Plot("The privacy curve of this training", "ε", "δ", (line,), x_scale="log", y_scale="log", marks=mark)
    sentence = f"{label} is {brief(found)}, proven with the PLD accountant, where {known}."
    warnings = ("Not even one step keeps this target.",) if unknown == "num_steps" and not steps else ()
    return Answer(sentence, {label: found}, (plot,), _solve_cell(p), warnings)


POPULATION = Control(
    "population_size",
    "Records N",
    60_000,
    low=100,
    high=10_000_000,
    scale="log",
    integer=True,
    low_label="a small study",
    high_label="a large service",
)
BATCH = Control(
    "batch_size",
    "Expected batch size",
    600,
    low=1,
    high=100_000,
    scale="log",
    integer=True,
    low_label="noisy steps",
    high_label="N: every record in every step",
)
EPOCHS = Control(
    "epochs",
    "Epochs",
    15,
    low=1,
    high=200,
    scale="log",
    integer=True,
    low_label="undertrained",
    high_label="more spent",
)


def steps_of(p: Parameters) -> tuple[float, int]:
    """Return the sampling rate and the number of steps; a batch as large as the data is a full batch."""
    size, batch = p["population_size"], p["batch_size"]
    return (1.0, p["epochs"]) if batch >= size else (batch / size, max(1, round(p["epochs"] * size / batch)))


def forecast(p: Parameters) -> Answer:
    """Compute what a plan will cost, before it runs."""
    known = _plan_answer(p)
    rate, steps = steps_of(p)
    event = step_event(_least_noise(p), rate)
    counts = sorted({max(1, round(steps * (i / 23) ** 2)) for i in range(24)})  # closer where the curve bends most
    found = PldAccountant().epsilon_over_counts(event, counts, delta=p["delta"])
    band = Series("between the bounds", counts, found.lower.tolist(), "band", "private", y2=found.upper.tolist())
    line = Series("certified ε", counts, found.upper.tolist(), "line", "private")
    plot = Plot(f"ε at δ = {shown(p['delta'])} as the plan runs", "steps", "ε", (band, line))
    return dataclasses.replace(known, plots=(plot,))


@functools.lru_cache(256)
def _calibrated(rate: float, steps: int, epsilon: float, delta: float) -> float:
    return float(
        calibrate_noise_multiplier(sampling_probability=rate, count=steps, target_epsilon=epsilon, target_delta=delta)
    )


def _least_noise(p: Parameters) -> float:
    return _calibrated(*steps_of(p), p["epsilon"], p["delta"])


def forecast_first(p: Parameters) -> Answer:
    """Compute the numbers of a plan, without the curve; not even these where the search for the noise takes long."""
    rate, steps = steps_of(p)
    if rate < 1.0 and rate * steps < _MANY_SAMPLES:
        labels = ("Noise multiplier σ", "Steps", "ε of all steps", "Noise in the mean gradient, in clip norms", "δ · N")
        known: dict[str, Value] = {"Steps": steps, "δ · N": upper(p["delta"] * p["population_size"])}
        sentence = f"The least noise for {steps} steps is being computed."
        return Answer(sentence, {label: known.get(label, PENDING) for label in labels}, (), "")
    return _plan_answer(p)


def _plan_answer(p: Parameters) -> Answer:
    """Return everything but the curve."""
    delta, noise, (rate, steps) = p["delta"], _least_noise(p), steps_of(p)
    is_full, size = rate == 1.0, p["population_size"]
    mean = size if is_full else p["batch_size"]
    numbers: dict[str, Value] = {
        "Noise multiplier σ": upper(noise),
        "Steps": steps,
        "ε of all steps": upper(_spent(PldAccountant(), step_event(noise, rate), steps).epsilon(delta)),
        "Noise in the mean gradient, in clip norms": upper(noise / mean),
        "δ · N": upper(delta * size),
    }
    batch = (
        "every record in every step (a full batch, without amplification)"
        if is_full
        else f"about {p['batch_size']} of {size} records a step"
    )
    target = f"(ε, δ) = ({shown(p['epsilon'])}, {shown(delta)})"
    sentence = f"{steps} steps with {batch} keep {target} with σ = {brief(upper(noise))}."
    warnings = (
        ("δ is above 1/N: a mechanism that publishes one random record would meet it.",) if delta * size > 1 else ()
    )
    sampling = "FullBatch()" if is_full else f"PoissonSampling({rate!r})"
    target = f"target_epsilon={p['epsilon']!r}, target_delta={delta!r}"
    cell = (
        "import ferrodp as fd\nfrom ferrodp.accounting import calibrate_noise_multiplier\n"
        "from ferrodp.explorer.figures import upper\n"
        "from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling\n\n"
        f"noise = float(calibrate_noise_multiplier(\n    sampling_probability={rate!r}, count={steps!r}, {target}\n))\n"
        f"plan = fd.PrivacyPlan(\n    population_size={size!r},\n    sampling={sampling},\n    num_steps={steps!r},\n"
        "    clipping=FlatClipping(1.0),\n    noise=ConstantNoise(noise),\n)\n"
        'print("Noise multiplier σ:", upper(noise))\nprint("Steps:", plan.num_steps)\n'
        f'print("ε of all steps:", upper(plan.epsilon({delta!r})))\n'
        f'print("Noise in the mean gradient, in clip norms:", upper(noise / {mean!r}))\n'
        f'print("δ · N:", upper({delta!r} * plan.population_size))\n'
    )
    return Answer(sentence, numbers, (), cell, warnings)


ACCOUNT = (
    Lesson(
        name="compare",
        title="Compare accountants",
        idea="The same training, by every accountant: what differs is the proof, not the privacy.",
        text="""<p>Each accountant bounds the same quantity, the ε of all steps together at the chosen δ. The certified
bound from privacy loss distributions (PLD) has a proven lower bound beside it, so the gap that is left
is visible. The central limit is an estimate that can lie on either side, and is shown to be compared
with papers that used it.</p>""",
        figure=Figure("account", (NOISE, RATE, STEPS, DELTA), compare, first=compare_first),
        why="""<p>Rényi and moments accounting bound one moment of the privacy loss at a time and convert; privacy loss
distributions compose the whole law, up to a discretization whose error is part of the bound (Koskela,
Jälkö, Honkela, AISTATS 2020; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, PETS 2022).</p>""",
        terms=(),
    ),
    Lesson(
        name="solve",
        title="Solve for one number",
        idea="Of σ, q, T, ε and δ, any four fix the fifth.",
        text="""<p>Choose what is unknown and set the other four. The answer is on the safe side: its own certified
bound was checked against the target.</p>""",
        figure=Figure("solve", (UNKNOWN, *map(_if_known, _FIVE)), solve, first=solve_first),
        why="""<p>δ(ε) of a sampled Gaussian falls with the noise and grows with q and T, because more noise and fewer
releases are post-processing; so the edge of the target is a single root, and bisection with certified
bounds finds the side that is proven.</p>""",
        terms=(),
    ),
    Lesson(
        name="plan",
        title="Plan a training",
        idea="From N, batch, epochs and a target to the noise, before any data is touched.",
        text="""<p>A plan fixes sampling, clipping and noise together, and what is accounted is what will be drawn. A
batch as large as the data is accounted as a full batch: nothing is sampled, so nothing is
amplified.</p>""",
        figure=Figure("plan", (POPULATION, BATCH, EPOCHS, EPSILON, DELTA), forecast, first=forecast_first),
        why="""<p>Poisson sampling with rate q = batch/N makes each step about q times as costly for small ε (Balle,
Barthe, Gaboardi, NeurIPS 2018); the noise in the mean gradient is σ·C/batch, so larger batches need
more σ but leave less noise in each step.</p>""",
        terms=(),
    ),
)
