"""Zero-concentrated differential privacy: conversion of ρ to (ε, δ), and back.

The textbook formulas are evaluated in decimals here, three operations each: 0.2 ms.
"""

from __future__ import annotations

from typing import Literal

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import arithmetic, point

ConversionMethod = Literal["tight", "simple"]
_DIGITS = 50


def zcdp_delta(*, rho: Real, epsilon: Real) -> float:
    """Return a δ for which every ρ-zCDP mechanism is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    rho : float
        The bound on all Rényi divergences, as a multiple of their order; finite, ≥ 0. Rounded up if not exactly
        representable.
    epsilon : float
        Finite, ≥ 0. Rounded down if not exactly representable.

    Returns
    -------
    float
        An upper bound, close to the least that can be concluded from ρ-zCDP alone.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    δ = min over α > 1 of e^{(α−1)(αρ−ε)}·(1 − 1/α)^α/(α − 1): [CKS20] Corollary 13; evaluated rigorously at one α, so
    that it is an upper bound for whatever α. A composition of Gaussian releases has a smaller δ, which `GdpAccountant`
    returns.

    Examples
    --------
    >>> zcdp_delta(rho=0.5, epsilon=1.0)
    0.2468463307829445
    """
    checked_rho = _validate.non_negative("rho", rho)
    return _native.zcdp_delta(point(checked_rho), _validate.non_negative("epsilon", epsilon, toward="down"))


def zcdp_epsilon(*, rho: Real, delta: Real, method: ConversionMethod = "tight") -> float:
    """Return an ε for which every ρ-zCDP mechanism is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    rho : float
        The bound on all Rényi divergences, as a multiple of their order; finite, ≥ 0. Rounded up if not exactly
        representable.
    delta : float
        In (0, 1). Rounded down if not exactly representable.
    method : {"tight", "simple"}
        The best known conversion, or the textbook formula, which is never smaller.

    Returns
    -------
    float
        An upper bound, ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    "tight": the ε at which `zcdp_delta` is δ, never below 0. "simple": ρ + 2·√(ρ·ln(1/δ)), [BS16] Proposition 1.3.

    Examples
    --------
    >>> zcdp_epsilon(rho=0.1, delta=1e-6)
    2.141938928385474
    >>> zcdp_epsilon(rho=0.1, delta=1e-6, method="simple")
    2.4507880004768
    """
    checked_rho, checked_delta = point(_validate.non_negative("rho", rho)), _validate.delta(delta)
    if not _is_simple(method):
        return _native.zcdp_epsilon(checked_rho, checked_delta)
    r = arithmetic(_DIGITS)
    root = r.sqrt(r.mul(checked_rho, r.ln(point(checked_delta)).negated()))
    return r.add(checked_rho, r.mul(point(2), root)).floats().upper


def zcdp_rho(*, epsilon: Real, delta: Real, method: ConversionMethod = "tight") -> float:
    """Return a ρ, within rounding the largest, for which ρ-zCDP implies (ε, δ)-differential privacy, rounded down.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. Rounded down if not exactly representable.
    delta : float
        In (0, 1). Rounded down if not exactly representable.
    method : {"tight", "simple"}
        Which conversion to invert; see `zcdp_epsilon`.

    Returns
    -------
    float
        0.0 where no float > 0 is small enough.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The inverse of `zcdp_epsilon`: a budget for `ZcdpFilter`, or a target for noise.

    Examples
    --------
    >>> zcdp_rho(epsilon=1.0, delta=1e-6)
    0.024355970359538372
    """
    total, target = _validate.non_negative("epsilon", epsilon, toward="down"), _validate.delta(delta)
    if not _is_simple(method):
        return _native.zcdp_rho(total, target)
    # (√(ε + ln 1/δ) − √(ln 1/δ))², without cancellation
    r = arithmetic(_DIGITS)
    goal = r.ln(point(target)).negated()
    longer = r.sqrt(r.add(point(total), goal))
    return r.square(r.div(point(total), r.add(longer, r.sqrt(goal)))).floats().lower


def _is_simple(method: object) -> bool:
    if not isinstance(method, str) or method not in ("tight", "simple"):
        raise _validate.out_of_domain("method", '"tight" or "simple"', method)
    return method == "simple"
