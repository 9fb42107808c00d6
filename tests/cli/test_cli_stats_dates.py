"""`ferrodp stats` by the calendar: histograms and groups of dates, in texts and in typed columns; what is refused."""

import collections
import csv
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd

Run = Callable[..., Any]
YEAR = "day:2026-01-01..2027-01-01:"


@pytest.fixture(autouse=True)
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Write `t.csv`, and `t.parquet` where pyarrow is there; return the day of each row, None for what is no date."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    found: list[str | None] = []
    first = datetime.date(2025, 12, 1)
    for i in range(4000):
        day = (first + datetime.timedelta(int(rng.integers(0, 420)))).isoformat()
        found.append(None if i % 13 == 0 else day)
    endings = ["", " ", "T08:30", " 23:59:59.5"]
    nothing = ["", "n/a", "yesterday", "2026-02-30", "20260101", "2026-06-01T00:00+02:00"]
    with open("t.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient", "day", "stay"])
        for i, date in enumerate(found):
            cell = nothing[i % len(nothing)] if date is None else date + endings[i % len(endings)]
            writer.writerow([i // 2, cell, i % 10])
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return found
    typed = [None if date is None else datetime.date.fromisoformat(date) for date in found]
    columns = {"day": typed, "stay": [i % 10 for i in range(4000)], "patient": [i // 2 for i in range(4000)]}
    parquet.write_table(pyarrow.table(columns), "t.parquet")
    return found


def truth(days: list[str | None], letters: int) -> dict[str, int]:
    """Count the rows of 2026 by so many letters of their date."""
    return dict(collections.Counter(day[:letters] for day in days if day is not None and day.startswith("2026")))


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(("part", "letters", "size"), [("month", 7, 12), ("day", 10, 365), ("year", 4, 1)])
@pytest.mark.parametrize("asked", [("--histogram",), ("--count", "--group-by")])
def test_counts_by_the_calendar_are_near_the_truth(
    ferrodp: Run, days: list[str | None], file: str, part: str, letters: int, size: int, asked: tuple[str, ...]
) -> None:
    """Laplace noise at ε = 2: none of 365 is 20 off but for a chance of 1e-14."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (found,) = ferrodp("stats", file, *asked, YEAR + part, "--epsilon", 2, "--json").json["statistics"]
    due = truth(days, letters)

    assert len(found["values"]) == size
    assert set(due) <= set(found["labels"])
    assert max(abs(n - due.get(label, 0)) for n, label in zip(found["values"], found["labels"], strict=True)) < 20
    assert all(a < b < c for a, b, c in zip(found["lower"], found["values"], found["upper"], strict=True))


def test_hours_are_bins_of_times(ferrodp: Run, days: list[str | None]) -> None:
    options = ["--histogram", "day:2026-03-01T00:00..2026-03-02T00:00:hour", "--epsilon", 5, "--json"]
    (found,) = ferrodp("stats", "t.csv", *options).json["statistics"]

    assert found["labels"][8] == "2026-03-01 08:00"
    hours = [[0, 0, 8, 23][i % 4] for i, day in enumerate(days) if day == "2026-03-01"]
    due = np.bincount(hours, minlength=24)
    assert np.abs(np.array(found["values"]) - due).max() < 10  # but for a chance of 1e-20


def test_means_by_month_are_of_units(ferrodp: Run) -> None:
    options = ["--mean", "stay:0,10", "--group-by", YEAR + "quarter", "--unit", "patient", "--rows-per-unit", 2]
    found = ferrodp("stats", "t.csv", *options, "--epsilon", 2, "--json").json

    assert found["statistics"][0]["labels"] == ["2026-01", "2026-04", "2026-07", "2026-10"]
    assert all(2.0 < mean < 7.0 for mean in found["statistics"][0]["values"])
    assert found["unit"] == "patient"


@pytest.mark.parametrize("asked", [("--histogram", YEAR + "month"), ("--count", "--group-by", YEAR + "month")])
def test_a_plan_of_dates_is_what_the_command_does(ferrodp: Run, asked: tuple[str, ...]) -> None:
    planned = ferrodp("stats", "t.csv", *asked, "--epsilon", 1, "--plan", "--json").json["statistics"]
    done = ferrodp("stats", "t.csv", *asked, "--epsilon", 1, "--json").json["statistics"]

    assert [(each["statistic"], each["numbers"]) for each in planned] == [(each["statistic"], 12) for each in done]
    half = (done[0]["upper"][0] - done[0]["lower"][0]) / 2
    assert planned[0]["error"] == pytest.approx(half)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--histogram", "day:2026-01-01..2026-01-01:month"], 2, "start must be before end"),
        (["--histogram", "day:2026-01-01..2026-02-30:month"], 2, "two dates"),
        (["--histogram", "day:2026-01-01..2027-01-01:fortnight"], 2, "hour, day, week, month, quarter, year"),
        (["--histogram", "day:0001-01-01..9999-01-01:hour"], 2, "at most 1000000 bins apart"),
        (["--histogram", "dya:2026-01-01..2027-01-01:month"], 4, "it has patient, day, stay"),
        (["--table", YEAR + "month", "stay:0,5,10", "--delta", "1e-6"], 2, "--histogram and --group-by"),
        (["--count", "--group-by", YEAR + "month", "--find-keys", "threshold:1e-6"], 4, "must have no keys"),
        (["--table", "stay:0,5", "stay:0,9", "--group-by", YEAR + "month"], 2, "all different"),
    ],
)
def test_dates_that_cannot_be_are_refused_and_charge_nothing(
    ferrodp: Run, options: list[str], code: int, said: str
) -> None:
    assert ferrodp("ledger", "create", "budget.db", "--scope", "clinic", "--epsilon", 9, "--delta", 1e-3).code == 0
    found = ferrodp("stats", "t.csv", *options, "--epsilon", 1, "--ledger", "budget.db", "--scope", "clinic")

    assert (found.code, said in found.error) == (code, True), found.error
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []


def test_a_typed_column_of_numbers_has_no_dates(ferrodp: Run) -> None:
    pytest.importorskip("pyarrow")
    found = ferrodp("stats", "t.parquet", "--histogram", "stay:2026-01-01..2027-01-01:month", "--epsilon", 1)

    assert (found.code, "must be dates" in found.error) == (4, True), found.error
