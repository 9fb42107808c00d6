"""Mistakes that were planted after the audits were written, to see which escape; the claim of each is beside it."""

import numpy as np

import ferrodp as fd
from ferrodp.events import PoissonSampledEvent
from ferrodp.testing import seeded
from support.planted import ONE, ROWS, VALUES, by_hand, gaussian, laplace, replaced, total

MISSING = np.array([[3.0, 4.0], [np.nan, -0.2], [-6.0, 1.0], [0.5, 0.5]])
NAMES = np.array([1, 1, 1, 2, 3])
KEPT: dict[int, np.ndarray] = {}


def kept(rows):
    """Return what the first run released, for ever."""
    if 0 not in KEPT:
        KEPT[0] = total(rows)
    return KEPT[0]


def retried(rows):
    """Release twice where the first one is thrown away, as after a time-out."""
    for attempt in range(2):
        released = total(rows)
        if attempt:
            return released
    return None


def until_it_fits(rows):
    """Train as long as the true loss falls."""
    weights, steps = np.zeros(2), []
    while np.abs(rows.mean(axis=0) - weights).max() > 1.0 and len(steps) < 9:
        steps.append(total(rows - weights, denominator=4))
        weights = weights + 4.0 * np.sign(rows.mean(axis=0) - weights)
    return steps


def of_microbatches(rows):
    """Clip sums of two records each: one that comes moves all that follow."""
    return gaussian(by_hand(np.add.reduceat(rows, np.arange(0, len(rows), 2), axis=0)).sum(axis=0))


def filled(rows):
    """Replace what is missing by the mean of the others."""
    return gaussian(by_hand(np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows)).sum(axis=0))


FURTHER = {
    "clipped in grams, noise in kilograms": (lambda d: gaussian(by_hand(d * 1e3, 1e3).sum(axis=0)), ROWS, None, None),
    "noise divided by the size of the batch": (
        lambda d: gaussian(by_hand(d).sum(axis=0), 1.0 / len(d)) / len(d),
        ROWS,
        None,
        None,
    ),
    "all rows, accounted as a sample": (total, ROWS, None, PoissonSampledEvent(sampling_probability=0.1, event=ONE)),
    "one seed for all steps": (lambda d: [total(d, source=seeded(bytes(32))) for _ in range(2)], ROWS, None, None),
    "noise first, clip then": (lambda d: by_hand(gaussian(d)).sum(axis=0), ROWS, None, None),
    "noise whose variance is the multiplier": (
        lambda d: fd.GaussianMechanism(noise_multiplier=2.0**0.5, l2_sensitivity=1.0).release(by_hand(d).sum(axis=0)),
        ROWS,
        None,
        ONE,
    ),
    "microbatches that are clipped together": (of_microbatches, ROWS, None, None),
    "centered by the mean of the data": (
        lambda d: gaussian(by_hand(d - d.mean(axis=0)).sum(axis=0)),
        ROWS,
        None,
        None,
    ),
    "scaled by the deviation of the data": (
        lambda d: gaussian(by_hand(d / d.std(axis=0)).sum(axis=0)),
        ROWS,
        None,
        None,
    ),
    "a retry that is not paid for": (retried, ROWS, None, ONE),
    "stopped when the true loss is small": (until_it_fits, ROWS, None, None),
    "a join that repeats records": (
        lambda d: gaussian(by_hand(np.repeat(d, 3, axis=0)).sum(axis=0)),
        ROWS,
        None,
        None,
    ),
    "missing values from the other rows": (filled, MISSING, None, None),
    "counts of the names that occur": (
        lambda d: {int(name): laplace(float(np.sum(d == name))) for name in np.unique(d)},
        NAMES,
        None,
        None,
    ),
    "a release that is kept for ever": (kept, ROWS, None, None),
    "divided by a private norm": (lambda d: total(d) / np.linalg.norm(d), ROWS, None, None),
    "squares with the bound of the values": (
        lambda d: laplace(float((np.clip(d, 0.0, 3.0) ** 2).sum()), 3.0),
        VALUES,
        None,
        None,
    ),
    "a sum in bytes that wraps": (
        lambda d: laplace(float(np.clip(d, 0, 60).astype(np.int8).sum(dtype=np.int8)), 60.0),
        np.array([60.0, 50.0, 60.0]),
        None,
        None,
    ),
    "replaced rows, centered at the first": (
        lambda d: gaussian(by_hand(d - d[0]).sum(axis=0), 2.0),
        ROWS,
        replaced(ROWS),
        None,
    ),
}
