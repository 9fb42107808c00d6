"""What a file holds: names, shapes and dtypes, known before any element is read."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ferrodp._base._validate import MAX_DIMENSIONS
from ferrodp.errors import FerroError

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
MAX_NAME = 1024
"""Longest name of an array, in characters."""


class FileRefused(FerroError, ValueError):  # noqa: N818  # what was done, as in the other exceptions
    """A file cannot be read, or does not hold what it must. Nothing was drawn or written."""

    code: ClassVar[str] = "file-refused"

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One array of a file, as its header describes it.

    Attributes
    ----------
    name : str
        Its name.
    shape : tuple of int
        Its shape.
    dtype : dtype
        Float32 or float64 in native byte order.
    swapped : bool
        Whether the file stores the other byte order. Files that differ in this are alike.
    fortran : bool
        Whether the first index runs fastest in the file. Files that differ in this are alike.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    swapped: bool = False
    fortran: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take, in the file and in memory."""
        return self.size * self.dtype.itemsize


Layout: TypeAlias = dict[str, Entry]
"""The arrays of one file by name, in the order of the file."""


def layout(path: object, entries: Iterable[Entry]) -> Layout:
    """Return the entries by name; refuse none at all, doubles, and names that no array should have."""
    named: Layout = {}
    for entry in entries:
        fault = _fault_of_name(entry.name)
        if fault is not None:
            raise FileRefused(path, f"the name of an array must {fault}, got {entry.name[:80]!r}")
        if entry.name in named:
            raise FileRefused(path, f"holds more than one array named {entry.name!r}")
        largest = math.prod(max(side, 1) for side in entry.shape) * entry.dtype.itemsize
        if len(entry.shape) > MAX_DIMENSIONS or largest > sys.maxsize:
            raise FileRefused(path, f"array {entry.name!r} is larger than memory can be")
        named[entry.name] = entry
    if not named:
        raise FileRefused(path, "holds no arrays")
    return named


def checked_dtype(path: object, name: str, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], bool]:
    """Return the native float dtype and whether the file stores the other byte order, or refuse the array."""
    native = dtype.newbyteorder("=") if dtype.kind == "f" else dtype
    if native not in FLOATS:
        shown = str(dtype) if dtype.names is None and dtype.subdtype is None else "a structured one"
        raise FileRefused(path, f"array {name!r} must have dtype float32 or float64, got {shown}")
    return native, not dtype.isnative


def check_alike(path: object, found: Layout, template: Layout) -> None:
    """Refuse a file whose arrays are not those of another one.

    Parameters
    ----------
    path : str or PathLike
        The file, as the message names it.
    found : dict of str to Entry
        What it holds, by `describe`.
    template : dict of str to Entry
        What it has to hold: the same names, shapes and dtypes.

    Raises
    ------
    FileRefused
        If they differ.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.files import Entry, check_alike
    >>> template = {"bias": Entry("bias", (2,), np.dtype(np.float32))}
    >>> check_alike("client-2.npz", {"bias": Entry("bias", (2,), np.dtype(np.float32))}, template)
    """
    for name, wanted in template.items():
        entry = found.get(name)
        if entry is None:
            raise FileRefused(path, f"lacks array {name!r}, which the first file has")
        if entry.shape != wanted.shape:
            raise FileRefused(path, f"array {name!r} has shape {entry.shape}, in the first file {wanted.shape}")
        if entry.dtype != wanted.dtype:
            raise FileRefused(path, f"array {name!r} has dtype {entry.dtype}, in the first file {wanted.dtype}")
    for name in found:
        if name not in template:
            raise FileRefused(path, f"holds array {name!r}, which the first file lacks")


def _fault_of_name(name: str) -> str | None:
    """Return what a name should do but does not.

    Names end up as members of archives, which other programs unpack into files: none may lead out of their folder.
    """
    if not name or len(name) > MAX_NAME:
        return f"have 1 to {MAX_NAME} characters"
    if not name.isprintable():
        return "be printable"
    if "\\" in name or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        return "be no path that leads out of an archive"
    if len(name) > 1 and name[1] == ":" and name[0].isalpha():
        return "be no path that leads out of an archive"
    return None
