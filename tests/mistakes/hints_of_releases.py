"""What refusals of mechanisms, statistics, sums, models and accounting offer, and calls that do it; see `hints.py`."""

import datetime
import pickle
from typing import Any

import numpy as np
from hinted_objects import REMOVE, REPLACE, SPECIAL, block, rounds
from mistaken_objects import EVENT, FRAME, planned

import ferrodp as fd
from ferrodp import accounting, plan
from ferrodp.accounting import curves
from ferrodp.events import (
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from ferrodp.statistics import models
from support.hints import Hint

DAY, NEXT_DAY = datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)


def composed(accountant: Any, *events: Any) -> Any:
    """Return an accountant after these events."""
    for event in events:
        accountant.compose(event)
    return accountant


def released_sum() -> fd.ClippedSum:
    """Return a sum that was released."""
    total = fd.ClippedSum((2,), clip_norm=1.0)
    total.add(np.zeros(2))
    total.release(noise_multiplier=1.0)
    return total


def described(**words: str) -> None:
    """Enter a block whose releases are described, and leave it."""
    with fd.tickets.describing(**words):
        pass


def categorical(rows: Any, categories: Any) -> None:
    """Make a naive Bayes classifier of two rows."""
    models.private_categorical_bayes(rows, [0, 1], classes=[0, 1], categories=categories, epsilon=1.0)


SAMPLED = PoissonSampledEvent(sampling_probability=0.1, event=EVENT)
SETS = fd.mechanisms.SubsetResponse.calibrated(epsilon=1.0, num_categories=10)

DOORS = [
    Hint(
        "at least one of the words must be given",
        lambda c: described(),
        lambda c: described(column="age"),
    ),
    Hint(
        "such as GaussianMechanism(noise_multiplier=...)",
        lambda c: fd.GaussianMechanism(1.0, 1.0),
        lambda c: fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0),
    ),
    Hint(
        "write GaussianMechanism(..., l2_sensitivity=...)",
        lambda c: fd.GaussianMechanism(noise_multiplier=1.0),
        lambda c: fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0),
    ),
    Hint(
        "see dir(ferrodp) for its names",
        lambda c: fd.gausian,
        lambda c: [getattr(fd, name) for name in dir(fd)],
    ),
    Hint(
        "leave 'zzz' out",
        lambda c: fd.private_count([1.0], epsilon=1.0, zzz=3),
        lambda c: fd.private_count([1.0], epsilon=1.0),
    ),
    Hint(
        "did you mean 'epsilon'?",
        lambda c: fd.private_count([1.0], epsilom=1.0),
        lambda c: fd.private_count([1.0], epsilon=1.0),
    ),
    Hint(
        "did you mean 'pure'?",
        lambda c: c.ledger.create("x", epsilon=1.0, delta=0, measure="puer"),
        lambda c: c.ledger.create("hint-x", epsilon=1.0, delta=0, measure="pure"),
    ),
    Hint(
        "did you mean 'hospital/images'? It",
        lambda c: c.ledger.report("hospital/image"),
        lambda c: c.ledger.report("hospital/images"),
    ),
    Hint(
        "for 50 % write 0.5",
        lambda c: plan.PoissonSampling(50),
        lambda c: plan.PoissonSampling(0.5),
    ),
    Hint(
        "open it first: PrivacyLedger.open('budget.db')",
        lambda c: planned().start((3,), ledger="budget.db", scope="a"),
        lambda c: planned().start((3,), ledger=fd.PrivacyLedger.open(c.path), scope="hospital/images"),
    ),
    Hint(
        "for example ledger=PrivacyLedger.open('budget.db')",
        lambda c: planned().start((3,), ledger=3, scope="a"),
        lambda c: planned().start((3,), ledger=fd.PrivacyLedger.open(c.path), scope="hospital/images"),
    ),
    Hint(
        "name what is charged, as in scope='trainings'",
        lambda c: planned().start((3,), ledger=c.ledger),
        lambda c: planned().start((3,), ledger=c.ledger, scope="hospital/images"),
    ),
    Hint(
        "open one, as in ledger=PrivacyLedger.open('budget.db')",
        lambda c: planned().start((3,), scope="hospital/images"),
        lambda c: planned().start((3,), ledger=c.ledger, scope="hospital/images"),
    ),
    Hint(
        "must have 2 entries as in the template",
        lambda c: fd.ClippedSum(((2,), (3,)), clip_norm=1.0).add((np.zeros(2),)),
        lambda c: fd.ClippedSum(((2,), (3,)), clip_norm=1.0).add((np.zeros(2), np.zeros(3))),
    ),
    Hint(
        "must be a dict as in the template",
        lambda c: fd.ClippedSum({"a": (2,)}, clip_norm=1.0).add([np.zeros(2)]),
        lambda c: fd.ClippedSum({"a": (2,)}, clip_norm=1.0).add({"a": np.zeros(2)}),
    ),
    Hint(
        "must be a list as in the template",
        lambda c: fd.ClippedSum([(2,), (3,)], clip_norm=1.0).add(np.zeros(2)),
        lambda c: fd.ClippedSum([(2,), (3,)], clip_norm=1.0).add([np.zeros(2), np.zeros(3)]),
    ),
    Hint(
        "skip must be a collection of names such as",
        lambda c: rounds(template={"step": np.zeros(1)}, skip="step"),
        lambda c: rounds(template={"step": np.array(1), "w": np.zeros(1)}, skip=("step",)),
    ),
    Hint(
        "name the key of a counter in skip",
        lambda c: rounds(template={"step": np.array(1), "w": np.zeros(1)}),
        lambda c: rounds(template={"step": np.array(1), "w": np.zeros(1)}, skip=("step",)),
    ),
]
"""Of what is checked at each door: arguments, ledgers, trees of arrays."""

