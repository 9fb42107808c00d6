"""Updates as models have them: mixed dtypes and integer counters, as trees of one float type and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _trees
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType

_FLOATS = {"float16", "bfloat16", "float32", "float64"}
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
    def template(self) -> Any:
        """A tree of arrays of the vector's type that take no memory."""
        empty = [np.broadcast_to(np.zeros((), self.dtype), shape) for shape in self.shapes]
        return _trees.put_together(self.structure, empty)

    @_arrays.quiet
    def vector(self, update: object, weight: float = 1.0) -> Any:
        """Return an update in the vector's type, times a weight, or refuse what is not like the template."""
        found = _trees.matching_leaves(_without(update, self.skip), self.structure, "update")
        out = []
        for (path, value), dtype, shape in zip(found, self.dtypes, self.shapes, strict=True):
            array = _arrays.base_array(
                value, _trees.where(path)
            )  # not asarray: its dtype would depend on numbers in lists
            if array.dtype != dtype:
                rule = f"must have the dtype of the template, {dtype}"
                raise InvalidArrayType(f"{_trees.where(path)} {rule}, got {array.dtype}")
            if array.shape != shape:
                raise InvalidArray(f"{_trees.where(path)} must have shape {shape}, got {array.shape}")
            array = array.astype(self.dtype, copy=False)
            out.append(array if weight == 1.0 else array * self.dtype.type(weight))
        return _trees.put_together(self.structure, out)

    @_arrays.quiet
    def restored(self, released: object) -> Any:
        """Return what was released in the template's dtypes."""
        cast = []
        leaves = _trees.matching_leaves(released, self.structure, "released")
        for (_, leaf), dtype in zip(leaves, self.dtypes, strict=True):
            largest = _LARGEST_BFLOAT16 if dtype.name == "bfloat16" else float(np.finfo(dtype).max)
            cast.append(leaf if leaf.dtype == dtype else np.clip(leaf, -largest, largest).astype(dtype))
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
        if given not in _FLOATS:
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
