"""Trees of arrays: lists, tuples and mappings, nested, with arrays for leaves.

A tree is one vector: its leaves in order, each in C order. Mappings are matched by key, so the order of keys in an
update does not matter; the order of the template does. Messages name a leaf by its path, ``update['dense'][0]``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp.errors import InvalidArray, InvalidArrayType

MAX_DEPTH = 64
"""How deeply containers may be nested; a list that holds itself has no end."""
_LISTED = 6
"""How many keys of a template a message lists."""

Kind = Literal["list", "tuple", "dict"]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A container: what kind, its keys (indexes of a sequence) and what is under them.

    `container` builds one of the caller's own type from a list of children; it takes no part in comparisons.
    """

    kind: Kind
    keys: tuple[Any, ...]
    children: tuple[Node, ...]
    container: type | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Branch) and self._shape() == other._shape()

    def __hash__(self) -> int:
        return hash(self._shape())

    def _shape(self) -> tuple[Any, ...]:
        return self.kind, self.keys, self.children


Node: TypeAlias = "Branch | Shape"
"""The structure of a tree: leaves are shapes."""

Path: TypeAlias = "tuple[Path | None, Any]"
"""Where a leaf is: the path of its container, and its key there. A root has no container, and its name for a key."""


def take_apart(
    tree: object, name: str, is_leaf: Callable[[Any], bool] = lambda value: False
) -> tuple[list[tuple[Path, Any]], Branch | None]:
    """Return the leaves of `tree` with their paths, and its structure with a placeholder for every leaf.

    `is_leaf` may claim a value as a leaf that would otherwise be a container.
    """
    leaves: list[tuple[Path, Any]] = []
    structure = _take(tree, (None, name), MAX_DEPTH, is_leaf, leaves)
    return leaves, structure if isinstance(structure, Branch) else None


def _take(value: Any, path: Path, depth: int, is_leaf: Callable[[Any], bool], leaves: list[tuple[Path, Any]]) -> Node:
    """Add the leaves of a value, and return its structure. No closure, as in `_match`."""
    kind = None if is_leaf(value) else _kind(value)
    if kind is None:
        leaves.append((path, value))
        return ()
    if depth == 0:
        name = path
        while name[0] is not None:
            name = name[0]
        raise InvalidArrayType(f"{name[1]} must be nested at most {MAX_DEPTH} deep")
    keys = tuple(value) if kind == "dict" else tuple(range(len(value)))
    children: list[Node] = []
    for key in keys:
        child, at = value[key], (path, key)
        if is_leaf(child) or _kind(child) is None:  # most are leaves: without a call for each
            leaves.append((at, child))
            children.append(())
        else:
            children.append(_take(child, at, depth - 1, is_leaf, leaves))
    return Branch(kind, keys, tuple(children), type(value))


def where(path: Path) -> str:
    """Return a path as an expression: ``update['dense'][0]``. Only error messages pay for it."""
    parent, key = path
    return str(key) if parent is None else f"{where(parent)}[{_validate.shown(key)}]"


def float_array(path: Path, value: object) -> npt.NDArray[Any]:
    """Return a leaf as a float32 or float64 array, ready for the kernels."""
    if type(value) is np.ndarray and value.dtype in _arrays.FLOATS and value.flags.c_contiguous and value.flags.aligned:
        return value
    return _arrays.as_float_array(value, where(path))


def row_array(path: Path, value: object) -> npt.NDArray[Any]:
    """Return a leaf as an array that rows can be read from in place."""
    if type(value) is np.ndarray and _arrays.row_form(value.dtype) is not None:
        return value
    return _arrays.as_rows(value, where(path))


