"""Abadi et al., "Deep learning with differential privacy", CCS 2016: its ε, and its network on a smaller dataset.

    OMP_NUM_THREADS=1 python benches/reproductions/moments.py [--splits 5]

First the numbers of its figure 2 (q = 0.01, σ = 4, δ = 1e-5, 100 and 400 epochs) by the paper's method, the moments
accountant over whole orders up to 32, and by a certified interval. Then the network of section 5.2, one hidden layer
of ReLU units, with per-example clipping: on scikit-learn's 1797 digits of 8 x 8 pixels in place of MNIST's 70,000,
with 100 hidden units in place of 1000 and without the PCA. Nothing was tuned but the learning rate, once, on another
split.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from sklearn.datasets import load_digits

import ferrodp as fd
from ferrodp.accounting import MomentsAccountant, PldAccountant
from ferrodp.events import GaussianEvent, PoissonSampledEvent
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling

DELTA = 1e-5
HIDDEN, BATCHES, EPOCHS, RATE, CLIP = 100, 10, 40, 1.0, 1.0


def costs() -> None:
    """Print ε of the paper's runs."""
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=4.0))
    print("epochs   paper's moments accountant   ours, whole orders to 32   certified interval of the best ε")
    for epochs, stated in ((100, 1.26), (400, 2.55)):
        by_moments = MomentsAccountant(max_moment=32)
        certified = PldAccountant()
        for accountant in (by_moments, certified):
            accountant.compose(step, count=100 * epochs)
        found = certified.epsilon_bounds(delta=DELTA)
        ours = by_moments.epsilon(delta=DELTA)
        print(f"{epochs:6}   {stated:26.2f}   {ours:24.4f}   {found.lower:.6f} to {found.upper:.6f}")


def gradients(weights: list[np.ndarray], x: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return one gradient per record, of all weights in one row."""
    first, bias, second, offset = weights
    hidden = np.maximum(x @ first + bias, 0)
    scores = hidden @ second + offset
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = chances / chances.sum(axis=1, keepdims=True) - target
    back = (error @ second.T) * (hidden > 0)
    parts = (x[:, :, None] * back[:, None, :], back, hidden[:, :, None] * error[:, None, :], error)
    return np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1)


def trained(x: np.ndarray, y: np.ndarray, epsilon: float | None, seed: int) -> list[np.ndarray]:
    """Return the weights after 40 epochs; without privacy if `epsilon` is None."""
    rng = np.random.default_rng(seed)
    shapes = [(64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
    weights = [
        rng.normal(size=shape) * (2 / shape[0]) ** 0.5 if len(shape) == 2 else np.zeros(shape) for shape in shapes
    ]
    target = np.eye(10)[y]
    ends = np.cumsum([weight.size for weight in weights])[:-1]

    def moved(update: np.ndarray) -> None:
        for weight, part in zip(weights, np.split(update, ends), strict=True):
            weight -= RATE * part.reshape(weight.shape)

    if epsilon is None:
        for _ in range(EPOCHS * BATCHES):
            chosen = rng.random(len(x)) < 1 / BATCHES
            rows = gradients(weights, x[chosen], target[chosen])
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / CLIP, 1)
            moved(rows.sum(axis=0) * BATCHES / len(x))
        return weights
    plan = fd.PrivacyPlan(
        population_size=len(x),
        sampling=PoissonSampling(1 / BATCHES),
        num_steps=EPOCHS * BATCHES,
        clipping=FlatClipping(CLIP),
        noise=ConstantNoise(1.0),
    ).calibrated(epsilon=epsilon, delta=DELTA)
    for step in plan.start(np.zeros(sum(weight.size for weight in weights))):
        step.add(gradients(weights, x[step.indices], target[step.indices]))
        moved(step.release())
    return weights


def accuracy(weights: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of right answers."""
    first, bias, second, offset = weights
    return float(((np.maximum(x @ first + bias, 0) @ second + offset).argmax(axis=1) == y).mean())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    splits = parser.parse_args().splits
    print(f"load {os.getloadavg()[0]:.1f}, ferrodp {fd.__version__}")
    costs()
    pixels, digits = load_digits(return_X_y=True)
    pixels = pixels / 16 - 0.3
    began = time.process_time()
    print("epsilon   paper, MNIST   here, 1437 digits (mean and standard error of test accuracy)")
    for epsilon, stated in ((0.5, "90"), (2.0, "95"), (8.0, "97"), (None, "98.3")):
        found = []
        for split in range(2000, 2000 + splits):
            order = np.random.default_rng(split).permutation(len(pixels))
            here, there = order[:1437], order[1437:]
            found.append(accuracy(trained(pixels[here], digits[here], epsilon, split), pixels[there], digits[there]))
        error = np.std(found, ddof=1) / len(found) ** 0.5
        print(f"{epsilon or 'none':>7}   {stated:>10} %   {100 * np.mean(found):.1f} % ± {100 * error:.1f}")
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
