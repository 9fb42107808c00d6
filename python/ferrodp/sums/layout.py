"""What one update looks like: its structure, shapes and dtype, and how trees of arrays become flat ones and back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _trees, _validate
from ferrodp._base._trees import Branch, Node, Path, Shape
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidType
from ferrodp.events.base import settle
from ferrodp.random.laws import float_dtype

Read: TypeAlias = Callable[[Path, object], npt.NDArray[Any]]
"""How a leaf becomes an array."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The structure of a tree with shapes for leaves, and the dtype of all of them."""

    structure: Node
    dtype: np.dtype[Any]
    shapes: list[Shape] = field(init=False, compare=False)
    size: int = field(init=False, compare=False)
    _pieces: list[tuple[slice, Shape]] = field(init=False, compare=False, repr=False)
    _template: _native.Template | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        shapes = _trees.shapes(self.structure)
        ends = list(itertools.accumulate((math.prod(shape) for shape in shapes), initial=0))
        pieces = [(slice(*ends), shape) for ends, shape in zip(itertools.pairwise(ends), shapes, strict=True)]
        settle(self, shapes=shapes, size=ends[-1], _pieces=pieces, _template=None)

    @property
    def template(self) -> _native.Template | None:
        """What trees of many arrays are compared with in native code; None for a single array."""
        if self._template is None and isinstance(self.structure, Branch):
            settle(self, _template=_native.Template(self.structure, self.dtype.name))
        return self._template

    def leaves(self, tree: object, name: str, front: Shape = ()) -> list[npt.NDArray[Any]]:
        """Return the arrays of one or many updates, in order, or refuse what does not look like the template."""
        return self._matching(tree, name, front, _trees.float_array, _arrays.FLOATS.__contains__)

    def rows(self, tree: object, name: str, front: Shape = ()) -> list[npt.NDArray[Any]]:
        """Return the arrays of one or many updates in place, for `_arrays.add_rows`.

        Where the template has float32, numbers of 16 bits will do: each is a number of float32.
        """
        return self._matching(tree, name, front, _trees.row_array, _arrays.is_row_dtype)

    def dense(self, tree: object, name: str) -> list[npt.NDArray[Any]]:
        """Return the arrays that `rows` does, in C order and the template's dtype; copies where they are not."""
        return [
            array if array.dtype == self.dtype and _arrays.is_plain(array) else np.array(array, self.dtype, order="C")
            for array in self.rows(tree, name)
        ]

    def stacked(self, updates: object) -> tuple[list[npt.NDArray[Any]], int]:
        """Return the arrays of updates that are stacked along a first axis, and how many there are."""
        leaves = _trees.matching_leaves(updates, self.structure, "updates")
        count = _count(leaves[0], _trees.float_array)
        return self._checked(leaves, (count,), _trees.float_array, _arrays.FLOATS.__contains__), count

    def stacked_rows(self, updates: object) -> tuple[list[npt.NDArray[Any]], int]:
        """Return what `stacked` does, as `rows` does."""
        leaves = _trees.matching_leaves(updates, self.structure, "updates")
        count = _count(leaves[0], _trees.row_array)
        return self._checked(leaves, (count,), _trees.row_array, _arrays.is_row_dtype), count

    def _matching(
        self, tree: object, name: str, front: Shape, read: Read, accepts: Callable[[np.dtype[Any]], bool]
    ) -> list[npt.NDArray[Any]]:
        return self._checked(_trees.matching_leaves(tree, self.structure, name), front, read, accepts)

    def _checked(
        self,
        leaves: list[tuple[Path, Any]],
        front: Shape,
        read: Read,
        accepts: Callable[[np.dtype[Any]], bool],
    ) -> list[npt.NDArray[Any]]:
        _trees.refuse_shared(leaves)
        arrays = []
        for (path, value), shape in zip(leaves, self.shapes, strict=True):
            array = read(path, value)
            # mutant: half-precision-added-to-sums-of-float64
            if array.dtype != self.dtype and not (
                accepts(_arrays.native(array.dtype)) and _arrays.sum_dtype(array.dtype) == self.dtype
            ):
                rule = f"must have the dtype of the template, {self.dtype}"
                raise InvalidArrayType(
                    f"{_trees.where(path)} {rule}, got {array.dtype}; convert it with .astype({self.dtype})"
                )
            if array.shape != front + shape:
                raise InvalidArray(
                    f"{_trees.where(path)} must have shape {front + shape}, got {array.shape}; "
                    "give it that shape, or the template another"
                )
            arrays.append(array)
        return arrays

    def flat(self, tree: object, name: str) -> npt.NDArray[Any]:
        """Return a tree like the template as one new array."""
        return np.concatenate([leaf.reshape(-1) for leaf in self.leaves(tree, name)])

    def split(self, flat: npt.NDArray[Any]) -> Any:
        """Return a flat array as a tree like the template, whose leaves are views of it."""
        leaves = [flat[piece] if len(shape) == 1 else flat[piece].reshape(shape) for piece, shape in self._pieces]
        return _trees.put_together(self.structure, leaves)


def _count(leaf: tuple[Path, Any], read: Read) -> int:
    """Return how many updates are stacked in a leaf."""
    path, value = leaf
    shape = read(path, value).shape
    if not shape:
        raise InvalidArray(f"{_trees.where(path)} must have one more axis than in the template, in front")
    return int(shape[0])


def from_template(template: object, dtype: npt.DTypeLike | None) -> Layout:
    """Return the layout of updates that look like `template`: a tree of arrays or of shapes, or a layout itself."""
    if isinstance(template, Layout):
        return template
    leaves, structure = _trees.take_apart(template, "template", _is_shape)
    if leaves and all(_is_shape(value) for _, value in leaves):
        kind = float_dtype(np.float64 if dtype is None else dtype)
        sizes = [value if _is_small(value) else _size(path, value) for path, value in leaves]
        return Layout(_trees.with_shapes(structure, sizes), kind)
    if dtype is not None:
        raise InvalidType(
            "dtype must be left out where template holds arrays: it is theirs; or write shapes, such as (3,)"
        )
    for path, value in leaves:
        if value is None or isinstance(value, (int, float, str, bytes, np.number)):
            rule = "must be an array or a shape, a tuple of ints"
            way_out = "for a vector write (length,)"
            raise InvalidArrayType(f"{_trees.where(path)} {rule}, got {type(value).__name__}; {way_out}")
    arrays, shaped = _trees.float_leaves(template, "template")
    return Layout(shaped, arrays[0].dtype)


def _is_shape(value: object) -> bool:
    """Whether `value` is a shape: a plain tuple of ints."""
    if type(value) is not tuple:
        return False
    for n in value:
        if type(n) is not int and (isinstance(n, bool) or not isinstance(n, (int, np.integer))):
            return False
    return True


def _is_small(shape: Shape) -> bool:
    """Whether a shape can be had for certain, by a test without a message: lengths of 1 or more, 2²⁰ elements."""
    for n in shape:
        if type(n) is not int or n < 1:
            return False
    return len(shape) < 8 and math.prod(shape) <= 1 << 20


def _size(path: _trees.Path, value: object) -> Shape:
    return _validate.size(value, name=_trees.where(path), itemsize=8)
