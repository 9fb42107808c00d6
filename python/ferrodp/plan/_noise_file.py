"""The file that keeps the secret key of a run's correlated noise, so that a run that goes on draws the same noise."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path

from ferrodp.errors import FerroError, InvalidParameter

_FORMAT, _VERSION = "ferrodp.noise_key", 1


def key_in(file: str | os.PathLike[str], name: str, fingerprint: str, *, is_new: bool) -> bytes:
    """Return the key in a file, made if there is none yet; the file is on disk when this returns.

    Parameters
    ----------
    file : path
        Readable and writable by its owner alone, once made.
    name, fingerprint : str
        Of the training and of its plan, which have to be those of the file.
    is_new : bool
        Whether no step was charged: otherwise a missing file is refused, as its noise cannot be had again.
    """
    path = Path(file)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        # mutant: run-goes-on-with-another-noise
        if not is_new:
            raise FerroError(
                f"noise_file must be the one of this training, and there is none at {str(path)!r}: steps were charged, "
                "and the noise that cancels theirs is lost; begin another training, under another key"
            ) from None
        return _made(path, name, fingerprint)
    return _read(text, path, name, fingerprint)


def _made(path: Path, name: str, fingerprint: str) -> bytes:
    key = secrets.token_bytes(32)
    plain = {"format": _FORMAT, "version": _VERSION, "run": name, "plan": fingerprint, "key": key.hex()}
    text = json.dumps({**plain, "checksum": _checksum(plain)}).encode()
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # Whole or not at all, and never over another process's.
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    finally:
        os.unlink(beside)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return _read(path.read_bytes(), path, name, fingerprint)


def _read(text: bytes, path: Path, name: str, fingerprint: str) -> bytes:
    try:
        plain = json.loads(text)
        checksum = plain.pop("checksum")
        is_ours = plain["format"] == _FORMAT and plain["version"] == _VERSION and checksum == _checksum(plain)
        key = bytes.fromhex(plain["key"])
    except (ValueError, TypeError, KeyError, AttributeError):
        is_ours, key = False, b""
    if not is_ours or len(key) != 32:
        raise InvalidParameter(f"noise_file must be one that a run made, and {str(path)!r} is not; name a new file")
    # mutant: noise-of-another-training-taken
    if plain["run"] != name or plain["plan"] != fingerprint:
        raise InvalidParameter(
            f"noise_file must be that of this training, and {str(path)!r} is of another key or plan; each training has "
            "a file of its own"
        )
    return key


def _checksum(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
