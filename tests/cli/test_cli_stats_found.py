"""`ferrodp stats --find-keys`: which keys are found, what finding them costs, and what is refused."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrodp as fd

Run = Callable[..., Any]
TOWNS = {"ash": 600, "birch": 400, "cedar\x1b[2J": 300}
"""How many people live in each town; the last one's name would clear a terminal."""
FIND = ("--group-by", "town", "--find-keys")
BY_UNIT = ("--unit", "person", "--groups-per-unit", "1")


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write `t.csv`, and `t.parquet` where pyarrow is there: two rows of each person, and one in a town of its own."""
    monkeypatch.chdir(tmp_path)
    people = [town for town, size in TOWNS.items() for _ in range(size)]
    rows = [{"town": town, "age": 30 + place % 40, "person": place} for place, town in enumerate(people)] * 2
    rows += [{"town": "alone", "age": 50, "person": len(people)}] * 5000
    with open("t.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["town", "age", "person"])
        writer.writeheader()
        writer.writerows(rows)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return
    parquet.write_table(pyarrow.Table.from_pylist(rows), "t.parquet")


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("method", ["threshold", "selection", "union"])
def test_keys_that_enough_units_have_are_found(ferrodp: Run, file: str, method: str) -> None:
    """A town of one person with 5000 rows is found with a probability of 1e-10; noise is below 100 but for 1e-20."""
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    arguments = ("stats", file, "--count", *FIND, f"{method}:1e-10", *BY_UNIT, "--epsilon", 1, "--json")
    found = ferrodp(*arguments).json
    keys, (count,) = found["found_keys"], found["statistics"]
    assert keys["keys"] == count["labels"] == list(TOWNS)
    assert (keys["column"], keys["method"], keys["epsilon"], keys["delta"]) == ("town", method, 0.5, 1e-10)
    assert (count["epsilon"], count["delta"], found["delta"]) == (0.5, 0.0, 1e-10)
    for values in [count["values"], *([keys["counts"]] if method == "threshold" else [])]:
        assert np.abs(np.array(values) - list(TOWNS.values())).max() < 100
    assert (keys["counts"] is None, keys["threshold"] is None) == (method != "threshold",) * 2
    assert (found["rows_per_unit"], found["groups_per_unit"]) == (1, 1)


def test_counts_of_found_keys_are_those_that_were_paid_for(ferrodp: Run) -> None:
    """The whole of ε is for the keys where no statistic is asked for; rows are counted without a bound on groups."""
    arguments = ("stats", "t.csv", *FIND, "threshold:1e-10", "--unit", "person", "--rows-per-unit", 2)
    found = ferrodp(*arguments, "--epsilon", 2, "--json", "-o", "keys.csv").json
    keys = found["found_keys"]
    assert (keys["keys"], keys["epsilon"], found["statistics"]) == (list(TOWNS), 2.0, [])
    assert np.abs(np.array(keys["counts"]) - 2 * np.array(list(TOWNS.values()))).max() < 30  # scale 1: 1e-12
    assert keys["threshold"] == fd.KeyThreshold(epsilon=2.0, delta=1e-10).threshold(2)
    assert all(keys["threshold"] <= count for count in keys["counts"])
    written = list(csv.DictReader(Path("keys.csv").read_text(encoding="utf-8").splitlines()))
    assert [each["of"] for each in written] == keys["keys"]
    assert [(each["statistic"], int(each["value"]), float(each["lower"])) for each in written] == [
        ("keys", count, lower) for count, lower in zip(keys["counts"], keys["lower"], strict=True)
    ]


def test_what_is_printed_of_found_keys_cannot_steer_a_terminal(ferrodp: Run, wide: None) -> None:
    for method, counted in (("threshold", True), ("union", False)):
        found = ferrodp("stats", "t.csv", *FIND, f"{method}:1e-10", *BY_UNIT, "--epsilon", 1)
        assert found.code == 0
        assert "\x1b" not in found.out
        assert "cedar\\x1b[2J" in found.out
        assert f"3 found in town, by {method}" in found.out
        assert ("a noised count of" in found.out) is counted


@pytest.mark.parametrize("method", ["threshold", "selection", "union"])
def test_where_no_key_is_found_nothing_else_is_released(shell: Run, ferrodp: Run, method: str) -> None:
    """Each of 600 persons is found with a probability of 1e-15. All of it is charged."""
    shell("create", "--scope", "towns", "--epsilon", 4, "--delta", 1e-6, "--measure", "pure")
    asked = ("--count", "--mean", "age:0,100", "--histogram", "age:0,50,100", "--median", "age:0,100")
    arguments = ("stats", "t.csv", *asked, "--group-by", "person", "--find-keys", f"{method}:1e-15", "--where")
    pays = ("--epsilon", 1, "--ledger", "budget.db", "--scope", "towns", "-o", "out.json", "--json")
    found = ferrodp(*arguments, "town=ash", "--unit", "person", *pays).json
    assert found["found_keys"]["keys"] == []
    assert [each["values"] for each in found["statistics"]] == [[]] * 4
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))["statistics"] == found["statistics"]
    assert "none found in person" in ferrodp(*arguments, "town=ash", "--unit", "person", "--epsilon", 1).out
    with fd.PrivacyLedger.open("budget.db") as ledger:
        (ticket,) = ledger.tickets()
        assert ticket.state.value == "spent"


def test_keys_and_statistics_are_one_charge(shell: Run, ferrodp: Run) -> None:
    shell("create", "--scope", "towns", "--epsilon", 4, "--delta", 1e-6, "--measure", "pure")
    asked = ("stats", "t.csv", "--count", "--mean", "age:0,100", *FIND, "threshold:1e-7", *BY_UNIT)
    pays = ("--where", "age>=18", "--epsilon", 1.5, "--delta", 1e-7, "--ledger", "budget.db", "--scope", "towns")
    planned = ferrodp(*asked, *pays, "--plan", "--json").json
    found = ferrodp(*asked, *pays, "--json").json
    assert planned["epsilon"] == found["epsilon"] == 1.5
    assert planned["delta"] == found["delta"] == 2e-7
    with fd.PrivacyLedger.open("budget.db") as ledger:
        (ticket,) = ledger.tickets()
        assert ticket.event == fd.events.ComposedEvent(
            events=(
                fd.events.EpsilonDeltaEvent(epsilon=0.5, delta=1e-7),
                fd.events.EpsilonDeltaEvent(epsilon=0.5, delta=5e-8),
                fd.events.EpsilonDeltaEvent(epsilon=0.5, delta=5e-8),
            )
        )
        (charge,) = ledger.releases("towns")
        said = [each.statistic for each in charge.statistics]
        assert said[0] == "keys of groups of rows with age>=18"
        assert said[1] == "count by groups of town of rows with age>=18"
        assert {each.unit for each in charge.statistics} == {
            "one unit of person, with all of its rows, of which up to 1 in up to 1 groups counts"
        }
        left = ledger.remaining_count("towns", ticket.event)
    assert planned["ledger"]["remaining_count"] == left + 1


@pytest.mark.parametrize("bounds", [(), ("--unit", "person", "--groups-per-unit", "3"), ("--rows-per-unit", "4")])
@pytest.mark.parametrize("noise", [(), ("--delta", "1e-6")], ids=["laplace", "gaussian"])
def test_a_plan_says_how_keys_would_be_found(ferrodp: Run, bounds: tuple[str, ...], noise: tuple[str, ...]) -> None:
    """Errors are equal but for the rounding of a noise's grid, which depends on how many keys there are."""
    asked = ("--count", "--sum", "age:0,100", "--mean", "age:0,100", "--quantiles", "age:0,100:0.2,0.8", *noise)
    arguments = ("stats", "t.csv", *asked, *FIND, "threshold:1e-6", *bounds, "--epsilon", 5, "--json")
    plan, found = ferrodp(*arguments, "--plan").json, ferrodp(*arguments).json
    for name in ("epsilon", "delta", "unit", "rows_per_unit", "groups_per_unit"):
        assert plan[name] == found[name], name
    said, keys = plan["found_keys"], found["found_keys"]
    assert {name: said[name] for name in ("column", "method", "epsilon", "delta", "threshold")} == {
        name: keys[name] for name in ("column", "method", "epsilon", "delta", "threshold")
    }
    half = 0.5 * (np.array(keys["upper"]) - np.array(keys["lower"]))
    assert half.tolist() == [said["error"]] * len(keys["keys"])
    assert [each["numbers"] for each in plan["statistics"]] == [1, 1, 1, 2]
    for one, other in zip(plan["statistics"], found["statistics"], strict=True):
        assert one["numbers"] * len(keys["keys"]) == len(other["values"])
        if one["error"] is not None:
            half = 0.5 * (np.array(other["upper"]) - np.array(other["lower"]))
            assert half == pytest.approx(np.full(half.size, one["error"]), rel=1e-6)


