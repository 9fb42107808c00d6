"""What an accountant says at many points: a curve between two arrays of bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Curve(NamedTuple):
    """Bounds at many points, each of them as certified as a single answer.

    Attributes
    ----------
    x : float64 ndarray
        The points as they were asked: δ, ε or numbers of releases.
    lower, upper : float64 ndarray
        Bounds at each of them, in the same order. `lower` is 0 where no lower bound is known, `upper` infinite (1 for
        δ) where no upper one is.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PldAccountant
    >>> from ferrodp.accounting.curve import Curve
    >>> accountant = PldAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=2.0))
    >>> curve = accountant.delta_curve([0.0, 1.0, 2.0])
    >>> isinstance(curve, Curve), curve.x.tolist(), curve.upper.round(4).tolist()
    (True, [0.0, 1.0, 2.0], [0.1974, 0.0068, 0.0])
    """

    x: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
