"""Rényi curves of releases about a Poisson sample, from the Rényi curve of the release alone.

Accountants use it for events. With P the law of the result for a sample that has the record, and Q for the
same sample without it, the laws to be told apart are P′ = (1 − q)Q + qP and Q; that the rest of the sample is random
costs nothing, as moments are jointly convex. Let r = dP/dQ and u = dP′/dQ = 1 − q + qr.

*P′ against Q.* At whole orders, with E_Q[rˡ] = e^{(l−1)D_l(P‖Q)}, the binomial expansion is exact:

    A(n) = E_Q[uⁿ] = 1 + Σ_{l=2}^n C(n, l)·qˡ·(1 − q)^{n−l}·(E_Q[rˡ] − 1),

since E_Q[1] = E_Q[r] = 1 ([MTZ19] Section 3.3; [ZW19] Theorem 6). At any order, by
Minkowski's inequality, A(α) ≤ (1 − q + q·e^{(α−1)ρ(α)/α})^α.

*Q against P′.* B(α) = E_Q[u^{1−α}]. With v = 1 − q + q/r,

    u^{1−α} + r·v^{1−α} ≤ u^α + r·v^α        for all r > 0 and α ≥ 1:                                          (*)

let r ≥ 1 (the case r < 1 is the same one, divided by r), w = 1/v and s = r/w, so that 1 ≤ w ≤ u because of uv ≥ 1. With
c = α − ½, (*) is √u·sinh(c·ln u) ≥ s·√w·sinh(c·ln w). The quotient of the two sinh does not fall as c grows, because
u ≥ w; and for c = ½ both sides are q(r − 1)/2. Taking E_Q of (*), where E_Q[r·f(1/r)] = E_P[f(dQ/dP)],

    B(P, Q) + B(Q, P) ≤ A(P, Q) + A(Q, P).

If the loss is *symmetric*, which means that one map exchanges P and Q, as a reflection does for noise that is added,
then B ≤ A: [MTZ19] Theorem 5, here for lattices too. In general B − 1 ≤ 2(A − 1), as B(Q, P) ≥ 1.

The other bounds on B: as u ≥ 1 − q, ln B ≤ −(α − 1)·ln(1 − q), and by Taylor's formula around u = 1, B ≤ 1 +
α(α − 1)/2·q²·(1 − q)^{−α−1}·(E_Q[r²] − 1); as u ≥ r^q, ln B ≤ q(α − 1)·ρ(1 + q(α − 1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.accounting.rdp._moment_curve import MomentCurve, log_binomial_terms, log_one_plus, log_sum

_UNIT = 2.0**-48
"""Relative error of the parts of logarithms: numpy's functions and ln n! within 2⁻⁵⁰, and a dozen roundings."""
_UP = 1.0 + 2.0**-44
"""For sums of 2¹⁶ positive terms, added in pairs, and elementary functions of them."""


def poisson_sampled(
    base_rdp: Callable[[Array], Array], sampling_probability: Real, orders: Reals, *, is_symmetric: bool = False
) -> Any:
    """Return upper bounds on ρ(α) of any release about a Poisson sample, one record being added or removed.

    Parameters
    ----------
    base_rdp : callable
        Takes an array of orders, 1 ≤ α ≤ ∞, and returns upper bounds on the curve of the release itself, for a record
        that is added or removed.
    sampling_probability : float
        The chance of each record to be in the sample; in [0, 1]. Rounded up if not exactly representable.
    orders : float or array
        α ≥ 1; 1 and `inf` are allowed.
    is_symmetric : bool
        Whether one map of the results exchanges the two laws, as for noise with a symmetric law that is added to a
        number. Then only one direction counts.

    Returns
    -------
    float or float64 ndarray
        Upper bounds, of the shape of the orders.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or the curve returns anything but divergences.

    Notes
    -----
    The module's docstring has the theorem and its proof. For a symmetric loss whose divergences are exact, the bound is
    exact at whole orders up to 64; it never exceeds the curve itself. `poisson_sampled_gaussian` is exact at all
    orders.

    Examples
    --------
    >>> bounds = poisson_sampled(lambda orders: orders / 2, 0.01, [2, 8], is_symmetric=True)
    >>> bounds.round(6).tolist()
    [0.000172, 0.000894]
    """
    q = _validate.probability("sampling_probability", sampling_probability, toward="up")
    places = _arrays.orders(orders)
    found = poisson_sampled_curve(base_rdp, q, is_symmetric=is_symmetric)(np.ascontiguousarray(places).reshape(-1))
    return found.reshape(places.shape) if places.ndim else float(found[0])


