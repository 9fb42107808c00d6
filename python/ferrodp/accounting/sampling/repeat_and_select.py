"""The privacy loss of releasing the best of a random number of runs, as in a search for hyperparameters.

The number of runs is drawn from a truncated negative binomial distribution (geometric, logarithmic, …) or a Poisson
distribution and kept secret; only the best result is released. Notation and theorems are those of [PS22].
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Interval, arithmetic, exact, float_up, point
from ferrodp.accounting._arrays import Array, divergences
from ferrodp.accounting.rdp.rules import Curve, curve_of, register
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import NeighboringRelation, RepeatAndSelectEvent

_DIGITS = 60
_MARGIN = 1.0 + 2.0**-40
"""For sums of a few positive terms, each the product of numpy functions and operations within 2⁻⁴⁸."""
_EXPONENTIAL_MARGIN = 1.0 + 2.0**-30
"""For e^x with |x| < 2¹⁰ and x within 2⁻⁴² of its terms, which are below 2¹¹."""
_ORDERS = np.concatenate([1.0 + np.geomspace(1e-4, 1e10, 400), [math.inf]])
_NUM_REFINED = 64
"""Orders between those next to the best of `_ORDERS`, of which the best is taken."""


def repeat_and_select_epsilon(*, epsilon: Real, shape: Real) -> float:
    """Return the pure ε of the best of a truncated negative binomial number of ε-private runs: (2 + η)·ε, rounded up.

    Parameters
    ----------
    epsilon : float
        The pure ε of one run; finite, ≥ 0. Rounded up if not exactly representable.
    shape : float
        η of the law: 1 geometric, 0 logarithmic; finite, > −1. Rounded up if not exactly representable.

    Returns
    -------
    float
        Valid for any mean number of runs; `inf` beyond the range of floats.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [PS22] Corollary 3. There is no such bound for a Poisson number.

    Examples
    --------
    >>> repeat_and_select_epsilon(epsilon=1.0, shape=0.5)
    2.5
    """
    eta = _validate.exact("shape", shape)
    if eta <= -1:
        raise _validate.out_of_domain("shape", "finite and > -1", shape)
    return _validate.rounded((2 + eta) * Fraction(_validate.non_negative("epsilon", epsilon)), "up")


class RepeatAndSelectCurve:
    """The Rényi curve of the best of a random number of runs; call it with orders.

    Parameters
    ----------
    curve : callable
        Takes an array of orders, 1 ≤ α ≤ ∞, and returns upper bounds on the Rényi divergences of one run.
    mean : float
        The mean number of runs, at least 1. Rounded up if not exactly representable.
    shape : float
        η ≥ 0 of the truncated negative binomial law, or infinite for the Poisson law.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type, or the curve returns anything but divergences.

    Notes
    -----
    Truncated negative binomial (Theorem 2), whatever the order α̂ ≥ 1:

        ρ′(α) = ρ(α) + (1 + η)·((1 − 1/α̂)·ρ(α̂) + ln(1/γ)/α̂) + ln(E[K])/(α − 1),

    with γ such that η(1/γ − 1)/(1 − γ^η) = E[K]. The best α̂ does not depend on α; it is found by search, and any is
    valid.

    Divergences do not decrease as the order grows ([EH14] Theorem 3), so that ρ′ at any higher order is a bound too:
    the curve is the least of ρ′ at α itself and at some 460 higher orders, ∞ included. Without that, the term
    ln(E[K])/(α − 1) would grow without limit near 1.

    Poisson, mean μ (Theorem 6, with a separate term for no run at all, which both neighbors have with probability
    e^{−μ}):

        ρ′(α) = ln(μ·e^{(α−1)(ρ(α) + μδ̂)} + e^{−μ})/(α − 1),

    with the δ̂ of one run at ε̂ = ln(1 + 1/(α − 1)), by [CKS20] Proposition 12 or Pinsker's inequality.

    A run may be a composition, such as a training: ρ is then the sum of its curves.

    The curve does not include a δ of one run, which has to be charged E[K] times. Proof: a run fails with a probability
    δ that is the same for both neighbors, and has the curve otherwise. Given that no run fails, the number of runs has
    weights P[K = k]·(1 − δ)ᵏ, a distribution of the same family with the same η, a larger γ and a smaller mean, for
    which the bounds above are smaller; and some run fails with probability at most E[K]·δ.

    Rounding errors are covered by factors 1 + 2⁻⁴⁰ and, for δ̂, 1 + 2⁻³⁰. The search for γ ends with interval
    arithmetic on decimals, 0.2 ms once per curve.

    Examples
    --------
    >>> best = RepeatAndSelectCurve(lambda orders: orders / 200, mean=10.0, shape=1.0)
    >>> [float(best(np.array([order]))[0].round(4)) for order in (8.0, 22.0)]
    [0.6388, 0.6388]
    """

    def __init__(self, curve: Curve, *, mean: Real, shape: Real) -> None:
        if not callable(curve):
            raise InvalidType(f"curve must be a function of orders, got {type(curve).__name__}")
        self._curve = curve
        self._mean = _validate.positive("mean", mean)
        if self._mean < 1.0:
            raise _validate.out_of_domain("mean", "finite and >= 1", mean)
        self._is_poisson = type(shape) is float and shape == math.inf
        self._shape = math.inf if self._is_poisson else _validate.non_negative("shape", shape)
        self._log_mean = float_up(arithmetic(_DIGITS).ln(point(self._mean)).upper) if self._mean > 1.0 else 0.0
        if self._is_poisson:
            self._grid, self._on_grid = _ORDERS[:-1], self._base(_ORDERS[:-1])
        else:
            self._extra = self._best_extra(log_one_over_gamma(self._mean, self._shape))
        self._higher, self._least = self._envelope()

    def __call__(self, orders: ArrayLike) -> Array:
        """Return upper bounds on the Rényi divergences at these orders, α ≥ 1."""
        alpha = np.atleast_1d(np.asarray(orders, dtype=np.float64))
        if not (alpha >= 1.0).all():
            raise InvalidParameter("orders must be >= 1")
        least: Array = self._least[np.searchsorted(self._higher, alpha)]
        return np.minimum(self._at(alpha), least)

    def _envelope(self) -> tuple[Array, Array]:
        """Return increasing orders, the last one ∞, and the least of the theorem's bounds from each of them on."""
        values = self._at(_ORDERS)
        best = int(np.argmin(values))
        around = _between(_ORDERS[max(best - 1, 0)], _ORDERS[min(best + 1, _ORDERS.size - 2)])
        orders = np.concatenate([_ORDERS, around])
        values = np.concatenate([values, self._at(around)])
        rising = np.argsort(orders, kind="stable")
        return orders[rising], np.minimum.accumulate(values[rising][::-1])[::-1]

    def _at(self, alpha: Array) -> Array:
        """Return the theorem's bounds at these orders themselves."""
        base = self._base(alpha)
        if self._is_poisson:
            return np.array([self._poisson_at(*each) for each in zip(alpha.tolist(), base.tolist(), strict=True)])
        with np.errstate(divide="ignore"):
            share = self._log_mean / (alpha - 1.0) if self._log_mean else np.zeros_like(alpha)
        return (base + self._extra + share) * _MARGIN

    def _base(self, orders: Array) -> Array:
        return divergences("curve", self._curve, orders)

    def _best_extra(self, log_inverse: float) -> float:
        """Return the least of (1 + η)·((1 − 1/α̂)·ρ(α̂) + ln(1/γ)/α̂) that was found, rounded up."""

        def terms(orders: Array) -> Array:
            with np.errstate(invalid="ignore"):  # ∞/∞ at order ∞; 0·∞ at 1, where the divergence does not count
                part = np.where(orders == math.inf, 1.0, (orders - 1.0) / orders)
                first = np.where(orders == 1.0, 0.0, part * self._base(orders))
            return (1.0 + self._shape) * (first + log_inverse / orders)

        grid = np.concatenate([[1.0], _ORDERS])
        values = terms(grid)
        best = int(np.argmin(values))
        if 1 < best < grid.size - 2:
            values = np.append(values, terms(_between(grid[best - 1], grid[best + 1])))
        return float(values.min()) * _MARGIN

    def _poisson_at(self, order: float, divergence: float) -> float:
        if order == 1.0 or divergence == math.inf:
            return math.inf
        failure = self._mean * self._delta_at(math.log1p(1.0 / (order - 1.0)) * (1.0 - 2.0**-50))
        if order == math.inf:
            return (divergence + failure) * _MARGIN
        whole = (order - 1.0) * (divergence + failure) + self._log_mean
        none = math.log1p(math.exp(-min(self._mean + whole, 700.0)))
        return (divergence + failure + (self._log_mean + none) / (order - 1.0)) * _MARGIN

    def _delta_at(self, epsilon: float) -> float:
        """Return an upper bound on the δ of one run at this ε."""
        beta, rho = self._grid, self._on_grid
        with np.errstate(invalid="ignore", over="ignore"):
            exponent = (beta - 1.0) * (rho - epsilon - np.log1p(1.0 / (beta - 1.0))) - np.log(beta)
        exponent = np.where((beta - 1.0) * np.maximum(rho, epsilon + 1.0) < 2.0**10, exponent, np.inf)
        converted = math.exp(min(float(exponent.min()), 0.0)) * _EXPONENTIAL_MARGIN
        return min(converted, math.sqrt(float(rho[0]) / 2.0) * _MARGIN, 1.0)


