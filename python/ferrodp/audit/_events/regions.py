"""Events: sets of outputs, by a comparison of one statistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.audit._events.outputs import Array, Bits, Outputs, bits_of
from ferrodp.audit._events.statistics import Column, Kind, Statistic, Whole

Hits: TypeAlias = npt.NDArray[np.bool_]

NO_BITS = 9999.0
_FIRST = Column(0)
MINUS_ZERO = 1 << 63


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A set of outputs: a comparison of a statistic, of its last bit, of its bits, or of the kind of output."""

    what: str
    statistic: Statistic = _FIRST
    at: float = 0.0
    kind: str = ""
    members: Bits | None = None
    """In rising order."""

    def __str__(self) -> str:
        name = self.statistic.name
        number = repr(float(self.at))
        if self.what in ("above", "below") and np.isinf(self.at):
            return f"{name} is {number}" if (self.at > 0) == (self.what == "above") else f"{name} is a number"
        texts: dict[str, Callable[[], str]] = {
            "above": lambda: f"{name} >= {number}",
            "below": lambda: f"{name} <= {number}",
            "equal": lambda: f"{name} == {number}",
            "finer": lambda: f"{name} is no multiple of 2^{int(self.at)}",
            "coarser": lambda: f"{name} is a multiple of 2^{int(self.at)}",
            "nan": lambda: f"{name} is missing or NaN",
            "bits": self._bits,
            "kind": lambda: self.kind if self.kind.startswith("raises ") else f"output is of kind {self.kind}",
            "among": self._among,
        }
        return texts[self.what]()

    def _bits(self) -> str:
        bits = 0 if self.members is None else int(self.members[0])
        return f"{self.statistic.name} is {'-0.0' if bits == MINUS_ZERO else f'NaN with the bits {bits:#018x}'}"

    def _among(self) -> str:
        count = 0 if self.members is None else len(self.members)
        if isinstance(self.statistic, Kind):
            return f"output is of one of {count} kinds"
        things = "outputs, with all their numbers and types," if isinstance(self.statistic, Whole) else "values"
        return f"{self.statistic.name} is one of {count} {things} that were seen before"

    def hits(self, outputs: Outputs) -> Hits:
        """Return which outputs are in it."""
        if self.what == "kind":
            kinds = outputs.kinds
            if isinstance(kinds, str):
                return np.full(outputs.size, kinds == self.kind)
            return np.array([kind == self.kind for kind in kinds], dtype=np.bool_)
        if self.members is not None:
            return is_among(self.statistic.bits(outputs), self.members)
        x = self.statistic.of(outputs)
        if self.what == "above":
            return np.asarray(x >= self.at)
        if self.what == "below":
            return np.asarray(x <= self.at)
        if self.what == "equal":
            return np.asarray(x == self.at)
        if self.what == "nan":
            return np.asarray(x != x)
        bits = last_bits(np.asarray(x, dtype=np.float64))
        return np.asarray(bits < self.at) if self.what == "finer" else np.asarray((bits >= self.at) & (x == x))

    def excludes(self, other: Region) -> bool:
        """Return whether no output is in both, by their definitions."""
        mine, its = sorted((self, other), key=lambda region: region.what)  # "above", "below", "equal", ...
        if mine.what == its.what == "kind":
            return mine.kind != its.kind
        if mine.statistic is not its.statistic and mine.statistic != its.statistic:
            return False
        if mine.members is not None and its.members is not None:
            return not np.intersect1d(mine.members, its.members).size
        if (mine.what, its.what) == ("above", "below"):
            return mine.at > its.at
        if mine.what == its.what == "equal":
            return mine.at != its.at
        if its.what == "equal" and mine.what in ("above", "below"):
            return its.at < mine.at if mine.what == "above" else its.at > mine.at
        if (mine.what, its.what) == ("coarser", "finer"):
            return mine.at >= its.at
        return "nan" in (mine.what, its.what) and mine.what in ("above", "below", "equal", "coarser")


def is_among(bits: Bits, members: Bits) -> Hits:
    """Return which of the bits are among the members, which are in rising order."""
    if not members.size:
        return np.zeros(bits.size, dtype=np.bool_)
    place = np.minimum(np.searchsorted(members, bits), members.size - 1)
    return np.asarray(members[place] == bits)


def last_bits(x: Array) -> Array:
    """Return e where 2^e is the last bit of each number that is set; zeros and what is not finite have a large one."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return np.where(whole == 0, NO_BITS, np.log2(np.maximum(lowest, 1.0)) + exponent - 53.0)


__all__ = ["MINUS_ZERO", "NO_BITS", "Hits", "Region", "bits_of", "is_among", "last_bits"]
