"""Lesson 5: a budget, the refusal at its end, an odometer, and a ledger that survives the end of its process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import ferrodp as fd
from ferrodp.accounting import GaussianEvent, GdpAccountant, Odometer, privacy_filter
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    Action,
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

_DELTA = 1e-6
_MOST_RELEASES = 20
_SECONDS = 20.0


def spending(budget: float, noise_multiplier: float, queries: int) -> dict[str, Value]:
    """Ask queries until a privacy filter refuses; read an odometer after those that were answered."""
    event = GaussianEvent(noise_multiplier=noise_multiplier)
    spent = privacy_filter("gdp", epsilon=budget, delta=_DELTA)
    allowed = spent.remaining_count(event)
    answered = min(queries, allowed)
    spent.charge(event, answered)
    odometer = Odometer(delta=_DELTA)
    odometer.charge(event, answered)
    planned = GdpAccountant()
    planned.compose(event, answered)
    return {
        f"Queries that ε = {budget:g} at δ = 10⁻⁶ pays for": allowed,
        "Answered": answered,
        "Refused": queries - answered,
        "Part of the budget that is used": spent.spent / spent.budget,
        "ε of these queries, if their number was fixed in advance": upper(planned.epsilon(_DELTA)),
        "Reading of the odometer, true at every moment": upper(odometer.epsilon),
    }


def crash(budget: float, noise_multiplier: float, queries: int) -> dict[str, Value]:
    """Start a process that spends from a ledger, end it by SIGKILL between payment and noise, and read the ledger."""
    event = GaussianEvent(noise_multiplier=noise_multiplier)
    wanted = min(
        queries, _MOST_RELEASES, privacy_filter("gdp", epsilon=budget, delta=_DELTA).remaining_count(event) - 1
    )
    if wanted < 1:
        raise fd.errors.BudgetExceeded("the budget has no room for two queries: take a larger one, or more noise")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "budget.db")
        with fd.PrivacyLedger.open(path, allow_unsafe_file_system=True) as ledger:
            ledger.create("lesson", epsilon=budget, delta=_DELTA, measure="gdp")
        child = [sys.executable, "-m", "ferrodp.explorer.lessons.costs.crash_child", path]
        arguments = [repr(noise_multiplier), str(wanted)]
        with subprocess.Popen(
            [*child, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said = [process.stdout.readline().strip() for _ in range(wanted + 1)]
            process.kill()  # SIGKILL: nothing in the process can react to it
            ended = process.wait(_SECONDS)
        with fd.PrivacyLedger.open(path, create=False, verify="all", allow_unsafe_file_system=True) as ledger:
            report = ledger.report("lesson")
            left = ledger.remaining_count("lesson", event)
    return {
        "Answers that were seen before the end": said.count("released"),
        "How the process ended": f"signal {-ended}" if ended < 0 else f"exit {ended}",
        "Charged in the ledger, after the end": report.spent + report.held,
        "Of these, paid for and not drawn": report.held,
        "ε charged": upper(report.epsilon_charged),
        "Queries that are left": left,
    }


def _compute(parameters: Parameters) -> Answer:
    numbers = spending(**parameters)
    event = GaussianEvent(noise_multiplier=parameters["noise_multiplier"])
    allowed = next(iter(numbers.values()))
    assert isinstance(allowed, int)
    x = sorted({int(n) for n in np.linspace(1, max(parameters["queries"], min(2 * allowed, 400), 2), 41)})
    fixed, read = [], []
    odometer, done = Odometer(delta=_DELTA), 0
    for count in x:
        planned = GdpAccountant()
        planned.compose(event, count)
        fixed.append(planned.epsilon(_DELTA))
        odometer.charge(event, count - done)
        done = count
        read.append(odometer.epsilon)
    plot = Plot(
        "What queries cost",
        "Queries asked",
        "ε at δ = 10⁻⁶",
        (
            Series("odometer", x=x, y=read, role="b"),
            Series("number fixed in advance", x=x, y=fixed, role="private"),
            Series("budget", x=[x[0], x[-1]], y=[parameters["budget"]] * 2, role="bound"),
        ),
        marks=((float(allowed), "the last one that the budget pays for"),) if 1 <= allowed <= x[-1] else (),
        drag="queries",
    )
    sentence = (
        f"The budget ε = {brief(parameters['budget'])} pays for {allowed} queries: of {parameters['queries']}, "
        f"{numbers['Answered']} are answered and "
        f"{numbers['Refused']} refused. A refusal depends on noise and budget alone, never on the data."
    )
    return Answer(sentence, numbers, (plot,), cell_of(spending, parameters))


def _crash(parameters: Parameters) -> Answer:
    numbers = crash(**parameters)
    seen, charged = numbers["Answers that were seen before the end"], numbers["Charged in the ledger, after the end"]
    sentence = (
        f"The process was ended by {numbers['How the process ended']}. {seen} answers had been seen and {charged} are "
        f"charged: the last one "
        "was paid for, and the process ended before its noise was drawn. Nothing that was seen is missing in the "
        "ledger."
    )
    return Answer(sentence, numbers, (), cell_of(crash, parameters))


LESSON = Lesson(
    name="spending",
    title="Spending",
    idea="How many answers can be given before somebody is found?",
    person="A pupil with a bad report is one of thirty in a class. A parent asks the school for one average "
    "after another.",
    question=Prediction(
        "Each average is noisy enough to hide the pupil. Are thirty averages?",
        ("Yes, each one is", "Not unless they are counted together"),
        1,
        "What answers give away adds up. A budget is fixed first, and the query that would exceed it is refused: "
        "here by a "
        "ledger that is still right after its process was killed.",
    ),
    tries=(Try("Twice the noise", {"noise_multiplier": "30"}), Try("400 queries", {"queries": "400"})),
    text="""
