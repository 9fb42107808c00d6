"""What estimators share: parameters by name, and the functions of scikit-learn, imported by the first call."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.errors import InvalidParameter, MissingPackage

Floats: TypeAlias = npt.NDArray[np.float64]


class Estimator:
    """Parameters by name, as scikit-learn reads and sets them."""

    n_features_in_: int
    _metadata_request: Any

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

    def get_metadata_routing(self) -> Any:
        """Return which metadata methods take, for pipelines and searches with metadata routing.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
            A copy.

        Raises
        ------
        MissingPackage
            If scikit-learn is not installed.
        """
        held = getattr(self, "_metadata_request", None)
        return functions().request(self) if held is None else copy.deepcopy(held)

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
            input_tags=InputTags(allow_nan=True, string=True),
        )


class _Validation:
    """The functions of scikit-learn that estimators call."""

    def __init__(self) -> None:
        from sklearn.utils import column_or_1d
        from sklearn.utils.metadata_routing import MetadataRequest
        from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

        self.column_or_1d, self.check_consistent_length = column_or_1d, check_consistent_length
        self.check_is_fitted, self.validate_data = check_is_fitted, validate_data
        self.metadata_request = MetadataRequest

    def request(self, estimator: Estimator) -> Any:
        """Return what an estimator asks of metadata where nobody has said anything: all that it knows is refused."""
        found = self.metadata_request(owner=type(estimator).__name__)
        for method, name in (("fit", "unit"), ("score", "sample_weight")):
            call = getattr(estimator, method, None)
            if call is not None and name in inspect.signature(call).parameters:
                getattr(found, method).add_request(param=name, alias=None)
        return found

    def rows_of(self, estimator: Estimator, rows: Any, *, reset: bool = True) -> Any:
        """Return the checked rows. Objects stay objects: turning them into numbers would fail for some values."""
        rows = apart(rows)
        texts = getattr(getattr(rows, "dtype", None), "kind", "") in ("U", "S")
        # mutant: entries-that-are-no-numbers-raise
        dtype = "numeric" if texts else None
        return self.validate_data(estimator, rows, reset=reset, dtype=dtype, ensure_all_finite=False)

    def labels_of(self, estimator: Estimator, labels: Any, rows: Any) -> Any:
        """Return the labels of rows: a list as it is, an array with one dimension."""
        if labels is None:
            name = type(estimator).__name__
            raise InvalidParameter(f"{name} requires y to be passed, but the target y is None")
        if not isinstance(labels, (list, tuple)):
            labels = self.column_or_1d(labels, warn=True)
        self.check_consistent_length(rows, labels)
        return labels


def apart(rows: Any) -> Any:
    """Return a list of rows as an array in which no entry has the dtype that another one needs; all else as it is."""
    if not isinstance(rows, (list, tuple)):
        return rows
    try:
        array = np.asarray(rows)
        # mutant: list-of-rows-takes-the-type-of-one-entry
        return array if array.dtype.kind in "biuf" else np.array(rows, dtype=object)
    except ValueError:
        return rows  # of other lengths, which scikit-learn refuses


def functions() -> Any:
    """Return what is needed of scikit-learn, or refuse."""
    try:
        return _Validation()
    except ImportError:
        raise MissingPackage(
            'ferrodp.integrations.sklearn needs scikit-learn 1.6 or later: pip install "ferrodp[sklearn]"'
        ) from None
