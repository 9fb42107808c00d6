"""Clippings: how the vector of each unit is bounded, and the bound that a sum of them has.

All of them clip in exact arithmetic on the integer pipeline of `ferrodp.sums`, so that the sensitivity that the cost is
stated for is the true one.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Literal

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import AdaptiveClipEvent, GaussianEvent, LaplaceEvent, PrivacyEvent
from ferrodp.events.base import settle
from ferrodp.plan._record import Part, part_class


class Clipping(Part, abc.ABC):
    """Base class of clippings.

    Examples
    --------
    >>> from ferrodp.plan import Clipping, FlatClipping
    >>> isinstance(FlatClipping(1.0), Clipping)
    True
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def initial_norm(self) -> float:
        """Largest L2 norm that a unit adds in the first step."""

    def _noise_event(self, noise_multiplier: float, distance: int) -> PrivacyEvent:
        """Return what a step of this z releases, where sums of neighbors are `distance` clip norms apart."""
        return GaussianEvent(noise_multiplier=noise_multiplier / distance)

    def _scaled(self, factor: float) -> Clipping:
        """Return the clipping for noise that is scaled by a factor; most do not depend on it."""
        return self


@part_class
class FlatClipping(Clipping):
    """All arrays of a unit are one vector, scaled down to an L2 norm of at most `clip_norm`.

    Parameters
    ----------
    clip_norm : float
        In the units of the vectors; finite, > 0. Rounded down if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Examples
    --------
    >>> FlatClipping(0.1).initial_norm
    0.1
    """

    kind: ClassVar[str] = "flat"
    clip_norm: float

    def __post_init__(self) -> None:
        settle(self, clip_norm=_validate.positive("clip_norm", self.clip_norm, toward="down"))

    @property
    def initial_norm(self) -> float:
        """The clip norm."""
        return self.clip_norm


@part_class
class L1Clipping(Clipping):
    """Vectors of units are scaled down to an L1 norm of at most `clip_norm`, and the noise is Laplace noise.

    With this clipping the noise multipliers of a plan are the *scale* of Laplace noise divided by `clip_norm`, and the
    standard deviation of a coordinate is √2 of that. A full batch of one step costs ε = 1/z at δ = 0. A vector of d
    coordinates has an L1 norm of up to √d times its L2 norm, so Laplace noise suits few coordinates; for the gradients
    of most networks Gaussian noise is far less.

    Parameters
    ----------
    clip_norm : float
        In the units of the vectors; finite, > 0. Rounded down if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Notes
    -----
    Vectors are clipped, truncated to a grid and added as integers, so that neighboring sums are `clip_norm` apart at
    most in L1 norm, exactly; the noise has exactly the law of rounded Laplace variables (`LaplaceMechanism`). In any
    number of dimensions the mechanism costs what it costs for one number: on a straight path between the two sums a
    density changes by a factor of e^(t/b) over a distance of t at most (Dwork, McSherry, Nissim, Smith, "Calibrating
    noise to sensitivity in private data analysis", TCC 2006). So the probability P of an event moves by min(P, 1 − P)/b
    a unit at most, and that of a half-line under Laplace noise on a line by just that: no test tells the two sums
    better apart than a threshold tells two numbers that far apart.

    Taken by whatever adds vectors to steps of a plan. Frameworks that clip by themselves, in L2 norm, refuse it.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> from ferrodp.plan import ConstantNoise, FullBatch, L1Clipping
    >>> plan = fd.PrivacyPlan(
    ...     population_size=100, sampling=FullBatch(), num_steps=3, clipping=L1Clipping(1.0), noise=ConstantNoise(2.0)
    ... )
    >>> 1.49 < plan.epsilon(1e-12) < 1.51
    True
    >>> step = next(plan.start({"w": (2,)}))
    >>> step.add({"w": np.ones((100, 2))})
    >>> step.release()["w"].shape
    (2,)
    """

    kind: ClassVar[str] = "l1"
    clip_norm: float

    def __post_init__(self) -> None:
        settle(self, clip_norm=_validate.positive("clip_norm", self.clip_norm, toward="down"))

    @property
    def initial_norm(self) -> float:
        """The clip norm; no L2 norm is larger than the L1 norm."""
        return self.clip_norm

    def _noise_event(self, noise_multiplier: float, distance: int) -> PrivacyEvent:
        # mutant: laplace-noise-of-a-plan-stated-as-gaussian
        return LaplaceEvent(noise_multiplier=noise_multiplier / distance)


