"""`ferrodp stats --plan`: what it says is what the command does; it draws, charges and writes nothing, reads no row."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.cli.stats import parquet, text
from ferrodp.random import NoiseSource

Run = Callable[..., Any]
ASKED = (
    *("--count", "--sum", "age:0,100", "--mean", "age:0,100", "--variance", "age:0,100", "--median", "age:0,100"),
    *("--quantiles", "age:0,100:0.25,0.75", "--min", "age:0,100", "--max", "age:0,100", "--distinct", "patient"),
    *("--standard-deviation", "age:0,100", "--bounds", "age"),
    *("--histogram", "region=north,south", "--histogram", "age:0,50,100"),
)
GROUPED = (
    *("--count", "--sum", "age:0,100", "--mean", "age:0,100", "--median", "age:0,100", "--histogram", "age:0,50,100"),
    *("--distinct", "region", "--standard-deviation", "age:0,100", "--bounds", "age"),
    *("--group-by", "region=north,south,east", "--unit", "patient", "--rows-per-unit", "3"),
)
PAID = ("--ledger", "budget.db", "--scope", "survey")


def write(name: str, rows: int) -> None:
    """Write a table whose rows depend on how many there are."""
    lines = [f"{20 + (i * rows) % 60},{('north', 'south')[i % 2]},{i // 2}" for i in range(rows)]
    Path(name).write_text("\n".join(["age,region,patient", *lines]) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("t.csv", 1000)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("asked", [(), ("--count", "--mean", "age"), ASKED, GROUPED], ids=["none", "some", "all", "by"])
@pytest.mark.parametrize("more", [(), ("--epsilon", "2", "--delta", "1e-6"), ("--epsilon", "1", "--json")])
def test_files_of_one_header_have_one_plan(
    ferrodp: Run, ending: str, asked: tuple[str, ...], more: tuple[str, ...]
) -> None:
    """The same bytes for no row, for one, for a thousand, and for rows that no table may have."""
    found = set()
    rows: list[list[dict[str, Any]]] = [
        [],
        [{"age": 7, "region": "secret", "patient": 1}],
        [{"age": i, "region": "north", "patient": i % 7} for i in range(1000)],
        [{"age": None, "region": None, "patient": None}] * 5,
    ]
    for table in rows:
        if ending == "csv":
            lines = [",".join("" if each is None else str(each) for each in row.values()) for row in table]
            Path("x.csv").write_text("\n".join(["age,region,patient", *lines]), encoding="utf-8")
        else:
            pyarrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            schema = pyarrow.schema([("age", "int64"), ("region", "string"), ("patient", "int64")])
            parquet.write_table(pyarrow.Table.from_pylist(table, schema=schema), "x.parquet")
        outcome = ferrodp("stats", f"x.{ending}", "--plan", *asked, *more)
        assert (outcome.code, outcome.err) == (0, "")
        assert "secret" not in outcome.out
        found.add(outcome.out)
    if ending == "csv":
        Path("x.csv").write_bytes(b"age,region,patient\nsecret,1,2,3,4,5\n\xff\xfe\0" + b'"')
        found.add(ferrodp("stats", "x.csv", "--plan", *asked, *more).out)
    assert len(found) == 1


@pytest.mark.parametrize("asked", [ASKED, GROUPED], ids=["columns", "groups"])
@pytest.mark.parametrize("noise", [(), ("--delta", "1e-6")], ids=["laplace", "gaussian"])
def test_what_a_plan_says_is_what_the_command_does(
    ferrodp: Run, asked: tuple[str, ...], noise: tuple[str, ...]
) -> None:
    """Epsilons, deltas and numbers are equal, and so are errors where they depend on no row; means are near."""
    arguments = ("stats", "t.csv", *asked, "--epsilon", 3, *noise, "--json")
    plan, found = ferrodp(*arguments, "--plan").json, ferrodp(*arguments).json

    for name in ("epsilon", "delta", "unit", "rows_per_unit", "where", "neighboring_relation"):
        assert plan[name] == found[name], name
    assert plan["missing"] == []
    for one, other in zip(plan["statistics"], found["statistics"], strict=True):
        for name in ("statistic", "column", "epsilon", "delta"):
            assert one[name] == other[name], name
        assert one["numbers"] == len(other["values"])
        assert one["is_choice"] == (one["statistic"] in ("median", "quantiles", "min", "max"))
        if one["error"] is not None:
            half = 0.5 * (np.array(other["upper"]) - np.array(other["lower"]))
            assert half == pytest.approx(np.full(half.size, one["error"]), rel=1e-12)
    assert {one["statistic"] for one in plan["statistics"] if one["errors"]} == {
        "mean",
        "variance",
        "standard-deviation",
    } & {one["statistic"] for one in plan["statistics"]}


def test_errors_of_means_are_those_of_a_table_of_so_many_rows(ferrodp: Run) -> None:
    """Halves of the intervals of a released mean and variance differ by their noise: by less than a fifth, 1e-6."""
    Path("t.csv").write_text("age\n" + "\n".join(map(str, np.linspace(0, 100, 1000))), encoding="utf-8")
    arguments = ("stats", "t.csv", "--mean", "age:0,100", "--variance", "age:0,100", "--epsilon", 20, "--json")
    plan, found = ferrodp(*arguments, "--plan").json, ferrodp(*arguments).json
    for one, other in zip(plan["statistics"], found["statistics"], strict=True):
        (said,) = (each["error"] for each in one["errors"] if each["rows"] == 1000)
        assert 0.5 * (other["upper"][0] - other["lower"][0]) == pytest.approx(said, rel=0.2)


def test_a_plan_draws_nothing_charges_nothing_and_reads_no_row(
    shell: Run, ferrodp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError

    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    with monkeypatch.context() as patch:
        for reader in (text.Texts, parquet.ByArrow, parquet.ByPolars):
            patch.setattr(reader, "read", fail)
        patch.setattr(NoiseSource, "_key", fail)
        patch.setattr(os, "urandom", fail)
        for asked in (ASKED, GROUPED):
            found = ferrodp("stats", "t.csv", *asked, "--epsilon", 0.25, *PAID, "--plan", "--json").json
            assert found["ledger"]["remaining_count"] == 4
            assert 0.75 <= found["ledger"]["epsilon_left"] < 0.75 + 1e-12  # shares are rounded down
        assert ferrodp("stats", "t.csv", "--count", "--epsilon", 1).code != 0
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []


def test_a_plan_says_what_a_ledger_has_left(shell: Run, ferrodp: Run) -> None:
    shell("create", "--scope", "survey/inner", "--epsilon", 5, "--delta", 0, "--measure", "pure")
    arguments = ("stats", "t.csv", "--count", "--ledger", "budget.db")
    inner = ferrodp(*arguments, "--scope", "survey/inner", "--epsilon", 0.25, "--plan", "--json").json["ledger"]
    assert (inner["remaining_count"], inner["epsilon_left"]) == (4, 0.75)
    renyi = ferrodp(*arguments, "--scope", "hospital", "--epsilon", 0.25, "--plan", "--json").json["ledger"]
    assert (renyi["remaining_count"] > 4, renyi["epsilon_left"]) == (True, None)
    dear = ferrodp(*arguments, "--scope", "survey", "--epsilon", 2, "--plan")
    assert (dear.code, "the command would be refused" in dear.out) == (0, True)
    assert ferrodp(*arguments, "--scope", "survey", "--epsilon", 2).code == 5
    lacks = ferrodp(*arguments, "--scope", "survey", "--plan", "--json").json
    assert (lacks["ledger"]["remaining_count"], lacks["missing"]) == (None, ["a budget: --epsilon E"])


LACKING = [
    (
        ("--table", "region", "age", "--delta", "1e-6"),
        "public names, or edges as COLUMN:EDGE,...: --table region=NAME,NAME,... age=NAME,NAME,...",
    ),
    (("--mean", "age"), "public bounds: --mean age:LOWER,UPPER"),
    (("--quantiles", "age"), "public bounds and quantiles: --quantiles age:LOWER,UPPER:Q,Q,..."),
    (("--quantiles", "age:0,99"), "quantiles: --quantiles age:0,99:Q,Q,..."),
    (
        ("--histogram", "region"),
        "public edges or names: --histogram region:EDGE,EDGE,... or region=NAME,NAME,... or, of dates, "
        "region:START..END:month",
    ),
    (
        ("--count", "--group-by", "region"),
        "public keys: --group-by region=KEY,KEY,...; or add --find-keys threshold:1e-6, which finds them",
    ),
]


@pytest.mark.parametrize(("asked", "way"), LACKING, ids=[" ".join(asked) for asked, _ in LACKING])
def test_a_plan_says_what_is_missing_which_a_command_refuses(
    ferrodp: Run, wide: None, asked: tuple[str, ...], way: str
) -> None:
    found = ferrodp("stats", "t.csv", "--plan", *asked, "--epsilon", 1)
    assert (found.code, way in found.out) == (0, True), found.out
    assert ferrodp("stats", "t.csv", "--plan", *asked, "--epsilon", 1, "--json").json["missing"] == [way]
    refused = ferrodp("stats", "t.csv", *asked, "--epsilon", 1)
    name, column = asked[-2:] if asked[0] != "--table" else asked[:2]
    assert (refused.code, f"argument {name}: {column!r} is not COLUMN" in refused.error) == (2, True)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--mean", "agee"], 4, "it has age, region, patient"),
        (["--count", "--epsilon", "0"], 4, "--epsilon"),
        (["--mean", "age:9,1", "--epsilon", "1"], 4, "bounds"),
        (["--mean", "age:9"], 2, "COLUMN:LOWER,UPPER"),
        (["--distinct", "agee", "--group-by", "region=a"], 4, "it has age, region, patient"),
        (["--count", "-o", "plan.csv"], 4, "--output must be left out with --plan"),
        (["--count", "--ledger", "budget.db", "--scope", "survey", "--key", "k"], 4, "--key must be left out"),
        (["--count", "--epsilon", "1", "--ledger", "budget.db", "--scope", "nothere"], 7, "survey"),
        (
            ["--count", "--epsilon", "1", *PAID, "--neighboring-relation", "replace_special"],
            4,
            "--neighboring-relation must be that of scope",
        ),
    ],
)
def test_a_plan_refuses_what_the_command_would(
    shell: Run, ferrodp: Run, options: list[str], code: int, said: str
) -> None:
    found = ferrodp("stats", "t.csv", "--plan", *options)
    assert (found.code, said in found.error) == (code, True), found.error
    assert not Path("plan.csv").exists()


def test_a_plan_of_standard_input_reads_its_first_line(ferrodp: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("t.csv", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        found = ferrodp("stats", "-", "--plan", "--json").out
    assert [each["column"] for each in json.loads(found)["columns"]] == ["age", "region", "patient"]
