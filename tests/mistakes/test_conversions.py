"""The conversion that the refusal of a column or an array names is run, on data with missing values in it.

The expression in the message is evaluated as it stands. What comes back is given to the same call; if that names
another conversion (a column of a table, then a type), it is run too. In the end the mean has to be that of the rows
that are there, whatever the missing ones are stored as.
"""

import datetime
import decimal
import fractions
import re
import uuid
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import FerroError
from ferrodp.testing import seeded

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.compute")
sparse = pytest.importorskip("scipy.sparse")

SEED = bytes(32)
ROWS, MISSING = 900, 100
DAY = datetime.date(2020, 1, 1)
MIDNIGHT = datetime.datetime(2020, 1, 1)  # a time without a zone is a type of its own
ZONED = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
DAYS = 18262.0
SECONDS = DAYS * 86400
WRITTEN = re.compile(
    r"; (?:convert it (?:to [a-z ]+ )?with|or, of numbers in texts, with|list its elements in an order:|pass|"
    r"one of its (?:columns|fields) is|a single one is written as) ([^;]+?)"
    r"(?:: [^;]*|, and fd[^;]*|, or one[^;]*| if nothing[^;]*)?(?=;|$)"
)
"""Where in a message the expression stands."""
NAMES = {"numpy": np, "pandas": pandas, "polars": polars, "pyarrow": pyarrow}


def mixed(value: Any) -> list[Any]:
    """Return rows of one value, and missing ones."""
    return [value] * ROWS + [None] * MISSING


