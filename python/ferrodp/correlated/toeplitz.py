"""Strategies with one coefficient for each diagonal: Toeplitz matrices."""

from __future__ import annotations

import abc
import dataclasses
import functools
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.correlated import optimizers, prefix_errors, sensitivity
from ferrodp.correlated.optimizers import Objective
from ferrodp.correlated.strategy import Strategy, finite_numbers, known, objective_of, participation, steps_of
from ferrodp.errors import InvalidParameter
from ferrodp.events.base import settle

__all__ = ["BandedToeplitz", "BufferedToeplitz", "SquareRoot"]

Doubles = npt.NDArray[np.float64]

MAX_BUFFERS = 16


class _Toeplitz(Strategy):
    """A strategy with one coefficient for each diagonal."""

    __slots__ = ()

    @abc.abstractmethod
    def coefficients(self) -> Doubles:
        """Return the first column of C, c₀ = 1, without the zeros that follow."""

    def _sensitivity(self, participations: int, separation: int) -> float:
        return _toeplitz_sensitivity(self, participations, separation)

    def _errors(self) -> Doubles:
        return prefix_errors.of_toeplitz(self.coefficients(), self.num_steps)


@known
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class BandedToeplitz(_Toeplitz):
    """A banded Toeplitz matrix: the noise of a step depends on the last b steps. By default the best one.

    Parameters
    ----------
    num_steps : int
        T, from 1 to 2²⁴.
    bands : int
        b, from 1 to `num_steps`; 1 is independent noise.
    num_participations, min_separation : int
        What the coefficients are found for; as for `sensitivity`. Any other may be accounted afterwards.
    objective : {"rms", "max"}
        Which error is made least: `rms_error` or `max_error`.
    coefficients : sequence of float, optional
        The coefficients themselves, b of them: 1 first, the others finite. Nothing is searched then.

    Attributes
    ----------
    values : tuple of float
        The coefficients.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    Coefficients are searched among those that do not increase, by L-BFGS-B on the logarithms of their ratios. The
    search is one of floats; what it finds is a value like any other, and what is certified is computed from that.

    Examples
    --------
    >>> strategy = BandedToeplitz(num_steps=1024, bands=64)
    >>> round(strategy.rms_error(), 1), BandedToeplitz(num_steps=1024, bands=1).rms_error() > 22.6
    (4.1, True)
    >>> strategy.coefficients().shape, strategy.values[0]
    ((64,), 1.0)
    """

    kind: ClassVar[str] = "banded_toeplitz"
    num_steps: int
    values: tuple[float, ...]

    def __init__(
        self,
        *,
        num_steps: int,
        bands: int,
        num_participations: int = 1,
        min_separation: int = 1,
        objective: Objective = "rms",
        coefficients: Any = None,
    ) -> None:
        steps = steps_of(num_steps)
        width = _validate.count("bands", bands, maximum=steps)
        target = (*participation(num_participations, min_separation), objective_of(objective))
        if coefficients is None:
            values = optimizers.banded_toeplitz(steps, width, *target)
        else:
            values = finite_numbers("coefficients", coefficients)
            if len(values) != width or values[0] != 1.0:
                raise InvalidParameter(
                    f"coefficients must be bands = {width} numbers of which the first is 1, got {len(values)} that "
                    f"begin with {values[0] if values else None!r}; divide all by the first"
                )
        settle(self, num_steps=steps, values=values)

    @property
    def bands(self) -> int:
        """Number of diagonals that may differ from 0."""
        return len(self.values)

    def coefficients(self) -> Doubles:
        """Return the first column of C, c₀ = 1, without the zeros that follow.

        Returns
        -------
        (b,) ndarray of float64
        """
        return np.array(self.values)

    def _numbers(self) -> dict[str, Any]:
        return {"bands": self.bands, "coefficients": list(self.values)}


@known
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class SquareRoot(_Toeplitz):
    """The square root of the matrix of prefix sums, perhaps cut to its first bands.

    Parameters
    ----------
    num_steps : int
        T, from 1 to 2²⁴.
    bands : int, optional
        How many coefficients are kept, from 1 to `num_steps`; by default all. With few the noise of early steps has no
        chance to cancel, but each step needs only that of the last ones.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    cⱼ = cⱼ₋₁·(2j − 1)/(2j): the series of (1 − x)^(−1/2) ([FHU23]); cut to bands, [KL24]. Its largest error is within a
    constant of the least there is. The coefficients are floats: they, not the series, are the strategy.

    Examples
    --------
    >>> SquareRoot(num_steps=1024).rms_error() < 3.12
    True
    >>> SquareRoot(num_steps=1024, bands=4).coefficients().tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """

    kind: ClassVar[str] = "square_root"
    num_steps: int
    bands: int

    def __init__(self, *, num_steps: int, bands: int | None = None) -> None:
        steps = steps_of(num_steps)
        width = steps if bands is None else _validate.count("bands", bands, maximum=steps)
        settle(self, num_steps=steps, bands=width)

    def coefficients(self) -> Doubles:
        """Return the first column of C, c₀ = 1, without the zeros that follow.

        Returns
        -------
        (b,) ndarray of float64
        """
        return optimizers.square_root(self.bands)

    def _numbers(self) -> dict[str, Any]:
        return {"bands": self.bands}