@part_class
class PerGroupClipping(Clipping):
    """Each group of arrays is clipped by itself, and all get noise for the joint sensitivity √ΣCᵢ².

    Parameters
    ----------
    clip_norms : mapping of str to float
        Cᵢ by the names of the template's groups: the keys of its outermost mapping. Each finite, > 0; rounded down if
        not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a norm is out of its domain, or there is none.

    Examples
    --------
    >>> PerGroupClipping({"weights": 3.0, "bias": 4.0}).initial_norm
    5.0
    """

    kind: ClassVar[str] = "per_group"
    clip_norms: Mapping[str, float]

    def __post_init__(self) -> None:
        if not isinstance(self.clip_norms, Mapping):
            raise InvalidType(f"clip_norms must be a mapping of names to norms, got {type(self.clip_norms).__name__}")
        norms = {}
        for name, norm in self.clip_norms.items():
            if not isinstance(name, str):
                raise InvalidType(f"clip_norms must have str keys, got {type(name).__name__}")
            norms[name] = _validate.positive(f"clip_norms[{name!r}]", norm, toward="down")
        if not norms:
            raise InvalidParameter("clip_norms must hold at least one group")
        settle(self, clip_norms=MappingProxyType(dict(sorted(norms.items()))))

    @property
    def initial_norm(self) -> float:
        """√ΣCᵢ², rounded up."""
        return sqrt_up(sum((Fraction(norm) ** 2 for norm in self.clip_norms.values()), Fraction(0)))

    def __hash__(self) -> int:
        return hash(tuple(self.clip_norms.items()))


@part_class
class AutomaticClipping(Clipping):
    """Every vector x becomes x·C/(‖x‖ + s): normalized, so that no norm has to be found.

    Parameters
    ----------
    stability : float
        s, in the units of the vectors: small vectors stay small; finite, > 0.
    clip_norm : float
        C, which only scales the result; finite, > 0. Rounded down if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    [BWZK23] section 4, AUTO-S. The sensitivity is C.

    Examples
    --------
    >>> AutomaticClipping().initial_norm
    1.0
    """

    kind: ClassVar[str] = "automatic"
    stability: float = 0.01
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        settle(self, stability=_validate.positive("stability", self.stability))
        settle(self, clip_norm=_validate.positive("clip_norm", self.clip_norm, toward="down"))

    @property
    def initial_norm(self) -> float:
        """The clip norm."""
        return self.clip_norm


