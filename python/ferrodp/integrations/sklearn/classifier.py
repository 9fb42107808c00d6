"""Estimators for scikit-learn: a classifier that is private for each record, and features of images.

They follow scikit-learn's conventions by public names alone, and do not derive from its classes, so that importing this
module does not import scikit-learn. Parameters, pipelines, searches, cloning and pickling work as usual. Needs
scikit-learn 1.6: ``pip install "ferrodp[sklearn]"``.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp import _validate
from ferrodp._validate import Real
from ferrodp.errors import InvalidParameter, MissingPackage, PrivacyWarning
from ferrodp.events import NeighboringRelation
from ferrodp.training import oriented_gradients, train

__all__ = ["OrientedGradients", "PrivateLogisticRegression"]

Floats: TypeAlias = npt.NDArray[np.float64]


class _Estimator:
    """Parameters by name, as scikit-learn reads and sets them."""

    n_features_in_: int

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Makes no difference: no parameter is an estimator.

        Returns
        -------
        dict

        Raises
        ------
        AttributeError
            If a parameter was deleted.
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            Parameters of the constructor.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            For another name.
        """
        for name, value in params.items():
            if name not in self._names():
                raise InvalidParameter(f"Invalid parameter {name!r} for estimator {self!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(allow_nan=True),
        )


class PrivateLogisticRegression(_Estimator):
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
    Values never raise: a record that holds NaN or infinity, or a label that is none of `classes`, counts as one that
    says nothing. Each `fit` draws fresh noise and is a release of its own: fitting twice costs twice.

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
        validation = _sklearn()
        rows, labels = validation.validate_data(
            self, X, y, dtype="numeric", ensure_all_finite=False, multi_output=True, y_numeric=False
        )
        labels = validation.column_or_1d(labels, warn=True)
        if self.epsilon is None or self.delta is None:
            raise InvalidParameter("epsilon and delta must be given: the guarantee that the model is to keep")
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
            Rows that hold NaN or infinity count as zeros.

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

    def _known(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
        check_classification_targets(labels)
        found = np.unique(labels)
        if len(found) < 2:
            raise InvalidParameter("the labels must be of two classes at least, got one class; or pass classes")
        return found

    def _model_for(self) -> Any:
        _sklearn().check_is_fitted(self, "coef_")
        return self._model

    def _rows(self, rows: Any) -> Any:
        return _sklearn().validate_data(self, rows, reset=False, dtype="numeric", ensure_all_finite=False)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        tags.non_deterministic = True
        return tags


class OrientedGradients(_Estimator):
    """Histograms of oriented gradients of gray images: `ferrodp.training.oriented_gradients`. Stateless and public.

    Nothing is fitted, so it may be applied to private images at no cost, and belongs before a private classifier.

    Parameters
    ----------
    shape : (int, int), optional
        Height and width of the images. By default the pair closest to a square whose product is the number of
        columns.

    Attributes
    ----------
    n_features_in_ : int
        Number of pixels.

    Raises
    ------
    MissingPackage
        By its methods, if scikit-learn is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.sklearn import OrientedGradients
    >>> images = np.random.default_rng(0).uniform(size=(5, 64))
    >>> features = OrientedGradients(shape=(8, 8))
    >>> features.fit_transform(images).shape, features.transform(images[:2]).shape
    ((5, 137), (2, 137))
    >>> features.get_feature_names_out()[[0, 71, 72, 136]].tolist()
    ['cell0_bin0', 'cell8_bin7', 'pixel0', 'bias']
    >>> features.fit(images).get_params() == features.set_params(shape=(8, 8)).get_params()
    True
    """

    def __init__(self, shape: tuple[int, int] | None = None) -> None:
        self.shape = shape

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Check the number of pixels; nothing is learned.

        Parameters
        ----------
        X : (n, height·width) array
            Gray values in [0, 1].
        y : object
            Not looked at.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        rows = _sklearn().validate_data(self, X, dtype="numeric", ensure_all_finite=False)
        oriented_gradients(rows[:0], shape=self._shape(rows.shape[1]))
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the features of images.

        Parameters
        ----------
        X : (n, height·width) array
            Gray values in [0, 1]. An image that holds NaN or infinity counts as black.

        Returns
        -------
        (n, m) ndarray
            Rows of unit norm.

        Raises
        ------
        ValueError, TypeError
            If shape or dtype is not accepted, or the number of pixels is not that of `fit`.
        """
        reset = not hasattr(self, "n_features_in_")
        rows = _sklearn().validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        return oriented_gradients(rows, shape=self._shape(rows.shape[1]))

    def fit_transform(self, X: Any, y: Any = None) -> Floats:  # noqa: N803
        """Return the features of images.

        Parameters
        ----------
        X : (n, height·width) array
            As for `transform`.
        y : object
            Not looked at.

        Returns
        -------
        (n, m) ndarray

        Raises
        ------
        ValueError, TypeError
            As for `transform`.
        """
        return self.fit(X).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return a name for each feature.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the pixels; checked, as scikit-learn asks for it, and not used.

        Returns
        -------
        (m,) ndarray of str

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the names are not those of the pixels.
        """
        _sklearn().check_is_fitted(self, "n_features_in_")
        seen = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = list(input_features)
            if seen is not None and given != list(seen):
                raise InvalidParameter("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise InvalidParameter("input_features should have length equal to number of features")
        count = oriented_gradients(np.zeros((0, self.n_features_in_)), shape=self._shape(self.n_features_in_)).shape[1]
        pixels = self.n_features_in_
        names = [f"cell{i // 8}_bin{i % 8}" for i in range(count - pixels - 1)]
        return np.array([*names, *(f"pixel{i}" for i in range(pixels)), "bias"], dtype=object)

    def _shape(self, pixels: int) -> tuple[int, int]:
        if self.shape is not None:
            return self.shape
        height = next(side for side in range(math.isqrt(pixels), 0, -1) if pixels % side == 0)
        return height, pixels // height

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        tags.requires_fit = False
        return tags


class _Validation:
    """The functions of scikit-learn that estimators call."""

    def __init__(self) -> None:
        from sklearn.utils import column_or_1d
        from sklearn.utils.validation import check_is_fitted, validate_data

        self.column_or_1d, self.check_is_fitted, self.validate_data = column_or_1d, check_is_fitted, validate_data


def _sklearn() -> Any:
    """Return what is needed of scikit-learn, or refuse."""
    try:
        return _Validation()
    except ImportError:
        raise MissingPackage(
            'ferrodp.integrations.sklearn needs scikit-learn 1.6 or later: pip install "ferrodp[sklearn]"'
        ) from None
