"""Statistics of columns that pandas and polars hold, where these are installed: the numbers of a plain array."""

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidArrayType, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.statistics._column import column, read

NUMBERS = [3, 0, 7, 7, 1, -2, 3, 3]
TRUTHS = [True, False, True, True, False, False, True, False]


def seeded():
    return fd.testing.seeded(b"columns of several libraries, 32")


def statistics(values):
    """All statistics of a column, under one seed each."""
    keywords = {"epsilon": 1.0}
    return [
        fd.private_count(values, source=seeded(), **keywords).value,
        fd.private_sum(values, bounds=(-1.5, 5), source=seeded(), **keywords).value,
        fd.private_mean(values, bounds=(-1.5, 5), source=seeded(), **keywords).value,
        fd.private_histogram(values, bins=[-2, 0, 2, 7], source=seeded(), **keywords).value.tolist(),
        fd.private_histogram(values, categories=[7, 0, 3], source=seeded(), **keywords).value.tolist(),
        fd.private_quantile(values, 0.5, bounds=(-4, 8), source=seeded(), **keywords).value,
    ]


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


@pytest.fixture
def polars():
    return pytest.importorskip("polars")


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.uint64, np.float32, np.float64])
def test_pandas_columns_of_numpy_dtypes_are_arrays(pandas, dtype):
    numbers = np.array(TRUTHS if dtype is np.bool_ else NUMBERS, np.int64).astype(dtype)
    series = pandas.Series(numbers)
    frame = pandas.DataFrame({"a": numbers, "b": numbers, "c": 1.5})

    for values in (series, frame["a"], series.set_axis(list("abcdefgh"))):
        assert statistics(values) == statistics(numbers)
    assert np.shares_memory(column(series).values, series.to_numpy())
    assert statistics(series[2:7]) == statistics(numbers[2:7])
    assert statistics(series[::-2]) == statistics(numbers[::-2])
    assert statistics(pandas.Index(numbers)) == statistics(numbers)


def test_what_pandas_takes_for_missing_is_nan(pandas):
    series = pandas.Series([1.0, None, 3.0])
    assert series.dtype == np.float64
    assert statistics(series) == statistics(np.array([1.0, np.nan, 3.0]))


