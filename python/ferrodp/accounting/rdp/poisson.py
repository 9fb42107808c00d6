"""Rényi curves of releases about a Poisson sample, from the Rényi curve of the release alone.

Accountants use it for events; the sums are in `ferrodp_accounting::rdp::amplified`. With P the law of the result for a
sample that has the record, and Q for the same sample without it, the laws to be told apart are P′ = (1 − q)Q + qP and
Q; that the rest of the sample is random costs nothing, as moments are jointly convex. Let r = dP/dQ and u = dP′/dQ =
1 − q + qr.

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

from collections.abc import Callable
from typing import Any

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals


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
    is_symmetric = _validate.truth("is_symmetric", is_symmetric)
    places = _arrays.orders(orders)
    found = poisson_sampled_curve(base_rdp, q, is_symmetric=is_symmetric)(np.ascontiguousarray(places).reshape(-1))
    return found.reshape(places.shape) if places.ndim else float(found[0])


def poisson_sampled_curve(
    base: Callable[[Array], Array], probability: float, *, is_symmetric: bool
) -> Callable[[Array], Array]:
    """Return the curve of the sample as a function of orders."""
    if probability == 0.0:
        return lambda orders: np.zeros(orders.shape)

    def checked(orders: Array) -> Array:
        return _arrays.divergences("base_rdp", base, orders)

    return checked if probability == 1.0 else _native.SampledCurve(checked, probability, is_symmetric)