ACCOUNTING = [
    Hint(
        "compose the events in one RdpAccountant instead",
        lambda c: accounting.RdpAccountant().merge(accounting.PldAccountant()),
        lambda c: composed(accounting.RdpAccountant(), EVENT, EVENT),
    ),
    Hint(
        "account for Poisson samples and add `truncation_delta` to δ",
        lambda c: accounting.rdp.truncated_poisson_gaussian(
            1.0, 50_000, 0.01, 700, [2], neighboring_relation="replace_one"
        ),
        lambda c: (
            accounting.sampling.truncation_delta(
                epsilon=1.0, population_size=50_000, sampling_probability=0.01, truncated_batch_size=700
            ),
            composed(accounting.PldAccountant(neighboring_relation=REPLACE), SAMPLED),
        ),
    ),
    Hint(
        'use method="analytic"',
        lambda c: fd.GaussianMechanism.calibrated(epsilon=2.0, delta=1e-6, l2_sensitivity=1.0, method="classical"),
        lambda c: fd.GaussianMechanism.calibrated(epsilon=2.0, delta=1e-6, l2_sensitivity=1.0, method="analytic"),
    ),
    Hint(
        "use an accountant for it",
        lambda c: curves.hockey_stick_delta(SelfComposedEvent(event=EVENT, count=2), 1.0),
        lambda c: composed(accounting.PldAccountant(), SelfComposedEvent(event=EVENT, count=2)).delta(1.0),
    ),
    Hint(
        "use NonPrivateEvent for 1",
        lambda c: EpsilonDeltaEvent(epsilon=1.0, delta=1.0),
        lambda c: NonPrivateEvent(),
    ),
    Hint(
        "for example [(1.1, 0.01, 500)]",
        lambda c: accounting.from_opacus_history(3),
        lambda c: accounting.from_opacus_history([(1.1, 0.01, 500)]),
    ),
    Hint(
        "as in accountant.history",
        lambda c: accounting.from_opacus_history([3]),
        lambda c: accounting.from_opacus_history([(1.1, 0.01, 500)]),
    ),
    Hint(
        "for example {'RDP': RdpAccountant()}",
        lambda c: accounting.reports.plot_privacy_profile(3),
        lambda c: accounting.reports.plot_privacy_profile({"RDP": composed(accounting.RdpAccountant(), EVENT)}),
    ),
    Hint(
        "register a rule with ferrodp.accounting.rdp.register",
        lambda c: type("Child", (GaussianEvent,), {}),
        lambda c: accounting.rdp.register,
    ),
    Hint(
        "such as GaussianEvent(noise_multiplier=1.0)",
        lambda c: accounting.RdpAccountant().compose([EVENT]),
        lambda c: accounting.RdpAccountant().compose(GaussianEvent(noise_multiplier=1.0)),
    ),
    Hint(
        "; use ",
        lambda c: accounting.ZcdpAccountant().compose(SAMPLED),
        lambda c: accounting.PldAccountant().compose(SAMPLED),
    ),
]
"""Of curves, accountants and events."""


