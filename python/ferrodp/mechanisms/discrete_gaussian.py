"""The discrete Gaussian mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.accounting.curves.discrete_gaussian import (
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    discrete_gaussian_variance,
)
from ferrodp.accounting.curves.hockey_stick import single_step_noise, usable_delta
from ferrodp.accounting.curves.zcdp import zcdp_delta, zcdp_epsilon, zcdp_rho
from ferrodp.errors import CalibrationError
from ferrodp.events import DiscreteGaussianEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms._additive import IntegerMechanism, Law, discrete_scale

__all__ = ["DiscreteGaussianMechanism"]

_SMALLEST, _LARGEST = 0.01, 2.0**57
_WIDEST = 2.0**46
"""The largest scale whose own curve is computed."""
_LONGEST = 10**150
"""Sensitivities of more scales than this have a ρ that is no float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianMechanism(IntegerMechanism):
    r"""Release an integer or a vector of integers with discrete Gaussian noise, weights :math:`e^{-n^2/2\sigma^2}`.

    The distribution of the output is exactly the stated one, over all integers, and the guarantee is that of the
    discrete law, never that of the continuous Gaussian of the same σ, whose δ is smaller. It holds for whatever unit of
    privacy and neighboring relation `l2_sensitivity` was stated in. Releases are
    :math:`\Delta^2/2\sigma^2`-zero-concentrated private in any dimension; in one dimension, for σ up to 2⁴⁶, `epsilon`
    and `delta` are the exact curve, which is lower.

    Parameters
    ----------
    scale : float or Fraction
        σ, in units of the integers; from 0.01 to 2⁵⁷. Taken exactly: 0.1 is the float, `Fraction(1, 10)` one tenth. In
        one dimension it has to be exactly a float: δ neither falls nor rises with σ, so a rounded σ would prove
        nothing.
    l2_sensitivity : float
        Δ, the largest L2 distance between the integers of neighboring datasets; finite, > 0. In one dimension a whole
        number, at most 2⁵³; otherwise rounded up if not exactly representable.
    dimension : int
        How many integers a release has; from 1 to 2⁶³ − 1.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    [CKS20] Theorem 7 gives δ(ε) in one dimension; Theorem 4 the Rényi divergences, which add up over independent
    coordinates to αΔ²/2σ² at most; Corollary 13 the (ε, δ) that follows from these, used in several dimensions.

    References
    ----------
    [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = DiscreteGaussianMechanism.calibrated(epsilon=1.0, delta=1e-6)
    >>> mechanism.epsilon(1e-6) <= 1.0, mechanism.delta(1.0) <= 1e-6
    (True, True)
    >>> type(mechanism.release(1234))
    <class 'int'>
    >>> counts = DiscreteGaussianMechanism(scale=4.0, dimension=3)
    >>> counts.release(np.array([10, 0, 7])).dtype
    dtype('int64')
    """

    _law: ClassVar[Law] = "gaussian"

    l2_sensitivity: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        dimension = _validate.count("dimension", self.dimension)
        sensitivity = _validate.positive("l2_sensitivity", self.l2_sensitivity)
        scale = discrete_scale(self.scale)
        if dimension == 1:
            # mutant: fraction-rounded-where-curve-exact
            if not isinstance(scale, float):
                raise _validate.out_of_domain("scale", "exactly a float in one dimension", self.scale)
            whole = sensitivity.is_integer() and _validate.exact("l2_sensitivity", self.l2_sensitivity) == sensitivity
            if not whole or sensitivity > 2.0**53:
                rule = "a whole number in one dimension, at most 2^53"
                raise _validate.out_of_domain("l2_sensitivity", rule, self.l2_sensitivity)
        elif Fraction(sensitivity) > _LONGEST * Fraction(scale):
            raise _validate.out_of_domain("l2_sensitivity", "at most 1e150 times scale", self.l2_sensitivity)
        settle(self, scale=scale, l2_sensitivity=sensitivity, dimension=dimension)

    @classmethod
    def calibrated(
        cls, *, epsilon: Real, delta: Real, l2_sensitivity: Real = 1.0, dimension: int = 1
    ) -> DiscreteGaussianMechanism:
        """Return a mechanism that is (ε, δ)-differentially private, with little noise.

        The δ of the result was computed and found to be small enough. In one dimension that does not make the noise the
        least possible: δ neither falls nor rises with σ, and smaller ones below a gap may do. In several dimensions it
        is within rounding the least for which zero-concentrated privacy implies (ε, δ).

        Parameters
        ----------
        epsilon : float
            Finite, > 0. Rounded down if not exactly representable.
        delta : float
            From 1e-300, below 1. Rounded down if not exactly representable.
        l2_sensitivity, dimension
            As for the class.

        Returns
        -------
        DiscreteGaussianMechanism
            With the scale that was found.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If even the largest scale is not enough.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.positive("epsilon", epsilon, toward="down")
        allowed = _validate.delta(delta)
        # mutant: epsilon-and-delta-of-integers-swapped
        least = cls(scale=_LARGEST, l2_sensitivity=l2_sensitivity, dimension=dimension)  # type: ignore[arg-type]
        rho = zcdp_rho(epsilon=target, delta=allowed)
        enough = sqrt_up(Fraction(least.l2_sensitivity) ** 2 / (2 * Fraction(rho))) if rho else math.inf
        scale = max(enough, _SMALLEST)
        if least.dimension == 1 and scale <= _WIDEST / 2.0:
            scale = single_step_noise(
                lambda sigma: DiscreteGaussianEvent(scale=sigma, l2_sensitivity=least.l2_sensitivity),
                epsilon=target,
                delta=allowed,
                smallest=_SMALLEST,
                largest=_WIDEST,
            )
        for _ in range(64):  # the curve and its inverse round apart
            if scale > _LARGEST:
                break
            mechanism = cls(scale=scale, l2_sensitivity=least.l2_sensitivity, dimension=least.dimension)
            if mechanism.delta(target) <= allowed and mechanism.epsilon(allowed) <= target:
                warn_if_weak(epsilon)
                return mechanism
            scale *= 1.0 + 2.0**-40
        raise CalibrationError(f"no scale up to 2^57 gives epsilon={epsilon!r} at delta={delta!r}")

    @property
    def event(self) -> DiscreteGaussianEvent:
        """What an accountant needs to know about one release; in several dimensions its scale is rounded down."""
        return DiscreteGaussianEvent(
            scale=self.scale,  # type: ignore[arg-type]
            l2_sensitivity=self.l2_sensitivity,
            dimension=self.dimension,
        )

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated differential privacy, Δ²/2σ², rounded up."""
        return _validate.rounded(Fraction(self.l2_sensitivity) ** 2 / (2 * Fraction(self.scale) ** 2), "up")

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise, within 1e-12 relatively: that of the law, slightly below σ."""
        return math.sqrt(discrete_gaussian_variance(self.scale))

    @property
    def _has_curve(self) -> bool:
        # mutant: vector-accounted-as-one-integer
        return self.dimension == 1 and self.scale <= _WIDEST

    def epsilon(self, delta: Real) -> float:
        """Return an ε ≥ 0 for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            From 1e-300, below 1. Rounded down if not exactly representable.

        Returns
        -------
        float
            The smallest one in one dimension, up to σ = 2⁴⁶; else the best that follows from zero-concentrated privacy.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        if self._has_curve:
            scale, sensitivity = float(self.scale), int(self.l2_sensitivity)
            found = discrete_gaussian_epsilon(delta=delta, scale=scale, l2_sensitivity=sensitivity)
            if found < math.inf:  # not where sensitivities of many scales exceed what its floats can hold
                return found
        return zcdp_epsilon(rho=self.rho, delta=usable_delta(delta))

    def delta(self, epsilon: Real) -> float:
        """Return a δ for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            The smallest one in one dimension, up to σ = 2⁴⁶; else the best that follows from zero-concentrated privacy.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        if not self._has_curve:
            return min(zcdp_delta(rho=self.rho, epsilon=checked), 1.0)
        scale, sensitivity = float(self.scale), int(self.l2_sensitivity)
        # mutant: discrete-gaussian-accounted-as-continuous
        return discrete_gaussian_delta(epsilon=checked, scale=scale, l2_sensitivity=sensitivity)
