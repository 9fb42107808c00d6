"""The `.npy` format: one array behind a short header (NEP 1), versions 1 and 2.

The header is a Python dictionary of three literals. It is taken apart here and not by `ast.literal_eval`, as numpy
does: in CPython 3.11 and 3.12 that fails now and then, on any text, when other threads run it, too. Objects are refused
by their dtype, so pickle is out of reach.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from ferrodp.files._layout import Entry, FileRefused, checked_dtype

NAME = "arr_0"
"""What the one array is called: the name that numpy gives to an array without one."""

_LENGTHS = {(1, 0): "<H", (2, 0): "<I"}
_MAX_HEADER = 10_000  # numpy's own limit
_FIELD = re.compile(
    r"""\s*(["'])(?P<key>descr|fortran_order|shape)\1\s*:\s*"""
    r"""(?P<value>"[^"\\]*"|'[^'\\]*'|\[.*\]|True|False|\((?:\s*\d+L?\s*,)*(?:(?<=,)\s*\d+L?)?\s*\))\s*(?:,|(?=\}))""",
    re.ASCII | re.DOTALL,
)
_STRUCTURED = np.dtype([("fields", "V")])


def members(path: object, file: IO[bytes]) -> Iterator[tuple[Entry, IO[bytes]]]:
    """Yield the array and the stream that stands at its first element."""
    yield entry(path, NAME, file, os.fstat(file.fileno()).st_size), file


def entry(path: object, name: str, stream: IO[bytes], length: int) -> Entry:
    """Read the header of an array whose file or member is `length` bytes long."""
    try:
        shape, fortran, dtype = _header(stream)
    except Exception:  # also what numpy raises on a text that is no dtype; it quotes it
        raise FileRefused(path, f"array {name!r} has no readable .npy header") from None
    native, swapped = checked_dtype(path, name, dtype)
    found = Entry(name, shape, native, swapped, fortran)
    if stream.tell() + found.nbytes != length:
        fault = "is cut short" if stream.tell() + found.nbytes > length else "has bytes behind its last element"
        raise FileRefused(path, f"array {name!r} {fault}")
    return found


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, whether the order is Fortran's, and the dtype; raise anything for a header that is none."""
    length = _LENGTHS[npy.read_magic(stream)]
    (size,) = struct.unpack(length, stream.read(struct.calcsize(length)))
    text = stream.read(min(size, _MAX_HEADER + 1)).decode("latin1")
    if len(text) != size or not text.startswith("{"):
        raise ValueError(size)
    fields: dict[str, str] = {}
    place = 1
    while found := _FIELD.match(text, place):
        fields[found["key"]] = found["value"]
        place = found.end()
    if text[place:].strip(" \t\n\r\f") != "}":  # not what is a space elsewhere: numpy refuses that
        raise ValueError(place)
    shape, order, kind = fields["shape"], fields["fortran_order"], fields["descr"]
    if not shape.startswith("(") or order not in ("True", "False") or kind[0] not in "[\"'":
        raise ValueError(fields)
    sides = tuple(int(side.strip().rstrip("L")) for side in shape[1:-1].split(",") if side.strip())
    return sides, order == "True", _STRUCTURED if kind.startswith("[") else np.dtype(kind[1:-1])


def write(stream: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the one array."""
    (array,) = arrays.values()
    write_array(stream, array)


def write_array(stream: IO[bytes], array: npt.NDArray[Any]) -> None:
    """Write a header and the elements of a C-contiguous array, without a copy.

    Not by numpy's own function, which writes to files behind Python's back and does not say why it failed.
    """
    npy.write_array_header_1_0(stream, npy.header_data_from_array_1_0(array))
    stream.write(array.reshape(-1).view(np.uint8).data)


def fault_of_names(names: tuple[str, ...]) -> str | None:
    """Return why arrays of these names cannot be written, if so."""
    return None if len(names) == 1 else f"a .npy file holds one array, not {len(names)}; use .npz or .safetensors"