def special(missing: Any) -> object:
    """Add a column up under REPLACE_SPECIAL."""
    with fd.budget(epsilon=1.0, delta=0, neighboring_relation=SPECIAL):
        return fd.private_mean([1.0], bounds=(0, 1), epsilon=1.0, missing=missing, neighboring_relation=SPECIAL)


MATRIX = {"epsilon": 1.0, "delta": 1e-6}
TABLE = {"sex": ["f", "m"], "age": [1.0, 2.0], "region": ["n", "s"]}
COLUMNS = {"sex": ["f", "m"], "region": ["n", "s"]}

STATISTICS = [
    Hint(
        "write zeros into the column",
        lambda c: fd.private_sum([1.0, None], bounds=(0, 1), epsilon=1.0, unit=["a", "b"], missing="zero"),
        lambda c: fd.private_sum([1.0, 0.0], bounds=(0, 1), epsilon=1.0, unit=["a", "b"]),
    ),
    Hint(
        "bounds must be in ascending order",
        lambda c: fd.private_mean([DAY], bounds=(NEXT_DAY, DAY), epsilon=1.0),
        lambda c: fd.private_mean([DAY], bounds=(DAY, NEXT_DAY), epsilon=1.0),
    ),
    Hint(
        "to count missing rows as zeros use REPLACE_ONE",
        lambda c: special(missing="zero"),
        lambda c: block(
            lambda: fd.private_sum([1.0], bounds=(0, 1), epsilon=1.0, missing="zero", neighboring_relation=REPLACE),
            epsilon=1.0,
            neighboring_relation=REPLACE,
        ),
    ),
    Hint(
        "one of its columns is values[:, 0]",
        lambda c: fd.private_sum(np.zeros((3, 2)), bounds=(0, 1), epsilon=1.0),
        lambda c: fd.private_sum(np.zeros((3, 2))[:, 0], bounds=(0, 1), epsilon=1.0),
    ),
    Hint(
        "4 equal bins are numpy.linspace(low, high, 4 + 1)",
        lambda c: fd.private_histogram([1.0], bins=np.array(4), epsilon=1.0),
        lambda c: fd.private_histogram([1.0], bins=np.linspace(0, 1, 4 + 1), epsilon=1.0),
    ),
    Hint(
        "leave None and NaN out",
        lambda c: fd.private_histogram(["a"], categories=["a", None], epsilon=1.0),
        lambda c: fd.private_histogram(["a"], categories=["a"], epsilon=1.0),
    ),
    Hint(
        "for example 'age'",
        lambda c: fd.private_group_by(FRAME, 3, keys=["n"]),
        lambda c: fd.private_group_by(FRAME, "age", keys=[1.0]),
    ),
    Hint(
        "for example {'age': [31, 64]}",
        lambda c: fd.private_group_by(3, "age", keys=[1]),
        lambda c: fd.private_group_by({"age": [31, 64]}, "age", keys=[31]),
    ),
    Hint(
        "for example groups_per_unit=1, rows_per_group=2",
        lambda c: fd.private_group_by(FRAME, "region", keys=["n"], unit="age", rows_per_group=2),
        lambda c: fd.private_group_by(FRAME, "region", keys=["n"], unit="age", groups_per_unit=1, rows_per_group=2),
    ),
    Hint(
        "For δ = 0 take private_histogram",
        lambda c: fd.private_marginals(TABLE, 1, categories=COLUMNS, epsilon=1.0, delta=0),
        lambda c: fd.private_histogram(TABLE["sex"], categories=["f", "m"], epsilon=1.0),
    ),
    Hint(
        "for example delta=1e-6. For",
        lambda c: fd.private_marginals(TABLE, 1, categories=COLUMNS, epsilon=1.0, delta=0),
        lambda c: fd.private_marginals(TABLE, 1, categories=COLUMNS, epsilon=1.0, delta=1e-6),
    ),
    Hint(
        "as in 2 or [(",
        lambda c: fd.private_marginals(TABLE, "sex", categories=COLUMNS, **MATRIX),
        lambda c: (
            fd.private_marginals(TABLE, 2, categories=COLUMNS, **MATRIX),
            fd.private_marginals(TABLE, [("sex", "region"), ("region",)], categories=COLUMNS, **MATRIX),
        ),
    ),
    Hint(
        'as in ("sex", "age")',
        lambda c: fd.private_marginals(TABLE, [["sex"]], categories=COLUMNS, **MATRIX),
        lambda c: fd.private_marginals(
            TABLE, [("sex", "age")], categories=COLUMNS, bins={"age": [0.0, 1.5, 3.0]}, **MATRIX
        ),
    ),
    Hint(
        'as in categories={"sex": ["f", "m"]}',
        lambda c: fd.private_marginals(TABLE, 1, **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, categories={"sex": ["f", "m"]}, **MATRIX),
    ),
    Hint(
        "must be a dict from column names to public",
        lambda c: fd.private_marginals(TABLE, 1, categories=["sex"], **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, categories={"sex": ["f", "m"]}, **MATRIX),
    ),
    Hint(
        "leave out a column with only one public value",
        lambda c: fd.private_marginals(TABLE, 1, categories={"sex": ["f"], "region": ["n", "s"]}, **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, categories={"region": ["n", "s"]}, **MATRIX),
    ),
    Hint(
        "write [0.25, 0.5, 0.75]",
        lambda c: fd.private_quantiles([1.0], 3, bounds=(0, 1), epsilon=1.0),
        lambda c: fd.private_quantiles([1.0], [0.25, 0.5, 0.75], bounds=(0, 1), epsilon=1.0),
    ),
    Hint(
        "compare its value, as in estimate.value > 0",
        lambda c: bool(fd.private_count([1.0], epsilon=1.0)),
        lambda c: fd.private_count([1.0], epsilon=1.0).value > 0,
    ),
    Hint(
        "use float(estimate)",
        lambda c: fd.private_mean([1.0], bounds=(0, 1), epsilon=1.0)[0],
        lambda c: float(fd.private_mean([1.0], bounds=(0, 1), epsilon=1.0)),
    ),
    Hint(
        "add their values, as in a.value + b.value",
        lambda c: fd.private_count([1.0], epsilon=1.0) + fd.private_count([1.0], epsilon=1.0),
        lambda c: fd.private_count([1.0], epsilon=1.0).value + fd.private_count([1.0], epsilon=1.0).value,
    ),
    Hint(
        'as in {"age": (0, 120)}',
        lambda c: fd.statistics.release(TABLE, sums=["age"], epsilon=1.0),
        lambda c: fd.statistics.release(TABLE, sums={"age": (0, 120)}, epsilon=1.0),
    ),
    Hint(
        'bounds, got list; as in {"age": (0, 120)}',
        lambda c: fd.statistics.private_quantile_bins(TABLE, 2, bounds=[0, 120], epsilon=1.0),
        lambda c: fd.statistics.private_quantile_bins(TABLE, 2, bounds={"age": (0, 120)}, epsilon=1.0),
    ),
    Hint(
        'a column, got none; as in {"age": (0, 120)}',
        lambda c: fd.statistics.private_quantile_bins(TABLE, 2, bounds={}, epsilon=1.0),
        lambda c: fd.statistics.private_quantile_bins(TABLE, 2, bounds={"age": (0, 120)}, epsilon=1.0),
    ),
    Hint(
        "write count=True",
        lambda c: fd.statistics.release(TABLE, count=False, sums={}, epsilon=1.0),
        lambda c: fd.statistics.release(TABLE, count=True, sums={}, epsilon=1.0),
    ),
]
"""Of columns, groups and tables."""

