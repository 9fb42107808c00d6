"""What a notebook shows of an object: tables of escaped text, without data, colors or a second meaning."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import accounting, plan
from ferrodp._base import _html

EVENT = fd.events.GaussianEvent(noise_multiplier=10.0)


class Reader(HTMLParser):
    """Collects rows of cells, the caption, and whether all elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.caption = ""
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] == "caption":
            self.caption += data


def read(thing):
    reader = Reader()
    shown = thing if isinstance(thing, str) else thing._repr_html_()
    reader.feed(shown)
    reader.close()
    assert reader.open == []
    assert not re.search(r"background|#[0-9a-f]{3}|<script|color: (?!inherit)", shown)
    return reader


def trained():
    return fd.PrivacyPlan(
        population_size=1000,
        sampling=plan.PoissonSampling(0.01),
        clipping=plan.FlatClipping(1.0),
        noise=plan.ConstantNoise(1.5),
        num_steps=100,
    )


@pytest.fixture
def ledger(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as opened:
        opened.create("a&b", epsilon=2.0, delta=1e-6)
        yield opened


def test_a_plan_shows_its_parts():
    shown = read(trained())

    assert [row[0] for row in shown.rows] == ["protected", "units", "sampling", "steps", "clipping", "noise"]
    assert shown.rows[3] == ["steps", "100"]
    assert "ConstantNoise" in shown.rows[5][1]


def test_a_forecast_shows_its_steps_with_epsilon_rounded_up():
    forecast = trained().forecast(1e-5, num_points=3)
    shown = read(forecast)

    assert [int(row[0]) for row in shown.rows[1:]] == list(forecast.steps)
    for row, epsilon in zip(shown.rows[1:], forecast.epsilon, strict=True):
        assert epsilon <= float(row[1]) <= epsilon * (1 + 1e-5)


def test_an_accountant_shows_what_was_released():
    accountant = accounting.PldAccountant()
    assert read(accountant).rows[1][0] == "nothing was released"

    accountant.compose(EVENT, 3)
    shown = read(accountant)
    assert shown.caption == "PldAccountant, add_or_remove_one"
    assert shown.rows[1] == ["GaussianEvent(noise_multiplier=10.0)", "3"]


def test_a_ledger_shows_its_scopes_and_survives_being_closed(ledger):
    ledger.spend("a&b", EVENT)
    shown = read(ledger)
    charged = ledger.report("a&b").epsilon_charged

    assert shown.rows[0][:4] == ["scope", "ε charged", "of ε", "δ"]
    assert shown.rows[1][0] == "a&b"
    assert charged <= float(shown.rows[1][1]) <= charged * (1 + 1e-5)
    assert shown.rows[1] == read(ledger.report("a&b")).rows[1]
    ledger.close()
    assert "closed" in read(ledger).text


def test_bounds_are_shown_rounded_outward():
    bounds = trained().epsilon_bounds(1e-5)
    (_, lower), (_, upper) = read(bounds).rows

    assert float(lower) <= bounds.lower <= bounds.upper <= float(upper)
    assert float(upper) - float(lower) < 1e-4


def test_an_explanation_shows_its_sentences():
    accountant = accounting.PldAccountant()
    accountant.compose(EVENT)
    found = accountant.explain(1e-5)

    assert read(found).text == str(found)


def test_an_estimate_shows_its_released_numbers():
    estimate = fd.private_histogram(["<b>", "c"], categories=["<b>", "c"], epsilon=1.0)
    shown = read(estimate)

    assert shown.rows[0] == ["", "value", "standard error", "95 % from", "to"]
    assert [row[0] for row in shown.rows[1:]] == ["<b>", "c"]
    assert [int(row[1]) for row in shown.rows[1:]] == estimate.value.tolist()


def test_long_tables_say_how_many_rows_are_left_out():
    shown = read(_html.table("all", ("n",), [(n,) for n in range(100)], more="to_frame()"))

    assert len(shown.rows) == 1 + _html.MOST_ROWS
    assert shown.text.endswith("40 more rows: to_frame()")
    assert len(read(_html.table("", (), [(n,) for n in range(100)], whole=True)).rows) == 100


@pytest.mark.parametrize("value", [1.23456789, 1.0000001, 9.9999999, 1e-300, 123456789.1, 0.0])
def test_rounded_bounds_are_on_their_side(value):
    assert float(_html.at_least(value)) <= value <= float(_html.at_most(value))
    assert np.isclose(float(_html.at_least(value)), float(_html.at_most(value)), rtol=2e-5)


def test_short_representations_stay_on_one_line(ledger):
    for thing in (trained().epsilon_bounds(1e-5), accounting.PldAccountant(), ledger):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200
