"""Lesson 12: unit, ε and δ are chosen with the error bars of the reader's own query in view."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

import ferrodp as fd
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
    upper,
)


def _count(people: int, share: float, epsilon: float, delta: float, rows: int, seed: int) -> tuple[float, float, float]:
    """Return a released count and its standard error, if a unit has at most so many rows."""
    having = np.arange(people) < round(share * people)
    source = fd.testing.seeded(seed.to_bytes(32, "big"))
    estimate = fd.private_count(having, epsilon=epsilon, delta=delta, max_contributions=rows, source=source)
    low, high = estimate.interval(0.95)
    return float(estimate), float(estimate.standard_error or 0.0), (float(high) - float(low)) / 2


def choose(
    unit: str, rows: int, people: int, share: float, epsilon: float, noise: str, delta: float, seed: int
) -> dict[str, Value]:
    """Count some of the rows under a guarantee for a record or for a person, and say what the guarantee means."""
    protected = rows if unit == "person" else 1
    used = delta if noise == "gaussian" else 0.0
    count, error, most = _count(people, share, epsilon, used, protected, seed)
    together = rows // protected  # rows of one person for each unit of the guarantee
    if used:
        group = fd.accounting.group_privacy(epsilon=epsilon, delta=used, size=together)
    else:
        group = fd.accounting.group_privacy(epsilon=epsilon, size=together)
    return {
        "One release of the count": count,
        "Its error, 19 times in 20": most,
        "Standard error, of 100 counted": 100 * error / max(round(share * people), 1),
        "Guarantee for one record": f"ε = {upper(_of_one_record(epsilon, used, protected))}, δ = {used:g}",
        f"Guarantee for a person with {rows} records": f"ε = {upper(group.epsilon)}, δ = {upper(group.delta)}",
        "Most that a bet on one unit wins, from even odds": upper(min(1 / (1 + math.exp(-epsilon)) + used, 1.0)),
        "δ times the number of records": used * people,
    }


def _of_one_record(epsilon: float, delta: float, rows: int) -> float:
    """Return ε of one record, which moves a count by 1 where so many rows of a person were planned for."""
    event = fd.private_count(np.zeros(1, bool), epsilon=epsilon, delta=delta, max_contributions=rows).event
    if isinstance(event, fd.events.DiscreteLaplaceEvent):
        return math.nextafter(1 / event.scale, math.inf)
    assert isinstance(event, fd.events.DiscreteGaussianEvent)
    single = dataclasses.replace(event, l2_sensitivity=1.0)
    accountant = fd.accounting.PldAccountant()
    accountant.compose(single)
    return accountant.epsilon(delta)


@functools.lru_cache(4096)
def _spread(epsilon: float, delta: float, rows: int) -> float:
    """Return the error of a count, 19 times in 20, which is the same whatever is counted."""
    return _count(100, 0.5, epsilon, delta, rows, 0)[2]


def _compute(parameters: Parameters) -> Answer:
    known = _first(parameters)
    people, share, rows = parameters["people"], parameters["share"], parameters["rows"]
    protected = rows if parameters["unit"] == "person" else 1
    used = parameters["delta"] if parameters["noise"] == "gaussian" else 0.0
    grid = np.geomspace(0.01, 10, 25)
    true = max(round(share * people), 1)
    errors = [100 * _spread(float(each), used, protected) / true for each in grid]
    epsilon = parameters["epsilon"]
    plot = Plot(
        "What ε buys: the error of the count",
        "ε",
        "Error 19 times in 20, of 100 counted",
        (
            Series("error", x=grid, y=errors, role="private"),
            Series(
                "yours", x=[epsilon], y=[100 * _spread(epsilon, used, protected) / true], kind="points", role="bound"
            ),
        ),
        x_scale="log",
        y_scale="log",
        drag="epsilon",
    )
    return dataclasses.replace(known, plots=(plot,))


def _first(parameters: Parameters) -> Answer:
    """Return everything but the plot, for which the noise of 25 values of ε has to be found."""
    numbers = choose(**parameters)
    people, true = parameters["people"], round(parameters["share"] * parameters["people"])
    used = parameters["delta"] if parameters["noise"] == "gaussian" else 0.0
    bet = float(numbers["Most that a bet on one unit wins, from even odds"])
    warnings = []
    if used * people >= 1:
        warnings.append(
            f"δ is {used * people:.3g} over the number of records: a program that publishes one record in "
            f"{1 / used:.0f} at random has this δ."
        )
    sentence = (
        f"You publish: “About {numbers['One release of the count']:.0f} of {people} people”; the truth is {true}, "
        "and the "
        f"error at most ± {float(numbers['Its error, 19 times in 20']):.3g}, 19 times in 20. A spy who was in doubt "
        "about one "
        f"{parameters['unit']} wins a bet at most {100 * bet:.0f} times in 100 rather than 50."
    )
    return Answer(sentence, numbers, (), cell_of(choose, parameters), tuple(warnings))


LESSON = Lesson(
    name="choose",
    title="Choose",
    idea="Is the error good enough? Then you need no larger ε.",
    person="A clerk publishes how many of 2000 people get help. One family would lose its flat if the neighbors knew.",
    question=Prediction(
        "A family has four records. The guarantee is for one record. How safe is the family?",
        ("As safe as the record", "About four times less", "Not at all"),
        1,
        "For k records of one person ε grows k times. Bound the records of a person and protect the person: the "
        "noise grows, "
        "and the promise is the one that people understand.",
    ),
    tries=(
        Try("ε = 0.1", {"epsilon": "0.1"}),
        Try("ε = 3", {"epsilon": "3"}),
        Try("Protect one record", {"unit": "record"}),
    ),
    text="""
