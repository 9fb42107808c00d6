"""`ferrodp stats --table` and `--marginals`: counts by several columns together, what they cost, what is refused."""

import csv
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.cli.stats import crossed, releases, tables
from ferrodp.cli.stats.asked import Setting
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics.keys.contributions import contribution
from ferrodp.testing import seeded

Run = Callable[..., Any]
TABLE = ("--table", "region=north,south", "age:0,40,100")
MARGINALS = ("--marginals", "2", "region=north,south", "age:0,40,100", "paid=no,yes")
SPENT = ("--epsilon", 2, "--delta", 1e-6)


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Write `t.csv`, and `t.parquet` where pyarrow is there; some cells are missing, or hold what is not public."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    found: list[dict[str, Any]] = [
        {
            "region": [None, "north", "south", "west"][int(rng.integers(4))],
            "age": None if i % 11 == 0 else int(rng.integers(0, 120)),
            "paid": ["no", "yes"][int(rng.integers(2))],
            "person": i // 2,
        }
        for i in range(4000)
    ]
    with open("t.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return found
    parquet.write_table(pyarrow.Table.from_pylist(found), "t.parquet")
    return found


def cell(row: dict[str, Any]) -> dict[str, str] | None:
    """Return in which cell of each column a row is, None if one of them has none."""
    age = None if row["age"] is None or row["age"] > 100 else "[0, 40)" if row["age"] < 40 else "[40, 100]"
    found = {"region": row["region"], "age": age, "paid": row["paid"]}
    return None if age is None or row["region"] not in ("north", "south") else found


def truth(rows: list[dict[str, Any]], labels: list[str]) -> list[int]:
    """Count the rows of cells that are named as a command names them."""
    cells = [found for row in rows if (found := cell(row)) is not None]
    wanted = [dict(re.findall(r"(\w+)=(\w+|\[.*?[])])", label)) for label in labels]
    return [sum(all(row[name] == value for name, value in each.items()) for row in cells) for each in wanted]


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("asked", [TABLE, MARGINALS])
def test_counts_by_several_columns_are_near_the_truth(
    ferrodp: Run, rows: list[dict[str, Any]], file: str, asked: tuple[str, ...]
) -> None:
    """Noise of a deviation below 8 for each of at most 12 counts: none is 60 off but for 1e-12."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    found = ferrodp("stats", file, *asked, *SPENT, "-o", "out.csv", "--json").json
    (table,) = found["statistics"]
    assert np.abs(np.array(table["values"]) - truth(rows, table["labels"])).max() < 60
    assert min(truth(rows, table["labels"])) > 200  # far from 0
    assert (table["statistic"], table["epsilon"], table["delta"]) == (asked[0].removeprefix("--"), 2.0, 1e-6)
    assert all(a < b < c for a, b, c in zip(table["lower"], table["values"], table["upper"], strict=True))
    written = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines()))
    assert [(each["of"], float(each["value"])) for each in written] == list(
        zip(table["labels"], table["values"], strict=True)
    )


def test_every_cell_is_named_once(ferrodp: Run, rows: list[dict[str, Any]]) -> None:
    regions, ages, paid = (["region=north", "region=south"], ["age=[0, 40)", "age=[40, 100]"], ["paid=no", "paid=yes"])
    (table,) = ferrodp("stats", "t.csv", *TABLE, *SPENT, "--json").json["statistics"]
    assert (table["column"], table["labels"]) == ("region × age", [f"{a}, {b}" for a in regions for b in ages])
    (tables,) = ferrodp("stats", "t.csv", *MARGINALS, *SPENT, "--json").json["statistics"]
    pairs = itertools.combinations([regions, paid, ages], 2)  # columns of names first
    assert tables["labels"] == [f"{a}, {b}" for one, other in pairs for a in one for b in other]
    values = dict(zip(tables["labels"], tables["values"], strict=True))
    by_paid, by_age = (sum(values[f"region=north, {each}"] for each in other) for other in (paid, ages))
    assert by_paid == pytest.approx(by_age, abs=1e-6)  # tables that were measured together agree


def test_of_each_unit_so_many_rows_count_in_a_table(ferrodp: Run, rows: list[dict[str, Any]]) -> None:
    """Of the persons with rows in cells one row each counts; noise of a deviation below 5 for each of 4 counts."""
    (table,) = ferrodp("stats", "t.csv", *TABLE, "--unit", "person", *SPENT, "--json").json["statistics"]
    persons = len({row["person"] for row in rows if cell(row) is not None})
    assert abs(sum(table["values"]) - persons) < 120
    (doubled,) = ferrodp(*("stats", "t.csv", *TABLE, "--unit", "person", "--rows-per-unit", 2, *SPENT, "--json")).json[
        "statistics"
    ]
    assert abs(sum(doubled["values"]) - sum(truth(rows, doubled["labels"]))) < 240


@pytest.mark.parametrize("of", ["table", "marginals"])
def test_tables_of_units_are_those_of_the_function(rows: list[dict[str, Any]], of: str) -> None:
    """With noise of one seed: bit for bit, and the same event."""
    texts = (TABLE if of == "table" else MARGINALS)[1:]
    wanted = crossed.asked([crossed.axis_or_number(each) for each in texts])
    limit = contribution(2, None, None)
    setting = Setting(NeighboringRelation.ADD_OR_REMOVE_ONE, limit, unit="person")
    parts = [EpsilonDeltaEvent(epsilon=0.5, delta=1e-6)]
    with tables.opened(tables.how("t.csv", None, ".")) as table:
        read = table.read(*releases.columns([wanted], setting), lambda _: None)
        release = releases.releaser(table, [wanted], parts, setting, seeded(bytes(32)))
        (found,) = release(read, None).estimates
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    due = fd.private_marginals(
        columns,
        [("region", "age")] if of == "table" else 2,
        categories={"region": ["north", "south"]} | ({} if of == "table" else {"paid": ["no", "yes"]}),
        bins={"age": [0, 40, 100]},
        epsilon=0.5,
        delta=1e-6,
        max_contributions=2,
        unit="person",
        source=seeded(bytes(32)),
    )

    assert isinstance(found, type(due))
    assert found.event == due.event
    assert [found[each].value.tolist() for each in found] == [due[each].value.tolist() for each in due]


@pytest.mark.parametrize("asked", [TABLE, MARGINALS, (*MARGINALS[:2], "region=a,b,c", *MARGINALS[3:])])
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_a_plan_of_tables_is_what_the_command_does(ferrodp: Run, asked: tuple[str, ...], relation: str) -> None:
    arguments = ("stats", "t.csv", *asked, "--count", *SPENT, "--neighboring-relation", relation, "--json")
    if relation == "replace_one":
        arguments = tuple(each for each in arguments if each != "--count")
    plan, found = ferrodp(*arguments, "--plan").json, ferrodp(*arguments).json
    one, other = plan["statistics"][0], found["statistics"][0]
    assert plan["missing"] == []
    assert (one["numbers"], one["epsilon"], one["delta"]) == (len(other["values"]), other["epsilon"], other["delta"])
    half = 0.5 * (np.array(other["upper"]) - np.array(other["lower"]))
    assert half.max() == pytest.approx(one["error"], rel=1e-9)
    assert one["error"] == pytest.approx(1.96 * one["standard_deviation"], rel=1e-3)


def test_a_table_is_part_of_the_one_charge(shell: Run, ferrodp: Run) -> None:
    shell("create", "--scope", "tables", "--epsilon", 4, "--delta", 1e-5, "--measure", "pure")
    pays = ("--ledger", "budget.db", "--scope", "tables")
    found = ferrodp("stats", "t.csv", "--count", *TABLE, *SPENT, *pays, "--json").json
    assert found["delta"] == 1e-6
    part = fd.events.EpsilonDeltaEvent(epsilon=1.0, delta=5e-7)
    with fd.PrivacyLedger.open("budget.db") as ledger:
        (charge,) = ledger.releases("tables")
        assert ledger.tickets()[0].event == fd.events.ComposedEvent(events=(part, part))
    assert [(each.statistic, each.column) for each in charge.statistics] == [("count", None), ("table", "region × age")]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([*TABLE], 4, "--table must have a delta"),
        ([*MARGINALS], 4, "--marginals must have a delta"),
        (["--table", "region=north,south", "--delta", "1e-6"], 2, "two columns or more"),
        (["--table", "region=a,b", "region=c,d", "--delta", "1e-6"], 2, "all different"),
        (["--table", "region=a,b", "age", "--delta", "1e-6"], 2, "'age' is not COLUMN=NAME"),
        (["--marginals", "region=a,b", "paid=no,yes", "--delta", "1e-6"], 2, "the number of columns of a table"),
        (["--marginals", "1", "2", "region=a,b", "--delta", "1e-6"], 2, "the number of columns of a table"),
        (["--marginals", "3", "region=a,b", "paid=no,yes", "--delta", "1e-6"], 4, "--marginals must begin with"),
        (["--marginals", "0", "region=a,b", "paid=no,yes", "--delta", "1e-6"], 4, "--marginals must begin with"),
        (["--table", "region=a", "paid=no,yes", "--delta", "1e-6"], 4, "two cells at least"),
        (["--table", "region=a,b", "age:3,1", "--delta", "1e-6"], 4, "ascending"),
        (["--table", "regio=a,b", "age:1,3", "--delta", "1e-6"], 4, "it has region, age, paid, person"),
        ([*TABLE, "--group-by", "paid=no,yes", "--delta", "1e-6"], 4, "--table must not be given with --group-by"),
    ],
)
def test_tables_that_cannot_be_are_refused_and_charge_nothing(
    shell: Run, ferrodp: Run, options: list[str], code: int, said: str
) -> None:
    found = ferrodp("stats", "t.csv", *options, "--epsilon", 1, "--ledger", "budget.db", "--scope", "hospital")
    assert (found.code, said in found.error) == (code, True), found.error
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []


def test_a_plan_says_that_tables_need_a_delta(ferrodp: Run, wide: None) -> None:
    found = ferrodp("stats", "t.csv", "--plan", *TABLE, "--count", "--epsilon", 1)
    assert (found.code, "a delta, as the noise of tables is Gaussian: --delta D" in found.out) == (0, True)
