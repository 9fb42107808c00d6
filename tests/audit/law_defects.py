"""Defects of `tests/mutants` that change what is released, and which audit finds each: `python law_defects.py [TEXT]`.

Each defect of a Python source is applied to a copy of `python/`, and its audit is run there; the command prints what
found it, and fails if anything was missed. `own_audits` has the audits, and runs them on the sources as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import mutants  # noqa: E402

FOUND_BY: dict[str, tuple[str, ...]] = {
    "the noise covers half the sensitivity, as if replacing were adding": ("Gaussian",),
    "the noise is divided by the sensitivity": ("Gaussian",),
    "epsilon and delta are swapped in a calibration": ("Gaussian",),
    "Laplace noise is calibrated to 80 % of what is due": ("Laplace",),
    "epsilon and delta of integers are swapped in a calibration": ("discrete Gaussian",),
    "a scale is taken for a variance": ("noise of a source",),
    "noise is drawn once per row": ("coordinates",),
    "integer noise is drawn once per row": ("coordinates",),
    "zeros are released without integer noise": ("integers",),
    "a batch is clipped after it was summed": ("batch",),
    "truth and lie are told apart by half of what they are": ("answers",),
    "a vector is accounted as one integer": ("vectors of integers",),
    "the L1 distance is taken for one": ("two integers",),
    "the noise of a query serves all": ("queries",),
    "answers are not counted": ("answers of a run",),
    "the noise of the threshold is drawn for every query": ("long run",),
    "scales are those for one answer fewer": ("queries",),
    "queries that need not move together are treated as if they did": ("queries",),
    "each of several quantiles gets the whole budget": ("quantiles",),
    "a column is clamped after it was summed": ("sum",),
    "a replaced row moves a sum as little as one that comes": ("sum, replaced",),
    "a row that comes moves a sum by half of what it can": ("sum",),
    "several rows of a unit move a sum by one": ("sum, several rows",),
    "number and sum of a mean get the whole budget each": ("mean",),
    "a mean is divided by the true number of rows": ("mean",),
    "a replaced row moves one bin": ("histogram, replaced",),
    "rows of one unit are taken to fall into different bins": ("histogram of one bin, several rows",),
    "empty bins get no noise": ("histogram",),
    "ranks move by the smaller share": ("quantile",),
    "the interval of a quantile is free": ("shares of a budget",),
    "each of the three choices of an extreme gets the whole budget": ("shares of a budget",),
    "weights of a race are permuted": ("runs of candidates",),
    "each of several quantiles of a group gets the whole budget": ("shares of a budget",),
    "each column of bins has the whole budget": ("shares of a budget",),
    "each of several choices of a top gets half of the budget": ("shares of a budget",),
    "different values of a unit move their number by one": ("different values",),
    "counts of a top are noised for a replaced row as for one that goes": ("most frequent, replaced",),
    "bounds follow from bare counts": ("bounds",),
    "a replaced row moves one bin of the bounds": ("bounds, replaced",),
    "the rows of a unit move one bin of the bounds by one": ("bounds, several rows",),
    "the best candidate is released without noise": ("largest",),
    "each row of a unit counts as a unit of its own": ("rows of a unit",),
    "groups without rows get no noise": ("counts of groups",),
    "different values of a unit in several groups move as one": ("different values of groups",),
    "bounds of groups follow from bare counts": ("bounds of groups",),
    "rows beyond the bound of a unit count": ("counts of groups",),
    "all rows of a unit in a column count": ("columns of units",),
    "all different values of a unit count": ("different values of units",),
    "the number of rows of units is taken for public": ("means of units, replaced",),
    "the rows of a unit in several groups move one of them": ("counts of groups",),
    "the residuals of a table cost as much as one number": ("tables",),
    "tables of several rows of a unit cost those of one": ("tables, several rows",),
    "a replaced row moves residuals as far as one that comes": ("tables, replaced",),
    "the noise of tables is that for nine tenths of what a unit moves": ("tables",),
    "residuals lack the size of a column": ("tables",),
    "the weight of a bit is rounded down": ("answers in bits, exactly",),
    "the weight of a set is rounded down": ("answers in sets, exactly",),
    "an own bit is priced as if others were less likely": ("answers in bits, exactly",),
    "sets of two answers have another number": ("answers in sets, exactly",),
    "the weight of a vector is rounded down": ("vectors, exactly",),
    "the other code words have another number": ("vectors, exactly",),
    "the curve of answers counts its delta twice": ("answers in bits, exactly",),
    "the weight of a response is rounded down": ("coded answers, exactly",),
    "several sums of a model cost more than the one they share": ("moments",),
    "all rows of a unit count in a model": (
        "moments of units",
        "scales of units",
        "naive Bayes of units",
        "clusters of units",
    ),
    "a model of replaced rows costs what one of rows that come does": (
        "moments, replaced",
        "scales, replaced",
        "naive Bayes, replaced",
        "clusters, replaced",
    ),
    "a row that is replaced leaves no class": ("naive Bayes of categories, replaced",),
    "counts of classes cost nothing beside those of values": ("naive Bayes of categories",),
    "counts of several columns cost what one of them costs": ("naive Bayes of categories, pure",),
    "several rows of a unit cost what one of them costs": ("naive Bayes of categories, several rows",),
    "the grid of a sum is derived from the column": ("sum",),
    "a missing row makes the false ones count": ("missing rows",),
    "a list of nones is taken for numbers": ("missing rows",),
    "columns with a mask of nulls are read without it": ("missing rows",),
    "nulls are counted as zeros": ("missing rows",),
    "missing rows are counted as rows": ("missing rows",),
    "missing rows are values": ("missing rows",),
    "not-a-number is no missing value": ("missing rows",),
    "of a run of candidates the first is released": ("places of candidates",),
    "the last bin lacks its upper edge": ("ties with candidates and edges",),
    "one row decides on the dtype of a list": ("rows of a list",),
    "values beyond the edges are not counted": ("values beyond edges",),
    "the sensitivity of a rounded sum is rounded down": ("steps of sums",),
    "a row that is replaced by a missing one moves a sum by no more than the distance of its bounds": (
        "rows replaced by missing ones",
    ),
    "a number of rows that are not missing is taken for public": ("rows replaced by missing ones",),
    "shares of a budget are rounded up": ("shares of a budget",),
    "the square root of a sensitivity is rounded to nearest": ("roots of sensitivities",),
    "the scale of a choice is rounded down": ("exact calibrations",),
    "the noise of an answer is rounded down": ("exact calibrations",),
    "the scale of two-sided geometric noise is rounded down": ("exact calibrations",),
    "utilities that move both ways cost what monotonic ones do": ("choices of any direction",),
    "a value between two floats is rounded before its release": ("integers beyond floats",),
    "integers between two floats are rounded": ("integers beyond floats",),
    "releases of another dimension are let through": ("integers of another dimension",),
    "the output holds the bare integers before they are noised": ("bare integers",),
    "the grid is derived from the data": ("grids of data",),
    "a state forgets the stability": ("sums that travel",),
    "states of other clip norms are merged": ("sums that travel",),
    "half precision is added to sums of float64": ("sums that travel",),
    "the stability is rounded down": ("sums that travel",),
    "gradients of outer products are as long as they are": ("outer products",),
    "a unit is as many as its id has types": ("ids of units",),
    "groups beyond the bound of a unit count": ("counts of groups, bounded",),
    "rows beyond the bound of a group count": ("counts of groups, bounded",),
    "the squares of a unit leave out its last group": ("counts of groups, several rows",),
    "a unit with several rows in the only group moves it by one": ("counts of the only group",),
    "keys below the threshold are released": ("keys that are found",),
    "the probability of a key grows by twice δ": ("keys that are selected",),
    "the probability of a missing key falls too fast": ("keys that are selected",),
    "rows of a unit are counted for a selection": ("keys that are selected",),
    "a unit gives each of its keys the weight of its only one": ("keys of unions",),
    "a key of one unit reaches the threshold of a union": ("keys of unions",),
    "keys beyond the bound of a unit have weight": ("keys of unions",),
    "a threshold of a union supposes one key of a unit": ("keys of unions",),
    "own keys of a unit are released by coins as if it had one": ("keys of unions",),
    "a threshold for unknown keys supposes one row of a unit": ("keys that are found",),
    "the label of equal keys is that of the first row": ("keys that are found",),
    "each statistic of a table gets the whole budget": ("statistics of one table",),
    "the halves of a mean by group get the whole budget each": ("means of groups",),
    "permute-and-flip passes for the exponential mechanism": ("law of permute-and-flip",),
    "a difference is added with its sign flipped": ("differences",),
    "the denominator is forgotten": ("rounds",),
    "updates for Laplace noise are clipped in L2": ("rounds",),
    "updates for Laplace noise are rounded to the nearest": ("rounds",),
    "Laplace noise of a plan is of half the scale": ("Laplace noise of plans",),
    "an update that changed while it was clipped is added": ("rounds",),
    "discrete noise forgets the grid": ("rounds",),
    "what is skipped in a round is summed": ("types of updates",),
    "stacked updates of other types than the template are cast": ("types of updates",),
    "floats are cut to the nearest integer": ("noise on a grid",),
    "the noise of integers is scaled for floats": ("noise on a grid",),
    "the sample is larger than what is accounted": ("samples of engines",),
    "the noise multiplier is what just missed": ("samples of engines",),
    "a model is noised before it is clipped": ("models",),
    "a file counts twice under two names": ("partitions",),
    "a node of the tree forgets its last child": ("partitions",),
    "a partition that is given twice counts twice": ("partitions",),
    "a partition that is loaded again counts twice": ("partitions",),
    "a tuple of arrays counts twice": ("partitions",),
    "the last partitions are in no task": ("partitions",),
    "the rest of an iterator passes for all of it": ("partitions",),
    "workers are not told of the stability": ("partitions",),
    "a batch of one group stays when another is refused": ("groups of plans",),
    "a vector of one group stays when another is refused": ("groups of plans",),
    "groups are noised each for itself": ("groups of plans",),
    "groups of different length are added": ("groups of plans",),
    "the clip norm moves away from the quantile": ("adaptive norms",),
    "the count of norms is without its half": ("adaptive norms",),
    "the quantile is told by the count itself": ("adaptive norms",),
    "a batch is larger than the plan says": ("divisors",),
    "a sum is divided by the realized batch size": ("divisors",),
    "a client adds next to no noise": ("secure sums",),
    "pairwise masks do not cancel": ("secure sums",),
    "the range of a modulus has no room for noise": ("secure sums",),
    "the share of noise is rounded down": ("secure sums",),
    "the bit of a report is not randomized": ("bits of reports",),
    "a label that is no class moves gradients": ("records alone",),
    "a record's errors are rounded as it falls among others": ("records alone",),
    "a record's scores are rounded as it falls among others": ("records alone",),
}
"""Names of defects and the audits that find them."""


FOLDERS = (
    *(
        f"python/ferrodp/{name}/"
        for name in (
            "counters",
            "distributed",
            "engine",
            "federated",
            "mechanisms",
            "plan",
            "random",
            "statistics",
            "sums",
            "training",
        )
    ),
    "python/ferrodp/_base/_casting.py",
    "rust/ferrodp-core/src/secure",
    "rust/ferrodp-py/",
)
"""Where releases are made: each defect of a file in here is in one table of this module, of `unreleased` or of
`native_defects`."""

_AFTERWARDS = "post-processing: what is released is the same"
_ACCURACY = "accuracy: the sensitivity is no larger than what is paid for, and a worse number is chosen"
_OTHERS = "how one record decides on others: the tests of neighbors look at that, and audits of trainings take arrays"
_COUNTERS = "audits draw single releases: totals of counters are compared with their law, persons with every database"
_CORRELATED = "no audit looks at several steps of one run, which share the noise: its killer measures their joint law"
_ENUMERATED = "no audit groups by these bounds or rules yet: all small tables are enumerated, and neighbors replayed"
_READING = "no audit reads files: what is read is compared, type by type, with a whole column and with a slow reader"
_PARTS = "no audit cuts a table into partitions: its killer compares every cut of all small tables with one process"
NOT_FOUND: dict[str, str] = {
    "missing ids of numbers are one unit": _READING,
    "missing names of a file are a name like others": _READING,
    "equal labels of a file are one although they are two instants": _READING,
    "nulls of one block of a file are lost": _READING,
    "integers of a file are cut to the bits of earlier ones": _READING,
    "missing rows pass a condition": _READING,
    "residuals that other programs get still have their margins": _AFTERWARDS,
    "residuals that other programs get are said to be exacter than they are": _AFTERWARDS,
    "a text that is no date counts as a day": _READING,
    "rows without an id are one unit": _READING,
    "UUIDs of large and of small letters are one unit": _READING,
    "one entry decides on the type of all rows": "audits take arrays: its killer compares rows of lists, cell by cell",
    "rows whose id is null are one unit": _READING,
    "ids of one mix are one unit": _READING,
    "values that are in two partitions count in both": _PARTS,
    "the products of one partition stand for those of two": _PARTS,
    "a key that is in two partitions has the count of one of them": _PARTS,
    "units of two partitions are taken for one, whose keys share a weight": _PARTS,
    "a value keeps the hash that it had in another process": _PARTS,
    "statistics of groups whose rows are in partitions are about no rows": _PARTS,
    "pairs of groups that are not wanted have a place": _ENUMERATED,
    "keys far from the lowest one take the places of others": _ENUMERATED,
    "equal numbers of two partitions count once": _PARTS,
    "the integers of one partition stand for all": _PARTS,
    "a table in partitions is noised by other parameters than its parts": _PARTS,
    "a statistic without integers that add up is drawn on each partition": _PARTS,
    "units whose rows are in two partitions count in both": _PARTS,
    "rows of a unit are not brought together": _PARTS,
    "ids that are equal are sent to two places": _PARTS,
    "a rank among rows is read as one among different numbers": _PARTS,
    "numbers of a file are left out of a sum": _PARTS,
    "files are merged up to the last number of the block that reaches furthest": _PARTS,
    "rows of one partition are left on the disk": _PARTS,
    "rows that count as a rank's number, and are out of its reach, are not counted": "columns of an audit are short: "
    "all of their steps are found at once",
    "missing times count as the first day": "a row that counts wrongly still moves a mean by what is charged",
    "the last bin of a calendar holds what follows it": "a row is in one bin all the same",
    "missing times are in a bin of the calendar": "a row is in one bin all the same",
    "residues of 31 bits are not centered": "no audit decodes sums of this protocol; all its arithmetic is tested",
    "the draws of one kept step share a key": "no audit runs a plan that keeps its sums; its groups are compared there",
    "a counter is calibrated as if its strategy had sensitivity 1": _COUNTERS,
    "a norm allows a counter more than fits": _COUNTERS,
    "the norm of several counters is not rounded up from their root": _COUNTERS,
    "a person of a list is another than the same one of an array": _COUNTERS,
    "a counter of a person counts twice a day": _COUNTERS,
    "a person adds to more counters than is stated": _COUNTERS,
    "a person counts on more days than is stated": _COUNTERS,
    "the noise of counters begins anew where a stream goes on": _COUNTERS,
    "totals of counters wrap around": _COUNTERS,
    "a sum of compiled code is noised as if steps were independent": _CORRELATED,
    "a sum that a framework bounds is noised as if steps were independent": _CORRELATED,
    "noise is not multiplied by the clip norm": _CORRELATED,
    "the key of a run's noise is not kept": _CORRELATED,
    "the noise of steps that were left out is drawn for the next ones": _CORRELATED,
    "a threshold supposes own keys of one row each": _ENUMERATED,
    "a key is released where its bits are equal to its probability": _ENUMERATED,
    "a key of many units is left to chance": _ACCURACY,
    "each round of a union has the whole budget": _ENUMERATED,
    "the last round of a union has the whole budget": _ENUMERATED,
    "the order of a union is that of twice δ": _ENUMERATED,
    "coins of each key of a unit cost as those of its only one": _ENUMERATED,
    "coins of keys look at one direction": _ENUMERATED,
    "a row without one of its keys counts": _ENUMERATED,
    "units that are counted by key are noised as if in one": _ENUMERATED,
    "counts of found keys are released without their noise": _ENUMERATED,
    "sums of a unit move by one row": _ENUMERATED,
    "the count of a group's most frequent value is noised as if units stayed in their group": "the count of a "
    "group moves by one, and only all together are too far: its killer computes the law of all",
    "equal values of a group count as often as they are there": _ACCURACY,
    "counts of a replaced row move one way": "no audit compares the law of a choice: its killer measures it",
    "how deep a quantile lies inside ties moves twice as far": _ENUMERATED,
    "utilities of every rank of an extreme are monotonic": _ENUMERATED,
    "the ends of an interval around the outermost row are taken for monotonic": _ENUMERATED,
    "the weight of a run is read as its whole candidates": _ACCURACY,
    "a candidate among ties is no quantile": _ACCURACY,
    "other values of a column count as its first one": _ACCURACY,
    "all rows of a unit count in tables": _ENUMERATED,
    "missing values of tables fall into a bin": _ACCURACY,
    "a row outside of one column counts elsewhere": _ACCURACY,
    "an outer candidate is as far from a rank as the rank is from the rows": _ACCURACY,
    "the end of an interval is as near as one candidate allows": _ACCURACY,
    "rows of an interval's end count as candidates on its other side": _ACCURACY,
    "an interval holds at levels that were not paid for": _ACCURACY,
    "the interval of a difference is that of one mean": _ACCURACY,
    "rows of one unit are taken for a sample": _ACCURACY,
    "the ends of an interval are looked for at the quantile itself": _ACCURACY,
    "an extreme has more certainty than its rank gives": _ACCURACY,
    "a row beyond the bounds has no candidate": _ACCURACY,
    "a row counts as no candidate": _ACCURACY,
    "a row halfway between two candidates counts as the larger": _ACCURACY,
    "a vector beyond the norm moves the count by half": _ACCURACY,
    "an id that is not equal to itself has a key": _ACCURACY,
    "ids of other types than strings and numbers are no ids": _ACCURACY,
    "keys of a float32 column are not rounded to float32": _ACCURACY,
    "each row is cut to whole steps": _ACCURACY,
    "values are rounded to the nearest part of a step": "a sum moves by a millionth of a step more: "
    "bounds are compared with their integers",
    "a null unit counts as within": "δ moves by less than 0.006: more draws than an audit makes would be needed",
    "labels are compared in the dtype of all": _OTHERS,
    "a null of one row decides on the type of a table": _OTHERS,
    "one element decides whether a list is refused": _OTHERS,
    "one text in a list is refused with all records": _OTHERS,
    "which rows of a unit count depends on how many rows others have": "the law of each unit's rows is the same: a "
    "difference shows between two calls with one key alone",
}
"""Defects that change what is released, and that no audit here finds, with the reason."""


def released() -> list[Any]:
    """Return the defects of code that releases."""
    return [
        each for each in mutants.MUTANTS if mutants.file_of(each, ROOT).relative_to(ROOT).as_posix().startswith(FOLDERS)
    ]


def defects() -> list[Any]:
    """Return the defects of the table."""
    return [each for each in mutants.MUTANTS if each.name in FOUND_BY]


def alarms(names: tuple[str, ...], tree: Path) -> list[str]:
    """Return which of some audits raise an alarm in a copy, or are ended by a signal there, as by a check of Rust's."""
    script = (
        f"import own_audits as d\nfor n in {names!r}:\n"
        "    print('ALARM' if (d.AUDITS | d.DEEP)[n]() else 'quiet', n, flush=True)"
    )
    environment = os.environ | {"PYTHONPATH": f"{tree / 'python'}:{Path(__file__).parent}:{ROOT / 'tests'}"}
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    lines = ran.stdout.splitlines()
    if ran.returncode > 0:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    ended = [f"{name} (signal {-ran.returncode})" for name in names[len(lines) :][:1] if ran.returncode]
    return [line[6:] for line in lines if line.startswith("ALARM ")] + ended


def main() -> int:
    """Run what the command line asks for, and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    args = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / "python", tree / "python", ignore=shutil.ignore_patterns("__pycache__"))
        for defect in defects():
            if args.text not in defect.name:
                continue
            file = tree / mutants.file_of(defect, ROOT).relative_to(ROOT)
            before = file.read_text(encoding="utf-8")
            file.write_text(defect.applied(before), encoding="utf-8")
            found = alarms(FOUND_BY[defect.name], tree)
            file.write_text(before, encoding="utf-8")
            missed += not found
            print("found " if found else "MISSED", defect.name, "|", ", ".join(found), flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