SUMS = [
    Hint(
        "see ClippedSum.state",
        lambda c: pickle.dumps(fd.ClippedSum((2,), clip_norm=1.0)),
        lambda c: fd.ClippedSum((2,), clip_norm=1.0).state(),
    ),
    Hint(
        "start a new one",
        lambda c: released_sum().add(np.zeros(2)),
        lambda c: fd.ClippedSum((2,), clip_norm=1.0).add(np.zeros(2)),
    ),
    Hint(
        "or write shapes, such as (3,)",
        lambda c: fd.ClippedSum(np.zeros(3), clip_norm=1.0, dtype="float32"),
        lambda c: fd.ClippedSum((3,), clip_norm=1.0, dtype="float32"),
    ),
    Hint(
        "give it that shape, or the template another",
        lambda c: fd.ClippedSum((3,), clip_norm=1.0).add(np.zeros(2)),
        lambda c: fd.ClippedSum((3,), clip_norm=1.0).add(np.zeros(3)),
    ),
    Hint(
        "convert it with .astype(float32)",
        lambda c: fd.ClippedSum((3,), clip_norm=1.0, dtype="float32").add(np.zeros(3)),
        lambda c: fd.ClippedSum((3,), clip_norm=1.0, dtype="float32").add(np.zeros(3).astype("float32")),
    ),
    Hint(
        "make the mechanism with dimension=2",
        lambda c: fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1).release(np.zeros(2, int)),
        lambda c: fd.DiscreteGaussianMechanism(scale=2.0, l2_sensitivity=1, dimension=2).release(np.zeros(2, int)),
    ),
    Hint(
        "for example numpy.array([5, 1], numpy.uint64)",
        lambda c: fd.ExponentialMechanism(scale=1.0, sensitivity=1.0).release_from_runs(
            [3.0, 1.0], np.array([5, 1]), max
        ),
        lambda c: fd.ExponentialMechanism(scale=1.0, sensitivity=1.0).release_from_runs(
            [3.0, 1.0], np.array([5, 1], np.uint64), max
        ),
    ),
    Hint(
        "for example [3.0, 1.0], one utility a candidate",
        lambda c: fd.PermuteAndFlip(scale=1.0, sensitivity=1.0).release([]),
        lambda c: fd.PermuteAndFlip(scale=1.0, sensitivity=1.0).release([3.0, 1.0]),
    ),
    Hint(
        "hold one instead",
        lambda c: type("Child", (fd.random.BitGenerator,), {}),
        lambda c: np.random.Generator(fd.random.BitGenerator()),
    ),
    Hint(
        "for example dtype=numpy.float64",
        lambda c: fd.NoiseSource().gaussian(3, standard_deviation=1.0, dtype="float16"),
        lambda c: fd.NoiseSource().gaussian(3, standard_deviation=1.0, dtype=np.float64),
    ),
]
"""Of sums, mechanisms and noise."""


