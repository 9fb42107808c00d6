"""The given values of `tests/vectors`, each file read once."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "vectors"


@functools.cache
def _read(name: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def accounting(*quantities: str) -> list[dict[str, Any]]:
    """Return the values of `accounting.json`, or those of some quantities."""
    found = _read("accounting.json")
    return [vector for vector in found if vector["quantity"] in quantities] if quantities else found


def compositions() -> list[dict[str, Any]]:
    """Return the compositions of `compositions.json`."""
    return _read("compositions.json")


def samplers(*prefixes: str) -> list[dict[str, Any]]:
    """Return the values of `samplers.json` whose names begin so."""
    found = [vector for vector in _read("samplers.json") if vector["id"].startswith(prefixes or "")]
    assert found
    return found


def each(vectors: list[dict[str, Any]], name: str = "vector") -> pytest.MarkDecorator:
    """Return the mark of a test that is run for each of the values."""
    return pytest.mark.parametrize(name, vectors, ids=lambda vector: vector["id"])
