"""The account: what a training costs by each accountant, the number that meets a target, and the forecast of a plan."""

from __future__ import annotations

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
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Series,
    Value,
    lower,
    shown,
    upper,
)
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

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
    low_label="hard to reach",
    high_label="little protection",
)
_POINTS = 24
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


def compare(p: Parameters) -> Answer:
    """Compute ε over the steps by all accountants."""
    event, delta, steps = step_event(p["noise_multiplier"], p["sampling_probability"]), p["delta"], p["num_steps"]
    counts = counts_up_to(steps)
    makers: list[tuple[str, type[PrivacyAccountant]]] = [("RDP", RdpAccountant), ("moments", MomentsAccountant)]
    if p["sampling_probability"] == 1.0:
        makers.append(("zCDP", ZcdpAccountant))
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
        f"After {steps} steps at δ = {shown(delta)}, the certified ε is {upper(last.upper, 4)}; nothing below "
        f"{lower(last.lower, 4)} can be proven. RDP states {shown(round(100 * gap, 1))} % more."
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


def solve(p: Parameters) -> Answer:
    """Compute the one of σ, q, T, ε and δ that the other four leave."""
    noise, rate, steps, epsilon, delta = (
        p[k] for k in ("noise_multiplier", "sampling_probability", "num_steps", "epsilon", "delta")
    )
    target = {"target_epsilon": epsilon, "target_delta": delta}
    unknown = p["unknown"]
    if unknown == "noise_multiplier":
        noise = float(calibrate_noise_multiplier(sampling_probability=rate, count=steps, **target))
        found, call = (
            upper(noise),
            f"calibrate_noise_multiplier(sampling_probability={rate!r}, count={steps!r}, {_target(p)})",
        )
    elif unknown == "sampling_probability":
        rate = float(calibrate_sampling_probability(noise_multiplier=noise, count=steps, **target))
        found, call = (
            lower(rate),
            f"calibrate_sampling_probability(noise_multiplier={noise!r}, count={steps!r}, {_target(p)})",
        )
    elif unknown == "num_steps":
        steps = int(calibrate_count(step_event(noise, rate), **target))
        found, call = shown(steps), f"calibrate_count(step({noise!r}, {rate!r}), {_target(p)})"
    elif unknown == "epsilon":
        epsilon = _spent(PldAccountant(), step_event(noise, rate), steps).epsilon(delta)
        found, call = upper(epsilon), f"spent({noise!r}, {rate!r}, {steps!r}).epsilon({delta!r})"
    else:
        delta = _spent(PldAccountant(), step_event(noise, rate), steps).delta(epsilon)
        found, call = upper(delta), f"spent({noise!r}, {rate!r}, {steps!r}).delta({epsilon!r})"
    label = dict(UNKNOWN.choices)[unknown]
    write = {"sampling_probability": "lower", "num_steps": "shown"}.get(unknown, "upper")
    cell = (
        f"{_CELL}\n\ndef step(noise_multiplier, q):\n    event = GaussianEvent(noise_multiplier=noise_multiplier)\n"
        "    return event if q == 1 else PoissonSampledEvent(sampling_probability=q, event=event)\n\n\n"
        "def spent(noise_multiplier, q, steps):\n    accountant = PldAccountant()\n"
        f"    accountant.compose(step(noise_multiplier, q), count=steps)\n    return accountant\n\n\nfound = {call}\n"
        f'print("{label}:", {write}(found))\n'
    )
    known = f"σ = {shown(noise)}, q = {shown(rate)}, T = {steps}, ε = {shown(epsilon)}, δ = {shown(delta)}"
    places = [epsilon * 10 ** (i / 12 - 1) for i in range(25)]
    curve = _spent(PldAccountant(), step_event(noise, rate), steps).delta_curve(places)
    line = Series("δ(ε), certified", places, [max(float(each), 1e-16) for each in curve.upper], "line", "private")
    mark = ((epsilon, f"ε = {shown(epsilon)}"),) if epsilon > 0 else ()
    plot = Plot("The privacy curve of this training", "ε", "δ", (line,), x_scale="log", y_scale="log", marks=mark)
    sentence = f"{label} is {found}: {known} hold together, proven with the PLD accountant."
    warnings = ("Not even one step keeps this target.",) if unknown == "num_steps" and not steps else ()
    return Answer(sentence, {label: found}, (plot,), cell, warnings)


