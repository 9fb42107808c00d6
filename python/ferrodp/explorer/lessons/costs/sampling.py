"""Lesson 7: which records a step sees, by five ways to form batches, and what each way costs."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation
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
    Role,
    Series,
    Try,
    Value,
    brief,
    upper,
)
from ferrodp.plan import (
    ConstantNoise,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    GivenOrder,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
    Sampling,
)

_RECORDS = 1000
_SHOWN = 40
_DELTA = 1e-5
_SCHEMES = (
    ("poisson", "Poisson: a coin for each record"),
    ("fixed", "Fixed size: a random subset"),
    ("allocation", "Balls in bins: one random step an epoch"),
    ("shuffled", "Shuffled once an epoch"),
    ("all", "All records in every step"),
)


def _plan(scheme: str, batches: int, epochs: int, noise_multiplier: float) -> PrivacyPlan:
    """Return the plan of a training on 1000 records with so many batches an epoch."""
    batch = -(-_RECORDS // batches)
    kinds: dict[str, Sampling] = {
        "poisson": PoissonSampling(1 / batches),
        "fixed": FixedSizeSampling(batch),
        "allocation": RandomAllocation(batches),
        "shuffled": GivenOrder(batch, max_participations=epochs),
        "all": FullBatch(),
    }
    # A removed record would move all that follow it to other batches, so the order's neighbors keep its place.
    slots = NeighboringRelation.REPLACE_SPECIAL if scheme == "shuffled" else NeighboringRelation.ADD_OR_REMOVE_ONE
    return PrivacyPlan(
        population_size=_RECORDS,
        sampling=kinds[scheme],
        num_steps=batches * epochs,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(noise_multiplier),
        neighboring_relation=slots,
    )


def sampling(scheme: str, batches: int, epochs: int, noise_multiplier: float, seed: int) -> dict[str, Value]:
    """Account the same training with batches formed in each way, by Rényi divergences."""
    found: dict[str, Value] = {
        _label(label): _renyi(kind, batches, epochs, noise_multiplier) for kind, label in _ordered()
    }
    found["Steps"] = batches * epochs
    certified = _plan("poisson", batches, epochs, noise_multiplier).epsilon(_DELTA)
    found["ε, Poisson, by the privacy loss distribution"] = upper(certified)
    return found


def _ordered() -> tuple[tuple[str, str], ...]:
    """Return the ways to form batches, those first that are mistaken for each other."""
    return tuple(
        sorted(_SCHEMES, key=lambda each: ("poisson", "shuffled", "all", "fixed", "allocation").index(each[0]))
    )


def _label(scheme: str) -> str:
    name = scheme.partition(":")[0]
    return f"ε, {name if name.startswith('Poisson') else name.lower()}"


@functools.lru_cache(1024)
def _renyi(scheme: str, batches: int, epochs: int, noise_multiplier: float) -> str:
    return upper(_plan(scheme, batches, epochs, noise_multiplier).epsilon(_DELTA, accountant="rdp"))


def _first(parameters: Parameters) -> Answer:
    """Return all numbers but that of balls in bins, whose moments take longest."""
    batches, epochs, noise = (parameters[name] for name in ("batches", "epochs", "noise_multiplier"))
    numbers: dict[str, Value] = {
        _label(label): PENDING if kind == "allocation" else _renyi(kind, batches, epochs, noise)
        for kind, label in _ordered()
    }
    numbers["Steps"] = batches * epochs
    numbers["ε, Poisson, by the privacy loss distribution"] = PENDING
    return Answer(_sentence(parameters, numbers), numbers, (), cell_of(sampling, parameters))


def _members(scheme: str, batches: int, seed: int) -> list[np.ndarray]:
    """Return which of the records each step of the first epoch sees."""
    source = fd.testing.seeded(seed.to_bytes(32, "big"))
    if scheme == "poisson":
        return [fd.random.poisson_sample(_RECORDS, 1 / batches, source=source) for _ in range(batches)]
    size = -(-_RECORDS // batches)
    if scheme == "fixed":
        return [fd.random.fixed_size_sample(_RECORDS, size, source=source) for _ in range(batches)]
    if scheme == "allocation":
        return list(fd.random.random_allocation(_RECORDS, batches, source=source))
    if scheme == "shuffled":
        order = np.random.default_rng(seed).permutation(_RECORDS)
        return [order[start : start + size] for start in range(0, _RECORDS, size)]
    return [np.arange(_RECORDS)] * batches


def _compute(parameters: Parameters) -> Answer:
    numbers = sampling(**parameters)
    scheme, batches = parameters["scheme"], parameters["batches"]
    members = _members(scheme, batches, parameters["seed"])
    seen = [(step + 1, record + 1) for step, batch in enumerate(members) for record in batch if record < _SHOWN]
    raster = Plot(
        f"Which of the first {_SHOWN} records each step of an epoch sees",
        "Step",
        "Record",
        (
            Series(
                "another record takes part",
                x=[step for step, record in seen if record != _YOURS],
                y=[record for _, record in seen if record != _YOURS],
                kind="points",
                role="private",
            ),
            Series(
                f"yours, number {_YOURS}",
                x=[step for step, record in seen if record == _YOURS],
                y=[_YOURS for _, record in seen if record == _YOURS],
                kind="points",
                role="non-private",
            ),
        ),
    )
    return Answer(
        _sentence(parameters, numbers), numbers, (raster, _costs(parameters, numbers)), cell_of(sampling, parameters)
    )


_YOURS = 12
"""The record that is marked in the picture."""


def _costs(parameters: Parameters, numbers: Mapping[str, Value]) -> Plot:
    """Return ε beside the noise of the mean gradient: at one noise multiplier a full batch has far less of it."""
    batches, epochs, noise = (parameters[name] for name in ("batches", "epochs", "noise_multiplier"))
    batch = -(-_RECORDS // batches)
    roles: dict[str, Role] = {"poisson": "private", "fixed": "a", "allocation": "b", "shuffled": "non-private"}
    names = {"poisson": "Poisson", "fixed": "fixed size", "allocation": "balls in bins"}
    names["shuffled"] = "shuffled, a record's place left empty"
    series = [
        Series(names[kind], x=[noise / batch], y=[float(numbers[_label(label)])], kind="points", role=roles[kind])
        for kind, label in _SCHEMES
        if kind in names
    ]
    grid = np.geomspace(noise / _RECORDS / 2, 2 * noise / batch, 13)
    full = [float(_renyi("all", batches, epochs, float(each * _RECORDS))) for each in grid]
    series.append(Series("all records in as many steps, any σ", x=grid, y=full, role="bound"))
    here = noise / _RECORDS
    return Plot(
        "What the training costs, beside the noise of its mean gradient",
        "Noise of the mean gradient, in clip norms",
        "ε at δ = 10⁻⁵, Rényi",
        tuple(series),
        x_scale="log",
        y_scale="log",
        marks=((here, "all records at your σ"), (noise / batch, "batches at your σ")),
    )


def _sentence(parameters: Parameters, numbers: Mapping[str, Value]) -> str:
    members = _members(parameters["scheme"], parameters["batches"], parameters["seed"])
    taken = np.bincount(np.concatenate(members), minlength=_RECORDS)
    return (
        f"In this epoch of {len(members)} steps a record takes part {taken.min()} to {taken.max()} times, and batches "
        f"have {min(map(len, members))} to "
        f"{max(map(len, members))} records. Accounted by Rényi divergences, the training costs "
        f"ε = {brief(numbers['ε, Poisson'])} with Poisson samples and {brief(numbers['ε, shuffled once an epoch'])} "
        "with a shuffle, "
        f"at δ = 10⁻⁵."
    )


LESSON = Lesson(
    name="sampling",
    title="Sampling",
    idea="Nobody can see which steps saw your record. What is that worth?",
    person="A whistle-blower's letter is one of a thousand that a model is trained on. In most steps it is not there.",
    question=Prediction(
        "A paper accounts for a lottery in each step, and its code shuffles the data once an epoch. Is its ε true?",
        ("Yes, both are random", "It has no proof", "It is too large"),
        1,
        "The doubt that divides ε is about the lottery that was really held. A loader that shuffles puts every "
        "record into "
        "exactly one batch of an epoch: another lottery, with another theorem.",
    ),
    tries=(
        Try("Shuffle", {"scheme": "shuffled"}),
        Try("All records", {"scheme": "all"}),
        Try("100 batches", {"batches": "100"}),
    ),
    text="""
