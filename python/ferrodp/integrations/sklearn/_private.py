"""What estimators over exact sums share: a guarantee, public bounds, and rows as numbers whatever they hold."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Estimator, Floats, functions

Keep = Literal["random", "first"]


class PrivateEstimator(Estimator):
    """An estimator whose `fit` is one release."""

    epsilon: Any
    delta: Any
    max_contributions: Any
    keep: Any
    neighboring_relation: Any

    def _guarantee(self, unit: object) -> dict[str, Any]:
        """Return the checked guarantee, as functions of `ferrodp.statistics.models` take it."""
        delta = getattr(self, "delta", 0.0)
        if self.epsilon is None or delta is None:
            raise InvalidParameter(
                f"epsilon and delta must be given, got {self.epsilon!r} and {delta!r}: the guarantee that "
                "the model is to keep; for example epsilon=1.0, delta=1e-6"
            )
        if getattr(self, "bounds", ()) is None:
            raise InvalidParameter(
                "bounds must be given, got None: a public pair (lower, upper) for all columns, or two sequences with a "
                "number for each; for example bounds=(0, 100)"
            )
        if isinstance(unit, str):
            raise InvalidType(
                f"unit must be an id for each row, got {_validate.shown(unit)}; to take a column of a table write "
                f"unit=X.pop({_validate.shown(unit)})"
            )
        try:
            relation = NeighboringRelation(self.neighboring_relation)
        except ValueError:
            accepted = "one of " + ", ".join(each.value for each in NeighboringRelation)
            raise _validate.out_of_domain("neighboring_relation", accepted, self.neighboring_relation) from None
        return {
            "epsilon": self.epsilon,
            "delta": delta,
            "max_contributions": self.max_contributions,
            "unit": unit,
            "keep": self.keep,
            "neighboring_relation": relation,
        }

    def set_fit_request(self, *, unit: bool | str | None) -> Self:
        """Say whether metadata named `unit` of a pipeline or a search goes to `fit`.

        Parameters
        ----------
        unit : bool, str or None
            True if it does, False if not, the name under which it comes, or None if it is an error to pass it.

        Returns
        -------
        self

        Raises
        ------
        MissingPackage
            If scikit-learn is not installed.
        ValueError
            For another value.
        """
        request = self.get_metadata_routing()
        request.fit.add_request(param="unit", alias=unit)
        self._metadata_request = request
        return self

    def _rows(self, rows: Any, *, reset: bool = False) -> Floats:
        """Return rows as numbers; NaN for an entry that is none."""
        return numbers(functions().rows_of(self, rows, reset=reset))

    def _fitted(self, name: str) -> Any:
        functions().check_is_fitted(self, name)
        return getattr(self, name)

    def _keep(self, released: Any) -> None:
        """Keep what was paid."""
        self.epsilon_, self.event_ = released.epsilon, released.event

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


class PrivateTransformer(PrivateEstimator):
    """One that turns rows into others: subclasses say what `_learn` keeps of rows, and what `transform` returns."""

    def fit(self, X: Any, y: Any = None, *, unit: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Fit, with fresh noise.

        Parameters
        ----------
        X : (n, d) array
            One row for each record. Bins leave an entry that is no number out of its column; all others leave a row out
            that has an entry which is no finite number.
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
        self._learn(self._rows(X, reset=True), unit)
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return what rows become.

        Parameters
        ----------
        X : (n, d) array
            Rows.

        Returns
        -------
        (n, k) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None, *, unit: Any = None) -> Floats:  # noqa: N803
        """Fit, and return what the same rows become: this is not private.

        Parameters
        ----------
        X, y, unit
            As for `fit`.

        Returns
        -------
        (n, k) ndarray

        Raises
        ------
        InvalidParameter, InvalidType, ValueError, TypeError
            As for `fit`.
        """
        return self.fit(X, unit=unit).transform(X)

    def _learn(self, rows: Floats, unit: object) -> None:
        """Release what is kept of checked rows."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags


def numbers(rows: Any) -> Floats:
    """Return a matrix of floats, each entry for itself."""
    array = np.asarray(rows)
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    return np.array([_number(each) for each in array.ravel().tolist()]).reshape(array.shape)


def targets(labels: Any) -> npt.NDArray[np.float64]:
    """Return the targets of a regression as one column of numbers."""
    if isinstance(labels, (list, tuple)):
        return np.array([_number(each) for each in labels])[:, None]
    return numbers(labels).reshape(-1, 1)


def _number(entry: object) -> float:
    if isinstance(entry, (bool, int, float, np.number)) and not isinstance(entry, complex):
        try:
            return float(entry)
        except (OverflowError, TypeError, ValueError):
            return float("nan")
    return float("nan")
