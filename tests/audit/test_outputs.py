"""What an audit sees of outputs: every difference that whoever receives them could see."""

import collections
import dataclasses
import decimal
import fractions
import math
import struct

import numpy as np
import pytest

from ferrodp.audit import audit_callable
from ferrodp.audit._events.outputs import Outputs, joined, outputs_of

NAN, INF = math.nan, math.inf
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
RNG = np.random.default_rng(9)


@dataclasses.dataclass
class Report:
    total: object


@dataclasses.dataclass
class OtherReport:
    total: object


class Plain:
    def __init__(self, total):
        self.total = total


PAIRS = {
    "the sign of zero": (0.0, -0.0),
    "the sign of zero in an array": (np.array([1.0, 0.0]), np.array([1.0, -0.0])),
    "the sign of zero within": ({"a": [1, (0.0,)]}, {"a": [1, (-0.0,)]}),
    "float32": (np.float32(1.0), np.float64(1.0)),
    "float64 of numpy": (1.0, np.float64(1.0)),
    "float32 in an array": (np.ones(3, np.float32), np.ones(3)),
    "an integer": (1, 1.0),
    "a truth value": (1, True),
    "int32": (np.int64(1), np.int32(1)),
    "an unsigned integer": (np.int64(1), np.uint64(1)),
    "a truth value of numpy": (True, np.bool_(True)),
    "a tuple": ([1.0, 2.0], (1.0, 2.0)),
    "an array": ([1.0, 2.0], np.array([1.0, 2.0])),
    "an array without axes": (np.float64(1.0), np.array(1.0)),
    "a shape": (np.ones((2, 3)), np.ones((3, 2))),
    "a kind of mapping": ({"a": 1.0}, collections.OrderedDict(a=1.0)),
    "the order of keys": ({"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}),
    "a type within": ({"a": [1.0, 2.0]}, {"a": [1.0, 2]}),
    "a dtype within": ([np.ones(2)], [np.ones(2, np.float16)]),
    "the order of bytes": (np.ones(2, "<f8"), np.ones(2, ">f8")),
    "nothing": (None, 0.0),
    "nothing instead of NaN": (None, NAN),
    "NaN": (NAN, 1.0),
    "bits of NaN": (NAN, OTHER_NAN),
    "bits of NaN in an array": (np.array([NAN, 1.0]), np.array([OTHER_NAN, 1.0])),
    "infinity": (INF, 1.0),
    "the sign of infinity": (INF, -INF),
    "NaN instead of infinity": (NAN, INF),
    "infinity in an array": (np.array([INF, INF]), np.array([INF, -INF])),
    "text": ("yes", "no"),
    "bytes": ("yes", b"yes"),
    "digits in a text": ("1.0", "1.00"),
    "a set": ({1, 2}, frozenset({1, 2})),
    "a class": (Report(1.0), OtherReport(1.0)),
    "a value of a class": (Report(1.0), Report(2.0)),
    "a value of a plain object": (Plain(1.0), Plain(2.0)),
    "a decimal": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "a fraction": (fractions.Fraction(1, 3), 1 / 3),
    "a whole number beyond 2^53": (2**53, 2**53 + 1),
    "a whole number beyond 2^53 in an array": (np.array([2**60, 1]), np.array([2**60 + 1, 1])),
    "a whole number beyond floats": (10**400, 10**400 + 1),
    "a complex number": (1 + 1j, 1 - 1j),
    "an exception that is returned": (ValueError("x"), ValueError("y")),
    "a subclass of float": (1.0, type("Float", (float,), {})(1.0)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_outputs_that_differ_with_certainty_are_told_apart(name):
    one, other = PAIRS[name]
    report = audit_callable(lambda value: other if value else one, neighbors=(0, 1), epsilon=1.0, delta=0.0, draws=600)

    assert report.violation
    assert report.epsilon_lower_bound > 2.0
    assert str(report)


@pytest.mark.parametrize("name", PAIRS)
def test_outputs_that_are_the_same_are_not_accused(name):
    """Nor those that are one or the other by a fair coin; each with probability 1e-9 at most."""
    one, other = PAIRS[name]
    options = {"neighbors": (0, 1), "epsilon": 0.5, "delta": 0.0, "confidence": 1.0 - 1e-9}
    for release in (lambda value: one, lambda value: other if RNG.random() < 0.5 else one):
        report = audit_callable(release, draws=600, **options)
        assert not report.violation
        assert str(report)


def test_an_exception_that_is_raised_is_not_one_that_is_returned():
    def release(value):
        if value:
            raise ValueError("x")
        return ValueError("x")

    assert audit_callable(release, neighbors=(0, 1), epsilon=1.0, delta=0.0, draws=600).violation


@pytest.mark.parametrize(
    "strange", [(NAN, 1.0), (INF, NAN), (INF, -INF), (-INF, 0.5), (NAN, OTHER_NAN), (-0.0, 0.0)], ids=str
)
@pytest.mark.parametrize("width", [None, 1, 5])
def test_numbers_that_are_not_finite_are_counted_in_any_mixture(strange, width):
    """P = 0.9 and 0.1: ε = ln 9 = 2.2 of one number, and noise in the others."""

    def release(value, n):
        chosen = np.where(RNG.random(n) < (0.9 if value else 0.1), *strange)
        if width is None:
            return chosen
        found = RNG.normal(size=(n, width))
        found[:, 0] = chosen
        return found

    for claim, is_violated in ((1.5, True), (2.2, False)):
        report = audit_callable(
            None, neighbors=(0, 1), epsilon=claim, delta=0.0, draws=8000, release_many=release, confidence=1.0 - 1e-9
        )
        assert report.violation == is_violated
        assert str(report)


def test_the_dtype_of_rows_is_seen():
    """Of arrays that `release_many` returns, and where the kind is one of two in each call."""
    for one, other in (
        (np.zeros(4, np.float32), np.zeros(4)),
        (np.zeros((4, 2)), np.zeros((4, 2), np.int64)),
        (np.zeros(4, ">f8"), np.zeros(4)),
    ):
        assert outputs_of(one).kinds != outputs_of(other).kinds


def test_numbers_in_a_text_are_numbers():
    found = outputs_of(["total 1.5 of -3e2", "total 2 of inf"])

    assert found.columns.tolist() == [[1.5, 2.0], [-300.0, INF]]
    assert found.kinds == ["'total 1.5 of -3e2'", "'total 2 of inf'"]


def test_outputs_of_several_calls_are_joined_whatever_their_form():
    parts = [outputs_of([1.0, 2.0]), outputs_of(["a", (1.0, 2**60 + 1)]), outputs_of(np.ones((2, 3)))]
    found = joined(parts)

    assert isinstance(found, Outputs)
    assert found.size == 6
    assert found.width == 3
    assert found.kinds == ["float", "float", "'a'", "tuple of (float, int)", *["array of float64, shape (3,)"] * 2]
    assert found.rests is not None
    assert found.rests[1].tolist() == [0, 0, 0, 1, 0, 0]
    assert len(set(found.identities().tolist())) == 5
    assert found.part(1, 4).identities().tolist() == found.identities().tolist()[1:4]
