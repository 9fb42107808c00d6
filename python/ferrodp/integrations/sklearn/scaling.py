"""Scales of columns that are private for each record."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Floats, functions
from ferrodp.integrations.sklearn._private import Keep, PrivateTransformer
from ferrodp.statistics.models import private_scales

__all__ = ["PrivateStandardScaler"]


class PrivateStandardScaler(PrivateTransformer):
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

    def fit(self, X: Any, y: Any = None, *, unit: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Fit, with fresh noise.

        Parameters
        ----------
        X : (n, d) array
            One row for each record. One with an entry that is no finite number is left out.
        y : object
            Not looked at.
        unit : (n,) array, Series or list, optional
            Whose each row is: an id a row. Of the rows of each unit `max_contributions` count then.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is not accepted, or ε, δ or bounds are missing.
        ValueError, TypeError
            If shape or dtype is not accepted, as scikit-learn says it.
        """
        scales = self.scales_ = private_scales(self._rows(X, reset=True), bounds=self.bounds, **self._guarantee(unit))
        self.mean_, self.var_ = scales.mean, scales.variance
        self.scale_ = scales.scale
        self._keep(scales)
        return self

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

    def fit_transform(self, X: Any, y: Any = None, *, unit: Any = None) -> Floats:  # noqa: N803
        """Fit, and return the same rows scaled: these are not private.

        Parameters
        ----------
        X : (n, d) array
            As for `fit`.
        y : object
            Not looked at.
        unit : (n,) array, Series or list, optional
            Whose each row is: an id a row. Of the rows of each unit `max_contributions` count then.

        Returns
        -------
        (n, d) ndarray

        Raises
        ------
        InvalidParameter, InvalidType, ValueError, TypeError
            As for `fit`.
        """
        return self.fit(X, unit=unit).transform(X)

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
        functions().check_is_fitted(self, "scale_")
        seen = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = list(input_features)
            if seen is not None and given != list(seen):
                raise InvalidParameter("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise InvalidParameter("input_features should have length equal to number of features")
            return np.array(given, dtype=object)
        return np.array([f"x{i}" for i in range(self.n_features_in_)] if seen is None else list(seen), dtype=object)