<p>Privacy loss adds up over queries. A <em>privacy filter</em> holds a budget (ε, δ), fixed in advance, and refuses
the first query that would exceed it. Queries and their noise may be chosen after seeing earlier answers: the
guarantee holds all the same. A refusal is not an answer: it depends on costs alone.</p>
<p>Without a budget there is the <em>odometer</em>: a reading of the loss so far that holds at all moments at once,
except with probability δ.
It is larger, as it must also hold for somebody who stops at the moment that looks best. To look at a meter, and then
to claim the number that it would have been for a plan, is a mistake: compare the two curves.</p>
<h3>And if the machine fails?</h3>
<p>A counter in memory forgets. If the process ends after the answer was sent and before the counter was saved, the
budget is spent twice. FerroDP's ledger records the charge on disk <em>before</em> the noise is drawn. Press the
button: a process answers queries, pays for one more, and is ended by SIGKILL before it draws. Then the ledger is
opened again, its chain of records is verified, and the answers are counted.</p>
""",
    figure=Figure(
        "spending",
        (
            Control(
                "budget",
                "Budget ε, at δ = 10⁻⁶",
                2.0,
                0.2,
                20.0,
                "log",
                low_label="few queries",
                high_label="many queries",
            ),
            Control(
                "noise_multiplier",
                "Noise multiplier of a query",
                15.0,
                1.0,
                100.0,
                "log",
                low_label="dear and accurate",
                high_label="cheap and noisy",
            ),
            Control("queries", "Queries that are asked", 30, 1, 400, "log", integer=True),
        ),
        _compute,
        main=("queries", "budget"),
        action=Action("crash", "End a process that is spending, and read its ledger", _crash),
    ),
    why="""
<p><strong>Filters</strong> (Rogers, Roth, Ullman, Vadhan 2016). A filter stops an interaction before the sum of its
costs exceeds the budget, where each cost may depend on earlier answers. For zCDP, and for Gaussian mechanisms in
μ-GDP, nothing is lost against costs fixed in advance: the sum of ρ, or of μ², is compared with the budget
(Whitehouse, Ramdas, Rogers, Wu 2023, Theorem 1; Smith and Thakurta 2022).</p>
<p><strong>Odometers</strong> (the same paper, Theorem 3). With V the sum of the ρ so far and γ fixed in advance,
except with probability δ the loss is at all times at most V + √((2V + γ)(2 ln(1/δ) + ln(1 + 2V/γ))).</p>
<p><strong>Charged before drawn.</strong> In every order in which a process can end, the charges on disk contain the
releases that were seen. At most one charge is too many, which errs on the side of privacy.</p>
""",
    terms=("privacy budget", "filters", "odometers", "adaptive composition"),
)
