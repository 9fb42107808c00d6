"""Strategies of correlated noise: lower triangular matrices, their certified sensitivity, their errors, their cost."""

from __future__ import annotations

import abc
import dataclasses
import functools
import json
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.correlated import optimizers, prefix_errors, sensitivity
from ferrodp.correlated.optimizers import Objective
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import MatrixMechanismEvent, PrivacyEvent, TreeAggregationEvent, tree_sensitivity_squared

__all__ = ["BandedMatrix", "BandedToeplitz", "BufferedToeplitz", "SquareRoot", "Strategy", "Tree"]

Doubles = npt.NDArray[np.float64]

MAX_STEPS = 2**24
"""Of a strategy: some answers are lists of all steps."""
MAX_BUFFERS = 16
MAX_MATRIX_STEPS = 2**14
"""Of a matrix without structure."""

_FORMAT, _VERSION = "ferrodp.strategy", 1
_KINDS: dict[str, type[Strategy]] = {}


def _kind(cls: type[_Made]) -> type[_Made]:
    """Make `cls` known by its kind."""
    _KINDS[cls.kind] = cls
    return cls


class Strategy(abc.ABC):
    """Base class of strategies: lower triangular matrices C, whose inverse correlates the noise of steps.

    Strategies are values: immutable, equal if their numbers are, and written as JSON.

    Examples
    --------
    >>> from ferrodp.correlated import SquareRoot, Strategy
    >>> strategy = SquareRoot(num_steps=1024)
    >>> isinstance(strategy, Strategy), Strategy.from_json(strategy.to_json()) == strategy
    (True, True)
    """

    __slots__ = ()
    kind: ClassVar[str] = ""
    """Its name in JSON."""
    num_steps: int

    def sensitivity(self, num_participations: int = 1, min_separation: int = 1) -> float:
        """Return an upper bound on how far one unit can move C·G, if no vector of a step has a norm above 1.

        Parameters
        ----------
        num_participations : int
            In how many steps a unit takes part at most; at least 1.
        min_separation : int
            Least difference between the numbers of two steps in which a unit takes part; at least 1. With 1 these may
            follow one another.

        Returns
        -------
        float
            > 0, in units of the bound on a step's vector. Exact up to rounding, which is upward, for Toeplitz
            strategies whose coefficients do not increase, for trees of one participation, and where the separation is
            at least the number of bands; otherwise an upper bound.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Notes
        -----
        For coefficients c₀ ≥ c₁ ≥ … ≥ 0 the steps 0, b, 2b, … are the worst ([KL24] Theorem 2); columns of C that do
        not meet are orthogonal ([CGMMRTX23] Section 3); the rest is bounded by sums of ``|CᵀC|``.

        Examples
        --------
        >>> from ferrodp.correlated import BandedToeplitz
        >>> strategy = BandedToeplitz(num_steps=100, bands=2, coefficients=(1.0, 0.75))
        >>> strategy.sensitivity(), strategy.sensitivity(num_participations=4, min_separation=2)
        (1.25, 2.5)
        """
        return self._sensitivity(*_participation(num_participations, min_separation))

    def rms_error(self, num_participations: int = 1, min_separation: int = 1) -> float:
        """Return the root mean square, over steps, of the noise in the sum of all steps so far.

        Parameters
        ----------
        num_participations, min_separation : int
            As for `sensitivity`.

        Returns
        -------
        float
            At noise multiplier 1, times the sensitivity. In float arithmetic: a figure to compare strategies with.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> from ferrodp.correlated import BufferedToeplitz
        >>> BufferedToeplitz(num_steps=1024, buffers=3).rms_error() < 3.07
        True
        """
        sensitivity = self.sensitivity(num_participations, min_separation)
        return float(np.sqrt(np.mean(self._errors() ** 2))) * sensitivity

    def max_error(self, num_participations: int = 1, min_separation: int = 1) -> float:
        """Return the largest standard deviation, over steps, of the noise in the sum of all steps so far.

        Parameters
        ----------
        num_participations, min_separation : int
            As for `sensitivity`.

        Returns
        -------
        float
            As for `rms_error`.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> from ferrodp.correlated import SquareRoot
        >>> round(SquareRoot(num_steps=1024).max_error(), 3)
        3.273
        """
        return float(np.max(self._errors())) * self.sensitivity(num_participations, min_separation)

    def event(self, *, noise_multiplier: Real, num_participations: int = 1, min_separation: int = 1) -> PrivacyEvent:
        """Return what all steps of a stream cost together, for accountants and ledgers.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of Z divided by the largest norm of a step's vector; finite, > 0. Rounded down if not
            exactly representable.
        num_participations, min_separation : int
            As for `sensitivity`.

        Returns
        -------
        PrivacyEvent
            Of the certified sensitivity.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> from ferrodp.correlated import BandedToeplitz
        >>> BandedToeplitz(num_steps=9, bands=2, coefficients=(1.0, 0.75)).event(noise_multiplier=2.0)
        MatrixMechanismEvent(noise_multiplier=2.0, sensitivity=1.25)
        """
        return MatrixMechanismEvent(
            noise_multiplier=noise_multiplier,  # type: ignore[arg-type]  # rounded down
            sensitivity=self.sensitivity(num_participations, min_separation),
        )

    def to_json(self) -> str:
        """Return the strategy as JSON, which `from_json` reads.

        Returns
        -------
        str
            With a format and a version; floats have all their digits.
        """
        plain = {"format": _FORMAT, "version": _VERSION, **self.to_dict()}
        return json.dumps(plain)

    def to_dict(self) -> dict[str, Any]:
        """Return the strategy as plain JSON data: its kind as "type", and its numbers.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> from ferrodp.correlated import Tree
        >>> Tree(num_steps=8).to_dict()
        {'type': 'tree', 'num_steps': 8}
        """
        return {"type": self.kind, "num_steps": self.num_steps, **self._numbers()}

    @staticmethod
    def from_json(text: str | bytes) -> Strategy:
        """Return the strategy that `to_json` described.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        Strategy
            Equal to the one that was written.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is not exactly what a strategy of this version writes.
        """
        if not isinstance(text, (str, bytes)):
            raise InvalidType(f"text must be a str of JSON, got {type(text).__name__}; strategy.to_json() writes it")
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidParameter(
                f"text must be JSON, got {_validate.shown(text)}: {error}; strategy.to_json() writes it"
            ) from None
        if not isinstance(plain, dict) or plain.get("format") != _FORMAT or plain.get("version") != _VERSION:
            raise InvalidParameter(
                f"text must be a strategy: format {_FORMAT!r} version {_VERSION}; strategy.to_json() writes it"
            )
        return Strategy.from_dict({key: value for key, value in plain.items() if key not in ("format", "version")})

    @staticmethod
    def from_dict(plain: object) -> Strategy:
        """Return the strategy that `to_dict` described.

        Parameters
        ----------
        plain : dict
            What `to_dict` returned.

        Returns
        -------
        Strategy
            Equal to the one that was written.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is not exactly what a strategy of this version writes.

        Examples
        --------
        >>> from ferrodp.correlated import Strategy, Tree
        >>> Strategy.from_dict({"type": "tree", "num_steps": 8}) == Tree(num_steps=8)
        True
        """
        if not isinstance(plain, dict):
            raise InvalidType(f"a strategy must be a JSON object, got {type(plain).__name__}")
        found = _KINDS.get(plain["type"]) if isinstance(plain.get("type"), str) else None
        if found is None:
            raise _validate.out_of_domain("a strategy's type", "one of " + ", ".join(sorted(_KINDS)), plain.get("type"))
        try:
            made = found._read({key: value for key, value in plain.items() if key != "type"})
        except (TypeError, KeyError):
            made = None
        if made is None or made.to_dict() != plain:
            raise InvalidParameter(
                f"a strategy of type {found.kind} must have the fields and numbers that to_dict() writes"
            )
        return made

    @classmethod
    def _read(cls, numbers: dict[str, Any]) -> Self:
        return cls(**numbers)

    @abc.abstractmethod
    def _numbers(self) -> dict[str, Any]:
        """Return the fields besides the number of steps, as plain data."""

    @abc.abstractmethod
    def _sensitivity(self, participations: int, separation: int) -> float:
        """Return the certified sensitivity."""

    @abc.abstractmethod
    def _errors(self) -> Doubles:
        """Return the standard deviation of each prefix sum's noise, at noise multiplier 1."""


