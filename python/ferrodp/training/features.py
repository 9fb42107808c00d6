"""Features of images with fixed constants: nothing is fitted, so they are public and cost nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidArray, InvalidType
from ferrodp.training._rows import Floats, numbers, unit

__all__ = ["oriented_gradients"]

_BINS = 8
_CELL, _STRIDE = 4, 2
_SPREAD = 0.8
"""Length of the mean of unit histograms, all entries equal: subtracted, so that what differs between images counts."""
_BRIGHTNESS = 0.3
"""Mean brightness of a pixel in [0, 1]: ink on paper, for which a public constant does."""
_PIXELS = 0.5
"""Weight of the pixels beside the histograms."""
_LARGEST = 2.0**400
"""Values are cut off here, so that squares stay finite."""


def oriented_gradients(images: npt.ArrayLike, *, shape: tuple[int, int]) -> Floats:
    """Return histograms of oriented gradients of gray images, with the pixels beside them; each row has unit norm.

    A function of each image alone, with fixed constants: applying it to private images costs nothing, and a classifier
    needs less noise to tell such features apart than pixels.

    Parameters
    ----------
    images : (n, height·width) or (n, height, width) array
        Gray values in [0, 1]; others are used as they are. An image that holds NaN or infinity counts as black.
    shape : (int, int)
        Height and width, each at least 1; a side shorter than 4, that of a cell, is filled up with zeros.

    Returns
    -------
    (n, m) ndarray of float64
        For 8 × 8 images m = 72 + 65.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If the shape is out of its domain or the images have another one.

    Notes
    -----
    Central differences on the image padded by zeros; their lengths are added into 8 bins of orientation over the full
    circle, with linear interpolation, in overlapping cells of 4 × 4 pixels every 2 pixels; square root, unit norm,
    minus 0.8/√m₁ (m₁ the number of histogram entries), unit norm; beside them half of the pixels − 0.3 with a 1
    appended, scaled to unit norm; unit norm. After [DT05], with fixed constants in place of normalized blocks.

    References
    ----------
    [DT05] Dalal, Triggs, "Histograms of oriented gradients for human detection", CVPR 2005, Section 6.

    Examples
    --------
    >>> import numpy as np
    >>> features = oriented_gradients(np.eye(8).reshape(1, 64), shape=(8, 8))
    >>> features.shape, round(float(np.linalg.norm(features)), 12)
    ((1, 137), 1.0)
    """
    height, width = image_shape(shape)
    pixels = numbers(images, "images")
    if pixels.shape[1:] not in ((height * width,), (height, width)):
        raise InvalidArray(f"images must have the shape (n, {height * width}) or (n, {height}, {width})")
    flat = pixels.reshape(len(pixels), height * width)
    flat = np.clip(flat, -_LARGEST, _LARGEST)
    flat[~np.isfinite(pixels.reshape(flat.shape)).all(axis=1)] = 0.0
    filled = [(0, max(_CELL - side, 0)) for side in (height, width)]
    histograms = np.sqrt(_histograms(np.pad(flat.reshape(-1, height, width), [(0, 0), *filled])))
    histograms = unit(unit(histograms) - _SPREAD / np.sqrt(histograms.shape[1]))
    with_bias = np.concatenate([flat - _BRIGHTNESS, np.ones((len(flat), 1))], axis=1)
    return unit(np.concatenate([histograms, _PIXELS * unit(with_bias)], axis=1))


def image_shape(shape: object) -> tuple[int, int]:
    """Return height and width, or refuse what is not both."""
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise InvalidType("shape must be (height, width)")
    height, width = (_validate.count("shape", side, maximum=2**15) for side in shape)
    return height, width


def num_features(shape: tuple[int, int]) -> int:
    """Return how many features an image of this shape has."""
    rows, columns = (len(range(0, max(side, _CELL) - _CELL + 1, _STRIDE)) for side in shape)
    return rows * columns * _BINS + shape[0] * shape[1] + 1


def _histograms(images: Floats) -> Floats:
    """Return the sums of lengths of gradients by cell and orientation, of shape (n, cells · 8)."""
    count, height, width = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    across = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    lengths = np.hypot(across, down)
    turns = np.mod(np.arctan2(down, across) / (2.0 * np.pi), 1.0) * _BINS
    below = np.floor(turns)
    share = turns - below
    lower = below.astype(np.int64) % _BINS
    binned = np.zeros((count, height, width, _BINS))
    np.put_along_axis(binned, lower[..., None], (lengths * (1.0 - share))[..., None], axis=3)
    np.put_along_axis(binned, ((lower + 1) % _BINS)[..., None], (lengths * share)[..., None], axis=3)
    cells = [
        binned[:, top : top + _CELL, left : left + _CELL].sum(axis=(1, 2))
        for top in range(0, height - _CELL + 1, _STRIDE)
        for left in range(0, width - _CELL + 1, _STRIDE)
    ]
    return np.concatenate(cells, axis=1)
