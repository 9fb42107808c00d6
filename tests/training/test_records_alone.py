"""What a record contributes to a step of the trainer is a function of that record and of releases, to the last bit.

A neighboring dataset lacks a record. If the others then contributed other numbers, by however little, the sum of a step
would move by more than that record's clipped gradient, and the sensitivity would not be the clip norm.
"""

from fractions import Fraction

import numpy as np
import pytest

from ferrodp.sums import UnitRows
from ferrodp.training import recipe
from ferrodp.training._rows import unit
from ferrodp.training.softmax import _Fitting, exact_scores

SHAPES = [(1, 1, 2), (2, 3, 2), (7, 64, 10), (33, 137, 10), (130, 5, 3), (300, 1030, 17)]


def fitting(n, d, classes, seed=0):
    rng = np.random.default_rng(seed)
    plan = recipe(epsilon=1.0, delta=1e-5, num_records=n, num_features=d)
    found = _Fitting(plan, unit(rng.normal(size=(n, d))), rng.integers(classes, size=n), classes)
    found.weights = rng.normal(size=found.weights.shape) * 10
    return found


@pytest.mark.parametrize(("n", "d", "classes"), SHAPES)
def test_scores_are_exact(n, d, classes):
    """Against ratios of integers: a score in floats that were rounded anywhere would differ from them."""
    rng = np.random.default_rng(d)
    rows = UnitRows(rng.normal(size=(n, d)))
    weights = rng.normal(size=(classes, d)) * 2.0 ** rng.integers(-30, 30)

    scores = exact_scores(rows, weights)

    shift = 50 - rows.bits - int(np.frexp(np.sqrt((weights**2).sum(axis=1)).max())[1])
    for i, j in zip(rng.integers(n, size=5), rng.integers(classes, size=5), strict=True):
        grid = [round(Fraction(float(w)) * Fraction(2) ** shift) for w in weights[j]]
        units = sum(int(m) * v for m, v in zip(rows.integers[i], grid, strict=True))
        assert Fraction(float(scores[i, j])) == units * Fraction(2) ** -(shift + rows.bits)


@pytest.mark.parametrize(("n", "d", "classes"), SHAPES)
def test_errors_do_not_depend_on_other_records(n, d, classes):
    training = fitting(n, d, classes)
    rows = training._prepared()
    together = training._errors(rows, training._targets)
    rng = np.random.default_rng(1)

    for size in {1, 2, 3, n - 1, n // 2} - {0}:
        some = np.sort(rng.permutation(n)[:size])
        assert np.array_equal(training._errors(rows[some], training._targets[some]), together[some]), size


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n", "d"), [(1, 5), (2, 9), (65, 137), (20, 9000)])
def test_units_do_not_depend_on_other_records(n, d, order):
    rows = np.random.default_rng(d).normal(size=(n, d))
    together = unit(np.asarray(rows, order=order))

    for i in range(n):
        assert np.array_equal(unit(rows[i : i + 1]), together[i : i + 1])


def test_products_of_the_basis_are_sums_of_integers():
    """Every error is a multiple of 2^-50 that came from integers below 2^53: no float was rounded on the way."""
    training = fitting(500, 20, 10)
    rows = training._prepared()
    errors = training._errors(rows, training._targets)

    units = np.ldexp(errors, 50)
    assert np.array_equal(units, np.rint(units))
    assert np.abs(units).max() < 2.0**52
