"""Audits of rounds, plans, parts of sums and messages of clients: releases with little noise, and exact rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
from alarms import function
from exact_audits import passes
from noise_audits import fails

import ferrodp as fd
from ferrodp import plan as plans
from ferrodp.distributed import clipped_sum, tree
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, GaussianDifferentialPrivacy, Sampling, _sums
from ferrodp.events import NeighboringRelation
from ferrodp.federated import SecureSum, ShuffledReports, masking
from ferrodp.federated._moduli import MODULI
from ferrodp.sums import UnitRows, absolute
from ferrodp.training.softmax import _Fitting, exact_scores, recipe

NEAR = 0.02
"""Hundreds of standard deviations of the noise here, where it is little."""


def engine(mechanism: str = "gaussian", noise: float = 1e-4, **options: Any) -> DifferentialPrivacyEngine:
    settings: dict[str, Any] = {"target_epsilon": 1e12, "sampling_rate": 1.0, "accounting": "basic"}
    return DifferentialPrivacyEngine(DPConfig(mechanism, noise_multiplier=noise, **(settings | options)))  # type: ignore[arg-type]


def is_far(found: Any, expected: Any) -> bool:
    return not np.abs(np.asarray(found, dtype=np.float64) - expected).max() < NEAR


def rounds() -> bool:
    """Whether a round is another sum than that of clipped updates, or its noise another one."""
    rows = np.random.default_rng(41).normal(size=(300, 30))
    for mechanism, power in (("gaussian", 2), ("laplace", 1), ("discrete_gaussian", 2)):
        full = 6.0 ** (-1.0 / power)
        for denominator in (None, 4.0):
            found = engine(mechanism).round([{"w": np.full(6, 10.0)}], template={"w": (6,)}, denominator=denominator)[
                "w"
            ]
            if is_far(found, full / (denominator or 1.0)):
                return True
        try:
            engine(mechanism).round({"w": rows}, template={"w": (30,)})
        except fd.errors.FerroError:  # rows that were clipped are beyond the bound
            return True
        noise = engine(mechanism, 1.0).round([], template={"w": (4000,)})["w"]
        if not 0.7 < np.mean(np.square(noise)) / (2.0 if mechanism == "laplace" else 1.0) < 1.4:
            return True
    with mock.patch.object(absolute, "clip_rows", lambda rows, **_: (rows, None)):  # as if another thread wrote to them
        return passes(lambda: engine("laplace").round([{"w": np.ones(6)}], template={"w": (6,)}))


def types_of_updates() -> bool:
    """Whether a counter is summed, or updates of other types than the template are."""
    template: dict[str, Any] = {"w": np.zeros(3), "steps": np.array([7])}
    if passes(lambda: engine().round([template], template=template, cast=np.float64)):
        return True
    try:
        found = engine().round([template], template=template, cast=np.float64, skip=("steps",))
    except fd.errors.FerroError:
        return True
    if "steps" in found:
        return True
    mixed = {"w": np.zeros(3), "b": np.zeros(2, np.float32)}
    stacked = {"w": np.zeros((4, 3), np.float32), "b": np.zeros((4, 2))}
    return passes(lambda: engine().round(stacked, template=mixed, cast=np.float64))


def noise_on_a_grid() -> bool:
    """Whether floats are cut toward zero, and noise covers what the cut may add."""
    step = 2.0**-29
    made = engine("discrete_gaussian", 4e-11)
    values = np.array([0.75, 1.75, -0.75, 2.5]) * step
    found = made.add_noise({"w": values}, made.config)["w"]
    if not np.array_equal(found, np.trunc(values / step) * step):
        return True
    seen: list[Any] = []
    with mock.patch.object(_sums, "_release", lambda mechanism, *_: seen.append(mechanism)):
        made.add_noise({"w": np.zeros(100)}, made.config)
    return bool(Fraction(seen[0].l2_sensitivity) < Fraction(1.0 / step) + 10)


def samples_of_engines() -> bool:
    """Whether a sample is larger than the stated share, or noise less than the target asks for, or said to be so."""
    config = DPConfig(sampling_rate=0.1)
    made = DifferentialPrivacyEngine(config, sampling=Sampling.UNIFORM, population_size=100)
    if len(made.sample()) != 10:
        return True
    for accounting in ("renyi", "zcdp", "pld", "basic", "advanced", "optimal"):
        for epsilon in (0.5, 1.0, 2.0):
            asked = DifferentialPrivacyEngine(DPConfig(accounting=accounting, sampling_rate=1.0))  # type: ignore[arg-type]
            try:
                noise = asked.get_noise_multiplier(epsilon, 1e-5, 1.0, 10)
            except fd.errors.CalibrationError:  # what a search found is not enough: there is noise that is
                return True
            settings: dict[str, Any] = {"accounting": accounting, "sampling_rate": 1.0, "noise_multiplier": noise}
            report = asked.compute_privacy_spent(DPConfig(**settings), 10)
            if report.epsilon_spent > epsilon:
                return True
    return False


def models() -> bool:
    """Whether a model is longer than the clip norm before it is noised."""
    made = GaussianDifferentialPrivacy(1.0)
    found = made.apply_privacy({"w": np.full(4, 1e9)}, 1.0, 1e-5)
    return bool(np.abs(found["w"]).max() > 1e3)


def partitions() -> bool:
    """Whether a sum of partitions is that of all updates, each once."""
    rng = np.random.default_rng(42)
    parts = [rng.normal(size=(3, 4)) for _ in range(150)]
    whole = fd.ClippedSum((4,), clip_norm=1.0, stability=0.5)
    for part in parts:
        whole.add_many(part)
    found = clipped_sum(parts, (4,), clip_norm=1.0, stability=0.5, stacked=True)
    if found.stability != 0.5 or found.count != 450 or not np.array_equal(found.integers, whole.integers):
        return True
    options: dict[str, Any] = {"stability": 0.5, "dtype": None, "load": None, "stacked": True}
    leaf = tree.start((4,), clip_norm=1.0, **options)[1]
    groups = tree.grouped(tree.distinct(parts, leaf), 150, 1, lambda _: False)
    root = tree.reduced(groups, lambda _, group: leaf(*group), lambda _height, _number, nodes: tree.join(*nodes))
    if not np.array_equal(fd.ClippedSum.from_state(root).integers, whole.integers):
        return True
    pair = (parts[0],)
    for twice in ([parts[0], parts[0]], ["a.npy", "./a.npy"], [1, 1], [pair, pair]):
        if passes(lambda twice=twice: list(tree.distinct(twice, leaf))):
            return True
    return tree.repeatable([iter(parts)]) or again(parts)


def again(parts: list[np.ndarray]) -> bool:
    """Whether a partition that is loaded again counts with each attempt."""
    tries: list[int] = []

    def load(number: int) -> Iterator[np.ndarray]:
        yield parts[number][0]
        if number == 1 and len(tries) < 2:
            tries.append(number)
            raise OSError("not there")

    options: dict[str, Any] = {"stability": None, "dtype": None, "load": load, "stacked": False, "retries": 3}
    leaf = tree.start((4,), clip_norm=1.0, **options)[1]
    return fd.ClippedSum.from_state(leaf(0, 1, 2)).count != 3


def started(clipping: Any, template: Any, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "population_size": 100,
        "sampling": plans.FullBatch(),
        "num_steps": 6,
        "noise": plans.ConstantNoise(1e-4),
        "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL,
    }
    return plans.PrivacyPlan(clipping=clipping, **(settings | options)).start(template)


def groups_of_plans() -> bool:
    """Whether groups of parameters are added together or not at all, and noised for the joint norm."""
    clipping = plans.PerGroupClipping({"a": 0.3, "b": 0.4})
    step = next(started(clipping, {"a": (2,), "b": (3,)}))
    good, bad = {"a": np.ones((100, 2)), "b": np.ones((100, 3))}, {"a": np.ones((100, 2)), "b": np.ones((100, 4))}
    other = {"a": np.ones((60, 2)), "b": np.ones((50, 3))}
    if passes(lambda: step.add(bad)) or passes(lambda: step.add(other)):
        return True
    one = {"a": np.ones(2), "b": np.ones(4)}
    none = {"a": np.zeros(2), "b": np.zeros(3)}
    if passes(lambda: step._sum.add_one(one, none)) or any(each.count for each in step._sum._totals.values()):
        return True
    step.add(good)
    released = step.release(denominator=1.0)
    if is_far(released["a"] / 100, 0.3 / math.sqrt(2)) or is_far(released["b"] / 100, 0.4 / math.sqrt(3)):
        return True
    wide = next(started(clipping, {"a": (4000,), "b": (3,)}, noise=plans.ConstantNoise(1.0)))
    wide.add({"a": np.zeros((100, 4000)), "b": np.zeros((100, 3))})
    return bool(not 0.45 < np.std(wide.release(denominator=1.0)["a"]) < 0.55)


def laplace_of_plans() -> bool:
    """Whether rows are clipped in L1 norm, and the noise of their sum has the scale that is charged."""
    clipping = plans.L1Clipping(0.7)
    step = next(started(clipping, (4,)))
    step.add(np.ones((100, 4)))
    if is_far(step.release(denominator=1.0) / 100, 0.7 / 4):
        return True
    wide = next(started(clipping, (40_000,), noise=plans.ConstantNoise(2.0)))
    wide.add(np.zeros((100, 40_000)))
    # The mean of |x| is the scale, 1.4; seven standard errors of it are 0.05.
    return bool(not 1.35 < np.abs(wide.release(denominator=1.0)).mean() < 1.45)


def adaptive_norms() -> bool:
    """Whether the clip norm moves with the share of rows within it, and in the right direction."""
    clipping = plans.AdaptiveClipping(1.0, 0.5, 0.2, count_noise_multiplier=1.0)
    for value, moved in ((0.01, -0.1), (9.0, 0.1), (np.where(np.arange(400) < 300, 0.01, 9.0).reshape(100, 4), -0.05)):
        run = started(clipping, (4,))
        step = next(run)
        step.add(np.broadcast_to(value, (100, 4)).copy())
        step.release()
        if is_far(math.log(run.clip_norm), moved):
            return True
    return False


def divisors() -> bool:
    """Whether a sum is divided by how many rows there were, and a batch is as large as stated."""
    run = started(
        plans.FlatClipping(1.0),
        (1,),
        sampling=plans.PoissonSampling(0.5),
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    for step in run:
        count = len(step.indices)
        step.add(np.ones((count, 1)))
        if is_far(step.release() * 50.0, count):
            return True
    step = next(started(plans.FlatClipping(1.0), (1,), sampling=plans.GivenOrder(8)))

    def larger() -> None:
        step.add(np.ones((9, 1)))
        step.release()

    return passes(larger)


def secure_sums() -> bool:
    """Whether each client adds its share of noise, and sums stay within the modulus."""
    for clip in (0.3, 0.7, 1.0, 1.1):
        for noise in (0.7, 1.0, 1.3):
            for least in (2, 3, 5, 7):
                made = SecureSum((4,), clip_norm=clip, noise_multiplier=noise, min_clients=least, max_clients=12)
                steps = Fraction(clip) / Fraction(made.granularity)
                if Fraction(made.share_scale) ** 2 * least < (Fraction(noise) * steps) ** 2:
                    return True
    for noise in (1.0, 1000.0):
        made = SecureSum((4000,), clip_norm=1.0, noise_multiplier=noise, min_clients=1, max_clients=1)
        total = made.zero()
        made.add(total, made.encode(np.zeros(4000)))
        if not 0.8 < np.std(made.decode(total, num_clients=1).value) / noise < 1.2:
            return True
    for modulus, ring in MODULI.items():
        vectors = {i: np.arange(-3, 4, dtype=np.int64) * (i + 1) for i in range(4)}
        messages = {i: ring.reduced(each) for i, each in vectors.items()}
        found, _ = masking.masked_sum(modulus, messages, threshold=3)
        if ring.centered(found).tolist() != sum(vectors.values()).tolist():  # type: ignore[union-attr]
            return True
    return False


def bits_of_reports() -> bool:
    """Whether a report tells more of a vector than its ε."""
    made = ShuffledReports(
        (1,), clip_norm=1.0, noise_multiplier=200.0, num_clients=1000, rotation_seed=bytes(32), coordinate_bound=1.0
    )
    return function(
        lambda value, n: np.array([made.encode(np.array([value]))[1] for _ in range(n)]),
        (-1.0, 1.0),
        epsilon=made.local_epsilon,
        draws=4000,
    )


def records_alone() -> bool:
    """Whether the gradient of a record depends on the records beside it, or one without a class has any."""
    rng = np.random.default_rng(43)
    for n, d, classes in ((65, 137, 10), (500, 20, 10), (200, 64, 3)):
        fitting = _Fitting(
            recipe(epsilon=1.0, delta=1e-5, num_records=n, num_features=d),
            rng.normal(size=(n, d)),
            rng.integers(classes, size=n),
            classes,
        )
        fitting.weights = rng.normal(size=fitting.weights.shape) * 10
        rows = fitting._prepared()
        units = UnitRows(rng.normal(size=(n, d)))
        weights = rng.normal(size=(classes, d))
        errors, scores = fitting._errors(rows, fitting._targets), exact_scores(units, weights)
        for size in (1, 2, 3, n // 2):
            some = np.sort(rng.permutation(n)[:size])
            if not np.array_equal(fitting._errors(rows[some], fitting._targets[some]), errors[some]):
                return True
            if not np.array_equal(exact_scores(units[some], weights), scores[some]):
                return True
        if fitting._errors(rows, np.full(n, -1)).any():
            return True
    return False


AUDITS: dict[str, Callable[[], bool]] = {
    "rounds": lambda: fails(rounds),
    "types of updates": types_of_updates,
    "noise on a grid": noise_on_a_grid,
    "samples of engines": samples_of_engines,
    "models": models,
    "partitions": lambda: fails(partitions),
    "groups of plans": groups_of_plans,
    "Laplace noise of plans": laplace_of_plans,
    "adaptive norms": adaptive_norms,
    "divisors": divisors,
    "secure sums": secure_sums,
    "bits of reports": bits_of_reports,
    "records alone": records_alone,
}
"""Whether an audit raises an alarm: by chance less often than `alarms.LEVEL` says."""
