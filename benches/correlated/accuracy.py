"""Accuracy on digits with correlated and with independent noise, at the same certified ε and number of epochs.

    OMP_NUM_THREADS=1 python benches/correlated/accuracy.py [--epochs 2] [--parts 8 16 32 64] [--splits 10]

Softmax regression on oriented gradients of scikit-learn's digits, or on their pixels, in vectors of norm 1; plain
gradient descent in numpy. An epoch has as many steps as there are parts, each of which takes one part of the records in
expectation. Independent noise: Poisson samples, amplified. Correlated noise: Poisson samples of one part after the
other, in as many parts as the strategy has bands; the number of bands is the one whose plan has the least noise in its
prefix sums, which depends on no data; with one band the two are the same. Learning rates are the best of the same six
for each, over all splits; so are the numbers of steps in the columns "best batch".
"""

from __future__ import annotations

import argparse
import datetime
import os
import time

import numpy as np
from sklearn import datasets

import ferrodp as fd
from ferrodp.correlated import BandedToeplitz
from ferrodp.events import NeighboringRelation
from ferrodp.plan import ConstantNoise, CorrelatedNoise, CyclicPoisson, FlatClipping, PoissonSampling, PrivacyPlan
from ferrodp.training import oriented_gradients

DELTA = 1e-5
RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
NORM = 1.0
SIZE = 1437


def plan_of(size: int, steps: int, sampling: object, noise: object, epsilon: float) -> PrivacyPlan:
    """Return a calibrated plan."""
    return PrivacyPlan(
        population_size=size,
        sampling=sampling,  # type: ignore[arg-type]
        num_steps=steps,
        clipping=FlatClipping(NORM),
        noise=noise,  # type: ignore[arg-type]
        neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    ).calibrated(epsilon=epsilon, delta=DELTA)


def plans(size: int, parts: int, epochs: int, epsilon: float) -> tuple[PrivacyPlan, PrivacyPlan, float, int]:
    """Return the plans of independent and of correlated noise, the ratio of their errors, and the number of bands."""
    steps = parts * epochs
    independent = plan_of(size, steps, PoissonSampling(1 / parts), ConstantNoise(1.0), epsilon)
    white = BandedToeplitz(num_steps=steps, bands=1)

    def error(plan: PrivacyPlan, strategy: BandedToeplitz) -> float:
        return plan.noise.at(0, steps) * strategy.rms_error() / strategy.sensitivity()

    found = []
    bands = 1
    while bands <= parts:
        strategy = BandedToeplitz(num_steps=steps, bands=bands)
        sampling = CyclicPoisson(bands / parts, num_parts=bands)
        plan = plan_of(size, steps, sampling, CorrelatedNoise(strategy, 1.0), epsilon)
        found.append((error(plan, strategy), bands, plan))
        bands *= 2
    least, bands, plan = min(found, key=lambda each: each[0])
    return independent, plan, least / error(independent, white), bands


def accuracy(plan: PrivacyPlan, rate: float, train: tuple, test: tuple) -> float:
    """Return the share of test images that a model of the plan gets right."""
    x, y = train
    weights = np.zeros((10, x.shape[1]))
    for step in plan.start(weights):
        rows = x[step.indices]
        scores = rows @ weights.T
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(rows)), y[step.indices]] -= 1.0
        step.add(chances[:, :, np.newaxis] * rows[:, np.newaxis, :])
        weights -= rate * step.release()
    return float(np.mean((test[0] @ weights.T).argmax(axis=1) == test[1]))


def accuracies(plan: PrivacyPlan, x: np.ndarray, labels: np.ndarray, seeds: range) -> tuple[np.ndarray, float]:
    """Return the accuracies of all splits at the best learning rate, and that rate."""
    found = {}
    for rate in RATES:
        right = []
        for seed in seeds:
            order = np.random.default_rng(seed).permutation(len(x))
            train, test = order[:SIZE], order[SIZE:]
            right.append(accuracy(plan, rate, (x[train], labels[train]), (x[test], labels[test])))
        found[rate] = np.array(right)
    best = max(RATES, key=lambda rate: found[rate].mean())
    return found[best], best


def difference(first: np.ndarray, second: np.ndarray) -> str:
    """Return the mean difference of paired accuracies and its standard error, in points."""
    apart = 100.0 * (second - first)
    return f"{apart.mean():+6.2f} ({apart.std(ddof=1) / np.sqrt(len(apart)):.2f})"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--features", choices=("oriented", "pixels"), default="oriented")
    options = parser.parse_args()
    pixels, labels = datasets.load_digits(return_X_y=True)
    x = oriented_gradients(pixels / 16.0, shape=(8, 8))
    if options.features == "pixels":
        x = np.hstack([pixels / 16.0, np.ones((len(pixels), 1))])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    seeds = range(1000, 1000 + options.splits)
    print(f"{datetime.date.today()}, ferrodp {fd.__version__}, load {os.getloadavg()[0]:.1f}")
    print(f"{SIZE} images to train with, {len(x) - SIZE} to test with, {x.shape[1]} features ({options.features})")
    print(f"{options.epochs} epochs, delta {DELTA:g}, {options.splits} splits; rate in brackets")
    print("epsilon  steps an epoch  bands  error ratio  independent  correlated  difference (standard error)")
    began = time.process_time()
    for epsilon in options.epsilons:
        best: dict[str, tuple[np.ndarray, int]] = {}
        for parts in options.parts:
            independent, correlated, ratio, bands = plans(SIZE, parts, options.epochs, epsilon)
            shown, right = {}, {}
            for name, plan in (("independent", independent), ("correlated", correlated)):
                found, rate = accuracies(plan, x, labels, seeds)
                shown[name], right[name] = f"{100 * found.mean():6.2f} ({rate:g})", found
                if name not in best or found.mean() > best[name][0].mean():
                    best[name] = found, parts
            print(
                f"{epsilon:7g}  {parts:14d}  {bands:5d}  {ratio:11.3f}  {shown['independent']:>11}"
                f"  {shown['correlated']:>10}  {difference(right['independent'], right['correlated'])}",
                flush=True,
            )
        (first, here), (second, there) = best["independent"], best["correlated"]
        print(
            f"{epsilon:7g}  best batch: {here} steps an epoch {100 * first.mean():.2f}, {there} steps "
            f"{100 * second.mean():.2f}, {difference(first, second)}",
            flush=True,
        )
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
