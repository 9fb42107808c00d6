"""Losses of models and estimators beside diffprivlib and beside the same model without privacy.

    PYTHONPATH=python python benches/statistics/models.py [REPETITIONS [MODEL ...]]

in an environment with diffprivlib 0.6.6, scikit-learn 1.6.1 and statsmodels, whose packages ship the tables. Ours are
the estimators of `ferrodp.integrations.sklearn`, with δ = 1e-5; diffprivlib's have δ = 0, and no other. Bounds are the
least and largest value of each column, for both; where a model measures distances or directions, columns are moved to
[-1, 1] by them before either sees the rows. Each table is fitted and scored whole, to compare noise and not
generalization. diffprivlib has copies of the rows: its components center them in place.

linear, ridge   mean squared error / variance of the target; 1 is the constant. `pair` is the regression on two columns
pca             share of the variance that the first two components leave
kmeans          squared distance to the nearest center / that to the mean; as many centers as classes
gaussian        share of wrong classes, Gaussian naive Bayes; `pair` has two columns
categorical     share of wrong classes, naive Bayes of each column in four bins of equal width
scaler          root mean squared error of means and deviations, in half ranges; `pair` has two columns

A line has means ± their standard errors, and medians; a dash where a library has no such model, or where a fit took
longer than a minute. Less is better. What is larger than the peer's by two standard errors, in ranks or in the mean, is
said; ranks, because a regression without a minimum makes a mean say nothing about the other fits.
"""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn import cluster, datasets, decomposition, linear_model, naive_bayes

from ferrodp.integrations import sklearn as ours

DELTA = 1e-5
SECONDS = 60
Rows = Any
Score = Callable[[Any], float]


class Table(NamedTuple):
    """Rows, the place of the column that is predicted by the others, classes, and two columns that say most of both."""

    rows: Rows
    target: int
    labels: Rows
    pair: list[int]


class Job(NamedTuple):
    """A model of a table: how it is fitted by each library, or without privacy, and how a fit is scored."""

    name: str
    ours: Callable[[float], Any] | None
    peer: Callable[[float], Any] | None
    exact: Callable[[], Any]
    score: Score


def shipped(name: str) -> Rows:
    """Return a table that statsmodels ships, as a matrix."""
    from importlib import import_module

    frame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    return frame.to_numpy(float)


def tables() -> dict[str, Table]:
    """Return the tables by name."""
    found = {}
    sick = datasets.load_diabetes(scaled=False)
    rows = np.column_stack([sick.data, sick.target])
    found["diabetes"] = Table(rows, 10, (sick.target > 140).astype(int), [2, 8])
    for name, load, target, pair in (
        ("iris", datasets.load_iris, 3, [2, 1]),
        ("wine", datasets.load_wine, 0, [12, 9]),
        ("cancer", datasets.load_breast_cancer, 25, [7, 5]),
        ("digits", datasets.load_digits, 36, [28, 44]),
    ):
        values, labels = load(return_X_y=True)
        found[name] = Table(values, target, labels, pair)
    fair = shipped("fair")
    found["fair"] = Table(fair[:, :8], 0, (fair[:, 8] > 0).astype(int), [2, 4])
    health = shipped("randhie")
    found["randhie"] = Table(health, 0, (health[:, 0] > 0).astype(int), [6, 5])
    votes = shipped("anes96")
    found["anes96"] = Table(votes[:, :9], 8, votes[:, 9].astype(int), [5, 7])
    return found


def ends_of(rows: Rows) -> tuple[Rows, Rows]:
    """Return the least and largest value of each column, apart by one where they are the same."""
    lower = rows.min(0)
    return lower, np.where(rows.max(0) > lower, rows.max(0), lower + 1.0)


def regressions(name: str, rows: Rows, target: Rows) -> list[Job]:
    """Return the jobs of linear regressions."""
    from diffprivlib.models import LinearRegression

    box, of_target = ends_of(rows), (float(target.min()), float(target.max()))
    spread = float(np.var(target))

    def score(model: Any) -> float:
        return float(np.mean((np.ravel(model.predict(rows)) - target) ** 2)) / spread

    def peer(epsilon: float) -> Any:
        return LinearRegression(epsilon=epsilon, bounds_X=box, bounds_y=of_target).fit(rows.copy(), target.copy())

    def linear(epsilon: float) -> Any:
        given = {"epsilon": epsilon, "delta": DELTA, "bounds": box, "target_bounds": of_target}
        return ours.PrivateLinearRegression(**given).fit(rows, target)

    def ridge(epsilon: float) -> Any:
        given = {"epsilon": epsilon, "delta": DELTA, "bounds": box, "target_bounds": of_target}
        return ours.PrivateRidge(**given).fit(rows, target)

    def exact() -> Any:
        return linear_model.LinearRegression().fit(rows, target)

    return [Job(f"linear {name}", linear, peer, exact, score), Job(f"ridge {name}", ridge, None, exact, score)]


