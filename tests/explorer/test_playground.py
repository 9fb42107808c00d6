"""What the playground computes: measured on the model, accounted as it is drawn, repeatable by its cell."""

import contextlib
import io

import numpy as np
import pytest

pytest.importorskip("sklearn")

from ferrodp.explorer.model.account import ACCOUNT
from ferrodp.explorer.model.attacks import ATTACKS
from ferrodp.explorer.model.audits import AUDITS, audit
from ferrodp.explorer.model.datasets import gradients, initial, load, probabilities
from ferrodp.explorer.model.training import PLAYGROUND, Training
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

FIGURES = {each.figure.name: each.figure for each in (*ACCOUNT, *ATTACKS, *AUDITS)}
SETTINGS = {
    "account": [{}, {"sampling_probability": "1", "num_steps": "10"}, {"num_steps": "1", "delta": "1e-12"}],
    "solve": [
        {"unknown": each} for each in ("noise_multiplier", "sampling_probability", "num_steps", "epsilon", "delta")
    ],
    "plan": [{}, {"population_size": "1000", "batch_size": "1000"}],
    "membership": [{"steps": "2", "trainings": "40"}, {"dataset": "wine", "batch_size": "1438", "trainings": "40"}],
    "reconstruction": [{}, {"batch": "8", "noise_multiplier": "0.05"}],
    "inversion": [{"epochs": "1"}],
    "property": [{"trainings": "40"}],
    "linkage": [{}, {"number": "200", "age_band": "36", "districts": "1"}],
    "break": [{"draws": "2000", "defect": each} for each in ("none", "clip", "noise", "half")],
    "power": [{}, {"epsilon": "10", "draws": "100"}],
}


def training(**settings):
    given = {"noise_by": "noise"} if "noise_multiplier" in settings else {}
    return Training(**PLAYGROUND.read({"dataset": "wine", **given, **settings}), repeats=2)


@pytest.mark.parametrize(("name", "query"), [(name, query) for name, each in SETTINGS.items() for query in each])
def test_a_cell_prints_the_numbers_of_its_page(name, query):
    answer = FIGURES[name].answer(query)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(answer.cell, name, "exec"), {"__name__": "cell"})

    assert printed.getvalue().splitlines() == [f"{k}: {v}" for k, v in answer.as_json()["numbers"].items()]
    assert answer.sentence
    assert answer.plots
    assert all(": " not in label for label in answer.numbers)


def test_settings_are_tried_for_every_figure():
    assert SETTINGS.keys() == FIGURES.keys()


def test_epsilon_on_the_page_is_that_of_the_plan_for_200_settings():
    rng = np.random.default_rng(1)
    for _ in range(200):
        noise, share = float(rng.uniform(0.5, 8)), int(rng.integers(1, 500))
        query = {
            "noise_by": "noise",
            "noise_multiplier": repr(noise),
            "batch_size": repr(max(share, 8)),
            "epochs": str(rng.integers(1, 20)),
        }
        found = training(**query)
        size = len(found.data.features)
        plan = PrivacyPlan(
            population_size=size,
            sampling=FullBatch() if max(share, 8) >= size else PoissonSampling(max(share, 8) / size),
            num_steps=found.num_steps,
            clipping=FlatClipping(0.5),
            noise=ConstantNoise(noise),
        )
        found.step = found.num_steps
        assert found.epsilon_bounds() == tuple(plan.epsilon_bounds(1e-5))


def test_fewer_gradients_are_clipped_where_the_clip_norm_is_larger():
    shares = []
    for norm in ("0.05", "0.2", "0.35", "0.5", "1"):
        found = training(clip_norm=norm)
        for _ in range(3):
            found.advance()
        shares.append(float(np.mean(found.norms > found.clip_norm)))

    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    assert shares[-1] == 0.0


def test_without_noise_there_is_no_guarantee_and_no_number():
    found = training(noise_multiplier="0")
    found.advance()
    found.evaluate()
    answer = found.answer()

    assert answer.numbers["ε of one training, certified"] == "no guarantee"
    assert any("no guarantee" in each for each in answer.warnings)
    assert not any(plot.y_label == "ε" for plot in answer.plots)


def test_a_batch_of_all_records_is_accounted_as_one():
    found = training(batch_size="1438", epochs="7")

    assert found.plan.sampling == FullBatch()
    assert found.num_steps == 7
    assert any("full batch" in each for each in found.answer().warnings)


def test_a_target_epsilon_is_kept():
    found = training(noise_by="epsilon", epsilon="1.5")
    found.step = found.num_steps

    assert 1.49 < found.epsilon_bounds()[1] <= 1.5


def test_the_world_without_the_record_is_the_other_one_where_nothing_is_noised():
    found = training(noise_multiplier="0", batch_size="1438", epochs="3")
    for _ in range(3):
        found.advance()

    assert not np.array_equal(found.model("private"), found.model("without"))
    assert np.array_equal(found._models["private"][0], found._models["private"][1])  # a full batch leaves no chance


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_gradients_are_those_of_differences(model):
    data = load("wine")
    x, y = data.features[:5], data.labels[:5]
    parameters = initial(model, data, 1) + 0.1
    found = gradients(model, parameters, x, y, data.num_classes)

    def losses(at):
        return -np.log(probabilities(model, at, x, data.num_classes)[np.arange(5), y])

    # central differences of step 1e-5: an error of 1e-10 by the third derivative, and 1e-11 by rounding
    for place in range(0, len(parameters), 7):
        step = np.zeros(len(parameters))
        step[place] = 1e-5
        slope = (losses(parameters + step) - losses(parameters - step)) / 2e-5
        assert np.allclose(found[:, place], slope, atol=1e-8)


def test_an_audit_notices_a_missing_clip_and_missing_noise():
    verdicts = {
        defect: audit(defect=defect, noise_multiplier=1.0, draws=20_000, seed=1)["The claim is"]
        for defect in ("none", "clip", "noise")
    }

    assert verdicts == {"none": "not contradicted", "clip": "contradicted", "noise": "contradicted"}


def test_no_attacker_of_trainings_is_surely_above_the_proven_curve():
    """The band of each attacker reaches below the bound; it holds by 95 % a threshold, and the seed is fixed."""
    answer = FIGURES["membership"].answer({"trainings": "100", "noise_multiplier": "1"})
    series = {each.name: each for each in answer.plots[0].series}
    bound = series["no attack exceeds this"].y
    for name in ("knows all others and every step", "sees the final model"):
        assert all(low <= most for low, most in zip(series[f"{name}, 95 % band"].y, bound, strict=True))
