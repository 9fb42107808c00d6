"""Jobs of people who publish tables, beside diffprivlib and OpenDP: lines, seconds and errors at ε = 1.

    PYTHONPATH=python python benches/statistics/jobs.py [REPETITIONS]

in an environment with diffprivlib 0.6.6, scikit-learn 1.5.2, opendp 0.16 and statsmodels, whose packages ship the data.
Each job is one function of each library, calibration and release; its lines are counted, its processor time is the
median of a call. The error is the root mean square, over repetitions, of the distance from the exact answer about the
clamped column; of models a loss, said in the name of the job. Bounds, categories and ε are the same for all. Of means
and variances the number of rows is public, as diffprivlib supposes: rows are replaced. Everywhere else they are added
or removed. Our models have δ = 1e-5, diffprivlib's have 0. A dash: the library has no such statistic.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ferrodp as fd
from ferrodp.statistics import models

EPSILON = 1.0
REPLACE = fd.events.NeighboringRelation.REPLACE_ONE
Rows = Any


class Job(NamedTuple):
    """What is asked, of which arguments, the exact answer, and how far an answer is from it."""

    name: str
    arguments: tuple[Any, ...]
    ours: Callable[..., Any]
    diffprivlib: Callable[..., Any] | None
    opendp: Callable[..., Any] | None
    truth: Any
    distance: Callable[[Any, Any], float] = lambda found, truth: float(
        np.sqrt(np.mean((np.asarray(found, float).ravel() - np.asarray(truth, float).ravel()) ** 2))
    )


def opendp() -> Any:
    """Return the module, imported where it is used: it draws and adds in native code, as its documentation shows."""
    import opendp.prelude as dp

    return dp


# counts


def our_count(rows: Rows) -> Any:
    return fd.private_count(rows, epsilon=EPSILON).value


def dpl_count(rows: Rows) -> Any:
    from diffprivlib import tools

    return tools.count_nonzero(rows, epsilon=EPSILON)


def odp_count(rows: Rows) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=bool)), dp.symmetric_distance()
    measurement = space >> dp.t.then_count_by_categories([True], null_category=False) >> dp.m.then_laplace(1 / EPSILON)
    return measurement(rows.tolist())[0]


def our_categories(rows: Rows, names: list[Any]) -> Any:
    return fd.private_histogram(rows, categories=names, epsilon=EPSILON).value


def dpl_categories(rows: Rows, names: list[Any]) -> Any:
    from diffprivlib import tools

    edges = [*(np.array(names) - 0.5), names[-1] + 0.5]
    return tools.histogram(rows, epsilon=EPSILON, bins=edges, range=(edges[0], edges[-1]))[0]


def odp_categories(rows: Rows, names: list[Any]) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    counts = dp.t.then_count_by_categories(names, null_category=False)
    return (space >> counts >> dp.m.then_laplace(1 / EPSILON))(rows.tolist())


def our_histogram(rows: Rows, edges: list[float]) -> Any:
    return fd.private_histogram(rows, bins=edges, epsilon=EPSILON).value


def dpl_histogram(rows: Rows, edges: list[float]) -> Any:
    from diffprivlib import tools

    return tools.histogram(rows, epsilon=EPSILON, bins=edges, range=(edges[0], edges[-1]))[0]


def odp_histogram(rows: Rows, edges: list[float]) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    counts = dp.t.then_count_by_categories(list(range(len(edges) + 1)), null_category=False)
    measurement = space >> dp.t.then_find_bin(edges) >> counts >> dp.m.then_laplace(1 / EPSILON)
    return measurement(rows.tolist())[1:-1]


def our_table(left: Rows, right: Rows, first: list[int], second: list[int]) -> Any:
    frame, keys = {"left": left, "right": right}, {"left": first, "right": second}
    return fd.private_group_by(frame, ["left", "right"], keys=keys).count(epsilon=EPSILON).value


def dpl_table(left: Rows, right: Rows, first: list[int], second: list[int]) -> Any:
    from diffprivlib import tools

    bins = [[*(np.array(names) - 0.5), names[-1] + 0.5] for names in (first, second)]
    ends = [(each[0], each[-1]) for each in bins]
    return tools.histogram2d(left, right, epsilon=EPSILON, bins=bins, range=ends)[0]


def odp_table(left: Rows, right: Rows, first: list[int], second: list[int]) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    cells = [100 * one + other for one in first for other in second]
    counts = dp.t.then_count_by_categories(cells, null_category=False)
    return (space >> counts >> dp.m.then_laplace(1 / EPSILON))((100 * left + right).tolist())


def our_distinct(rows: Rows) -> Any:
    return fd.private_distinct(rows, epsilon=EPSILON).value


def odp_distinct(rows: Rows) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    return (space >> dp.t.then_count_distinct() >> dp.m.then_laplace(1 / EPSILON))(rows.tolist())


def our_mode(rows: Rows, names: list[int]) -> Any:
    return fd.PermuteAndFlip.calibrated(epsilon=EPSILON, sensitivity=1.0, monotonic=True).release(
        np.bincount(rows, minlength=names[-1] + 1)[names], candidates=names
    )


def dpl_mode(rows: Rows, names: list[int]) -> Any:
    from diffprivlib import mechanisms

    utility = np.bincount(rows, minlength=names[-1] + 1)[names].tolist()
    choice = mechanisms.PermuteAndFlip(
        epsilon=EPSILON, sensitivity=1, utility=utility, candidates=names, monotonic=True
    )
    return choice.randomise()


def odp_mode(rows: Rows, names: list[int]) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)
    choice = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=1 / EPSILON)
    return names[choice(np.bincount(rows, minlength=names[-1] + 1)[names].tolist())]


# sums, means, variances


def our_sum(rows: Rows, bounds: Any) -> Any:
    return fd.private_sum(rows, bounds=bounds, epsilon=EPSILON).value


def dpl_sum(rows: Rows, bounds: Any) -> Any:
    from diffprivlib import tools

    return tools.sum(rows, epsilon=EPSILON, bounds=bounds)


def odp_sum(rows: Rows, bounds: Any) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    scale = max(map(abs, bounds)) / EPSILON
    return (space >> dp.t.then_clamp(bounds) >> dp.t.then_sum() >> dp.m.then_laplace(scale))(rows.tolist())


def our_mean(rows: Rows, bounds: Any) -> Any:
    more = {"missing": "zero", "neighboring_relation": REPLACE}
    return fd.private_mean(rows, bounds=bounds, epsilon=EPSILON, **more).value


def dpl_mean(rows: Rows, bounds: Any) -> Any:
    from diffprivlib import tools

    return tools.mean(rows, epsilon=EPSILON, bounds=bounds)


def odp_mean(rows: Rows, bounds: Any) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(rows)), dp.symmetric_distance()
    mean = space >> dp.t.then_clamp(bounds) >> dp.t.then_mean()
    measurement = dp.binary_search_chain(lambda scale: mean >> dp.m.then_laplace(scale), d_in=2, d_out=EPSILON)
    return measurement(rows.astype(float).tolist())


def our_variance(rows: Rows, bounds: Any) -> Any:
    more = {"missing": "zero", "neighboring_relation": REPLACE}
    return fd.private_variance(rows, bounds=bounds, epsilon=EPSILON, **more).value


def dpl_variance(rows: Rows, bounds: Any) -> Any:
    from diffprivlib import tools

    return tools.var(rows, epsilon=EPSILON, bounds=bounds)


def odp_variance(rows: Rows, bounds: Any) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(rows)), dp.symmetric_distance()
    variance = space >> dp.t.then_clamp(bounds) >> dp.t.then_variance(ddof=0)
    measurement = dp.binary_search_chain(lambda scale: variance >> dp.m.then_laplace(scale), d_in=2, d_out=EPSILON)
    return measurement(rows.astype(float).tolist())


def our_group_sums(rows: Rows, groups: Rows, keys: list[int], bounds: Any) -> Any:
    frame = {"group": groups, "value": rows}
    return fd.private_group_by(frame, "group", keys=keys).sum("value", bounds=bounds, epsilon=EPSILON).value


def dpl_group_sums(rows: Rows, groups: Rows, keys: list[int], bounds: Any) -> Any:
    from diffprivlib import tools

    return [tools.sum(rows[groups == key], epsilon=EPSILON, bounds=bounds) for key in keys]


def odp_group_sums(rows: Rows, groups: Rows, keys: list[int], bounds: Any) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    scale = max(map(abs, bounds)) / EPSILON
    measurement = space >> dp.t.then_clamp(bounds) >> dp.t.then_sum() >> dp.m.then_laplace(scale)
    return [measurement(rows[groups == key].tolist()) for key in keys]


def our_group_means(rows: Rows, groups: Rows, keys: list[int], bounds: Any) -> Any:
    frame = {"group": groups, "value": rows}
    return fd.private_group_by(frame, "group", keys=keys).mean("value", bounds=bounds, epsilon=EPSILON).value


def odp_group_means(rows: Rows, groups: Rows, keys: list[int], bounds: Any) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    scale = max(map(abs, bounds)) / (EPSILON / 2)
    total = space >> dp.t.then_clamp(bounds) >> dp.t.then_sum() >> dp.m.then_laplace(scale)
    size = space >> dp.t.then_count() >> dp.m.then_laplace(2 / EPSILON)
    parts = [rows[groups == key].astype(float).tolist() for key in keys]
    return [min(max(total(part) / max(size(part), 1), bounds[0]), bounds[1]) for part in parts]


# ranks


def our_quantiles(rows: Rows, levels: list[float], bounds: Any) -> Any:
    return fd.private_quantiles(rows, levels, bounds=bounds, epsilon=EPSILON).value


def dpl_quantiles(rows: Rows, levels: list[float], bounds: Any) -> Any:
    from diffprivlib import tools

    return tools.quantile(rows, levels, epsilon=EPSILON, bounds=bounds)


def odp_quantiles(rows: Rows, levels: list[float], bounds: Any) -> Any:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    points = np.linspace(*bounds, 1001).tolist()

    def make(level: float) -> Any:
        return dp.binary_search_chain(
            lambda scale: dp.m.make_private_quantile(*space, dp.max_divergence(), points, level, scale),
            d_in=1,
            d_out=EPSILON / len(levels),
        )

    return sorted(make(level)(rows.astype(float).tolist()) for level in levels)


def our_min(rows: Rows, bounds: Any) -> Any:
    return fd.private_min(rows, bounds=bounds, epsilon=EPSILON).value


def our_max(rows: Rows, bounds: Any) -> Any:
    return fd.private_max(rows, bounds=bounds, epsilon=EPSILON).value


def dpl_min(rows: Rows, bounds: Any) -> Any:
    return dpl_quantiles(rows, [0.0], bounds)


def dpl_max(rows: Rows, bounds: Any) -> Any:
    return dpl_quantiles(rows, [1.0], bounds)


def odp_min(rows: Rows, bounds: Any) -> Any:
    return odp_quantiles(rows, [0.0], bounds)


def odp_max(rows: Rows, bounds: Any) -> Any:
    return odp_quantiles(rows, [1.0], bounds)


# models: losses


def our_regression(rows: Rows, targets: Rows, box: Any) -> Any:
    lower, upper = ([*ends, end] for ends, end in zip(box[:2], box[2], strict=True))
    moments = models.private_moments(
        np.column_stack([rows, targets]), bounds=(lower, upper), epsilon=EPSILON, delta=1e-5
    )
    return moments.linear_regression(rows.shape[1]).predict(rows)


def dpl_regression(rows: Rows, targets: Rows, box: Any) -> Any:
    from diffprivlib.models import LinearRegression

    model = LinearRegression(epsilon=EPSILON, bounds_X=(np.array(box[0]), np.array(box[1])), bounds_y=box[2])
    return model.fit(rows, targets).predict(rows)


def our_bayes(rows: Rows, labels: Rows, box: Any) -> Any:
    model = models.private_naive_bayes(
        rows, labels, classes=sorted(set(labels.tolist())), bounds=box, epsilon=EPSILON, delta=1e-5
    )
    return model.predict(rows)


def dpl_bayes(rows: Rows, labels: Rows, box: Any) -> Any:
    from diffprivlib.models import GaussianNB

    return GaussianNB(epsilon=EPSILON, bounds=tuple(map(np.array, box))).fit(rows, labels).predict(rows)


def our_clusters(rows: Rows, number: int, box: Any) -> Any:
    return models.private_clusters(rows, number, bounds=box, epsilon=EPSILON, delta=1e-5).centers


def dpl_clusters(rows: Rows, number: int, box: Any) -> Any:
    from diffprivlib.models import KMeans

    return KMeans(number, epsilon=EPSILON, bounds=tuple(map(np.array, box))).fit(rows).cluster_centers_


def our_scales(rows: Rows, box: Any) -> Any:
    scales = models.private_scales(rows, bounds=box, epsilon=EPSILON, delta=1e-5)
    return scales.mean, np.sqrt(scales.variance)


def dpl_scales(rows: Rows, box: Any) -> Any:
    from diffprivlib.models import StandardScaler

    scales = StandardScaler(epsilon=EPSILON, bounds=tuple(map(np.array, box))).fit(rows)
    return scales.mean_, np.sqrt(scales.var_)


def table(name: str) -> dict[str, Rows]:
    """Return the columns of a table that statsmodels ships."""
    import statsmodels

    path = Path(str(statsmodels.__file__)).parent / "datasets" / name / f"{name}.csv"
    rows = np.genfromtxt(path, delimiter=",", names=True, deletechars='"', replace_space="")
    return {name.strip('"'): rows[name] for name in rows.dtype.names}


def jobs() -> list[Job]:
    """Return the jobs, about tables of two packages."""
    from sklearn import datasets

    fair, health = table("fair"), table("randhie")
    diabetes = datasets.load_diabetes(scaled=False)
    sick = dict(zip(diabetes.feature_names, diabetes.data.T, strict=True))
    cells, kinds = datasets.load_breast_cancer(return_X_y=True)
    flowers = datasets.load_iris().data
    work, faith, school = (fair[name].astype(int) for name in ("occupation", "religious", "educ"))
    visits, poor = health["mdvis"].astype(int), health["hlthp"].astype(int)
    ages, years, weight, pressure = fair["age"], fair["yrs_married"], sick["bmi"], sick["bp"]
    jobs_of, faiths = list(range(1, 7)), list(range(1, 5))
    counts = np.bincount(work, minlength=7)[1:]
    ends = {"ages": (17.0, 43.0), "visits": (0, 80), "bmi": (15.0, 45.0), "pressure": (60.0, 140.0), "target": (0, 350)}

    def quantile_distance(rows: Rows) -> Callable[[Any, Any], float]:
        ordered = np.sort(rows)

        def distance(found: Any, levels: Any) -> float:
            errors = []
            for value, level in zip(np.ravel(found), levels, strict=True):
                low = ordered[max(math.ceil(level * len(rows)) - 1, 0)]
                high = ordered[min(math.floor(level * len(rows)), len(rows) - 1)]
                errors.append(max(low - value, value - high, 0.0))
            return float(np.sqrt(np.mean(np.square(errors))))

        return distance

    def box(rows: Rows) -> Any:
        return rows.min(0).tolist(), rows.max(0).tolist()

    def quantiles(name: str, rows: Rows, levels: list[float], bounds: Any) -> Job:
        made = our_quantiles, dpl_quantiles, odp_quantiles
        return Job(name, (rows, levels, bounds), *made, levels, quantile_distance(rows))

    def centered(name: str, of: Any, rows: Rows, bounds: Any, truth: Any) -> Job:
        return Job(name, (rows, bounds), *of, truth)

    sums, means = (our_sum, dpl_sum, odp_sum), (our_mean, dpl_mean, odp_mean)
    variances = our_variance, dpl_variance, odp_variance
    target = diabetes.target
    features = (*box(diabetes.data), ends["target"])
    spread = float(np.var(target))

    def inertia(found: Any, rows: Rows) -> float:
        gaps = ((rows[:, None, :] - np.asarray(found)[None]) ** 2).sum(2).min(1).mean()
        return float(gaps / ((rows - rows.mean(0)) ** 2).sum(1).mean())

    return [
        Job(
            "count: women with affairs",
            (fair["affairs"] > 0,),
            our_count,
            dpl_count,
            odp_count,
            (fair["affairs"] > 0).sum(),
        ),
        Job("count: people with visits", (visits > 0,), our_count, dpl_count, odp_count, (visits > 0).sum()),
        Job("counts by occupation", (work, jobs_of), our_categories, dpl_categories, odp_categories, counts),
        Job(
            "counts by number of visits, 0 to 19",
            (visits, list(range(20))),
            our_categories,
            dpl_categories,
            odp_categories,
            np.bincount(visits, minlength=20)[:20],
        ),
        Job(
            "histogram: years married",
            (years, edges := [0.0, 1.0, 4.0, 8.0, 15.0, 20.0, 24.0]),
            our_histogram,
            dpl_histogram,
            odp_histogram,
            np.histogram(years, edges)[0],
        ),
        Job(
            "histogram: body mass index",
            (weight, edges := np.linspace(15, 45, 13).tolist()),
            our_histogram,
            dpl_histogram,
            odp_histogram,
            np.histogram(weight, edges)[0],
        ),
        Job(
            "table: occupation by religiousness",
            (work, faith, jobs_of, faiths),
            our_table,
            dpl_table,
            odp_table,
            [[((work == one) & (faith == other)).sum() for other in faiths] for one in jobs_of],
        ),
        Job("different values: visits", (visits,), our_distinct, None, odp_distinct, len(set(visits.tolist()))),
        Job(
            "most frequent occupation (rows short of it)",
            (work, jobs_of),
            our_mode,
            dpl_mode,
            odp_mode,
            counts,
            lambda found, truth: float(truth.max() - truth[int(found) - 1]),
        ),
        centered("sum: visits", sums, visits, ends["visits"], visits.clip(*ends["visits"]).sum()),
        centered("sum: years of school", sums, school, (0, 20), school.sum()),
        centered("mean: age", means, ages, ends["ages"], ages.mean()),
        centered("mean: visits", means, visits, ends["visits"], visits.mean()),
        centered("mean: body mass index", means, weight, ends["bmi"], weight.mean()),
        centered("variance: age", variances, ages, ends["ages"], ages.var()),
        centered("variance: blood pressure", variances, pressure, ends["pressure"], pressure.var()),
        quantiles("median: age", ages, [0.5], ends["ages"]),
        quantiles("quartiles: body mass index", weight, [0.25, 0.5, 0.75], ends["bmi"]),
        quantiles("0.9 quantile: progression", target, [0.9], ends["target"]),
        Job(
            "minimum: body mass index",
            (weight, ends["bmi"]),
            our_min,
            dpl_min,
            odp_min,
            [0.0],
            quantile_distance(weight),
        ),
        Job(
            "maximum: body mass index",
            (weight, ends["bmi"]),
            our_max,
            dpl_max,
            odp_max,
            [1.0],
            quantile_distance(weight),
        ),
        Job(
            "sums by group: visits by health",
            (visits, poor, [0, 1], ends["visits"]),
            our_group_sums,
            dpl_group_sums,
            odp_group_sums,
            [visits[poor == key].clip(*ends["visits"]).sum() for key in (0, 1)],
        ),
        Job(
            "means by group: age by occupation",
            (ages, work, jobs_of, ends["ages"]),
            our_group_means,
            None,  # it takes the sizes of groups as public
            odp_group_means,
            [ages[work == key].mean() for key in jobs_of],
        ),
        Job(
            "linear regression: progression (share of variance left)",
            (diabetes.data, target, features),
            our_regression,
            dpl_regression,
            None,
            target,
            lambda found, truth: float(np.mean((found - truth) ** 2)) / spread,
        ),
        Job(
            "Gaussian naive Bayes: cells (share wrong)",
            (cells, kinds, box(cells)),
            our_bayes,
            dpl_bayes,
            None,
            kinds,
            lambda found, truth: float(np.mean(np.asarray(found) != truth)),
        ),
        Job(
            "k-means: flowers (share of variance left)",
            (flowers, 3, box(flowers)),
            our_clusters,
            dpl_clusters,
            None,
            flowers,
            inertia,
        ),
        Job(
            "means and deviations of 30 columns: cells (of their ranges)",
            (cells, box(cells)),
            our_scales,
            dpl_scales,
            None,
            np.stack([cells.mean(0), cells.std(0)]) / np.ptp(cells, 0),
            lambda found, truth: float(np.sqrt(np.mean((np.stack(found) / np.ptp(cells, 0) - truth) ** 2))),
        ),
    ]


def lines_of(function: Callable[..., Any]) -> int:
    """Return how many lines a function has, without its head, blank lines and imports."""
    body = inspect.getsource(function).split(":\n", 1)[1].splitlines()
    return sum(1 for line in body if line.strip() and "import" not in line and "opendp()" not in line)


class Measured(NamedTuple):
    """A library's lines, seconds a call, root mean square error, and the standard error of that."""

    lines: int
    seconds: float
    error: float
    deviation: float


