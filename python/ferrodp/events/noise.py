"""Releases of a value with noise, each described by its noise relative to its sensitivity."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.errors import InvalidParameter
from ferrodp.events import base
from ferrodp.events.base import PrivacyEvent, event_class


@event_class
class GaussianEvent(PrivacyEvent):
    """One release with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; unitless, finite, > 0. Rounded down if not
        exactly representable: less noise is more loss.

    Raises
    ------
    InvalidParameter, InvalidType
        If the noise multiplier is outside its domain, or not a real number.

    Examples
    --------
    >>> GaussianEvent(noise_multiplier=1.1)
    GaussianEvent(noise_multiplier=1.1)
    """

    kind: ClassVar[str] = "gaussian"
    checks: ClassVar[base.Checks] = {"noise_multiplier": base.POSITIVE_DOWN}
    noise_multiplier: float


@event_class
class LaplaceEvent(PrivacyEvent):
    """One release with Laplace noise.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity; unitless, finite, > 0. Rounded down if not exactly
        representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If the noise multiplier is outside its domain, or not a real number.

    Examples
    --------
    >>> LaplaceEvent(noise_multiplier=2)
    LaplaceEvent(noise_multiplier=2.0)
    """

    kind: ClassVar[str] = "laplace"
    checks: ClassVar[base.Checks] = {"noise_multiplier": base.POSITIVE_DOWN}
    noise_multiplier: float


@event_class
class DiscreteGaussianEvent(PrivacyEvent):
    """One release of integers with discrete Gaussian noise, P[x] ∝ exp(−x²/2σ²), independent for each coordinate.

    Parameters
    ----------
    scale : float
        σ, in units of the integers; finite, > 0. The variance is slightly less than σ². In one dimension the discrete
        law itself is accounted for; its δ(ε) need not grow when σ falls (around σ = 0.5, δ(2.5) falls with σ), so that
        a number that is not exactly a float is refused. In more dimensions it is rounded down.
    l2_sensitivity : float
        Largest L2 distance between the integer vectors of neighboring datasets; finite, > 0. Rounded up if not exactly
        representable. In one dimension a whole number.
    dimension : int
        How many coordinates get noise; at least 1. In more than one dimension, the worst way to divide the distance
        among the coordinates is not known, and accountants use the bound on the Rényi divergences, αΔ²/2σ².

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [CKS20] Theorem 4 and its form for vectors.

    Examples
    --------
    >>> DiscreteGaussianEvent(scale=4.0, l2_sensitivity=2)
    DiscreteGaussianEvent(scale=4.0, l2_sensitivity=2.0, dimension=1)
    """

    kind: ClassVar[str] = "discrete_gaussian"
    checks: ClassVar[base.Checks] = {
        "scale": base.POSITIVE_DOWN,
        "l2_sensitivity": base.POSITIVE_UP,
        "dimension": base.COUNT_FROM_1,
    }
    scale: float
    l2_sensitivity: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        stated_scale, stated_sensitivity = self.scale, self.l2_sensitivity
        PrivacyEvent.__post_init__(self)
        if self.dimension == 1:
            # mutant: discrete-gaussian-rounded-like-continuous
            base.exact_float("scale", stated_scale, "finite and > 0")
            whole = self.l2_sensitivity.is_integer()
            if not whole or _validate.exact("l2_sensitivity", stated_sensitivity) != self.l2_sensitivity:
                rule = "a whole number in one dimension, and exactly a float"
                raise _validate.out_of_domain("l2_sensitivity", rule, stated_sensitivity)


@event_class
class DiscreteLaplaceEvent(PrivacyEvent):
    """One release of integers with discrete Laplace (two-sided geometric) noise, P[x] = tanh(1/2b)·exp(−|x|/b).

    Parameters
    ----------
    scale : float
        b, in units of the integers; finite, > 0. Rounded down if not exactly representable: δ(ε) falls as b grows.
    l1_sensitivity : int
        Largest L1 distance between the integer vectors of neighboring datasets; from 1 to 2⁶³ − 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The law is that of [GRS09]. δ(ε) is the largest of 1 − (r^(j+1) + e^ε·r^(Δ−j))/(1 + r) over 0 ≤ j < Δ, with
    r = exp(−1/b), and each of these falls as r grows.

    Examples
    --------
    >>> DiscreteLaplaceEvent(scale=2.0)
    DiscreteLaplaceEvent(scale=2.0, l1_sensitivity=1)
    """

    kind: ClassVar[str] = "discrete_laplace"
    checks: ClassVar[base.Checks] = {"scale": base.POSITIVE_DOWN, "l1_sensitivity": base.COUNT_FROM_1}
    scale: float
    l1_sensitivity: int = 1


@event_class
class AdaptiveClipEvent(PrivacyEvent):
    """A noised sum of clipped values together with a noised count, from which the next clip norm is learned.

    It costs what one Gaussian release with 1/z² = 1/zs² + 1/zc² costs ([ATMR21] Theorem 1).

    Parameters
    ----------
    sum_noise_multiplier : float
        zs, the standard deviation of the sum's noise divided by the sum's L2 sensitivity; finite, > 0. Rounded down if
        not exactly representable.
    count_noise_multiplier : float
        zc, the standard deviation of the count's noise divided by the count's sensitivity; finite, > 0. Rounded down
        if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Examples
    --------
    >>> AdaptiveClipEvent(sum_noise_multiplier=1.0, count_noise_multiplier=10.0)
    AdaptiveClipEvent(sum_noise_multiplier=1.0, count_noise_multiplier=10.0)
    """

    kind: ClassVar[str] = "adaptive_clip"
    checks: ClassVar[base.Checks] = {
        "sum_noise_multiplier": base.POSITIVE_DOWN,
        "count_noise_multiplier": base.POSITIVE_DOWN,
    }
    sum_noise_multiplier: float
    count_noise_multiplier: float

    @classmethod
    def split(cls, *, noise_multiplier: Real, count_noise_multiplier: Real) -> AdaptiveClipEvent:
        """Return the event that costs no more than one Gaussian release with `noise_multiplier`.

        Parameters
        ----------
        noise_multiplier : float
            z of sum and count together; finite, > 0. Rounded up if not exactly representable.
        count_noise_multiplier : float
            zc; finite, > `noise_multiplier`. Rounded down if not exactly representable.

        Returns
        -------
        AdaptiveClipEvent
            With zs = (z⁻² − zc⁻²)^(−1/2), rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is outside its domain or not a real number, or zs is beyond the range of floats.

        Notes
        -----
        [ATMR21] Theorem 1; their count is of ±½ and has sensitivity ½.

        Examples
        --------
        >>> event = AdaptiveClipEvent.split(noise_multiplier=1.0, count_noise_multiplier=10.0)
        >>> event.sum_noise_multiplier
        1.005037815259212
        """
        total = Fraction(_validate.positive("noise_multiplier", noise_multiplier, toward="up"))
        share = Fraction(_validate.positive("count_noise_multiplier", count_noise_multiplier, toward="down"))
        if share <= total:
            rule = f"> noise_multiplier = {float(total)!r}: it pays a part of what the whole costs"
            raise _validate.out_of_domain(
                "count_noise_multiplier", rule, count_noise_multiplier, write=repr(float(10 * total))
            )
        # mutant: split-clip-gets-too-little-noise
        multiplier = sqrt_up(1 / (1 / total**2 - 1 / share**2))
        if multiplier == float("inf"):
            raise InvalidParameter("noise_multiplier must leave a sum_noise_multiplier within the range of floats")
        return cls(sum_noise_multiplier=multiplier, count_noise_multiplier=float(share))
