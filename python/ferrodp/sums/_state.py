"""Serialization of an accumulator, with validation of what is read.

Layout: 12 bytes of magic, the length of a header (4 bytes, little endian), the header (JSON, UTF-8), the integer sums
(8 bytes each, little endian), SHA-256 of everything before. Reading trusts none of it: a truncated, altered or forged
state is refused before memory is allocated for it.
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

from ferrodp import _trees, _validate
from ferrodp._trees import Branch, Node
from ferrodp.errors import InvalidParameter, InvalidType

MAGIC = b"ferrodp-sum\x00"
VERSION = 1
_DIGEST = 32
_ITEM = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class SumState:
    """What an accumulator is made of."""

    dtype: str
    clip_norm: float
    count: int
    structure: Node
    integers: npt.NDArray[np.int64]


def dump(state: SumState) -> bytes:
    """Return `state` as bytes."""
    header = {
        "version": VERSION,
        "dtype": state.dtype,
        "clip_norm": state.clip_norm.hex(),
        "count": state.count,
        "template": _plain(state.structure),
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    integers = np.ascontiguousarray(state.integers, dtype=_ITEM).view(np.uint8).data
    parts: list[bytes | memoryview] = [MAGIC, len(text).to_bytes(4, "little"), text, integers]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def load(data: object) -> SumState:
    """Return what `dump` was given.

    Raises
    ------
    InvalidParameter
        If these are not, byte for byte, what some accumulator of this version wrote.
    InvalidType
        If `data` is not bytes.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidType(f"state must be bytes, got {type(data).__name__}")
    view = memoryview(data).cast("B") if memoryview(data).c_contiguous else memoryview(bytes(data))
    start = len(MAGIC) + 4
    if len(view) < start + _DIGEST or view[: len(MAGIC)] != MAGIC:
        raise _malformed("it does not begin like one")
    if hashlib.sha256(view[:-_DIGEST]).digest() != view[-_DIGEST:]:
        raise _malformed("its checksum is wrong: it was cut or altered")
    end = start + int.from_bytes(view[len(MAGIC) : start], "little")
    payload = view[end:-_DIGEST]
    if end > len(view) - _DIGEST:
        raise _malformed("its header is cut")
    try:
        header = json.loads(bytes(view[start:end]))
    except (ValueError, RecursionError):
        raise _malformed("its header is not JSON") from None
    return _parsed(header, payload)


def _parsed(header: Any, payload: memoryview) -> SumState:
    if not isinstance(header, dict) or header.get("version") != VERSION:
        raise _malformed(f"it was not written by version {VERSION}")
    if header.keys() != {"version", "dtype", "clip_norm", "count", "template"}:
        raise _malformed("its header has other fields")
    dtype, count = header["dtype"], header["count"]
    if dtype not in ("float32", "float64"):
        raise _malformed("its dtype is not float32 or float64")
    if type(count) is not int or not 0 <= count <= _validate.MAX_COUNT:
        raise _malformed("its count is no count")
    try:
        clip_norm = float.fromhex(header["clip_norm"])
    except (TypeError, ValueError, OverflowError):
        raise _malformed("its clip_norm is no number") from None
    structure = _structure(header["template"], _trees.MAX_DEPTH)
    shapes = _trees.shapes(structure)
    if not shapes or sum(math.prod(shape) for shape in shapes) * _ITEM.itemsize != len(payload):
        raise _malformed("its sums do not fill its template")
    if any(math.prod(length or 1 for length in shape) * _ITEM.itemsize > sys.maxsize for shape in shapes):
        raise _malformed("its template has an impossible shape")
    return SumState(dtype, clip_norm, count, structure, np.frombuffer(payload, _ITEM).astype(np.int64))


def _plain(node: Node) -> Any:
    """Return the structure as JSON: a list of lengths, or a kind, keys and children."""
    if not isinstance(node, Branch):
        return list(node)
    children = [_plain(child) for child in node.children]
    return {"kind": node.kind, "children": children} | ({"keys": list(node.keys)} if node.kind == "dict" else {})


def _structure(plain: Any, depth: int) -> Node:
    if isinstance(plain, list):
        if len(plain) > _validate.MAX_DIMENSIONS or not all(type(n) is int and 0 <= n <= sys.maxsize for n in plain):
            raise _malformed("its template has an impossible shape")
        return tuple(plain)
    if not isinstance(plain, dict) or depth == 0:
        raise _malformed("its template is no tree of shapes")
    kind, children = plain.get("kind"), plain.get("children")
    fields = {"kind", "children"} | ({"keys"} if kind == "dict" else set())
    if kind not in ("list", "tuple", "dict") or not isinstance(children, list) or plain.keys() != fields:
        raise _malformed("its template is no tree of shapes")
    keys = plain["keys"] if kind == "dict" else list(range(len(children)))
    if not isinstance(keys, list) or not all(type(key) in (str, int) for key in keys):
        raise _malformed("its template has keys that are neither str nor int")
    if len(keys) != len(children) or len(set(keys)) != len(keys):
        raise _malformed("its template has too many or too few keys")
    return Branch(kind, tuple(keys), tuple(_structure(child, depth - 1) for child in children))


def _malformed(reason: str) -> InvalidParameter:
    return InvalidParameter(f"state must be what ClippedSum.state() returned, and is not: {reason}")
