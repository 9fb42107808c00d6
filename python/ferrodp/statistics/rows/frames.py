"""Tables of released numbers, of whatever library is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ferrodp._base import _validate
from ferrodp.errors import MissingPackage

_MODULES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


def frame_of(library: object, labels: Sequence[Any], columns: Mapping[str, Any]) -> Any:
    """Return a table of pandas, polars or Arrow: labels as an index, or as columns where there is none."""
    if not isinstance(library, str) or library not in _MODULES:
        raise _validate.out_of_domain("library", '"pandas", "polars" or "arrow"', library)
    try:
        module: Any = importlib.import_module(_MODULES[library])
    except ImportError:
        name = _MODULES[library]
        raise MissingPackage(f"to_frame needs {name}: pip install {name}") from None
    if library == "pandas":
        return module.DataFrame(dict(columns), index=list(labels))
    found = _labels(labels) | {
        name: [values] * len(labels) if isinstance(values, str) else _listed(values) for name, values in columns.items()
    }
    return module.DataFrame(found, strict=False) if library == "polars" else module.table(found)


def _labels(labels: Sequence[Any]) -> dict[str, list[Any]]:
    """Return labels as columns: one for each of their parts."""
    if not labels or not all(isinstance(label, tuple) for label in labels):
        return {"label": _alike(list(labels))}
    return {f"label_{place}": _alike(list(each)) for place, each in enumerate(zip(*labels, strict=True))}


def _alike(labels: list[Any]) -> list[Any]:
    """Return labels of one type, or as text."""
    return labels if len(set(map(type, labels))) <= 1 else [str(label) for label in labels]


def _listed(values: Any) -> list[Any]:
    """Return numbers or times as Python's own."""
    found: list[Any] = np.asarray(values).tolist()
    return found