def answered() -> Any:
    """Return a sparse vector that has given its answers."""
    run = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=19.0)
    while run.remaining:
        run.query(1e6)
    return run


def ticketed(c: Any, relation: NeighboringRelation) -> object:
    """Count what a ticket for a Poisson sample pays for."""
    name = f"t-{relation.value}"
    c.ledger.create(name, epsilon=9.0, delta=0, measure="pure", neighboring_relation=relation)
    inner = DiscreteLaplaceEvent(scale=1.0, l1_sensitivity=1)
    ticket = c.ledger.reserve(name, PoissonSampledEvent(sampling_probability=0.1, event=inner))
    return fd.private_count([1.0], epsilon=1.0, neighboring_relation=relation, ticket=ticket)


HINTS = [
    *DOORS,
    *STATISTICS,
    *SUMS,
    *ACCOUNTING,
    Hint(
        "use fewer bins or columns",
        lambda c: fd.private_marginals(TABLE, 2, bins={"age": np.arange(6e6)}, categories=COLUMNS, **MATRIX),
        lambda c: fd.private_marginals(TABLE, 1, bins={"age": np.arange(5.0)}, **MATRIX),
    ),
    Hint(
        "leave constant columns out",
        lambda c: models.private_moments(np.zeros((3, 2)), bounds=([0, 0], [1, 0]), **MATRIX),
        lambda c: models.private_moments(np.zeros((3, 2))[:, :1], bounds=([0], [1]), **MATRIX),
    ),
    Hint(
        "to name a column pass a DataFrame or a dict of columns",
        lambda c: models.private_moments(np.zeros((3, 1)), bounds=(0, 1), unit="who", **MATRIX),
        lambda c: models.private_moments({"who": [1, 2, 2], "x": [0.0] * 3}, bounds=(0, 1), unit="who", **MATRIX),
    ),
    Hint(
        'where rows are no table, got dict; as in [["f", "m"], [0, 1, 2]]',
        lambda c: categorical([["f", 1], ["m", 0]], {"sex": ["f", "m"]}),
        lambda c: categorical([["f", 1], ["m", 0]], [["f", "m"], [0, 1, 2]]),
    ),
    Hint(
        'a dict from names of columns says which are read, as in {"sex": ["f", "m"]}',
        lambda c: categorical({"sex": ["f", "m"], "age": [1, 2]}, [["f", "m"]]),
        lambda c: categorical({"sex": ["f", "m"], "age": [1, 2]}, {"sex": ["f", "m"]}),
    ),
    Hint(
        'categories must name a column, got none; as in {"sex": ["f", "m"]}',
        lambda c: categorical({"sex": ["f", "m"]}, {}),
        lambda c: categorical({"sex": ["f", "m"]}, {"sex": ["f", "m"]}),
    ),
    Hint(
        "put rare values into one",
        lambda c: categorical([[1], [2]], [np.arange(6_000_000)]),
        lambda c: categorical([[1], [2]], [range(3)]),
    ),
    Hint(
        "the noise of these sums is Gaussian; for example delta=1e-6",
        lambda c: models.private_moments(np.zeros((3, 2)), bounds=(0, 1), epsilon=1.0, delta=0),
        lambda c: models.private_moments(np.zeros((3, 2)), bounds=(0, 1), epsilon=1.0, delta=1e-6),
    ),
    Hint(
        "begin a new run, which costs as much again",
        lambda c: answered().query(1.0),
        lambda c: fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0).query(1.0),
    ),
    Hint(
        "no answer stands for one; use REPLACE_ONE",
        lambda c: block(
            lambda: fd.RandomizedResponse(noise_parameter=0.5).release([0]), epsilon=9.0, neighboring_relation=SPECIAL
        ),
        lambda c: block(
            lambda: fd.RandomizedResponse(noise_parameter=0.5).release([0]), epsilon=9.0, neighboring_relation=REPLACE
        ),
    ),
    Hint(
        "null rows are rows; use ADD_OR_REMOVE_ONE",
        lambda c: ticketed(c, SPECIAL),
        lambda c: ticketed(c, REMOVE),
    ),
    Hint(
        "messages must be uint64, got int64: give what `release` returned",
        lambda c: SETS.estimate_frequencies(np.ones((3, 1), np.int64)),
        lambda c: SETS.estimate_frequencies(SETS.release([3, 7])),
    ),
]