_Made = TypeVar("_Made", bound=Strategy)


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


@_kind
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
        steps = _steps(num_steps)
        width = _validate.count("bands", bands, maximum=steps)
        target = (*_participation(num_participations, min_separation), _objective(objective))
        if coefficients is None:
            values = optimizers.banded_toeplitz(steps, width, *target)
        else:
            values = _finite_numbers("coefficients", coefficients)
            if len(values) != width or values[0] != 1.0:
                raise InvalidParameter(
                    f"coefficients must be bands = {width} numbers of which the first is 1, got {len(values)} that "
                    f"begin with {values[0] if values else None!r}; divide all by the first"
                )
        _settle(self, num_steps=steps, values=values)

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


@_kind
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
        steps = _steps(num_steps)
        width = steps if bands is None else _validate.count("bands", bands, maximum=steps)
        _settle(self, num_steps=steps, bands=width)

    def coefficients(self) -> Doubles:
        """Return the first column of C, c₀ = 1, without the zeros that follow.

        Returns
        -------
        (b,) ndarray of float64
        """
        return optimizers.square_root(self.bands)

    def _numbers(self) -> dict[str, Any]:
        return {"bands": self.bands}


@_kind
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
        steps = _steps(num_steps)
        count = _validate.count("buffers", buffers, maximum=MAX_BUFFERS)
        target = (*_participation(num_participations, min_separation), _objective(objective))
        if (decays is None) != (weights is None):
            raise InvalidParameter("decays and weights must be given together, or neither")
        if decays is None:
            found = optimizers.buffered_toeplitz(steps, count, *target)
        else:
            found = _finite_numbers("decays", decays), _finite_numbers("weights", weights)
            if len(found[0]) != count or len(found[1]) != count:
                raise InvalidParameter(
                    f"decays and weights must be buffers = {count} numbers each, got {len(found[0])} and "
                    f"{len(found[1])}"
                )
            if not all(0.0 < each < 1.0 for each in found[0]) or len(set(found[0])) < count:
                raise _validate.out_of_domain("decays", "different numbers between 0 and 1", found[0])
            if not all(each > 0.0 for each in found[1]) or sum(map(Fraction, found[1])) > 1:
                raise _validate.out_of_domain("weights", "numbers > 0 that add up to at most 1", found[1])
        _settle(self, num_steps=steps, decays=found[0], weights=found[1])

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


