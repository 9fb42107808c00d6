"""Each way out that a message of `integrations.sklearn` names is taken, and no place with one is without a row."""

import numpy as np
import pandas as pd
import pytest

from ferrodp.integrations.sklearn import (
    PrivateCategoricalNB,
    PrivateGaussianNB,
    PrivateKBinsDiscretizer,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStandardScaler,
)
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

X, Y = np.arange(60.0).reshape(20, 3), np.arange(20) % 2
GUARANTEE = {"epsilon": 1.0, "delta": 1e-6}


def classified(y=Y, **changes):
    PrivateLogisticRegression(**{**GUARANTEE, "classes": [0, 1], **changes}).fit(X, y)


def naive(y=Y, **changes):
    PrivateGaussianNB(**{**GUARANTEE, "bounds": (0, 100), "classes": [0, 1], **changes}).fit(X, y)


def scaled(**changes):
    PrivateStandardScaler(**{**GUARANTEE, "bounds": (0, 100), **changes}).fit(X)


def regressed(**changes):
    PrivateLinearRegression(**{**GUARANTEE, "bounds": (0, 100), "target_bounds": (0, 100), **changes}).fit(X, Y)


def categorical(**changes):
    PrivateCategoricalNB(**{**GUARANTEE, "classes": [0, 1], **changes}).fit(X % 3, Y)


def table():
    return pd.DataFrame(X, columns=list("abc")).assign(who=Y)


def binned(**changes):
    PrivateKBinsDiscretizer(**{"epsilon": 1.0, "bounds": (0, 100), **changes}).fit(X)


HINTS = [
    Hint(
        "the guarantee that the bins are to keep; for example epsilon=1.0",
        lambda c: binned(epsilon=None),
        lambda c: binned(epsilon=1.0),
    ),
    Hint(
        "leave constant columns out",
        lambda c: binned(bounds=([0, 0, 5], [60, 60, 5])),
        lambda c: binned(bounds=([0, 0, 0], [60, 60, 60])),
    ),
    Hint(
        "to take a column of a table write unit=X.pop('who')",
        lambda c: PrivateStandardScaler(**GUARANTEE, bounds=(0, 100)).fit(table(), unit="who"),
        lambda c: PrivateStandardScaler(**GUARANTEE, bounds=(0, 100)).fit(X := table(), unit=X.pop("who")),
    ),
    Hint(
        "the public values of each column, or how many there are; for example categories=3 for 0, 1 and 2",
        lambda c: categorical(),
        lambda c: (categorical(categories=3), categorical(categories=[[0, 1, 2]] * 3)),
    ),
    Hint(
        "the guarantee that the model is to keep; for example epsilon=1.0, delta=1e-6",
        lambda c: scaled(epsilon=None),
        lambda c: scaled(epsilon=1.0, delta=1e-6),
    ),
    Hint(
        "the guarantee that the model is to keep; for example epsilon=1.0, delta=1e-6",
        lambda c: classified(delta=None),
        lambda c: classified(epsilon=1.0, delta=1e-6),
    ),
    Hint(
        "or two sequences with a number for each; for example bounds=(0, 100)",
        lambda c: scaled(bounds=None),
        lambda c: (scaled(bounds=(0, 100)), scaled(bounds=([0, 0, 0], [100, 90, 80]))),
    ),
    Hint(
        "a public pair (lower, upper); for example (0, 100)",
        lambda c: regressed(target_bounds=None),
        lambda c: regressed(target_bounds=(0, 100)),
    ),
    Hint("pass the public list of classes", lambda c: naive(classes=None), lambda c: naive(classes=[0, 1])),
    Hint("pass the public list of classes", lambda c: classified(classes=None), lambda c: classified(classes=[0, 1])),
    Hint(
        "the labels must be of two classes at least, got one class; or pass classes",
        lambda c: naive(0 * Y, classes=None),
        lambda c: (naive(classes=None), naive(0 * Y, classes=[0, 1])),
    ),
    Hint(
        "the labels must be of two classes at least, got one class; or pass classes",
        lambda c: classified(0 * Y, classes=None),
        lambda c: (classified(classes=None), classified(0 * Y, classes=[0, 1])),
    ),
]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_sklearn_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_sklearn_is_without_a_test():
    assert_all_lead_out("sklearn", HINTS)
