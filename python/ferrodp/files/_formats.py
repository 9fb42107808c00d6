"""The three formats behind one door: by extension, with every failure turned into one refusal."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ferrodp.files import _npy, _npz, _safetensors
from ferrodp.files._layout import Entry, FileRefused, Layout, check_alike, layout

_FORMATS: dict[str, ModuleType] = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}
EXTENSIONS = tuple(_FORMATS)
_CHUNK = 1 << 20  # what an archive unpacks at a time: the extra memory of reading


def extension(path: str | os.PathLike[str]) -> str:
    """Return the extension that names the format of a file.

    Parameters
    ----------
    path : str or PathLike
        The file, which need not exist.

    Returns
    -------
    str
        One of `EXTENSIONS`, in lower case.

    Raises
    ------
    FileRefused
        If the name ends in none of these.

    Examples
    --------
    >>> from ferrodp import files
    >>> files.extension("round-7/client.NPZ")
    '.npz'
    """
    found = Path(path).suffix.lower()
    if found not in _FORMATS:
        raise FileRefused(path, f"the name must end in {', '.join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}")
    return found


def describe(path: str | os.PathLike[str]) -> Layout:
    """Return the names, shapes and dtypes of the arrays in a file. Only its headers are read.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Returns
    -------
    dict of str to Entry
        In the order of the file.

    Raises
    ------
    FileRefused
        If it cannot be read, or holds anything but float32 and float64 arrays with distinct names.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ferrodp import files
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.savez(f"{folder.name}/update.npz", weights=np.ones((3, 2), np.float32))
    >>> files.describe(f"{folder.name}/update.npz")["weights"].shape
    (3, 2)
    >>> folder.cleanup()
    """
    with _members(path) as found:
        return layout(path, (entry for entry, _ in found))


def read_into(path: str | os.PathLike[str], buffers: Mapping[str, npt.NDArray[Any]]) -> None:
    """Read all arrays of a file into arrays of the caller.

    Nothing else is allocated, except for an array in Fortran order, which is read whole and then transposed.

    Parameters
    ----------
    path : str or PathLike
        The file.
    buffers : mapping of str to ndarray
        The arrays to fill, by name: C-contiguous, with the shapes of the file, of native float32 or float64 as in the
        file. Changed in place.

    Raises
    ------
    FileRefused
        If the file cannot be read to its last byte, or its arrays are not like `buffers`. Some buffers are filled then.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ferrodp import files
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.savez(f"{folder.name}/update.npz", bias=np.array([0.5, 2.0]))
    >>> bias = np.empty(2)
    >>> files.read_into(f"{folder.name}/update.npz", {"bias": bias})
    >>> bias
    array([0.5, 2. ])
    >>> folder.cleanup()
    """
    template = {name: Entry(name, buffer.shape, buffer.dtype) for name, buffer in buffers.items()}
    seen = []
    with _members(path) as found:
        for entry, stream in found:
            seen.append(entry)
            if entry.name in template:
                check_alike(path, {entry.name: entry}, {entry.name: template[entry.name]})
                _read_array(path, stream, entry, buffers[entry.name])
    check_alike(path, layout(path, seen), template)


def write(stream: IO[bytes], suffix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to a stream.

    Parameters
    ----------
    stream : file object
        Seekable, open for writing bytes.
    suffix : str
        The format: one of `EXTENSIONS`.
    arrays : mapping of str to ndarray
        Float32 or float64; names as `check_writable` allows them.

    Raises
    ------
    OSError
        If the stream cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ferrodp import files
    >>> with tempfile.TemporaryFile() as stream:
    ...     files.write(stream, ".npy", {"noised": np.zeros(3)})
    ...     _ = stream.seek(0)
    ...     np.load(stream)
    array([0., 0., 0.])
    """
    _FORMATS[suffix].write(stream, {name: np.asarray(array, order="C") for name, array in arrays.items()})


def check_writable(path: str | os.PathLike[str], names: tuple[str, ...]) -> None:
    """Refuse an output whose format cannot hold arrays of these names.

    Parameters
    ----------
    path : str or PathLike
        The file to be written.
    names : tuple of str
        The names of its arrays.

    Raises
    ------
    FileRefused
        If the format is not known, or cannot hold arrays with these names.

    Examples
    --------
    >>> from ferrodp import files
    >>> files.check_writable("sum.npz", ("weights", "bias"))
    >>> files.check_writable("sum.npy", ("weights", "bias"))
    Traceback (most recent call last):
        ...
    ferrodp.files._layout.FileRefused: sum.npy: a .npy file holds one array, not 2; use .npz or .safetensors
    """
    fault = _FORMATS[extension(path)].fault_of_names(names)
    if fault is not None:
        raise FileRefused(path, fault)


@contextmanager
def _members(path: str | os.PathLike[str]) -> Iterator[Iterator[tuple[Entry, IO[bytes]]]]:
    """Open a file; everything that goes wrong with it inside the block comes out as `FileRefused`."""
    read = _FORMATS[extension(path)].members
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its other end
            raise FileRefused(path, "is not a regular file")
        with open(path, "rb") as file:
            yield read(path, file)
    except FileRefused:
        raise
    except OSError as error:
        raise FileRefused(path, error.strerror or "cannot be read") from None
    except (RuntimeError, *_npz.BROKEN):
        raise FileRefused(path, f"is damaged, or no {extension(path)} file") from None


def _read_array(path: object, stream: IO[bytes], entry: Entry, buffer: npt.NDArray[Any]) -> None:
    transposed = entry.fortran and len(entry.shape) > 1
    target = np.empty(entry.shape[::-1], entry.dtype) if transposed else buffer
    left = target.reshape(-1).view(np.uint8).data
    while left:
        count = stream.readinto(left[:_CHUNK])  # type: ignore[attr-defined]  # every binary stream here has it
        if not count:
            raise FileRefused(path, f"array {entry.name!r} is cut short")
        left = left[count:]
    if entry.swapped:
        target.byteswap(inplace=True)
    if transposed:
        buffer[...] = target.T
