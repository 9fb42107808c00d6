"""Other tools that `ferrodp bench` compares with, where they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def peer(name: str) -> Any:
    """Return the module, or None if it is not installed or does not load."""
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def mkl_random_state(module: Any) -> Any:
    """Return a generator of mkl_random, whose class changed its name: ARS-5, its fastest."""
    return (getattr(module, "MKLRandomState", None) or module.RandomState)(brng="ARS5")


def opendp_release(
    make: str, scale: float, size: int | None = None, *, integers: bool = False
) -> Callable[[], object] | None:
    """Return OpenDP's release of `size` zeros, or of one number; None without OpenDP."""
    dp = peer("opendp.prelude")
    if dp is None:
        return None
    dp.enable_features("contrib")
    atom = dp.atom_domain(T="i64") if integers else dp.atom_domain(T=float, nan=False)
    if size is None:
        number = getattr(dp.m, make)(atom, dp.absolute_distance(T=float), scale=scale)
        return lambda: number(1.0)
    zeros = [0 if integers else 0.0] * size
    metric = dp.l1_distance(T="i64" if integers else float) if make == "make_laplace" else dp.l2_distance(T=float)
    vector = getattr(dp.m, make)(dp.vector_domain(atom), metric, scale=scale)
    return lambda: vector(zeros)
