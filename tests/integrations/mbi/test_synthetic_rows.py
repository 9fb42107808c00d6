"""Private tables in the real `mbi`: it minimizes the likelihood of what was measured, and rows follow from that."""

import itertools

import jax
import mbi as real
import numpy as np
import pytest

import ferrodp as fd
from ferrodp import _observer
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.integrations.mbi import fitted_model, measurements, synthetic_rows

SIZES = {"a": 2, "b": 3, "c": 4}
PUBLIC = {name: range(size) for name, size in SIZES.items()}


def survey(count=4000):
    """Columns that go together, so that a model of independent ones would be far off."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, count)
    b = (a + rng.integers(0, 2, count)) % 3
    return {"a": a, "b": b, "c": (a + b + rng.integers(0, 2, count)) % 4}


def counts(frame, columns):
    found = np.zeros([SIZES[name] for name in columns])
    np.add.at(found, tuple(frame[name] for name in columns), 1)
    return found


def released(frame, workload=2, epsilon=1.0, **options):
    return fd.private_marginals(frame, workload, categories=PUBLIC, epsilon=epsilon, delta=1e-6, **options)


def test_what_is_predicted_of_a_table_is_its_residual():
    """The query is I − J/n along each axis, as a dense matrix; residuals of what it gives are the same again."""
    table = np.random.default_rng(2).normal(size=(2, 3, 4))
    domain = real.Domain.fromdict(SIZES)
    (query,) = (each.query for each in measurements(released(survey(), 3)) if len(each.clique) == 3)
    with jax.enable_x64(True):
        found = np.asarray(query(real.Factor(domain, jax.numpy.asarray(table))))
        again = np.asarray(query(real.Factor(domain, jax.numpy.asarray(found.reshape(table.shape)))))
    matrix = np.ones((1, 1))
    for size in table.shape:
        matrix = np.kron(matrix, np.eye(size) - 1 / size)

    assert np.allclose(found, matrix @ table.reshape(-1), rtol=0, atol=1e-12)
    assert np.allclose(found, again, rtol=0, atol=1e-12)
    assert np.linalg.norm(matrix, 2) ** 2 == pytest.approx(query.op_norm_sq())


def test_measurements_are_those_of_the_tables():
    tables = released(survey())
    residuals = tables.residuals()

    found = measurements(tables)

    assert [each.clique for each in found] == list(residuals)
    for each in found:
        assert np.array_equal(each.noisy_measurement, residuals[each.clique].values.reshape(-1))
        assert each.stddev == residuals[each.clique].deviation


def test_without_noise_the_model_has_the_tables():
    """At ε = 10⁴ the noise has a deviation below a tenth of a row; the model is as close as mirror descent comes."""
    frame = survey()
    tables = released(frame, epsilon=1e4)

    model = fitted_model(tables, iterations=4000)

    for columns in tables:
        fitted = np.asarray(model.project(columns).datavector()).reshape([SIZES[name] for name in columns])
        assert abs(fitted - counts(frame, columns)).max() < 2.0


def test_a_model_is_at_least_as_close_to_the_truth_as_the_tables():
    """It adds what tables cannot: cells are not negative, and belong to one distribution. Sums over ten releases."""
    frame = survey(300)
    apart = np.zeros(2)
    for _ in range(10):
        tables = released(frame, epsilon=0.5)
        model = fitted_model(tables)
        for columns in tables:
            truth = counts(frame, columns)
            fitted = np.asarray(model.project(columns).datavector()).reshape(truth.shape)
            apart += ((fitted - truth) ** 2).sum(), ((tables.table(columns) - truth) ** 2).sum()

    assert apart[0] < apart[1]


def test_rows_have_the_tables_of_the_model_and_the_number_that_was_released():
    frame = survey()
    tables = released(frame)

    rows = synthetic_rows(tables)

    size = round(float(tables.table(())))
    assert list(rows) == ["a", "b", "c"]
    assert {len(column) for column in rows.values()} == {size}
    drawn = {name: np.asarray(column) for name, column in rows.items()}
    for columns in itertools.combinations(SIZES, 2):
        # rounding moves a cell by one row or two, noise by five deviations (1e-6 a cell)
        error = 5 * tables.standard_error(columns) + 5
        assert abs(counts(drawn, columns) - counts(frame, columns)).max() < error


def test_rows_have_public_values_and_none_for_others():
    frame = {"sex": ["f", "m", "x"] * 50, "age": [17.0, 30.0, 51.0] * 50}
    tables = fd.private_marginals(
        frame,
        2,
        categories={"sex": ["f", "m"]},
        bins={"age": [0, 18, 65]},
        missing="category",
        epsilon=10.0,
        delta=1e-6,
    )

    rows = synthetic_rows(tables.nonnegative(), 60)

    assert [len(column) for column in rows.values()] == [60, 60]
    assert set(zip(rows["sex"], rows["age"], strict=True)) >= {("f", "[0, 18)"), ("m", "[18, 65]"), (None, "[18, 65]")}
    assert set(rows["sex"]) <= {"f", "m", None}


def test_rows_of_an_empty_table_are_one_or_few():
    tables = released({name: np.zeros(0, np.int64) for name in SIZES}, 1)

    rows = synthetic_rows(tables, iterations=50)

    assert len(rows["a"]) == max(round(float(tables.table(()))), 1)


def test_nothing_is_released_or_charged_for_rows():
    recorder = _observer.Recorder()
    tables = released(survey(), 1)
    token = _observer.OBSERVER.set(recorder)
    try:
        released(survey(), 1)
        seen = len(recorder.log)
        with fd.budget(epsilon=1e-9):
            synthetic_rows(tables, 10, iterations=50)
    finally:
        _observer.OBSERVER.reset(token)

    assert (seen, len(recorder.log)) == (1, 1)


def test_the_precision_of_the_process_stays_as_it_was():
    before = jax.numpy.zeros(1).dtype

    synthetic_rows(released(survey(), 1), 10, iterations=50)

    assert jax.numpy.zeros(1).dtype == before == np.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: synthetic_rows({"a": [1]}), InvalidType, "tables must be PrivateMarginals, got dict"),
        (lambda t: measurements(None), InvalidType, r"got NoneType; fd\.private_marginals"),
        (lambda t: synthetic_rows(t, 0), InvalidParameter, "num_rows must be"),
        (lambda t: synthetic_rows(t, 10, iterations=0), InvalidParameter, "iterations must be"),
    ],
)
def test_bad_arguments_are_refused_with_a_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call(released(survey(), 1))


def test_models_with_large_cliques_are_refused():
    frame = {f"c{i}": [0] for i in range(8)}
    tables = fd.private_marginals(frame, 2, categories=dict.fromkeys(frame, range(8)), epsilon=1.0, delta=1e-6)

    with pytest.raises(InvalidParameter, match=r"at most 10000000 cells, got 16777216: measure fewer tables"):
        fitted_model(tables)
