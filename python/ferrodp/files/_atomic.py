"""An output file that appears whole or not at all.

The bytes go to a file without a name (Linux: `O_TMPFILE`), which the kernel forgets when the process dies, however it
dies; where that does not exist, to a hidden file beside the target. Only when everything is on the disk does the file
get its name, in one atomic step that refuses, unless `force` is given, to take the place of another. To replace a file
takes two steps; killed between them, the whole new file stays behind under a hidden name, and the old one in its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ferrodp.files._layout import FileRefused

_NO_LINK = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)


class Destination:
    r"""The place of one output file, used in a `with` block; without `commit` nothing appears there.

    Parameters
    ----------
    path : str or PathLike
        The file to be written. A symbolic link is followed: the file that it points to is replaced.
    force : bool
        Whether to replace an existing regular file.

    Raises
    ------
    FileRefused
        On entering, if the file exists already or nothing can be written there. In `reserve` and `commit`, if the disk
        is full or broken. An existing file is left as it was.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ferrodp.files import Destination
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "report.txt")
    >>> with Destination(path) as destination:
    ...     destination.reserve(6)
    ...     destination.commit(lambda stream: stream.write(b"hello\n"))
    >>> path.read_text()
    'hello\n'
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))
        self._force = force
        self._descriptor = -1
        self._hidden: Path | None = None

    def __enter__(self) -> Destination:
        with self._refusing():
            if self._target.exists() and not self._target.is_file():
                raise FileRefused(self._path, "is not a regular file")
            if self._target.exists() and not self._force:
                raise FileExistsError
            self._descriptor, self._hidden = _nameless(self._target.parent) or _hidden(self._target.parent)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        if self._hidden is not None:
            self._hidden.unlink(missing_ok=True)

    def reserve(self, num_bytes: int) -> None:
        """Claim space on the disk, so that a full disk is noticed before anything is computed.

        Parameters
        ----------
        num_bytes : int
            The expected size of the file; ≥ 0.

        Raises
        ------
        FileRefused
            If there is not so much space.
        """
        if num_bytes and hasattr(os, "posix_fallocate"):
            with self._refusing():
                try:
                    os.posix_fallocate(self._descriptor, 0, num_bytes)
                except OSError as error:
                    if error.errno not in _NO_RESERVE:
                        raise

    def commit(self, write: Callable[[IO[bytes]], object]) -> None:
        """Write the file, sync it to the disk, and give it its name.

        Parameters
        ----------
        write : callable
            Is called with a binary stream, and writes the content to it.

        Raises
        ------
        FileRefused
            If the file cannot be written, or there is one by now and `force` is false.
        """
        with self._refusing():
            with os.fdopen(self._descriptor, "wb", closefd=False) as stream:
                write(stream)
                stream.truncate()
            os.fsync(self._descriptor)
            self._name()
            _sync_folder(self._target.parent)

    def _name(self) -> None:
        """Give the file its name in one step."""
        if self._hidden is None and not self._force:
            return _link(self._descriptor, self._target)
        if self._hidden is None:
            self._hidden = self._target.parent / _hidden_name()
            _link(self._descriptor, self._hidden)
        self._close()  # some systems rename no open file
        if not self._force:
            try:
                return os.link(self._hidden, self._target)
            except (AttributeError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in _NO_LINK:
                    raise
            if self._target.exists():
                raise FileExistsError
        return os.replace(self._hidden, self._target)

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):  # all that matters was synced before
                os.close(descriptor)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn what the file system says into a refusal that names the output."""
        try:
            yield
        except FileExistsError:
            raise FileRefused(self._path, "exists already; --force replaces it, or force=True in a program") from None
        except OSError as error:
            reason = error.strerror or "the disk does not say why"
            raise FileRefused(self._path, f"cannot be written: {reason}") from None


def _nameless(folder: Path) -> tuple[int, None] | None:
    """Open a file without a name, if the system has such and can name it later."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, flag | os.O_RDWR | os.O_CLOEXEC, 0o666), None
    except OSError:  # whatever it is: the second way meets it again, or does not
        return None


def _hidden(folder: Path) -> tuple[int, Path]:
    path = folder / _hidden_name()
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666), path


def _hidden_name() -> str:
    return f".ferrodp-{secrets.token_hex(8)}.tmp"


def _link(descriptor: int, path: Path) -> None:
    """Name an open file. A folder descriptor must be given for the link in /proc to be followed; it is not used."""
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


def _sync_folder(folder: Path) -> None:
    """Bring the name to the disk, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
