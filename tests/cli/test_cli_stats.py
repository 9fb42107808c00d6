"""`ferrodp stats`: what is released of a file, what is charged, what is refused, and what no message tells."""

import datetime
import decimal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.cli.stats import parquet, tables, text
from ferrodp.cli.stats import payment as stats_payment
from ferrodp.cli.stats import report as stats_report
from ferrodp.cli.stats.columns import How

Run = Callable[..., Any]
ROWS = 4000


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Write `visits.csv` and, where pyarrow is there, `visits.parquet`; half of the ages are missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    rows: list[dict[str, Any]] = [
        {
            "age": int(rng.integers(20, 80)) if i % 2 else None,
            "region": ["north", "south", "west"][i % 3],
            "patient": i // 2,
        }
        for i in range(ROWS)
    ]
    missing = ["", "NA", "nan", "unknown"]
    lines = ["age,region,patient"]
    lines += [
        f"{missing[i // 2 % 4] if row['age'] is None else row['age']},{row['region']},{row['patient']}"
        for i, row in enumerate(rows)
    ]
    Path("visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return rows
    parquet.write_table(pyarrow.Table.from_pylist(rows), "visits.parquet")
    return rows


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_statistics_of_files_are_near_the_truth(ferrodp: Run, visits: list[dict[str, Any]], file: str) -> None:
    """Laplace noise of scale below 20: what is compared is within 20·ln(1e9) of the truth but for 1e-8."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    ages = np.array([row["age"] for row in visits if row["age"] is not None], float)

    found = ferrodp(
        *("stats", file, "--count", "--mean", "age:0,100", "--sum", "age:0,100", "--variance", "age:0,100"),
        *("--median", "age:0,100", "--quantiles", "age:0,100:0.25,0.75", "--min", "age:0,100", "--max", "age:0,100"),
        *("--histogram", "region=north,south,east", "--histogram", "age:0,50,100", "--epsilon", 10, "--json"),
    ).json

    by_kind = {f"{each['statistic']} {each['column'] or ''}".strip(): each for each in found["statistics"]}
    assert abs(by_kind["count"]["values"][0] - ROWS) < 40
    assert abs(by_kind["mean age"]["values"][0] - ages.mean()) < 5
    assert abs(by_kind["sum age"]["values"][0] - ages.sum()) < 5000
    assert abs(by_kind["variance age"]["values"][0] - ages.var()) < 60
    assert np.abs(np.array(by_kind["histogram region"]["values"]) - [ROWS / 3, ROWS / 3, 0]).max() < 40
    assert by_kind["histogram region"]["labels"] == ["north", "south", "east"]
    assert abs(sum(by_kind["histogram age"]["values"]) - ages.size) < 80
    assert by_kind["histogram age"]["edges"] == [0.0, 50.0, 100.0]
    assert np.abs(np.array(by_kind["quantiles age"]["values"]) - np.quantile(ages, [0.25, 0.75])).max() < 4
    # some 33 people have each age: what lies beyond two of them has a utility 26 lower than what is best, or worse
    assert abs(by_kind["median age"]["values"][0] - np.median(ages)) < 6
    assert by_kind["min age"]["values"][0] <= 22 < 77 <= by_kind["max age"]["values"][0]
    assert by_kind["median age"]["lower"] is None
    assert by_kind["min age"]["lower"] == [0.0]
    assert by_kind["max age"]["upper"] == [100.0]
    assert by_kind["mean age"]["lower"][0] < by_kind["mean age"]["values"][0] < by_kind["mean age"]["upper"][0]
    assert (found["epsilon"], found["delta"]) == (10.0, 0.0)
    assert sum(each["epsilon"] for each in found["statistics"]) <= 10.0


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_groups_count_so_many_rows_of_a_unit(ferrodp: Run, visits: list[dict[str, Any]], file: str) -> None:
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    found = ferrodp(
        *("stats", file, "--count", "--mean", "age:0,100", "--median", "age:0,100", "--group-by", "region=north,east"),
        *("--unit", "patient", "--rows-per-unit", 1, "--epsilon", 30, "--json"),
    ).json
    count, mean, median = found["statistics"]
    # of each patient a random row of two, so a coin for each with one row in the north; Hoeffding: 1e-9 at 3.3 · √coins
    north = [row["region"] == "north" for row in visits]
    coins = sum(a != b for a, b in zip(north[::2], north[1::2], strict=True))
    both = sum(a and b for a, b in zip(north[::2], north[1::2], strict=True))
    assert abs(count["values"][0] - both - coins / 2) < 20 + 3.3 * coins**0.5
    assert abs(count["values"][1]) < 20
    assert count["labels"] == mean["labels"] == median["labels"] == ["north", "east"]
    assert (found["unit"], found["rows_per_unit"]) == ("patient", 1)


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_of_each_unit_so_many_rows_count_without_groups_too(
    ferrodp: Run, visits: list[dict[str, Any]], file: str
) -> None:
    """Laplace noise of scale 2/30 at most: within 2 of the truth but for 1e-12."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    arguments = ("stats", file, "--count", "--distinct", "patient", "--unit", "patient")
    found = ferrodp(*arguments, "--rows-per-unit", 1, "--epsilon", 30, "--json").json
    patients = len({row["patient"] for row in visits})
    assert patients < len(visits)
    assert [abs(each["values"][0] - patients) <= 2 for each in found["statistics"]] == [True, True]
    assert (found["unit"], found["rows_per_unit"]) == ("patient", 1)


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_groups_have_quantiles_variances_and_histograms(ferrodp: Run, visits: list[dict[str, Any]], file: str) -> None:
    """Laplace noise of scale below 3: within 3·ln(1e9) of the truth but for 1e-9."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    found = ferrodp(
        *(
            "stats",
            file,
            "--quantiles",
            "age:0,100:0.25,0.75",
            "--variance",
            "age:0,100",
            "--histogram",
            "age:0,50,100",
        ),
        *("--histogram", "region=north,east", "--group-by", "region=north,east", "--epsilon", 4, "--json"),
    ).json
    quantiles, variance, bins, names = found["statistics"]
    ages = np.array([row["age"] for row in visits if row["age"] is not None and row["region"] == "north"], float)
    north = sum(row["region"] == "north" for row in visits)

    assert quantiles["labels"] == ["north, 0.25", "north, 0.75", "east, 0.25", "east, 0.75"]
    assert np.abs(np.array(quantiles["values"][:2]) - np.quantile(ages, [0.25, 0.75])).max() < 20
    assert variance["labels"] == ["north", "east"]
    assert abs(variance["values"][0] - ages.var()) < 400
    assert bins["labels"] == ["north, [0, 50)", "north, [50, 100]", "east, [0, 50)", "east, [50, 100]"]
    assert abs(sum(bins["values"][:2]) - ages.size) < 120
    assert names["labels"] == ["north, north", "north, east", "east, north", "east, east"]
    assert np.abs(np.array(names["values"]) - [north, 0, 0, 0]).max() < 65


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_groups_have_different_values_deviations_and_bounds(
    ferrodp: Run, visits: list[dict[str, Any]], file: str
) -> None:
    """Laplace noise of scale below 3: within 3·ln(1e9) of the truth but for 1e-9."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    asked = ("--distinct", "patient", "--standard-deviation", "age:0,100", "--bounds", "age", "--epsilon", 4)
    of_rows = ferrodp("stats", file, *asked, "--json").json["statistics"]
    found = ferrodp("stats", file, *asked, "--group-by", "region=north,east", "--json").json["statistics"]
    north = [row for row in visits if row["region"] == "north"]
    ages = np.array([row["age"] for row in north if row["age"] is not None], float)

    assert [each["statistic"] for each in found] == ["distinct", "standard-deviation", "bounds"]
    assert found[0]["labels"] == found[1]["labels"] == ["north", "east"]
    assert abs(found[0]["values"][0] - len({row["patient"] for row in north})) < 65
    assert abs(found[1]["values"][0] - ages.std()) < 10
    assert found[2]["labels"] == ["north, lower", "north, upper", "east, lower", "east, upper"]
    assert (of_rows[2]["labels"], found[2]["lower"], of_rows[2]["lower"]) == (["lower", "upper"], None, None)
    for lower, upper in (found[2]["values"][:2], of_rows[2]["values"]):
        assert 0.0 <= lower < upper <= 128.0
    assert abs(of_rows[1]["values"][0] - np.std([row["age"] for row in visits if row["age"] is not None])) < 10


def test_different_values_are_counted(ferrodp: Run, visits: list[dict[str, Any]]) -> None:
    found = ferrodp(
        "stats", "visits.csv", "--distinct", "region", "--distinct", "patient", "--epsilon", 4, "--json"
    ).json
    regions, patients = found["statistics"]

    assert abs(regions["values"][0] - len({row["region"] for row in visits})) < 12  # 1e-10
    assert abs(patients["values"][0] - len({row["patient"] for row in visits})) < 12
    shown = ferrodp("stats", "visits.csv", "--distinct", "patient", "--epsilon", 1).out
    assert "distinct" in shown
    assert "." not in shown.split("patient")[1].split("epsilon")[0]


def test_numbers_are_keys_of_columns_of_numbers(ferrodp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    parquet.write_table(pyarrow.table({"code": [1, 2, 2, None] * 300, "x": [0.5] * 1200}), "t.parquet")
    found = ferrodp("stats", "t.parquet", "--count", "--group-by", "code=1,2", "--epsilon", 5, "--json").json
    assert np.abs(np.array(found["statistics"][0]["values"]) - [300, 600]).max() < 30
    refused = ferrodp("stats", "t.parquet", "--count", "--group-by", "code=1,two", "--epsilon", 5)
    assert (refused.code, "must be numbers" in refused.error) == (4, True)


KEYS = {
    "day": ("2026-01-30,2026-01-31", "2026-01-30,x", "dates such as 2026-01-31"),
    "at": ("2026-01-30T12:00,2026-01-31T12:00", "2026-01-30T12:00+00:00", "times such as 2026-01-31T12:00"),
    "zoned": (
        "2026-01-30T12:00+00:00,2026-01-31T13:00+01:00",
        "2026-01-30T12:00",
        "times such as 2026-01-31T12:00+00:00",
    ),
    "clock": ("08:00,12:00", "8 am", "times such as 12:00"),
    "paid": ("true,FALSE", "yes,no", "true or false"),
    "price": ("1.50,2", "cheap", "numbers"),
}
"""Keys of a column, keys that are refused, and what the refusal says."""


@pytest.mark.parametrize("reader", ["pyarrow", "polars"])
def test_keys_of_parquet_columns_are_read_as_what_the_columns_hold(
    ferrodp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    noon = [datetime.datetime(2026, 1, day, 12) for day in (30, 31, 31)]  # a column without a zone
    columns = {
        "day": [each.date() for each in noon],
        "at": noon,
        "zoned": [each.replace(tzinfo=datetime.UTC) for each in noon],
        "clock": [datetime.time(8), datetime.time(12), datetime.time(12)],
        "paid": [True, False, False],
        "price": [decimal.Decimal("1.5"), decimal.Decimal(2), decimal.Decimal(2)],
    }
    parquet.write_table(pyarrow.table({name: [*rows, None] * 300 for name, rows in columns.items()}), "t.parquet")
    if reader == "polars":
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)

    for name, (keys, others, accepted) in KEYS.items():
        found = ferrodp("stats", "t.parquet", "--count", "--group-by", f"{name}={keys}", "--epsilon", 5, "--json").json
        assert found["statistics"][0]["values"] == pytest.approx([300, 600], abs=9), name
        refused = ferrodp("stats", "t.parquet", "--count", "--group-by", f"{name}={others}", "--epsilon", 5)
        assert (refused.code, f"must be {accepted}, got" in refused.error) == (4, True), refused.error


def test_parquet_is_read_by_polars_where_pyarrow_is_not_installed(
    ferrodp: Run, visits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("polars")
    if not Path("visits.parquet").exists():
        pytest.skip("pyarrow has to write the file")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    options = ("--count", "--mean", "age:0,100", "--epsilon", 8, "--group-by", "region=north,south", "--json")
    statistics = ferrodp("stats", "visits.parquet", *options).json["statistics"]
    ages = [[row["age"] for row in visits if row["region"] == name and row["age"]] for name in ("north", "south")]
    with tables.opened(How("visits.parquet", separator="")) as table:
        assert isinstance(table, parquet.ByPolars)
        assert table.read(set(), set(), lambda _: None).rows == ROWS
    rows = [sum(row["region"] == name for row in visits) for name in ("north", "south")]
    assert np.abs(np.array(statistics[0]["values"]) - rows).max() < 10  # noise of scale 1/4: 40 of them, 1e-17
    assert np.abs(np.array(statistics[1]["values"]) - [np.mean(each) for each in ages]).max() < 2
    Path("broken.parquet").write_bytes(b"no")
    assert ferrodp("stats", "broken.parquet", "--count", "--epsilon", 1).error.endswith("is not a Parquet file\n")


def test_all_statistics_are_one_charge_before_a_row_is_read(
    shell: Run, ferrodp: Run, visits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("stats", "visits.csv", "--count", "--mean", "age:0,100", "--ledger", "budget.db", "--scope", "survey")
    seen = []
    paid = stats_payment.paid

    def watched(*arguments: Any) -> Any:
        seen.append("charged")
        return paid(*arguments)

    monkeypatch.setattr(stats_payment, "paid", watched)
    found = ferrodp(*asked, "--epsilon", 0.75, "--key", "monday", "--json").json
    assert found["ledger"]["epsilon_charged"] <= 0.75
    assert found["ledger"]["key"] == "monday"
    again = ferrodp(*asked, "--epsilon", 0.75, "--key", "monday")
    assert (again.code, "monday" in again.error) == (3, True)
    dear = ferrodp(*asked, "--epsilon", 0.75, "--json")
    assert (dear.code, dear.failure["code"]) == (5, "budget-exceeded")
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert [ticket.state.value for ticket in ledger.tickets()] == ["spent"]
        assert ledger.remaining_count("survey", EpsilonDeltaEvent(epsilon=0.25)) == 1
    assert seen == ["charged"] * 3


def test_a_failure_after_the_charge_and_before_noise_gives_it_back(shell: Run, ferrodp: Run, visits: Any) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text.Texts, "read", fail)
        found = ferrodp(
            *("stats", "visits.csv", "--count", "--epsilon", 0.5, "--ledger", "budget.db", "--scope", "survey")
        )
    assert found.code == 18
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.report("survey").epsilon_charged == 0.0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["visits.csv", "--epsilon", 1], 4, "at least one statistic"),
        (["visits.csv", "--count"], 2, "--epsilon"),
        (["visits.csv", "--mean", "age", "--epsilon", 1], 2, "COLUMN:LOWER,UPPER"),
        (["visits.csv", "--mean", "age:0", "--epsilon", 1], 2, "COLUMN:LOWER,UPPER"),
        (["visits.csv", "--mean", "age:0,x", "--epsilon", 1], 2, "numbers"),
        (["visits.csv", "--quantiles", "age:0.5", "--epsilon", 1], 2, "Q,Q"),
        (["visits.csv", "--mean", "age:9,1", "--epsilon", 1], 4, "write --mean age:1,9"),
        (["visits.csv", "--mean", "agee:0,1", "--epsilon", 1], 4, "it has age, region, patient"),
        (["visits.csv", "--histogram", "age:3,1", "--epsilon", 1], 4, "write --histogram age:1,3"),
        (["visits.csv", "--quantiles", "age:0,9:0.5,0.1", "--epsilon", 1], 4, "got 0.5,0.1; write 0.1,0.5"),
        (["visits.csv", "--quantiles", "age:0,9:50", "--epsilon", 1], 4, "got 50; for 50 % write 0.5"),
        (["visits.csv", "--quantiles", "age:9,0:0.5", "--epsilon", 1], 4, "write --quantiles age:0,9:0.5"),
        (["visits.csv", "--quantiles", "age:0,9:-1", "--epsilon", 1], 4, "must have quantiles in [0, 1], got -1"),
        (["visits.csv", "--histogram", "age:3", "--epsilon", 1], 4, "must have two edges or more"),
        (["visits.csv", "--mean", "age:3,3", "--epsilon", 1], 4, "must have two bounds in ascending order, got 3,3"),
        (["visits.csv", "--mean", "age:nan,3", "--epsilon", 1], 4, "got nan,3"),
        (["visits.csv", "--histogram", "region=a,b,a", "--epsilon", 1], 4, "got 'a' twice"),
        (["visits.csv", "--count", "--group-by", "region=a,a", "--epsilon", 1], 4, "--group-by region must have"),
        (["visits.csv", "--count", "--where", "age==3", "--epsilon", 1], 2, "two signs =; write age=3"),
        (["visits.csv", "--count", "--where", "age >3", "--epsilon", 1], 4, "did you mean 'age'?"),
        (["visits.csv", "--mean", "age:3-4", "--epsilon", 1], 2, "such as age:0,120"),
        (["numbers.csv", "--count", "--epsilon", 1], 15, "has numbers in its first line"),
        (["spaces.csv", "--mean", "age:0,120", "--epsilon", 1], 15, "has numbers in its first line"),
        (["columns.csv", "--mean", "age:0,120", "--epsilon", 1], 4, "give --separator ' '"),
        (["visits.csv", "--count", "--epsilon", 0], 4, "--epsilon"),
        (["visits.csv", "--count", "--delta", 1, "--epsilon", 1], 4, "--delta"),
        (["visits.csv", "--count", "--epsilon", 1, "--neighboring-relation", "replace_one"], 4, "REPLACE_ONE"),
        (
            [
                "visits.csv",
                "--marginals",
                2,
                "age:0,1",
                "region=a",
                "--group-by",
                "region=a",
                "--epsilon",
                1,
                "--delta",
                1e-6,
            ],
            4,
            "--marginals must",
        ),
        (["visits.csv", "--distinct", "agee", "--epsilon", 1], 4, "it has age, region, patient"),
        (["visits.csv", "--count", "--group-by", "region", "--epsilon", 1], 2, "COLUMN=NAME"),
        (["visits.csv", "--count", "--epsilon", 1, "--scope", "survey"], 4, "--scope must come with --ledger"),
        (["visits.csv", "--count", "--epsilon", 1, "--ledger", "none.db", "--scope", "a"], 8, "none.db"),
        (["visits.csv", "--count", "--epsilon", 1, "--ledger", "budget.db", "--scope", "a"], 7, "survey"),
        (["none.csv", "--count", "--epsilon", 1], 15, "No such file"),
        (["visits.txt", "--count", "--epsilon", 1], 15, "must end in .csv, .tsv or .parquet"),
        (["empty.csv", "--count", "--epsilon", 1], 15, "names of columns"),
        (["twice.csv", "--count", "--epsilon", 1], 15, "two columns of one name"),
    ],
)
def test_what_is_refused_says_so_and_charges_nothing(
    shell: Run, ferrodp: Run, visits: Any, arguments: list[Any], code: int, said: str
) -> None:
    Path("empty.csv").write_text("", encoding="utf-8")
    Path("twice.csv").write_text("a,a\n1,2\n", encoding="utf-8")
    Path("numbers.csv").write_text("59,2,-3.5e1\n48,1,2\n", encoding="utf-8")
    Path("spaces.csv").write_text("59 2;3,5\n48 1;2,0\n", encoding="utf-8")
    Path("columns.csv").write_text("age region\n48 1\n", encoding="utf-8")
    found = ferrodp("stats", *arguments)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []


