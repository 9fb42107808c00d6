"""`ferrodp stats -o`: what the file holds, and that a file that cannot be written costs nothing, or loses nothing."""

import csv
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ferrodp as fd
from ferrodp.cli.stats import written
from ferrodp.files import Destination, FileRefused

Run = Callable[..., Any]
ASKED = ("--count", "--mean", "age:0,100", "--median", "age:0,100", "--histogram", "region=north,south")
PAID = ("--ledger", "budget.db", "--scope", "survey")


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{20 + i % 60},{('north', 'south')[i % 2]}" for i in range(400)]
    Path("t.csv").write_text("\n".join(["age,region", *rows]) + "\n", encoding="utf-8")


def of_report(report: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a file has to hold: the slow and obvious way."""
    found = []
    for each in report["statistics"]:
        for place, value in enumerate(each["values"]):
            label = each["labels"][place] if each["labels"] else None
            ends = [each[end][place] if each[end] else None for end in ("lower", "upper")]
            found.append((each["statistic"], each["column"], label, value, *ends, each["epsilon"], each["delta"]))
    return found


def test_the_file_holds_what_is_printed(ferrodp: Run) -> None:
    """In CSV, in JSON, and in Parquet by either package; one number a row."""
    names = ["statistic", "column", "of", "value", "lower", "upper", "epsilon", "delta"]
    found = ferrodp("stats", "t.csv", *ASKED, "--epsilon", 4, "-o", "out.csv", "--json").json
    with open("out.csv", newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    assert header == names
    assert found["output"] == "out.csv"
    texts = [tuple("" if each is None else str(each) for each in row) for row in of_report(found)]
    assert [tuple(row) for row in rows] == texts
    assert len(rows) == 5

    found = ferrodp("stats", "t.csv", *ASKED, "--epsilon", 4, "-o", "out.json", "--json").json
    assert json.loads(Path("out.json").read_text(encoding="utf-8")) == found


@pytest.mark.parametrize("reader", ["pyarrow", "polars"])
def test_parquet_holds_numbers_as_numbers(ferrodp: Run, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("polars")
    with monkeypatch.context() as patch:
        if reader == "polars":
            patch.setitem(sys.modules, "pyarrow", None)
        found = ferrodp("stats", "t.csv", *ASKED, "--epsilon", 4, "-o", "out.parquet", "--json").json
    read = parquet.read_table("out.parquet")

    assert [tuple(row.values()) for row in read.to_pylist()] == of_report(found)
    assert read.schema.field("value").type == pyarrow.float64()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["-o", "out.txt"], 4, "--output must end in one of .csv, .json, .parquet, got 'out.txt'"),
        (["-o", "out"], 4, "--output must end in one of"),
        (["-o", "nowhere/out.csv"], 15, "nowhere/out.csv: cannot be written: No such file"),
        (["-o", "there.csv"], 15, "exists already"),
        (["-o", "folder.csv", "--force"], 15, "is not a regular file"),
        (["-o", "t.csv", "--force"], 15, "t.csv: is the table that is read, and would be overwritten"),
        (["-o", "link.csv", "--force"], 15, "link.csv: is the table that is read, and would be overwritten"),
        (["-o", "ledger.csv", "--force"], 15, "ledger.csv: is the ledger, and would be overwritten"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_charged(
    shell: Run, ferrodp: Run, options: list[str], code: int, said: str
) -> None:
    Path("there.csv").write_text("mine", encoding="utf-8")
    Path("folder.csv").mkdir()
    os.link("t.csv", "link.csv")
    os.symlink("budget.db", "ledger.csv")
    before = Path("t.csv").read_bytes()

    found = ferrodp("stats", "t.csv", *ASKED, "--epsilon", 0.5, *PAID, *options)

    assert (found.code, said in found.error) == (code, True), found.error
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []
    assert Path("there.csv").read_text(encoding="utf-8") == "mine"
    assert Path("t.csv").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_refused(ferrodp: Run) -> None:
    Path("closed").mkdir(mode=0o500)
    assert ferrodp("stats", "t.csv", *ASKED, "--epsilon", 1, "-o", "closed/out.csv").code == 15


def test_force_replaces_a_file_whole(ferrodp: Run) -> None:
    Path("out.csv").write_text("x" * 100_000, encoding="utf-8")
    assert ferrodp("stats", "t.csv", "--count", "--epsilon", 1, "-o", "out.csv", "--force").code == 0
    assert len(Path("out.csv").read_text(encoding="utf-8").splitlines()) == 2


def test_parquet_without_a_package_is_refused_before_anything_is_charged(
    shell: Run, ferrodp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    found = ferrodp("stats", "t.csv", *ASKED, "--epsilon", 0.5, *PAID, "-o", "out.parquet")
    assert 'pip install "ferrodp[parquet]"' in found.error
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []


@pytest.mark.parametrize("json", [False, True])
def test_numbers_that_were_paid_for_are_printed_if_the_file_fails_in_the_end(
    shell: Run, ferrodp: Run, monkeypatch: pytest.MonkeyPatch, json: bool
) -> None:
    def full(self: Destination, write: Any) -> None:
        raise FileRefused("out.csv", "No space left on device")

    monkeypatch.setattr(Destination, "commit", full)
    found = ferrodp("stats", "t.csv", *ASKED, "--epsilon", 0.5, *PAID, "-o", "out.csv", *(["--json"] if json else []))

    assert (found.code, "No space left on device" in found.err) == (15, True)
    assert not Path("out.csv").exists()
    assert "histogram" in found.out
    assert found.out.count("\n") == 1 or not json
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert [ticket.state.value for ticket in ledger.tickets()] == ["spent"]


def test_stray_bytes_of_a_command_line_are_written_as_question_marks() -> None:
    statistics = [
        {
            "statistic": "histogram",
            "column": "a\udcff",
            "values": [3],
            "labels": ["\udcfe"],
            "lower": [1.0],
            "upper": [5.0],
            "epsilon": 1.0,
            "delta": 0.0,
        }
    ]
    for ending in (".csv", ".json"):
        written.writer(f"out{ending}")({"statistics": statistics, "found_keys": None})
    assert written.rows({"statistics": statistics, "found_keys": None})["column"] == ["a?"]
