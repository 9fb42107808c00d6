"""Measures random allocations under banded strategies: what is charged, how long that takes, and drawn runs.

Run as `python benches/correlated/allocations.py [--samples 10000000]`. One round; loss of a unit that is there, by
likelihood ratios of drawn runs. Their δ is stated as a lower bound with an error probability of 10⁻⁶ (empirical
Bernstein bound, Maurer and Pontil, COLT 2009, Theorem 4), and must not exceed what is charged.
"""

from __future__ import annotations

import argparse
import math
import os
import time

import numpy as np

from ferrodp.accounting import PldAccountant
from ferrodp.correlated import BandedToeplitz, SquareRoot
from ferrodp.plan import ConstantNoise, CorrelatedNoise, FlatClipping, NoiseSchedule, PrivacyPlan, RandomAllocation

DELTA = 1e-5
CHANCE = 1e-6


def losses(column: np.ndarray, steps: int, sigma: float, samples: int) -> np.ndarray:
    """Return the privacy losses of so many drawn rounds with the unit."""
    rng = np.random.default_rng(1)
    found = np.empty(samples, np.float32)
    rows = max(2_000_000 // steps, 1)
    column = column.astype(np.float32)
    norms = np.array([float(column[: steps - j] @ column[: steps - j]) for j in range(steps)], np.float32)
    for start in range(0, samples, rows):
        many = min(rows, samples - start)
        y = rng.standard_normal((many, steps), np.float32) * np.float32(sigma)
        chosen = rng.integers(steps, size=many)
        for lag, each in enumerate(column):
            inside = np.flatnonzero(chosen + lag < steps)
            y[inside, chosen[inside] + lag] += each
        inner = np.zeros_like(y)
        for lag, each in enumerate(column):
            inner[:, : steps - lag] += each * y[:, lag:]
        inner -= 0.5 * norms
        inner /= np.float32(sigma**2)
        most = inner.max(axis=1)
        found[start : start + many] = most + np.log(np.exp(inner - most[:, np.newaxis]).mean(axis=1, dtype=np.float64))
    return found


def lower(seen: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Return the mean and a lower bound of δ(ε)."""
    each = np.maximum(0.0, -np.expm1(epsilon - seen.astype(np.float64)))
    room = math.log(2.0 / CHANCE)
    return float(each.mean()), float(
        each.mean() - math.sqrt(2.0 * each.var() * room / each.size) - 7.0 * room / (3.0 * (each.size - 1))
    )


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10_000_000)
    samples = parser.parse_args().samples
    print(f"load {os.getloadavg()}; delta {DELTA}")
    for steps, bands, sigma, drawn in (
        (128, 4, 2.0, samples),
        (256, 16, 4.0, samples // 10),
        (1000, 8, 2.0, samples // 50),
        (10_000, 16, 2.0, samples // 500),
    ):
        strategy = (
            SquareRoot(num_steps=steps, bands=bands) if steps > 1000 else BandedToeplitz(num_steps=steps, bands=bands)
        )

        def plan_of(noise: NoiseSchedule, steps: int = steps) -> PrivacyPlan:
            sampling, clipping = RandomAllocation(steps), FlatClipping(1.0)
            return PrivacyPlan(
                population_size=10**6, sampling=sampling, num_steps=steps, clipping=clipping, noise=noise
            )

        plan = plan_of(CorrelatedNoise(strategy, sigma))
        begun = time.process_time()
        epsilon = plan.epsilon(DELTA)
        took = time.process_time() - begun
        alone = plan_of(ConstantNoise(sigma)).epsilon(DELTA)
        accountant = PldAccountant()
        accountant.compose(plan.event)
        print(
            f"T {steps}, {bands} bands, sigma {sigma}, {drawn} rounds drawn: epsilon {epsilon:.4f} in "
            f"{took * 1e3:.0f} ms; independent noise {alone:.4f}"
        )
        seen = losses(strategy.coefficients(), steps, sigma, drawn)
        for part in (0.25, 0.5, 0.75, 1.0):
            mean, least = lower(seen, part * epsilon)
            charged = accountant.delta(part * epsilon)
            held = "holds" if least <= charged else "EXCEEDED"
            print(
                f"  epsilon {part * epsilon:.4f}: drawn {mean:.3e}, at least {least:.3e}; charged {charged:.3e}: {held}"
            )
    print(f"{time.process_time():.0f} s of CPU time")


if __name__ == "__main__":
    main()