@_kind
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class Tree(Strategy):
    """A binary tree of partial sums, each node with noise of its own, and the best estimates from below.

    Parameters
    ----------
    num_steps : int
        T, from 1 to 2²⁴: leaves of the tree.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Notes
    -----
    C has a row for each complete block of 2ˡ steps; a node is estimated from its own noise and from its halves
    ([Hon15]; [KMSTTX21] Section 4), a prefix sum is the sum of the estimates of its blocks. The other strategies have
    smaller errors: this one is for comparison, and for streams that others have begun. Its sensitivity is that of
    `ferrodp.events.tree_sensitivity_squared`, whose `min_separation` counts the steps between two participations, one
    fewer than here.

    Examples
    --------
    >>> round(Tree(num_steps=1024).rms_error(), 2)
    5.65
    """

    kind: ClassVar[str] = "tree"
    num_steps: int

    def __init__(self, *, num_steps: int) -> None:
        _settle(self, num_steps=_steps(num_steps))

    def event(self, *, noise_multiplier: Real, num_participations: int = 1, min_separation: int = 1) -> PrivacyEvent:
        """Return what all steps of a stream cost together, as `Strategy.event`: the event of a tree.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of Z divided by the largest norm of a step's vector; finite, > 0. Rounded down if not
            exactly representable.
        num_participations, min_separation : int
            As for `Strategy.sensitivity`.

        Returns
        -------
        PrivacyEvent
            A `TreeAggregationEvent`.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> from ferrodp.correlated import Tree
        >>> Tree(num_steps=8).event(noise_multiplier=2.0).num_steps
        8
        """
        participations, separation = _participation(num_participations, min_separation)
        return TreeAggregationEvent(
            noise_multiplier=noise_multiplier,  # type: ignore[arg-type]  # rounded down
            num_steps=self.num_steps,
            max_participation=participations,
            min_separation=separation - 1,
        )

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _sensitivity(self, participations: int, separation: int) -> float:
        squared = tree_sensitivity_squared(
            num_steps=self.num_steps, max_participation=participations, min_separation=separation - 1
        )
        return sqrt_up(Fraction(squared))

    def _errors(self) -> Doubles:
        return prefix_errors.of_tree(self.num_steps)


