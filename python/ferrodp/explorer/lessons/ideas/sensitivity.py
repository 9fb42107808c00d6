"""Lesson 3: one income moves a mean as far as its bound allows; the bound trades bias for noise."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation
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
)

_PEOPLE = 200


def _incomes(last: float) -> np.ndarray:
    """Return 200 invented incomes: 199 quantiles of a lognormal law with median 40 000, and the one that is given."""
    normal = NormalDist(math.log(40_000), 0.6)
    return np.array([*(math.exp(normal.inv_cdf((rank + 0.5) / (_PEOPLE - 1))) for rank in range(_PEOPLE - 1)), last])


def _error(incomes: np.ndarray, bound: float, epsilon: float, relation: str, seed: int) -> tuple[float, float, float]:
    """Return the bias of the mean for a bound on incomes, its standard error, and one release."""
    release = fd.private_mean(
        incomes,
        bounds=(0.0, bound),
        epsilon=epsilon,
        neighboring_relation=NeighboringRelation(relation),
        source=fd.testing.seeded(seed.to_bytes(32, "big")),
    )
    bias = float(np.minimum(incomes, bound).mean() - incomes.mean())
    return bias, release.standard_error or math.inf, float(release)


def private_income(last: float, bound: float, epsilon: float, relation: str, seed: int) -> dict[str, Value]:
    """Release the mean of 200 incomes, each clipped to a bound, and compare it with the mean that it is about."""
    incomes = _incomes(last)
    bias, noise, release = _error(incomes, bound, epsilon, relation, seed)
    return {
        "Mean of all incomes": float(incomes.mean()),
        "One release": release,
        "Root mean square error": math.hypot(bias, noise),
        "Mean of the clipped incomes": float(np.minimum(incomes, bound).mean()),
        "Incomes that are clipped": int((incomes > bound).sum()),
        "Bias of clipping": bias,
        "Standard error of the noise": noise,
    }


def _compute(parameters: Parameters) -> Answer:
    numbers = private_income(**parameters)
    incomes = _incomes(parameters["last"])
    grid = np.geomspace(5_000, 1_000_000, 31)
    errors = [
        _error(incomes, bound, parameters["epsilon"], parameters["relation"], parameters["seed"])[:2] for bound in grid
    ]
    bias = [abs(bias) if abs(bias) >= 1.0 else math.nan for bias, _ in errors]  # what is clipped nowhere has none
    noise = [noise for _, noise in errors]
    total = [math.hypot(*both) for both in errors]
    plot = Plot(
        "Error of the released mean",
        "Bound on incomes",
        "Error",
        (
            Series("bias of clipping", x=grid, y=bias, role="b"),
            Series("noise", x=grid, y=noise, role="a"),
            Series("both together", x=grid, y=total, role="private"),
        ),
        x_scale="log",
        y_scale="log",
        marks=((parameters["bound"], "your bound"),),
        drag="bound",
    )
    people = Plot(
        "The 200 incomes, in order: drag the last one up or down",
        "Rank",
        "Income",
        (
            Series("income", x=range(1, _PEOPLE + 1), y=np.sort(incomes), kind="points", role="non-private"),
            Series(
                "clipped income",
                x=range(1, _PEOPLE + 1),
                y=np.sort(np.minimum(incomes, parameters["bound"])),
                role="private",
            ),
        ),
        y_scale="log",
        drag="last",
        vertical=True,
    )
    best = grid[int(np.argmin(total))]
    sentence = (
        f"With incomes clipped at {_thousands(parameters['bound'])}, clipping moves the mean by "
        f"{_thousands(numbers['Bias of clipping'])} and the noise by about "
        f"±{_thousands(numbers['Standard error of the noise'])}. Of the bounds drawn, {_thousands(best)} has the "
        f"smallest error of both together; to know this, one has to look at the data."
    )
    return Answer(sentence, numbers, (people, plot), cell_of(private_income, parameters))


def _thousands(value: Value) -> str:
    """Write an amount of money, with three digits."""
    rounded = float(f"{float(value):.3g}")
    return f"{rounded:,.0f}".replace(",", "\u202f").replace("-", "−")


LESSON = Lesson(
    name="sensitivity",
    title="Why sensitivity",
    idea="How much noise hides the one person who earns fifty times what others do?",
    person="A surgeon earns far more than the other 199 people of a survey. If the mean that is published moves "
    "with her income, whoever knows the others' knows hers.",
    question=Prediction(
        "The surgeon's income doubles. What has to happen to the noise, if incomes have no upper bound?",
        ("It has to double", "It stays", "No noise is enough"),
        2,
        "Noise must hide the largest change that anybody could make, and without a bound there is none. So incomes "
        "above a "
        "bound count as the bound: that is clipping.",
    ),
    tries=(
        Try("Clip nearly all", {"bound": "8000"}),
        Try("Clip nobody", {"bound": "1000000"}),
        Try("A millionaire", {"last": "20000000"}),
    ),
    text="""
