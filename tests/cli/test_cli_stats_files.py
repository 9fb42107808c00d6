"""`ferrodp stats`: what is read of texts and of Parquet files, in blocks of any size, and what is selected."""

import csv
import datetime
import gzip
import io
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.cli.stats import asked, parquet, tables, text
from ferrodp.cli.stats.columns import Read
from ferrodp.errors import InvalidParameter
from ferrodp.files import FileRefused

pytestmark = pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")
Run = Callable[..., Any]
MISSING = {"", "na", "n/a", "nan", "null", "none"}
CELLS = [
    "north",
    " north",
    "7",
    "7.5",
    "-1e3",
    "1_000",
    "NA",
    " nan",
    "",
    "é",
    "\u0661",
    "inf",
    "a,b",
    'say "x"',
    "7,5",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(path: str, numbers: set[str], names: set[str], *conditions: str, **more: Any) -> Read:
    given = {"separator": None, "decimal": "."} | more
    how = tables.how(path, given["separator"], given["decimal"], tuple(map(asked.condition, conditions)))
    with tables.opened(how) as table:
        assert table.unread(numbers, names).rows == 0
        return table.read(numbers, names, lambda _: None)


def shown(read: Read, name: str) -> list[str | None]:
    """Return a column of names as such."""
    held = read.names[name]
    return [held.entries[code] if code >= 0 else None for code in held.values]


def number(cell: str, decimal: str) -> float:
    """Return what a cell denotes: the slow and obvious way."""
    if "_" in cell or not cell.isascii() or (decimal != "." and "." in cell):
        return math.nan
    try:
        return float(cell.replace(decimal, "."))
    except ValueError:
        return math.nan


@pytest.mark.parametrize("block", [1, 3, 1024])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), ("\t", ","), (";", ",")])
def test_texts_are_read_as_row_by_row(
    block: int, separator: str, decimal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 random texts: short rows, empty lines, quotes, separators and line ends in cells."""
    monkeypatch.setattr(text, "_ROWS", block)
    chance = random.Random(7)
    for _ in range(60):
        rows = [[chance.choice([*CELLS, "two\nlines"]) for _ in range(chance.randint(0, 3))] for _ in range(20)]
        held = io.StringIO(newline="")
        csv.writer(held, delimiter=separator).writerows([["a", "b", "c"], *rows])
        Path("t.csv").write_text(held.getvalue(), encoding="utf-8", newline="")
        found = read("t.csv", {"a", "b"}, {"a", "c"}, separator=separator, decimal=decimal)

        full = [row + [""] * (3 - len(row)) for row in rows if row]
        assert found.rows == len(full)
        for place, name in enumerate("ab"):
            due = np.array([number(row[place], decimal) for row in full])
            assert np.array_equal(found.numbers[name], due, equal_nan=True)
        for place, name in ((0, "a"), (2, "c")):
            due = [None if row[place].strip().lower() in MISSING else row[place] for row in full]
            assert shown(found, name) == due


def test_points_among_decimal_commas_are_no_numbers_and_commas_among_points_neither() -> None:
    Path("t.csv").write_text("x;y\n1.5;1,5\n1.234,5;1,234\n-2;,5\n", encoding="utf-8")
    commas = read("t.csv", {"x", "y"}, set(), separator=";", decimal=",").numbers
    points = read("t.csv", {"x", "y"}, set(), separator=";").numbers

    assert np.array_equal(commas["x"], [math.nan, math.nan, -2.0], equal_nan=True)
    assert np.array_equal(commas["y"], [1.5, 1.234, 0.5])
    assert np.array_equal(points["x"], [1.5, math.nan, -2.0], equal_nan=True)
    assert np.isnan(points["y"]).all()


def test_tabs_gzip_and_standard_input_hold_the_same_table(ferrodp: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ε = 10⁶ noise is 0 but for e^−10⁵."""
    lines = "age\tregion\n" + "30\tnorth\n50\tsouth\n" * 700
    Path("t.tsv").write_text(lines, encoding="utf-8")
    Path("t.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    Path("t.csv.gz").write_bytes(gzip.compress(lines.replace("\t", ",").encode()))
    Path("t.data").write_text(lines, encoding="utf-8")
    asked = ("--count", "--group-by", "region=north,south", "--epsilon", 1e6, "--json")
    for arguments in (["t.tsv"], ["t.tsv.gz"], ["t.csv.gz"], ["t.data", "--separator", "tab"], ["-"]):
        given = io.TextIOWrapper(io.BytesIO(lines.replace("\t", ",").encode()))
        monkeypatch.setattr(sys, "stdin", given)
        found = ferrodp("stats", *arguments, *asked).json
        assert found["statistics"][0]["values"] == [700, 700]
        assert found["file"] == arguments[0]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_conditions_select_the_rows_that_hold_all_of_them(name: str, ferrodp: Run) -> None:
    rows = [(age, region, day) for age in (17, 18, 19.5, None) for region in ("a", "b", None) for day in (30, 31)]
    if name == "t.csv":
        cells = [f"{'NA' if age is None else age},{region or ''},2026-01-{day}" for age, region, day in rows]
        Path(name).write_text("\n".join(["age,region,day", *cells]) + "\n", encoding="utf-8")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        columns = {
            "age": [row[0] for row in rows],
            "region": [row[1] for row in rows],
            "day": [datetime.date(2026, 1, row[2]) for row in rows],
        }
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), name)
    for conditions, due in [
        (("age>=18",), lambda age, region, day: age is not None and age >= 18),
        (("age<18",), lambda age, region, day: age is not None and age < 18),
        (("age>17", "age<=18"), lambda age, region, day: age is not None and 17 < age <= 18),
        (("region=a",), lambda age, region, day: region == "a"),
        (("region!=a",), lambda age, region, day: region == "b"),
        (("region=a,b",), lambda age, region, day: region is not None),
        (("region!=a,b",), lambda age, region, day: False),
        (("day>2026-01-30", "region=b"), lambda age, region, day: day > 30 and region == "b"),
        (("region=b", "day>2026-01-30"), lambda age, region, day: day > 30 and region == "b"),
        (("day=2026-01-30",), lambda age, region, day: day == 30),
    ]:
        selected = [row for row in rows if due(*row)]
        found = read(name, {"age"}, {"region"}, *conditions)
        assert found.rows == len(selected), conditions
        assert shown(found, "region") == [row[1] for row in selected]
        given = [option for condition in conditions for option in ("--where", condition)]
        counted = ferrodp("stats", name, "--count", *given, "--epsilon", 1e6, "--json").json
        assert counted["statistics"][0]["values"] == [len(selected)]
        assert counted["where"] == list(conditions)


