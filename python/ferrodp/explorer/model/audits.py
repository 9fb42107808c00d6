"""Audits: what a test notices of a step without clipping or noise, and how small a violation it can detect."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp.accounting import gaussian_epsilon
from ferrodp.audit import AuditReport, audit_callable, smallest_violation
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
    lower,
    shown,
    upper,
)

DEFECTS = (
    ("none", "nothing, as it should be"),
    ("clip", "the clip"),
    ("noise", "the noise"),
    ("half", "half of the noise"),
)
_FAR, _DELTA = 4.0, 1e-5
_FOUND = (
    "ε is at least (95 % confidence)",
    "ε is at least (99.9 % confidence)",
    "The claim is",
    "Smallest ε that would be seen",
    "Event that shows most",
    "Hits",
)
_DIGITS = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def outputs(defect: str, noise_multiplier: float, is_in: bool, number: int, source: Any) -> np.ndarray:
    """Release the sum of clipped gradients so often, with or without a record of four times the clip norm."""
    rows = np.array([[0.5], [-0.25], [0.125], *([[_FAR]] if is_in else [])])
    clipped = rows if defect == "clip" else fd.clip_rows(rows, clip_norm=1.0)[0]
    total = np.full(number, float(clipped.sum()))
    share = {"noise": 0.0, "half": 0.5}.get(defect, 1.0)
    if not share:
        return total
    mechanism = fd.GaussianMechanism(noise_multiplier=share * noise_multiplier, l2_sensitivity=1.0)
    return np.asarray(mechanism.release(total, source=source))


def report_of(defect: str, noise_multiplier: float, draws: int, seed: int) -> AuditReport:
    """Test the claim of a step with all its parts against what is released."""
    source = fd.testing.seeded(f"{seed}".encode().ljust(32))
    return audit_callable(
        lambda is_in: outputs(defect, noise_multiplier, is_in, 1, source)[0],
        neighbors=(False, True),
        epsilon=gaussian_epsilon(noise_multiplier=noise_multiplier, delta=_DELTA),
        delta=_DELTA,
        draws=draws,
        release_many=lambda is_in, number: outputs(defect, noise_multiplier, is_in, number, source),
    )


def audit(*, defect: str, noise_multiplier: float, draws: int, seed: int) -> dict[str, Value]:
    """Audit a step of DP-SGD with a part taken away."""
    report = report_of(defect, noise_multiplier, draws, seed)
    return {
        "ε that is claimed, at δ = 10⁻⁵": upper(report.epsilon),
        "ε is at least (95 % confidence)": lower(report.epsilon_lower_bound),
        "ε is at least (99.9 % confidence)": lower(report.epsilon_lower_bound_999),
        "The claim is": "contradicted" if report.violation else "not contradicted",
        "Smallest ε that would be seen": upper(report.power),
        "Event that shows most": _DIGITS.sub(lambda found: shown(float(found[0])), report.region),
        "Hits": f"{report.hits[0]} and {report.hits[1]} of {report.counted}",
    }


def first_audit(parameters: Parameters) -> Answer:
    """Return the claim, before it is tested."""
    claimed = upper(gaussian_epsilon(noise_multiplier=parameters["noise_multiplier"], delta=_DELTA))
    numbers: dict[str, Value] = {"ε that is claimed, at δ = 10⁻⁵": claimed}
    numbers |= dict.fromkeys(_FOUND, PENDING)
    sentence = f"ε = {brief(claimed)} is claimed: {parameters['draws']} releases in each world are being tested."
    return Answer(sentence, numbers, (), cell_of(audit, parameters))


def compute_audit(parameters: Parameters) -> Answer:
    """Audit, and draw the outputs of both worlds."""
    numbers = audit(**parameters)
    source = fd.testing.seeded(b"drawn".ljust(32))
    noise = parameters["noise_multiplier"]
    drawn = [outputs(parameters["defect"], noise, is_in, 20_000, source) for is_in in (False, True)]
    low, high = min(map(np.min, drawn)), max(map(np.max, drawn))
    spare = 0.05 * (high - low) + 0.05
    edges = np.linspace(low - spare, high + spare, 61)
    middle = ((edges[1:] + edges[:-1]) / 2).tolist()
    kinds = (("without the record", "b"), ("with the record", "a"))
    series = tuple(
        Series(name, middle, np.histogram(values, edges)[0].tolist(), "area", role)  # type: ignore[arg-type]
        for values, (name, role) in zip(drawn, kinds, strict=True)
    )
    plot = Plot("20 000 releases in each world", "released sum, in clip norms", "releases", series)
    verdict = str(numbers["The claim is"])
    taken = dict(DEFECTS)[parameters["defect"]]
    least, claimed = (
        numbers["ε is at least (99.9 % confidence)"],
        numbers["ε that is claimed, at δ = 10⁻⁵"],
    )
    sentence = (
        f"Taken away: {taken}. ε is at least {brief(least)} with confidence 99.9 %, where "
        f"{brief(claimed)} is claimed: {verdict}."
    )
    return Answer(sentence, numbers, (plot,), cell_of(audit, parameters))


def power(*, epsilon: float, delta: float, draws: int) -> dict[str, Value]:
    """Say what a test can see before it is run."""
    return {
        "Smallest ε that is seen with power 90 %": upper(smallest_violation(draws=draws, epsilon=epsilon, delta=delta)),
        "ε that is claimed": shown(epsilon),
        "δ": shown(delta),
        "Draws in each world": draws,
    }


def first_power(parameters: Parameters) -> Answer:
    """Return the answer for these draws, without the curve."""
    return dataclasses.replace(compute_power(parameters, points=0), plots=())


@functools.lru_cache(1024)
def _seen(draws: int, epsilon: float, delta: float) -> float:
    return smallest_violation(draws=draws, epsilon=epsilon, delta=delta)


def compute_power(parameters: Parameters, points: int = 25) -> Answer:
    """Draw what tests of so many sizes can see."""
    numbers = power(**parameters)
    epsilon, delta = parameters["epsilon"], parameters["delta"]
    places = [round(10 ** (2 + i / 4)) for i in range(points)]
    seen = [_seen(each, epsilon, delta) for each in places]
    series = (
        Series("smallest ε that is seen", places, seen, "line", "a"),
        Series("ε that is claimed", [100, 10**8], [epsilon] * 2, "line", "private"),
    )
    mark = ((float(parameters["draws"]), f"{parameters['draws']} draws"),)
    plot = Plot(
        "What a test of so many draws can see", "draws counted in each world", "ε", series, x_scale="log", marks=mark
    )
    least = next(iter(numbers.values()))
    sentence = (
        f"With {parameters['draws']} draws counted in each world, a mechanism that claims ε = {brief(epsilon)} has to "
        f"have a true ε of at least {brief(least)} to be found out with chance 90 %, if it fails in the most visible "
        "way."
    )
    if math.isinf(_seen(parameters["draws"], epsilon, delta)):
        sentence = f"{parameters['draws']} draws cannot contradict ε = {brief(epsilon)}, whatever the mechanism does."
    return Answer(sentence, numbers, (plot,), cell_of(power, parameters))


DRAWS = Control(
    "draws",
    "Draws in each world",
    20_000,
    1000,
    200_000,
    "log",
    integer=True,
    low_label="sees little",
    high_label="sees more",
)
AUDITS = (
    Lesson(
        name="break",
        title="Take a part away",
        idea="A test can show that a claim is false, and does, as soon as a part of the step is missing.",
        text="""<p>The step adds up clipped gradients and noises the sum once. In one world a record whose gradient is