@known
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class BufferedToeplitz(_Toeplitz):
    """A Toeplitz matrix whose noise needs a few buffers, however many steps there are. By default the best one.

    Parameters
    ----------
    num_steps : int
        T, from 1 to 2²⁴.
    buffers : int
        From 1 to 16. More than five gain little.
    num_participations, min_separation : int
        What the buffers are found for; as for `sensitivity`. Any other may be accounted afterwards.
    objective : {"rms", "max"}
        Which error is made least: `rms_error` or `max_error`.
    decays, weights : sequence of float, optional
        θ and ω themselves: decays in (0, 1), weights > 0 that add up to at most 1. Nothing is searched then.

    Attributes
    ----------
    decays, weights : tuple of float
        θ and ω.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    c₀ = 1 and cₜ = Σᵢ ωᵢ·θᵢᵗ⁻¹ ([DMPST24]; for several participations [MXZ24]). A step of noise is
    yₜ = Zₜ − Σᵢ ωᵢ·sᵢ with buffers sᵢ ← θᵢ·sᵢ + yₜ. Decays and weights have few bits: products of them are exact.

    Examples
    --------
    >>> strategy = BufferedToeplitz(num_steps=1024, buffers=3)
    >>> strategy.rms_error() < 3.07, len(strategy.decays)
    (True, 3)
    >>> BufferedToeplitz(num_steps=4, buffers=1, decays=(0.5,), weights=(0.5,)).coefficients().tolist()
    [1.0, 0.5, 0.25, 0.125]
    """

    kind: ClassVar[str] = "buffered_toeplitz"
    num_steps: int
    decays: tuple[float, ...]
    weights: tuple[float, ...]

    def __init__(
        self,
        *,
        num_steps: int,
        buffers: int,
        num_participations: int = 1,
        min_separation: int = 1,
        objective: Objective = "rms",
        decays: Any = None,
        weights: Any = None,
    ) -> None:
        steps = steps_of(num_steps)
        count = _validate.count("buffers", buffers, maximum=MAX_BUFFERS)
        target = (*participation(num_participations, min_separation), objective_of(objective))
        if (decays is None) != (weights is None):
            raise InvalidParameter("decays and weights must be given together, or neither")
        if decays is None:
            found = optimizers.buffered_toeplitz(steps, count, *target)
        else:
            found = finite_numbers("decays", decays), finite_numbers("weights", weights)
            if len(found[0]) != count or len(found[1]) != count:
                raise InvalidParameter(
                    f"decays and weights must be buffers = {count} numbers each, got {len(found[0])} and "
                    f"{len(found[1])}"
                )
            if not all(0.0 < each < 1.0 for each in found[0]) or len(set(found[0])) < count:
                raise _validate.out_of_domain("decays", "different numbers between 0 and 1", found[0])
            if not all(each > 0.0 for each in found[1]) or sum(map(Fraction, found[1])) > 1:
                raise _validate.out_of_domain("weights", "numbers > 0 that add up to at most 1", found[1])
        settle(self, num_steps=steps, decays=found[0], weights=found[1])

    @property
    def buffers(self) -> int:
        """Number of buffers."""
        return len(self.decays)

    def coefficients(self) -> Doubles:
        """Return the first column of C, c₀ = 1: rounded, as the strategy itself is given by its buffers.

        Returns
        -------
        (T,) ndarray of float64
            Coefficient t is within t + n roundings of its true value, n the number of buffers.
        """
        return optimizers.buffered_column(np.array(self.decays), np.array(self.weights), self.num_steps)

    def _numbers(self) -> dict[str, Any]:
        return {"buffers": self.buffers, "decays": list(self.decays), "weights": list(self.weights)}

    def _errors(self) -> Doubles:
        return prefix_errors.of_response(prefix_errors.of_buffers(self.decays, self.weights, self.num_steps))


@functools.lru_cache(maxsize=256)
def _toeplitz_sensitivity(strategy: _Toeplitz, participations: int, separation: int) -> float:
    column = strategy.coefficients()
    roundings = strategy.num_steps + MAX_BUFFERS if isinstance(strategy, BufferedToeplitz) else 0
    return sensitivity.toeplitz(column, strategy.num_steps, participations, separation, roundings)