def test_a_unit_with_one_row_in_each_of_its_groups_needs_less_noise(ferrodp: Run) -> None:
    """Of 100 groups √100 times the Gaussian noise of one, where 100 rows anywhere would need 100 times as much."""
    arguments = ("stats", "t.csv", "--plan", "--count", "--mean", "age:0,100", "--group-by", "town=ash,birch")
    spent = ("--epsilon", 1, "--delta", 1e-6, "--json")
    one, many, rows = (
        ferrodp(*arguments, *more, *spent).json["statistics"]
        for more in ((), ("--groups-per-unit", 100), ("--rows-per-unit", 100))
    )
    deviations = [each[0]["standard_deviation"] for each in (one, many, rows)]
    assert deviations[1] / deviations[0] == pytest.approx(math.sqrt(100), rel=0.05)
    assert deviations[2] / deviations[0] == pytest.approx(100, rel=0.05)
    errors = [each[1]["errors"][1]["error"] for each in (one, many, rows)]
    assert errors[1] / errors[0] == pytest.approx(math.sqrt(100), rel=0.05)
    assert errors[2] / errors[0] == pytest.approx(100, rel=0.2)  # an interval of a ratio


def test_a_plan_without_a_budget_or_a_method_says_what_is_missing(ferrodp: Run, wide: None) -> None:
    found = ferrodp("stats", "t.csv", "--plan", "--count", *FIND, "union:1e-6")
    assert found.code == 0
    assert "a budget: --epsilon E" in found.out
    assert "public keys" not in found.out
    bare = ferrodp("stats", "t.csv", "--plan", "--count", "--group-by", "town", "--epsilon", 1)
    assert "or add --find-keys threshold:1e-6, which finds them" in bare.out
    alone = ferrodp("stats", "t.csv", "--plan", *FIND, "union:1e-6", "--epsilon", 1)
    assert "missing" not in alone.out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--count", "--find-keys", "threshold:1e-6"], 4, "add --group-by COLUMN, whose keys"),
        (["--count", "--groups-per-unit", "2"], 4, "--groups-per-unit must come with groups"),
        (["--count", "--group-by", "town=ash", "--find-keys", "union:1e-6"], 4, "write --group-by town"),
        ([*FIND, "threshold:0"], 2, "a delta in (0, 1)"),
        ([*FIND, "threshold:1"], 2, "a delta in (0, 1)"),
        ([*FIND, "threshold"], 2, "is not METHOD:DELTA"),
        ([*FIND, "best:1e-6"], 2, "threshold, selection, union"),
        ([*FIND, "selection:1e-6", "--rows-per-unit", "2"], 4, "--groups-per-unit 1"),
        ([*FIND, "selection:1e-6", "--groups-per-unit", "2", "--unit", "person"], 4, "--find-keys union:1e-06"),
        ([*FIND, "selection:1e-6", "--neighboring-relation", "replace_one"], 4, "add_or_remove_one, got replace_one"),
        ([*FIND, "selection:1e-6", "--groups-per-unit", "0"], 4, "--groups-per-unit"),
        ([*FIND, "union:1e-6", "--distinct", "ages"], 4, "it has town, age, person"),
        ([*FIND, "union:1e-6", "--mean", "age:9,1"], 4, "bounds"),
        (["--count", "--group-by", "place", "--find-keys", "union:1e-6"], 4, "it has town, age, person"),
    ],
)
@pytest.mark.parametrize("plan", [(), ("--plan",)], ids=["released", "planned"])
def test_what_does_not_fit_together_is_refused_and_charges_nothing(
    shell: Run, ferrodp: Run, options: list[str], code: int, said: str, plan: tuple[str, ...]
) -> None:
    pays = ("--epsilon", 1, "--ledger", "budget.db", "--scope", "hospital")
    found = ferrodp("stats", "t.csv", *options, *pays, *plan)
    assert (found.code, said in found.error) == (code, True), found.error
    with fd.PrivacyLedger.open("budget.db") as ledger:
        assert ledger.tickets() == []
