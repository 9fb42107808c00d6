"""Naive Bayes that is private for each record."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, PrivacyWarning
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Floats, apart, functions
from ferrodp.integrations.sklearn._private import Keep, PrivateEstimator
from ferrodp.statistics.models import private_categorical_bayes, private_naive_bayes
from ferrodp.statistics.models.categorical import smoothing_of

__all__ = ["PrivateCategoricalNB", "PrivateGaussianNB"]


class _NaiveBayes(PrivateEstimator):
    """What both have in common: subclasses say what entries are, what is public, and what `_learn` keeps."""

    classes: Any

    def fit(self, X: Any, y: Any, *, unit: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Fit, with fresh noise.

        Parameters
        ----------
        X : (n, d) array
            One row for each record. With bounds, one with an entry that is no finite number is left out; with
            categories, a value that is none of them counts in none of the counts of its column.
        y : (n,) array
            Their labels. A record with one that is none of `classes` is left out.
        unit : (n,) array, Series or list, optional
            Whose each row is: an id a row. Of the rows of each unit `max_contributions` count then.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is not accepted, or ε, δ or what is public are missing.
        ValueError, TypeError
            If shape or dtype is not accepted, as scikit-learn says it.

        Warns
        -----
        PrivacyWarning
            If `classes` has to be taken from the labels.
        """
        validation = functions()
        rows = self._entries(X, reset=True)
        labels = validation.labels_of(self, y, rows)
        guarantee = self._guarantee(unit)
        public = self._public(rows.shape[1])
        known = self._known(labels)
        self._learn(rows, labels, {"classes": known.tolist(), **public, **guarantee})
        self.classes_ = known
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the most probable class of each row.

        Parameters
        ----------
        X : (n, d) array
            An entry that is no finite number says nothing.

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
        found: npt.NDArray[Any] = self._fitted("classes_")[self._scores(X).argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the probability of each class, as the model has it.

        Parameters
        ----------
        X : (n, d) array
            As for `predict`.

        Returns
        -------
        (n, k) ndarray

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `predict`.
        """
        found: Floats = np.exp(self.predict_log_proba(X))
        return found

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : (n, d) array
            As for `predict`.

        Returns
        -------
        (n, k) ndarray

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As for `predict`.
        """
        scores = self._scores(X)
        with np.errstate(all="ignore"):
            scores = scores - scores.max(axis=1, keepdims=True)
            found: Floats = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy on test data: not private for them.

        Parameters
        ----------
        X : (n, d) array
            As for `predict`.
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
            As for `predict`.
        """
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _entries(self, rows: Any, *, reset: bool = False) -> npt.NDArray[Any]:
        """Return the checked entries: numbers, or as they are, strings and other labels too."""
        raise NotImplementedError

    def _public(self, width: int) -> dict[str, Any]:
        """Return what is public about so many columns, checked."""
        raise NotImplementedError

    def _learn(self, rows: npt.NDArray[Any], labels: Any, public: dict[str, Any]) -> None:
        """Release a model of rows and labels, and keep it."""
        raise NotImplementedError

    def _scores(self, rows: Any) -> Floats:
        raise NotImplementedError

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

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        return tags


class PrivateGaussianNB(_NaiveBayes):
    """Gaussian naive Bayes, (ε, δ)-differentially private for each record: `statistics.models.private_naive_bayes`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee to keep; needed by `fit`.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of the columns, to which values are clamped; needed by `fit`.
    classes : sequence, optional
        All labels there can be: a public list. By default those that occur, with a `PrivacyWarning`: which labels occur
        is not protected then.
    clip_norm : float, optional
        A public bound on the norm of scaled rows: see `private_naive_bayes`.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    classes_ : (k,) ndarray
        Sorted labels.
    class_prior_ : (k,) ndarray
        Their shares.
    theta_, var_ : (k, d) ndarray
        Means and variances of each column in each class.
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
    >>> from ferrodp.integrations.sklearn import PrivateGaussianNB
    >>> x = np.random.default_rng(0).normal(size=(4_000, 2)) + np.repeat([[0.0], [3.0]], 2_000, axis=0)
    >>> y = np.repeat([0, 1], 2_000)
    >>> model = PrivateGaussianNB(epsilon=2.0, delta=1e-6, bounds=(-4, 7), classes=[0, 1]).fit(x, y)
    >>> bool(model.score(x, y) > 0.9), model.predict([[3.0, 3.0]]), model.predict_proba(x).shape
    (True, array([1]), (4000, 2))
    >>> model.predict_log_proba(x).shape, model.set_params(epsilon=1.0).get_params()["epsilon"]
    ((4000, 2), 1.0)
    """

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        bounds: Any = None,
        classes: Sequence[Any] | npt.NDArray[Any] | None = None,
        clip_norm: Real | None = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.clip_norm = clip_norm
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _entries(self, rows: Any, *, reset: bool = False) -> npt.NDArray[Any]:
        return self._rows(rows, reset=reset)

    def _public(self, width: int) -> dict[str, Any]:
        return {"bounds": self.bounds, "clip_norm": self.clip_norm}

    def _learn(self, rows: npt.NDArray[Any], labels: Any, public: dict[str, Any]) -> None:
        model = self._model = private_naive_bayes(rows, labels, **public)
        self.class_prior_, self.theta_, self.var_ = model.priors, model.means, model.variances
        self._keep(model)

    def _scores(self, rows: Any) -> Floats:
        model = self._fitted("_model")
        found: Floats = model.scores(self._rows(rows))
        return found


class PrivateCategoricalNB(_NaiveBayes):
    """Naive Bayes of categories, (ε, δ)-private for each record: `statistics.models.private_categorical_bayes`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee to keep; needed by `fit`. With ``delta=0`` the noise is discrete Laplace.
    categories : int, sequence of d sequences, or dict from names of columns to sequences
        The public values of each column; an int k stands for 0, …, k − 1 in all of them. Needed by `fit`.
    classes : sequence, optional
        All labels there can be: a public list. By default those that occur, with a `PrivacyWarning`: which labels occur
        is not protected then.
    alpha : float
        The smoothing: added to each count of a value; > 0. Costs nothing.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    classes_ : (k,) ndarray
        Sorted labels.
    class_count_ : (k,) ndarray
        The noised number of rows of each class.
    category_count_ : tuple of d ndarrays of shape (k, v)
        The noised number of rows of each class with each value of a column.
    n_categories_ : (d,) ndarray of int
        How many public values each column has.
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
    >>> from ferrodp.integrations.sklearn import PrivateCategoricalNB
    >>> y = np.repeat([0, 1], 2_000)
    >>> x = np.column_stack([y, 2 * y, np.arange(4_000) % 3])
    >>> model = PrivateCategoricalNB(epsilon=1.0, delta=0.0, categories=3, classes=[0, 1]).fit(x, y)
    >>> model.score(x, y), model.predict([[1, 2, 0]]), model.predict_proba(x).shape
    (1.0, array([1]), (4000, 2))
    >>> model.predict_log_proba(x).shape, model.n_categories_.tolist()
    ((4000, 2), [3, 3, 3])
    >>> persons = np.arange(4_000) // 4
    >>> of_persons = model.set_params(epsilon=2.0, max_contributions=2).fit(x, y, unit=persons)
    >>> of_persons.get_params()["epsilon"], type(model.get_metadata_routing()).__name__
    (2.0, 'MetadataRequest')
    """

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        categories: Any = None,
        classes: Sequence[Any] | npt.NDArray[Any] | None = None,
        alpha: Real = 1.0,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.classes = classes
        self.alpha = alpha
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _learn(self, rows: npt.NDArray[Any], labels: Any, public: dict[str, Any]) -> None:
        model = self._model = private_categorical_bayes(rows, labels, **public)
        self.class_count_, self.category_count_ = model.class_counts, model.counts
        self.n_categories_ = np.array([len(each) for each in model.categories])
        self._keep(model)

    def _scores(self, rows: Any) -> Floats:
        model = self._fitted("_model")
        found: Floats = model.scores(self._entries(rows), smoothing=self.alpha)
        return found

    def _entries(self, rows: Any, *, reset: bool = False) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = functions().validate_data(
            self, apart(rows), reset=reset, dtype=None, ensure_all_finite=False
        )
        return found

    def _public(self, width: int) -> dict[str, Any]:
        smoothing_of(_validate.positive("alpha", self.alpha))
        return {"categories": self._categories(width)}

    def _categories(self, width: int) -> list[Any]:
        """Return the public values of so many columns, in order."""
        given = self.categories
        if given is None:
            raise InvalidParameter(
                "categories must be given, got None: the public values of each column, or how many there are; for "
                "example categories=3 for 0, 1 and 2"
            )
        if isinstance(given, Mapping):
            names = list(getattr(self, "feature_names_in_", []))
            if set(names) != set(given):
                raise InvalidParameter(
                    f"categories must name the columns of X, got {_validate.shown(list(given))}; X has "
                    f"{_validate.shown(names)}"
                )
            return [given[name] for name in names]
        if isinstance(given, (int, np.integer)):
            return [np.arange(_validate.count("categories", given, maximum=10**7))] * width
        return list(given) if isinstance(given, np.ndarray) and given.ndim == 2 else given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of columns that are none of categories
        tags.input_tags.categorical = True
        return tags
