"""One step of a run: gradients of jax in, their noised mean out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base._validate import Real
from ferrodp.integrations.jax._library import check_mask, host_array
from ferrodp.integrations.jax._parameters import ParameterTree
from ferrodp.plan import PlanStep

__all__ = ["JaxStep"]


class JaxStep:
    """One step of a `JaxRun`: takes per-example gradients as jax arrays, releases their noised mean as jax arrays.

    Made by `JaxRun`. It can be used from any thread of the process.

    Attributes
    ----------
    number : int
        Which step of the plan it is, from 0.
    indices : ndarray of int64 or None
        The units that take part: secret.
    groups : list or None
        The units of each group, where the plan has groups.
    noise_multiplier, clip_norm : float
        Of this step.
    expected_batch_size : float or None
        What the release is divided by.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ferrodp.integrations.jax import JaxRun
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, FixedSizeSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=200,
    ...     sampling=FixedSizeSampling(10),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> run = JaxRun(plan, jnp.zeros(4))
    >>> step = next(run)
    >>> len(step.indices), step.noise_multiplier, step.clip_norm, step.expected_batch_size
    (10, 2.0, 1.0, 10.0)
    >>> step.add(jnp.ones((10, 4)))
    >>> step.release().shape
    (4,)
    >>> next(run).release_sum(10 * jnp.full(4, 0.5)).shape  # summed elsewhere
    (4,)
    >>> next(run).release_arrays(jnp.zeros(4))["params"].shape
    (4,)
    """

    __slots__ = ("_groups", "_step", "_tree")

    def __init__(self, step: PlanStep[Any], tree: ParameterTree, groups: tuple[str, ...]) -> None:
        self._step, self._tree, self._groups = step, tree, groups

    @property
    def number(self) -> int:
        """Number of the step, from 0."""
        return self._step.number

    @property
    def indices(self) -> npt.NDArray[np.int64] | None:
        """Units that take part; secret. None where others choose."""
        return self._step.indices

    @property
    def groups(self) -> list[npt.NDArray[np.int64]] | None:
        """The units of each group, with `records_per_group` > 1; secret."""
        return self._step.groups

    @property
    def noise_multiplier(self) -> float:
        """Noise multiplier of this step."""
        return self._step.noise_multiplier

    @property
    def clip_norm(self) -> float:
        """Largest L2 norm that a gradient adds."""
        return self._step.clip_norm

    @property
    def expected_batch_size(self) -> float | None:
        """What the release is divided by: a public number."""
        return self._step.expected_batch_size

    def add(self, gradients: Any, *, mask: npt.ArrayLike | None = None) -> None:
        """Add the gradients of some of the step's units, each clipped by itself; to be repeated for chunks.

        Parameters
        ----------
        gradients : tree of arrays
            Like the parameters, with one more axis in front: row i of every leaf is the gradient of one unit. On the
            CPU; float32 arrays are read in place, narrower ones become float32.
        mask : (rows,) bool array, optional
            Which rows are real; the others are padding, and dropped.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the gradients do not look like the parameters; are traced, deleted, sharded or on another device; or have
            a dtype that is none of real numbers. Nothing was added.
        FerroError
            If the step was released.
        """
        leaves = self._tree.leaves(gradients, "gradients")
        rows = self._tree.rows_of(leaves, "gradients")
        arrays = {name: host_array(leaf, f"gradients[{name!r}]") for name, leaf in leaves.items()}
        if mask is not None:
            real = _real_rows(check_mask(mask, rows))
            arrays = {name: array[real] for name, array in arrays.items()}
        self._step.add(self._tree.grouped(self._tree.cast(arrays), self._groups))

    def release(self, *, denominator: Real | None = None) -> Any:
        """Return the sum of the clipped gradients with noise, divided by the expected batch size.

        Parameters
        ----------
        denominator : float, optional
            Divides the sum instead: a public number.

        Returns
        -------
        tree of jax arrays
            Like the parameters, of their dtypes, and on the device that they were put on.

        Raises
        ------
        FerroError
            If the number of gradients is not that of the units drawn, or the step was released before; see
            `ferrodp.plan.PlanStep.release`.
        """
        return self._tree.placed(self.release_arrays(denominator=denominator))

    def release_sum(self, total: Any, *, denominator: Real | None = None) -> Any:
        """Return a sum that the caller clipped and added up, with the noise of this step, and end the step.

        Parameters
        ----------
        total : tree of arrays
            Like the parameters: the sum of gradients whose norms are at most `clip_norm`, one of each unit drawn.
        denominator : float, optional
            As for `release`.

        Returns
        -------
        tree of jax arrays
            As for `release`.

        Raises
        ------
        InvalidArray, InvalidArrayType
            As for `add`.
        FerroError
            As for `ferrodp.plan.PlanStep.release_sum`.
        """
        return self._tree.placed(self.release_arrays(total, denominator=denominator))

    def release_arrays(self, total: Any = None, *, denominator: Real | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return what `release` does, or with a sum `release_sum`, as numpy arrays by the paths of the leaves.

        Parameters
        ----------
        total : tree of arrays, optional
            As for `release_sum`.
        denominator : float, optional
            As for `release`.

        Returns
        -------
        dict of ndarray
            By the path of each leaf, keys joined by dots.

        Raises
        ------
        InvalidArray, InvalidArrayType, FerroError
            As for `release` and `release_sum`.
        """
        if total is None:
            found = self._step.release(denominator=denominator)
        else:
            leaves = self._tree.leaves(total, "total")
            self._tree.check_shapes(leaves, "total")
            arrays = {name: host_array(leaf, f"total[{name!r}]") for name, leaf in leaves.items()}
            grouped = self._tree.grouped(self._tree.cast(arrays), self._groups)
            found = self._step.release_sum(grouped, denominator=denominator)
        if not self._groups:
            return dict(found)
        return {name: leaf for group in found.values() for name, leaf in group.items()}

    def __repr__(self) -> str:
        return f"<JaxStep {self.number}>"


def _real_rows(mask: Any) -> Any:
    """Return an index of the real rows of a batch, which copies nothing where they come first."""
    found = np.asarray(mask)
    # mutant: padding-added-to-step
    count = int(found.sum())
    return slice(count) if found[:count].all() else found
