"""A classifier for scikit-learn that is private for each record."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, PrivacyWarning
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Estimator, Floats, functions
from ferrodp.training import train

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(Estimator):
    """Multinomial logistic regression, (ε, δ)-differentially private for each record: `ferrodp.training.train`.

    There is nothing to tune: steps, noise, learning rate and clip norm follow from ε, δ and the shape of the data. A
    grid search over it would release something about the data with each model; see `ferrodp.training.select`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee to keep; needed by `fit`.
    classes : sequence, optional
        All labels there can be: a public list. By default those that occur, with a `PrivacyWarning`: which labels occur
        is not protected then.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    classes_ : (k,) ndarray
        Sorted labels.
    coef_ : (k, d) ndarray, or (1, d) for two classes
        Weights of features that are scaled to unit norm, centered by `center_` and scaled again.
    intercept_ : (k,) ndarray, or (1,) for two classes
        Added to the scores.
    center_ : (d,) ndarray
        Released mean of the scaled features.
    epsilon_ : float
        The ε of this model, at `delta`.
    event_ : PrivacyEvent
        What was released, for accountants.
    plan_ : PrivacyPlan
        What was run.
    n_iter_ : int
        Number of its steps.
    n_features_in_ : int
        d.

    Raises
    ------
    MissingPackage
        By its methods, if scikit-learn is not installed.

    Notes
    -----
    Values never raise: a record that holds NaN or infinity, or an object that is no number in a list or a column of
    objects, counts as one that says nothing, and so does one whose label is none of `classes`. Without `classes`,
    labels are looked at, and scikit-learn's errors about them apply. Each `fit` draws fresh noise and is a release of
    its own: fitting twice costs twice.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.sklearn import PrivateLogisticRegression
    >>> x = np.random.default_rng(0).normal(size=(2000, 2))
    >>> y = (x[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=2.0, delta=1e-6, classes=[0, 1]).fit(x, y)
    >>> bool(model.score(x, y) > 0.9), model.predict([[3.0, 0.0]]), model.epsilon_ <= 2.0
    (True, array([1]), True)
    >>> model.predict_proba(x).shape, model.predict_log_proba(x).shape, model.decision_function(x).shape
    ((2000, 2), (2000, 2), (2000,))
    >>> model.set_params(epsilon=1.0).get_params()["epsilon"]
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        classes: Sequence[Any] | npt.NDArray[Any] | None = None,
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.neighboring_relation = neighboring_relation

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  # scikit-learn's name
        """Train, with fresh noise.

        Parameters
        ----------
        X : (n, d) array
            One row for each record; n and d are public.
        y : (n,) array
            Their labels.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is not accepted, or ε or δ is missing.
        ValueError, TypeError
            If shape or dtype is not accepted, as scikit-learn says it.
        CalibrationError
            If ε is so small that no noise in range keeps it.

        Warns
        -----
        PrivacyWarning
            If `classes` has to be taken from the labels.
        """
        validation = functions()
        rows = validation.rows_of(self, X)
        labels = validation.labels_of(self, y, rows)
        if self.epsilon is None or self.delta is None:
            raise InvalidParameter(
                f"epsilon and delta must be given, got {self.epsilon!r} and {self.delta!r}: the guarantee that "
                "the model is to keep; for example epsilon=1.0, delta=1e-6"
            )
        try:
            relation = NeighboringRelation(self.neighboring_relation)
        except ValueError:
            accepted = "one of " + ", ".join(each.value for each in NeighboringRelation)
            raise _validate.out_of_domain("neighboring_relation", accepted, self.neighboring_relation) from None
        known = self._known(labels)
        model = train(
            rows,
            labels,
            epsilon=self.epsilon,
            delta=self.delta,
            classes=known,
            neighboring_relation=relation,
        )
        two = len(known) == 2
        self.classes_ = model.classes
        self.coef_ = model.coef[1:] - model.coef[:1] if two else model.coef
        self.intercept_ = model.intercept[1:] - model.intercept[:1] if two else model.intercept
        self.center_ = model.center
        self.epsilon_, self.event_, self.plan_ = model.epsilon, model.event, model.plan
        self.n_iter_ = model.num_steps
        self._model = model
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return a score for each class; for two classes, that of the second minus that of the first.

        Parameters
        ----------
        X : (n, d) array
            Rows that hold NaN, infinity or what is no number count as zeros.

        Returns
        -------
        (n, k) ndarray, or (n,) for two classes

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        scores: Floats = self._model_for().scores(self._rows(X))
        found: Floats = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        return found

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the most probable class of each row.

        Parameters
        ----------
        X : (n, d) array
            As for `decision_function`.

        Returns
        -------
        (n,) ndarray

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `decision_function`.
        """
        found: npt.NDArray[Any] = self._model_for().predict(self._rows(X))
        return found

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the probability of each class, as the model has it.

        Parameters
        ----------
        X : (n, d) array
            As for `decision_function`.

        Returns
        -------
        (n, k) ndarray

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `decision_function`.
        """
        found: Floats = self._model_for().predict_proba(self._rows(X))
        return found

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : (n, d) array
            As for `decision_function`.

        Returns
        -------
        (n, k) ndarray

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `decision_function`.
        """
        with np.errstate(divide="ignore"):
            found: Floats = np.log(self.predict_proba(X))
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy on test data: not private for them.

        Parameters
        ----------
        X : (n, d) array
            As for `decision_function`.
        y : (n,) array
            True labels.
        sample_weight : (n,) array, optional
            How much each row counts.

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `decision_function`.
        """
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _known(self, labels: Any) -> npt.NDArray[Any]:
        """Return the sorted classes; taken from the labels, with a warning, where they are not a parameter."""
        if self.classes is not None:
            return np.unique(np.asarray(self.classes))
        from sklearn.utils.multiclass import check_classification_targets

        warnings.warn(
            "classes were taken from the labels, so which labels occur is not protected: pass the public list of "
            "classes",
            PrivacyWarning,
            stacklevel=3,
        )
        array = np.asarray(labels)
        present = array[np.isfinite(array)] if array.dtype.kind == "f" else array
        if array.dtype.kind == "O":
            present = np.asarray([each for each in array.tolist() if each is not None and each == each])
        check_classification_targets(present)
        found = np.unique(present)
        if len(found) < 2:
            raise InvalidParameter("the labels must be of two classes at least, got one class; or pass classes")
        return found

    def _model_for(self) -> Any:
        functions().check_is_fitted(self, "coef_")
        return self._model

    def _rows(self, rows: Any) -> Any:
        return functions().rows_of(self, rows, reset=False)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        tags.non_deterministic = True
        return tags
