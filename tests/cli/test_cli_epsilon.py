"""`ferrodp epsilon` and `ferrodp calibrate`: the library's bounds in tables, JSON and CSV."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrodp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    calibrate_noise_multiplier,
)
from ferrodp.cli import _privacy

STEP = ("--noise-multiplier", 1.1, "--sampling-probability", 0.01)


def bounds(noise_multiplier, probability, count, delta, accountant=PldAccountant):
    spent = accountant()
    gaussian = GaussianEvent(noise_multiplier=noise_multiplier)
    spent.compose(PoissonSampledEvent(sampling_probability=probability, event=gaussian), count)
    return spent.epsilon_bounds(delta)


def test_epsilon_is_that_of_the_accountant(ferrodp: Callable[..., Any]) -> None:
    found = ferrodp("epsilon", *STEP, "--count", 10_000, "--delta", 1e-6, "--json").json

    expected = bounds(1.1, 0.01, 10_000, 1e-6)
    assert (found["command"], found["accountant"], found["csv"]) == ("epsilon", "pld", None)
    assert found["rows"] == [
        {
            "noise_multiplier": 1.1,
            "sampling_probability": 0.01,
            "count": 10_000,
            "delta": 1e-6,
            "epsilon_lower": expected.lower,
            "epsilon": expected.upper,
            "explanation": None,
        }
    ]


def test_the_printed_epsilon_is_a_bound_too(ferrodp: Callable[..., Any]) -> None:
    found = ferrodp("epsilon", *STEP, "--count", 10_000)

    header, _, row = found.out.splitlines()
    printed = dict(zip(header.split(), row.split(), strict=True))
    exact = bounds(1.1, 0.01, 10_000, 1e-5)
    assert exact.upper <= float(printed["epsilon"]) < exact.upper * 1.00001
    assert float(printed["epsilon_lower"]) == pytest.approx(exact.lower, abs=5e-7)


def test_other_accountants_and_relations(ferrodp: Callable[..., Any]) -> None:
    rdp = ferrodp("epsilon", *STEP, "--count", 100, "--accountant", "rdp", "--json").json["rows"][0]
    assert (rdp["epsilon_lower"], rdp["epsilon"]) == bounds(1.1, 0.01, 100, 1e-5, RdpAccountant)

    replaced = ferrodp("epsilon", *STEP, "--neighboring-relation", "replace_one", "--json").json
    assert replaced["neighboring_relation"] == "replace_one"
    accountant = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.1)))
    assert replaced["rows"][0]["epsilon"] == accountant.epsilon(1e-5)

    clipped = ferrodp(
        "epsilon", *STEP, "--neighboring-relation", "replace_one", "--null-distance", "0.5", "--json"
    ).json
    assert clipped["rows"][0]["epsilon"] < replaced["rows"][0]["epsilon"]
    event = json.dumps(GaussianEvent(noise_multiplier=1.0).to_dict())
    assert "--null-distance" in ferrodp("epsilon", "--event", event, "--null-distance", "0.5").error


def test_ranges_make_all_combinations_and_a_csv_file(
    ferrodp: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = ("--noise-multiplier", "1:2:3", "--sampling-probability", "0.01,1e-3", "--count", "10:1000:x3")

    found = ferrodp("epsilon", *sweep, "--csv", "sweep.csv")

    assert "sweep.csv" in found.out
    assert "18 rows" in found.out
    with open("sweep.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    assert [float(row["noise_multiplier"]) for row in rows[::6]] == [1.0, 1.5, 2.0]
    assert [int(row["count"]) for row in rows[:3]] == [10, 100, 1000]
    for row in rows:
        setting = (float(row["noise_multiplier"]), float(row["sampling_probability"]), int(row["count"]))
        assert (float(row["epsilon_lower"]), float(row["epsilon"])) == bounds(*setting, 1e-5)


def test_an_existing_file_is_kept_unless_forced(ferrodp: Callable[..., Any], tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("precious")
    assert "exists" in ferrodp("epsilon", *STEP, "--csv", target).error
    assert target.read_text() == "precious"

    assert ferrodp("epsilon", *STEP, "--csv", target, "--force").code == 0
    assert target.read_text().startswith("noise_multiplier,")


def test_any_event_can_be_read_from_a_file(ferrodp: Callable[..., Any], tmp_path: Path) -> None:
    event = SelfComposedEvent(event=LaplaceEvent(noise_multiplier=2.0), count=5)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(event.to_dict()))

    found = ferrodp("epsilon", "--event", path, "--count", 2, "--json").json

    accountant = PldAccountant()
    accountant.compose(event, 2)
    assert found["event"] == event.to_dict()
    assert found["rows"][0]["epsilon"] == accountant.epsilon(1e-5)


def test_an_explanation_is_plain_words(ferrodp: Callable[..., Any]) -> None:
    found = ferrodp("epsilon", *STEP, "--count", 1000, "--explain")

    assert "proven upper bound" in found.out
    assert "remove" in found.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--noise-multiplier", "0"), "--noise-multiplier must be"),
        (("--noise-multiplier", "nan"), "--noise-multiplier must be"),
        (("--noise-multiplier", "1", "--sampling-probability", "1.5"), "--sampling-probability must be"),
        (("--noise-multiplier", "1", "--count", "-1"), "--count must be"),
        (("--noise-multiplier", "1", "--count", "1.5"), "not a number, list or"),
        (("--noise-multiplier", "1", "--delta", "0"), "--delta must be"),
        (("--noise-multiplier", "1:2"), "not a number, list or"),
        (("--noise-multiplier", "0:2:x3"), "not a number, list or"),
        (("--noise-multiplier", "1:2:100000", "--count", "1:100:50"), "at most 1000000 combinations"),
        (("--event", "missing.json"), "missing.json"),
        (("--event", "plan.json", "--noise-multiplier", "1"), "not allowed with"),
        ((), "required"),
        (("--noise-multiplier", "1", "--sampling-probability", "0.5", "--accountant", "gdp"), "only Gaussian noise is"),
    ],
)
def test_bad_input_is_one_line(
    ferrodp: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in ferrodp("epsilon", *argv).error


def test_files_that_hold_no_event_are_refused(ferrodp: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text in ("{", "[]", "3", '{"version": 1}', '{"version": 1, "type": "gaussian"}', "\x00", "[" * 100_000):
        path.write_text(text)
        assert ferrodp("epsilon", "--event", path).error


def test_noise_is_calibrated(ferrodp: Callable[..., Any]) -> None:
    argv = ("calibrate", "noise-multiplier", "--epsilon", "3,8", "--sampling-probability", 0.01, "--count", 500)

    found = ferrodp(*argv, "--json").json

    assert [row["epsilon"] for row in found["rows"]] == [3.0, 8.0]
    for row in found["rows"]:
        expected = calibrate_noise_multiplier(
            target_epsilon=row["epsilon"], target_delta=1e-5, sampling_probability=0.01, count=500
        )
        assert (row["noise_multiplier"], row["gap"]) == (float(expected), expected.gap)
        assert row["epsilon_proven"] <= row["epsilon"]

    printed = ferrodp(*argv).out.splitlines()[2:]
    for line, row in zip(printed, found["rows"], strict=True):
        shown = float(line.split()[-2])
        assert row["noise_multiplier"] <= shown < row["noise_multiplier"] * (1 + 1e-8)


def test_counts_and_probabilities_are_calibrated(ferrodp: Callable[..., Any]) -> None:
    last = ferrodp("calibrate", "count", "--epsilon", 3, *STEP, "--json").json["rows"][0]
    assert (last["count"], last["gap"]) == (3712, 0)

    rate = ferrodp(
        "calibrate", "sampling-probability", "--epsilon", 1, "--noise-multiplier", 1, "--count", 100, "--json"
    )
    row = rate.json["rows"][0]
    assert bounds(1.0, row["sampling_probability"], 100, 1e-5).upper <= 1.0
    assert bounds(1.0, row["sampling_probability"] * 1.001, 100, 1e-5).lower > 1.0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("noise-multiplier", "--epsilon", "1", "--noise-multiplier", "2"), "cannot be given too"),
        (("count", "--epsilon", "1"), "--noise-multiplier must be given"),
        (("noise-multiplier",), "required"),
        (("noise-multiplier", "--epsilon", "0"), "--epsilon must be finite and > 0, got 0.0"),
        (("scale", "--epsilon", "1"), "invalid choice"),
    ],
)
def test_bad_calibrations_are_one_line(ferrodp: Callable[..., Any], argv: tuple[str, ...], message: str) -> None:
    assert message in ferrodp("calibrate", *argv).error


def test_ranges_are_what_they_say() -> None:
    assert _privacy.reals("1") == [1.0]
    assert _privacy.reals("1,2.5") == [1.0, 2.5]
    assert _privacy.reals("0:1:5") == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert _privacy.reals("1e-3:1:x4") == pytest.approx([1e-3, 1e-2, 1e-1, 1.0], rel=1e-12)
    assert _privacy.counts("1:10:4") == [1, 4, 7, 10]
    assert _privacy.counts("1e3") == [1000]
    assert _privacy.counts(str(2**62)) == [2**62]
    assert math.isinf(_privacy.reals("inf")[0])