def test_rows_that_are_not_selected_take_no_place_among_those_of_their_unit(ferrodp: Run) -> None:
    """Of each of 50 people one row of 20 is selected; of two rows that count it is always one."""
    Path("t.csv").write_text(
        "who,region,x\n"
        + "".join(f"{who},{'a' if row == 7 else 'b'},{row}\n" for who in range(50) for row in range(20)),
        encoding="utf-8",
    )
    asked = ("--unit", "who", "--rows-per-unit", 2, "--where", "region=a", "--epsilon", 1e6, "--json")
    for more in ((), ("--group-by", "region=a,b")):
        found = ferrodp("stats", "t.csv", "--count", *more, *asked).json
        assert found["statistics"][0]["values"][0] == 50


def test_a_charge_says_which_rows_were_selected(ferrodp: Run) -> None:
    """Who reads the record of a budget sees that an answer was about a part of the table."""
    Path("t.csv").write_text("region,x\na,1\nb,2\n", encoding="utf-8")
    with fd.PrivacyLedger.open("budget.db", create=True) as ledger:
        ledger.create("survey", epsilon=1.0, delta=1e-6)
        for conditions in ((), ("--where", "region=a", "--where", "x>=1")):
            ferrodp(
                "stats", "t.csv", "--count", *conditions, "--epsilon", 0.1, "--ledger", "budget.db", "--scope", "survey"
            )
        said = [charge.statistics[0].statistic for charge in ledger.releases("survey")]

    assert said == ["count", "count of rows with region=a and x>=1"]


