"""What the programs say to do instead: the command line, the demo and the page, as `hints.py` has it of the library."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pyarrow
from mistaken_objects import EVENT
from pyarrow import parquet

from ferrodp.cli import main
from ferrodp.demo import checkpoint, records
from ferrodp.explorer.lessons.costs import spending
from support.hints import Hint


class PrintedError(ValueError):
    """What a command has printed."""


def command(line: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and all that it has printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(line.split())
    return code, printed.getvalue()


def says(line: str, *, code: int) -> None:
    """Raise what a command prints, which has to end with a code."""
    found, printed = command(line)
    assert found == code, printed
    raise PrintedError(printed)


def does(line: str) -> str:
    """Run a command that has to succeed; return what it has printed."""
    code, printed = command(line)
    assert code == 0, printed
    return printed


def visits(line: str) -> str:
    """Write a table of ages and regions, and return the arguments of a command that reads it."""
    Path("visits.csv").write_text("age,region,day\n30,north,2026-05-01\n40,south,\n", encoding="utf-8")
    return f"stats visits.csv --epsilon 1 {line}"


def semicolons(name: str, options: str = "") -> str:
    """Write a table whose separator is a semicolon, and return the arguments that average its ages."""
    Path(name).write_text("age;region\n30;north\n40;south\n", encoding="utf-8")
    return f"stats {name} --epsilon 1 --mean age:0,120 {options}"


def groups(kind: Any, keys: str) -> str:
    """Write a Parquet table with a column of a type, and return the arguments that count its rows by keys."""
    parquet.write_table(pyarrow.table({"x": pyarrow.array([None], kind)}), "x.parquet")
    return f"stats x.parquet --count --epsilon 1 --group-by x={keys}"


def averaged(kind: Any, bounds: str) -> str:
    """Write a Parquet table with a column of a type, and return the arguments that average it."""
    groups(kind, "1")
    return f"stats x.parquet --epsilon 1 --mean x:{bounds}"


def demonstrated(options: str = "", *, task: str = "federated", then: str = "") -> str:
    """Train the demo for a round that a ledger pays for, and return the arguments of what is done then."""
    start = f"demo --task {task} --rounds 1 --ledger demo.db --epsilon 2 --noise-multiplier 9"
    if not Path("demo.db").exists():
        does(f"{start} {options}")
    return f"{start} {then}"


def of_other_version(room: Any) -> Path:
    """Write a checkpoint of another version."""
    path = Path("checkpoint.json")
    path.write_text('{"version": 0}')
    return path


def moved_away(room: Any) -> None:
    """Move a checkpoint away, after which there is none."""
    path = of_other_version(room)
    path.rename("away.json")
    assert room.load(path) is None


def restored(c: Any) -> str:
    """Return the arguments that make a ledger of a backup."""
    does(f"ledger backup {c.path} --output backup.jsonl")
    return "ledger import restored.db --from backup.jsonl --reason lost"


STATISTICS = [
    Hint(
        "is not COLUMN:LOWER,UPPER, such as age:0,120",
        lambda c: says(visits("--mean age"), code=2),
        lambda c: does(visits("--mean age:0,120")),
    ),
    Hint(
        "is not COLUMN:LOWER,UPPER:Q,Q,..., such as age:0,120:0.25,0.5",
        lambda c: says(visits("--quantiles age:0,120"), code=2),
        lambda c: does(visits("--quantiles age:0,120:0.25,0.5")),
    ),
    Hint(
        "is not COLUMN:EDGE,... or COLUMN=NAME,..., such as age:0,20,120",
        lambda c: says(visits("--histogram age"), code=2),
        lambda c: (does(visits("--histogram age:0,20,120")), does(visits("--histogram region=north,south"))),
    ),
    Hint(
        "is not COLUMN=NAME,NAME,..., such as region=north,south",
        lambda c: says(visits("--count --group-by region"), code=2),
        lambda c: does(visits("--count --group-by region=north,south")),
    ),
    Hint(
        "is not COLUMN=NAME,... or COLUMN:EDGE,..., such as region=north,south",
        lambda c: says(visits("--delta 1e-6 --table region age:0,40,120"), code=2),
        lambda c: does(visits("--delta 1e-6 --table region=north,south age:0,40,120")),
    ),
    Hint(
        "must begin with the number of columns of a table, such as 2",
        lambda c: says(visits("--delta 1e-6 --marginals region=north,south age:0,40,120"), code=2),
        lambda c: does(visits("--delta 1e-6 --marginals 2 region=north,south age:0,40,120")),
    ),
    Hint(
        "must name two columns or more, all different; take --histogram for one",
        lambda c: says(visits("--delta 1e-6 --table region=north,south"), code=2),
        lambda c: (
            does(visits("--histogram region=north,south")),
            does(visits("--delta 1e-6 --table region=north,south age:0,40,120")),
        ),
    ),
    Hint(
        "--table must have a delta, got none: its noise is Gaussian; add --delta 1e-6",
        lambda c: says(visits("--table region=north,south age:0,40,120"), code=4),
        lambda c: does(visits("--table region=north,south age:0,40,120 --delta 1e-6")),
    ),
    Hint(
        "; or add --find-keys threshold:1e-6, which finds its keys at a price",
        lambda c: says(visits("--count --group-by region"), code=2),
        lambda c: does(visits("--count --group-by region --find-keys threshold:1e-6")),
    ),
    Hint(
        "; or add --find-keys threshold:1e-6, which finds them",
        lambda c: says(visits("--plan --count --group-by region"), code=0),
        lambda c: does(visits("--plan --count --group-by region --find-keys threshold:1e-6")),
    ),
    Hint(
        "and a delta in (0, 1), such as threshold:1e-6",
        lambda c: says(visits("--group-by region --find-keys 1e-6"), code=2),
        lambda c: does(visits("--group-by region --find-keys threshold:1e-6")),
    ),
    Hint(
        "; add --group-by COLUMN, whose keys are found",
        lambda c: says(visits("--find-keys threshold:1e-6"), code=4),
        lambda c: does(visits("--group-by region --find-keys threshold:1e-6")),
    ),
    Hint(
        "write --group-by region",
        lambda c: says(visits("--group-by region=north --find-keys threshold:1e-6"), code=4),
        lambda c: does(visits("--group-by region --find-keys threshold:1e-6")),
    ),
    Hint(
        "--find-keys needs the relation add_or_remove_one, got replace_one; give public keys",
        lambda c: says(
            visits("--count --group-by region --find-keys union:1e-6 --neighboring-relation replace_one"), code=4
        ),
        lambda c: (
            does(visits("--count --group-by region --find-keys union:1e-6 --neighboring-relation add_or_remove_one")),
            does(visits("--count --group-by region=north --neighboring-relation replace_one")),
        ),
    ),
    Hint(
        "; give --unit COLUMN and --groups-per-unit 1, or write --find-keys union:1e-06",
        lambda c: says(visits("--group-by region --find-keys selection:1e-6 --rows-per-unit 2"), code=4),
        lambda c: (
            does(visits("--group-by region --find-keys selection:1e-6")),
            does(visits("--group-by region --find-keys selection:1e-6 --unit age --groups-per-unit 1")),
            does(visits("--group-by region --find-keys union:1e-06 --rows-per-unit 2")),
        ),
    ),
    Hint(
        "; add --group-by COLUMN=KEY,...",
        lambda c: says(visits("--count --groups-per-unit 2"), code=4),
        lambda c: does(visits("--count --group-by region=north --groups-per-unit 2")),
    ),
    Hint(
        "is not COLUMN:START..END:PART with two dates, such as day:2026-01-01..2027-01-01:month",
        lambda c: says(visits("--histogram day:2026-01-01..2026-02-30:month"), code=2),
        lambda c: does(visits("--histogram day:2026-01-01..2027-01-01:month")),
    ),
    Hint(
        "is not COLUMN=VALUE,VALUE,... or COLUMN>=VALUE, such as region=north or 'age>=18'",
        lambda c: says(visits("--count --where region"), code=2),
        lambda c: (does(visits("--count --where region=north")), does(visits("--count --where age>=18"))),
    ),
    Hint(
        "does not compare with a number, or with a date or a time such as 2026-01-31",
        lambda c: says(visits("--count --where age>old"), code=2),
        lambda c: (does(visits("--count --where age>18")), does(visits("--count --where age>2026-01-31"))),
    ),
    Hint(
        "is not one character such as ; nor tab",
        lambda c: says(semicolons("ages.csv", "--separator semicolon"), code=2),
        lambda c: does(semicolons("ages.csv", "--separator ;")),
    ),
    Hint(
        "; give --separator ';'",
        lambda c: says(semicolons("ages.csv"), code=4),
        lambda c: does(semicolons("ages.csv", "--separator ;")),
    ),
    Hint(
        "must end in .csv, .tsv or .parquet, the first two also in .gz; or give --separator",
        lambda c: says(semicolons("ages.txt"), code=15),
        lambda c: does(semicolons("ages.txt", "--separator ;")),
    ),
    Hint(
        "a statistic: --count, or such as --mean",
        lambda c: says(visits("--plan"), code=0),
        lambda c: (does(visits("--mean age:0,120")), does(visits("--histogram region=north,south"))),
    ),
    Hint(
        "such as --count or --mean age:0,120",
        lambda c: says(visits(""), code=4),
        lambda c: (does(visits("--count")), does(visits("--mean age:0,120"))),
    ),
    Hint(
        "must be dates such as 2026-01-31",
        lambda c: says(groups(pyarrow.date32(), "january"), code=4),
        lambda c: does(groups(pyarrow.date32(), "2026-01-31")),
    ),
    Hint(
        "must be times such as 2026-01-31T12:00, got",
        lambda c: says(groups(pyarrow.timestamp("us"), "noon"), code=4),
        lambda c: does(groups(pyarrow.timestamp("us"), "2026-01-31T12:00")),
    ),
    Hint(
        "must be times such as 2026-01-31T12:00+00:00",
        lambda c: says(groups(pyarrow.timestamp("us", "UTC"), "2026-01-31T12:00"), code=4),
        lambda c: does(groups(pyarrow.timestamp("us", "UTC"), "2026-01-31T12:00+00:00")),
    ),
    Hint(
        "must be times such as 12:00",
        lambda c: says(groups(pyarrow.time64("us"), "noon"), code=4),
        lambda c: does(groups(pyarrow.time64("us"), "12:00")),
    ),
    Hint(
        "'age==30' has two signs =; write age=30",
        lambda c: says(visits("--count --where age==30"), code=2),
        lambda c: does(visits("--count --where age=30")),
    ),
    Hint(
        "--quantiles age must have quantiles in ascending order, got 0.5,0.25; write 0.25,0.5",
        lambda c: says(visits("--quantiles age:0,120:0.5,0.25"), code=4),
        lambda c: does(visits("--quantiles age:0,120:0.25,0.5")),
    ),
    Hint(
        "does not end in numbers with commas between them, such as age:0,120",
        lambda c: says(visits("--mean age:0-120"), code=2),
        lambda c: does(visits("--mean age:0,120")),
    ),
    Hint(
        "--mean age must have two bounds in ascending order, got 120,0; write --mean age:0,120",
        lambda c: says(visits("--mean age:120,0"), code=4),
        lambda c: does(visits("--mean age:0,120")),
    ),
    Hint(
        "got 50; for 50 % write 0.5",
        lambda c: says(visits("--quantiles age:0,120:50"), code=4),
        lambda c: does(visits("--quantiles age:0,120:0.5")),
    ),
    Hint(
        "has dates or times, which have no sum; take --mean",
        lambda c: says(visits("--sum day:2020-01-01,2027-01-01"), code=2),
        lambda c: does(visits("--mean day:2020-01-01,2027-01-01")),
    ),
    Hint(
        "is not COLUMN:LOWER,UPPER, such as day:2020-01-01,2026-01-01",
        lambda c: says(visits("--mean day:2020-01-01,2026-01-01,2027-01-01"), code=2),
        lambda c: does(visits("--mean day:2020-01-01,2026-01-01")),
    ),
    Hint(
        "is not COLUMN:LOWER,UPPER:Q,Q,..., such as day:2020-01-01,2026-01-01:0.25,0.5",
        lambda c: says(visits("--quantiles day:2020-01-01,2026-01-01,2027-01-01:0.5"), code=2),
        lambda c: does(visits("--quantiles day:2020-01-01,2026-01-01:0.25,0.5")),
    ),
    Hint(
        "is not COLUMN:EDGE,EDGE,..., such as day:2020-01-01,2026-01-01",
        lambda c: says(visits("--histogram day:2020-01-01,2026-01-01:0.5"), code=2),
        lambda c: does(visits("--histogram day:2020-01-01,2026-01-01")),
    ),
    Hint(
        "such as day:2020-01-01,2026-01-01, at:2026-01-01T08:00,2026-02-01T00:00 or at:08:00,20:00",
        lambda c: says(visits("--mean day:2020-01-01,2026-02-30"), code=2),
        lambda c: (
            does(visits("--mean day:2020-01-01,2026-01-01")),
            does(visits("--mean day:2026-01-01T08:00,2026-02-01T00:00")),
            does(visits("--mean day:08:00,20:00")),
        ),
    ),
    Hint(
        "give all of them a zone, such as Z, or none",
        lambda c: says(visits("--mean day:2026-01-01T00:00Z,2026-02-01T00:00"), code=2),
        lambda c: (
            does(visits("--mean day:2026-01-01T00:00Z,2026-02-01T00:00Z")),
            does(visits("--mean day:2026-01-01T00:00,2026-02-01T00:00")),
        ),
    ),
    Hint(
        "there; such as --mean x:2020-01-01,2026-01-01",
        lambda c: says(averaged(pyarrow.date32(), "0,120"), code=4),
        lambda c: does(averaged(pyarrow.date32(), "2020-01-01,2026-01-01")),
    ),
]
"""Of `ferrodp stats`."""

LEDGERS = [
    Hint(
        "use a scope that the message lists, or create it",
        lambda c: says(f"ledger status {c.path} --scope hospitl --json", code=7),
        lambda c: (
            does(f"ledger status {c.path} --scope hospital/images"),
            does(f"ledger create {c.path} --scope hospitl --epsilon 1 --delta 1e-6"),
            does(f"ledger status {c.path} --scope hospitl"),
        ),
    ),
    Hint(
        "check the path, or begin one with 'ferrodp ledger create'",
        lambda c: says("ledger status none.db --json", code=8),
        lambda c: (
            does("ledger create none.db --scope a --epsilon 1 --delta 1e-6"),
            does("ledger status none.db"),
        ),
    ),
    Hint(
        "There may be more: see --limit.",
        lambda c: (
            c.ledger.reserve("hospital/images", EVENT),
            c.ledger.reserve("hospital/images", EVENT),
            says(f"ledger tickets {c.path} --limit 1", code=0),
        ),
        lambda c: [
            c.ledger.reserve("hospital/images", EVENT),
            printed := does(f"ledger tickets {c.path} --limit 9"),
            printed.index("ticket"),
        ],
    ),
    Hint(
        "lower caps by\nit with 'lower-cap', or freeze",
        lambda c: says(restored(c), code=0),
        lambda c: (
            does("ledger lower-cap restored.db --scope hospital/images --epsilon 3 --reason unknown"),
            does("ledger freeze restored.db --scope hospital/images --reason unknown"),
        ),
    ),
]
"""Of `ferrodp ledger`, and of what ends it."""

DEMO = [
    Hint(
        "begin another one with another --output",
        lambda c: says(demonstrated().replace("demo.db", "other.db"), code=11),
        lambda c: does(demonstrated(then="--output other").replace("demo.db", "other.db")),
    ),
    Hint(
        "holds a training with --data-seed 0, not 1: continue it with that, or begin another with another --output",
        lambda c: says(demonstrated(then="--data-seed 1"), code=4),
        lambda c: (
            does(demonstrated(then="--data-seed 0")),
            does(demonstrated(then="--data-seed 1 --output other")),
        ),
    ),
    Hint(
        "holds a training in scope 'demo', not 'other': continue it there, or begin another with another --output",
        lambda c: says(demonstrated(then="--scope other"), code=4),
        lambda c: (
            does(demonstrated(then="--scope demo")),
            does(demonstrated(then="--scope other --output other")),
        ),
    ),
    Hint(
        "json holds a training with --data-seed 0, not 1: continue it with that, or begin another with another",
        lambda c: says(demonstrated(task="training", then="--data-seed 1"), code=4),
        lambda c: (
            does(demonstrated(task="training", then="--data-seed 0")),
            does(demonstrated(task="training", then="--data-seed 1 --output other")),
        ),
    ),
    Hint(
        "is not a checkpoint of this version; move it away to begin anew",
        lambda c: checkpoint.Checkpoint.load(of_other_version(c)),
        lambda c: moved_away(checkpoint.Checkpoint),
    ),
    Hint(
        "is not a checkpoint of this version; move it away to begin anew",
        lambda c: records.load(of_other_version(c)),
        lambda c: moved_away(records),
    ),
]
"""Of `ferrodp demo` and what it trains."""

PAGE = [
    Hint(
        "take a larger one, or more noise",
        lambda c: spending.crash(0.2, 1.0, 7),
        lambda c: (spending.crash(20.0, 1.0, 7), spending.crash(0.2, 99.0, 7)),
    ),
]
"""Of the lessons' programs."""

HINTS = [*STATISTICS, *LEDGERS, *DEMO, *PAGE]