def _target(p: Parameters) -> str:
    return f"target_epsilon={p['epsilon']!r}, target_delta={p['delta']!r}"


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


def plan_of(p: Parameters) -> PrivacyPlan:
    """Return the plan of the forecast, whose noise is the least that keeps the target."""
    size, batch = p["population_size"], p["batch_size"]
    is_full = batch >= size
    return PrivacyPlan(
        population_size=size,
        sampling=FullBatch() if is_full else PoissonSampling(batch / size),
        num_steps=p["epochs"] if is_full else max(1, round(p["epochs"] * size / batch)),
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    ).calibrated(epsilon=p["epsilon"], delta=p["delta"])


def forecast(p: Parameters) -> Answer:
    """Compute what a plan will cost, before it runs."""
    plan, delta = plan_of(p), p["delta"]
    found = plan.forecast(delta, num_points=24)
    noise = plan.noise_multipliers[0]
    numbers: dict[str, Value] = {
        "Noise multiplier σ": upper(noise),
        "Steps": plan.num_steps,
        "ε of all steps": upper(found.epsilon[-1]),
        "Noise in the mean gradient, in clip norms": upper(noise / (plan.expected_batch_size or 1.0)),
        "δ · N": upper(delta * p["population_size"]),
    }
    band = Series("between the bounds", found.steps, found.epsilon_lower, "band", "private", y2=found.epsilon)
    plot = Plot(
        f"ε at δ = {shown(delta)} as the plan runs",
        "steps",
        "ε",
        (band, Series("certified ε", found.steps, found.epsilon, "line", "private")),
    )
    full = plan.sampling == FullBatch()
    batch = (
        "every record in every step (a full batch, without amplification)"
        if full
        else f"about {p['batch_size']} of {p['population_size']} records a step"
    )
    target = f"(ε, δ) = ({shown(p['epsilon'])}, {shown(delta)})"
    sentence = f"{plan.num_steps} steps with {batch} keep {target} with σ = {upper(noise, 4)}."
    warnings = (
        ("δ is above 1/N: a mechanism that publishes one random record would meet it.",)
        if delta * p["population_size"] > 1
        else ()
    )
    cell = (
        "import ferrodp as fd\nfrom ferrodp.explorer.figures import upper\n"
        "from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling\n\n"
        f"plan = fd.PrivacyPlan(\n    population_size={p['population_size']!r},\n"
        f"    sampling={plan.sampling!r},\n    num_steps={plan.num_steps!r},\n    clipping=FlatClipping(1.0),\n"
        f"    noise=ConstantNoise(1.0),\n).calibrated(epsilon={p['epsilon']!r}, delta={delta!r})\n"
        "noise = plan.noise_multipliers[0]\n"
        'print("Noise multiplier σ:", upper(noise))\nprint("Steps:", plan.num_steps)\n'
        f'print("ε of all steps:", upper(plan.epsilon({delta!r})))\n'
        'print("Noise in the mean gradient, in clip norms:", upper(noise / plan.expected_batch_size))\n'
        f'print("δ · N:", upper({delta!r} * plan.population_size))\n'
    )
    return Answer(sentence, numbers, (plot,), cell, warnings)


ACCOUNT = (
    Lesson(
        name="compare",
        title="Compare accountants",
        idea="The same training, by every accountant: what differs is the proof, not the privacy.",
        text="""<p>Each accountant bounds the same quantity, the ε of all steps together at the chosen δ. The certified
bound from privacy loss distributions (PLD) has a proven lower bound beside it, so the gap that is left
is visible. The central limit is an estimate that can lie on either side, and is shown to be compared
with papers that used it.</p>""",
        figure=Figure("account", (NOISE, RATE, STEPS, DELTA), compare),
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
        figure=Figure("solve", (UNKNOWN, NOISE, RATE, STEPS, EPSILON, DELTA), solve),
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
        figure=Figure("plan", (POPULATION, BATCH, EPOCHS, EPSILON, DELTA), forecast),
        why="""<p>Poisson sampling with rate q = batch/N makes each step about q times as costly for small ε (Balle,
Barthe, Gaboardi, NeurIPS 2018); the noise in the mean gradient is σ·C/batch, so larger batches need
more σ but leave less noise in each step.</p>""",
        terms=(),
    ),
)
