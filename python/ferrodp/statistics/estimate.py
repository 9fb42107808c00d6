"""What a private statistic returns: the released value, its standard error and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp.events import NeighboringRelation, PrivacyEvent

__all__ = ["Estimate"]

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate(Generic[Value]):
    """A released statistic. It converts to the value it holds: `float(x)`, `int(x)`, `numpy.asarray(x)`.

    Attributes
    ----------
    value : int, float or ndarray
        What was released.
    standard_error : float or None
        Standard deviation of the noise, in the units of the value; the errors of sampling and clamping are not
        included. None where it depends on the data.
    epsilon, delta : float
        The guarantee that was requested, and holds.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).
    """

    value: Value
    standard_error: float | None
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation

    def __float__(self) -> float:
        return float(self.value)  # type: ignore[arg-type]  # TypeError for an array of several, as numpy says

    def __int__(self) -> int:
        return int(self.value)  # type: ignore[call-overload,no-any-return]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = np.asarray(self.value, dtype=dtype)
        return array.copy() if copy else array
