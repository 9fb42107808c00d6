"""Serialization of an accumulator, with validation of what is read.

Version 1: 12 bytes of magic, the length of a header (4 bytes, little endian), the header (JSON, UTF-8), the integer
sums (8 bytes each, little endian), SHA-256 of everything before.

Version 2: a stability, and how many rows were within the bound, in the header besides. A sum of which that number is
not known, because a part of it comes from version 1, is written in version 1 as long as it has no stability.

Version 2 with the fast checksum: the same with another magic; the header is filled up with spaces and followed by the
numbers of rows and of rows within the bound (8 bytes each; 2⁶⁴ − 1 is not known), so that the sums begin at a multiple
of 128 bytes; the last 8 bytes are a checksum that runs at memory speed (`checksum.rs`).

Reading trusts none of it: a truncated, altered or forged state is refused before memory is allocated for it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _trees, _validate
from ferrodp._base._trees import Node
from ferrodp.errors import InvalidParameter, InvalidType

MAGIC = b"ferrodp-sum\x00"
FAST_MAGIC = b"ferrodp-sum\x02"
_DIGEST, _CHECKSUM, _COUNTS, _BLOCK = 32, 8, 16, 128
_FIELDS = {"version", "dtype", "clip_norm", "count", "template"}
_SINCE_2 = {"stability", "within_bound"}
_ITEM = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class SumState:
    """What an accumulator is made of."""

    dtype: str
    clip_norm: float
    count: int
    structure: Node
    integers: npt.NDArray[np.int64]
    stability: float | None
    within_bound: int | None
    """None where a part of the sum was stored in version 1."""


def dump(state: SumState) -> bytes:
    """Return `state` as bytes, with SHA-256."""
    version = 1 if state.within_bound is None and state.stability is None else 2
    integers = np.ascontiguousarray(state.integers, dtype=_ITEM).view(np.uint8).data
    parts: list[bytes | memoryview] = [_beginning(state, version, fast=False), integers]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def fast_prefix(dtype: str, clip_norm: float, stability: float | None, structure: Node) -> bytes:
    """Return what stands before the numbers of rows in a state with the fast checksum."""
    text = _header(2, dtype, clip_norm, stability, structure, {})
    text += b" " * (-(len(FAST_MAGIC) + 4 + len(text) + _COUNTS) % _BLOCK)
    return FAST_MAGIC + len(text).to_bytes(4, "little") + text


def _header(
    version: int,
    dtype: str,
    clip_norm: float,
    stability: float | None,
    structure: Node,
    counts: dict[str, int | None],
) -> bytes:
    fields = {"version": version, "dtype": dtype, "clip_norm": clip_norm.hex()}
    if version > 1:
        # mutant: state-forgets-stability
        fields["stability"] = None if stability is None else stability.hex()
    fields |= counts | {"template": _trees.to_plain(structure)}
    return json.dumps(fields, separators=(",", ":")).encode()


def load(data: object) -> SumState:
    """Return what a state of either version describes; its integers may be a view of `data`.

    Raises
    ------
    InvalidParameter
        If these are not, byte for byte, what some accumulator of these versions wrote.
    InvalidType
        If `data` is not bytes.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidType(f"state must be bytes, got {type(data).__name__}")
    # A copy of what another thread could change after it was checked.
    view = memoryview(data if isinstance(data, bytes) else bytes(data))
    start = len(MAGIC) + 4
    fast = view[: len(MAGIC)] == FAST_MAGIC
    end = len(view) - (_CHECKSUM if fast else _DIGEST)
    if end < start or not (fast or view[: len(MAGIC)] == MAGIC):
        raise _malformed("it does not begin like one")
    # mutant: checksum-of-states-not-compared
    whole = _native.has_checksum(view.obj) if fast else hashlib.sha256(view[:end]).digest() == view[end:]  # type: ignore[arg-type]
    if not whole:
        raise _malformed("its checksum is wrong: it was cut or altered")
    header_end = start + int.from_bytes(view[len(MAGIC) : start], "little")
    payload_start = header_end + (_COUNTS if fast else 0)
    if payload_start > end:
        raise _malformed("its header is cut")
    try:
        header = json.loads(bytes(view[start:header_end]))
    except (ValueError, RecursionError):
        raise _malformed("its header is not JSON") from None
    if fast and isinstance(header, dict):
        if header.keys() & {"count", "within_bound"}:
            raise _malformed("its header has other fields")
        count, within = np.frombuffer(view[header_end:payload_start], "<u8").tolist()
        header |= {"count": count, "within_bound": None if within == 2**64 - 1 else within}
    state = _parsed(header, view[payload_start:end], fast=fast)
    # mutant: altered-header-of-a-state-read
    if bytes(view[:header_end]) != _beginning(state, header["version"], fast=fast):
        raise _malformed("its header is not written as this library writes it")
    return state


def _beginning(state: SumState, version: int, *, fast: bool) -> bytes:
    """Return what stands before the numbers of rows, or the sums, of a state: one text for one meaning."""
    if fast:
        return fast_prefix(state.dtype, state.clip_norm, state.stability, state.structure)
    counts: dict[str, int | None] = {"count": state.count}
    if version > 1:
        counts["within_bound"] = state.within_bound
    text = _header(version, state.dtype, state.clip_norm, state.stability, state.structure, counts)
    return MAGIC + len(text).to_bytes(4, "little") + text


def _parsed(header: Any, payload: memoryview, *, fast: bool) -> SumState:
    known = (2,) if fast else (1, 2)
    if not isinstance(header, dict) or type(header.get("version")) is not int or header["version"] not in known:
        raise _malformed(f"it was not written by version {' or '.join(map(str, known))}")
    if header.keys() != (_FIELDS if header["version"] == 1 else _FIELDS | _SINCE_2):
        raise _malformed("its header has other fields")
    dtype, count = header["dtype"], header["count"]
    if dtype not in ("float32", "float64"):
        raise _malformed("its dtype is not float32 or float64")
    if type(count) is not int or not 0 <= count <= _validate.MAX_COUNT:
        raise _malformed("its count is no count")
    # mutant: old-state-counts-rows-within
    stability, within = header.get("stability"), header.get("within_bound")
    if within is not None and (type(within) is not int or not 0 <= within <= count):
        raise _malformed("its within_bound is no number of its rows")
    structure = _trees.from_plain(header["template"], _malformed)
    shapes = _trees.shapes(structure)
    if not shapes or sum(math.prod(shape) for shape in shapes) * _ITEM.itemsize != len(payload):
        raise _malformed("its sums do not fill its template")
    if any(math.prod(length or 1 for length in shape) * _ITEM.itemsize > sys.maxsize for shape in shapes):
        raise _malformed("its template has an impossible shape")
    return SumState(
        dtype,
        _number(header, "clip_norm"),
        count,
        structure,
        np.require(np.frombuffer(payload, _ITEM), np.int64, ["A", "C"]),
        stability=None if stability is None else _number(header, "stability"),
        within_bound=within,
    )


def _number(header: dict[str, Any], name: str) -> float:
    try:
        return float.fromhex(header[name])
    except (TypeError, ValueError, OverflowError):
        raise _malformed(f"its {name} is no number") from None


def _malformed(reason: str) -> InvalidParameter:
    return InvalidParameter(f"state must be what ClippedSum.state() returned, and is not: {reason}")
