"""What the inner strategy keeps between rounds, such as momentum, as arrays and plain data, and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.integrations.flower._library import array_of, array_record, library

_LOGGER = logging.getLogger("ferrodp.flower")
_PLAIN = (type(None), bool, int, float, str)

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"


class InnerState:
    """The attributes of a strategy that its rounds change.

    Parameters
    ----------
    inner : Strategy
        As it is before the first round.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from ferrodp.integrations.flower._inner import InnerState
    >>> inner = SimpleNamespace(rate=0.1, momentum=None)
    >>> state = InnerState(inner)
    >>> inner.momentum = [np.ones(2)]
    >>> arrays = {}
    >>> plain = state.saved(arrays)
    >>> plain, list(arrays)
    ({'momentum': {'list': [{'array': 'inner/momentum/0'}]}}, ['inner/momentum/0'])
    >>> state.restore(plain, arrays)
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._said: set[str] = set()
        self._before = {name: self._attribute(name, value, warn=False) for name, value in vars(inner).items()}

    def saved(self, arrays: Arrays) -> dict[str, Any]:
        """Return what is not as the strategy was made, as plain data, with its arrays put into `arrays`."""
        changed: dict[str, Any] = {}
        for name, value in vars(self._inner).items():
            found = self._attribute(name, value, warn=name not in self._before)
            if found is not None and not _same(found, self._before.get(name)):
                changed[name] = found[0]
                arrays.update(found[1])
        return changed

    def restore(self, found: Mapping[str, Any], arrays: Arrays) -> None:
        """Set what `saved` returned."""
        for name, value in found.items():
            setattr(self._inner, name, _decoded(value, arrays))

    def _attribute(self, name: str, value: Any, *, warn: bool) -> tuple[Any, Arrays] | None:
        """Return an attribute as plain data and arrays; None for functions and the like, which rounds do not change."""
        arrays: Arrays = {}
        try:
            return _encoded(value, f"inner/{name}", arrays), arrays
        except TypeError as error:
            if warn and name not in self._said:
                self._said.add(name)
                _LOGGER.warning("the checkpoint does not keep %s of the inner strategy: %s", name, error)
            return None


def _same(one: tuple[Any, Arrays], other: tuple[Any, Arrays] | None) -> bool:
    if other is None or one[0] != other[0]:
        return False
    return all(np.array_equal(array, other[1][path], equal_nan=False) for path, array in one[1].items())


def _encoded(value: Any, path: str, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        arrays[path] = np.asarray(value)
        return {"number": path}
    if isinstance(value, _PLAIN):
        return {"plain": value}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays[path] = value.copy()
        return {"array": path}
    if isinstance(value, library("flwr.app").ArrayRecord):
        for name, array in value.items():
            arrays[f"{path}/{name}"] = array_of(array)
        return {"record": [[name, f"{path}/{name}"] for name in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encoded(each, f"{path}/{key}", arrays) for key, each in value.items()}}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encoded(each, f"{path}/{number}", arrays) for number, each in enumerate(value)]}
    raise TypeError(f"it is or holds a {type(value).__name__}, not arrays and numbers")


def _decoded(plain: Mapping[str, Any], arrays: Arrays) -> Any:
    ((kind, value),) = plain.items()
    if kind == "plain":
        return value
    if kind == "array":
        return arrays[value]
    if kind == "number":
        return arrays[value][()]
    if kind == "record":
        return array_record({name: arrays[path] for name, path in value})
    if kind == "dict":
        return {key: _decoded(each, arrays) for key, each in value.items()}
    parts = [_decoded(each, arrays) for each in value]
    return parts if kind == "list" else tuple(parts)
