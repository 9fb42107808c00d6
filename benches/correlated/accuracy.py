"""Accuracy on digits with correlated and with independent noise, at the same certified ε, batches and epochs.

    python benches/correlated/accuracy.py [--parts 32] [--epochs 4] [--splits 10]

Softmax regression on the pixels of scikit-learn's digits, in vectors of norm 1; plain gradient descent in numpy. Both
ways take the same number of steps with the same expected batch. Independent noise: Poisson samples. Correlated noise:
Poisson samples of one part after the other, in as many parts as the strategy has bands; the number of bands is the one
whose plan has the least noise in its prefix sums, which depends on no data. Learning rates are the best of the same
five for each, over all splits.
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

DELTA = 1e-5
RATES = (0.5, 1.0, 2.0, 4.0, 8.0)
NORM = 1.0


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


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    options = parser.parse_args()
    pixels, labels = datasets.load_digits(return_X_y=True)
    x = np.hstack([pixels / 16.0, np.ones((len(pixels), 1))])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    size = 1437
    print(f"{datetime.date.today()}, ferrodp {fd.__version__}, load {os.getloadavg()[0]:.1f}")
    print(f"{size} images to train with, {options.epochs} epochs of {options.parts} steps, delta {DELTA:g}")
    print("epsilon  bands  error ratio  independent (rate)  correlated (rate)  difference (standard error)")
    began = time.process_time()
    for epsilon in options.epsilons:
        independent, correlated, ratio, bands = plans(size, options.parts, options.epochs, epsilon)
        found = {}
        for name, plan in (("independent", independent), ("correlated", correlated)):
            for rate in RATES:
                right = []
                for split in range(options.splits):
                    order = np.random.default_rng(split).permutation(len(x))
                    train, test = order[:size], order[size:]
                    right.append(accuracy(plan, rate, (x[train], labels[train]), (x[test], labels[test])))
                found[name, rate] = np.array(right)
        best = {name: max(RATES, key=lambda rate: found[name, rate].mean()) for name in ("independent", "correlated")}
        first, second = found["independent", best["independent"]], found["correlated", best["correlated"]]
        apart = second - first
        print(
            f"{epsilon:7g}  {bands:5d}  {ratio:11.3f}  {100 * first.mean():11.2f} ({best['independent']:g})"
            f"  {100 * second.mean():15.2f} ({best['correlated']:g})  {100 * apart.mean():+10.2f} "
            f"({100 * apart.std(ddof=1) / np.sqrt(len(apart)):.2f})",
            flush=True,
        )
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
