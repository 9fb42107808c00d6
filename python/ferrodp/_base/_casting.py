"""Updates as models have them: mixed dtypes and integer counters, as trees of one float type and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _trees
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType

FLOATS = {"float16", "bfloat16", "float32", "float64"}
_LARGEST_BFLOAT16 = float.fromhex("0x1.fep127")


@dataclass(frozen=True, slots=True)
class Casting:
    """How an update becomes a vector of one float type: which leaves are left out, and what the others are cast to."""

    structure: _trees.Node
    dtypes: tuple[Any, ...]
    shapes: tuple[_trees.Shape, ...]
    skip: frozenset[str]
    dtype: np.dtype[Any]

    @property
    def is_plain(self) -> bool:
        """Whether updates are vectors as they are: nothing is left out or cast."""
        return not self.skip and all(dtype == self.dtype for dtype in self.dtypes)

    @property
    def template(self) -> Any:
        """A tree of arrays of the vector's type that take no memory."""
        empty = [np.broadcast_to(np.zeros((), self.dtype), shape) for shape in self.shapes]
        return _trees.put_together(self.structure, empty)

    @_arrays.quiet
    def vector(self, update: object, name: str = "update") -> Any:
        """Return an update in the vector's type, or refuse what is not like the template."""
        out = []
        for (path, array), dtype in zip(self._shaped(update, name), self.dtypes, strict=True):
            if array.dtype != dtype:
                rule = f"must have the dtype of the template, {dtype}"
                raise InvalidArrayType(f"{_trees.where(path)} {rule}, got {array.dtype}")
            out.append(array.astype(self.dtype, copy=False))
        return _trees.put_together(self.structure, out)

    @_arrays.quiet
    def cast(self, model: object, name: str) -> Any:
        """Return a model in the vector's type, whatever float types it has, or refuse what is not like the template."""
        out = []
        for path, array in self._shaped(model, name):
            if array.dtype != self.dtype and array.dtype.name not in FLOATS:
                raise InvalidArrayType(f"{_trees.where(path)} must be of floats, got {array.dtype}")
            # A view: parameters that a trainer shares are two leaves here, and one object cannot be.
            out.append(array.astype(self.dtype, copy=False).view())
        return _trees.put_together(self.structure, out)

    @_arrays.quiet
    def weighted(self, vector: object, weight: float, minus: object = None) -> Any:
        """Return a vector, less another if there is one, times a weight; each step rounded in the vector's type."""
        leaves = _trees.matching_leaves(vector, self.structure, "vector")
        others = None if minus is None else _trees.matching_leaves(minus, self.structure, "minus")
        factor = self.dtype.type(weight)
        found = []
        for number, (_, value) in enumerate(leaves):
            found.append((value if others is None else np.subtract(value, others[number][1])) * factor)
        return _trees.put_together(self.structure, found)

    @_arrays.quiet
    def moved(self, base: object, change: object) -> Any:
        """Return a model plus a change, in the template's dtypes; values beyond their range become the largest.

        Arrays of the change that have the vector's type and can be written to are overwritten.
        """
        new = []
        pairs = zip(self._leaves(base, "base"), self._leaves(change, "change"), self.dtypes, strict=True)
        for (_, start), (_, step), dtype in pairs:
            out = step if isinstance(step, np.ndarray) and step.dtype == self.dtype and step.flags.writeable else None
            moved = np.asarray(np.add(start, step, out=out, dtype=self.dtype, casting="same_kind"))
            largest = min(_largest(self.dtype), _largest(dtype))
            new.append(np.clip(moved, -largest, largest, out=moved).astype(dtype, copy=False))
        return _trees.put_together(self.structure, new)

    def _shaped(self, tree: object, name: str) -> Iterator[tuple[_trees.Path, npt.NDArray[Any]]]:
        """Yield arrays of the template's shapes with their paths."""
        for (path, value), shape in zip(self._leaves(tree, name), self.shapes, strict=True):
            # Not asarray: its dtype would depend on numbers in lists.
            array = _arrays.base_array(value, _trees.where(path))
            if array.shape != shape:
                raise InvalidArray(f"{_trees.where(path)} must have shape {shape}, got {array.shape}")
            yield path, array

    def _leaves(self, tree: object, name: str) -> list[tuple[_trees.Path, Any]]:
        return _trees.matching_leaves(_without(tree, self.skip), self.structure, name)

    @_arrays.quiet
    def restored(self, released: object) -> Any:
        """Return what was released in the template's dtypes."""
        leaves = self._leaves(released, "released")
        cast = [_within(leaf, dtype) for (_, leaf), dtype in zip(leaves, self.dtypes, strict=True)]
        return _trees.put_together(self.structure, cast)