def float_leaves(tree: object, name: str) -> tuple[list[npt.NDArray[Any]], Node]:
    """Return the leaves of `tree`, all float32 or all float64, ready for the kernels, and its structure with shapes.

    Raises
    ------
    InvalidArray, InvalidArrayType
        For a tree without leaves, leaves of two dtypes or none of ours, or an array that occurs twice: shared
        parameters would be clipped, and noised, as if they were two.
    """
    leaves, structure = take_apart(tree, name)
    if not leaves:
        raise InvalidArray(f"{name} must hold at least one array")
    arrays = [float_array(path, value) for path, value in leaves]
    refuse_shared(leaves)
    for (path, _), array in zip(leaves, arrays, strict=True):
        if array.dtype != arrays[0].dtype:
            rule = f"must have the dtype of {where(leaves[0][0])}, {arrays[0].dtype}"
            raise InvalidArrayType(f"{where(path)} {rule}, got {array.dtype}")
    return arrays, with_shapes(structure, [array.shape for array in arrays])


def refuse_shared(leaves: Sequence[tuple[Path, Any]]) -> None:
    """Refuse an array object that is two leaves."""
    if len({id(value) for _, value in leaves}) == len(leaves):
        return
    seen: dict[int, Path] = {}
    for path, value in leaves:
        if isinstance(value, np.ndarray) and value.size:
            if id(value) in seen:
                first = where(seen[id(value)])
                raise InvalidArray(f"{where(path)} must be an array of its own, but is the very array {first}")
            seen[id(value)] = path


def check_keys(structure: Node, name: str) -> None:
    """Refuse keys of mappings that cannot be written down: all must be str or int."""
    if isinstance(structure, Branch):
        for key, child in zip(structure.keys, structure.children, strict=True):
            if type(key) not in (str, int):
                raise InvalidArrayType(f"{name} must have keys that are str or int, got {type(key).__name__}")
            if isinstance(child, Branch):  # or a name would be written for every leaf
                check_keys(child, f"{name}[{_validate.shown(key)}]")


def matching_leaves(tree: object, structure: Node, name: str) -> list[tuple[Path, Any]]:
    """Return the leaves of `tree` in the order of `structure`, whose containers it must have: same keys, same lengths.

    Lists and tuples stand for each other, and so do mappings of any type. What the leaves are is not looked at.
    """
    leaves: list[tuple[Path, Any]] = []
    _match(tree, structure, (None, name), leaves)
    return leaves


def _match(value: Any, node: Node, path: Path, leaves: list[tuple[Path, Any]]) -> None:
    """Add the leaves below a node. No closure: one that calls itself would keep them until the next collection."""
    if not isinstance(node, Branch):
        leaves.append((path, value))
        return
    kind = _kind(value)
    if kind is None or (kind == "dict") != (node.kind == "dict"):
        raise InvalidArrayType(
            f"{where(path)} must be a {node.kind} as in the template, got {type(value).__name__}; {_like(node)}"
        )
    if kind == "dict":
        _same_keys(value, node.keys, path)
    elif len(value) != len(node.children):
        rule = f"must have {len(node.children)} entries as in the template"
        raise InvalidArray(f"{where(path)} {rule}, got {len(value)}; {_like(node)}")
    for key, child in zip(node.keys, node.children, strict=True):
        _match(value[key], child, (path, key), leaves)


def _same_keys(value: Mapping[Any, Any], keys: tuple[Any, ...], path: Path) -> None:
    missing = [key for key in keys if key not in value]
    if not missing and len(value) == len(keys):
        return
    known = set(keys)
    what = f"{_validate.shown(missing[0])} is missing" if missing else ""
    more = [key for key in value if key not in known]
    what = what or f"got {_validate.shown(more[0])} as well"
    raise InvalidArray(f"{where(path)} must have the keys of the template, {what}; its keys are {_listed(keys)}")


def _listed(keys: tuple[Any, ...]) -> str:
    """Return the first keys of a template, for a message."""
    more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
    return ", ".join(map(_validate.shown, keys[:_LISTED])) + more


def _like(node: Branch) -> str:
    """Return what a tree has to look like at a branch of the template, for a message."""
    if node.kind == "dict":
        return (
            f"write {{{_validate.shown(node.keys[0])}: ...}}, with the keys {_listed(node.keys)}" if node.keys else "{}"
        )
    return f"write [...], with {len(node.children)} arrays or trees in it"