def test_polars_and_pyarrow_select_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, arrow = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("polars")
    monkeypatch.setattr(parquet, "_ROWS", 3)
    columns = {"x": [1, None, 3, 2**40, -5] * 3, "g": ["a", "b", None, "a", "c"] * 3}
    arrow.write_table(pyarrow.table(columns), "t.parquet")
    for conditions in ((), ("x>=2.5",), ("g!=a",), ("x=3,1", "g=a")):
        ours = read("t.parquet", {"x"}, {"g"}, *conditions)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "pyarrow.parquet", None)
            theirs = read("t.parquet", {"x"}, {"g"}, *conditions)
        assert ours.rows == theirs.rows
        assert shown(ours, "g") == shown(theirs, "g")
        for each in (ours, theirs):
            nulls = each.numbers["x"].nulls
            assert each.numbers["x"].values.size == ours.rows
            assert (0 if nulls is None else nulls.sum()) == (3 if not conditions else 1 * 3 * (conditions == ("g!=a",)))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["t.csv", "--where", "x"], 2, "is not COLUMN=VALUE"),
        (["t.csv", "--where", "x>=old"], 2, "does not compare with a number"),
        (["t.csv", "--where", "y=1"], 4, "must have a column 'y'; it has x"),
        (["t.csv", "--separator", "ab"], 2, "is not one character"),
        (["t.csv", "--decimal", ","], 4, "--separator must not be the decimal mark"),
        (["t.parquet", "--separator", ";"], 4, "a Parquet file is none"),
        (["semi.csv", "--mean", "x:0,1"], 4, "give --separator ';'"),
        (["cut.csv.gz"], 15, "is not a whole gzip file"),
        (["plain.csv.gz"], 15, "is not a whole gzip file"),
        (["t.dat"], 15, "must end in .csv, .tsv or .parquet"),
    ],
)
def test_what_cannot_be_read_is_refused(ferrodp: Run, arguments: list[str], code: int, said: str) -> None:
    Path("t.csv").write_text("x\n1\n", encoding="utf-8")
    Path("semi.csv").write_text("x;y\n1;2\n", encoding="utf-8")
    Path("plain.csv.gz").write_text("x\n1\n", encoding="utf-8")
    Path("cut.csv.gz").write_bytes(gzip.compress(b"x\n" + b"1\n" * 9)[:-9])
    found = ferrodp("stats", *arguments, "--count", "--epsilon", 1)
    assert (found.code, found.out) == (code, "")
    assert said in found.err


def test_conditions_of_typed_columns_are_written_as_what_they_hold() -> None:
    pyarrow, arrow = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrow.write_table(pyarrow.table({"x": [1, 2], "at": pyarrow.array([0, 1], pyarrow.time32("s"))}), "t.parquet")
    assert read("t.parquet", {"x"}, set(), "at<00:00:01").rows == 1
    with pytest.raises(InvalidParameter, match="conditions of a column of int64 must be numbers, got a"):
        read("t.parquet", {"x"}, set(), "x=a")
    Path("none.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileRefused):
        read("none.parquet", {"x"}, set())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_of_units_is_read_as_names_where_its_values_are_released(
    ferrodp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Three persons with 400 rows, of which two count: noise is below 2 but for 1e-9."""
    monkeypatch.chdir(tmp_path)
    rows = [{"person": f"{name}-{'x' * 20}", "age": 30} for name in ("ann", "bob", "cy")] * 400
    if ending == "csv":
        lines = ["person,age", *(f"{row['person']},30" for row in rows), ",30", "NA,30"]
        Path("t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist([*rows, {"person": None, "age": 30}]), "t.parquet")
    by, own = ("--unit", "person", "--rows-per-unit", 2, "--json"), f"ann-{'x' * 20}"
    (count,) = ferrodp("stats", f"t.{ending}", "--count", *by, "--epsilon", 36).json["statistics"]
    assert abs(count["values"][0] - 6) < 2
    asked = ("--distinct", "person", "--histogram", f"person={own}", "--epsilon", 36)
    distinct, names = ferrodp("stats", f"t.{ending}", *asked, *by).json["statistics"]
    assert abs(distinct["values"][0] - 3) < 4
    assert abs(names["values"][0] - 2) < 4
    grouped = ferrodp("stats", f"t.{ending}", "--count", "--group-by", f"person={own}", *by, "--epsilon", 36).json
    assert abs(grouped["statistics"][0]["values"][0] - 2) < 2


@pytest.mark.parametrize("header", ["0,1,2", ",0,1", "age,2019,2020", "nan,1,2", "N1 2,3,4"])
def test_names_that_are_not_all_numbers_are_names(ferrodp: Run, header: str, tmp_path: Path) -> None:
    """Those that programs give to columns without names, too: a row of data is another."""
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n4,5,6\n", encoding="utf-8")
    found = ferrodp("stats", tmp_path / "t.csv", "--plan", "--json")
    assert [each["column"] for each in found.json["columns"]] == header.split(",")


def test_a_first_line_of_data_is_in_no_message(ferrodp: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("59123,2,77.5\n48,1,2\n", encoding="utf-8")
    for options in (["--plan"], ["--mean", "age:0,1", "--epsilon", 1], ["--count", "--epsilon", 1]):
        found = ferrodp("stats", tmp_path / "t.csv", *options)
        assert found.code == 15
        assert not any(cell in found.error for cell in ("59123", "77.5"))