def components(name: str, rows: Rows) -> Job:
    """Return the job of two components."""
    from diffprivlib.models import PCA

    spread = float(np.trace(np.cov(rows.T)))
    box = (-np.ones(rows.shape[1]), np.ones(rows.shape[1]))

    def score(model: Any) -> float:
        directions, _ = np.linalg.qr(np.asarray(model.components_)[:2].T)
        return 1.0 - float(np.trace(directions.T @ np.cov(rows.T) @ directions)) / spread

    def peer(epsilon: float) -> Any:
        return PCA(2, epsilon=epsilon, data_norm=float(np.sqrt(rows.shape[1])), bounds=box).fit(rows.copy())

    def own(epsilon: float) -> Any:
        return ours.PrivatePCA(2, epsilon=epsilon, delta=DELTA, bounds=(-1, 1)).fit(rows)

    return Job(f"pca {name}", own, peer, lambda: decomposition.PCA(2).fit(rows), score)


def clusters(name: str, rows: Rows, number: int) -> Job:
    """Return the job of k-means."""
    from diffprivlib.models import KMeans

    box = (-np.ones(rows.shape[1]), np.ones(rows.shape[1]))
    spread = float(((rows - rows.mean(0)) ** 2).sum(1).mean())

    def score(model: Any) -> float:
        gaps = [((rows - center) ** 2).sum(1) for center in model.cluster_centers_]
        return float(np.min(gaps, axis=0).mean()) / spread

    def own(epsilon: float) -> Any:
        return ours.PrivateKMeans(number, epsilon=epsilon, delta=DELTA, bounds=(-1, 1)).fit(rows)

    def peer(epsilon: float) -> Any:
        return KMeans(number, epsilon=epsilon, bounds=box).fit(rows.copy())

    return Job(f"kmeans {name}", own, peer, lambda: cluster.KMeans(number, n_init=5).fit(rows), score)


def bayes(name: str, rows: Rows, labels: Rows) -> list[Job]:
    """Return the jobs of naive Bayes: of numbers, and of categories."""
    from diffprivlib.models import GaussianNB

    box, classes = ends_of(rows), np.unique(labels).tolist()
    binned = np.clip((4 * (rows - box[0]) / (box[1] - box[0])).astype(int), 0, 3)

    def own(epsilon: float) -> Any:
        model = ours.PrivateGaussianNB(epsilon=epsilon, delta=DELTA, bounds=box, classes=classes)
        return model.fit(rows, labels)

    def peer(epsilon: float) -> Any:
        return GaussianNB(epsilon=epsilon, bounds=box).fit(rows.copy(), labels)

    def of_categories(epsilon: float) -> Any:
        model = ours.PrivateCategoricalNB(epsilon=epsilon, delta=DELTA, categories=4, classes=classes)
        return model.fit(binned, labels)

    def wrong(model: Any) -> float:
        return float(np.mean(model.predict(rows) != labels))

    def wrong_of_categories(model: Any) -> float:
        return float(np.mean(model.predict(binned) != labels))

    def exact() -> Any:
        return naive_bayes.CategoricalNB(min_categories=4).fit(binned, labels)

    return [
        Job(f"gaussian {name}", own, peer, lambda: naive_bayes.GaussianNB().fit(rows, labels), wrong),
        Job(f"categorical {name}", of_categories, None, exact, wrong_of_categories),
    ]


def scales(name: str, rows: Rows) -> Job:
    """Return the job of means and deviations."""
    from diffprivlib.models import StandardScaler

    box = ends_of(rows)
    half = (box[1] - box[0]) / 2

    def score(model: Any) -> float:
        gaps = [(model.mean_ - rows.mean(0)) / half, (np.sqrt(model.var_) - rows.std(0)) / half]
        return float(np.sqrt(np.mean(np.square(gaps))))

    def own(epsilon: float) -> Any:
        return ours.PrivateStandardScaler(epsilon=epsilon, delta=DELTA, bounds=box).fit(rows)

    def peer(epsilon: float) -> Any:
        return StandardScaler(epsilon=epsilon, bounds=box).fit(rows.copy())

    class Exact:
        mean_, var_ = rows.mean(0), rows.var(0)

    return Job(f"scaler {name}", own, peer, Exact, score)