four clip norms long takes part. Take the clip or the noise away, or half of the noise, and the test of
the claim says what it sees. What it does not see, with nothing taken away, is no proof: it is what so
many draws can show.</p>""",
        figure=Figure(
            "break",
            (
                Control("defect", "Taken away", "none", choices=DEFECTS),
                Control(
                    "noise_multiplier",
                    "Noise multiplier σ",
                    1.0,
                    0.4,
                    5.0,
                    "log",
                    low_label="large ε",
                    high_label="small ε",
                ),
                DRAWS,
            ),
            compute_audit,
            seeded=True,
            first=first_audit,
        ),
        why="""<p>If a step is (ε, δ)-differentially private, every event has P ≤ e<sup>ε</sup>P′ + δ. An event is
chosen on a part of the draws and counted on the others; with the bounds p and p′ of Clopper and Pearson
for its rates, ε ≥ ln((p − δ)/p′) holds with the confidence stated (Jagielski, Ullman, Oprea, NeurIPS
2020; Ding, Wang, Wang, Zhang, Kifer, CCS 2018).</p>""",
        terms=(),
    ),
    Lesson(
        name="power",
        title="What a test can see",
        idea="Ask before you draw: how false has a claim to be before so many draws show it?",
        text="""<p>A test that finds nothing says little if it could not have found anything. The curve is that of the
most favorable defect; for a given one it takes more draws. Besides the draws that are counted, a test
makes a third as many to choose the event.</p>""",
        figure=Figure(
            "power",
            (
                Control("epsilon", "ε that is claimed", 1.0, 0.05, 10.0, "log"),
                Control("delta", "δ", 1e-5, 1e-9, 1e-2, "log", low_label="rare failures", high_label="frequent"),
                Control(
                    "draws",
                    "Draws counted in each world",
                    100_000,
                    100,
                    100_000_000,
                    "log",
                    integer=True,
                    low_label="seconds",
                    high_label="hours",
                ),
            ),
            compute_power,
            first=first_power,
        ),
        why="""<p>A violation is seen where no two rates that fit the counts keep the claim: one is above e<sup>ε</sup>
times the other, plus δ. With n draws an event that never happened has a rate of at most ln(1/α)/n, so no test
of n draws can show an ε above about ln(n/ln(1/α)).</p>""",
        terms=(),
    ),
)
