"""Features of images for pipelines of scikit-learn."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidParameter
from ferrodp.integrations.sklearn._estimator import Estimator, Floats, functions
from ferrodp.training import oriented_gradients

__all__ = ["OrientedGradients"]


class OrientedGradients(Estimator):
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
        rows = functions().rows_of(self, X)
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
        rows = functions().rows_of(self, X, reset=reset)
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
        functions().check_is_fitted(self, "n_features_in_")
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
