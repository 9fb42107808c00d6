"""Exact differential privacy at memory speed."""

from ferrodp import errors, random, testing
from ferrodp._native import __version__
from ferrodp.random import NoiseSource

__all__ = ["NoiseSource", "__version__", "errors", "random", "testing"]
