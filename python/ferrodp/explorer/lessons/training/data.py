"""The data of the lessons on training: handwritten digits, which come with scikit-learn."""

from __future__ import annotations

import functools

import numpy as np

from ferrodp.explorer.model.datasets import raw


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return 1797 images of 8 x 8 pixels in [0, 1], and the digit that each shows."""
    images, shown = raw("digits")
    return images / 16.0, shown