@part_class
class AdaptiveClipping(Clipping):
    """The clip norm follows a quantile of the norms, which a noised count of each step tells; noise follows the norm.

    After each step C becomes C·exp(−η(b − γ)), where b is the noised share of units whose norm was within C: too many
    within, and the norm falls. Both releases of a step together cost what its noise multiplier z says: the sum has the
    multiplier (z⁻² − zc⁻²)^(−1/2), zc that of the count.

    Parameters
    ----------
    initial : float
        C of the first step, in the units of the vectors; finite, > 0. Rounded down if not exactly representable.
    target_quantile : float
        γ; in (0, 1).
    learning_rate : float
        η; finite, > 0.
    count_noise_multiplier : float
        zc, standard deviation of the count's noise divided by what a unit that is added changes of the count: ½, under
        REPLACE_SPECIAL 1; more than the plan's largest noise multiplier, of which the count takes its share.
    rule : {"geometric", "linear"}
        Linear: C − η(b − γ) instead, η in the units of the vectors, and at least a thousandth of `initial`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    [ATMR21] section 2; their count is of ±½, so that its sensitivity to a unit that is added is ½. Under
    REPLACE_SPECIAL, vectors beyond the norm are counted instead: a null unit then changes nothing about a step, whether
    it is drawn or not, which bounds for random samples need.

    Examples
    --------
    >>> AdaptiveClipping(0.1, target_quantile=0.5, learning_rate=0.2, count_noise_multiplier=20.0).initial_norm
    0.1
    """

    kind: ClassVar[str] = "adaptive"
    initial: float
    target_quantile: float = 0.5
    learning_rate: float = 0.2
    count_noise_multiplier: float = 20.0
    rule: Literal["geometric", "linear"] = "geometric"

    def __post_init__(self) -> None:
        settle(self, initial=_validate.positive("initial", self.initial, toward="down"))
        quantile = _validate.positive("target_quantile", self.target_quantile)
        if not quantile < 1.0:
            raise _validate.out_of_domain("target_quantile", "in (0, 1)", self.target_quantile)
        if self.rule not in ("geometric", "linear"):
            raise _validate.out_of_domain("rule", '"geometric" or "linear"', self.rule)
        settle(
            self,
            target_quantile=quantile,
            learning_rate=_validate.positive("learning_rate", self.learning_rate),
            count_noise_multiplier=_validate.positive("count_noise_multiplier", self.count_noise_multiplier),
        )

    @property
    def initial_norm(self) -> float:
        """C of the first step."""
        return self.initial

    def split(self, noise_multiplier: Real) -> AdaptiveClipEvent:
        """Return the multipliers of sum and count that together cost what `noise_multiplier` does.

        Parameters
        ----------
        noise_multiplier : float
            z of a step; finite, > 0.

        Returns
        -------
        AdaptiveClipEvent
            Its `sum_noise_multiplier` is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If the count alone would cost as much.

        Examples
        --------
        >>> AdaptiveClipping(0.1, count_noise_multiplier=20.0).split(2.0).sum_noise_multiplier
        2.010075630518424
        """
        return AdaptiveClipEvent.split(
            noise_multiplier=noise_multiplier, count_noise_multiplier=self.count_noise_multiplier
        )

    def _noise_event(self, noise_multiplier: float, distance: int) -> PrivacyEvent:
        """Return the event of sum and count."""
        parts = self.split(noise_multiplier)
        # mutant: replaced-unit-moves-the-count-once
        return AdaptiveClipEvent(
            sum_noise_multiplier=parts.sum_noise_multiplier / distance,
            count_noise_multiplier=parts.count_noise_multiplier / distance,
        )

    def _scaled(self, factor: float) -> AdaptiveClipping:
        return dataclasses.replace(self, count_noise_multiplier=self.count_noise_multiplier * factor)

    def next_norm(self, clip_norm: Real, share_within: Real) -> float:
        """Return the clip norm after a step.

        Parameters
        ----------
        clip_norm : float
            Of the step; finite, > 0.
        share_within : float
            The noised share of units whose norm was within it; finite. Cut to [0, 1].

        Returns
        -------
        float
            From 2⁻¹⁰⁰ to 2¹⁰⁰.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> clipping = AdaptiveClipping(1.0, target_quantile=0.5, learning_rate=0.2)
        >>> clipping.next_norm(1.0, 0.9) < 1.0 < clipping.next_norm(1.0, 0.1)
        True
        """
        norm, share = _validate.positive("clip_norm", clip_norm), _validate.finite("share_within", share_within)
        # mutant: clip-norm-moves-away-from-the-quantile
        excess = self.learning_rate * (min(max(share, 0.0), 1.0) - self.target_quantile)
        if self.rule == "linear":
            moved = max(norm - excess, self.initial / 1000.0)
        else:
            moved = norm * math.exp(min(max(-excess, -700.0), 700.0))
        return min(max(moved, 2.0**-100), 2.0**100)


L1_ALONE = (
    "clipping must be FlatClipping for sums that a framework clips in L2 norm, got L1Clipping, whose Laplace noise "
    "hides vectors of bounded L1 norm: add the vectors to the step, or plan with FlatClipping"
)


def refuse_l1(clipping: Clipping) -> None:
    """Refuse Laplace noise where vectors are not clipped by the sum of a step."""
    if isinstance(clipping, L1Clipping):
        raise InvalidParameter(L1_ALONE)
