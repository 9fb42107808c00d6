"""Releases of a value with noise, each by the noise it got relative to its sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ferrodp import _validate
from ferrodp._numerics.rounding import sqrt_up
from ferrodp._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events.base import PrivacyEvent, exact_float, register, settle

__all__ = [
    "AdaptiveClipEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "GaussianEvent",
    "LaplaceEvent",
]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianEvent(PrivacyEvent):
    """One release with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; unitless, finite, > 0. A number that is no float
        is rounded down: less noise is more loss.
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        settle(self, noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier, toward="down"))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceEvent(PrivacyEvent):
    """One release with Laplace noise.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity; unitless, finite, > 0. A number that is no float is rounded
        down.
    """

    kind: ClassVar[str] = "laplace"
    noise_multiplier: float

    def __post_init__(self) -> None:
        settle(self, noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier, toward="down"))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianEvent(PrivacyEvent):
    """One release of integers with discrete Gaussian noise, P[x] ∝ exp(−x²/2σ²), independent for each coordinate.

    Parameters
    ----------
    scale : float
        σ, in units of the integers; finite, > 0. Its variance is slightly less than σ². In one dimension the law itself
        is accounted, whose δ(ε) need not grow when σ falls (around σ = 0.5, δ(2.5) falls with σ), so
        that a number that no float denotes is refused. In more dimensions it is rounded down.
    l2_sensitivity : float
        Largest L2 distance between the integer vectors of neighboring datasets; finite, > 0. Rounded up if it is no
        float. In one dimension a whole number.
    dimension : int
        How many coordinates get noise; at least 1. In one dimension the exact law can be accounted; in more, the worst
        way to share the distance among coordinates is not known, and accountants use the bound on its Rényi
        divergences, αΔ²/2σ² (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
        Theorem 4 and its form for vectors).

    Examples
    --------
    >>> DiscreteGaussianEvent(scale=4.0, l2_sensitivity=2)
    DiscreteGaussianEvent(scale=4.0, l2_sensitivity=2.0, dimension=1)
    """

    kind: ClassVar[str] = "discrete_gaussian"
    scale: float
    l2_sensitivity: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        scale = _validate.positive("scale", self.scale, toward="down")
        sensitivity = _validate.positive("l2_sensitivity", self.l2_sensitivity, toward="up")
        dimension = _validate.count("dimension", self.dimension)
        if dimension == 1:
            exact_float("scale", self.scale, "finite and > 0")
            if not sensitivity.is_integer() or _validate.exact("l2_sensitivity", self.l2_sensitivity) != sensitivity:
                rule = "a whole number in one dimension, and exactly a float"
                raise _validate.out_of_domain("l2_sensitivity", rule, self.l2_sensitivity)
        settle(self, scale=scale, l2_sensitivity=sensitivity, dimension=dimension)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplaceEvent(PrivacyEvent):
    """One release of integers with discrete Laplace (two-sided geometric) noise, P[x] = tanh(1/2b)·exp(−|x|/b).

    Parameters
    ----------
    scale : float
        b, in units of the integers; finite, > 0. Rounded down if it is no float: δ(ε) falls in b, as it is the largest
        of 1 − (r^(j+1) + e^ε·r^(Δ−j))/(1 + r) over 0 ≤ j < Δ, r = exp(−1/b), and each of those falls in r.
    l1_sensitivity : int
        Largest L1 distance between the integer vectors of neighboring datasets; from 1 to 2⁶³ − 1.

    Notes
    -----
    Source of the law: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009.
    """

    kind: ClassVar[str] = "discrete_laplace"
    scale: float
    l1_sensitivity: int = 1

    def __post_init__(self) -> None:
        settle(
            self,
            scale=_validate.positive("scale", self.scale, toward="down"),
            l1_sensitivity=_validate.count("l1_sensitivity", self.l1_sensitivity),
        )


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveClipEvent(PrivacyEvent):
    """A noised sum of clipped values together with a noised count, from which the next clip norm is learned.

    It costs what one Gaussian release with 1/z² = 1/zs² + 1/zc² costs (Andrew, Thakkar, McMahan, Ramaswamy,
    "Differentially private learning with adaptive clipping", NeurIPS 2021, Theorem 1).

    Parameters
    ----------
    sum_noise_multiplier : float
        zs, the noise of the sum divided by the sum's L2 sensitivity; finite, > 0. Rounded down if it is no float.
    count_noise_multiplier : float
        zc, the noise of the count divided by the count's sensitivity; finite, > 0. Rounded down if it is no float.

    Examples
    --------
    >>> event = AdaptiveClipEvent.split(noise_multiplier=1.0, count_noise_multiplier=10.0)
    >>> event.sum_noise_multiplier
    1.005037815259212
    """

    kind: ClassVar[str] = "adaptive_clip"
    sum_noise_multiplier: float
    count_noise_multiplier: float

    def __post_init__(self) -> None:
        settle(
            self,
            sum_noise_multiplier=_validate.positive("sum_noise_multiplier", self.sum_noise_multiplier, toward="down"),
            count_noise_multiplier=_validate.positive(
                "count_noise_multiplier", self.count_noise_multiplier, toward="down"
            ),
        )

    @classmethod
    def split(cls, *, noise_multiplier: Real, count_noise_multiplier: Real) -> AdaptiveClipEvent:
        """Return the event that costs no more than one Gaussian release with `noise_multiplier`.

        Parameters
        ----------
        noise_multiplier : float
            z of the pair as a whole; finite, > 0. Rounded up if it is no float.
        count_noise_multiplier : float
            zc; finite, > `noise_multiplier`. Rounded down if it is no float.

        Notes
        -----
        zs = (z⁻² − zc⁻²)^(−1/2), rounded up (Andrew et al. 2021, Theorem 1; their count is of ±½, of sensitivity ½).
        """
        total = Fraction(_validate.positive("noise_multiplier", noise_multiplier, toward="up"))
        share = Fraction(_validate.positive("count_noise_multiplier", count_noise_multiplier, toward="down"))
        if share <= total:
            rule = f"> noise_multiplier = {float(total)!r}: it pays a part of what the whole costs"
            raise _validate.out_of_domain("count_noise_multiplier", rule, count_noise_multiplier)
        multiplier = sqrt_up(1 / (1 / total**2 - 1 / share**2))
        if multiplier == float("inf"):
            raise InvalidParameter("noise_multiplier must leave a sum_noise_multiplier within the range of floats")
        return cls(sum_noise_multiplier=multiplier, count_noise_multiplier=float(share))
