"""Pictures say what they show: intervals by name, cut curves too, records of the data; no control is without effect."""

import re

import numpy as np
import pytest
from scipy.stats import beta, chi2

pytest.importorskip("sklearn")
pytest.importorskip("starlette")

from ferrodp.explorer.app.sections import SECTIONS
from ferrodp.explorer.figures import shown
from ferrodp.explorer.lessons import LESSONS
from ferrodp.explorer.model.attacks.linkage import PAGE as LINKAGE
from ferrodp.explorer.model.attacks.linkage import guesses, people
from ferrodp.explorer.model.datasets import load
from ferrodp.explorer.model.training import PLAYGROUND, Training

FIGURES = {each.figure.name: each.figure for section in SECTIONS for each in section.entries}
LESSON = {each.name: each.figure for each in LESSONS}
QUICK = {
    "membership": {"steps": "2", "trainings": "40"},
    "inversion": {"epochs": "1"},
    "property": {"trainings": "40"},
    "break": {"draws": "2000"},
}
WHAT = (
    r"\b95 % (intervals?|band)\b|\brange of|\bbetween the bounds\b|\bstandard (error|deviation)|\bthe area that is δ\b"
)
"""What the two edges of a band, or the ends of a range, can be."""


def trained(**settings):
    found = Training(**PLAYGROUND.read({"batch_size": "64", **settings}), repeats=2)
    for _ in range(12):
        found.advance()
    found.evaluate()
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_every_band_and_every_range_is_named_by_what_it_is(name):
    for plot in FIGURES[name].answer(QUICK.get(name, {})).plots:
        for series in plot.series:
            if series.kind in ("band", "ranges"):
                assert re.search(WHAT, series.name), series.name


def test_every_band_of_the_playground_is_named_by_what_it_is():
    for answer in (trained(dataset="wine").answer(), PLAYGROUND.answer({"dataset": "wine"})):
        names = [series.name for plot in answer.plots for series in plot.series if series.kind == "band"]

        assert names
        assert all(re.search(WHAT, each) for each in names), names


def test_the_intervals_of_linkage_are_those_of_clopper_and_pearson_about_its_points():
    answer = LINKAGE.figure.answer({"number": "2000"})
    drawn = {series.name: series for series in answer.plots[1].series}
    points, ends = drawn["guessed from private counts"], drawn["their 95 % intervals"]
    groups, ill = people(2000, 1, 12, 1)
    alone = np.bincount(groups)[groups] == 1
    n = int(alone.sum())

    for epsilon, rate, low, high in zip(points.x, points.y, ends.y, ends.y2, strict=True):
        right = int((guesses(groups, ill, epsilon, 1) == ill)[alone].sum())
        assert rate == right / n
        assert low == pytest.approx(beta.ppf(0.025, right, n - right + 1) if right else 0.0, abs=1e-9)
        assert high == pytest.approx(beta.ppf(0.975, right + 1, n - right) if right < n else 1.0, abs=1e-9)


def test_the_error_of_the_coin_is_called_a_standard_error_and_is_one():
    """400 draws: their mean square error over the square of what is printed is chi2 about, far from both 1e-9 tails."""
    figure, draws = LESSON["coin"], 400
    answers = [figure.answer({"seed": str(seed)}) for seed in range(draws)]
    numbers = answers[0].numbers
    off = [each.numbers["Estimate from the answers"] - each.numbers["People who cheated"] for each in answers]
    ratio = float(np.sum(np.square(off))) / numbers["Standard error of the estimate"] ** 2

    assert f"with a standard error of {numbers['Standard error of the estimate']:.0f}." in answers[0].sentence
    assert chi2.ppf(1e-9, draws) < ratio < chi2.isf(1e-9, draws)


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "0.69", "0.7", "3", "5"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_curve_that_is_cut_in_two_worlds_says_that_it_goes_on(epsilon, mechanism):
    plot = LESSON["worlds"].answer({"epsilon": epsilon, "mechanism": mechanism}).plots[0]
    raised, without = plot.series[-1], plot.series[2]
    is_cut = bool(np.isnan(raised.y).any())

    assert is_cut == ("goes on above" in raised.name)
    assert is_cut == (np.exp(float(epsilon)) * np.max(without.y) > 2 * np.max(plot.series[1].y))
    assert np.nanmax(raised.y) > np.max(without.y)


@pytest.mark.parametrize(
    "name", sorted(set(FIGURES) - {"membership", "inversion", "property", "break", "knobs", "attack"})
)
def test_a_control_has_an_effect_where_the_page_does_not_dim_it_and_none_where_it_does(name):
    """For every choice of every select: all other controls are moved. Left out are figures that train or test long."""
    figure = FIGURES[name]

    def found(query):
        answer = figure.answer(query).as_json()
        return {key: value for key, value in answer.items() if key != "cell"}

    choices = [{}, *({each.name: value} for each in figure.controls for value, _ in each.choices)]
    for context in choices:
        before, chosen = found(context), figure.read(context)
        for control in set(figure.controls) - {each for each in figure.controls if each.name in context}:
            if control.choices:
                values = [value for value, _ in control.choices]
            else:
                span, ratio = control.high - control.low, control.high / control.low if control.scale == "log" else 1.0
                places = [
                    control.low * ratio**share if control.scale == "log" else control.low + span * share
                    for share in (0.2, 0.7)
                ]
                values = [shown(round(each)) if control.integer else repr(each) for each in places]
            select, accepted = control.needs
            is_live = not select or chosen[select] in accepted
            assert is_live == any(found(context | {control.name: each}) != before for each in values), (
                context,
                control,
            )


@pytest.mark.parametrize("dataset", ["digits", "wine", "cancer"])
def test_the_playground_shows_records_and_whether_the_model_is_right(dataset):
    training = trained(dataset=dataset)
    before = Training(**PLAYGROUND.read({"dataset": dataset}), repeats=2).answer().plots[-1]
    plot, data = training.answer().plots[1], load(dataset)
    accuracy = training.history[-1]["private accuracy"][0]

    assert before.title == "Some of the test records"
    assert not any(re.search("right|wrong|called", series.name) for series in before.series)
    if dataset == "digits":
        assert all(series.kind == "image" and len(series.y) == 64 for series in (*before.series, *plot.series))
        assert all(0.0 <= float(np.min(each.y)) <= float(np.max(each.y)) == 1.0 for each in plot.series)
        wrong = [each.name for each in plot.series if "called" in each.name]
        assert [name[2] != name[-1] for name in wrong] == [True] * min(4, round((1 - accuracy) * len(data.test_labels)))
        assert [each.name for each in plot.series if each.name.endswith("right")] != []
    else:
        counts = {series.name: len(series.x) for series in plot.series}
        assert sum(counts.values()) == len(data.test_labels)
        assert counts["the model is right"] == round(accuracy * len(data.test_labels))
