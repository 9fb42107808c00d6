"""Zero-concentrated differential privacy: from ρ to (ε, δ) and back."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from ferrodp import _validate
from ferrodp._numerics.intervals import Bounds, Interval, arithmetic, exact, float_down, float_up, point
from ferrodp._validate import Real
from ferrodp.accounting._solve import costs as _costs
from ferrodp.accounting._solve import gaussian_curve as _gaussian_curve
from ferrodp.accounting._solve import zcdp_curve as curve
from ferrodp.accounting._solve.costs import Cost
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.explanation import Explanation
from ferrodp.accounting.sampling.amplification import fraction_up
from ferrodp.events import GaussianEvent, PrivacyEvent

__all__ = ["ZcdpAccountant", "zcdp_delta", "zcdp_epsilon", "zcdp_rho"]

ConversionMethod = Literal["tight", "simple"]


def zcdp_delta(*, rho: Real, epsilon: Real) -> float:
    """Return a δ for which every ρ-zCDP mechanism is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    rho : float
        The bound on all Rényi divergences, as a multiple of their order; finite, ≥ 0. Rounded up if it is no float.
    epsilon : float
        Finite, ≥ 0. Rounded down if it is no float.

    Notes
    -----
    δ = min over α > 1 of e^{(α−1)(αρ−ε)}·(1 − 1/α)^α/(α − 1): Canonne, Kamath, Steinke, "The discrete Gaussian for
    differential privacy", NeurIPS 2020, Corollary 13; enclosed at one α, so an upper bound whatever α is. A composition
    of Gaussian releases has less: its exact δ is that of `GdpAccountant`.

    Examples
    --------
    >>> zcdp_delta(rho=0.5, epsilon=1.0)
    0.2468463307829445
    """
    checked_rho = _validate.non_negative("rho", rho)
    return float_up(curve.delta(point(checked_rho), _validate.non_negative("epsilon", epsilon, toward="down")))


def zcdp_epsilon(*, rho: Real, delta: Real, method: ConversionMethod = "tight") -> float:
    """Return an ε for which every ρ-zCDP mechanism is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    rho : float
        The bound on all Rényi divergences, as a multiple of their order; finite, ≥ 0. Rounded up if it is no float.
    delta : float
        In (0, 1). Rounded down if it is no float.
    method : {"tight", "simple"}
        The best conversion known, or the textbook's, which is never less.

    Notes
    -----
    "tight": the ε at which `zcdp_delta` is δ, never below 0. "simple": ρ + 2·√(ρ·ln(1/δ)), Bun, Steinke, "Concentrated
    differential privacy", TCC 2016, Proposition 1.3.

    Examples
    --------
    >>> zcdp_epsilon(rho=0.1, delta=1e-6)
    2.141938928385474
    >>> zcdp_epsilon(rho=0.1, delta=1e-6, method="simple")
    2.4507880004768
    """
    checked_rho, checked_delta = point(_validate.non_negative("rho", rho)), _validate.delta(delta)
    simple = _is_simple(method)
    return float_up((curve.simple_epsilon if simple else curve.epsilon)(checked_rho, checked_delta))


def zcdp_rho(*, epsilon: Real, delta: Real, method: ConversionMethod = "tight") -> float:
    """Return a ρ, within rounding the largest, for which ρ-zCDP implies (ε, δ)-differential privacy, rounded down.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. Rounded down if it is no float.
    delta : float
        In (0, 1). Rounded down if it is no float.
    method : {"tight", "simple"}
        Which conversion to invert; see `zcdp_epsilon`.

    Returns
    -------
    float
        0.0 where no float > 0 is small enough.

    Notes
    -----
    The inverse of `zcdp_epsilon`: a budget for `ZcdpFilter`, or a target for noise.

    Examples
    --------
    >>> zcdp_rho(epsilon=1.0, delta=1e-6)
    0.024355970359538372
    """
    budget = _validate.non_negative("epsilon", epsilon, toward="down"), _validate.delta(delta)
    return float_down((curve.simple_rho if _is_simple(method) else curve.rho)(*budget))


def _is_simple(method: object) -> bool:
    if not isinstance(method, str) or method not in ("tight", "simple"):
        raise _validate.out_of_domain("method", '"tight" or "simple"', method)
    return method == "simple"


class ZcdpAccountant(PrivacyAccountant):
    """Add up the ρ of releases, exactly, and convert once.

    It takes Gaussian and discrete Gaussian noise, adaptive clipping, tree and matrix mechanisms, everything with a pure
    ε, exponential mechanisms, and stated ρ and (ε, δ). Samples are refused, as zCDP gains nothing from sampling. Where
    all releases are Gaussian, `GdpAccountant` has the exact answer; it is the lower bound here.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Notes
    -----
    ρ adds up, under adaptive choice too (Bun, Steinke, "Concentrated differential privacy", TCC 2016, Lemma 1.7):

    =============================  ==================  =====================================================
    Gaussian                       1/2z²               Bun, Steinke 2016, Proposition 1.6
    discrete Gaussian, any size    Δ²/2σ²              Canonne, Kamath, Steinke, NeurIPS 2020, Theorem 4
    pure ε                         min(ε²/2, ε)        Bun, Steinke 2016, Proposition 1.4
    range of losses ε              min(ε²/8, ε)        Cesar, Rogers, ALT 2021, Lemmas 3.2, 3.4
    (ε, δ)                         as pure ε           fails with probability δ
    =============================  ==================  =====================================================

    The conversion is that of `zcdp_epsilon`; failures, of probability ξ ≤ Σδᵢ in all, make δ = ξ + (1 − ξ)·δ₀.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent
    >>> accountant = ZcdpAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=10.0), count=60)
    >>> accountant.compose(LaplaceEvent(noise_multiplier=10.0), count=40)
    >>> accountant.rho
    0.5
    >>> round(accountant.epsilon(1e-5), 4)
    4.7284
    """

    kind = "zcdp"

    @property
    def rho(self) -> float:
        """Σρ, rounded up; `inf` after a release without protection."""
        if any(self._cost(event) is None for event, _ in self.events):
            return float("inf")
        return _validate.rounded(self._total().amount, "up")

    def _supports(self, event: PrivacyEvent) -> str | None:
        cost = _costs.zcdp(event, self._neighboring_relation)
        return cost if isinstance(cost, str) else None

    def _cost(self, event: PrivacyEvent) -> Cost | None:
        cost = _costs.zcdp(event, self._neighboring_relation)
        return None if isinstance(cost, str) else cost

    def _total(self) -> Cost:
        found = ((self._cost(event), times) for event, times in self.events)
        return _costs.total((cost, times) for cost, times in found if cost is not None)

    def _epsilon_bounds(self, delta: float) -> Bounds:
        total = self._total()
        target = _without_failures(delta, total.delta)
        upper = float("inf") if target is None else float_up(curve.epsilon(_interval(total.amount), target))
        squared_mu = self._squared_mu()
        return Bounds(0.0 if squared_mu is None else _gaussian_curve.epsilon(exact(delta), squared_mu).lower, upper)

    def _delta_bounds(self, epsilon: float) -> Bounds:
        total = self._total()
        failures = min(total.delta, Fraction(1))
        within = fraction_up(curve.delta(_interval(total.amount), epsilon))
        upper = min(_validate.rounded(failures + (1 - failures) * within, "up"), 1.0)
        squared_mu = self._squared_mu()
        lower = 0.0 if squared_mu is None else _gaussian_curve.delta(exact(epsilon), squared_mu).floats().lower
        return Bounds(min(lower, upper), upper)

    def _squared_mu(self) -> Interval | None:
        """Return Σ1/z² if all releases are Gaussian."""
        if not all(isinstance(event, GaussianEvent) for event, _ in self.events):
            return None
        return _interval(2 * self._total().amount)

    def _explanation(self, delta: float) -> Explanation:
        bounds, total = self._epsilon_bounds(delta), self._total()
        return Explanation(
            quantity="epsilon",
            value=bounds.upper,
            lower=bounds.lower,
            method="the sum of all ρ of zCDP, converted at the best order (Canonne, Kamath, Steinke 2020, Cor. 13)",
            direction="symmetric",
            parameters={"delta": delta, "rho": self.rho, "sum of all δ": float(total.delta)},
            slack=bounds.upper - bounds.lower if bounds.lower else float("inf"),
            assumptions=(f"Sensitivities were stated for the relation {self._neighboring_relation.value}.",),
        )


def _interval(value: Fraction) -> Interval:
    """Return the decimals of 120 digits around a rational."""
    return arithmetic(_gaussian_curve.DIGITS_OF_MU).ratio(value) if value else point(0)


def _without_failures(delta: float, failures: Fraction) -> float | None:
    """Return what failures leave of δ, (δ − ξ)/(1 − ξ) with ξ ≤ Σδᵢ rounded down; None if that is nothing."""
    if not failures:
        return delta
    left = Fraction(delta) - failures
    if left <= 0:
        return None
    return _validate.rounded(left / (1 - failures), "down") or None
