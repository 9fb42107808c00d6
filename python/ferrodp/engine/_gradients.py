"""Gradients clipped and noised by the call: the part of the engine that counts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _trees, _validate
from ferrodp._validate import Real
from ferrodp.clipping import Order, clip_by_global_norm, clip_rows
from ferrodp.engine import _sums
from ferrodp.engine.records import DPConfig, config_of
from ferrodp.errors import InvalidArray, InvalidType
from ferrodp.tickets import Ticket

Model = dict[str, Any]


class GradientMethods:
    """What an engine does with gradients at hand."""

    __slots__ = ()

    def clip_gradients(self, gradients: Mapping[str, Any], max_norm: Real) -> tuple[Model, float]:
        """Return the gradients, as one vector scaled to an L2 norm of at most `max_norm`, and the norm they had.

        The bound holds in exact arithmetic. The norm is *not private*. See `ferrodp.clip_by_global_norm`.
        """
        return clip_by_global_norm(mapping("gradients", gradients), clip_norm=max_norm)

    @_arrays.quiet
    def per_sample_clip(
        self, gradients: Mapping[str, Any], max_norm: Real, *, ord: Order | float = 2
    ) -> tuple[Model, npt.NDArray[np.float64]]:
        """Clip the gradient of every sample by itself, all its arrays together as one vector.

        Parameters
        ----------
        gradients : dict of ndarrays
            All float32 or all float64, with one more axis in front than the model: entry i of each array belongs to
            sample i. Never written to.
        max_norm : float
            The bound on each norm; finite, > 0.
        ord : {1, 2, inf}
            Which norm; Laplace noise needs 1, Gaussian noise 2.

        Returns
        -------
        clipped : dict of ndarrays
            New arrays of the same shapes.
        norms : (n,) float64 ndarray
            Of each sample before clipping. *Not private.*

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType

        Notes
        -----
        For a sum of clipped gradients pass them to `round` as they are: it clips, cuts to a grid and adds in one pass,
        without a second copy, and its sensitivity is exact, which that of a sum of floats is not.
        """
        arrays, structure = _trees.float_leaves(mapping("gradients", gradients), "gradients")
        counts = {array.shape[0] if array.ndim else -1 for array in arrays}
        if len(counts) != 1 or counts == {-1}:
            raise InvalidArray(
                "gradients must have one more axis than the model, in front, of one length in all arrays"
            )
        (count,) = counts
        rows, norms = clip_rows(_sums.rows_of(arrays, count), clip_norm=max_norm, ord=ord)
        clipped, start = [], 0
        for array in arrays:
            width = array[0].size if count else 0
            clipped.append(np.ascontiguousarray(rows[:, start : start + width]).reshape(array.shape))
            start += width
        return _trees.put_together(structure, clipped), norms

    def add_noise(self, gradients: Mapping[str, Any], config: DPConfig, *, ticket: Ticket | None = None) -> Model:
        """Return the gradients with exactly sampled noise of standard deviation (Laplace: scale) z·C everywhere.

        All arrays are one vector, and that those of neighbors are within C = `max_grad_norm` of each other, in the norm
        of the noise, is the caller's promise: clipping keeps it for one contribution, and `round` for a sum. Noise
        alone counts towards no budget, unless a ticket pays for it: `round` does that by itself.

        Parameters
        ----------
        gradients : dict of ndarrays
            All float32 or all float64. Never written to.
        config : DPConfig
            `mechanism`, `noise_multiplier` and `max_grad_norm` are used.
        ticket : Ticket, optional
            What pays for the release.

        Returns
        -------
        dict of ndarrays
            New arrays of the same shapes and dtype.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            Before anything is drawn.

        Notes
        -----
        Discrete Gaussian noise needs integers: values are cut toward zero to multiples of g, C·2⁻³⁰ < g ≤ C·2⁻²⁹. That
        can move neighbors apart by √d·g in d coordinates, so the noise is z·(C + √d·g), and the cost what it was.
        Coordinates that are not finite count as 0.
        """
        config = config_of(config)
        arrays, structure = _trees.float_leaves(mapping("gradients", gradients), "gradients")
        _validate.fits_in_memory("gradients", sum(array.nbytes for array in arrays))
        values = np.concatenate([array.reshape(-1) for array in arrays])
        noised: Model = _trees.split(_sums.noised(config, values, ticket), structure)
        return noised


def mapping(name: str, value: object) -> Any:
    """Return a named set of arrays, or refuse what is none."""
    if not isinstance(value, Mapping):
        raise InvalidType(f"{name} must be a mapping of arrays, got {type(value).__name__}")
    return value
