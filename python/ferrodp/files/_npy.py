"""The `.npy` format: one array behind a short header (NEP 1), versions 1 and 2.

The header is parsed by numpy, as Python literals with a limit on their length; objects are refused by their dtype, so
pickle is out of reach.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from ferrodp.files._layout import Entry, FileRefused, checked_dtype

NAME = "arr_0"
"""What the one array is called: the name that numpy gives to an array without one."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def members(path: object, file: IO[bytes]) -> Iterator[tuple[Entry, IO[bytes]]]:
    """Yield the array and the stream that stands at its first element."""
    yield entry(path, NAME, file, os.fstat(file.fileno()).st_size), file


def entry(path: object, name: str, stream: IO[bytes], length: int) -> Entry:
    """Read the header of an array whose file or member is `length` bytes long."""
    try:
        version = npy.read_magic(stream)
        shape, fortran, dtype = _HEADERS[version](stream)
    except Exception:  # numpy's parser raises nearly anything on hostile text, and quotes it
        raise FileRefused(path, f"array {name!r} has no readable .npy header") from None
    if any(side < 0 for side in shape):
        raise FileRefused(path, f"array {name!r} has a negative shape")
    native, swapped = checked_dtype(path, name, dtype)
    found = Entry(name, tuple(map(int, shape)), native, swapped, bool(fortran))
    if stream.tell() + found.nbytes != length:
        fault = "is cut short" if stream.tell() + found.nbytes > length else "has bytes behind its last element"
        raise FileRefused(path, f"array {name!r} {fault}")
    return found


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