def shapes(structure: Node) -> list[Shape]:
    """Return the shapes of the leaves, in order."""
    if not isinstance(structure, Branch):
        return [structure]
    return [
        shape for child in structure.children for shape in (shapes(child) if isinstance(child, Branch) else (child,))
    ]


def with_shapes(structure: Node | None, leaf_shapes: Sequence[Shape]) -> Node:
    """Return the structure with these shapes for its leaves."""

    def branch(node: Branch, children: list[Any]) -> Node:
        return Branch(node.kind, node.keys, tuple(children), node.container)

    made: Node = _filled(structure, iter(leaf_shapes), branch)
    return made


def put_together(structure: Node, leaves: Sequence[Any]) -> Any:
    """Return a tree of this structure with these leaves, in containers of the types it was taken from."""
    return _filled(structure, iter(leaves), _build)


def _filled(node: Node | None, leaves: Iterator[Any], build: Callable[[Branch, list[Any]], Any]) -> Any:
    """Return a structure with its leaves in order; `build` makes a container of its children."""
    if not isinstance(node, Branch):
        return next(leaves)
    return build(
        node, [_filled(child, leaves, build) if isinstance(child, Branch) else next(leaves) for child in node.children]
    )


def to_plain(node: Node) -> Any:
    """Return the structure as JSON: a list of lengths, or a kind, keys and children."""
    if not isinstance(node, Branch):
        return list(node)
    children = [to_plain(child) for child in node.children]
    return {"kind": node.kind, "children": children} | ({"keys": list(node.keys)} if node.kind == "dict" else {})


def from_plain(plain: Any, malformed: Callable[[str], Exception], *, depth: int = MAX_DEPTH) -> Node:
    """Return the structure that `to_plain` wrote; raise what `malformed` makes of a reason if it is none."""
    if isinstance(plain, list):
        if len(plain) > _validate.MAX_DIMENSIONS or not all(type(n) is int and 0 <= n <= sys.maxsize for n in plain):
            raise malformed("its template has an impossible shape")
        return tuple(plain)
    if not isinstance(plain, dict) or depth == 0:
        raise malformed("its template is no tree of shapes")
    kind, children = plain.get("kind"), plain.get("children")
    fields = {"kind", "children"} | ({"keys"} if kind == "dict" else set())
    if kind not in ("list", "tuple", "dict") or not isinstance(children, list) or plain.keys() != fields:
        raise malformed("its template is no tree of shapes")
    keys = plain["keys"] if kind == "dict" else list(range(len(children)))
    if not isinstance(keys, list) or not all(type(key) in (str, int) for key in keys):
        raise malformed("its template has keys that are neither str nor int")
    if len(keys) != len(children) or len(set(keys)) != len(keys):
        raise malformed("its template has too many or too few keys")
    return Branch(kind, tuple(keys), tuple(from_plain(child, malformed, depth=depth - 1) for child in children))


def split(flat: npt.NDArray[Any], structure: Node) -> Any:
    """Return a tree of this structure whose leaves are consecutive pieces of a flat array: views, not copies."""
    leaves = []
    start = 0
    for shape in shapes(structure):
        size = math.prod(shape)
        leaves.append(flat[start : start + size].reshape(shape))
        start += size
    return put_together(structure, leaves)


def _kind(value: object) -> Kind | None:
    """Return the kind of container that `value` is, or None."""
    kind = type(value)
    if kind is np.ndarray:  # most values are
        return None
    if issubclass(kind, Mapping):
        return "dict"
    if issubclass(kind, tuple):
        return "tuple"
    return "list" if issubclass(kind, list) else None


def _build(node: Branch, children: list[Any]) -> Any:
    """Return a container of the caller's own type, or of the plain one where its type does not take this content."""
    container: Any = node.container
    plain: Any = children
    if node.kind == "dict":
        plain = dict(zip(node.keys, children, strict=True))
    elif node.kind == "tuple":
        plain = tuple(children)
    if container is None or container is type(plain):
        return plain
    try:
        return container(*children) if hasattr(container, "_fields") else container(plain)  # _fields: a named tuple
    except Exception:
        return plain
