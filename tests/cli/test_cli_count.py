"""`ferrodp count`: streams of counters from the shell, one command a day."""

import numpy as np
import pytest

import ferrodp as fd


@pytest.fixture
def stream(ferrodp, tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("site", epsilon=1.01, delta=1e-6, measure="gdp")
    paid = "--ledger", tmp_path / "b.db", "--scope", "site"
    ferrodp("count", "start", tmp_path / "s", "--counters", "home,news", "--epsilon", 1, "--days", 30, *paid)
    return tmp_path / "s", paid


def day(tmp_path, rows):
    path = tmp_path / "day.csv"
    path.write_text("user,page\n" + "".join(f"{who},{what}\n" for who, what in rows), encoding="utf-8")
    return path


def test_days_are_added_and_shown_as_they_were_released(ferrodp, tmp_path, stream):
    file, paid = stream
    rows = [(f"u{number}", "home" if number % 3 else "news") for number in range(3000)]
    add = "add", file, day(tmp_path, [*rows, *rows, ("u1", "news"), ("x", "nowhere")]), "--unit", "user"
    add = *add, "--column", "page", *paid
    for number in range(3):
        found = ferrodp("count", *add, "--day", number, "--json").json
        again = ferrodp("count", *add, "--day", number, "--json").json
        shown = ferrodp("count", "show", file, *paid, "--json").json
        assert found["totals"] == again["totals"] == shown["totals"]
        truth = np.array([2000, 1000]) * (number + 1)
        assert np.all(np.abs(np.array(found["totals"]) - truth) <= 7 * found["standard_error"] + 1)
        assert (found["day"], found["days"], found["epsilon"] <= 1.0) == (number, 30, True)
    printed = ferrodp("count", "show", file, *paid).out
    assert "home" in printed
    assert "what a person does on one day" in printed
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        assert 0.99 < ledger.epsilon_charged("site") <= 1.01


def test_a_stream_without_a_ledger_counts_persons_on_several_days(ferrodp, tmp_path):
    names = tmp_path / "names"
    names.write_text("home\nnews\n")
    start = "start", tmp_path / "s", "--counters-file", names, "--epsilon", 2, "--max-days", 2, "--max-counters", 2
    assert ferrodp("count", *start, "--min-separation", 3, "--days", 9, "--json").json["totals"] is None
    found = ferrodp("count", "show", tmp_path / "s").out
    assert "none yet" in found
    assert "a person, on at most 2 days, at least 3 days apart" in found
    table = day(tmp_path, [])
    assert (
        ferrodp("count", "add", tmp_path / "s", table, "--unit", "user", "--column", "page", "--json").json["day"] == 0
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("start", "s", "--counters", "a"), "--epsilon"),
        (("start", "s", "--epsilon", "1"), "--counters"),
        (("start", "s", "day.csv", "--epsilon", "1", "--counters", "a"), "TABLE is for add"),
        (("add", "s", "--unit", "user", "--column", "page"), "TABLE must be given"),
        (("add", "s", "day.csv", "--unit", "user"), "--column"),
        (("show", "s", "--epsilon", "1"), "--epsilon is for start"),
        (("show", "s", "--day", "1"), "--day is for add"),
        (("show", "s", "--scope", "a"), "--scope"),
        (("show", "none"), "none is at"),
        (("add", "s", "day.csv", "--unit", "nobody", "--column", "page"), "has no column"),
        (("add", "s", "day.txt", "--unit", "user", "--column", "page"), "must end in .csv"),
        (("start", "s", "--counters", "a", "--epsilon", "1"), "is there already"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_one_line(ferrodp, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FERRODP_LEDGER", raising=False)
    day(tmp_path, [("a", "b")])
    fd.Counter(noise_multiplier=1.0, days=3).start(["b"], file="s", key="k").close()
    before = (tmp_path / "s").read_bytes()

    assert words in ferrodp("count", *arguments).error
    assert (tmp_path / "s").read_bytes() == before