@pytest.mark.parametrize(
    "again",
    [
        ("stats", "visits.csv", "--count", "--epsilon", 1, "--epsilon", 2),
        ("stats", "visits.csv", "--count", "--epsilon", 1, "--delta", 0, "--delta", 0),
        ("epsilon", "--noise-multiplier", 1, "--steps", 3, "--delta", 1e-6, "--noise-multiplier", 2),
    ],
)
def test_an_option_that_is_given_again_is_refused(ferrodp: Run, visits: Any, again: tuple[Any, ...]) -> None:
    found = ferrodp(*again)

    assert (found.code, found.out) == (2, "")
    assert "must be given once" in found.err


def test_cells_that_only_python_reads_as_numbers_are_missing(ferrodp: Run, visits: Any) -> None:
    """1_000 is a number in Python's source, and Arabic digits are to `float`: neither is to other readers of CSV."""
    Path("odd.csv").write_text("age\n" + "1_000\n\u0661\u0662\n" * 500 + "7\n" * 1000, encoding="utf-8")
    found = ferrodp("stats", "odd.csv", "--mean", "age:0,100", "--sum", "age:0,10000", "--epsilon", 20, "--json").json

    mean, total = (each["values"][0] for each in found["statistics"])
    assert abs(mean - 7.0) < 10.0  # 50·ln(1e9) of the scale of a sum, over 1000 rows; 40 if the others counted
    assert abs(total - 7000.0) < 22_000.0  # scale 1000


@pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")
def test_a_mean_of_what_are_no_numbers_says_that_its_interval_is_all_of_the_bounds(ferrodp: Run, visits: Any) -> None:
    """A quarter of ε is for the number of rows: it is 0 for the first mean but for 3e-11."""
    found = ferrodp("stats", "visits.csv", "--mean", "region:0,1", "--mean", "age:0,100", "--epsilon", 100)

    assert found.out.count("all of the bounds") == 1
    assert found.out.index("region") < found.out.index("all of the bounds") < found.out.index("age")


def test_a_file_that_is_no_parquet_file_is_refused(ferrodp: Run, visits: Any) -> None:
    pytest.importorskip("pyarrow")
    Path("broken.parquet").write_bytes(b"PAR1 nonsense")
    found = ferrodp("stats", "broken.parquet", "--count", "--epsilon", 1)
    assert found.code == 15
    assert "broken.parquet" in found.error


@pytest.mark.parametrize(
    "cells",
    [
        b"secret,north,1\n",
        b"7\n\n,,,,,,\n",
        b'"unclosed,north,1\nmore\n',
        b"\xff\xfe\x00,north,1\n",
        b"1e999,north\xc3,-1\r9,a,b\r\n",
        b"inf,nan,none\n-inf,null,1\n",
    ],
)
def test_whatever_is_in_the_rows_ends_well_and_is_not_told(ferrodp: Run, visits: Any, cells: bytes) -> None:
    Path("odd.csv").write_bytes(b"age,region,patient\n" + cells)
    found = ferrodp(
        *("stats", "odd.csv", "--count", "--mean", "age:0,100", "--max", "age:0,100", "--histogram", "region=north"),
        *("--epsilon", 1),
    )
    assert (found.code, found.err) == (0, "")
    grouped = ferrodp(
        *("stats", "odd.csv", "--count", "--mean", "age:0,100", "--group-by", "region=north", "--unit", "patient"),
        *("--epsilon", 1),
    )
    assert (grouped.code, grouped.err) == (0, "")
    assert "secret" not in found.out + grouped.out


