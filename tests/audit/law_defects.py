"""Defects of `tests/mutants` that change what is released, and which audit finds each: `python law_defects.py [TEXT]`.

Each defect of a Python source is applied to a copy of `python/`, and its audit is run there; the command prints what
found it, and fails if anything was missed. ``--sound N`` runs the audits N times on the sources as they are instead,
and fails if one raises an alarm. Law tests are wrong in a run of a thousand at most, bounds likewise.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp.audit import audit_callable, audit_code, audit_mechanism
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.training import train

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import mutants  # noqa: E402

REPLACE = NeighboringRelation.REPLACE_ONE
VALUES = np.array([0.0, 3.0, 9.0, 30.0, -40.0, 9.0])
MANY = 400_000


def mechanism(made: object, epsilon: float | None = None, delta: float = 1e-5, draws: int = MANY) -> bool:
    report = audit_mechanism(made, epsilon=epsilon, delta=delta, draws=draws)  # type: ignore[arg-type]
    return report.violation or report.law_holds is False


def function(release_many: Callable[..., object], neighbors: tuple[object, object], **claim: float) -> bool:
    claim = {"epsilon": 1.0, "delta": 0.0, "draws": 20_000} | claim
    return audit_callable(None, neighbors=neighbors, release_many=release_many, **claim).violation  # type: ignore[arg-type]


def code(
    run: Callable[[np.ndarray], object],
    data: np.ndarray = VALUES,
    *,
    rows: int = 1,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    epsilon: float = 1.0,
) -> bool:
    others = [np.delete(data, range(i, min(i + rows, len(data)))) for i in range(len(data) - rows + 1)]
    if relation is REPLACE:
        others = [
            np.concatenate([data[:i], [to], data[i + 1 :]]) for i in range(len(data)) for to in (-50.0, 0.0, 50.0)
        ]
    return any(
        audit_code(
            run,
            data,
            others,
            accounted=EpsilonDeltaEvent(epsilon=epsilon),
            neighboring_relation=relation,
        ).violation
        for _ in range(3)
    )


def rows_of_noise() -> bool:
    """Whether two coordinates of one release have the same noise: their difference would tell values apart."""
    made = fd.GaussianMechanism(noise_multiplier=4.0, l2_sensitivity=1.0)
    integers = fd.DiscreteLaplaceMechanism(scale=4)

    def differences(value: float, n: int) -> np.ndarray:
        noised = made.release(np.tile([value, 0.0], (n, 1)))
        return noised[:, 0] - noised[:, 1]

    def of_integers(value: int, n: int) -> np.ndarray:
        noised = integers.release(np.tile(np.array([value, 0]), (n, 1)))
        return noised[:, 0] - noised[:, 1]

    return function(differences, (0.0, 1.0), delta=1e-5) or function(of_integers, (0, 1))


def drawn(law: str) -> bool:
    """Whether noise that a source draws has the stated law: as that of a mechanism whose scale is known."""

    class FromSource(fd.GaussianMechanism):
        def release(self, value, **options):  # type: ignore[no-untyped-def,override]
            noised = options["out"]
            noised[...] = value
            fd.NoiseSource().add_gaussian_(noised, standard_deviation=self.standard_deviation)
            return noised

    assert law == "gaussian"
    return mechanism(FromSource(noise_multiplier=3.0, l2_sensitivity=1.0))


def doubles(kind: type) -> bool:
    """Whether noise of double precision, and of vectors that one thread draws in many chunks, has the stated law."""

    class Doubles(kind):  # type: ignore[misc,valid-type]
        def release(self, value, **options):  # type: ignore[no-untyped-def]
            out = options["out"]
            out[...] = super().release(np.asarray(value, dtype=np.float64))
            return out

    name = "l2_sensitivity" if kind is fd.GaussianMechanism else "l1_sensitivity"
    scale = "noise_multiplier" if kind is fd.GaussianMechanism else "scale"
    return mechanism(Doubles(**{scale: 3.0, name: 1.0}), draws=2_000_000)


def scales_of_integers(kind: type) -> bool:
    """Whether integers have the stated law where tables are of numbers, of blocks, and of blocks beyond a word."""
    name = "l2_sensitivity" if kind is fd.DiscreteGaussianMechanism else "l1_sensitivity"
    return any(
        mechanism(kind(**{"scale": scale, name: 1}), epsilon=50.0, delta=1e-3, draws=1_000_000)
        for scale in (0.6, 2.0, 50.0, 3000.0, 1e7, 1e14)
    )


def batch() -> bool:
    def run(rows: np.ndarray) -> object:
        total = fd.ClippedSum((2,), clip_norm=1.0)
        total.add_many(rows)
        return total.release(noise_multiplier=2.0)

    rows = np.array([[30.0, 4.0], [0.3, -0.2], [-20.0, 1.0], [-6.0, -3.0]])  # whose sum turns if the first is missing
    accounted = fd.events.GaussianEvent(noise_multiplier=2.0)
    return audit_code(run, rows, accounted=accounted).violation


def sum_noise() -> bool:
    """Whether a sum with a clip norm of 2 has the noise that its multiplier says."""

    def release(rows: np.ndarray, n: int) -> np.ndarray:
        total = fd.ClippedSum((n,), clip_norm=2.0)
        total.add_many(rows * np.ones((1, n)) / n**0.5)
        return total.release(noise_multiplier=1.0)[:, None] - 0.0

    made = release(np.array([[0.0]]), 100_000)[:, 0]
    return bool(abs(made.std() / 2.0 - 1.0) > 0.05)


def answers() -> bool:
    made = fd.RandomizedResponse(noise_parameter=0.5, num_categories=2)
    return function(lambda value, n: made.release(np.full(n, value)), (0, 1), epsilon=made.epsilon())


def integers() -> bool:
    made = fd.DiscreteLaplaceMechanism(scale=1)
    return function(lambda value, n: made.release(np.full(n, value)), (0, 1))


def choices(kind: type) -> bool:
    made = kind.calibrated(epsilon=1.0, sensitivity=1.0)  # type: ignore[attr-defined]
    scores = (np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0]))
    return function(
        lambda value, n: np.array([made.release(value) for _ in range(n)]), scores, epsilon=1.0, draws=10_000
    )


def vectors(kind: str) -> bool:
    """Whether two coordinates that move together cost what is stated for them."""
    if kind == "gaussian":
        vector = fd.DiscreteGaussianMechanism(scale=3.0, l2_sensitivity=15.0**0.5, dimension=15)

        def sums(value: int, n: int) -> np.ndarray:
            return np.array([vector.release(np.full(15, value)).sum() for _ in range(n)])

        return function(sums, (0, 1), epsilon=vector.epsilon(0.01), delta=0.01, draws=30_000)
    pair = fd.DiscreteLaplaceMechanism(scale=2, l1_sensitivity=2)
    return function(lambda value, n: pair.release(np.full((n, 2), value)).sum(axis=1), (0, 1), epsilon=pair.epsilon())


def answered(value: tuple[float, ...], epsilon: float = 1.0) -> list[bool]:
    """Return the answers to a sequence of queries, as far as two may be positive."""
    vector = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=epsilon, max_answers=2)
    found: list[bool] = []
    with contextlib.suppress(fd.errors.FerroError):
        found.extend(vector.query(query) for query in value)
    return found


def queries() -> bool:
    """Answers after one another, where queries that are to be negative rise and those to be positive fall."""

    def many(value: tuple[float, ...], n: int) -> np.ndarray:
        runs = np.full((n, len(value)), -1.0)
        for i in range(n):
            bits = answered(value, 3.0)
            runs[i, : len(bits)] = bits
        return runs

    return function(many, ((-0.3,) * 5 + (1.0,) * 3, (0.7,) * 5 + (0.0,) * 3), epsilon=3.0, draws=50_000)


def long_run() -> bool:
    """How many queries are negative before the first positive one, where all of them rise."""

    def first(value: float, n: int) -> np.ndarray:
        counts = np.empty(n)
        for i in range(n):
            vector = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=3.0)
            counts[i] = next((j for j in range(24) if vector.query(value)), 24)
        return counts

    return function(first, (-1.5, -0.5), epsilon=3.0, draws=30_000)


def answers_of_a_run() -> bool:
    return sum(answered((1e9,) * 5)) > 2


def training() -> bool:
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=60)
    model = train(np.eye(3)[labels], labels, epsilon=4.0, delta=1e-5, classes=range(3), audit_canaries=1000)
    return model.audit is None or model.audit.violation


ONES = np.ones(6)
AUDITS: dict[str, Callable[[], bool]] = {
    "Gaussian": lambda: mechanism(
        fd.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, l2_sensitivity=2.0), epsilon=1.0
    ),
    "Gaussian, small sensitivity": lambda: mechanism(
        fd.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, l2_sensitivity=0.25), epsilon=1.0
    ),
    "Gaussian, fine": lambda: mechanism(
        fd.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0), epsilon=1.0, draws=4_000_000
    ),
    "Laplace": lambda: mechanism(
        fd.LaplaceMechanism.calibrated(epsilon=1.0, l1_sensitivity=2.0), epsilon=1.0, delta=0.0
    ),
    "discrete Gaussian": lambda: mechanism(
        fd.DiscreteGaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, l2_sensitivity=2), epsilon=1.0, draws=2_000_000
    ),
    "discrete Laplace": lambda: mechanism(fd.DiscreteLaplaceMechanism(scale=2), delta=0.0, draws=2_000_000),
    "discrete Gaussian of many scales": lambda: scales_of_integers(fd.DiscreteGaussianMechanism),
    "discrete Laplace of many scales": lambda: scales_of_integers(fd.DiscreteLaplaceMechanism),
    "Gaussian doubles": lambda: doubles(fd.GaussianMechanism),
    "Laplace doubles": lambda: doubles(fd.LaplaceMechanism),
    "noise of a source": lambda: drawn("gaussian"),
    "coordinates": rows_of_noise,
    "batch": batch,
    "noise of a sum": sum_noise,
    "answers": answers,
    "integers": integers,
    "exponential mechanism": lambda: choices(fd.ExponentialMechanism),
    "permute and flip": lambda: choices(fd.PermuteAndFlip),
    "vectors of integers": lambda: vectors("gaussian"),
    "two integers": lambda: vectors("laplace"),
    "queries": queries,
    "long run": long_run,
    "answers of a run": answers_of_a_run,
    "training": training,
    "sum": lambda: code(lambda d: fd.private_sum(d, bounds=(0.0, 10.0), epsilon=1.0).value),
    "sum, replaced": lambda: code(
        lambda d: fd.private_sum(d, bounds=(-10.0, 10.0), epsilon=1.0, neighboring_relation=REPLACE).value,
        relation=REPLACE,
    ),
    "sum, several rows": lambda: code(
        lambda d: fd.private_sum(d, bounds=(0.0, 10.0), epsilon=1.0, max_contributions=3).value, rows=3, data=9.0 * ONES
    ),
    "mean": lambda: code(lambda d: fd.private_mean(d, bounds=(0.0, 10.0), epsilon=1.0).value),
    "count": lambda: code(lambda d: fd.private_count(d, epsilon=1.0).value),
    "histogram": lambda: code(lambda d: fd.private_histogram(d, bins=[-50.0, 0.5, 5.0, 10.0, 60.0], epsilon=1.0).value),
    "histogram, replaced": lambda: code(
        lambda d: (
            fd.private_histogram(d, bins=[-60.0, 0.5, 5.0, 10.0, 60.0], epsilon=1.0, neighboring_relation=REPLACE).value
        ),
        relation=REPLACE,
    ),
    "histogram, several rows": lambda: code(
        lambda d: fd.private_histogram(d, bins=[-50.0, 0.5, 5.0, 10.0, 60.0], epsilon=1.0, max_contributions=3).value,
        rows=3,
        data=9.0 * ONES,
    ),
    "histogram of one bin, several rows": lambda: code(
        lambda d: fd.private_histogram(d, bins=[-50.0, 0.5, 60.0], epsilon=1.0, delta=1e-6, max_contributions=3).value,
        rows=3,
        data=9.0 * ONES,
    ),
    "variance": lambda: code(lambda d: fd.private_variance(d, bounds=(0.0, 10.0), epsilon=1.0).value),
    "quantile": lambda: code(lambda d: fd.private_quantile(d, 0.9, bounds=(0.0, 10.0), epsilon=1.0).value),
    "quantiles": lambda: code(
        lambda d: [each.value for each in fd.private_quantiles(d, [0.25, 0.75], bounds=(0.0, 10.0), epsilon=1.0)]
    ),
    "bounds": lambda: code(lambda d: fd.private_bounds(d, epsilon=1.0).value),
}
"""Each returns whether it raised an alarm."""

FOUND_BY: dict[str, tuple[str, ...]] = {
    "the noise covers half the sensitivity, as if replacing were adding": ("Gaussian",),
    "the noise is divided by the sensitivity": ("Gaussian",),
    "epsilon and delta are swapped in a calibration": ("Gaussian",),
    "Laplace noise is calibrated to 80 % of what is due": ("Laplace",),
    "epsilon and delta of integers are swapped in a calibration": ("discrete Gaussian",),
    "a scale is taken for a variance": ("noise of a source",),
    "noise is drawn once per row": ("coordinates",),
    "integer noise is drawn once per row": ("coordinates",),
    "zeros are released without integer noise": ("integers",),
    "a batch is clipped after it was summed": ("batch",),
    "truth and lie are told apart by half of what they are": ("answers",),
    "a vector is accounted as one integer": ("vectors of integers",),
    "the L1 distance is taken for one": ("two integers",),
    "the noise of a query serves all": ("queries",),
    "answers are not counted": ("answers of a run",),
    "the noise of the threshold is drawn for every query": ("long run",),
    "scales are those for one answer fewer": ("queries",),
    "queries that need not move together are treated as if they did": ("queries",),
    "each of several quantiles gets the whole budget": ("quantiles",),
    "a column is clamped after it was summed": ("sum",),
    "a replaced row moves a sum as little as one that comes": ("sum, replaced",),
    "a row that comes moves a sum by half of what it can": ("sum",),
    "several rows of a unit move a sum by one": ("sum, several rows",),
    "number and sum of a mean get the whole budget each": ("mean",),
    "a mean is divided by the true number of rows": ("mean",),
    "a replaced row moves one bin": ("histogram, replaced",),
    "rows of one unit are taken to fall into different bins": ("histogram of one bin, several rows",),
    "empty bins get no noise": ("histogram",),
    "ranks move by the smaller share": ("quantile",),
    "bounds follow from bare counts": ("bounds",),
}
"""Names of defects and the audits that find them."""


NOT_FOUND: dict[str, str] = {
    "a part of a variance is drawn with noise that nobody paid for": "tickets alone differ; what is released does not",
}
"""Defects that change what is released, or its cost, and that no audit here finds, with the reason."""


def defects() -> list[Any]:
    """Return the defects of the table."""
    return [each for each in mutants.MUTANTS if each.name in FOUND_BY]


def alarms(names: tuple[str, ...], tree: Path) -> list[str]:
    """Return which of some audits raise an alarm in a copy."""
    script = f"import law_defects as d\nfor n in {names!r}:\n    print('ALARM' if d.AUDITS[n]() else 'quiet', n)"
    environment = os.environ | {"PYTHONPATH": f"{tree / 'python'}:{Path(__file__).parent}"}
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    return [line[6:] for line in ran.stdout.splitlines() if line.startswith("ALARM ")]


def main() -> int:
    """Run what the command line asks for, and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--sound", type=int, default=0)
    args = parser.parse_args()
    if args.sound:
        wrong = {name: sum(audit() for _ in range(args.sound)) for name, audit in AUDITS.items() if args.text in name}
        print("\n".join(f"{count:4} of {args.sound}  {name}" for name, count in wrong.items()))
        return int(any(wrong.values()))
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / "python", tree / "python", ignore=shutil.ignore_patterns("__pycache__"))
        for defect in defects():
            if args.text not in defect.name:
                continue
            file = tree / mutants.file_of(defect, ROOT).relative_to(ROOT)
            before = file.read_text(encoding="utf-8")
            file.write_text(defect.applied(before), encoding="utf-8")
            found = alarms(FOUND_BY[defect.name], tree)
            file.write_text(before, encoding="utf-8")
            missed += not found
            print("found " if found else "MISSED", defect.name, "|", ", ".join(found), flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
