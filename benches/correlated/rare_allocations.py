"""Lower bounds of δ for random allocations under banded strategies, from rounds in which all noise is moved.

Run as `python benches/correlated/rare_allocations.py [--samples 60000]`. What plain rounds show of a rare loss needs
millions of them; here rounds are drawn where the loss is rare, and weighted. It is rare where all steps are a little
high: the loss is nearly a function of the sum of all noise.

Why it is a lower bound. Under the law P of a round with the unit, the unit's step J is uniform and y = c_J + σZ, with
c_J the step's column of C. Let u = (1, …, 1)/√T and G = ⟨u, Z⟩: it is standard normal and independent of J and of
Z − G·u. With f = (1 − e^(ε − L))₊ and L the loss of y, δ(ε) = E_P[f]. As f ≥ 0, for any number g₀ and the law
N(μ, 1) of G instead,

    E_P[f] ≥ E_P[f·1{G ≥ g₀}] = E_μ[f·w(G)·1{G ≥ g₀}],   w(G) = e^(μ²/2 − μG),

and for μ ≥ 0 the terms are between 0 and w(g₀). Their mean less an empirical Bernstein bound (Maurer and Pontil, COLT
2009, Theorem 4), times that range, is below E_P[f] but with the stated probability. μ and g₀ come from other rounds,
drawn before.
"""

from __future__ import annotations

import argparse
import math
import os
import time

import numpy as np

from ferrodp.accounting import PldAccountant
from ferrodp.correlated import BandedToeplitz, SquareRoot
from ferrodp.plan import CorrelatedNoise, FlatClipping, PrivacyPlan, RandomAllocation

DELTA = 1e-5
CHANCE = 1e-6
PARTS = (0.25, 0.5, 0.75, 1.0)


def drawn(
    column: np.ndarray, steps: int, sigma: float, samples: int, shift: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses of so many rounds with the unit, whose noise is moved by `shift`, and G of each."""
    rng = np.random.default_rng(seed)
    losses, moved = np.empty(samples), np.empty(samples)
    rows = max(1_000_000 // steps, 1)
    column = column.astype(np.float32)
    norms = np.array([float(column[: steps - j] @ column[: steps - j]) for j in range(steps)], np.float32)
    for start in range(0, samples, rows):
        many = min(rows, samples - start)
        noise = rng.standard_normal((many, steps), np.float32)
        chosen = rng.integers(steps, size=many)
        noise += np.float32(shift / math.sqrt(steps))
        moved[start : start + many] = noise.sum(axis=1, dtype=np.float64) / math.sqrt(steps)
        y = noise * np.float32(sigma)
        for lag, each in enumerate(column):
            inside = np.flatnonzero(chosen + lag < steps)
            y[inside, chosen[inside] + lag] += each
        inner = np.zeros_like(y)
        for lag, each in enumerate(column):
            inner[:, : steps - lag] += each * y[:, lag:]
        inner -= np.float32(0.5) * norms
        inner /= np.float32(sigma**2)
        most = inner.max(axis=1)
        inner -= most[:, np.newaxis]
        np.exp(inner, out=inner)
        losses[start : start + many] = most + np.log(inner.mean(axis=1, dtype=np.float64))
    return losses, moved


def terms(losses: np.ndarray, moved: np.ndarray, epsilon: float, shift: float, least: float) -> np.ndarray:
    """Return what is averaged."""
    gains = np.maximum(0.0, -np.expm1(epsilon - losses))
    return gains * np.exp(0.5 * shift**2 - shift * moved) * (moved >= least)


def bound(each: np.ndarray, largest: float) -> tuple[float, float]:
    """Return the mean, and what it is at least but with the probability `CHANCE`."""
    room = math.log(2.0 / CHANCE)
    off = math.sqrt(2.0 * each.var(ddof=1) * room / each.size) + 7.0 * largest * room / (3.0 * (each.size - 1))
    return float(each.mean()), float(each.mean() - off)


def chosen_laws(
    column: np.ndarray, steps: int, sigma: float, epsilons: list[float], samples: int
) -> list[tuple[float, float]]:
    """Return, for each ε, μ and g₀ with which the bound of a few rounds is largest."""
    best = [(-math.inf, 0.0, 0.0)] * len(epsilons)
    room = math.log(2.0 / CHANCE)
    for shift in np.arange(0.0, 6.5, 0.5):
        losses, moved = drawn(column, steps, sigma, samples // 20, float(shift), 2)
        for i, epsilon in enumerate(epsilons):
            for least in np.arange(shift - 2.0, shift + 0.5, 0.5):
                each = terms(losses, moved, epsilon, float(shift), float(least))
                largest = math.exp(0.5 * shift**2 - shift * least)
                # As it would be with all rounds.
                off = math.sqrt(2.0 * each.var() * room / samples) + 7.0 * largest * room / (3.0 * samples)
                best[i] = max(best[i], (float(each.mean()) - off, float(shift), float(least)))
    return [(shift, least) for _, shift, least in best]


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=60_000)
    samples = parser.parse_args().samples
    print(f"load {os.getloadavg()}; delta {DELTA}; {samples} rounds for each line; error probability {CHANCE}")
    print("10^7 plain rounds: what the same bound would say of them, if their mean were that of these")
    for steps, bands, sigma in ((256, 16, 4.0), (1000, 8, 2.0), (10_000, 16, 2.0)):
        strategy = (
            SquareRoot(num_steps=steps, bands=bands) if steps > 1000 else BandedToeplitz(num_steps=steps, bands=bands)
        )
        plan = PrivacyPlan(
            population_size=10**6,
            sampling=RandomAllocation(steps),
            num_steps=steps,
            clipping=FlatClipping(1.0),
            noise=CorrelatedNoise(strategy, sigma),
        )
        accountant = PldAccountant()
        accountant.compose(plan.event)
        epsilon = plan.epsilon(DELTA)
        column = np.asarray(strategy.coefficients())
        print(f"T {steps}, {bands} bands, sigma {sigma}: epsilon {epsilon:.4f}", flush=True)
        epsilons = [part * epsilon for part in PARTS]
        for at, (shift, least) in zip(epsilons, chosen_laws(column, steps, sigma, epsilons, samples), strict=True):
            losses, moved = drawn(column, steps, sigma, samples, shift, 3)
            mean, low = bound(terms(losses, moved, at, shift, least), math.exp(0.5 * shift**2 - shift * least))
            # f ≤ 1, so that its variance is at most its mean.
            room = math.log(2.0 / CHANCE)
            plain = mean - math.sqrt(2.0 * mean * room / 1e7) - 7.0 * room / 3e7
            charged = accountant.delta(at)
            print(
                f"  epsilon {at:.4f}: moved by {shift:.1f} from {least:.1f}: mean {mean:.3e}, at least {low:.3e}; "
                f"10^7 plain rounds: {plain:.3e}; charged {charged:.3e}: {'holds' if low <= charged else 'EXCEEDED'}",
                flush=True,
            )
    print(f"{time.process_time():.0f} s of CPU time")


if __name__ == "__main__":
    main()