@pytest.mark.parametrize("kind", ["Int64", "Int8", "UInt64", "Float64", "boolean", "int64[pyarrow]", "bool[pyarrow]"])
def test_nullable_columns_are_those_of_their_present_values(pandas, kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    plain = [None if i in (1, 5) else value for i, value in enumerate(TRUTHS if "bool" in kind else [1, 0, 7, 3] * 2)]
    rest = np.array([value for value in plain if value is not None])
    dtype = np.float64 if kind == "Float64" else rest.dtype

    assert statistics(pandas.Series(plain, dtype=kind)) == statistics(rest.astype(dtype))
    assert statistics(pandas.Index(plain, dtype=kind)) == statistics(rest.astype(dtype))
    assert column(pandas.Series(rest, dtype=kind)).can_miss


def test_arrow_columns_are_those_of_their_present_values():
    pyarrow = pytest.importorskip("pyarrow")
    for kind in ("int64", "uint8", "float64", "bool_"):
        plain = [1, None, 0, 1, 1, None]
        typed = [None if value is None else bool(value) if kind == "bool_" else value for value in plain]
        dtype = {"bool_": np.bool_, "float64": np.float64}.get(kind, np.int64)
        rest = np.array([1, 0, 1, 1]).astype(dtype)
        whole = pyarrow.array(typed, type=getattr(pyarrow, kind)())
        for values in (whole, pyarrow.chunked_array([whole[:2], whole[2:]])):
            assert statistics(values) == statistics(rest)


@pytest.mark.parametrize("holder", ["list", "numpy", "pandas", "category", "polars", "enum", "arrow", "dictionary"])
def test_strings_are_counted_by_category_and_missing_ones_in_none(holder, request):
    texts = ["red", None, "blue", "red", "green", "red"]
    values = texts
    if holder == "numpy":
        values = np.array([text or "" for text in texts])
    elif holder in ("pandas", "category"):
        pandas = request.getfixturevalue("pandas")
        values = pandas.Series(texts, dtype="category" if holder == "category" else "str")
    elif holder in ("polars", "enum"):
        polars = request.getfixturevalue("polars")
        values = polars.Series(
            texts, dtype=polars.Enum(["blue", "red", "green"]) if holder == "enum" else polars.String
        )
    elif holder in ("arrow", "dictionary"):
        pyarrow = pytest.importorskip("pyarrow")
        values = pyarrow.array(texts)
        values = values.dictionary_encode() if holder == "dictionary" else values

    found = fd.private_histogram(values, categories=["blue", "red", "mauve"], epsilon=1.0, source=seeded())
    due = fd.private_histogram([2, 0, 1, 2, 0, 2], categories=[1, 2, 3], epsilon=1.0, source=seeded())
    assert found.value.tolist() == due.value.tolist()
    assert found.labels == ("blue", "red", "mauve")
    count = fd.private_count(values, epsilon=1.0, source=seeded())
    present = 6 if holder == "numpy" else 5
    assert int(count) == int(fd.private_count([1.0] * present, epsilon=1.0, source=seeded()))
    if holder == "list":  # is accepted whatever is in it: one element would decide
        return
    with pytest.raises(InvalidArrayType, match="convert it with"):
        fd.private_sum(values, bounds=(0, 1), epsilon=1.0)


def test_labels_of_any_type_never_raise(pandas):
    class Hostile:
        def __eq__(self, other):
            raise RuntimeError("secret")

        __hash__ = None

    values = pandas.Series(["a", Hostile(), None, float("nan"), [1], pandas.NA, 1, "a"], dtype=object)
    found = fd.private_histogram(values, categories=["a", "b"], epsilon=9.0, source=seeded())
    assert found.value.tolist() == (
        fd.private_histogram(["a", "a"], categories=["a", "b"], epsilon=9.0, source=seeded()).value.tolist()
    )
    assert int(fd.private_count(values, epsilon=1.0, source=seeded())) == int(
        fd.private_count([1.0] * 5, epsilon=1.0, source=seeded())
    )


def test_other_pandas_columns_are_refused_and_the_conversion_named(pandas):
    columns = [
        pandas.Series(["a", "b"]),
        pandas.Series([1, "b"], dtype=object),
        pandas.Series([1, 2, 1], dtype="category"),
        pandas.Series(pandas.to_datetime(["2020-01-01"])),
        pandas.Series(pandas.to_timedelta(["1s"])),
        pandas.Series([1 + 2j]),
        pandas.Series([0, 0, 1], dtype="Sparse[int64]"),
        pandas.Series(pandas.interval_range(0, 3)),
        pandas.array([1, 2], dtype="Int64"),
        pandas.array([1, 2], dtype=np.dtype("int64")),
        pandas.DataFrame({"a": [1, 2]}),
        pandas.DataFrame({"dtype": [2**40 + 1, 2]}),
        pandas.Categorical([1, 2]),
        pandas.NA,
    ]
    for values in columns:
        with pytest.raises(InvalidArrayType) as caught:
            statistics(values)[1]
        assert str(2**40 + 1) not in str(caught.value)
        with pytest.raises(InvalidArrayType, match=r"convert|must be"):
            fd.private_mean(values, bounds=(0, 1), epsilon=1.0)


@pytest.mark.parametrize("dtype", ["Boolean", "Int8", "Int16", "Int64", "UInt8", "UInt64", "Float32", "Float64"])
def test_polars_columns_are_arrays(polars, dtype):
    plain = TRUTHS if dtype == "Boolean" else [abs(number) for number in NUMBERS]
    series = polars.Series("a", plain, dtype=getattr(polars, dtype))
    numbers = series.to_numpy()
    frame = polars.DataFrame({"a": series, "b": series})

    for values in (series, frame["a"], series.rename("b")):
        assert statistics(values) == statistics(numbers)
    assert dtype == "Boolean" or np.shares_memory(column(series).values, numbers)
    assert statistics(series[2:7]) == statistics(numbers[2:7])
    assert statistics(series[::-2]) == statistics(numbers[::-2])
    chunked = polars.concat([series[:3], series[3:4], series[4:]], rechunk=False)
    assert chunked.n_chunks() == 3
    assert statistics(chunked) == statistics(numbers)


@pytest.mark.parametrize("dtype", ["Boolean", "Int32", "UInt64", "Float64"])
def test_nulls_of_polars_are_left_out_and_never_raise(polars, dtype):
    plain = [None if i in (1, 5) else value for i, value in enumerate(TRUTHS if dtype == "Boolean" else [1, 0] * 4)]
    rest = [value for value in plain if value is not None]
    series, present = (polars.Series(values, dtype=getattr(polars, dtype)) for values in (plain, rest))

    assert statistics(series) == statistics(present.to_numpy())
    for values in (series[:2], polars.concat([series[:4], series[4:]], rechunk=False)):
        assert read(values).nulls.tolist() == [value is None for value in values]
    assert read(present).nulls is None
    assert column(present).can_miss
    assert statistics(polars.Series([None] * 3, dtype=getattr(polars, dtype)))[3] == statistics([])[3]


def test_one_null_does_not_change_what_the_others_are(polars):
    """Integers that no float denotes would all move if they became floats for the sake of one null."""
    large = [2**53 + 1] * 100
    for values in (large, [*large, None]):
        found = fd.private_histogram(polars.Series(values), categories=[2**53, 2**53 + 1], epsilon=8.0, source=seeded())
        assert abs(found.value - [0, 100]).max() < 10


def test_other_things_of_polars_are_refused_without_quoting_them(polars):
    secret = "secret-category"
    columns = [
        polars.Series([secret], dtype=polars.Enum([secret])),
        polars.Series([secret], dtype=polars.Categorical),
        polars.Series([[1, 2]]),
        polars.Series([{"a": 1}]),
        polars.Series([object()]),
        polars.Series([None]),
        polars.Series([1], dtype=polars.Decimal(10, 2)),
        polars.Series([1], dtype=polars.Int128),
        polars.Series([1], dtype=polars.Date),
        polars.Series([1], dtype=polars.Duration("us")),
        polars.DataFrame({"a": [1]}),
        polars.LazyFrame({"a": [1]}),
        polars.col("a"),
    ]
    for values in columns:
        with pytest.raises(InvalidArrayType) as caught:
            fd.private_sum(values, bounds=(0, 1), epsilon=1.0)
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    "statistic",
    [
        lambda values, **keywords: fd.private_mean(values, bounds=(10, 20), **keywords),
        lambda values, **keywords: fd.private_variance(values, bounds=(10, 20), **keywords),
        lambda values, **keywords: fd.private_standard_deviation(values, bounds=(10, 20), **keywords),
        lambda values, **keywords: fd.private_quantile(values, 0.9, bounds=(10, 20), **keywords),
        lambda values, **keywords: fd.private_quantiles(values, [0.1, 0.9], bounds=(10, 20), **keywords),
        lambda values, **keywords: fd.private_median(values, bounds=(10, 20), **keywords),
        lambda values, **keywords: fd.private_bounds(values, **keywords),
    ],
)
def test_a_null_record_does_not_count_as_a_zero_where_zeros_move_results(statistic):
    """As a zero it would be as far from a value as any other row: the sensitivity of rows that are replaced."""
    keywords = {"epsilon": 1.0, "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL, "source": seeded()}
    statistic([11.0, np.nan], **keywords)
    with pytest.raises(InvalidParameter, match=r'must be "drop" under REPLACE_SPECIAL.*use REPLACE_ONE'):
        statistic([11.0, np.nan], missing="zero", **keywords)


@pytest.mark.parametrize("missing", ["drop", "zero"])
@pytest.mark.parametrize("bounds", [(10, 20), (-5, 10), (-20, -10)])
@pytest.mark.parametrize("value", [-30.0, -5.0, 0.0, 15.0, 30.0, np.inf, -np.inf])
def test_a_null_record_moves_a_sum_by_no_more_than_the_larger_bound(missing, bounds, value):
    """The noise is that of the seed both times, so that results differ by what the row moves."""
    keywords = {"epsilon": 1.0, "missing": missing, "neighboring_relation": NeighboringRelation.REPLACE_SPECIAL}
    here, there = (
        fd.private_sum([12.0, each], bounds=bounds, source=seeded(), **keywords).value for each in (value, np.nan)
    )
    assert abs(here - there) <= max(map(abs, bounds)) * (1 + 1e-6)


def test_what_a_missing_element_of_a_list_stands_for_is_not_guessed():
    """Among truth values it would count as false, among numbers as a row; and one element would decide."""
    for values in ([None] * 5, (None,), [], [None, True], [None, 1.0], np.array([None, True])):
        with pytest.raises(InvalidParameter, match=r'missing must be "drop" for (a list|objects)'):
            fd.private_count(values, missing="zero", epsilon=1.0)
        assert isinstance(fd.private_count(values, epsilon=1.0).value, int)


def test_one_missing_truth_value_does_not_make_the_false_ones_count():
    """pandas makes objects of a column of truth values as soon as one is missing. False alarm 2e-8."""
    pandas = pytest.importorskip("pandas")
    whole = pandas.DataFrame([{"flag": False}] * 1000 + [{"flag": True}] * 10).flag
    missing = pandas.DataFrame([{"flag": False}] * 1000 + [{"flag": True}] * 10 + [{"flag": None}]).flag
    assert (whole.dtype, missing.dtype) == (np.dtype(bool), np.dtype(object))
    for values in (whole, missing, np.array([*whole, None, np.nan, np.False_], dtype=object)):
        assert fd.private_count(values, epsilon=20.0).value == 10
    assert fd.private_count(missing.astype("boolean"), epsilon=20.0, missing="zero").value == 10
    assert fd.private_count(np.array(["", "x", None, 0, 0.0, False], dtype=object), epsilon=20.0).value == 4


def test_a_count_has_the_limit_of_rows_that_quantiles_have():
    for one in (1.0, True):
        with pytest.raises(InvalidParameter, match="at most 8589934592 rows"):
            fd.private_count(np.broadcast_to(one, 2**40), epsilon=1.0)