<p>If a step sees a random sample, nobody knows whether your record was in it. This uncertainty is privacy, too:
<em>amplification by sampling</em>. It holds for the sampling that the theorem is about, and for no other.</p>
<ul>
<li><em>Poisson</em>: each record joins by a coin of its own. Batches differ in size. This is what most accountants
assume.</li>
<li><em>Fixed size</em>: a uniform subset. An added record pushes out another one, so two records change.</li>
<li><em>Random allocation</em>, also balls in bins: in every epoch each record is put into one random step.</li>
<li><em>Shuffled</em>: what most data loaders do. Every record is in exactly one batch an epoch. No amplification is
claimed here: each epoch costs a whole release. Its ε is for a record whose place in the order is left empty, as to
take it out would move all that follow; the other four are for a record added or removed. The accounting of a Poisson
sample does not apply; Chua et al. (2024) show trainings where the true ε of a shuffle is much larger than the ε so
computed.</li>
<li><em>All records</em>: no sampling. The noise can be large, because a step averages over everybody.</li>
</ul>
<p>Many published trainings shuffle and account for Poisson. Look at the gap: it is the part of the claim that has no
proof. Which records were drawn must stay secret as well; a log of the batches gives the amplification away.</p>
""",
    figure=Figure(
        "sampling",
        (
            Control("scheme", "How batches are formed", "poisson", choices=_SCHEMES),
            Control(
                "batches",
                "Batches an epoch, 1/q",
                20,
                2,
                100,
                integer=True,
                low_label="half of the records each",
                high_label="10 records each",
            ),
            Control("epochs", "Epochs", 5, 1, 50, integer=True),
            Control(
                "noise_multiplier",
                "Noise multiplier σ",
                1.0,
                0.5,
                20.0,
                "log",
                low_label="little noise",
                high_label="much noise",
            ),
        ),
        _compute,
        seeded=True,
        main=("noise_multiplier", "scheme"),
        first=_first,
    ),
    why="""
