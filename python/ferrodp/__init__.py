"""Exact differential privacy at memory speed."""

from ferrodp import clipping, errors, random, sums, testing
from ferrodp._native import __version__
from ferrodp.clipping import clip_and_sum, clip_by_global_norm, clip_rows
from ferrodp.random import NoiseSource
from ferrodp.sums import ClippedSum, GridSum

__all__ = [
    "ClippedSum",
    "GridSum",
    "NoiseSource",
    "__version__",
    "clip_and_sum",
    "clip_by_global_norm",
    "clip_rows",
    "clipping",
    "errors",
    "random",
    "sums",
    "testing",
]
