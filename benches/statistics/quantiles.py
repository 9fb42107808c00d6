"""Errors of quantiles, minima and maxima beside diffprivlib and OpenDP: the same columns, bounds and ε.

    PYTHONPATH=python python benches/statistics/quantiles.py [REPETITIONS [FIRST]] [--run]

The errors of the others are exact, from the laws of their choices (`laws.py`), unless `--run` calls them, in an
environment with diffprivlib 0.6.6, scikit-learn 1.5.2 and opendp 0.16. The error of a released number is its distance
from the quantiles of the clamped column: from all numbers with at most q·n rows below and (1 − q)·n above.
Extremes are the quantiles 0 and 1, and for us `private_min` and `private_max` with their default rank. OpenDP chooses
among the integers between the bounds of a column of integers, if these are at most 1001, and among 1001 evenly spaced
numbers otherwise.
"""

from __future__ import annotations

import functools
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import laws
import numpy as np

import ferrodp as fd

EPSILONS = (0.1, 1.0, 10.0)
STATISTICS = {"min": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "max": 1.0}
LIBRARIES = ("ferrodp", "diffprivlib", "opendp")
CANDIDATES = 1001
Rows = Any


class Case(NamedTuple):
    """A column, and its public bounds."""

    name: str
    rows: Rows
    bounds: tuple[float, float]

    @property
    def whole(self) -> bool:
        """Whether it holds integers."""
        return bool(self.rows.dtype.kind == "i")


def columns() -> list[Case]:
    """Return thirty columns: ties, skew, few values, wide and tight bounds, dates, few rows."""
    rng = np.random.default_rng(20261128)
    incomes = rng.lognormal(10.5, 0.6, 10_000)
    clusters = np.concatenate([rng.normal(-50, 5, 1500), rng.normal(70, 3, 1000)])
    mostly = np.where(rng.random(5000) < 0.8, 7, rng.integers(0, 100, 5000))
    ratings = rng.choice(5, 500, p=[0.1, 0.1, 0.2, 0.35, 0.25]) + 1
    days = rng.integers(19_723, 20_089, 1000)
    seconds = rng.integers(1_704_067_200, 1_735_689_600, 5000)
    return [
        Case("uniform, tight bounds", rng.uniform(0, 100, 1000), (0.0, 100.0)),
        Case("uniform, bounds 10 times too wide", rng.uniform(0, 100, 10_000), (0.0, 1000.0)),
        Case("normal", rng.normal(50, 10, 1000), (0.0, 100.0)),
        Case("normal, bounds 25 times too wide", rng.normal(20, 10, 10_000), (-1000.0, 1000.0)),
        Case("normal, of a thousandth", rng.normal(1e-3, 1e-5, 2000), (0.0, 1.0)),
        Case("incomes", incomes, (0.0, 1e6)),
        Case("incomes, bounds of a billion", rng.lognormal(10.5, 0.6, 40_000), (0.0, 1e9)),
        Case("incomes, rounded to 100", np.round(incomes, -2), (0.0, 500_000.0)),
        Case("incomes, top-coded", np.minimum(incomes, 90_000.0), (0.0, 200_000.0)),
        Case("exponential", rng.exponential(10, 1000), (0.0, 100.0)),
        Case("Pareto", 10 * (1 + rng.pareto(1.5, 5000)), (0.0, 1e5)),
        Case("two clusters", clusters, (-100.0, 100.0)),
        Case("temperatures, one decimal", np.round(rng.normal(12, 8, 2000), 1), (-50.0, 50.0)),
        Case("prices that end in .99", np.floor(rng.lognormal(3, 0.8, 3000)) + 0.99, (0.0, 1000.0)),
        Case("shares of one", rng.beta(2, 5, 4000), (0.0, 1.0)),
        Case("ages", rng.integers(0, 96, 1000), (0, 120)),
        Case("ages, 100 rows", rng.integers(18, 90, 100), (0, 120)),
        Case("ages, 10 000 rows", np.clip(rng.normal(40, 18, 10_000), 0, 100).astype(np.int64), (0, 120)),
        Case("ratings from 1 to 5", ratings, (1, 5)),
        Case("zeros and ones", (rng.random(1000) < 0.3).astype(np.int64), (0, 1)),
        Case("counts, Poisson", rng.poisson(3, 2000), (0, 50)),
        Case("counts, geometric", rng.geometric(0.1, 3000) - 1, (0, 1000)),
        Case("constant", np.full(1000, 40), (0, 120)),
        Case("four fifths equal", mostly, (0, 100)),
        Case("years", rng.integers(1950, 2021, 2000), (1900, 2100)),
        Case("dates in seconds, bounds of 30 years", seconds, (946_684_800, 1_893_456_000)),
        Case("dates in days, tight bounds", days, (19_723, 20_088)),
        Case("normal, 30 rows", rng.normal(50, 10, 30), (0.0, 100.0)),
        Case("a third above the bounds", rng.normal(90, 25, 3000), (0.0, 100.0)),
        Case("some below the bounds", rng.lognormal(0, 1, 3000) - 0.5, (0.0, 20.0)),
    ]  # fmt: skip


