"""Code with planted mistakes of the thirteen classes that were found in libraries, each with sound code beside it."""

import numpy as np

import ferrodp as fd
from ferrodp.events import GaussianEvent, LaplaceEvent, SelfComposedEvent
from ferrodp.testing import seeded

ROWS = np.array([[3.0, 4.0], [0.3, -0.2], [-6.0, 1.0], [0.5, 0.5], [100.0, -30.0]])
VALUES = np.array([1.0, 4.0, 9.0, 2.5, 60.0])
ONE = GaussianEvent(noise_multiplier=2.0)


def replaced(rows):
    """Return neighbors with one record replaced by its opposite."""
    found = []
    for i in range(len(rows)):
        other = rows.copy()
        other[i] = -rows[i] * 1.5
        found.append(other)
    return found


def gaussian(values, sensitivity=1.0, **options):
    return fd.GaussianMechanism(noise_multiplier=2.0, l2_sensitivity=sensitivity).release(values, **options)


def laplace(values, sensitivity=1.0):
    return fd.LaplaceMechanism(scale=2.0, l1_sensitivity=sensitivity).release(values)


def clipped(rows, norm=1.0):
    return fd.clip_rows(rows.copy(), clip_norm=norm) if len(rows) else rows


def by_hand(rows, norm=1.0):
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    return rows * np.minimum(1.0, 0.999999 * norm / lengths)


def grid(rows, norm=1.0):
    total = fd.ClippedSum((rows.shape[1],), clip_norm=norm)
    total.add_many(rows)
    return total


def total(rows, **options):
    return grid(rows).release(noise_multiplier=2.0, **options)


SOUND = {
    "a sum": (lambda d: total(d), ROWS, None, ONE),
    "a mean by a public number": (lambda d: total(d, denominator=5), ROWS, None, ONE),
    "a sum clipped by hand": (lambda d: gaussian(by_hand(d).sum(axis=0)), ROWS, None, ONE),
    "a replaced record": (lambda d: gaussian(by_hand(d).sum(axis=0), 2.0), ROWS, replaced(ROWS), ONE),
    "a count": (lambda d: laplace(float(len(d))), VALUES, None, LaplaceEvent(noise_multiplier=2.0)),
    "two steps": (lambda d: [total(d), total(d)], ROWS, None, SelfComposedEvent(event=ONE, count=2)),
    "a median within public bounds": (
        lambda d: float(np.clip(laplace(float(np.clip(d, 0, 1).sum())), 0, 9)),
        VALUES,
        None,
        None,
    ),
    "a trained line": (lambda d: {"w": total(d) * 0.1, "steps": 1}, ROWS, None, ONE),
}


def noise_once(rows):
    noise = gaussian(np.zeros(2))
    return [by_hand(rows).sum(axis=0) + noise, (by_hand(rows) ** 2).sum(axis=0) + noise]


def same_noise(values):
    noise = laplace(0.0)
    return {"sum": np.clip(values, 0, 1).sum() + noise, "count": len(values) + noise}


