"""Rows of partitions that wait on a disk until all rows of their units are there.

A call has a folder of its own, which its owner alone may read, as each file in it. It is deleted on every way out of
the call, once no task of it runs any more; a driver that is killed leaves it, and its rows, on the disk.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.statistics.parts.multisets import created

__all__: list[str] = []


@contextmanager
def folder(parent: str | os.PathLike[str] | None) -> Iterator[str | None]:
    """Give a new folder of a call, or None without a parent, and delete it in the end."""
    if parent is None:
        yield None
        return
    if not isinstance(parent, (str, os.PathLike)):
        raise _validate.wrong_type("scratch", "the path of a folder or None", parent, write='"/var/tmp"')
    if not os.path.isdir(parent):
        raise InvalidParameter(
            "scratch must be a folder that exists: its disk holds rows of the partitions for a while"
        )
    made = tempfile.mkdtemp(prefix="ferrodp-", dir=os.path.abspath(parent))  # its owner's alone
    try:
        yield made
    finally:
        # mutant: rows-stay-on-the-disk
        shutil.rmtree(made)


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of a partition in pieces, one after another in a file, and where each ends."""

    path: str
    ends: tuple[int, ...]

    @classmethod
    def of(cls, pieces: Iterable[Any], folder: str) -> Split:
        """Write pieces to a new file, one in memory at a time."""
        path, ends = os.path.join(folder, uuid.uuid4().hex), [0]
        with created(path) as file:
            for piece in pieces:
                pickle.dump(piece, file, protocol=5)
                ends.append(file.tell())
        return cls(path, tuple(ends))

    def piece(self, number: int) -> Any:
        """Read a piece."""
        with open(self.path, "rb") as file:
            file.seek(self.ends[number])
            return pickle.loads(file.read(self.ends[number + 1] - self.ends[number]))
