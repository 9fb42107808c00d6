"""Linear regressions that are private for each record."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Floats, functions
from ferrodp.integrations.sklearn._private import Keep, PrivateEstimator, targets
from ferrodp.statistics.models import private_moments

__all__ = ["PrivateLinearRegression", "PrivateRidge"]


class _Regression(PrivateEstimator):
    """What both have in common."""

    bounds: Any
    target_bounds: Any
    clip_norm: Any

    def _penalty(self) -> Any:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, *, unit: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Fit, with fresh noise.

        Parameters
        ----------
        X : (n, d) array
            One row for each record. One with an entry that is no finite number is left out.
        y : (n,) array
            What is predicted, clamped to `target_bounds`.
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
        validation = functions()
        rows = self._rows(X, reset=True)
        column = targets(validation.labels_of(self, y, rows))
        guarantee = self._guarantee(unit)
        if self.target_bounds is None:
            raise InvalidParameter(
                "target_bounds must be given, got None: a public pair (lower, upper); for example (0, 100)"
            )
        width = rows.shape[1]
        ends = [
            np.concatenate([np.broadcast_to(np.asarray(end, float), width), [float(of_target)]])
            for end, of_target in zip(self.bounds, self.target_bounds, strict=True)
        ]
        moments = private_moments(
            np.column_stack([rows, column]), bounds=(ends[0], ends[1]), clip_norm=self.clip_norm, **guarantee
        )
        model = moments.linear_regression(width, ridge=self._penalty())
        self.coef_, self.intercept_, self.ridge_ = model.coef, model.intercept, model.ridge
        self.moments_ = moments
        self._keep(moments)
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predictions of rows.

        Parameters
        ----------
        X : (n, d) array
            An entry that is no finite number counts as 0.

        Returns
        -------
        (n,) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        coef = self._fitted("coef_")
        rows = self._rows(X)
        with np.errstate(all="ignore"):
            found: Floats = np.where(np.isfinite(rows), rows, 0.0) @ coef + self.intercept_
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return R² on test data: not private for them.

        Parameters
        ----------
        X : (n, d) array
            As for `predict`.
        y : (n,) array
            What is true.
        sample_weight : (n,) array, optional
            How much each row counts.

        Returns
        -------
        float
            At most 1.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `predict`.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags(poor_score=True)
        tags.target_tags.required = True
        return tags


class PrivateLinearRegression(_Regression):
    """Linear regression, (ε, δ)-differentially private for each record: `statistics.models.private_moments`.

    Means and covariances of all columns are released once, and the regression is computed from them, with as much of a
    penalty as keeps their noise from being inverted.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee to keep; needed by `fit`.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of the columns, to which values are clamped; needed by `fit`.
    target_bounds : pair of floats
        Public bounds of the target; needed by `fit`.
    clip_norm : float, optional
        A public bound on the norm of scaled rows, target included: see `private_moments`.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    coef_ : (d,) ndarray
        In units of the target per unit of each column.
    intercept_ : float
        The prediction at zeros.
    ridge_ : float
        The penalty that was added, for columns scaled to [−1, 1].
    moments_ : PrivateMoments
        What was released: other regressions of it cost nothing.
    epsilon_ : float
        The ε of this model, at `delta`.
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
    >>> from ferrodp.integrations.sklearn import PrivateLinearRegression
    >>> x = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    >>> y = x @ [2.0, -1.0] + 0.5
    >>> model = PrivateLinearRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, y)
    >>> bool(model.score(x, y) > 0.95), model.predict(x[:2]).shape
    (True, (2,))
    >>> model.set_params(epsilon=1.0).get_params()["epsilon"]
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        bounds: Any = None,
        target_bounds: tuple[Real, Real] | None = None,
        clip_norm: Real | None = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.clip_norm = clip_norm
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _penalty(self) -> Any:
        return None


class PrivateRidge(_Regression):
    """Ridge regression, (ε, δ)-differentially private for each record: `statistics.models.private_moments`.

    Parameters
    ----------
    alpha : float, optional
        The penalty α·‖w‖² beside the mean squared error, for columns scaled to [−1, 1]; ≥ 0. By default as much as
        keeps the noise from being inverted, as in `PrivateLinearRegression`: less is inaccurate where rows are few.
    epsilon, delta, bounds, target_bounds, clip_norm, max_contributions, keep, neighboring_relation
        As for `PrivateLinearRegression`.

    Attributes
    ----------
    coef_, intercept_, ridge_, moments_, epsilon_, event_, n_features_in_
        As for `PrivateLinearRegression`; the penalty is `alpha` if that is given.

    Raises
    ------
    MissingPackage
        By its methods, if scikit-learn is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.sklearn import PrivateRidge
    >>> x = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    >>> y = x @ [2.0, -1.0] + 0.5
    >>> model = PrivateRidge(alpha=0.01, epsilon=2.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, y)
    >>> bool(model.score(x, y) > 0.9), model.predict(x[:2]).shape, model.ridge_
    (True, (2,), 0.01)
    >>> model.set_params(alpha=1.0).get_params()["alpha"]
    1.0
    """

    def __init__(
        self,
        *,
        alpha: Real | None = None,
        epsilon: Real | None = None,
        delta: Real | None = None,
        bounds: Any = None,
        target_bounds: tuple[Real, Real] | None = None,
        clip_norm: Real | None = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.clip_norm = clip_norm
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _penalty(self) -> Any:
        return self.alpha
