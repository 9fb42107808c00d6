"""Mistakes of those who use the estimators, and what they are told."""

import numpy as np
import pytest

from ferrodp.integrations.sklearn import PrivateLogisticRegression
from support.mistakes import Mistake, Reason, objections

X, Y = np.zeros((20, 3)), np.arange(20) % 2


def fit(x=X, y=Y, **changes):
    return PrivateLogisticRegression(**({"epsilon": 1.0, "delta": 1e-5, "classes": [0, 1]} | changes)).fit(x, y)


MISTAKES = [
    Mistake(
        "no epsilon",
        lambda c: fit(epsilon=None),
        "epsilon and delta must",
        "got None and 1e-05",
        "the guarantee that the model is to keep",
        "for example epsilon=1.0, delta=1e-6",
    ),
    Mistake(
        "a negative epsilon",
        lambda c: fit(epsilon=-1),
        "epsilon",
        "got -1",
        "finite and > 0",
        "for example epsilon=1.0",
    ),
    Mistake(
        "a delta of 2",
        lambda c: fit(delta=2.0),
        "delta",
        "got 2.0",
        "finite and in (0, 1)",
        "for example delta=1e-6",
    ),
    Mistake(
        "a misspelt keyword of a class",
        lambda c: PrivateLogisticRegression(epsilom=1.0),
        "'epsilom'",
        Reason.NOT_LOOKED_AT,
        "it takes epsilon",
        "did you mean 'epsilon'",
    ),
    Mistake(
        "text for features",
        lambda c: fit(x=np.array([["secret"]]), y=[0]),
        Reason.FRAMEWORKS_OWN,
        "bytes/strings",
        "dtype='numeric'",
        "Convert your data to numeric values explicitly",
    ),
    Mistake(
        "fewer labels than records",
        lambda c: fit(y=Y[:3]),
        "input variables",
        "[20, 3]",
        "inconsistent numbers of samples",
        Reason.FRAMEWORKS_OWN,
    ),
    Mistake(
        "fewer features than in training",
        lambda c: fit().predict(X[:, :2]),
        Reason.FRAMEWORKS_OWN,
        "X has 2 features",
        "is expecting 3 features",
        Reason.FRAMEWORKS_OWN,
    ),
    Mistake(
        "a model that is not fitted",
        lambda c: PrivateLogisticRegression(epsilon=1.0, delta=1e-5).predict(X),
        Reason.FRAMEWORKS_OWN,
        "This PrivateLogisticRegression instance",
        "is not fitted yet",
        "Call 'fit' with appropriate arguments",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_sklearn_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
