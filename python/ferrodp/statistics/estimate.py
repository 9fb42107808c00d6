"""What a private statistic returns: the number, how noisy it is, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp.events import NeighboringRelation, PrivacyEvent

__all__ = ["Estimate"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """A released statistic. It can be used as the number it holds: `float(x)`, `int(x)`, `numpy.asarray(x)`.

    Attributes
    ----------
    value : int, float or ndarray
        What was released.
    standard_error : float or None
        Standard deviation of the noise, in the units of the value; it says nothing about sampling or clamping. None
        where it depends on the data.
    epsilon, delta : float
        The guarantee that was asked for, and holds.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).
    """

    value: Any
    standard_error: float | None
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = np.asarray(self.value, dtype=dtype)
        return array.copy() if copy else array
