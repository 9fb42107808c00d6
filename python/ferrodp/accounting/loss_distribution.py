"""Privacy loss distributions as objects that are composed, bounded and read as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._laws.dominating_pairs import EventPairs, pairs_of
from ferrodp.accounting._solve import methods
from ferrodp.accounting._solve.questions import Quantity
from ferrodp.accounting._types import Direction, Unsupported
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent, decompose
from ferrodp.events.base import check_relation

__all__ = ["LossPmf", "PrivacyLossDistribution"]

MAX_PARTS = 10**6
_SMALLEST_TAIL = 1e-280
_LOG2_MAX_NODES = 24


class LossPmf(NamedTuple):
    """A privacy loss on a grid, from above and from below.

    Attributes
    ----------
    losses : (n,) float64 ndarray
        Losses in units of ε, increasing by one interval each.
    upper : (n,) float64 ndarray
        Masses of a law that dominates the composition, under its first distribution.
    lower : (n,) float64 ndarray
        Masses of a law that the composition dominates.
    infinity : Bounds
        Mass of the loss +∞ in the lower and in the upper law.
    noise : float
        Bound on the Euclidean norm of the rounding errors in either array; 0 for a single step, where they are part of
        the masses.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent, PrivacyLossDistribution
    >>> pmf = PrivacyLossDistribution.from_event(LaplaceEvent(noise_multiplier=2.0)).pmf(0.25)
    >>> pmf.losses.round(6).tolist()[0::2], pmf.infinity, pmf.noise
    ([-0.5, 0.0, 0.5], Bounds(lower=0.0, upper=0.0), 0.0)
    """

    losses: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    infinity: Bounds
    noise: float


class PrivacyLossDistribution:
    """The privacy loss of a composition, in both directions; immutable.

    A pair (P, Q) stands for a release on two neighboring datasets; its privacy loss is L = ln dP/dQ under P. There are
    two directions, "remove" and "add", each composed by itself. Made by `from_event` or `from_masses`, composed by
    `compose` and `self_compose`.

    Notes
    -----
    δ(ε) = E[(1 − e^(ε−L))₊], and losses of a composition add up (Dwork, Rothblum, "Concentrated differential privacy",
    2016; Sommer, Meiser, Mohammadi, "Privacy loss classes", PETS 2019). The bounds are those of `PldAccountant`.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent, PrivacyLossDistribution
    >>> step = PrivacyLossDistribution.from_event(LaplaceEvent(noise_multiplier=2.0))
    >>> both = step.self_compose(10).compose(PrivacyLossDistribution.from_masses([0.75, 0.25], [0.25, 0.75]))
    >>> print(f"{both.epsilon_bounds(delta=1e-6).upper:.2f}")
    6.10
    >>> print(f"{both.delta_bounds(epsilon=3.0).upper:.4f}")
    0.1063
    >>> pmf = step.pmf(0.25)
    >>> [round(float(p), 3) for p in pmf.upper]
    [0.322, 0.043, 0.049, 0.055, 0.531]
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: tuple[tuple[EventPairs, int], ...] = ()

    @classmethod
    def from_event(
        cls,
        event: PrivacyEvent,
        *,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> PrivacyLossDistribution:
        """Return the loss of an event.

        Parameters
        ----------
        event : PrivacyEvent
            Anything that `PldAccountant` takes, compositions too.
        neighboring_relation : NeighboringRelation
            The relation in which its sensitivities were stated.

        Returns
        -------
        PrivacyLossDistribution
            In both directions.

        Raises
        ------
        UnsupportedEventError
            If a part of it has no known pair of laws.
        InvalidType
            If an argument is of another type.
        """
        neighboring_relation = check_relation(neighboring_relation)
        parts = []
        for part, count in decompose(event):
            pairs = pairs_of(part, neighboring_relation)
            if isinstance(pairs, Unsupported):
                raise UnsupportedEventError(f"{type(part).__name__} has no privacy loss distribution: {pairs}")
            parts.append((pairs, count))
        return cls._of(parts)

    @classmethod
    def from_masses(cls, p: npt.ArrayLike, q: npt.ArrayLike) -> PrivacyLossDistribution:
        """Return the loss between two laws on the same finite set of outcomes.

        Parameters
        ----------
        p, q : (n,) array_like of float
            Masses of each outcome under P, where the record is, and Q, where it is not; each 0 or from 1e-250 to
            1e250. Taken up to a factor: each is divided by its sum. They describe a mechanism, never data.

        Returns
        -------
        PrivacyLossDistribution
            In both directions.

        Raises
        ------
        InvalidParameter
            If the arrays differ in size, are empty or not one-dimensional, or hold masses outside the domain.
        """
        laws = []
        for name, values in (("p", p), ("q", q)):
            law = np.asarray(values, dtype=np.float64)
            if law.ndim != 1 or not law.size:
                raise InvalidParameter(f"{name} must have one dimension and at least one outcome")
            laws.append(tuple(law.tolist()))
        if len(laws[0]) != len(laws[1]):
            raise InvalidParameter(f"q must have as many outcomes as p = {len(laws[0])}, got {len(laws[1])}")
        spec = ("masses", laws[0], laws[1])
        _native.pair_delta([spec], 0.0)  # refuses masses outside of the domain
        return cls._of([(EventPairs(spec, ("reversed", spec), True), 1)])

    @classmethod
    def _of(cls, parts: Sequence[tuple[EventPairs, int]]) -> PrivacyLossDistribution:
        merged: dict[EventPairs, int] = {}
        for pairs, count in parts:
            if count:
                merged[pairs] = merged.get(pairs, 0) + count
        if len(merged) > MAX_PARTS:
            raise InvalidParameter(f"a composition must have at most {MAX_PARTS} different parts, got {len(merged)}")
        made = cls()
        made._parts = tuple(merged.items())
        return made

    def compose(self, other: PrivacyLossDistribution) -> PrivacyLossDistribution:
        """Return the loss of both releases, about the same pair of neighbors.

        Parameters
        ----------
        other : PrivacyLossDistribution
            The loss of the other release.

        Returns
        -------
        PrivacyLossDistribution
            A new one.

        Raises
        ------
        InvalidType
            If `other` is of another type.
        """
        if not isinstance(other, PrivacyLossDistribution):
            raise InvalidType(f"other must be a PrivacyLossDistribution, got {type(other).__name__}")
        return self._of([*self._parts, *other._parts])

    def self_compose(self, count: int) -> PrivacyLossDistribution:
        """Return the loss of independent repetitions.

        Parameters
        ----------
        count : int
            How many; from 0 to 2⁶³ − 1.

        Returns
        -------
        PrivacyLossDistribution
            A new one.

        Raises
        ------
        InvalidParameter, InvalidType
            If `count` is outside its domain or no int.
        """
        count = _validate.count("count", count, minimum=0)
        return self._of([(pairs, times * count) for pairs, times in self._parts])

    def epsilon_bounds(self, delta: Real) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 with δ(ε) ≤ `delta` in both directions.

        Parameters
        ----------
        delta : float
            In [0, 1). Rounded down if not exactly representable.

        Returns
        -------
        Bounds
            `lower` is 0 where a pair of laws is not attained.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is outside its domain or no real number.
        """
        return self._bounds("epsilon", _validate.delta(delta, zero=True))

    def delta_bounds(self, epsilon: Real) -> Bounds:
        """Return bounds on the larger δ(ε) of both directions.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        Bounds
            `lower` is 0 where a pair of laws is not attained.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is outside its domain or no real number.
        """
        return self._bounds("delta", _validate.non_negative("epsilon", epsilon, toward="down"))

    def _bounds(self, quantity: Quantity, at: float) -> Bounds:
        return methods.solve_pairs(quantity, at, self._parts).bounds

    def pmf(
        self,
        value_discretization_interval: Real,
        *,
        direction: Direction = "remove",
        tail_mass: Real = 1e-20,
        loss_range: tuple[Real, Real] | None = None,
    ) -> LossPmf:
        """Return the loss on a grid, as laws that bound it from above and from below.

        Parameters
        ----------
        value_discretization_interval : float
            Distance of neighboring losses; from 1e-12 to 1e3.
        direction : {"remove", "add"}
            Which of the two laws is P.
        tail_mass : float
            Of a single step, so much mass may be moved: from the upper tail to +∞ in the upper law and down in the
            lower one, from the lower tail up to the first loss or out of the law. In (0, 1).
        loss_range : (float, float), optional
            For a single step: puts the grid on whole multiples of the interval between these losses, rounded outward,
            instead.

        Returns
        -------
        LossPmf
            The upper law of a single step connects the dots, the lower one merges losses up to multiples of the
            interval (see `PldAccountant`). Where a bounded loss or a law of few values allows it, losses are not
            multiples of the interval but shifted so that atoms are on the grid.

        Raises
        ------
        InvalidParameter
            If more than 2²⁴ losses were needed.

        References
        ----------
        Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the dots: tighter discrete approximations of privacy
        loss distributions", PETS 2022, Algorithm 1.
        """
        interval = methods.check_interval(value_discretization_interval)
        tail = _validate.positive("tail_mass", tail_mass)
        if interval is None:
            raise _validate.wrong_type("value_discretization_interval", "a number", None, write="1e-4")
        if direction not in ("remove", "add"):
            raise _validate.out_of_domain("direction", '"remove" or "add"', direction)
        if not _SMALLEST_TAIL <= tail < 1.0:
            raise _validate.out_of_domain("tail_mass", f"from {_SMALLEST_TAIL} to below 1", tail_mass, write="1e-15")
        specs = [(getattr(pairs, direction), count) for pairs, count in self._parts]
        is_single = len(specs) == 1 and specs[0][1] == 1
        if loss_range is not None and not is_single:
            raise InvalidParameter("loss_range must be None for compositions")
        if is_single:
            ends = None if loss_range is None else _range(loss_range, interval)
            (start, upper, lower), (above, below) = _native.pld_laws(specs[0][0], interval, tail, ends)
            noise = 0.0
        elif not specs:
            return LossPmf(np.zeros(1), np.ones(1), np.ones(1), Bounds(0.0, 0.0), 0.0)
        elif any(count > _validate.MAX_COUNT for _, count in specs):
            raise InvalidParameter(f"at most {_validate.MAX_COUNT} repetitions of a step have a law")
        else:
            laws, (above, below), noise = _native.pld_composed_laws(specs, interval, tail, _LOG2_MAX_NODES)
            start, upper, lower = laws
        losses = start + interval * np.arange(len(upper), dtype=np.float64)
        return LossPmf(losses, upper, lower, Bounds(below, above), noise)

    def __repr__(self) -> str:
        steps = sum(count for _, count in self._parts)
        return f"<PrivacyLossDistribution of {steps} steps, {len(self._parts)} different ones>"


def _range(ends: tuple[Real, Real], interval: float) -> tuple[float, float]:
    if not isinstance(ends, tuple) or len(ends) != 2:
        raise InvalidType("loss_range must be a pair of numbers")
    low, high = (float(_validate.exact("loss_range", end)) for end in ends)
    if not low <= high:
        raise _validate.out_of_domain("loss_range", "two numbers in order", ends)
    if not (math.isfinite(low / interval) and math.isfinite(high / interval)):
        raise _validate.out_of_domain("loss_range", "finite", ends)
    return low, high
