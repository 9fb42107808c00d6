"""Conversion of Rényi divergences to (ε, δ): the best of the given orders, rounded in the safe direction.

If the outputs on neighboring datasets have a Rényi divergence of order α > 1 of at most ρ, the release is
(ε, δ)-private for every pair with

    ln δ = (α − 1)(ρ − ε) + α·ln(1 − 1/α) − ln(α − 1)

([BBGHS20] Theorem 21; [CKS20] Proposition 12). The divergence κ of order 1 bounds the total variation, which is δ(0),
by √(κ/2) and by √(1 − e^{−κ}) ([Tsy09] Lemmas 2.5 and 2.6); that of order ∞ is an ε with δ = 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.errors import InvalidParameter

Conversion: TypeAlias = Literal["improved", "classical"]


class Converted(NamedTuple):
    """A bound, the order that gives it, and the divergence at that order.

    Attributes
    ----------
    value : float
        The ε, δ or ln δ.
    order : float
        The best of the given orders.
    rho : float
        The divergence of that order.

    Examples
    --------
    >>> value, order, rho = rdp_to_epsilon([2, 8, 32], [0.02, 0.08, 0.32], delta=1e-5)
    >>> order, rho
    (32.0, 0.32)
    """

    value: float
    order: float
    rho: float


def rdp_to_epsilon(orders: Reals, rho: Reals, *, delta: Real, conversion: Conversion = "improved") -> Converted:
    """Return the smallest ε ≥ 0 that divergences at some orders imply.

    Parameters
    ----------
    orders : float or array_like
        α ≥ 1.
    rho : float or array_like
        Upper bounds on the divergences, ≥ 0 or `inf`; broadcast against the orders.
    delta : float
        In (0, 1). Rounded down if not exactly representable.
    conversion : "improved" or "classical"
        [CKS20] Proposition 12, or ε = ρ + ln(1/δ)/(α − 1) ([Mir17] Proposition 3), which is never smaller.

    Returns
    -------
    Converted
        The ε, `inf` if nothing is implied, with the best order.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> rdp_to_epsilon([2, 8, 32], [0.02, 0.08, 0.32], delta=1e-5).order
    32.0
    """
    return _best(orders, rho, _validate.delta(delta), False, conversion)


def rdp_to_log_delta(orders: Reals, rho: Reals, *, epsilon: Real, conversion: Conversion = "improved") -> Converted:
    """Return the smallest ln δ ≤ 0 that divergences at some orders imply, for δ below the range of floats too.

    Parameters
    ----------
    orders, rho : float or array_like
        As for `rdp_to_epsilon`.
    epsilon : float
        Finite, ≥ 0. Rounded down if not exactly representable.
    conversion : "improved" or "classical"
        As for `rdp_to_epsilon`.

    Returns
    -------
    Converted
        The ln δ, with the best order.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> rdp_to_log_delta([2, 8, 32], [0.02, 0.08, 0.32], epsilon=20.0).value < -600
    True
    """
    return _best(orders, rho, _validate.non_negative("epsilon", epsilon, toward="down"), True, conversion)


def rdp_to_delta(orders: Reals, rho: Reals, *, epsilon: Real, conversion: Conversion = "improved") -> Converted:
    """Return the smallest δ that divergences at some orders imply.

    Parameters
    ----------
    orders, rho, epsilon, conversion
        As for `rdp_to_log_delta`, which also returns values below the range of floats.

    Returns
    -------
    Converted
        The δ, with the best order.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> rdp_to_delta([2, 8, 32], [0.02, 0.08, 0.32], epsilon=1.0).value < 1e-9
    True
    """
    log, order, rho = rdp_to_log_delta(orders, rho, epsilon=epsilon, conversion=conversion)
    return Converted(_native.rdp_exp_upper(log), order, rho)


def _best(orders: Reals, rho: Reals, value: float, is_delta: bool, conversion: str) -> Converted:
    if conversion not in ("improved", "classical"):
        raise _validate.out_of_domain("conversion", '"improved" or "classical"', conversion)
    _, (places, divergences) = _arrays.broadcast(_arrays.orders(orders), _divergences(rho))
    if not places.size:
        raise InvalidParameter("orders must hold at least one order")
    return Converted(*_native.rdp_convert_values(places, divergences, value, is_delta, conversion == "classical"))


def _divergences(value: Reals) -> Array:
    """Return floats from 0 to infinity."""
    return _arrays.checked("rho", value, ">= 0", _is_divergence)


def _is_divergence(array: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return array >= 0.0
