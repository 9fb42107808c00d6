"""Audits of this library's own releases: each is a function that returns whether it raised an alarm.

All of them together raise a false alarm in 200 runs with probability 0.1 % at most: `LEVEL` is the share of one test.
`python own_audits.py [TEXT]` runs them; ``--runs N`` so often, where those that take more than ``--seconds`` take
part in the first one only.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Callable

import clipping_audits
import exact_audits
import finite_audits
import noise_audits
import numpy as np
import party_audits
import process_audits
import replay_audits
import secure_audits
import statistics_audits
import tables_audits
import tree_audits
from alarms import CONFIDENCE, REPLACE, code, function, independence, mechanism

import ferrodp as fd
from ferrodp.audit import audit_code
from ferrodp.training import train


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


def noise_of_a_source() -> bool:
    """Whether noise that a source draws has the stated law: as that of a mechanism whose scale is known."""

    class FromSource(fd.GaussianMechanism):
        def release(self, value, **options):  # type: ignore[no-untyped-def,override]
            noised = options["out"]
            noised[...] = value
            fd.NoiseSource().add_gaussian_(noised, standard_deviation=self.standard_deviation)
            return noised

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
        mechanism(kind(**{"scale": scale, name: 1}), epsilon=50.0, delta=1e-3, draws=1_500_000)
        for scale in (0.6, 2.0, 50.0, 200.0, 3000.0, 1e7, 1e14)
    )


def integers_in_fixed_time(kind: type, scales: tuple[float, ...]) -> bool:
    """Whether integers that are drawn in fixed time have the stated law."""
    name = "l2_sensitivity" if kind is fd.DiscreteGaussianMechanism else "l1_sensitivity"

    class Fixed(kind):  # type: ignore[misc,valid-type]
        def release(self, value, **options):  # type: ignore[no-untyped-def]
            return super().release(value, fixed_time=True, **options)

    return any(
        mechanism(Fixed(**{"scale": scale, name: 1}), epsilon=50.0, delta=1e-3, draws=300_000) for scale in scales
    )


def batch() -> bool:
    def run(rows: np.ndarray) -> object:
        total = fd.ClippedSum((2,), clip_norm=1.0)
        total.add_many(rows)
        return total.release(noise_multiplier=2.0)

    rows = np.array([[30.0, 4.0], [0.3, -0.2], [-20.0, 1.0], [-6.0, -3.0]])  # whose sum turns if the first is missing
    accounted = fd.events.GaussianEvent(noise_multiplier=2.0)
    return audit_code(run, rows, accounted=accounted).violation


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

        return function(sums, (0, 1), epsilon=vector.epsilon(0.01), delta=0.01, draws=40_000)
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

    return function(many, ((-0.3,) * 5 + (1.0,) * 3, (0.7,) * 5 + (0.0,) * 3), epsilon=3.0, draws=70_000)


def long_run() -> bool:
    """How many queries are negative before the first positive one, where all of them rise."""

    def first(value: float, n: int) -> np.ndarray:
        counts = np.empty(n)
        for i in range(n):
            vector = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=3.0)
            counts[i] = next((j for j in range(24) if vector.query(value)), 24)
        return counts

    return function(first, (-1.5, -0.5), epsilon=3.0, draws=50_000)


def answers_of_a_run() -> bool:
    return sum(answered((1e9,) * 5)) > 2


def training() -> bool:
    """Whether canaries of a training contradict its ε: by their e-value, which may be asked as often as one likes."""
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=60)
    model = train(np.eye(3)[labels], labels, epsilon=4.0, delta=1e-5, classes=range(3), audit_canaries=1000)
    return model.audit is None or model.audit.log_e_value > -math.log(1.0 - CONFIDENCE)


ONES = np.ones(6)
SOURCE = fd.NoiseSource()


def small_calls(size: int, draw: Callable[[int], np.ndarray]) -> Callable[[int], np.ndarray]:
    """Return what makes many calls for so many outputs each."""
    return lambda n: np.concatenate([draw(size) for _ in range(-(-n // size))])[:n]


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
    "discrete Gaussian in fixed time": lambda: integers_in_fixed_time(fd.DiscreteGaussianMechanism, (0.6, 3.0, 40.0)),
    "discrete Laplace in fixed time": lambda: integers_in_fixed_time(fd.DiscreteLaplaceMechanism, (0.6, 3.0, 1e6)),
    "Gaussian doubles": lambda: doubles(fd.GaussianMechanism),
    "Laplace doubles": lambda: doubles(fd.LaplaceMechanism),
    "noise of a source": noise_of_a_source,
    "coordinates": rows_of_noise,
    "Gaussian doubles of one call": lambda: independence(lambda n: SOURCE.gaussian(n, standard_deviation=1.0)),
    "Gaussian floats of one call": lambda: independence(
        lambda n: SOURCE.gaussian(n, standard_deviation=1.0, dtype=np.float32)
    ),
    "Laplace doubles of one call": lambda: independence(lambda n: SOURCE.laplace(n, scale=1.0)),
    "Gaussian floats of small calls": lambda: independence(
        small_calls(25, lambda n: SOURCE.gaussian(n, standard_deviation=1.0, dtype=np.float32)), draws=1 << 17
    ),
    "Laplace doubles of small calls": lambda: independence(
        small_calls(25, lambda n: SOURCE.laplace(n, scale=1.0)), draws=1 << 17
    ),
    "integers of one call": lambda: independence(lambda n: SOURCE.discrete_gaussian(n, scale=3000.0)),
    "small integers of one call": lambda: independence(lambda n: SOURCE.discrete_laplace(n, scale=2.0)),
    "wide integers of one call": lambda: independence(lambda n: SOURCE.discrete_laplace(n, scale=1e14)),
    "integers in fixed time of one call": lambda: independence(
        lambda n: SOURCE.discrete_laplace(n, scale=300.0, fixed_time=True), draws=1 << 18
    ),
    "answers of one call": lambda: independence(
        lambda n: fd.RandomizedResponse(noise_parameter=0.5, num_categories=16).release(np.zeros(n, dtype=np.int64))
    ),
    "coins of one call": lambda: independence(lambda n: SOURCE.bernoulli_exp(math.log(2.0), n)),
    "batch": batch,
    **clipping_audits.AUDITS,
    **exact_audits.AUDITS,
    **finite_audits.AUDITS,
    **noise_audits.AUDITS,
    **party_audits.AUDITS,
    **process_audits.AUDITS,
    **replay_audits.AUDITS,
    **secure_audits.AUDITS,
    **tree_audits.AUDITS,
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
    **statistics_audits.AUDITS,
    **tables_audits.AUDITS,
}
"""Each returns whether it raised an alarm."""

DEEP: dict[str, Callable[[], bool]] = {
    "law of permute-and-flip, 2e5 draws": lambda: finite_audits.choices(
        fd.PermuteAndFlip, finite_audits.race_law, 200_000, (0.0,)
    ),
    "law of the exponential mechanism, 2e5 draws": lambda: finite_audits.choices(
        fd.ExponentialMechanism, finite_audits.exponential_law, 200_000, (0.0,)
    ),
    "discrete Gaussian, 1e8 draws": lambda: mechanism(
        fd.DiscreteGaussianMechanism(scale=50.0, l2_sensitivity=1), epsilon=50.0, delta=1e-3, draws=120_000_000
    ),
    "discrete Gaussian of a wide scale, 1e8 draws": lambda: mechanism(
        fd.DiscreteGaussianMechanism(scale=3000.0, l2_sensitivity=1), epsilon=50.0, delta=1e-3, draws=120_000_000
    ),
    "discrete Laplace of a wide scale, 1e8 draws": lambda: mechanism(
        fd.DiscreteLaplaceMechanism(scale=3000), epsilon=50.0, delta=1e-3, draws=120_000_000
    ),
    "Laplace, 1e8 draws": lambda: mechanism(
        fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0), delta=0.0, draws=120_000_000
    ),
    "Gaussian, 1e8 draws": lambda: mechanism(
        fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0), draws=120_000_000
    ),
}
"""Likewise, in many seconds."""


def main() -> int:
    """Run what the command line asks for, print alarms and times, and return 1 if there was an alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--deep", action="store_true", help="those of many draws as well")
    args = parser.parse_args()
    chosen = {name: audit for name, audit in (AUDITS | (DEEP if args.deep else {})).items() if args.text in name}
    alarms, seconds, runs = (dict.fromkeys(chosen, zero) for zero in (0, 0.0, 0))
    for run in range(args.runs):
        for name, audit in chosen.items():
            if run and seconds[name] > args.seconds * runs[name]:
                continue
            begin = time.process_time()
            alarms[name] += audit()
            seconds[name] += time.process_time() - begin
            runs[name] += 1
        if args.runs > 1:
            print(f"run {run + 1}: {sum(alarms.values())} alarms so far", flush=True)
    for name, count in alarms.items():
        print(f"{count:4} of {runs[name]:3}  {seconds[name] / runs[name]:6.2f} s  {name}")
    return int(any(alarms.values()))


if __name__ == "__main__":
    raise SystemExit(main())
