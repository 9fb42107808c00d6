"""Estimators for whole units: what counts, what is charged, and how units pass through pipelines and searches."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.metadata_routing import get_routing_for_object

from ferrodp.accounting import GdpAccountant
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.integrations.sklearn import (
    PrivateCategoricalNB,
    PrivateGaussianNB,
    PrivateKMeans,
    PrivateLinearRegression,
    PrivatePCA,
    PrivateRidge,
    PrivateStandardScaler,
)

GUARANTEE = {"epsilon": 4.0, "delta": 1e-5}
BOX = {**GUARANTEE, "bounds": (-3, 3)}
ESTIMATORS = [
    PrivateLinearRegression(target_bounds=(-1, 3), **BOX),
    PrivateRidge(target_bounds=(-1, 3), **BOX),
    PrivatePCA(2, **BOX),
    PrivateKMeans(3, random_state=0, **BOX),
    PrivateStandardScaler(**BOX),
    PrivateGaussianNB(classes=[0, 1], **BOX),
    PrivateCategoricalNB(classes=[0, 1], categories=2, **GUARANTEE),
]
EACH = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
Y = np.arange(4_000) % 2
X = np.column_stack([Y, np.arange(4_000) // 2 % 2, np.zeros(4_000)])
UNITS = np.repeat(np.arange(200), 20)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@EACH
def test_a_unit_is_charged_for_the_rows_that_count(estimator):
    model = clone(estimator).set_params(max_contributions=3, keep="first").fit(X, Y, unit=UNITS)
    released = next(vars(model)[name] for name in ("moments_", "clusters_", "scales_", "_model") if name in vars(model))

    assert released.unit == "one unit, with all of its rows, of which up to 3 count"
    accountant = GdpAccountant()
    accountant.compose(model.event_)
    assert accountant.epsilon(1e-5) <= 4.0
    assert clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).max_contributions == 3


@EACH
def test_units_are_checked_before_anything_is_drawn(estimator):
    for unit, error, message in [
        ("who", InvalidType, "unit must be an id for each row, got 'who'; to take a column of a table write"),
        (UNITS[:3], InvalidArray, "unit must have an id for each of 4000 rows, got 3"),
    ]:
        with pytest.raises(error, match=message):
            clone(estimator).fit(X, Y, unit=unit)
    with pytest.raises(InvalidParameter, match="max_contributions must be"):
        clone(estimator).set_params(max_contributions=0).fit(X, Y, unit=UNITS)
    with pytest.raises(InvalidParameter, match='keep must be "random" or "first"'):
        clone(estimator).set_params(keep="last").fit(X, Y, unit=UNITS)


def test_as_many_rows_of_a_unit_count_as_are_allowed():
    """200 units of 20 rows, of which 5 count: 1000 rows, with noise of 5·1.1·√2 in each class: 60 is ten deviations."""
    options = {"classes": [0, 1], "categories": 2, "max_contributions": 5, **GUARANTEE}
    for keep in ("random", "first"):
        model = PrivateCategoricalNB(keep=keep, **options).fit(X, Y, unit=UNITS)
        assert model.class_count_.sum() == pytest.approx(1_000, abs=15 * model._model.standard_error)
    first = model.class_count_  # of rows 0 to 4 of each unit, three are of class 0
    assert first[0] - first[1] == pytest.approx(200, abs=15 * model._model.standard_error)


def test_a_column_of_a_table_is_taken_out_of_it():
    table = pd.DataFrame(X, columns=list("abc")).assign(who=UNITS)
    scaler = PrivateStandardScaler(**BOX).fit(table, unit=table.pop("who"))

    assert scaler.feature_names_in_.tolist() == list("abc")


def test_a_step_of_a_pipeline_takes_units_by_its_name():
    pipeline = make_pipeline(
        PrivateStandardScaler(max_contributions=4, **BOX), PrivateGaussianNB(classes=[0, 1], **BOX)
    )
    pipeline.fit(X, Y, privatestandardscaler__unit=UNITS, privategaussiannb__unit=UNITS)

    assert "up to 1 count" in pipeline[-1]._model.unit


def test_units_are_routed_through_pipelines_and_cross_validation(routing):
    scaler = PrivateStandardScaler(max_contributions=4, **BOX).set_fit_request(unit="persons")
    bayes = PrivateGaussianNB(classes=[0, 1], max_contributions=4, **BOX).set_fit_request(unit="persons")
    pipeline = make_pipeline(scaler, bayes)
    pipeline.fit(X, Y, persons=UNITS)
    found = cross_validate(
        pipeline,
        X,
        Y,
        cv=GroupKFold(4),
        params={"persons": UNITS, "groups": UNITS},
        return_estimator=True,
    )

    assert np.isfinite(found["test_score"]).all()
    assert all("up to 4 count" in each[-1]._model.unit for each in [pipeline, *found["estimator"]])
    assert get_routing_for_object(clone(bayes)).fit.requests == {"unit": "persons"}


def test_units_that_nobody_asked_for_are_refused(routing):
    assert get_routing_for_object(PrivatePCA(**BOX)).fit.requests == {"unit": None}
    with pytest.raises(ValueError, match="unit"):
        make_pipeline(PrivatePCA(**BOX)).fit(X, Y, unit=UNITS)


CATEGORIES = {"sky": ["clear", "grey"], "wind": ["calm", "storm"]}


def test_categories_of_a_table_are_found_by_name_and_odd_values_raise_nothing():
    sky, wind = np.array(CATEGORIES["sky"])[Y], np.array(CATEGORIES["wind"])[Y]
    table = pd.DataFrame({"wind": wind, "sky": sky}, dtype=object)
    labels = np.array(["dry", "wet"])[Y]
    model = PrivateCategoricalNB(classes=["dry", "wet"], categories=CATEGORIES, epsilon=1.0, delta=0.0)
    for odd in (None, np.nan, 7, "fog"):
        table.loc[0, "sky"] = odd
        assert model.fit(table, labels).score(table[1:], labels[1:]) == 1.0
        assert np.isfinite(model.predict_log_proba(table)).all()
        assert model.predict_proba(table).sum(axis=1) == pytest.approx(1.0)
    assert model.n_categories_.tolist() == [2, 2]
    with pytest.raises(InvalidParameter, match="categories must name the columns of X"):
        clone(model).fit(table.rename(columns={"sky": "clouds"}), labels)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"categories": None}, "categories must be given, got None: the public values of each column"),
        ({"categories": 0}, "categories must be"),
        ({"categories": [[0, 1]]}, r"rows must have the shape \(n, 1\)"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"alpha": 1e101}, "smoothing must be at most 1e100"),
        ({"delta": None}, "epsilon and delta must be given"),
    ],
)
def test_parameters_of_categories_are_refused_by_fit(changed, message):
    options = {"classes": [0, 1], "categories": 2, **GUARANTEE} | changed
    with pytest.raises((InvalidParameter, InvalidType, InvalidArray), match=message):
        PrivateCategoricalNB(**options).fit(X, Y)