def jobs() -> list[Job]:
    """Return the jobs of all tables."""
    found = []
    for name, table in tables().items():
        others = [place for place in range(table.rows.shape[1]) if place != table.target]
        target = table.rows[:, table.target]
        features = table.rows if name != "diabetes" else table.rows[:, :10]
        box = ends_of(features)
        scaled = 2.0 * (features - box[0]) / (box[1] - box[0]) - 1.0
        found += regressions(name, table.rows[:, others], target)
        found += regressions(f"{name} pair", table.rows[:, table.pair], target)[:1]
        found += [components(name, scaled), clusters(name, scaled, len(np.unique(table.labels)))]
        known = features if name != "randhie" else features[:, 1:]
        found += bayes(name, known, table.labels)
        found += bayes(f"{name} pair", table.rows[:, table.pair], table.labels)[:1]
        found += [scales(name, features), scales(f"{name} pair", features[:, table.pair])]
    return found


def late(*_: object) -> None:
    """End a fit that takes too long."""
    raise TimeoutError


def losses(fit: Callable[[float], Any] | None, epsilon: float, score: Score, repetitions: int) -> tuple[Rows, float]:
    """Return the losses of some fits, and milliseconds of processor time of one; none where a fit takes too long."""
    if fit is None:
        return np.zeros(0), 0.0
    found, spent = [], []
    signal.alarm(SECONDS)
    try:
        while len(found) < repetitions and sum(spent) < SECONDS:
            started = time.process_time()
            model = fit(epsilon)
            spent.append(time.process_time() - started)
            found.append(score(model))
    except TimeoutError:
        pass
    signal.alarm(0)
    return np.array(found), float(np.median(spent)) * 1e3 if spent else 0.0


def shown(found: Rows) -> str:
    """Return mean, standard error and median."""
    if len(found) < 5:
        return f"{'-':>33}"
    error = found.std(ddof=1) / np.sqrt(len(found))
    return f"{found.mean():>11.4g} ± {error:<8.2g}{np.median(found):>11.4g}"


def verdict(mine: Rows, theirs: Rows) -> str:
    """Return whether ours lose more than the peer's, by more than chance: by ranks, or in the mean."""
    if len(mine) < 5 or len(theirs) < 5:
        return ""
    more = (mine[:, None] > theirs[None]) + 0.5 * (mine[:, None] == theirs[None])
    both = np.unique(np.concatenate([mine, theirs]), return_counts=True)[1]
    n, m = len(mine), len(theirs)
    variance = n * m / 12.0 * (n + m + 1 - float((both**3 - both).sum()) / ((n + m) * (n + m - 1)))
    by_ranks = float((more.sum() - 0.5 * n * m) / np.sqrt(variance)) if variance > 0.0 else 0.0
    gap = mine.mean() - theirs.mean()
    error = np.hypot(mine.std(ddof=1) / np.sqrt(n), theirs.std(ddof=1) / np.sqrt(m))
    if by_ranks > 2.0 or gap > 2.0 * error > 0.0:
        return f"LARGER, in ranks by {by_ranks:.1f} standard errors, in the mean by {gap / error:.1f}"
    return "less" if by_ranks < -2.0 else "within two standard errors"


def main() -> None:
    """Measure all jobs, or those of the models that are named."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    chosen = [job for job in jobs() if len(sys.argv) < 3 or job.name.split()[0] in sys.argv[2:]]
    signal.signal(signal.SIGALRM, late)
    warnings.simplefilter("ignore")
    print(f"{'model, table, epsilon':<30}{'ours':>22}{'median':>11}{'ms':>7}", end="")
    print(f"{'diffprivlib':>22}{'median':>11}{'ms':>7}{'exact':>9}", flush=True)
    verdicts = []
    for job in chosen:
        for epsilon in (1.0, 4.0):
            with np.errstate(all="ignore"):
                mine, own_time = losses(job.ours, epsilon, job.score, repetitions)
                theirs, peer_time = losses(job.peer, epsilon, job.score, repetitions)
                exact = job.score(job.exact())
            said = verdict(mine, theirs)
            verdicts.append(said)
            print(f"{job.name + f' {epsilon:g}':<30}{shown(mine)}{own_time:>7.1f}", end="")
            print(f"{shown(theirs)}{peer_time:>7.1f}{exact:>9.4f}  {said}", flush=True)
    both = [each for each in verdicts if each]
    larger = sum(each.startswith("LARGER") for each in both)
    print(f"\n{len(both)} that both have: ours less in {both.count('less')}, larger in {larger}")


if __name__ == "__main__":
    main()