<p><strong>Theorem</strong> (Balle, Barthe, Gaboardi 2018, Theorem 8). If a mechanism is (ε, δ)-differentially private
for adding or removing a record, then on a Poisson sample with probability q it is (ln(1 + q(e<sup>ε</sup> − 1)),
qδ)-differentially private. For small ε this is about qε.</p>
<p>For Gaussian noise the laws themselves are compared: N(0, σ²) with (1 − q) N(0, σ²) + q N(1, σ²), in both
directions (Mironov, Talwar, Zhang 2019). Fixed size: Balle, Barthe, Gaboardi 2018, Theorem 9 where records are
replaced; Rényi: Wang, Balle, Kasiviswanathan 2019; added records: Birrell, Ebrahimi, Behnia, Pacheco 2024. Random
allocation: Feldman and Shenfeld 2025; Chua et al. 2025.</p>
<p>Shuffled batches: a record is in one step of each epoch, and the steps without it depend on earlier releases alone.
So an epoch costs at most one release without sampling. Lower bounds for shuffles: Chua, Ghazi, Kamath, Kumar,
Manurangsi, Sinha, Zhang 2024. Conditions that papers get wrong: Lebeda, Regehr, Kamath, Steinke 2024.</p>
""",
    terms=("sampling assumptions", "amplification by sampling", "Poisson sampling", "batch size"),
)