def poisson_sampled_curve(
    base: Callable[[Array], Array], probability: float, *, is_symmetric: bool
) -> Callable[[Array], Array]:
    """Return the curve of the sample as a function of orders."""
    if probability == 0.0:
        return lambda orders: np.zeros(orders.shape)
    if probability == 1.0:
        return lambda orders: _arrays.divergences("base_rdp", base, orders)
    sample = _Sample(base, probability, is_symmetric)
    return MomentCurve(sample.log_moment, sample.anyway)


class _Sample:
    def __init__(self, base: Callable[[Array], Array], probability: float, is_symmetric: bool) -> None:
        self._base = base
        self._q = probability
        self._is_symmetric = is_symmetric
        self._log_q, self._log_rest = math.log(probability), math.log1p(-probability)
        self._excess = np.zeros(0)
        """ln(E_Q[rˡ] − 1) for l = 2, 3, …; as many as were needed, rounded up."""

    def log_moment(self, order: int) -> float:
        """Return an upper bound on ln A, or on the larger of ln A and ln B."""
        log_excess = self._log_excess(order)
        if self._is_symmetric:
            return log_one_plus(log_excess)
        by_both = log_one_plus(log_excess + math.log(2.0) + _UNIT)
        return max(log_one_plus(log_excess), min(by_both, self._other_direction(order)))

    def _log_excess(self, order: int) -> float:
        """Return ln Σ C(n, l)·qˡ·(1 − q)^{n−l}·(E_Q[rˡ] − 1), each term raised by what its logarithm may be off."""
        others = (order - np.arange(2.0, order + 1.0)) * self._log_rest
        return log_sum((*log_binomial_terms(order, self._log_q), others, self._excesses(order)), _UNIT)

    def _excesses(self, order: int) -> Array:
        """Return ln(e^{(l−1)ρ(l)} − 1) for 2 ≤ l ≤ n, rounded up."""
        if self._excess.size < order - 1:
            known = max(64, 2 * order)
            places = np.arange(2.0, known + 1.0)
            x = (places - 1.0) * _arrays.divergences("base_rdp", self._base, places) * (1.0 + 2.0**-51)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                small = np.log(np.expm1(np.minimum(x, 1.0)))
                large = x + np.log1p(-np.exp(-np.maximum(x, 1.0)))
            found = np.where(x < 1.0, small, np.where(x < math.inf, large, math.inf))
            self._excess = np.where(np.isfinite(found), found + _UNIT * (1.0 + np.abs(found)), found)
        return self._excess[: order - 1]

    def _other_direction(self, order: float) -> float:
        """Return the smallest of the upper bounds on ln B."""
        n = float(order)
        taylor = math.log(n * (n - 1.0) / 2.0) + 2.0 * self._log_q - (n + 1.0) * self._log_rest
        size = 1.0 + math.log(n * n) - 2.0 * self._log_q - (n + 1.0) * self._log_rest
        by_taylor = log_one_plus(taylor + float(self._excesses(2)[0]) + _UNIT * size)
        t = self._q * (n - 1.0) * (1.0 + 2.0**-51)
        by_means = t * float(_arrays.divergences("base_rdp", self._base, np.array([(1.0 + t) * (1.0 + 2.0**-51)]))[0])
        return min(by_taylor, -(n - 1.0) * self._log_rest * _UP, by_means * _UP)

    def anyway(self, orders: Array) -> Array:
        """Return the bounds at any order: Minkowski's, those on Q against P′, and the curve itself."""
        plain = _arrays.divergences("base_rdp", self._base, orders)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            share = np.where(orders == math.inf, 1.0, (orders - 1.0) / orders)
            x = np.where(share == 0.0, 0.0, share * plain) * (1.0 + 2.0**-50)
            small = np.log1p(self._q * np.expm1(np.minimum(x, 1.0)))
            large = np.logaddexp(self._log_rest, self._log_q + np.maximum(x, 1.0))
            taken = np.where(x < 1.0, small, large + _UNIT * (1.0 + np.abs(large) + x - self._log_q))
            joined = np.where(orders > 1.0, taken / np.maximum(share, 1e-300), self._q * plain) * _UP
        if not self._is_symmetric:
            joined = np.maximum(joined, np.minimum(plain, -self._log_rest * _UP))
        return np.minimum(joined, plain)
