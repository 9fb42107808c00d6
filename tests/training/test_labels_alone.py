"""What becomes of one record's label and features never depends on another record, whatever its type is."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.errors import InvalidArray, InvalidArrayType
from ferrodp.training import oriented_gradients, train
from ferrodp.training._rows import numbers, unit
from ferrodp.training.softmax import _known, _targets


class NotComparable:
    def __eq__(self, other):
        raise ArithmeticError("not comparable")

    __hash__ = object.__hash__


ODD = [
    0.5, "?", b"x", 3 + 4j, (1, 2), [1], {}, None, math.nan, math.inf, 10**400, -(10**400), True, np.float32(0.1),
    np.int8(1), np.array([1, 2]), np.datetime64("2020-01-01"), datetime.date(2020, 1, 1), Decimal("sNaN"),
    NotComparable(), np.str_("1"), np.longdouble(0.1), object, 2**53 + 1, np.uint64(2**63),
]  # fmt: skip

CLASSES = {
    "decimals": ([0.1, 0.2], [np.float32(0.1), np.float32(0.2)]),
    "large": ([2**53, 2**53 + 1], [2**53, 2**53 + 1]),
    "texts": (["1", "2"], ["1", "2"]),
    "numbers": ([0, 1], [0, 1]),
    "truth": ([False, True], [False, True]),
    "bytes": ([b"a", b"b"], [b"a", b"b"]),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("as_objects", [False, True])
def test_a_label_of_another_type_changes_no_other_label(name, as_objects):
    classes, labels = CLASSES[name]
    known = _known(classes)
    for odd in ODD:
        mixed = [*labels, odd, *labels]
        if as_objects:
            array = np.empty(len(mixed), object)
            array[:] = mixed
            mixed = array
        places = _targets(mixed, known, 5).tolist()
        assert places[:2] == places[3:] == [0, 1], odd


def test_integers_are_no_texts_in_any_list():
    known = _known(["1", "2"])
    assert _targets([1, 2], known, 2).tolist() == [-1, -1]
    assert _targets([1, 2, "?"], known, 3).tolist() == [-1, -1, -1]


@given(
    st.lists(st.sampled_from([0, 1, 2, 0.0, 1.0, True, "1", None, np.float32(1), np.int64(2), math.nan]), max_size=8)
)
@settings(deadline=None)
def test_a_label_has_the_place_that_it_has_alone(labels):
    known = _known([0, 1, 2])
    alone = [_targets([label], known, 1)[0] for label in labels]
    assert _targets(labels, known, len(labels)).tolist() == alone


@pytest.mark.parametrize(
    "array", [np.array([0, 1]), np.array([0.0, 1.0], np.float32), np.array([False, True]), range(2)]
)
def test_arrays_with_a_dtype_are_compared_by_it(array):
    assert _targets(array, _known([0, 1]), 2).tolist() == [0, 1]


@pytest.mark.parametrize("labels", [np.array(["0", "1"]), "01", np.array(["2020", "2021"], "M8[Y]")])
def test_a_dtype_that_no_class_has_is_refused(labels):
    with pytest.raises(InvalidArrayType):
        _targets(labels, _known([0, 1]), 2)


@pytest.mark.parametrize("labels", [[0], [0, 1, 1], np.zeros((2, 1))])
def test_another_number_of_labels_is_refused(labels):
    with pytest.raises(InvalidArray, match="labels must have the shape"):
        _targets(labels, _known([0, 1]), 2)


@pytest.mark.parametrize("others", [[1.0, 2.0], [1, 2**53 + 1], [True, False], [np.float32(0.1), 3]])
def test_features_of_another_type_change_no_other_row(others):
    alone = numbers([others], "features")
    for odd in [odd for odd in ODD if np.ndim(odd) == 0]:
        for rows in ([others, [odd, 1.0]], np.array([others, [odd, 1.0]], object)):
            found = numbers(rows, "features")
            assert found.shape == (2, 2)
            assert np.array_equal(found[:1], alone), odd
            assert np.isfinite(unit(found)).all()


@pytest.mark.parametrize("rows", [[[1.0], [1.0, 2.0]], [1.0, 2.0], [], [[1.0, 2.0], None]])
def test_rows_of_other_lengths_are_refused(rows):
    with pytest.raises(InvalidArray, match="features must have the shape"):
        train(rows, [0] * len(rows), epsilon=1.0, delta=1e-5, classes=[0, 1])


def test_one_odd_record_does_not_keep_others_from_being_learned():
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = [np.float32(0.1) if value > 0 else np.float32(0.2) for value in x[:, 0]]
    y[-1] = 0.5
    rows = x.tolist()
    rows[-1] = ["?", None]
    model = train(rows, y, epsilon=50.0, delta=1e-5, classes=[0.1, 0.2])
    assert (
        np.mean((model.predict(rows) == 0.1) == (x[:, 0] > 0)) > 0.9
    )  # with noise of ε = 50, and a margin of 36 errors


def test_an_image_of_another_type_changes_no_other_image():
    images = np.random.default_rng(0).uniform(size=(2, 64)).tolist()
    alone = oriented_gradients(images[:1], shape=(8, 8))
    images[1][3] = "?"
    assert np.array_equal(oriented_gradients(images, shape=(8, 8))[:1], alone)
