"""Flower itself, imported by the first call that needs it, and its records as numpy arrays."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArrayType, InvalidParameter, MissingPackage


def library(name: str) -> Any:
    """Return a module of Flower, or say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        rule = 'ferrodp.integrations.flower needs Flower (flwr >= 1.41): pip install "ferrodp[flower]"'
        raise MissingPackage(rule) from error


def floats_of(record: Mapping[str, Any], skipped: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a model that are trained, by name, without a copy.

    Raises
    ------
    InvalidArrayType
        For arrays that are not floats and not skipped: a counter cannot be clipped and noised with the weights.
    InvalidParameter
        If nothing is left.
    """
    left_out = set(skipped)
    unknown = left_out - set(record)
    if unknown:
        raise InvalidParameter(f"skip must name arrays of the model, {sorted(record)}, got {sorted(unknown)}")
    arrays = {name: array.numpy() for name, array in record.items() if name not in left_out}
    for name, array in arrays.items():
        if array.dtype not in (np.float16, np.float32, np.float64):
            rule = f"array {name!r} must hold floats, got {array.dtype}; leave counters out with skip=({name!r},)"
            raise InvalidArrayType(rule)
    if not arrays:
        raise InvalidParameter("the model must have an array that is not skipped")
    return arrays


def common_dtype(arrays: Mapping[str, npt.NDArray[Any]]) -> np.dtype[Any]:
    """Return float64 if any array is, else float32: the sum's dtype, which holds every value of them exactly."""
    doubles = any(array.dtype == np.float64 for array in arrays.values())
    return np.dtype(np.float64 if doubles else np.float32)


def array_record(arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return arrays as a record of Flower."""
    app = library("flwr.app")
    return app.ArrayRecord({name: app.Array(np.asarray(array, order="C")) for name, array in arrays.items()})


def only_record(records: Mapping[str, Any], what: str) -> tuple[str, Any]:
    """Return the one record of a kind that a message has, with its name."""
    if len(records) != 1:
        raise InvalidParameter(f"a message must have one {what}, got {len(records)}")
    return next(iter(records.items()))
