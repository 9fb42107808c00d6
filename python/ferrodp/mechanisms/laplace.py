"""The Laplace mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.rounding import ratio_down
from ferrodp.accounting.curves import laplace as curve
from ferrodp.events import LaplaceEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms._additive import Law, RealMechanism, check_grid

__all__ = ["LaplaceMechanism"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceMechanism(RealMechanism):
    r"""Release a number or a vector with exactly rounded Laplace noise scaled to its L1 sensitivity.

    A release is purely ε-differentially private, ε = `l1_sensitivity`/`scale`, for whatever unit of privacy and
    neighboring relation `l1_sensitivity` was stated in: a record or a client, added or removed or replaced. The
    distribution of the output is exactly that of the real-valued mechanism, rounded to a grid, so the guarantee is that
    of the theorem, floating-point arithmetic included.

    Parameters
    ----------
    scale : float
        Scale b of the noise, whose density is exp(−|x|/b)/2b, in the units of the value; finite, > 0. Rounded up if not
        exactly representable.
    l1_sensitivity : float
        Largest L1 distance between the values of neighboring datasets, in the units of the value; finite, > 0. Rounded
        up if not exactly representable. A bound on the L2 distance is not enough: for d coordinates the L1 distance can
        be √d times as large.

    Attributes
    ----------
    standard_deviation : float
        Of the noise, √2·scale, to the nearest float.
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the scale out of the range of the sampler's grids.

    Notes
    -----
    The guarantee is [DMNS06] Proposition 1. Rounding to the grid :math:`g\mathbb{Z}` is post-processing and adds
    :math:`g^2/12` to the variance; g is a power of two, at most :math:`2^{-20}` scales for float32 and :math:`2^{-32}`
    for float64.

    References
    ----------
    [DMNS06] Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006,
    Proposition 1.

    Examples
    --------
    >>> mechanism = LaplaceMechanism.calibrated(epsilon=0.1, l1_sensitivity=1.0)
    >>> mechanism.scale, mechanism.epsilon(), mechanism.delta(0.1)
    (10.0, 0.1, 0.0)
    >>> type(mechanism.release(42.0))
    <class 'float'>
    """

    _law: ClassVar[Law] = "laplace"

    scale: float
    l1_sensitivity: float

    def __post_init__(self) -> None:
        scale = _validate.positive("scale", self.scale)
        sensitivity = _validate.positive("l1_sensitivity", self.l1_sensitivity)
        check_grid("laplace", "scale", scale)
        if not ratio_down(scale, sensitivity) > 0.0:
            raise _validate.out_of_domain("l1_sensitivity", "within the range of floats of scale", sensitivity)
        settle(self, scale=scale, l1_sensitivity=sensitivity, _noise_scale=scale)

    @classmethod
    def calibrated(cls, *, epsilon: Real, l1_sensitivity: Real) -> LaplaceMechanism:
        """Return the mechanism with the least noise that is purely ε-differentially private: b = Δ/ε, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        l1_sensitivity : float
            Largest L1 distance between the values of neighboring datasets; finite, > 0.

        Returns
        -------
        LaplaceMechanism
            Its scale is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter, or the scale, is out of its domain.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        sensitivity = _validate.positive("l1_sensitivity", l1_sensitivity)
        scale = curve.laplace_scale(epsilon=epsilon, l1_sensitivity=sensitivity)
        # mutant: laplace-noise-calibrated-to-80-percent
        mechanism = cls(scale=scale, l1_sensitivity=sensitivity)
        warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> LaplaceEvent:
        """What an accountant needs to know about one release; its noise multiplier is rounded down."""
        return LaplaceEvent(noise_multiplier=ratio_down(self.scale, self.l1_sensitivity))

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(2.0) * self.scale

    def epsilon(self, delta: Real = 0.0) -> float:
        """Return the smallest ε ≥ 0 for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            An upper bound on the exact ε.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        checked = _validate.delta(delta, zero=True)
        return curve.epsilon_bounds(checked, self.l1_sensitivity, self.scale).upper

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
        return curve.delta_bounds(checked, self.l1_sensitivity, self.scale).upper