def casting(template: object, cast: npt.DTypeLike | None, skip: Collection[str]) -> Casting:
    """Return how updates like `template` are cast, or refuse what would have to be guessed."""
    if isinstance(skip, str) or not isinstance(skip, Collection) or not all(isinstance(name, str) for name in skip):
        raise InvalidType('skip must be a collection of names such as ("step",)')
    names = frozenset(skip)
    leaves, structure = _trees.take_apart(_without(template, names), "template")
    if not leaves:
        raise InvalidArray("template must hold at least one array that is not skipped")
    _trees.refuse_shared(leaves)
    arrays = [_arrays.base_array(value, _trees.where(path)) for path, value in leaves]  # lists of numbers: float64
    for (path, value), array in zip(leaves, arrays, strict=True):
        given = "int" if isinstance(value, int) else array.dtype.name
        # mutant: counters-are-summed
        if given not in FLOATS:
            rule = "must be of floats; name the key of a counter in skip: it is no part of the sum"
            raise InvalidArrayType(f"{_trees.where(path)} {rule}, got {given}")
    found = sorted({array.dtype.name for array in arrays})
    if cast is None:
        if len(found) > 1 or found[0] not in ("float32", "float64"):
            raise InvalidParameter(f"cast must be given for a template of {', '.join(found)}: float32 or float64")
        dtype = arrays[0].dtype
    else:
        dtype = np.dtype(cast)
        if dtype.name not in ("float32", "float64"):
            raise InvalidParameter(f"cast must be float32 or float64, got {dtype}")
    shapes = tuple(array.shape for array in arrays)
    return Casting(
        _trees.with_shapes(structure, shapes),
        tuple(array.dtype for array in arrays),
        shapes,
        names,
        dtype,
    )


def widest(template: object, skip: Collection[str]) -> np.dtype[Any]:
    """Return float64 if a template has any, else float32: the type that holds all its values exactly."""
    leaves, _ = _trees.take_apart(_without(template, frozenset(skip)), "template")
    doubles = any(np.asarray(value).dtype == np.float64 for _, value in leaves)
    return np.dtype(np.float64 if doubles else np.float32)


def _within(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array in a dtype, values beyond its range as the largest; an array of that dtype with the same bits."""
    return array if array.dtype == dtype else np.clip(array, -_largest(dtype), _largest(dtype)).astype(dtype)


def _largest(dtype: np.dtype[Any]) -> float:
    return _LARGEST_BFLOAT16 if dtype.name == "bfloat16" else float(np.finfo(dtype).max)


def _without(tree: Any, skip: frozenset[str]) -> Any:
    """Return a tree without what lies under the keys in `skip`: whole keys, or what follows their last dot."""
    if not skip:
        return tree
    if isinstance(tree, Mapping):
        return {key: _without(value, skip) for key, value in tree.items() if not _skipped(key, skip)}
    if isinstance(tree, (list, tuple)):
        return [_without(value, skip) for value in tree]
    return tree


def _skipped(key: object, skip: frozenset[str]) -> bool:
    return isinstance(key, str) and (key in skip or key.rpartition(".")[2] in skip)
