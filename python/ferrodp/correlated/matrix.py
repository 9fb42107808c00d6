"""The strategy of any lower triangular matrix, with fewer steps."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.correlated import prefix_errors, sensitivity
from ferrodp.correlated.strategy import Strategy, finite_numbers, known
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events.base import settle

__all__ = ["BandedMatrix"]

Doubles = npt.NDArray[np.float64]

MAX_MATRIX_STEPS = 2**14
"""Of a matrix without structure."""


@known
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class BandedMatrix(Strategy):
    """Any lower triangular matrix with a positive diagonal; the fewer diagonals it has, the less a step costs.

    Parameters
    ----------
    array : (T, T) array of float
        C: finite, > 0 on the diagonal, 0 above it. T from 1 to 2¹⁴.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
        If it is no such matrix.

    Notes
    -----
    Only the diagonals up to the last that is not 0 are kept.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = BandedMatrix(np.eye(5) + 0.75 * np.eye(5, k=-1))
    >>> strategy.num_steps, strategy.bands, round(strategy.sensitivity(num_participations=2, min_separation=2), 6)
    (5, 2, 1.767767)
    """

    kind: ClassVar[str] = "banded_matrix"
    num_steps: int
    bands: int
    _bytes: bytes = dataclasses.field(repr=False)

    def __init__(self, array: Any) -> None:
        matrix = np.asarray(array)
        if matrix.dtype.kind not in "fiu" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidArray(f"array must be a square matrix of floats, got {matrix.dtype} of shape {matrix.shape}")
        steps = _validate.count("the number of rows of array", matrix.shape[0], maximum=MAX_MATRIX_STEPS)
        matrix = matrix.astype(np.float64)
        if not np.isfinite(matrix).all() or np.any(np.triu(matrix, 1)) or not (np.diagonal(matrix) > 0.0).all():
            raise InvalidArray(
                "array must be finite, > 0 on its diagonal and 0 above it, such as np.linalg.cholesky(X)"
            )
        rows, columns = np.nonzero(matrix)
        width = int((rows - columns).max()) + 1
        diagonals = np.zeros((width, steps))
        for apart in range(width):
            diagonals[apart, : steps - apart] = np.diagonal(matrix, -apart)
        settle(self, num_steps=steps, bands=width, _bytes=diagonals.tobytes())

    def diagonals(self) -> Doubles:
        """Return the diagonals of C, the main one first.

        Returns
        -------
        (b, T) ndarray of float64
            Entry (d, j) is C[j + d, j]; 0 where there is none.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.correlated import BandedMatrix
        >>> BandedMatrix(np.array([[1.0, 0.0], [0.5, 1.0]])).diagonals().tolist()
        [[1.0, 1.0], [0.5, 0.0]]
        """
        return np.frombuffer(self._bytes).reshape(self.bands, self.num_steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the strategy as plain JSON data: its kind as "type", and its diagonals.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.correlated import BandedMatrix
        >>> BandedMatrix(np.array([[1.0, 0.0], [0.5, 1.0]])).to_dict()["diagonals"]
        [[1.0, 1.0], [0.5]]
        """
        found = self.diagonals()
        steps = self.num_steps
        return {"type": self.kind, "diagonals": [found[apart, : steps - apart].tolist() for apart in range(self.bands)]}

    @classmethod
    def _read(cls, numbers: dict[str, Any]) -> Self:
        lengths = [len(each) for each in numbers["diagonals"]]
        steps = _validate.count("the length of diagonals", lengths[0] if lengths else 0, maximum=MAX_MATRIX_STEPS)
        if numbers.keys() != {"diagonals"} or lengths != list(range(steps, steps - len(lengths), -1)):
            raise InvalidParameter("a strategy of type banded_matrix must have diagonals, each shorter by one")
        matrix = np.zeros((steps, steps))
        for apart, values in enumerate(numbers["diagonals"]):
            matrix[np.arange(apart, steps), np.arange(steps - apart)] = finite_numbers("diagonals", values)
        return cls(matrix)

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _sensitivity(self, participations: int, separation: int) -> float:
        return _matrix_sensitivity(self, participations, separation)

    def _errors(self) -> Doubles:
        return prefix_errors.of_banded(self.diagonals())


@functools.lru_cache(maxsize=64)
def _matrix_sensitivity(strategy: BandedMatrix, participations: int, separation: int) -> float:
    return sensitivity.banded(strategy.diagonals(), participations, separation)
