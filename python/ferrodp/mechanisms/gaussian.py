"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.rounding import product_up
from ferrodp.accounting.curves.gaussian import (
    CalibrationMethod,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from ferrodp.events import GaussianEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms._additive import Law, RealMechanism, check_grid

__all__ = ["GaussianMechanism"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMechanism(RealMechanism):
    r"""Release a number or a vector with exactly rounded Gaussian noise scaled to its L2 sensitivity.

    A release is (ε, δ)-differentially private for every point (`epsilon(delta)`, δ) of its curve, for whatever unit of
    privacy and neighboring relation `l2_sensitivity` was stated in: a record or a client, added or removed or replaced.
    The distribution of the output is exactly that of the real-valued mechanism, rounded to a grid, so the guarantee is
    that of the theorem, floating-point arithmetic included.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by `l2_sensitivity`; unitless, finite, > 0. Rounded up if not exactly
        representable.
    l2_sensitivity : float
        Largest L2 distance between the values of neighboring datasets, in their units; finite, > 0. Rounded up if not
        exactly representable. For a sum of vectors clipped to norm C it is C if a unit is added or removed, 2C if one
        is replaced.

    Attributes
    ----------
    standard_deviation : float
        Of the noise, in the units of the value: `noise_multiplier * l2_sensitivity`, rounded up, so that the noise
        drawn is never less than the noise accounted for.
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the standard deviation out of the range of the sampler's grids.

    Notes
    -----
    The mechanism is that of [DKMMN06]; the curve is [BW18] Theorem 8. Releases compose as
    :math:`\mu^2 = \sum 1/z_i^2`: see `ferrodp.accounting.GdpAccountant`.

    Rounding to the grid :math:`g\mathbb{Z}` is post-processing and adds :math:`g^2/12` to the variance; g is a power of
    two, at most :math:`2^{-12}` standard deviations for float32 and :math:`2^{-32}` for float64.

    References
    ----------
    [BW18] Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
    [DKMMN06] Dwork, Kenthapadi, McSherry, Mironov, Naor, "Our data, ourselves", EUROCRYPT 2006.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, l2_sensitivity=2.0)
    >>> round(mechanism.standard_deviation, 3)
    8.449
    >>> mechanism.epsilon(1e-6) <= 1.0, mechanism.delta(1.0) <= 1e-6
    (True, True)
    >>> noised = mechanism.release(np.zeros(1000, dtype=np.float32))
    >>> noised.shape, noised.dtype
    ((1000,), dtype('float32'))
    """

    _law: ClassVar[Law] = "gaussian"

    noise_multiplier: float
    l2_sensitivity: float
    standard_deviation: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        multiplier = _validate.positive("noise_multiplier", self.noise_multiplier)
        sensitivity = _validate.positive("l2_sensitivity", self.l2_sensitivity)
        # mutant: deviation-of-a-release
        deviation = product_up(multiplier, sensitivity)
        check_grid("gaussian", "standard_deviation (noise_multiplier * l2_sensitivity)", deviation)
        settle(self, noise_multiplier=multiplier, l2_sensitivity=sensitivity)
        settle(self, standard_deviation=deviation, _noise_scale=deviation)

    @classmethod
    def calibrated(
        cls, *, epsilon: Real, delta: Real, l2_sensitivity: Real, method: CalibrationMethod = "analytic"
    ) -> GaussianMechanism:
        """Return the mechanism with the least noise that is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            Finite, > 0; at most 1 for the classical method. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        l2_sensitivity : float
            Largest L2 distance between the values of neighboring datasets; finite, > 0.
        method : {"analytic", "classical"}
            The exact curve, or σ = Δ·√(2 ln(1.25/δ))/ε, which requires more noise; see
            `ferrodp.accounting.curves.gaussian_standard_deviation`.

        Returns
        -------
        GaussianMechanism
            Its noise multiplier is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If no supported noise multiplier reaches the target.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        _validate.positive("epsilon", epsilon)
        # mutant: epsilon-and-delta-swapped-in-calibration
        multiplier = gaussian_noise_multiplier(epsilon=epsilon, delta=delta, method=method)
        mechanism = cls(noise_multiplier=multiplier, l2_sensitivity=l2_sensitivity)  # type: ignore[arg-type]
        warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> GaussianEvent:
        """What an accountant needs to know about one release."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def epsilon(self, delta: Real) -> float:
        """Return the smallest ε ≥ 0 for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            An upper bound on the exact ε.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        return gaussian_epsilon(delta=delta, noise_multiplier=self.noise_multiplier)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            An upper bound on the exact δ.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return gaussian_delta(epsilon=checked, noise_multiplier=self.noise_multiplier)
