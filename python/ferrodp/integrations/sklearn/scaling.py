"""Scales and bins of columns that are private for each record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Floats, functions
from ferrodp.integrations.sklearn._private import Keep, PrivateTransformer
from ferrodp.statistics import private_quantile_bins
from ferrodp.statistics.models import private_scales

__all__ = ["PrivateKBinsDiscretizer", "PrivateStandardScaler"]


class _OfColumns(PrivateTransformer):
    """What has a column for each column."""

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns, if `fit` saw none.

        Returns
        -------
        (d,) ndarray of str

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the names are not those of the columns.
        """
        functions().check_is_fitted(self, "event_")
        seen = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = list(input_features)
            if seen is not None and given != list(seen):
                raise InvalidParameter("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise InvalidParameter("input_features should have length equal to number of features")
            return np.array(given, dtype=object)
        return np.array([f"x{i}" for i in range(self.n_features_in_)] if seen is None else list(seen), dtype=object)


class PrivateStandardScaler(_OfColumns):
    """Means and scales of columns, (ε, δ)-differentially private for each record: `statistics.models.private_scales`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee to keep; needed by `fit`.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of the columns, to which values are clamped; needed by `fit`.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    mean_, var_, scale_ : (d,) ndarray
        Means, variances, and what is divided by: the roots of the variances, or that of their noise where it is more.
    epsilon_ : float
        The ε of the scales, at `delta`.
    event_ : PrivacyEvent
        What was released, for accountants.
    n_features_in_ : int
        d.

    Raises
    ------
    MissingPackage
        By its methods, if scikit-learn is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.sklearn import PrivateStandardScaler
    >>> x = np.random.default_rng(0).normal(5.0, 1.0, (20_000, 2))
    >>> scaler = PrivateStandardScaler(epsilon=2.0, delta=1e-6, bounds=(0, 10)).fit(x)
    >>> bool(abs(scaler.transform(x).std() - 1.0) < 0.1), scaler.fit_transform(x).shape
    (True, (20000, 2))
    >>> bool(np.abs(scaler.inverse_transform(scaler.transform(x)) - x).max() < 1e-9)
    True
    >>> scaler.get_feature_names_out().tolist(), scaler.set_params(epsilon=1.0).get_params()["epsilon"]
    (['x0', 'x1'], 1.0)
    """

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        bounds: Any = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _learn(self, rows: Floats, unit: object) -> None:
        scales = self.scales_ = private_scales(rows, bounds=self.bounds, **self._guarantee(unit))
        self.mean_, self.var_ = scales.mean, scales.variance
        self.scale_ = scales.scale
        self._keep(scales)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return rows less the means, divided by the scales.

        Parameters
        ----------
        X : (n, d) array
            An entry that is no finite number counts as the mean.

        Returns
        -------
        (n, d) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        scale = self._fitted("scale_")
        rows = self._rows(X)
        with np.errstate(all="ignore"):
            found: Floats = (np.where(np.isfinite(rows), rows, self.mean_) - self.mean_) / scale
        return found

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return rows in the units of the data.

        Parameters
        ----------
        X : (n, d) array
            Scaled rows.

        Returns
        -------
        (n, d) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        scale = self._fitted("scale_")
        found: Floats = np.asarray(X, float) * scale + self.mean_
        return found


class PrivateKBinsDiscretizer(_OfColumns):
    """Bins of columns with about as many rows each, ε-differentially private for each record: `private_quantile_bins`.

    All edges of all columns are one release, with an equal share of ε each. The result is the number of the bin, as of
    scikit-learn's class with ``strategy="quantile"`` and ``encode="ordinal"``.

    Parameters
    ----------
    n_bins : int
        How many bins a column has, from 2 to 1000.
    epsilon : float
        The guarantee to keep, for all columns together; needed by `fit`.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of the columns, between which edges are; needed by `fit`.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count in each column.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    bin_edges_ : (d, n_bins + 1) ndarray
        The edges of the bins of each column, bounds included; equal ones make an empty bin.
    n_bins_ : (d,) ndarray of int
        `n_bins` for each column, so that categories are 0, …, `n_bins` − 1.
    epsilon_ : float
        The ε of all edges.
    event_ : PrivacyEvent
        What was released, for accountants.
    n_features_in_ : int
        d.

    Raises
    ------
    MissingPackage
        By its methods, if scikit-learn is not installed.

    Notes
    -----
    The edges are choices among round numbers within the bounds, so that ε composes over columns and edges by addition.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.sklearn import PrivateKBinsDiscretizer
    >>> x = np.random.default_rng(0).exponential(size=(20_000, 2))
    >>> bins = PrivateKBinsDiscretizer(4, epsilon=2.0, bounds=(0, 20)).fit(x)
    >>> bins.bin_edges_.shape, bool(np.abs(np.bincount(bins.transform(x)[:, 0].astype(int)) - 5_000).max() < 500)
    ((2, 5), True)
    >>> bins.fit_transform(x).shape, bins.get_feature_names_out().tolist()
    ((20000, 2), ['x0', 'x1'])
    >>> bins.set_params(n_bins=3).get_params()["n_bins"]
    3
    """

    def __init__(
        self,
        n_bins: int = 5,
        *,
        epsilon: Real | None = None,
        bounds: Any = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.n_bins = n_bins
        self.epsilon = epsilon
        self.bounds = bounds
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _learn(self, rows: Floats, unit: object) -> None:
        if self.epsilon is None:
            raise InvalidParameter(
                "epsilon must be given, got None: the guarantee that the bins are to keep; for example epsilon=1.0"
            )
        guarantee = self._guarantee(unit)
        del guarantee["delta"]  # choices need none
        number = _validate.count("n_bins", self.n_bins, minimum=2, maximum=1000)
        width = rows.shape[1]
        lower, upper = self._ends(width)
        names = [f"column {i}" for i in range(width)]
        bounds = dict(zip(names, zip(lower.tolist(), upper.tolist(), strict=True), strict=True))
        found = private_quantile_bins(dict(zip(names, rows.T, strict=True)), number, bounds=bounds, **guarantee)
        self.bin_edges_ = np.array([found[name].value for name in names])
        self.n_bins_ = np.full(width, number)
        self.epsilon_ = float(self.epsilon)
        self.event_ = found.event

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the number of the bin of each entry, from 0 to `n_bins` − 1.

        Parameters
        ----------
        X : (n, d) array
            What is beyond the bounds is in the first or the last bin. An entry that is no number counts as the middle
            of the bounds.

        Returns
        -------
        (n, d) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        edges = self._fitted("bin_edges_")
        rows = self._rows(X)
        middle = 0.5 * edges[:, 0] + 0.5 * edges[:, -1]
        rows = np.where(np.isnan(rows), middle, rows)
        places = [np.searchsorted(each[1:-1], column, side="right") for each, column in zip(edges, rows.T, strict=True)]
        return np.column_stack(places).astype(np.float64)

    def _ends(self, width: int) -> tuple[Floats, Floats]:
        """Return the bounds of each column, all checked before anything is drawn."""
        if not isinstance(self.bounds, (tuple, list)) or len(self.bounds) != 2:
            raise _validate.out_of_domain("bounds", "a pair (lower, upper)", self.bounds, write="(0, 100)")
        ends = []
        for end in self.bounds:
            numbers = np.asarray(end).ravel().tolist() if np.ndim(end) else [end] * width
            if len(numbers) != width:
                raise InvalidArray(f"bounds must be two numbers, or two sequences of {width}, got {len(numbers)}")
            ends.append(np.array([_validate.finite("bounds", each) for each in numbers]))
        if not (ends[0] < ends[1]).all():
            raise InvalidParameter("bounds must be in ascending order in each column; leave constant columns out")
        return ends[0], ends[1]