def measured(job: Job, function: Callable[..., Any], repetitions: int) -> Measured:
    """Return what a library needs for a job, over repetitions."""
    seconds, squares = [], []
    for _ in range(repetitions + 1):
        start = time.process_time()
        found = function(*job.arguments)
        seconds.append(time.process_time() - start)
        squares.append(job.distance(found, job.truth) ** 2)
    squares, error = squares[1:], math.sqrt(np.mean(squares[1:]))
    spread = float(np.std(squares, ddof=1)) / math.sqrt(len(squares))
    return Measured(lines_of(function), float(np.median(seconds[1:])), error, spread / (2 * error) if error else 0.0)


def main() -> None:
    """Print the table."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    warnings.simplefilter("ignore")
    opendp().enable_features("contrib", "idealized-numerics", "honest-but-curious")
    least = fast = 0
    listed = jobs()
    print(f"{'job':<58} library      lines  milliseconds       error ± one standard error")
    for job in listed:
        found = {}
        for name in ("ours", "diffprivlib", "opendp"):
            function = getattr(job, name)
            if function is None:
                continue
            try:
                found[name] = measured(job, function, repetitions)
            except Exception as error:
                print(f"{job.name:<58} {name:<12} {type(error).__name__}: {str(error)[:100]}")
        for name, each in found.items():
            row = f"{each.lines:>5} {1000 * each.seconds:>13.2f} {each.error:>12.5g} ± {each.deviation:.2g}"
            print(f"{job.name:<58} {name:<12} {row}", flush=True)
        ours = found["ours"]
        others = [each for name, each in found.items() if name != "ours"]
        apart = [(ours.error - each.error) / (math.hypot(ours.deviation, each.deviation) or 1e-300) for each in others]
        least += all(each <= 2 for each in apart)
        fast += all(ours.seconds <= each.seconds for each in others)
        for each, name in zip(apart, [name for name in found if name != "ours"], strict=True):
            if each > 2:
                print(f"{'':<58} larger than {name} by {each:.1f} standard errors")
    print(f"\n{len(listed)} jobs: ours least or within two standard errors in {least}, the fastest in {fast}")


if __name__ == "__main__":
    main()