@_kind
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class BandedMatrix(Strategy):
    """Any lower triangular matrix with a positive diagonal; the fewer diagonals it has, the less a step costs.

    Parameters
    ----------
    array : (T, T) array of float
        C: finite, > 0 on the diagonal, 0 above it. T from 1 to 2¹⁴.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
        If it is no such matrix.

    Notes
    -----
    Only the diagonals up to the last that is not 0 are kept.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = BandedMatrix(np.eye(5) + 0.75 * np.eye(5, k=-1))
    >>> strategy.num_steps, strategy.bands, round(strategy.sensitivity(num_participations=2, min_separation=2), 6)
    (5, 2, 1.767767)
    """

    kind: ClassVar[str] = "banded_matrix"
    num_steps: int
    bands: int
    _bytes: bytes = dataclasses.field(repr=False)

    def __init__(self, array: Any) -> None:
        matrix = np.asarray(array)
        if matrix.dtype.kind not in "fiu" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidArray(f"array must be a square matrix of floats, got {matrix.dtype} of shape {matrix.shape}")
        steps = _validate.count("the number of rows of array", matrix.shape[0], maximum=MAX_MATRIX_STEPS)
        matrix = matrix.astype(np.float64)
        if not np.isfinite(matrix).all() or np.any(np.triu(matrix, 1)) or not (np.diagonal(matrix) > 0.0).all():
            raise InvalidArray(
                "array must be finite, > 0 on its diagonal and 0 above it, such as np.linalg.cholesky(X)"
            )
        rows, columns = np.nonzero(matrix)
        width = int((rows - columns).max()) + 1
        diagonals = np.zeros((width, steps))
        for apart in range(width):
            diagonals[apart, : steps - apart] = np.diagonal(matrix, -apart)
        _settle(self, num_steps=steps, bands=width, _bytes=diagonals.tobytes())

    def diagonals(self) -> Doubles:
        """Return the diagonals of C, the main one first.

        Returns
        -------
        (b, T) ndarray of float64
            Entry (d, j) is C[j + d, j]; 0 where there is none.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.correlated import BandedMatrix
        >>> BandedMatrix(np.array([[1.0, 0.0], [0.5, 1.0]])).diagonals().tolist()
        [[1.0, 1.0], [0.5, 0.0]]
        """
        return np.frombuffer(self._bytes).reshape(self.bands, self.num_steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the strategy as plain JSON data: its kind as "type", and its diagonals.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.correlated import BandedMatrix
        >>> BandedMatrix(np.array([[1.0, 0.0], [0.5, 1.0]])).to_dict()["diagonals"]
        [[1.0, 1.0], [0.5]]
        """
        found = self.diagonals()
        steps = self.num_steps
        return {"type": self.kind, "diagonals": [found[apart, : steps - apart].tolist() for apart in range(self.bands)]}

    @classmethod
    def _read(cls, numbers: dict[str, Any]) -> Self:
        lengths = [len(each) for each in numbers["diagonals"]]
        steps = _validate.count("the length of diagonals", lengths[0] if lengths else 0, maximum=MAX_MATRIX_STEPS)
        if numbers.keys() != {"diagonals"} or lengths != list(range(steps, steps - len(lengths), -1)):
            raise InvalidParameter("a strategy of type banded_matrix must have diagonals, each shorter by one")
        matrix = np.zeros((steps, steps))
        for apart, values in enumerate(numbers["diagonals"]):
            matrix[np.arange(apart, steps), np.arange(steps - apart)] = _finite_numbers("diagonals", values)
        return cls(matrix)

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _sensitivity(self, participations: int, separation: int) -> float:
        return _matrix_sensitivity(self, participations, separation)

    def _errors(self) -> Doubles:
        return prefix_errors.of_banded(self.diagonals())


def _settle(strategy: Strategy, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(strategy, name, value)


def _steps(value: object) -> int:
    return _validate.count("num_steps", value, maximum=MAX_STEPS)


def _participation(num_participations: object, min_separation: object) -> tuple[int, int]:
    return _validate.count("num_participations", num_participations), _validate.count("min_separation", min_separation)


def _objective(value: object) -> Objective:
    if value == "rms":
        return "rms"
    if value == "max":
        return "max"
    raise _validate.out_of_domain("objective", '"rms" or "max"', value)


def _finite_numbers(name: str, values: Any) -> tuple[float, ...]:
    """Return floats that are given as a tuple, list or one-dimensional array."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, (tuple, list)):
        raise InvalidType(f"{name} must be a tuple of numbers, got {type(values).__name__}")
    return tuple(float(_validate.exact(name, value)) for value in values)


@functools.lru_cache(maxsize=256)
def _toeplitz_sensitivity(strategy: _Toeplitz, participations: int, separation: int) -> float:
    column = strategy.coefficients()
    roundings = strategy.num_steps + MAX_BUFFERS if isinstance(strategy, BufferedToeplitz) else 0
    return sensitivity.toeplitz(column, strategy.num_steps, participations, separation, roundings)


@functools.lru_cache(maxsize=64)
def _matrix_sensitivity(strategy: BandedMatrix, participations: int, separation: int) -> float:
    return sensitivity.banded(strategy.diagonals(), participations, separation)
