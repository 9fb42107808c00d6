"""`ferrodp plan`: the answers of `PrivacyPlan`, printed, as JSON and in files; and what it refuses."""

import json
from dataclasses import replace

import pytest

from ferrodp.events import NeighboringRelation
from ferrodp.plan import ConstantNoise, CosineDecay, FlatClipping, GivenOrder, PoissonSampling, PrivacyPlan

PLAN = PrivacyPlan(
    population_size=60_000,
    sampling=PoissonSampling(0.01),
    num_steps=1000,
    clipping=FlatClipping(0.5),
    noise=CosineDecay(1.5, 1.0),
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(replace(PLAN, noise=ConstantNoise(1.1)).to_json())
    return path


def test_a_forecast_is_that_of_the_plan(ferrodp, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(replace(PLAN, num_steps=8).to_json(indent=2))
    expected = replace(PLAN, num_steps=8).forecast(1e-6, num_points=4)

    found = ferrodp("plan", "forecast", path, "--delta", 1e-6, "--points", 4, "--json").json
    assert found["forecast"] == json.loads(expected.to_json())
    assert (found["command"], found["what"], found["written"]) == ("plan", "forecast", None)
    printed = ferrodp("plan", "forecast", path, "--delta", 1e-6, "--points", 4).out.splitlines()
    assert len(printed) == 8
    assert max(map(len, printed)) <= 80
    step, lower, upper = printed[2].split()[:3]
    assert int(step) == expected.steps[0]
    assert float(lower) <= expected.epsilon_lower[0] + 1e-6
    assert float(upper) >= expected.epsilon[0]


def test_a_forecast_says_what_makes_the_plan_dear(ferrodp, tmp_path):
    path = tmp_path / "plan.json"
    relation = NeighboringRelation.REPLACE_SPECIAL
    plan = replace(PLAN, num_steps=3, neighboring_relation=relation, sampling=GivenOrder(600), noise=ConstantNoise(4))
    path.write_text(plan.to_json())

    assert "note: batches in a given order amplify nothing; Poisson samples" in ferrodp("plan", "forecast", path).out


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_forecast_is_drawn(ferrodp, file, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"forecast.{suffix}"
    ferrodp("plan", "forecast", file, "--points", 3, "--output", picture, "--json")

    assert picture.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")


def test_the_calibrated_plan_keeps_the_target(ferrodp, file, tmp_path):
    out = tmp_path / "calibrated.json"
    found = ferrodp("plan", "calibrate", file, "--epsilon", 2, "-o", out, "--json").json

    calibrated = PrivacyPlan.from_json(out.read_text())
    assert calibrated.epsilon(1e-5) == found["epsilon"] <= 2.0
    assert found["plan"] == json.loads(calibrated.to_json())
    assert calibrated == PrivacyPlan.from_json(file.read_text()).calibrated(epsilon=2, delta=1e-5)
    printed = ferrodp("plan", "calibrate", file, "--epsilon", 2).out.splitlines()
    assert json.loads(printed[-1]) == found["plan"]


def test_the_number_of_steps_is_the_last_safe_one(ferrodp, file):
    plan = PrivacyPlan.from_json(file.read_text())
    found = ferrodp("plan", "max-steps", file, "--epsilon", 1.5, "--json").json

    assert found["max_steps"] == plan.max_steps(epsilon=1.5, delta=1e-5)
    assert found["num_steps"] == 1000
    assert str(found["max_steps"]) in ferrodp("plan", "max-steps", file, "--epsilon", 1.5).out


def test_what_does_not_fit_is_one_line_and_nothing_is_written(ferrodp, file, tmp_path):
    out = tmp_path / "out.json"
    out.write_text("mine")
    broken = tmp_path / "broken.json"
    broken.write_bytes(b"\xff\xfe")
    long = tmp_path / "long.json"
    long.write_text(" " * (2**20 + 1))
    for arguments, said in [
        (("forecast", tmp_path / "missing.json"), "No such file"),
        (("forecast", broken), "is not UTF-8 text"),
        (("forecast", long), "is longer than a plan can be"),
        (("forecast", out), "text must be JSON"),
        (("forecast", file, "--epsilon", 1), "--epsilon is for calibrate and max-steps"),
        (("forecast", file, "--output", tmp_path / "x.txt"), "must end in one of"),
        (("forecast", file, "--delta", 2), "delta must be"),
        (("forecast", file, "--points", 1), "num_points must be"),
        (("calibrate", file), "--epsilon must be given"),
        (("calibrate", file, "--epsilon", -1), "epsilon must be"),
        (("calibrate", file, "--epsilon", 2, "-o", out), "exists"),
        (("max-steps", file, "--epsilon", 1, "-o", out), "--output is for calibrate"),
        (("guess", file), "invalid choice"),
    ]:
        assert said in ferrodp("plan", *arguments).error, arguments
    assert out.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.json", "long.json", "out.json", "plan.json"]