def _between(low: float, high: float) -> Array:
    return 1.0 + np.geomspace(low - 1.0, high - 1.0, _NUM_REFINED)


def log_one_over_gamma(mean: float, shape: float) -> float:
    """Return ln(1/γ) of the truncated negative binomial law with mean ≥ 1 and shape η ≥ 0, rounded up.

    With L = ln(1/γ), E[K] = η(e^L − 1)/(1 − e^{−ηL}), or (e^L − 1)/L for η = 0, grows with L; decimals prove that it
    reaches the mean.
    """
    if mean == 1.0:
        return 0.0
    low, high = -700.0, math.log(720.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        if _mean_of(math.exp(middle), shape) < mean:
            low = middle
        else:
            high = middle
    value, step = math.exp(high), 2.0**-44
    while _exact_mean(value, shape).lower < exact(mean):  # for means near 1 the search above is inaccurate
        value, step = value * (1.0 + step), 2.0 * step
    return value


def _mean_of(log_inverse: float, shape: float) -> float:
    growth = math.expm1(min(log_inverse, 709.0))
    denominator = log_inverse if shape * log_inverse < 1e-300 else -math.expm1(-shape * log_inverse) / shape
    return growth / denominator


def _exact_mean(log_inverse: float, shape: float) -> Interval:
    r, length = arithmetic(_DIGITS), point(log_inverse)
    growth = r.mul(r.one_minus_exp(length.negated()), r.exp(length))
    if not shape:
        return r.div(growth, length)
    return r.mul(point(shape), r.div(growth, r.one_minus_exp(r.mul(point(shape), length).negated())))


@register(RepeatAndSelectEvent)
def _repeat_and_select(event: RepeatAndSelectEvent, relation: NeighboringRelation) -> Curve:
    """Return the curve for the accountants that add up curves."""
    if event.mean < 1.0:
        raise UnsupportedEventError("no Rényi curve is known for less than one run on average")
    return RepeatAndSelectCurve(curve_of(event.event, relation), mean=event.mean, shape=event.shape)
