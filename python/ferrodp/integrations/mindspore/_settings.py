"""Shared by the names of the earlier toolkit: accepted values, seeds, and defaults of what was not given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, InvalidType, MissingPackage
from ferrodp.random import NoiseSource
from ferrodp.testing import SeededNoiseSource

NOISE_DECAYS = ("Time", "Step", "Exp")


class UnknownName(InvalidParameter, NameError):  # noqa: N818  # what is wrong, not that it is an error
    """A mechanism, monitor, optimizer or rule of an unknown name was requested. Nothing was made."""


class DefaultNumber(float):
    """A number that is a parameter's default, told apart from the same number stated by the caller."""


class DefaultName(str):
    """A name that is a parameter's default, told apart from the same name stated by the caller."""

    __slots__ = ()


def is_stated(value: object) -> bool:
    """Return whether the caller gave a value: it is no default."""
    return not isinstance(value, (DefaultNumber, DefaultName))


def one_of(name: str, value: object, accepted: Iterable[str]) -> str:
    """Return a name that is accepted, or raise `UnknownName`."""
    names = tuple(accepted)
    if not isinstance(value, str) or value not in names:
        raise UnknownName(str(_validate.out_of_domain(name, f"one of {', '.join(map(repr, names))}", value)))
    return str(value)


def decay_rate(value: Real) -> float:
    """Return a rate in [0, 1)."""
    rate = _validate.non_negative("noise_decay_rate", value)
    if rate >= 1.0:
        raise _validate.out_of_domain("noise_decay_rate", "in [0, 1)", value)
    return rate


def noise_source(seed: object) -> NoiseSource:
    """Return the source that a seed means: 0 is the operating system's randomness."""
    if isinstance(seed, SeededNoiseSource):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidType(f"seed must be 0 or a source of ferrodp.testing.seeded, got {type(seed).__name__}")
    if seed != 0:
        raise InvalidParameter(
            f"seed must be 0, got {_validate.shown(seed)}: anyone who knows the seed can subtract the noise; tests may "
            "pass ferrodp.testing.seeded(32 bytes)"
        )
    return NoiseSource()


def imported() -> Any:
    """Return the framework.

    Raises
    ------
    MissingPackage
        If it is not installed.
    """
    try:
        import mindspore
    except ImportError as error:
        raise MissingPackage(
            'ferrodp.integrations.mindspore needs MindSpore: pip install "ferrodp[mindspore]" "numpy<2"'
        ) from error
    return mindspore