def test_a_row_moves_the_statistics_of_a_file_by_no_more_than_they_declare(
    ferrodp: Run, visits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replayed on a file that lacks a row: the same releases of inputs that are no further apart."""
    lines = Path("visits.csv").read_text(encoding="utf-8").splitlines()
    asked = [
        "--count",
        "--mean",
        "age:0,100",
        "--median",
        "age:0,100",
        "--histogram",
        "region=north,south",
        "--distinct",
        "patient",
    ]
    for removed in (1, 2, ROWS):
        with fd.testing.record() as log:
            assert ferrodp("stats", "visits.csv", *asked, "--epsilon", 1).code == 0
        Path("fewer.csv").write_text("\n".join(lines[:removed] + lines[removed + 1 :]) + "\n", encoding="utf-8")
        with fd.testing.replay(log):
            assert ferrodp("stats", "fewer.csv", *asked, "--epsilon", 1).code == 0


def test_gaussian_noise_is_charged_its_delta(ferrodp: Run, visits: Any) -> None:
    found = ferrodp(
        *("stats", "visits.csv", "--count", "--median", "age:0,100", "--epsilon", 1, "--delta", 1e-6, "--json")
    ).json
    assert found["delta"] == 5e-7  # a choice needs none
    assert [each["delta"] for each in found["statistics"]] == [5e-7, 0.0]


def test_lines_with_more_cells_than_names_and_options_given_twice_are_refused(
    ferrodp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("age\n30\n30,5\n", encoding="utf-8")
    refused = ferrodp("stats", "t.csv", "--mean", "age:0,100", "--epsilon", 1)
    assert (refused.code != 0, "line 3" in refused.error) == (True, True)
    Path("t.csv").write_text("age,g\n30,a\n30,b,\n", encoding="utf-8")
    twice = ferrodp("stats", "t.csv", "--count", "--group-by", "g=a", "--group-by", "age=30", "--epsilon", 1)
    assert (twice.code != 0, "given once" in twice.error) == (True, True)


def test_counts_are_printed_in_full_and_other_numbers_to_the_digits_of_their_noise() -> None:
    of_rows = {"statistic": "count", "values": [5_000_001], "lower": [4_999_998.0], "upper": [5_000_004.0]}
    assert stats_report.printed(of_rows, 0) == ("5000001", "4999998 to 5000004")
    mean = {"statistic": "mean", "values": [17.123456], "lower": [17.1], "upper": [17.15]}
    assert stats_report.printed(mean, 0) == ("17.123", "17.100 to 17.150")
    assert stats_report.printed({"statistic": "median", "values": [1234567.5], "lower": None}, 0) == ("1234567.5", "")
