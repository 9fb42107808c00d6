"""Vectors of residues: their layout in an array, their addition, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter

Residues = npt.NDArray[Any]

_MASK31 = np.uint32(2**31 - 1)
_CHUNK = 1 << 14
"""Integers that are copied at a time where residues take their place."""


@dataclass(frozen=True, slots=True)
class Modulus:
    """A modulus m, and arrays of its residues: one word an element, or two with the low one first."""

    name: str
    value: int
    dtype: np.dtype[Any]
    words: int = 1

    def reduced(self, integers: npt.NDArray[np.int64], *, reuse: bool = False) -> Residues:
        """Return the residues of integers; with `reuse` in the memory of these, where both have one word."""
        if self.name == "uint32":
            return integers.astype(np.uint32)  # modulo 2³²
        if self.name == "uint31":
            return integers.astype(np.uint32) & _MASK31
        if reuse and self.words == 1:
            residues = integers.view(np.uint64)
            for start in range(0, integers.size, _CHUNK):
                part = slice(start, start + _CHUNK)
                _native.residues_of(self.name, integers[part].copy(), residues[part])
            return residues
        out = np.empty(integers.size * self.words, np.uint64)
        _native.residues_of(self.name, integers, out)
        return out

    def add(self, total: Residues, message: object) -> None:
        """Add a message to a total of the same length, in place; refuse what is no vector of residues."""
        checked = self.checked(message, total.size)
        if self.name == "uint32":
            np.add(total, checked, out=total)  # wraps around
        elif self.name == "uint31":
            np.add(total, checked, out=total)
            np.bitwise_and(total, _MASK31, out=total)
        else:
            _native.add_residues(self.name, total, checked)

    def centered(self, residues: Residues) -> npt.NDArray[np.int64]:
        """Return the integers of least magnitude that are congruent to residues."""
        if self.name == "uint32":
            return residues.view(np.int32).astype(np.int64)
        if self.name == "uint31":
            # mutant: residues-of-31-bits-not-centered
            return (residues << np.uint32(1)).view(np.int32).astype(np.int64) >> 1
        out = np.empty(residues.size // self.words, np.int64)
        _native.centered_residues(self.name, residues, out)
        return out

    def checked(self, message: object, size: int) -> Residues:
        """Return a message of `size` words, or refuse it; whether its words are residues is seen when it is added."""
        if not isinstance(message, np.ndarray) or message.dtype != self.dtype:
            got = message.dtype if isinstance(message, np.ndarray) else type(message).__name__
            raise InvalidArrayType(f"message must be an array of {self.dtype}, got {got}")
        if message.shape != (size,):
            raise InvalidArray(f"message must have shape {(size,)}, got {message.shape}")
        return np.require(message, requirements=["C", "A"])

    def to_bytes(self, residues: Residues) -> bytes:
        """Return the elements one after the other, each little endian, as Prio3 sends them."""
        return residues.astype(self.dtype.newbyteorder("<"), copy=False).tobytes()

    def from_bytes(self, data: bytes) -> Residues:
        """Return the elements that `to_bytes` wrote."""
        item = self.dtype.itemsize * self.words
        if len(data) % item:
            raise InvalidParameter(f"data must be a multiple of {item} bytes long, got {len(data)}")
        return np.frombuffer(data, self.dtype.newbyteorder("<")).astype(self.dtype)


MODULI = {
    modulus.name: modulus
    for modulus in (
        Modulus("uint32", 2**32, np.dtype(np.uint32)),
        Modulus("uint64", 2**64, np.dtype(np.uint64)),
        Modulus("field64", 2**64 - 2**32 + 1, np.dtype(np.uint64)),
        Modulus("field128", 2**128 - 7 * 2**66 + 1, np.dtype(np.uint64), 2),
    )
}

SUMMED = {**MODULI, "uint31": Modulus("uint31", 2**31, np.dtype(np.uint32))}
"""Those of sums: 2³¹, too, for protocols whose words are signed, such as Flower's."""
