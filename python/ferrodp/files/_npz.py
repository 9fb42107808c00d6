"""The `.npz` format: a zip archive of `.npy` members, stored or compressed.

Members are streamed, never unpacked into files, so that what a name looks like to a file system does not matter here.
The checksum of a member is verified when its last element has been read.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy.typing as npt

from ferrodp.files import _npy
from ferrodp.files._layout import Entry, FileRefused

_SUFFIX = ".npy"
BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, ValueError)
"""What the standard library raises on archives that are damaged, or hold what it does not know."""


def members(path: object, file: IO[bytes]) -> Iterator[tuple[Entry, IO[bytes]]]:
    """Yield each array with the stream that stands at its first element."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(_SUFFIX):
                raise FileRefused(path, f"holds {member.filename[:80]!r}, which is no .npy array")
            if member.flag_bits & 1:
                raise FileRefused(path, "is encrypted")
            with archive.open(member) as stream:
                yield _npy.entry(path, member.filename.removesuffix(_SUFFIX), stream, member.file_size), stream


def write(stream: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write an archive without compression: noise does not compress."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + _SUFFIX, "w", force_zip64=True) as member:
                _npy.write_array(member, array)


def fault_of_names(names: tuple[str, ...]) -> str | None:
    """Return why arrays of these names cannot be written: never."""
    return None
