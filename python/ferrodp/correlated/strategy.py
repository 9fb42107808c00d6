"""What all strategies of correlated noise share: their certified sensitivity, their errors, their cost, their JSON."""

from __future__ import annotations

import abc
import json
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.correlated.optimizers import Objective
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import MatrixMechanismEvent, PrivacyEvent

__all__ = ["Strategy"]

Doubles = npt.NDArray[np.float64]

MAX_STEPS = 2**24
"""Of a strategy: some answers are lists of all steps."""

_FORMAT, _VERSION = "ferrodp.strategy", 1
_KINDS: dict[str, type[Strategy]] = {}


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
        return self._sensitivity(*participation(num_participations, min_separation))

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


def known(cls: type[_Made]) -> type[_Made]:
    """Make a class known by its kind, for `Strategy.from_dict`."""
    _KINDS[cls.kind] = cls
    return cls


def steps_of(value: object) -> int:
    """Return a checked number of steps."""
    return _validate.count("num_steps", value, maximum=MAX_STEPS)


def participation(num_participations: object, min_separation: object) -> tuple[int, int]:
    """Return how often a unit takes part at most, and how far apart at least."""
    return _validate.count("num_participations", num_participations), _validate.count("min_separation", min_separation)


def objective_of(value: object) -> Objective:
    """Return the error that is made least."""
    if value == "rms":
        return "rms"
    if value == "max":
        return "max"
    raise _validate.out_of_domain("objective", '"rms" or "max"', value)


def finite_numbers(name: str, values: Any) -> tuple[float, ...]:
    """Return floats that are given as a tuple, list or one-dimensional array."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, (tuple, list)):
        raise InvalidType(f"{name} must be a tuple of numbers, got {type(values).__name__}")
    return tuple(float(_validate.exact(name, value)) for value in values)