TEXTS = ["7"] * ROWS + ["x"] * (MISSING // 2) + [None] * (MISSING // 2)
_DATES = np.array([np.datetime64("2020-01-01")] * ROWS + [np.datetime64("NaT")] * MISSING)
_ZONED = pandas.Series(mixed(pandas.Timestamp(ZONED).tz_convert("Europe/Paris")))
_STAMPS = pandas.Series(mixed(pandas.Timestamp(MIDNIGHT)))
_MASK = [False] * ROWS + [True] * MISSING
COLUMNS: dict[str, tuple[Any, float]] = {
    "numpy days": (_DATES, DAYS),
    "numpy nanoseconds": (_DATES.astype("M8[ns]"), DAYS),
    "numpy years": (_DATES.astype("M8[Y]"), DAYS),
    "numpy hours": (np.array([np.timedelta64(48, "h")] * ROWS + [np.timedelta64("NaT")] * MISSING), 2),
    "numpy months": (np.array([np.timedelta64(2, "M")] * ROWS + [np.timedelta64("NaT")] * MISSING), 2),
    "numpy durations of years": (np.array([np.timedelta64(2, "Y")] * ROWS + [np.timedelta64("NaT")] * MISSING), 24),
    "numpy strings": (np.array(["7"] * ROWS + ["x"] * MISSING), 7),
    "numpy bytes": (np.array([b"7"] * ROWS + [b"x"] * MISSING), 7),
    "numpy decimals": (np.array(mixed(decimal.Decimal(7)), object), 7),
    "numpy fractions": (np.array(mixed(fractions.Fraction(7)), object), 7),
    "numpy complex": (np.array([7 + 1j] * ROWS + [np.nan] * MISSING), 7),
    "numpy long floats": (np.array([7] * ROWS + [np.nan] * MISSING, np.longdouble), 7),
    "numpy masked integers": (np.ma.array([7] * ROWS + [99] * MISSING, mask=_MASK), 7),
    "numpy masked floats": (np.ma.array([7.0] * ROWS + [99.0] * MISSING, mask=_MASK), 7),
    "numpy masked texts": (np.ma.array(["7"] * ROWS + ["99"] * MISSING, mask=_MASK), 7),
    "numpy masked objects": (np.ma.array(["7"] * ROWS + ["99"] * MISSING, mask=_MASK).astype(object), 7),
    "numpy masked dates": (np.ma.array(_DATES, mask=_MASK), DAYS),
    "numpy records": (np.array([(7.0,)] * ROWS + [(np.nan,)] * MISSING, dtype=[("a", float)]), 7),
    "numpy two dimensions": (np.array([[7.0, 1.0]] * ROWS + [[np.nan, 1.0]] * MISSING), 7),
    "pandas datetimes": (_STAMPS, DAYS),
    "pandas datetimes of seconds": (_STAMPS.astype("M8[s]"), DAYS),
    "pandas datetimes with a zone": (_ZONED, DAYS),
    "pandas index of datetimes": (pandas.DatetimeIndex(_STAMPS), DAYS),
    "pandas index with a zone": (pandas.DatetimeIndex(_ZONED), DAYS),
    "pandas durations": (pandas.Series(mixed(pandas.Timedelta(days=2))), 2),
    "pandas periods": (pandas.Series(mixed(pandas.Period("2020-01", "M"))), DAYS),
    "pandas index of periods": (pandas.PeriodIndex(["2020-01"] * ROWS + ["NaT"] * MISSING, freq="M"), DAYS),
    "pandas intervals": (
        pandas.Series(pandas.arrays.IntervalArray([pandas.Interval(6, 8)] * ROWS + [np.nan] * MISSING)),
        7,
    ),
    "pandas index of intervals": (pandas.IntervalIndex([pandas.Interval(6, 8)] * ROWS + [np.nan] * MISSING), 7),
    "pandas strings": (pandas.Series(TEXTS), 7),
    "pandas nullable strings": (pandas.Series(TEXTS, dtype="string"), 7),
    "pandas objects": (pandas.Series(TEXTS, dtype=object), 7),
    "pandas decimals": (pandas.Series(mixed(decimal.Decimal(7)), dtype=object), 7),
    "pandas categories": (pandas.Series(TEXTS, dtype="category"), 7),
    "pandas numbers as categories": (pandas.Series(mixed(7)).astype("Int64").astype("category"), 7),
    "pandas dates as categories": (_STAMPS.astype("category"), DAYS),
    "pandas zoned categories": (_ZONED.astype("category"), DAYS),
    "pandas index of categories": (pandas.CategoricalIndex(TEXTS), 7),
    "pandas index of dates as categories": (pandas.CategoricalIndex(_STAMPS), DAYS),
    "pandas sparse": (pandas.Series(pandas.arrays.SparseArray([7.0] * ROWS + [np.nan] * MISSING)), 7),
    "pandas complex": (pandas.Series([7 + 0j] * ROWS + [np.nan] * MISSING), 7),
    "pandas array": (pandas.array(mixed(7)), 7),
    "pandas array of strings": (pandas.array(TEXTS), 7),
    "pandas table": (pandas.DataFrame({"name": [7.0] * ROWS + [np.nan] * MISSING}), 7),
    "arrow table": (pyarrow.table({"name": pyarrow.array(mixed(7))}), 7),
    "arrow dictionary": (pyarrow.array(TEXTS).dictionary_encode(), 7),
    "arrow runs": (pyarrow.compute.run_end_encode(pyarrow.array(mixed(7))), 7),
    "polars table": (polars.DataFrame({"name": mixed(7)}), 7),
    "polars plan": (polars.DataFrame({"name": mixed(7)}).lazy(), 7),
    "generator": ((each for each in mixed(7.0)), 7),
    "scipy": (sparse.csr_array(np.full((ROWS, 1), 7.0)), 7),
}
_ARROW = [
    (pyarrow.string(), TEXTS, 7),
    (pyarrow.large_string(), TEXTS, 7),
    (pyarrow.string_view(), TEXTS, 7),
    (pyarrow.binary(), mixed(b"7"), 7),
    (pyarrow.date32(), mixed(DAY), DAYS),
    (pyarrow.date64(), mixed(DAY), SECONDS * 1e3),
    (pyarrow.timestamp("us"), mixed(MIDNIGHT), SECONDS * 1e6),
    (pyarrow.timestamp("ns"), mixed(MIDNIGHT), SECONDS * 1e9),
    (pyarrow.timestamp("us", "UTC"), mixed(ZONED), SECONDS * 1e6),
    (pyarrow.timestamp("ns", "UTC"), mixed(ZONED), SECONDS * 1e9),
    (pyarrow.duration("s"), mixed(datetime.timedelta(2)), 2 * 86400),
    (pyarrow.time32("s"), mixed(datetime.time(1)), 3600),
    (pyarrow.time64("us"), mixed(datetime.time(1)), 3600e6),
    (pyarrow.decimal128(5, 2), mixed(decimal.Decimal(7)), 7),
    (pyarrow.decimal32(5, 2), mixed(decimal.Decimal(7)), 7),
    (pyarrow.float16(), mixed(np.float16(7)), 7),
]
for _type, _rows, _mean in _ARROW:
    _array = pyarrow.array(_rows, _type)
    COLUMNS[f"arrow {_type}"] = (_array, _mean)
    COLUMNS[f"arrow chunked {_type}"] = (pyarrow.chunked_array([_array]), _mean)
    COLUMNS[f"pandas arrow {_type}"] = (pandas.Series(_array, dtype=pandas.ArrowDtype(_type)), _mean)
_POLARS = [
    ("strings", polars.String, TEXTS, 7),
    ("categories", polars.Categorical, TEXTS, 7),
    ("enum", polars.Enum(["7", "x"]), TEXTS, 7),
    ("dates", polars.Date, mixed(DAY), DAYS),
    ("datetimes", polars.Datetime("us"), mixed(MIDNIGHT), SECONDS * 1e3),
    ("nanoseconds", polars.Datetime("ns"), mixed(MIDNIGHT), SECONDS * 1e3),
    ("datetimes with a zone", polars.Datetime("us", "UTC"), mixed(ZONED), SECONDS * 1e3),
    ("nanoseconds with a zone", polars.Datetime("ns", "UTC"), mixed(ZONED), SECONDS * 1e3),
    ("durations", polars.Duration("us"), mixed(datetime.timedelta(2)), 2 * 86400e3),
    ("durations of nanoseconds", polars.Duration("ns"), mixed(datetime.timedelta(2)), 2 * 86400e3),
    ("times", polars.Time, mixed(datetime.time(1)), 3600e9),
    ("decimals", polars.Decimal(5, 2), mixed(decimal.Decimal(7)), 7),
    ("bytes", polars.Binary, mixed(b"7"), 7),
    ("long integers", polars.Int128, mixed(7), 7),
]
for _name, _type, _rows, _mean in _POLARS:
    COLUMNS[f"polars {_name}"] = (polars.Series(_rows, dtype=_type), _mean)

NO_MEAN: dict[str, Any] = {
    "one number": np.array(7.0),
    "set": {7.0},
    "text": "7",
    "arrow lists": pyarrow.array(mixed([7])),
    "arrow nulls": pyarrow.nulls(3),
    "arrow intervals": pyarrow.nulls(3, pyarrow.month_day_nano_interval()),
    "pandas arrow lists": pandas.Series(mixed([7]), dtype=pandas.ArrowDtype(pyarrow.list_(pyarrow.int8()))),
    "polars lists": polars.Series(mixed([7])),
    "polars structs": polars.Series(mixed({"a": 7})),
    "polars objects": polars.Series(mixed(uuid.UUID(int=7)), dtype=polars.Object),
    "polars nulls": polars.Series(mixed(None), dtype=polars.Null),
}
"""What holds no number, or a single one: the conversion is accepted, and that is all."""


def converted(values: Any, call: Callable[[Any], Any], way: int = 0, name: str = "values") -> Any:
    """Return the result of a call after the conversions that its refusals name; at least one is needed."""
    for step in range(5):
        try:
            result = call(values)
        except FerroError as error:
            message = str(error)
        else:
            assert step, "accepted at once"
            return result
        ways = WRITTEN.findall(message)
        assert ways, f"no conversion in: {message}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = eval(ways[min(way, len(ways) - 1)], {**NAMES, name: values, "n": 3})
    raise AssertionError("the conversions lead nowhere")


@pytest.mark.parametrize("case", COLUMNS)
def test_the_conversion_of_a_column_keeps_its_mean_and_its_missing_rows(case: str) -> None:
    values, mean = COLUMNS[case]

    found = converted(
        values,
        lambda column: fd.private_mean(column, bounds=(0.0, 2 * mean), epsilon=19.0, source=seeded(SEED)),
        way=-1 if case in ("numpy masked texts", "numpy masked objects") else 0,
    )

    assert found.value == pytest.approx(mean, rel=0.01)  # noise: 2 · mean / (900 · 19) or so; counted missing rows: 0.1


@pytest.mark.parametrize("case", NO_MEAN)
def test_a_column_without_a_mean_to_compare_is_accepted_once_converted(case: str) -> None:
    call = lambda column: fd.private_mean(column, bounds=(0, 1), epsilon=1.0)  # noqa: E731  # one expression

    converted(NO_MEAN[case], call)


ARRAYS: dict[str, tuple[Any, list[float]]] = {
    "masked integers": (np.ma.array([1, 2, 3], mask=[0, 0, 1]), [1, 2, 0]),
    "masked floats": (np.ma.array([1.0, 2.0, 3.0], mask=[0, 0, 1]), [1, 2, 0]),
    "matrix": (np.array([[1.0, 2.0, 0.0]]).view(np.matrix), [1, 2, 0]),
    "pandas series": (pandas.Series([1, 2, None], dtype="Int64"), [1, 2, 0]),
    "pandas table": (pandas.DataFrame({"a": [1.0, 2.0, None]}), [1, 2, 0]),
    "arrow": (pyarrow.array([1, 2, None]), [1, 2, 0]),
    "arrow chunked": (pyarrow.chunked_array([[1, 2, None]]), [1, 2, 0]),
    "arrow table": (pyarrow.table({"a": [1, 2, None]}), [1, 2, 0]),
    "polars": (polars.Series([1, 2, None]), [1, 2, 0]),
    "polars table": (polars.DataFrame({"a": [1, 2, None]}), [1, 2, 0]),
    "polars plan": (polars.DataFrame({"a": [1, 2, None]}).lazy(), [1, 2, 0]),
    "scipy": (sparse.csr_array([[1.0, 2.0, 0.0]]), [1, 2, 0]),
    "list with None": ([1.0, 2.0, None], [1, 2, 0]),
    "list of decimals": ([decimal.Decimal(1), decimal.Decimal(2), None], [1, 2, 0]),
    "list of fractions": ([fractions.Fraction(1), fractions.Fraction(2), None], [1, 2, 0]),
    "list of truth values": ([True, 2, None], [1, 2, 0]),
    "list of texts": (["1", "2", "x"], [1, 2, 0]),
    "list of complex": ([1j + 1, 2j + 2, 0j], [1, 2, 0]),
    "list of dates": ([datetime.date(1970, 1, 2), datetime.date(1970, 1, 3), None], [1, 2, 0]),
    "list of durations": ([datetime.timedelta(1), datetime.timedelta(2), None], [1, 2, 0]),
    "ragged": ([[1.0], [2.0, 0.0], []], [1, 0, 0, 2, 0, 0, 0, 0, 0]),
    "generator": ((each for each in [1.0, 2.0, 0.0]), [1, 2, 0]),
    "set": ({1.0}, [1]),
    "mapping": ({"a": 1.0, "b": 2.0}, [1, 2]),
    "complex": (1 + 2j, [1, 2]),
    "text": ("7", [7]),
    "truth value": (True, [1]),
    "truth values": (np.array([True, False]), [1, 0]),
    "integers": (np.array([1, 2]), [1, 2]),
    "halves": (np.array([1, 2, np.nan], np.float16), [1, 2, 0]),
    "long floats": (np.array([1, 2, np.nan], np.longdouble), [1, 2, 0]),
    "complex numbers": (np.array([1, 2, np.nan], complex), [1, 2, 0]),
    "objects": (np.array([1, 2.0, None], object), [1, 2, 0]),
    "texts": (np.array(["1", "2", "x"]), [1, 2, 0]),
    "dates": (np.array(["1970-01-02", "1970-01-03", "NaT"], "M8[s]"), [1, 2, 0]),
    "durations": (np.array([24, 48, "NaT"], "m8[h]"), [1, 2, 0]),
    "records": (np.array([(1.0,), (2.0,), (np.nan,)], [("a", float)]), [1, 2, 0]),
}
GAUSSIAN = fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1e-6)


