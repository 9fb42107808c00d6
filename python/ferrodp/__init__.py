"""Exact differential privacy at memory speed."""

from ferrodp._native import __version__

__all__ = ["__version__"]
