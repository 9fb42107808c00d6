"""Gradients clipped and noised without counting: the bodies of the engine's methods that draw on no budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _trees, _validate
from ferrodp._base._validate import Real
from ferrodp.clipping import Order, clip_rows
from ferrodp.engine import _sums
from ferrodp.engine.records import DPConfig, config_of
from ferrodp.errors import InvalidArray, InvalidType
from ferrodp.sums.absolute import rows_of
from ferrodp.tickets import Ticket


@_arrays.quiet
def clipped_samples(gradients: object, max_norm: Real, ord: Order | float) -> tuple[Any, npt.NDArray[np.float64]]:
    """Return per-sample gradients, each clipped as one vector; see `DifferentialPrivacyEngine.per_sample_clip`."""
    arrays, structure = _trees.float_leaves(tree("gradients", gradients), "gradients")
    counts = {array.shape[0] if array.ndim else -1 for array in arrays}
    if len(counts) != 1 or counts == {-1}:
        raise InvalidArray("gradients must have one more axis than the model, in front, of one length in all arrays")
    (count,) = counts
    rows, norms = clip_rows(rows_of(arrays, count), clip_norm=max_norm, ord=ord)
    widths = [array[0].size if count else 0 for array in arrays]
    parts = np.split(rows, np.cumsum(widths)[:-1], axis=1)
    clipped = [np.ascontiguousarray(part).reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]
    return _trees.put_together(structure, clipped), norms


def noised(gradients: object, config: DPConfig, ticket: Ticket | None) -> Any:
    """Return gradients with noise; see `DifferentialPrivacyEngine.add_noise`."""
    config = config_of(config)
    arrays, structure = _trees.float_leaves(tree("gradients", gradients), "gradients")
    _validate.fits_in_memory("gradients", sum(array.nbytes for array in arrays))
    values = np.concatenate([array.reshape(-1) for array in arrays])
    return _trees.split(_sums.noised(config, values, ticket), structure)


def tree(name: str, value: object) -> Any:
    """Return arrays in a mapping, list or tuple, or refuse what is none."""
    if not isinstance(value, (Mapping, list, tuple)):
        kind = type(value).__name__
        raise InvalidType(f"{name} must be a mapping, list or tuple of arrays, got {kind}")
    return value