<p>There is no value of ε that is right everywhere. What can be done is to see both sides at once: what an attacker
could gain, and what your query loses. Enter your own query: how many rows there are, and what share is counted.</p>
<ol>
<li><em>Unit.</em> Whom does the guarantee protect? If a person has many rows, a guarantee for a row is k times weaker
for the person. Bound the rows per person and protect the person; the noise grows with the bound.</li>
<li><em>Relation.</em> Added or removed here: the number of rows is secret.</li>
<li><em>δ.</em> What may exceed the bound of ε (lesson 2). A mechanism that with probability δ publishes everything has
this δ, so it should be far below one over the number of records: to publish one of n records at random has δ = 1/n and
protects nobody who is hit. 10<sup>−6</sup> or less is usual; Laplace noise has δ = 0.</li>
<li><em>ε.</em> Move it, and look at the error bars and at the bet. Count the releases to come: they share the budget
(lesson 5).</li>
</ol>
<p>Publish all of it with the result: unit, relation, ε, δ, what was released before, and how noise was drawn. The
cell below the figure is such a record: it gives the same numbers anywhere. Deployments with their parameters are
listed by Desfontaines, and the guidelines of NIST SP 800-226 say how to read a claim.</p>
""",
    figure=Figure(
        "choose",
        (
            Control(
                "unit", "The guarantee protects", "person", choices=(("record", "one record"), ("person", "one person"))
            ),
            Control("rows", "Most records of a person", 4, 1, 100, "log", integer=True),
            Control(
                "people",
                "Records in all",
                2_000,
                100,
                1_000_000,
                "log",
                integer=True,
            ),
            Control(
                "share", "Share that is counted", 0.2, 0.01, 1.0, step=0.01, low_label="1 in 100", high_label="all"
            ),
            Control("epsilon", "ε", 0.5, 0.01, 10.0, "log", low_label="much noise", high_label="little noise"),
            Control("noise", "Noise", "laplace", choices=(("laplace", "Laplace, δ = 0"), ("gaussian", "Gaussian"))),
            Control("delta", "δ, for Gaussian noise", 1e-6, 1e-12, 1e-2, "log", needs=("noise", ("gaussian",))),
        ),
        _compute,
        seeded=True,
        main=("epsilon", "rows"),
        first=_first,
    ),
    why="""
<p><strong>Bayes.</strong> If M is ε-differentially private and somebody believes with odds o that a unit is in the
data, the odds after a release are between e<sup>−ε</sup>o and e<sup>ε</sup>o (Kasiviswanathan and Smith 2014; with δ,
except for a small chance). From even odds: at most e<sup>ε</sup>/(1 + e<sup>ε</sup>).</p>
<p><strong>Groups.</strong> Pure ε for a row is kε for k rows (Dwork and Roth 2014, Theorem 2.2); with δ: (kε,
δ(e<sup>kε</sup> − 1)/(e<sup>ε</sup> − 1)), the sum δ(1 + e<sup>ε</sup> + … + e<sup>(k−1)ε</sup>) of k steps of one row
each, a sharper form of Vadhan 2017, Lemma 2.2.</p>
<p><strong>Why δ is below 1/n.</strong> The mechanism that publishes each record with probability δ is (0,
δ)-differentially private for every record, and publishes δn of them in the mean.</p>
<p>On choosing ε: Dwork, Kohli, Mulligan, "Differential privacy in practice: expose your epsilons!", 2019; Near,
Darais, Lefkovitz, Howarth, NIST SP 800-226, 2025.</p>
""",
    terms=("choice of δ", "choice of ε", "unit of privacy", "group privacy"),
)
