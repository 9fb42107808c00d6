"""Records by their index, from which a plan can draw its own samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.integrations.mindspore import _plans
from ferrodp.plan import GivenOrder, Sampling

__all__ = ["IndexedDataset"]


class IndexedDataset:
    """Columns of records that can be read in any order, so that each batch can be the sample that is accounted for.

    A loader hands out batches in an order of its own, for which no amplification by sampling is proven. Of this dataset
    the plan draws each batch itself, from the operating system's randomness: by default a Poisson sample, in which the
    size of the batch varies.

    Parameters
    ----------
    *columns : array
        One or more, no lists, of equal length n ≥ 1, such as images and labels; records along the first axis.
    batch_size : int
        Expected number of records of a batch; from 1 to n. n means all of them in every step.
    sampling : ferrodp.plan.Sampling, optional
        Another way to draw batches of that size.

    Raises
    ------
    InvalidParameter, InvalidType
        If the columns differ in length, or a parameter is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.mindspore import IndexedDataset
    >>> dataset = IndexedDataset(np.zeros((1437, 1, 8, 8), np.float32), np.zeros(1437, np.int32), batch_size=64)
    >>> dataset.sampling, dataset.get_dataset_size()
    (PoissonSampling(probability=0.04453723034098817), 22)
    >>> len(dataset), dataset.get_batch_size(), [column.shape for column in dataset.rows(np.array([3, 5]))]
    (1437, 64, [(2, 1, 8, 8), (2,)])

    One that MindSpore reads:

    >>> import mindspore.dataset as ds
    >>> read = ds.NumpySlicesDataset((np.zeros((10, 3), np.float32), np.arange(10)), ["image", "label"])
    >>> IndexedDataset.of(read, batch_size=10)
    <IndexedDataset of 10 records, FullBatch()>
    """

    def __init__(self, *columns: npt.ArrayLike, batch_size: int, sampling: Sampling | None = None) -> None:
        for column in columns:
            # mutant: list-of-records-takes-the-dtype-of-one
            if not hasattr(column, "dtype"):
                raise InvalidType(
                    "columns must be arrays, whose dtype does not follow from a record in them, got "
                    f"{type(column).__name__}; for example numpy.asarray(labels, numpy.int32)"
                )
        self._columns = [np.asarray(column) for column in columns]
        lengths = {column.shape[:1] for column in self._columns}
        if len(lengths) != 1 or lengths == {()} or lengths == {(0,)}:
            raise InvalidParameter("columns must be arrays of the same length, at least 1")
        self._size = len(self._columns[0])
        self._batch_size = _validate.count("batch_size", batch_size, maximum=self._size)
        if isinstance(sampling, GivenOrder):
            raise InvalidParameter("sampling must be drawn by the plan; GivenOrder is what loaders do")
        self._sampling = sampling or _plans.poisson_or_full(self._batch_size, self._size)

    @classmethod
    def of(cls, dataset: Any, *, batch_size: int, sampling: Sampling | None = None) -> Self:
        """Return the records of a MindSpore dataset, read into memory once.

        Parameters
        ----------
        dataset : mindspore.dataset.Dataset
            Before `batch`, `shuffle` and `repeat`: an element is a record, and records have equal shapes.
        batch_size, sampling
            As for the class.

        Returns
        -------
        IndexedDataset

        Raises
        ------
        InvalidParameter, InvalidType
            As for the class.
        """
        rows = list(dataset.create_tuple_iterator(num_epochs=1, output_numpy=True))
        return cls(*(np.stack(column) for column in zip(*rows, strict=True)), batch_size=batch_size, sampling=sampling)

    @property
    def population_size(self) -> int:
        """Number of records, which is public."""
        return self._size

    @property
    def batch_size(self) -> int:
        """Expected number of records of a batch."""
        return self._batch_size

    @property
    def sampling(self) -> Sampling:
        """How batches are drawn."""
        return self._sampling

    def get_dataset_size(self) -> int:
        """Return the number of steps of an epoch, as MindSpore's datasets call it."""
        return self._size // self._batch_size

    def get_batch_size(self) -> int:
        """Return the expected number of records of a batch."""
        return self._batch_size

    def rows(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
        """Return some records, column by column.

        Parameters
        ----------
        indices : ndarray of int64
            Each in [0, n).

        Returns
        -------
        list of ndarray
            Each of the length of `indices`.

        Raises
        ------
        IndexError
            If an index is none.
        """
        return [column[indices] for column in self._columns]

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<IndexedDataset of {self._size} records, {self._sampling}>"
