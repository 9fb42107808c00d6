"""Mistakes of those who use the estimators, and what they are told."""

import numpy as np
import pytest

from ferrodp.errors import FerroError
from ferrodp.integrations.sklearn import PrivateLogisticRegression

X, Y = np.zeros((20, 3)), np.arange(20) % 2


def fit(x=X, y=Y, **changes):
    return PrivateLogisticRegression(**({"epsilon": 1.0, "delta": 1e-5, "classes": [0, 1]} | changes)).fit(x, y)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: fit(epsilon=None), ("epsilon and delta must be given", "the guarantee")),
        (lambda: fit(epsilon=-1), ("epsilon must be finite and > 0, got -1",)),
        (lambda: fit(delta=2.0), ("delta must be", "(0, 1)", "got 2.0")),
        (lambda: fit(x=[["a"]], y=[0]), ("numeric",)),
        (lambda: fit(y=Y[:3]), ("inconsistent numbers of samples",)),
        (lambda: fit().predict(X[:, :2]), ("X has 2 features", "expecting 3 features")),
        (lambda: PrivateLogisticRegression(epsilon=1.0, delta=1e-5).predict(X), ("is not fitted yet",)),
    ],
)
def test_a_mistake_with_sklearn_is_told_with_what_is_allowed(mistake, words):
    with pytest.raises((FerroError, ValueError, TypeError)) as caught:
        mistake()

    assert [word for word in words if word not in str(caught.value)] == [], caught.value
