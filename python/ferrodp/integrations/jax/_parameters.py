"""Parameters: any pytree of arrays, and its leaves by their paths."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.integrations.jax._library import is_floating, library

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ParameterTree:
    """The structure of parameters; shapes, dtypes and, where the caller chose one, the placements of their leaves."""

    structure: Any
    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[Any, ...]
    placements: tuple[Any, ...]

    @classmethod
    def of(cls, params: object) -> ParameterTree:
        """Return what `params` look like: arrays, or anything else with a shape and a dtype.

        Raises
        ------
        InvalidArrayType
            For a leaf without shape and dtype, or not of real numbers.
        InvalidArray
            If there is no leaf, or two have one name.
        """
        tree = library("jax.tree_util")
        leaves, structure = tree.tree_flatten_with_path(params)
        if not leaves:
            raise InvalidArray(
                f"params must hold at least one array, got {type(params).__name__} without one; "
                f"for example params={{'w': jnp.zeros((4, 2))}}"
            )
        names = tuple(tree.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves)
        if len(set(names)) < len(names):
            raise InvalidArray("params must have leaves with different names, where dots join the keys of a path")
        for name, (_, leaf) in zip(names, leaves, strict=True):
            if not hasattr(leaf, "shape") or not is_floating(getattr(leaf, "dtype", np.bool_)):
                found = getattr(leaf, "dtype", type(leaf).__name__)
                raise InvalidArrayType(
                    f"params[{name!r}] must be an array of real numbers, got {found}; "
                    "convert it with .astype(jnp.float32)"
                )
        arrays = [leaf for _, leaf in leaves]
        return cls(
            structure,
            names,
            tuple(tuple(leaf.shape) for leaf in arrays),
            tuple(leaf.dtype for leaf in arrays),
            tuple(leaf.sharding if getattr(leaf, "committed", False) else None for leaf in arrays),
        )

    @property
    def dtype(self) -> npt.DTypeLike:
        """Of sums: float64 if a leaf is, otherwise float32."""
        return np.float64 if any(dtype == np.float64 for dtype in self.dtypes) else np.float32

    def grouped(self, leaves: Mapping[str, Any], groups: Collection[str]) -> dict[str, Any]:
        """Return leaves by name, within the group that they belong to: the leaf itself, or what is under its name.

        Raises
        ------
        InvalidParameter
            If a leaf is in no group, or in several.
        """
        if not groups:
            return dict(leaves)
        found: dict[str, Any] = {group: {} for group in groups}
        for name, leaf in leaves.items():
            inside = [group for group in groups if f"{name}.".startswith(f"{group}.")]
            if len(inside) != 1:
                rule = f"clip_norms must have one group for {name!r}: its own name, or one that it begins with"
                raise InvalidParameter(f"{rule}; got {inside or sorted(groups)}")
            found[inside[0]][name] = leaf
        return found

    def template(self, groups: Collection[str]) -> dict[str, Any]:
        """Return zeros by name."""
        zeros = {name: np.zeros(shape, self.dtype) for name, shape in zip(self.names, self.shapes, strict=True)}
        return self.grouped(zeros, groups)

    def leaves(self, tree: object, name: str) -> dict[str, Any]:
        """Return the leaves of gradients by name, traced or not; refuse another structure."""
        found = library().tree.flatten(tree)
        if found[1] != self.structure:
            raise InvalidArray(
                f"{name} must have the tree structure of the parameters, {self.structure}, got {found[1]}; "
                "jax.grad returns it"
            )
        return dict(zip(self.names, found[0], strict=True))

    def rows_of(self, leaves: Mapping[str, Any], name: str) -> int:
        """Return how many rows stacked gradients have, or refuse those whose shapes are not the parameters'."""
        first = _shape(next(iter(leaves.values())))
        self.check_shapes(leaves, name, front=first[:1] or (0,))
        return int(first[0])

    def check_shapes(self, leaves: Mapping[str, Any], name: str, *, front: Shape = ()) -> None:
        """Refuse leaves whose shapes are not those of the parameters behind `front`."""
        for key, shape in zip(self.names, self.shapes, strict=True):
            if _shape(leaves[key]) != front + shape:
                expected = f"({', '.join(['rows', *map(str, shape)])})" if front else shape
                way_out = "jax.vmap of jax.grad puts rows in front" if front else "jax.grad returns it"
                raise InvalidArray(f"{name}[{key!r}] must have shape {expected}, got {_shape(leaves[key])}; {way_out}")

    def cast(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return arrays in the dtype of sums, if that changes no number; what is wider is refused by the sum."""
        wide = np.dtype(self.dtype).itemsize
        return {
            name: array.astype(self.dtype) if array.dtype.itemsize < wide else array for name, array in arrays.items()
        }

    def tree(self, leaves: Sequence[Any]) -> Any:
        """Return a tree of these leaves, in order."""
        return library().tree.unflatten(self.structure, leaves)

    def placed(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Return released arrays as jax arrays of the parameters' dtypes, on the parameters' devices."""
        jax = library()
        found = []
        for name, dtype, placement in zip(self.names, self.dtypes, self.placements, strict=True):
            array = jax.numpy.asarray(arrays[name], dtype=dtype)
            found.append(array if placement is None else jax.device_put(array, placement))
        return self.tree(found)


def _shape(leaf: Any) -> Shape:
    return tuple(getattr(leaf, "shape", ()))
