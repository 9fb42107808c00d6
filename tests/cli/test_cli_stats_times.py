"""`ferrodp stats` with dates and times as bounds: what the library's functions release, in texts and typed columns."""

import csv
import datetime
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.cli.stats import asked, releases, tables, timed
from ferrodp.cli.stats.asked import Asked, Setting
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics.keys.contributions import contribution
from ferrodp.testing import seeded

Run = Callable[..., Any]
SEED = bytes(range(32))
DAYS = (datetime.date(2020, 1, 1), datetime.date(2026, 1, 1))
MOMENTS = (datetime.datetime(2020, 1, 1), datetime.datetime(2026, 1, 1))
CLOCK = (datetime.time(8), datetime.time(20, 30))
BOUNDS = {
    "day:2020-01-01,2026-01-01": DAYS,
    "at:2020-01-01T00:00,2026-01-01T00:00": MOMENTS,
    "at:2020-01-01,2026-01-01": DAYS,
    "clock:08:00,20:30": CLOCK,
}
ALL = ("mean", "variance", "median", "min", "max")


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Write `t.csv`, and `t.parquet` where pyarrow is there; return its columns, None for what is missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    first = datetime.datetime(2019, 6, 1)
    found: dict[str, list[Any]] = {"day": [], "at": [], "clock": [], "stay": [], "region": [], "patient": []}
    for i in range(600):
        moment = first + datetime.timedelta(minutes=int(rng.integers(0, 7 * 365 * 1440)))
        found["day"].append(None if i % 7 == 0 else moment.date())
        found["at"].append(None if i % 11 == 0 else moment)
        found["clock"].append(None if i % 5 == 0 else moment.time())
        found["stay"].append(i % 10)
        found["region"].append("ns"[i % 2])
        found["patient"].append(i // 2)
    nothing = ["", "n/a", "yesterday", "2026-02-30", "7", "2021-06-01T00:00+02:00"]
    with open("t.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(found)
        for i, row in enumerate(zip(*found.values(), strict=True)):
            writer.writerow([nothing[i % len(nothing)] if each is None else str(each) for each in row])
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return found
    parquet.write_table(pyarrow.table(found), "t.parquet")
    return found


def released(file: str, wanted: list[Asked], **setting: Any) -> list[Any]:
    """Return what a command releases, with noise of a seed."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    about = Setting(NeighboringRelation.ADD_OR_REMOVE_ONE, contribution(setting.pop("rows", 1), None, None), **setting)
    parts = [EpsilonDeltaEvent(epsilon=0.5, delta=0.0)] * len(wanted)
    with tables.opened(tables.how(file, None, ".")) as table:
        read = table.read(*releases.columns(wanted, about), lambda _: None)
        return releases.releaser(table, wanted, parts, about, seeded(SEED))(read, None).estimates


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("text", BOUNDS)
def test_a_command_releases_what_the_function_does(rows: dict[str, list[Any]], file: str, kind: str, text: str) -> None:
    (found,) = released(file, [asked.bounded(kind)(text)])
    release = getattr(fd, f"private_{kind}")
    due = release(rows[text.partition(":")[0]], bounds=BOUNDS[text], epsilon=0.5, source=seeded(SEED))

    assert found.value == due.value
    assert found.interval(0.95) == due.interval(0.95) if kind != "median" else True


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("text", BOUNDS)
def test_quantiles_are_those_of_the_function(rows: dict[str, list[Any]], file: str, text: str) -> None:
    (found,) = released(file, [asked.quantiles(f"{text}:0.25,0.5")])
    column = rows[text.partition(":")[0]]
    due = fd.private_quantiles(column, [0.25, 0.5], bounds=BOUNDS[text], epsilon=0.5, source=seeded(SEED))

    assert found.value.tolist() == due.value.tolist()


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("text", BOUNDS)
def test_groups_are_those_of_the_library(rows: dict[str, list[Any]], file: str, kind: str, text: str) -> None:
    by = asked.keys("region=n,s")
    (found,) = released(file, [asked.bounded(kind)(text)], by=by, unit="patient", rows=2)
    source = seeded(SEED)
    groups = fd.private_group_by(rows, "region", keys=["n", "s"], unit="patient", rows_per_unit=2, source=source)
    due = getattr(groups, kind)(text.partition(":")[0], bounds=BOUNDS[text], epsilon=0.5, source=source)

    assert found.value.tolist() == due.value.tolist()
    assert found.labels == ("n", "s")


@pytest.mark.parametrize("by", [None, "region=n,s"])
def test_edges_of_bins_may_be_dates(ferrodp: Run, rows: dict[str, list[Any]], by: str | None) -> None:
    """Laplace noise at ε = 8 of each bin: none is 10 off but for a chance of 1e-30."""
    more = ["--group-by", by] if by else []
    options = ["--histogram", "day:2020-01-01,2022-01-01,2026-01-01", *more, "--epsilon", 8, "--json"]
    (found,) = ferrodp("stats", "t.csv", *options).json["statistics"]
    edges = [datetime.date(2020, 1, 1), datetime.date(2022, 1, 1), datetime.date(2026, 1, 1)]
    inside = [
        [day is not None and low <= day and (day < high or high == edges[-1] == day) for day in rows["day"]]
        for low, high in itertools.pairwise(edges)
    ]
    if by is None:
        due = [sum(each) for each in inside]
        assert found["edges"] == ["2020-01-01", "2022-01-01", "2026-01-01"]
        assert found["labels"] == ["2020-01-01 to 2022-01-01", "2022-01-01 to 2026-01-01"]
    else:
        places = [(name, each) for name in "ns" for each in inside]
        due = [sum(a and r == name for a, r in zip(each, rows["region"], strict=True)) for name, each in places]
        assert len(found["labels"]) == 4
    assert np.abs(np.array(found["values"]) - due).max() < 10
    assert found["type"] == "number"


def test_values_are_texts_whose_type_is_said(ferrodp: Run) -> None:
    """In JSON, in a table of CSV, in one of Parquet, where a column has one type."""
    wanted = ["--count", "--median", "day:2020-01-01,2026-01-01", "--mean", "day:2020-01-01,2026-01-01"]
    wanted += ["--mean", "at:2020-01-01T00:00Z,2026-01-01T00:00Z", "--mean", "clock:08:00,20:30"]
    wanted += ["--variance", "day:2020-01-01,2026-01-01", "--variance", "at:2020-01-01T00:00,2026-01-01T00:00"]
    found = ferrodp("stats", "t.csv", *wanted, "--epsilon", 50, "--json", "-o", "out.csv").json["statistics"]

    types = ["number", "date", "datetime", "datetime", "time", "squared days", "squared seconds"]
    assert [each["type"] for each in found] == types
    day, mean, zoned, clock = (each["values"][0] for each in found[1:5])
    assert datetime.date.fromisoformat(day).isoformat() == day
    assert DAYS[0] < datetime.datetime.fromisoformat(mean).date() < DAYS[1]
    assert datetime.datetime.fromisoformat(zoned).tzinfo is not None
    assert CLOCK[0] < datetime.time.fromisoformat(clock) < CLOCK[1]
    assert found[2]["bounds"] == ["2020-01-01T00:00:00", "2026-01-01T00:00:00"]
    assert found[2]["lower"] < found[2]["values"] < found[2]["upper"]
    assert all(type(each["values"][0]) in (int, float) for each in (found[0], *found[5:]))

    with open("out.csv", newline="", encoding="utf-8") as stream:
        assert [row["value"] for row in csv.DictReader(stream)] == [str(each["values"][0]) for each in found]
    parquet = pytest.importorskip("pyarrow.parquet")
    found = ferrodp("stats", "t.csv", *wanted, "--epsilon", 50, "--json", "-o", "out.parquet").json["statistics"]
    table = parquet.read_table("out.parquet")
    assert table["value"].to_pylist() == [str(each["values"][0]) for each in found]
    assert [str(table.schema.field(name).type) for name in ("value", "epsilon")] == ["string", "double"]


@pytest.mark.parametrize("by", [(), ("--group-by", "region=n,s")])
def test_standard_deviations_of_times_are_seconds(ferrodp: Run, by: tuple[str, ...]) -> None:
    """Within 20 percent of the roots of the variances, of the same days as dates and as datetimes."""
    wanted = [f"--{kind}" for kind in ("variance", "standard-deviation")]
    ends = ("day:2020-01-01,2026-01-01", "day:2020-01-01T00:00,2026-01-01T00:00")
    asked = [part for kind in wanted for end in ends for part in (kind, end)]
    found = ferrodp("stats", "t.csv", *asked, *by, "--epsilon", 60, "--json").json["statistics"]

    assert [each["type"] for each in found] == ["squared days", "squared seconds", "seconds", "seconds"]
    days, seconds, *roots = (np.array(each["values"]) for each in found)
    for each in roots:
        assert each == pytest.approx(np.sqrt(days) * 86_400, rel=0.2)
        assert each == pytest.approx(np.sqrt(seconds), rel=0.2)
    plan = ferrodp("stats", "t.csv", *asked, *by, "--epsilon", 60, "--plan", "--json").json["statistics"]
    assert [each["type"] for each in plan] == [each["type"] for each in found]
    assert [each["error_unit"] for each in plan] == ["squared days", "squared seconds", "days", "seconds"]


def test_a_column_of_no_dates_says_that_nothing_is_seen(ferrodp: Run) -> None:
    found = ferrodp("stats", "t.csv", "--mean", "region:2020-01-01,2026-01-01", "--epsilon", 1)
    assert "few or no values" in " ".join(found.out.split())
    assert "2020-01-01" in found.out


@pytest.mark.parametrize("by", [(), ("--group-by", "region=n,s")])
def test_errors_of_a_plan_are_those_of_numbers_of_days(ferrodp: Run, by: tuple[str, ...]) -> None:
    """A date is a number of days: the error of a mean is that of numbers between the bounds, moved to 0."""
    dates = ["--mean", "day:2020-01-01,2026-01-01", "--variance", "day:2020-01-01,2026-01-01"]
    numbers = ["--mean", "stay:18262,20454", "--variance", "stay:18262,20454"]  # days since 1970-01-01
    plans = [
        ferrodp("stats", "t.csv", *each, *by, "--epsilon", 1, "--plan", "--json").json["statistics"]
        for each in (dates, numbers)
    ]

    assert [each["errors"] for each in plans[0]] == [each["errors"] for each in plans[1]]
    assert [each["error_unit"] for each in plans[0]] == ["days", "squared days"]
    assert [each["error_unit"] for each in plans[1]] == [None, None]
    shown = ferrodp("stats", "t.csv", *dates, *by, "--epsilon", 1, "--plan").out
    assert "days of 1,000" in " ".join(shown.split())


def test_a_plan_names_dates_for_what_is_missing(ferrodp: Run) -> None:
    pytest.importorskip("pyarrow")
    found = ferrodp("stats", "t.parquet", "--mean", "day", "--quantiles", "at", "--min", "stay", "--plan", "--json")
    ways = found.json["missing"]
    assert ways[0] == "public bounds: --mean day:LOWER,UPPER, such as day:2020-01-01,2026-01-01"
    assert ways[1].endswith("such as at:2026-01-01T00:00,2026-02-01T00:00")
    assert "such as" not in ways[2]


def test_bounds_of_a_charge_are_dates(ferrodp: Run) -> None:
    ferrodp("ledger", "create", "budget.db", "--scope", "clinic", "--epsilon", 9, "--delta", 1e-6)
    paid = ("--epsilon", 1, "--ledger", "budget.db", "--scope", "clinic")
    wanted = ("--median", "day:2020-01-01,2026-01-01", "--mean", "clock:08:00,20:30")
    assert ferrodp("stats", "t.csv", *wanted, *paid).code == 0
    with fd.PrivacyLedger.open("budget.db") as ledger:
        (charge,) = ledger.releases()
    assert [each.bounds for each in charge.statistics] == ["[2020-01-01, 2026-01-01]", "[08:00:00, 20:30:00]"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--mean", "day:2020-01-01"], 2, "must have dates or times of ISO 8601"),
        (["--mean", "day:2020-01-01,2026-02-30"], 2, "must have dates or times of ISO 8601"),
        (["--mean", "day:2020-1-1,2026-1-1"], 2, "must have dates or times of ISO 8601"),
        (["--mean", "day:2020-01-01,120"], 2, "must have dates or times of ISO 8601"),
        (["--mean", "day:2020-01-01,2026-01-01,2027-01-01"], 2, "is not COLUMN:LOWER,UPPER, such as day:2020"),
        (["--mean", "day:2026-01-01,2020-01-01"], 2, "ascending"),
        (["--mean", "day:2020-01-01,2020-01-01"], 2, "all different"),
        (["--mean", "at:2020-01-01T00:00Z,2026-01-01T00:00"], 2, "with a zone and without one"),
        (["--sum", "day:2020-01-01,2026-01-01"], 2, "which have no sum; take --mean"),
        (["--quantiles", "day:2020-01-01,2026-01-01"], 2, "such as day:2020-01-01,2026-01-01:0.25,0.5"),
        (["--quantiles", "day:2020-01-01,2026-01-01,2027-01-01:0.5"], 2, "is not COLUMN:LOWER,UPPER:Q"),
        (["--quantiles", "day:2020-01-01,2026-01-01:2"], 4, "quantile"),
        (["--histogram", "day:2020-01-01,2026-01-01:0.5"], 2, "is not COLUMN:EDGE"),
        (["--table", "day:2020-01-01,2026-01-01", "region=n,s", "--delta", "1e-6"], 2, "--histogram and --group-by"),
    ],
)
def test_what_cannot_be_is_refused_and_charges_nothing(ferrodp: Run, options: list[str], code: int, said: str) -> None:
    ferrodp("ledger", "create", "budget.db", "--scope", "clinic", "--epsilon", 9, "--delta", 1e-3)
    found = ferrodp("stats", "t.csv", *options, "--epsilon", 1, "--ledger", "budget.db", "--scope", "clinic")

    assert (found.code, said in found.error) == (code, True), found.error
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--mean stay:2020-01-01,2026-01-01", "must have numbers as bounds, as t.parquet holds int64"),
        ("--mean day:0,120", "must have dates or times as bounds, as t.parquet holds date32[day]"),
        ("--histogram at:0,120", "such as --histogram at:2026-01-01T00:00,2026-02-01T00:00"),
        ("--quantiles at:0,120:0.5", "such as --quantiles at:2026-01-01T00:00,2026-02-01T00:00:0.5"),
        ("--mean clock:2020-01-01,2026-01-01", "of that kind"),
        ("--mean at:2020-01-01T00:00Z,2026-01-01T00:00Z", "of that kind"),
    ],
)
def test_bounds_of_another_kind_than_a_typed_column_are_refused(ferrodp: Run, options: str, said: str) -> None:
    """By the command and by its plan, before a row is read."""
    pytest.importorskip("pyarrow")
    for more in ((), ("--plan",)):
        found = ferrodp("stats", "t.parquet", *options.split(), "--epsilon", 1, *more)
        assert (found.code, said in found.error) == (4, True), found.error


@pytest.mark.parametrize(
    ("value", "lower", "upper", "shown"),
    [
        ("2026-01-05", None, None, ("2026-01-05", "")),
        ("2026-01-05T08:30:00.7", None, None, ("2026-01-05 08:30:01", "")),
        ("08:30:00.7", None, None, ("08:30:00", "")),
        (
            *("2026-01-05T08:30:29.5", "2026-01-04T08:30:29.5", "2026-01-06T08:30:29.5"),
            ("2026-01-05 08:30", "2026-01-04 08:30 to 2026-01-06 08:31"),
        ),
        (
            *("2026-01-25T12:30", "2026-01-05T00:00:01", "2026-02-14T00:00:01"),
            ("2026-01-26", "2026-01-05 to 2026-02-15"),
        ),
        (
            *("9999-12-31T23:00", "9999-12-01T00:00", "9999-12-31T23:59:59.999999"),
            ("9999-12-31", "9999-12-01 to 9999-12-31"),
        ),
        ("08:30:00.7", "08:00:00", "09:00:00.25", ("08:30:00", "08:00:00 to 09:00:00")),
        (
            *("2026-01-05T08:30:29+02:00", "2026-01-04T08:30:29+02:00", "2026-01-06T08:30:29+02:00"),
            ("2026-01-05 08:30+02:00", "2026-01-04 08:30+02:00 to 2026-01-06 08:31+02:00"),
        ),
    ],
)
def test_times_are_shown_to_what_their_noise_deserves(
    value: str, lower: str | None, upper: str | None, shown: tuple[str, str]
) -> None:
    """Ends of intervals outward: to the minute, and to the day where the interval is far wider."""
    assert timed.printed(value, lower, upper) == shown


def test_a_column_may_have_a_colon_in_its_name() -> None:
    found = asked.bounded("mean")("a:b:2020-01-01T08:00,2026-01-01T09:00:30")
    assert (found.column, found.times) == (
        "a:b",
        (datetime.datetime(2020, 1, 1, 8), datetime.datetime(2026, 1, 1, 9, 0, 30)),
    )
    found = asked.quantiles("a:b:08:00,20:00:30:0.5")
    assert (found.column, found.times, found.quantiles) == ("a:b", (datetime.time(8), datetime.time(20, 0, 30)), (0.5,))
    assert asked.bounded("mean")("a:08:0,20").column == "a:08"


def test_the_schema_says_what_values_are(ferrodp: Run) -> None:
    text = ferrodp("schema").out
    assert all(kind in text for kind in timed.TYPES)
    assert json.loads(text)["anyOf"]