<p>How much noise does a mean need? Enough to hide the largest change that one person could make: the
<em>sensitivity</em>. Drag the last income up in the picture. Without a bound it can move the mean as far as it likes,
and no noise would be enough. So incomes above a bound C count as C. This is <em>clipping</em>, and DP-SGD does the
same with gradients.</p>
<p>Now move the bound. If it is low, many incomes are cut, and the mean is too small: <em>bias</em>. If it is high,
one person might move the sum by much, so the <em>noise</em> has to be large even if nobody does. The best bound lies
between. It depends on the data, so it must come from public knowledge or be paid for as a release of its own.</p>
<h3>Which worlds are neighbors?</h3>
<p>The sensitivity is about pairs of datasets that are told apart: <em>adjacency</em>. <em>Add or remove</em>: one has
a record that the other lacks; the number of records is then secret, too, and the mean is a noised sum over a noised
number. <em>Replace one</em>: one record has another value, and their number is public. One replacement is a removal
and an addition, so an ε for the one relation is not an ε for the other. A claim without its relation is
incomplete.</p>
""",
    figure=Figure(
        "sensitivity",
        (
            Control(
                "last",
                "Income of the last person",
                60_000.0,
                1_000.0,
                50_000_000.0,
                "log",
                low_label="1 thousand",
                high_label="50 million",
            ),
            Control(
                "bound",
                "Bound on incomes, C",
                120_000.0,
                5_000.0,
                1_000_000.0,
                "log",
                low_label="nearly all clipped",
                high_label="none clipped, much noise",
            ),
            Control("epsilon", "ε", 1.0, 0.05, 10.0, "log", low_label="much noise", high_label="little noise"),
            Control(
                "relation",
                "Neighbors",
                "replace_one",
                choices=(("replace_one", "replace one record"), ("add_or_remove_one", "add or remove one record")),
            ),
        ),
        _compute,
        seeded=True,
        main=("bound", "last"),
    ),
    why="""
<p><strong>Theorem</strong> (Dwork, McSherry, Nissim, Smith 2006, Proposition 1). If f changes by at most Δ in the L1
norm between neighbors, then f plus independent Laplace noise of scale Δ/ε in each coordinate is ε-differentially
private.</p>
<p><em>Proof.</em> The density ratio at x is exp((|x − f(D′)| − |x − f(D)|)/b) ≤ exp(Δ/b), by the triangle inequality,
with b = Δ/ε. ∎</p>
<p>For incomes in [0, C] and replacement, the sum changes by at most C and the mean by C/n. If records are added or
removed, distances from the middle of the bounds are summed, so a record moves the sum by at most C/2, and half of ε
is spent on the number of records (Li, Lyu, Su, Yang 2016, section 2). For the choice of a bound under differential
privacy see Amin, Kulesza, Muñoz Medina and Vassilvitskii, ICML 2019.</p>
""",
    terms=("sensitivity", "adjacency", "clipping", "bias and noise"),
)
