"""Flower itself, imported by the first call that needs it, and its records as numpy arrays."""

from __future__ import annotations

import functools
import importlib
import io
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.lib.format as npy
import numpy.typing as npt

from ferrodp.errors import InvalidParameter, MissingPackage


def library(name: str) -> Any:
    """Return a module of Flower, or say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        rule = 'ferrodp.integrations.flower needs Flower (flwr >= 1.41): pip install "ferrodp[flower]"'
        raise MissingPackage(rule) from error


def model_of(record: Mapping[str, Any], skipped: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a model by name, without a copy; refuse names to be skipped that it does not have."""
    known = set(record) | {name.rpartition(".")[2] for name in record}
    unknown = sorted(set(skipped) - known)
    if unknown:
        raise InvalidParameter(f"skip must name arrays of the model, {sorted(record)}, got {unknown}")
    return {name: array_of(array) for name, array in record.items()}


def array_of(array: Any) -> npt.NDArray[Any]:
    """Return what an `Array` of Flower holds, read-only: the bytes that arrived, where numpy's format lies in them."""
    data = array.data
    start = 10 + int.from_bytes(data[8:10], "little")
    # Other versions of the format have headers of other lengths.
    if array.stype != "numpy.ndarray" or data[:8] != b"\x93NUMPY\x01\x00":
        return array.numpy()  # type: ignore[no-any-return]  # raises, or reads it
    shape, order, dtype = _header(data[:start])
    return np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape, order=order)


@functools.lru_cache(maxsize=1024)
def _header(data: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    stream = io.BytesIO(data)
    npy.read_magic(stream)
    shape, is_fortran, dtype = npy.read_array_header_1_0(stream)
    return shape, "F" if is_fortran else "C", dtype


def array_record(arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return arrays as a record of Flower, each copied once."""
    app = library("flwr.app")
    made = {}
    for name, value in arrays.items():
        array = np.asarray(value, order="C")
        stream = io.BytesIO()
        npy.write_array_header_1_0(stream, npy.header_data_from_array_1_0(array))
        data = b"".join((stream.getvalue(), array.reshape(-1).view(np.uint8).data))
        made[name] = app.Array(dtype=str(array.dtype), shape=array.shape, stype="numpy.ndarray", data=data)
    return app.ArrayRecord(made)


def only_record(records: Mapping[str, Any], what: str) -> tuple[str, Any]:
    """Return the one record of a kind that a message has, with its name."""
    if len(records) != 1:
        raise InvalidParameter(f"a message must have one {what}, got {len(records)}")
    return next(iter(records.items()))