def quantiles_of(case: Case, quantile: float) -> tuple[float, float]:
    """Return the least and the largest quantile of the clamped rows."""
    rows = np.sort(np.clip(case.rows, *case.bounds)).astype(np.float64)
    exact = quantile * rows.size
    least = max(math.ceil(exact - 1e-9) - 1, 0)
    largest = min(math.floor(exact + 1e-9), rows.size - 1)
    return float(rows[least]), float(rows[largest])


def ours(case: Case, quantile: float, epsilon: float) -> Callable[[], float]:
    """Return one release of FerroDP."""
    options = {"bounds": case.bounds, "epsilon": epsilon}
    if quantile in (0.0, 1.0):
        extreme = fd.private_max if quantile else fd.private_min
        return lambda: float(extreme(case.rows, **options))
    return lambda: float(fd.private_quantile(case.rows, quantile, **options))


def of_diffprivlib(case: Case, quantile: float, epsilon: float) -> Callable[[], float]:
    """Return one release of diffprivlib."""
    import diffprivlib.tools

    return lambda: float(diffprivlib.tools.quantile(case.rows, quantile, epsilon=epsilon, bounds=case.bounds))


def candidates_of(case: Case) -> laws.Doubles:
    """Return the candidates that OpenDP is given."""
    lower, upper = case.bounds
    few = case.whole and upper - lower < CANDIDATES
    return np.arange(lower, upper + 1.0) if few else np.linspace(lower, upper, CANDIDATES)


def exact(case: Case, quantile: float, epsilon: float, times: int) -> list[Error | None]:
    """Return the errors of the others, and what a root mean square of so many repetitions would be off."""
    runs = laws.Runs(case.rows, case.bounds, quantiles_of(case, quantile))
    found = [laws.of_diffprivlib(runs, quantile, epsilon)]
    found.append(laws.of_opendp(runs, quantile, epsilon, candidates_of(case)))
    return [Error(each.root, each.spread(times)) for each in found]


def of_opendp(case: Case, quantile: float, epsilon: float) -> Callable[[], float]:
    """Return one release of OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    candidates = candidates_of(case)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()

    def make(scale: float) -> Any:
        return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates.tolist(), quantile, scale)

    measurement = dp.binary_search_chain(make, 1, epsilon)
    rows = case.rows.astype(np.float64).tolist()
    return lambda: float(measurement(rows))


class Error(NamedTuple):
    """A root mean square, and its standard error."""

    value: float
    spread: float


def error(release: Callable[[], float], case: Case, quantile: float, times: int) -> Error | None:
    """Return the root mean square error of many releases, or None if one of them failed."""
    least, largest = quantiles_of(case, quantile)
    squares = np.empty(times)
    for run in range(times):
        try:
            found = release()
        except (RuntimeError, ValueError):  # diffprivlib, of ties
            return None
        squares[run] = max(least - found, found - largest, 0.0) ** 2
    root = math.sqrt(squares.mean())
    return Error(root, squares.std() / math.sqrt(times) / (2.0 * root) if root else 0.0)


def judged(found: list[Error | None]) -> str:
    """Return whether our error is the least, within Monte-Carlo error of the least, or larger."""
    mine, others = found[0], [each for each in found[1:] if each is not None]
    assert mine is not None
    best = min(others, default=Error(math.inf, 0.0))
    if mine.value <= best.value:
        return " "
    return "~" if mine.value - best.value <= 2.0 * math.hypot(mine.spread, best.spread) else "*"


def main(times: int, first: int, run: bool) -> None:
    """Print the table, from a column on."""
    warnings.simplefilter("ignore")
    totals: dict[str, list[int]] = {name: [0, 0, 0] for name in STATISTICS}
    seconds = dict.fromkeys(LIBRARIES, 0.0)
    how = "of all" if run else "of FerroDP, the others exactly"
    print(
        f"{times} repetitions {how}; FerroDP / diffprivlib / OpenDP; ~ within Monte-Carlo error of the least, * larger"
    )
    for case in columns()[first:]:
        print(f"\n{case.name}: {case.rows.size} rows, bounds {case.bounds}", flush=True)
        for name, quantile in STATISTICS.items():
            line = []
            for epsilon in EPSILONS:
                found = []
                called = (ours, of_diffprivlib, of_opendp) if run else (ours,)
                for library, make in zip(LIBRARIES, called, strict=False):
                    release = functools.partial(make, case, quantile, epsilon)()
                    before = time.process_time()
                    found.append(error(release, case, quantile, times))
                    seconds[library] += time.process_time() - before
                if not run:
                    found += exact(case, quantile, epsilon, times)
                mark = judged(found)
                totals[name][" ~*".index(mark)] += 1
                line.append(" / ".join("fails" if each is None else f"{each.value:.3g}" for each in found) + mark)
            print(f"  {name:7}" + "".join(f"{cell:36}" for cell in line).rstrip(), flush=True)
    print("\nsmallest, within Monte-Carlo error of it, larger:")
    for name, counts in totals.items():
        print(f"  {name:7}" + " ".join(map(str, counts)))
    print("CPU seconds:", ", ".join(f"{library} {spent:.0f}" for library, spent in seconds.items()))


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "--run"]
    main(*[int(each) for each in (*given, *["100", "0"][len(given) :])], run="--run" in sys.argv)