@pytest.mark.parametrize("case", ARRAYS)
def test_the_conversion_of_an_array_is_accepted_and_its_missing_elements_count_as_zero(case: str) -> None:
    value, due = ARRAYS[case]

    found = converted(value, lambda array: GAUSSIAN.release(array, source=seeded(SEED)), name="value")

    assert np.ravel(found) == pytest.approx(due, abs=1e-4)  # the noise is 1e-6


LARGEST = 2**63 - 1
INTEGERS: dict[str, tuple[Any, list[int]]] = {
    "floats": (np.array([1.0, 2.6, np.nan, np.inf, -np.inf]), [1, 3, 0, 2**53, -(2**53)]),
    "unsigned": (np.array([1, 2**64 - 1], np.uint64), [1, LARGEST]),
    "short": (np.array([1, -2], np.int8), [1, -2]),
    "truth values": (np.array([True, False]), [1, 0]),
    "objects": (np.array([1, 2.6, None], object), [1, 3, 0]),
    "list of floats": ([1.0, 2.6, float("nan")], [1, 3, 0]),
    "list with None": ([1, 2, None], [1, 2, 0]),
    "pandas": (pandas.Series([1, 2, None], dtype="Int64"), [1, 2, 0]),
    "polars": (polars.Series([1, 2, None]), [1, 2, 0]),
    "masked": (np.ma.array([1, 2, 3], mask=[0, 0, 1]), [1, 2, 0]),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_the_conversion_to_integers_wraps_nothing_around(case: str) -> None:
    value, due = INTEGERS[case]

    discrete = fd.DiscreteGaussianMechanism(scale=0.01, l2_sensitivity=1, dimension=len(due))
    found = converted(value, lambda array: discrete.release(array, source=seeded(SEED)), name="value")

    assert np.ravel(found).tolist() == due  # the chance of noise ≠ 0 at a scale of 1/100 is below 1e-2000


def test_a_tensor_of_another_kind_is_converted_without_rounding() -> None:
    """PyTorch is no part of these tests: what is known of a tensor are its device, its dtype and its gradient."""

    class Tensor:
        __module__ = "torch"
        device = SimpleNamespace(type="cpu")
        requires_grad = True

        def __init__(self, dtype: str) -> None:
            self.dtype = dtype

    for dtype, ending in (("torch.float64", "cpu()"), ("torch.bfloat16", "cpu().double()")):
        with pytest.raises(FerroError, match=re.escape(f"pass value.detach().{ending}") + "$"):
            GAUSSIAN.release(Tensor(dtype))
