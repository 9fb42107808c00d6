"""The data of the lessons on training: handwritten digits, which come with scikit-learn."""

from __future__ import annotations

import functools

import numpy as np

from ferrodp.errors import MissingPackage


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return 1797 images of 8 x 8 pixels in [0, 1], and the digit that each shows."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingPackage('the lessons on training need scikit-learn: pip install "ferrodp[explorer]"') from None
    images, shown = load_digits(return_X_y=True)
    return images / 16.0, shown
