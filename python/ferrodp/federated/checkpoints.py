"""Checkpoints of a server: model, round, accountant and what is owed to clients, as one unit on disk.

Two files. One holds the model as it is after a round, and the state of the run; the other, beside it, the sum of the
round that is being released, with the key of its noise. The module of `ferrodp.plan.KeptSum` argues why that is one
release. Each is written whole or not at all, and is on disk before the next thing happens:

1. the sum of round r and its key are written;
2. the ledger is charged;
3. noise is drawn, the model moves;
4. the model after round r is written, and the sum deleted;
5. the round is acknowledged: metrics and logs are written, the next one begins.

=====================  =============================================  =====================
killed                 what goes on                                   charged for round r
=====================  =============================================  =====================
before 1               round r, with its clients asked anew           not yet
between 1 and 2        the sum of 1 is released                       now, once
between 2 and 4        the sum of 1 is released: the same numbers     not again
between 4 and 5        round r + 1; a sum that is left is deleted     not again
=====================  =============================================  =====================
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _fork
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.plan import KeptSum

__all__ = ["RoundCheckpoint"]

Buffer: TypeAlias = "bytes | memoryview"

_MAGIC = b"ferrodp-round\x00\x01\n"
_DIGEST = 32


class RoundCheckpoint:
    """The file in which a server keeps its model and its run, so that a kill at any moment loses no paid round.

    Give it to a `FederatedRun`, and save the model after each round. A server that starts again with the same file goes
    on with the model, the round, the clip norm and the accountant of the last one that was saved. If it was killed
    between the payment of a round and its save, the run hands out that round first, complete, and its release is what
    it was or would have been, bit for bit.

    Parameters
    ----------
    path : str or PathLike
        The file; its folder must exist. Beside it are ``path.sum``, while a round is being released, and ``path.lock``.
        All are readable by their owner alone. *Secret:* ``path.sum`` holds a sum without noise. It is deleted with each
        save, and a deleted file can often be recovered: use an encrypted disk if others may have the disk.

    Attributes
    ----------
    arrays : dict of str to ndarray, or None
        The model that was saved last; None in a new file.
    notes : dict
        What was saved with it.
    path : Path
        The file.

    Raises
    ------
    FerroError
        If another process, or another object here, has it open.
    InvalidParameter, InvalidType
        If the file is not what this class wrote, or the path none.
    OSError
        If it cannot be read or made.

    Notes
    -----
    With a ledger, an old copy of the file that is put back is safe: rounds that were charged after it are left out, and
    a warning says how many. Without a ledger nothing but this file knows how far the training has come: do not put old
    copies back.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from ferrodp.federated import FederatedRun, RoundCheckpoint
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, KeptSum, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     unit="client",
    ...     population_size=3,
    ...     sampling=FullBatch(),
    ...     num_steps=4,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.0),
    ... )
    >>> def serve(path, rounds):
    ...     with RoundCheckpoint(path) as kept:
    ...         model = kept.arrays or {"w": np.zeros(5)}
    ...         run = FederatedRun(plan, model, checkpoint=kept)
    ...         if kept.arrays is None:
    ...             run.save(model)
    ...         for round_ in run:
    ...             if not round_.is_kept:
    ...                 for _ in round_.clients:
    ...                     round_.add({"w": np.ones(5)})
    ...             model = {"w": model["w"] + round_.release()["w"]}
    ...             run.save(model, notes={"server": "first floor"})
    ...             if round_.number + 1 == rounds:
    ...                 break  # as if it was killed here
    ...         return run.round_number, kept.notes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "training")
    ...     serve(path, rounds=1), serve(path, rounds=4)
    ((1, {'server': 'first floor'}), (4, {'server': 'first floor'}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = RoundCheckpoint(pathlib.Path(folder, "training"))
    ...     FederatedRun(plan, {"w": np.zeros(5)}, checkpoint=kept).save({"w": np.zeros(5)})
    ...     kept.keep(KeptSum(0, None, bytes(32), {"": b"..."}))  # as the run does before each payment
    ...     kept.close()
    >>> kept.arrays["w"].shape
    (5,)
    """

    __slots__ = ("_arrays", "_handle", "_kept", "_notes", "_path", "_process", "_run")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidType(f"checkpoint must be a path, got {type(path).__name__}; for example 'training.round'")
        self._path = Path(path)
        self._process = _fork.generation()
        self._handle = _locked(self._path.with_name(f"{self._path.name}.lock"), self._path)
        try:
            for each in (self._path, self._sum_path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_unfinished(each))  # of a process that was killed while it wrote
            self._run: dict[str, Any] | None = None
            self._notes: dict[str, Any] = {}
            self._arrays: dict[str, npt.NDArray[Any]] | None = None
            self._kept: KeptSum | None = None
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        found = _read(self._path, "model")
        if found is not None:
            header, payload = found
            self._run, self._notes = header["run"], header["notes"]
            self._arrays = dict(_arrays(header["arrays"], payload, self._path))
        found = _read(self._sum_path, "sum")
        if found is None:
            return
        header, payload = found
        ends = list(np.cumsum([length for _, length in header["parts"]]))
        parts = {
            name: bytes(payload[end - length : end]) for (name, length), end in zip(header["parts"], ends, strict=True)
        }
        kept = KeptSum(header["step"], header["ticket"], bytes.fromhex(header["key"]), parts)
        next_step = None if self._run is None else self._run["next_step"]
        # mutant: kept-sum-of-a-round-that-was-saved-released
        if self._run is not None and next_step is not None and kept.step < next_step:
            self._forget()
        elif self._run is None or kept.step != next_step or header["name"] != self._run["name"]:
            raise InvalidParameter(
                f"checkpoint must be the file that {str(self._sum_path)!r} was written beside, and is another or an "
                "older one; put both files of one moment back, or begin with another path"
            )
        else:
            self._kept = kept

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]] | None:
        """The model that was saved last; None in a new file."""
        return self._arrays

    @property
    def notes(self) -> dict[str, Any]:
        """What was saved with it."""
        return self._notes

    @property
    def run(self) -> Mapping[str, Any] | None:
        """Of the run that was saved: `name`, `plan`, `state`, `next_step` and `records`; None in a new file."""
        return self._run

    @property
    def kept(self) -> KeptSum | None:
        """The sum of the round that was being released."""
        return self._kept

    @property
    def _sum_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.sum")

    def save(
        self,
        run: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        notes: Mapping[str, Any],
    ) -> None:
        """Write a model and its run, and then delete the sum of the round that led to it. `FederatedRun.save` calls it.

        Parameters
        ----------
        run : mapping
            As `run` returns it; plain JSON data.
        arrays : mapping of str to ndarray
            The model.
        notes : mapping
            Plain JSON data.

        Raises
        ------
        InvalidParameter, InvalidType
            If the names or notes are not of these types. Nothing was written.
        FerroError
            In a forked child, or after `close`.
        OSError
            If it cannot be written; then what was saved before is still there.
        """
        self._check_open()
        if not all(isinstance(name, str) for name in arrays):
            raise InvalidType("arrays must be a mapping of str to ndarray")
        values = {name: np.asarray(value) for name, value in arrays.items()}
        for name, value in values.items():
            if value.dtype.hasobject:
                raise InvalidType(f"arrays must hold numbers, and {name!r} is of dtype {value.dtype}")
        try:
            header = {
                "kind": "model",
                "run": dict(run),
                "notes": dict(notes),
                "arrays": [[name, value.dtype.name, list(value.shape)] for name, value in values.items()],
            }
            text = json.dumps(header)
        except (TypeError, ValueError) as error:
            raise InvalidType(f"notes must be plain JSON data: {error}") from None
        payload = [np.ascontiguousarray(value).reshape(-1).view(np.uint8).data for value in values.values()]
        # mutant: sum-deleted-before-the-model-is-written
        _write(self._path, text, payload)
        self._run, self._notes, self._arrays = header["run"], header["notes"], values  # type: ignore[assignment]
        self._forget()

    def keep(self, kept: KeptSum) -> None:
        """Write the sum of a round that is about to be paid for: what `PlanRun.keep_sums` calls.

        Parameters
        ----------
        kept : KeptSum
            The sum, with the key of its noise.

        Raises
        ------
        FerroError
            In a forked child, after `close`, or if no model was saved yet.
        OSError
            If it cannot be written.
        """
        self._check_open()
        if self._run is None:
            raise FerroError("save the initial model before the first round: there is nothing to go on from")
        header = {
            "kind": "sum",
            "name": self._run["name"],
            "step": kept.step,
            "ticket": kept.ticket,
            "key": kept.key.hex(),
            "parts": [[name, len(part)] for name, part in kept.parts.items()],
        }
        _write(self._sum_path, json.dumps(header), list(kept.parts.values()))
        self._kept = kept

    def _forget(self) -> None:
        self._kept = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._sum_path)

    def close(self) -> None:
        """Let others open the file; nothing is written."""
        handle, self._handle = self._handle, None
        if handle is not None and self._process == _fork.generation():
            os.close(handle)

    def _check_open(self) -> None:
        if self._handle is None:
            raise FerroError(f"the checkpoint {str(self._path)!r} was closed")
        if self._process != _fork.generation():
            raise FerroError("this checkpoint belongs to the parent of this forked process")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RoundCheckpoint {str(self._path)!r}>"


def _locked(lock: Path, path: Path) -> int | None:
    """Return a handle that holds the lock until it is closed, or its process ends in whatever way."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise FerroError(f"the checkpoint {str(path)!r} is in use: one server at a time goes on from it") from None
    return handle


def _unfinished(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _write(path: Path, text: str, payload: Sequence[Buffer]) -> None:
    """Replace a file by another, which is on disk when this returns; at every moment the one or the other is there."""
    header = text.encode()
    parts: list[Buffer] = [_MAGIC, len(header).to_bytes(8, "little"), header, *payload]
    digest = hashlib.sha256()
    beside = _unfinished(path)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        for part in parts:
            digest.update(part)
            stream.write(part)
        stream.write(digest.digest())
        stream.flush()
        # mutant: checkpoint-not-synced
        os.fsync(stream.fileno())
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path, kind: str) -> tuple[dict[str, Any], memoryview] | None:
    """Return header and payload of a file, or None if there is none; refuse one that was not written here."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    view, start = memoryview(data), len(_MAGIC) + 8
    end = len(data) - _DIGEST
    if end < start or data[: len(_MAGIC)] != _MAGIC:
        raise _malformed(path, "it does not begin like one")
    # mutant: altered-checkpoint-read
    if hashlib.sha256(view[:end]).digest() != data[end:]:
        raise _malformed(path, "its checksum is wrong: it was cut or altered")
    header_end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        header = json.loads(data[start:header_end])
        if header["kind"] != kind:
            raise _malformed(path, f"it is that of a {header['kind']}")
    except (ValueError, KeyError, TypeError):
        raise _malformed(path, "its header is none") from None
    return header, view[header_end:end]


def _arrays(shapes: Any, payload: memoryview, path: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    start = 0
    for name, dtype, shape in shapes:
        kind = _dtype(dtype, path)
        end = start + math.prod(shape) * kind.itemsize
        yield name, np.frombuffer(payload[start:end], np.uint8).copy().view(kind).reshape(shape)
        start = end


def _dtype(name: str, path: Path) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        with contextlib.suppress(ImportError, AttributeError):
            found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
            return found
    raise _malformed(path, f"it holds numbers of dtype {name}, for which the package ml_dtypes is needed")


def _malformed(path: Path, reason: str) -> InvalidParameter:
    return InvalidParameter(
        f"checkpoint must be a file that RoundCheckpoint wrote, and {str(path)!r} is not: {reason}; name another file"
    )
