"""Principal components and clusters that are private for each record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base._validate import Real
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.sklearn._estimator import Floats
from ferrodp.integrations.sklearn._private import Keep, PrivateTransformer
from ferrodp.statistics.models import private_clusters, private_moments

__all__ = ["PrivateKMeans", "PrivatePCA"]


class PrivatePCA(PrivateTransformer):
    """Principal components, (ε, δ)-differentially private for each record: `statistics.models.private_moments`.

    Parameters
    ----------
    n_components : int, optional
        How many; by default as many as columns.
    epsilon, delta : float
        The guarantee to keep; needed by `fit`.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of the columns, to which values are clamped; needed by `fit`.
    clip_norm : float, optional
        A public bound on the norm of scaled rows: see `private_moments`.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    components_ : (k, d) ndarray
        Orthonormal rows, by falling variance.
    explained_variance_ : (k,) ndarray
        The variance along each.
    mean_ : (d,) ndarray
        What is subtracted from rows.
    moments_ : PrivateMoments
        What was released: other components of it cost nothing.
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
    >>> from ferrodp.integrations.sklearn import PrivatePCA
    >>> x = np.outer(np.linspace(-1, 1, 5_000), [0.8, 0.6])
    >>> pca = PrivatePCA(n_components=1, epsilon=2.0, delta=1e-6, bounds=(-1, 1)).fit(x)
    >>> pca.transform(x).shape, pca.inverse_transform(pca.transform(x)).shape, pca.fit_transform(x).shape
    ((5000, 1), (5000, 2), (5000, 1))
    >>> pca.get_feature_names_out().tolist(), pca.set_params(n_components=2).get_params()["n_components"]
    (['privatepca0'], 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        bounds: Any = None,
        clip_norm: Real | None = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.clip_norm = clip_norm
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _learn(self, rows: Floats, unit: object) -> None:
        guarantee = self._guarantee(unit)
        moments = private_moments(rows, bounds=self.bounds, clip_norm=self.clip_norm, **guarantee)
        wanted = rows.shape[1] if self.n_components is None else self.n_components
        found = moments.principal_components(wanted)
        self.components_, self.explained_variance_ = found.components, found.explained_variance
        self.mean_, self.moments_ = found.mean, moments
        self._keep(moments)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the coordinates of rows along the components.

        Parameters
        ----------
        X : (n, d) array
            An entry that is no finite number counts as the mean.

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
        components = self._fitted("components_")
        rows = self._rows(X)
        with np.errstate(all="ignore"):
            found: Floats = (np.where(np.isfinite(rows), rows, self.mean_) - self.mean_) @ components.T
        return found

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return rows with these coordinates.

        Parameters
        ----------
        X : (n, k) array
            Coordinates along the components.

        Returns
        -------
        (n, d) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        components = self._fitted("components_")
        found: Floats = np.asarray(X, float) @ components + self.mean_
        return found

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return a name for each component.

        Parameters
        ----------
        input_features : sequence of str, optional
            Not used.

        Returns
        -------
        (k,) ndarray of str

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        count = len(self._fitted("components_"))
        return np.array([f"privatepca{i}" for i in range(count)], dtype=object)


class PrivateKMeans(PrivateTransformer):
    """k-means, (ε, δ)-differentially private for each record: `statistics.models.private_clusters`.

    Parameters
    ----------
    n_clusters : int
        k.
    epsilon, delta : float
        The guarantee to keep; needed by `fit`.
    bounds : pair of floats, or of sequences of d floats
        Public bounds of the columns, to which values are clamped; needed by `fit`.
    max_iter : int
        How many rounds; each has an equal share of the budget.
    clip_norm : float, optional
        A public bound on the norm of scaled rows: see `private_clusters`.
    random_state : int, optional
        Of the first centers, which are public. Noise cannot be seeded.
    max_contributions : int
        How many rows one unit may have; with `unit` in `fit`, how many of its rows count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    neighboring_relation : NeighboringRelation or str
        Which datasets the guarantee tells apart; its value as a str, such as "replace_one".

    Attributes
    ----------
    cluster_centers_ : (k, d) ndarray
        Within the bounds.
    clusters_ : Clusters
        What was released.
    n_iter_ : int
        The number of rounds.
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
    >>> from ferrodp.integrations.sklearn import PrivateKMeans
    >>> x = np.repeat([[1.0], [9.0]], 5_000, axis=0)
    >>> model = PrivateKMeans(2, epsilon=2.0, delta=1e-6, bounds=(0, 10), random_state=0).fit(x)
    >>> np.sort(model.cluster_centers_.ravel()).round().tolist(), model.transform(x).shape
    ([1.0, 9.0], (10000, 2))
    >>> bool((model.predict(x) == model.set_params(n_clusters=2).predict(x)).all()), model.fit_predict(x).shape
    (True, (10000,))
    >>> model.fit_transform(x).shape, model.get_feature_names_out()[0], model.get_params()["n_clusters"]
    ((10000, 2), 'privatekmeans0', 2)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        bounds: Any = None,
        max_iter: int = 5,
        clip_norm: Real | None = None,
        random_state: int | None = None,
        max_contributions: int = 1,
        keep: Keep = "random",
        neighboring_relation: NeighboringRelation | str = "add_or_remove_one",
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.max_iter = max_iter
        self.clip_norm = clip_norm
        self.random_state = random_state
        self.max_contributions = max_contributions
        self.keep = keep
        self.neighboring_relation = neighboring_relation

    def _learn(self, rows: Floats, unit: object) -> None:
        self.clusters_ = private_clusters(
            rows,
            self.n_clusters,
            bounds=self.bounds,
            num_rounds=self.max_iter,
            clip_norm=self.clip_norm,
            seed=self.random_state,
            **self._guarantee(unit),
        )
        self.cluster_centers_, self.n_iter_ = self.clusters_.centers, self.max_iter
        self._keep(self.clusters_)

    def predict(self, X: Any) -> npt.NDArray[np.intp]:  # noqa: N803
        """Return the place of the nearest center of each row.

        Parameters
        ----------
        X : (n, d) array
            An entry that is no finite number counts as the middle of the bounds.

        Returns
        -------
        (n,) ndarray of int

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If shape or dtype is not accepted.
        """
        found: npt.NDArray[np.intp] = self._fitted("clusters_").predict(self._rows(X))
        return found

    def fit_predict(self, X: Any, y: Any = None, *, unit: Any = None) -> npt.NDArray[np.intp]:  # noqa: N803
        """Fit, and return the clusters of the same rows: these are not private.

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
        (n,) ndarray of int

        Raises
        ------
        InvalidParameter, InvalidType, ValueError, TypeError
            As for `fit`.
        """
        return self.fit(X, unit=unit).predict(X)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the distance of each row to each center, in the units of the data.

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
        centers = self._fitted("cluster_centers_")
        rows = self._rows(X)
        with np.errstate(all="ignore"):
            rows = np.where(np.isfinite(rows), rows, centers.mean(axis=0))
            return np.column_stack([np.sqrt(((rows - each) ** 2).sum(axis=1)) for each in centers])

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return a name for each distance.

        Parameters
        ----------
        input_features : sequence of str, optional
            Not used.

        Returns
        -------
        (k,) ndarray of str

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        count = len(self._fitted("cluster_centers_"))
        return np.array([f"privatekmeans{i}" for i in range(count)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        return tags
