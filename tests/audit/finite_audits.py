"""Audits of what has few outputs: answers, choices, thresholds, coins and samples, against their exact laws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from alarms import function, mechanism, rates

import ferrodp as fd
from ferrodp.random import fixed_size_sample, poisson_sample, random_allocation

UTILITIES = (0.0, 1.0, 3.0, -2.0)
FAR = 2.0**50
"""Added to utilities and thresholds. Floats know sums of these and noise to a few units only, so digits decide."""
SOURCE = fd.NoiseSource()


def answers(categories: int) -> bool:
    made = fd.RandomizedResponse(noise_parameter=0.5, num_categories=categories)
    return mechanism(made, delta=0.0)


def invalid_answers() -> bool:
    """Whether an answer that is none counts as the first category, and says no more."""
    made = fd.RandomizedResponse(noise_parameter=0.5, num_categories=3)
    return any(
        function(lambda value, n: made.release(np.full(n, value)), (0, wrong), epsilon=made.epsilon())
        for wrong in (3, 7, -1, 2**40)
    )


def exponential_law(utilities: tuple[float, ...], scale: float) -> dict[int, float]:
    """Return the probabilities of the exponential mechanism."""
    weights = [math.exp(each / scale) for each in utilities]
    return {i: weight / sum(weights) for i, weight in enumerate(weights)}


def race_law(utilities: tuple[float, ...], scale: float) -> dict[int, float]:
    """Return the probabilities that each has the largest sum of utility and exponential noise.

    The noise of i is z, and that of j below z + dⱼ: the integral of e^(−z)·∏(1 − e^(−z − dⱼ)) over z ≥ max(−dⱼ, 0),
    multiplied out.
    """
    found = {}
    for i, own in enumerate(utilities):
        leads = [(own - other) / scale for j, other in enumerate(utilities) if j != i]
        least = max([0.0, *(-lead for lead in leads)])
        found[i] = math.fsum(
            (-1.0) ** n * math.exp(-sum(some) - (n + 1) * least) / (n + 1)
            for n in range(len(leads) + 1)
            for some in itertools.combinations(leads, n)
        )
    return found


def laplace_race_law(utilities: tuple[float, ...], scale: float) -> dict[int, float]:
    """Return the probabilities that each has the largest sum of utility and Laplace noise, by Simpson's rule."""
    at, step = np.linspace(-40.0, 50.0, 900_001, retstep=True)
    weights = np.full(at.size, 2.0)
    weights[1::2], weights[[0, -1]] = 4.0, 1.0
    found = {}
    for i, own in enumerate(utilities):
        product = 0.5 * np.exp(-np.abs(at - own / scale))
        for j, other in enumerate(utilities):
            if j != i:
                x = at - other / scale
                product = product * np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.abs(x)))
        found[i] = float((product * weights).sum() * step / 3.0)
    return found


def choices(
    kind: type,
    law: Callable[[tuple[float, ...], float], dict[int, float]],
    n: int = 30_000,
    fars: tuple[float, ...] = (0.0, FAR),
) -> bool:
    """Whether candidates are chosen with the stated probabilities, with small utilities and with large ones."""
    made = kind(scale=2.0, sensitivity=1.0)
    expected = law(UTILITIES, 2.0)

    def chosen(far: float) -> int:
        try:
            return int(made.release([each + far for each in UTILITIES]))
        except BaseException as error:  # an output like any other, also a panic, but none of the law's
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return -1

    return any(rates([chosen(far) for _ in range(n)], expected) for far in fars)


def threshold_law(distance: float, own: float, query: float) -> float:
    """Return P[query + noise ≥ threshold + noise] for Laplace noises of two scales."""
    tail = (own**2 * math.exp(-abs(distance) / own) - query**2 * math.exp(-abs(distance) / query)) / (own**2 - query**2)
    return 0.5 * tail if distance < 0 else 1.0 - 0.5 * tail


def thresholds() -> bool:
    """Whether first answers are positive as often as stated, where floats decide and where digits do."""
    found = False
    for far, distance in itertools.product((0.0, FAR), (-4.0, 0.0, 4.0)):
        made = [fd.SparseVector(threshold=far, sensitivity=1.0, epsilon=1.0) for _ in range(20_000)]
        p = threshold_law(distance, made[0].threshold_scale, made[0].query_scale)
        found |= rates([each.query(far + distance) for each in made], {1: p, 0: 1.0 - p})
    return found


def coins() -> bool:
    """Whether coins have the stated rate: of one rate, and of rates of their own."""
    found = False
    for gamma in (0.01, 0.7, 3.0, 9.0):
        p = math.exp(-gamma)
        law = {1: p, 0: 1.0 - p}
        found |= rates(SOURCE.bernoulli_exp(gamma, 300_000), law)
        found |= rates(SOURCE.bernoulli_exp(np.full(300_000, gamma)), law)
    return found or bool(SOURCE.bernoulli_exp(np.full(100_000, 700.0)).any())


def poisson_samples(probability: float, population: int) -> bool:
    """Whether records join, two neighbors join, and records of both halves join as often as stated."""
    joined = np.zeros(population, dtype=np.uint8)
    joined[poisson_sample(population, probability)] = 1
    q = probability
    both = joined[0::2] + 2 * joined[1::2]
    pair = {0: (1 - q) ** 2, 1: q * (1 - q), 2: q * (1 - q), 3: q * q}
    half = {0: 1 - q, 1: q}
    parts = (joined[: population // 2], joined[population // 2 :])
    return rates(both, pair) or any(rates(part, half) for part in parts)


def fixed_size_samples() -> bool:
    """Whether each of few records is drawn as often as all others, and each pair."""
    drawn = [tuple(sorted(fixed_size_sample(5, 2).tolist())) for _ in range(40_000)]
    pairs = list(itertools.combinations(range(5), 2))
    where = {pair: i for i, pair in enumerate(pairs)}
    return rates([where.get(each, -1) for each in drawn], dict.fromkeys(range(len(pairs)), 1.0 / len(pairs)))


def allocations() -> bool:
    """Whether each of few steps is chosen for a record as often as all others."""
    steps = random_allocation(200_000, num_steps=6, num_selected=2)
    counts = [np.asarray(each).size for each in steps]
    return any(rates(np.arange(200_000) < count, {1: 1 / 3, 0: 2 / 3}) for count in counts)


AUDITS: dict[str, Callable[[], bool]] = {
    "answers": lambda: answers(2),
    "answers of three kinds": lambda: answers(3),
    "answers of many kinds": lambda: answers(1000),
    "answers that are none": invalid_answers,
    "law of the exponential mechanism": lambda: choices(fd.ExponentialMechanism, exponential_law),
    "law of permute-and-flip": lambda: choices(fd.PermuteAndFlip, race_law),
    "law of noisy maxima": lambda: choices(fd.ReportNoisyMax, laplace_race_law),
    "law of thresholds": thresholds,
    "coins": coins,
    "rare members": lambda: poisson_samples(0.031, 10_000_000),
    "frequent members": lambda: poisson_samples(0.3, 1_000_000),
    "samples of a fixed size": fixed_size_samples,
    "steps of a record": allocations,
}
