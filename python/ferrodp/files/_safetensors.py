"""The `.safetensors` format: a length, a JSON header, and the elements in little-endian C order.

Written from the format's description alone; reading needs no package. The header must describe every byte of the file
exactly once: holes and overlaps are refused, as the format demands.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ferrodp.files._layout import Entry, FileRefused

MAX_HEADER = 100_000_000
"""The format's own limit on the bytes of a header."""
MAX_ARRAYS = 1 << 16
"""Many more than any model has; each costs 2 KB and 0.1 ms, even an empty one."""
_METADATA = "__metadata__"
_ALIGNMENT = 8
_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype(np.float32), "F64": np.dtype(np.float64)}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def members(path: object, file: IO[bytes]) -> Iterator[tuple[Entry, IO[bytes]]]:
    """Yield each array with the stream that stands at its first element, in the order of the elements."""
    length = os.fstat(file.fileno()).st_size
    header, start = _header(path, file, length)
    if len(header) > MAX_ARRAYS:
        raise FileRefused(path, f"must hold at most {MAX_ARRAYS} arrays, got {len(header)}")
    spans = []
    for name, fields in header.items():
        if name != _METADATA:
            spans.append((*_offsets(path, name, fields), _entry(path, name, fields)))
    spans.sort(key=lambda span: span[:2])
    end = 0
    for first, last, entry in spans:
        if first != end or last - first != entry.nbytes:
            raise FileRefused(path, f"array {entry.name!r} does not lie where the header of the file says")
        end = last
    if start + end != length:
        raise FileRefused(path, "is cut short" if start + end > length else "has bytes behind its last array")
    for first, _, entry in spans:
        file.seek(start + first)
        yield entry, file


def write(stream: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays, float64 before float32, so that each is aligned in a mapped file."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    header: dict[str, Any] = {}
    end = 0
    for name, array in ordered:
        span = [end, end + array.nbytes]
        header[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": span}
        end = span[1]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    stream.write(struct.pack("<Q", len(text)) + text)
    for _, array in ordered:
        little = array if sys.byteorder == "little" else array.byteswap()
        stream.write(little.reshape(-1).view(np.uint8).data)


def fault_of_names(names: tuple[str, ...]) -> str | None:
    """Return why arrays of these names cannot be written, if so."""
    return f"a .safetensors file cannot hold an array named {_METADATA!r}" if _METADATA in names else None


def _header(path: object, file: IO[bytes], length: int) -> tuple[dict[str, Any], int]:
    """Return the header and the place of the first element."""
    try:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > min(MAX_HEADER, length - 8):
            raise ValueError(size)
        header = json.loads(file.read(size).decode(), object_pairs_hook=_without_doubles)
        if not isinstance(header, dict):
            raise TypeError
    except (ValueError, TypeError, RecursionError, struct.error):
        raise FileRefused(path, "has no readable .safetensors header") from None
    return header, 8 + size


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _entry(path: object, name: str, fields: Any) -> Entry:
    code = fields["dtype"]
    dtype = _DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise FileRefused(path, f"array {name!r} must have dtype F32 or F64, got {str(code)[:16]!r}")
    if not _are_sizes(fields["shape"]):
        raise FileRefused(path, f"array {name!r} has no readable shape")
    return Entry(name, tuple(fields["shape"]), dtype, swapped=sys.byteorder == "big")


def _offsets(path: object, name: str, fields: Any) -> tuple[int, int]:
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise FileRefused(path, f"array {name!r} is not described as the format demands")
    span = fields["data_offsets"]
    if not _are_sizes(span) or len(span) != 2:
        raise FileRefused(path, f"array {name!r} is not described as the format demands")
    return span[0], span[1]


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