PLANTED = {
    # clip missing or after the noise
    "no clip": (lambda d: gaussian(d.sum(axis=0)), ROWS, None, None),
    "clip of the sum": (lambda d: by_hand(gaussian(d.sum(axis=0))[None])[0], ROWS, None, None),
    "clip after the noise": (lambda d: np.clip(laplace(float(d.sum())), 0.0, 5.0), VALUES, None, None),
    "clip of the first row alone": (
        lambda d: gaussian(by_hand(d[:1]).sum(axis=0) + d[1:].sum(axis=0)),
        ROWS,
        None,
        None,
    ),
    # wrong norm
    "rows clipped to L2, noise for L1": (lambda d: laplace(by_hand(d).sum(axis=0)), ROWS, None, None),
    "coordinates clipped, noise for L2": (lambda d: gaussian(np.clip(d, -1, 1).sum(axis=0)), ROWS, None, None),
    "largest coordinate clipped, noise for L1": (lambda d: laplace(np.clip(d, -1, 1).sum(axis=0)), ROWS, None, None),
    "histogram of pairs with noise for one": (
        lambda d: laplace(np.array([(d > 1).sum(), (d > 2).sum()], float)),
        VALUES,
        None,
        None,
    ),
    # the factor 2 of replacement
    "replaced rows with the norm once": (lambda d: gaussian(by_hand(d).sum(axis=0)), ROWS, replaced(ROWS), None),
    "replaced values with the bound once": (
        lambda d: laplace(float(np.clip(d, -1, 1).sum())),
        VALUES,
        replaced(VALUES),
        None,
    ),
    "replaced rows in a clipped sum": (lambda d: total(d), ROWS, replaced(ROWS), None),
    # data-dependent denominator
    "mean by the number of rows": (lambda d: total(d) / len(d), ROWS, None, None),
    "denominator of a release": (lambda d: total(d, denominator=len(d)), ROWS, None, None),
    "divided by the largest": (lambda d: laplace(float(np.clip(d, 0, 1).sum())) / d.max(), VALUES, [VALUES[:-1]], None),
    "mean before the noise": (lambda d: laplace(float(d.mean()), 1.0 / len(d)), VALUES, None, None),
    # noise drawn once and reused
    "noise drawn once for two sums": (noise_once, ROWS, None, None),
    "noise of a count for a sum": (same_noise, VALUES, None, None),
    "noise of zeros added by hand": (lambda d: d.sum(axis=0) + gaussian(np.zeros(2)), ROWS, None, None),
    "noise broadcast over coordinates": (lambda d: by_hand(d).sum(axis=0) + gaussian(0.0), ROWS, None, None),
    # noise scaled with the wrong bound
    "clipped to 5, noise for 1": (lambda d: gaussian(by_hand(d, 5.0).sum(axis=0)), ROWS, None, None),
    "values up to 10, noise for 1": (lambda d: laplace(float(np.clip(d, 0, 10).sum())), VALUES, None, None),
    "sum with noise for a mean": (lambda d: gaussian(by_hand(d).sum(axis=0), 0.2), ROWS, None, None),
    # bounds taken from the data
    "sensitivity from the data": (lambda d: laplace(float(d.sum()), float(d.max())), VALUES, [VALUES[:-1]], None),
    "clip norm from the data": (
        lambda d: fd.ClippedSum((2,), clip_norm=float(np.abs(d).max())).release(noise_multiplier=2.0),
        ROWS,
        [ROWS[:-1]],
        None,
    ),
    "clipped at a quantile": (
        lambda d: gaussian(by_hand(d, np.median(np.linalg.norm(d, axis=1))).sum(axis=0)),
        ROWS,
        None,
        None,
    ),
    "bins from the data": (lambda d: laplace(np.histogram(d, 3)[0].astype(float)), VALUES, [VALUES[:-1]], None),
    # unclipped scalars and integers
    "a counter beside the sum": (lambda d: {"w": total(d), "n": len(d)}, ROWS, None, None),
    "an integer leaf": (lambda d: {"w": total(d), "batches": np.array(len(d))}, ROWS, None, None),
    "a scalar leaf": (lambda d: (total(d), float(d[:, 0].sum())), ROWS, None, None),
    "a loss": (lambda d: {"w": total(d), "loss": float(np.mean(d**2))}, ROWS, None, None),
    # private values used again after the noise
    "error of the released": (lambda d: float(np.abs(total(d) - d.sum(axis=0)).max()), ROWS, None, None),
    "larger of both": (lambda d: np.maximum(laplace(float(len(d))), d.max()), VALUES, [VALUES[:-1]], None),
    "release if it is near": (lambda d: laplace(float(len(d))) if len(d) > 4 else None, VALUES, None, None),
    "released again until it fits": (lambda d: [laplace(float(len(d))) for _ in range(len(d))], VALUES, None, None),
    # accountant fed other parameters
    "half the noise accounted": (lambda d: total(d), ROWS, None, GaussianEvent(noise_multiplier=4.0)),
    "one step of two accounted": (lambda d: [total(d), total(d)], ROWS, None, ONE),
    "another scale accounted": (lambda d: laplace(float(len(d))), VALUES, None, LaplaceEvent(noise_multiplier=3.0)),
    # seeded generator
    "seeded sums": (lambda d: total(d, source=seeded(bytes(32))), ROWS, None, None),
    "seeded by the day": (
        lambda d: gaussian(by_hand(d).sum(axis=0), source=seeded(bytes([22]) * 32)),
        ROWS,
        None,
        None,
    ),
    "seeded by the data": (lambda d: total(d, source=seeded(bytes([len(d)]) * 32)), ROWS, None, None),
    # group clipping counted once
    "two groups, noise for one": (
        lambda d: gaussian(np.concatenate([by_hand(d).sum(axis=0), by_hand(d).sum(axis=0)])),
        ROWS,
        None,
        None,
    ),
    "two groups, one accounted": (lambda d: {"a": total(d), "b": total(d)}, ROWS, None, ONE),
    "a group for each column, noise for one": (lambda d: gaussian(np.clip(d, -1, 1).sum(axis=0)), ROWS, None, None),
    # truncation to a private range
    "cut to the range of the data": (
        lambda d: np.clip(laplace(float(np.clip(d, 0, 1).sum())), 0, d.max()),
        VALUES[[0, 3, 4]],
        [VALUES[[0, 3]]],
        None,
    ),
    "cut to the number of rows": (lambda d: min(laplace(float(len(d))), float(len(d))), VALUES, None, None),
    "rounded to a multiple of the least": (
        lambda d: np.round(laplace(float(len(d))) / d.min()) * d.min(),
        VALUES,
        None,
        None,
    ),
}
