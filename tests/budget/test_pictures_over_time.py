"""The picture of a ledger shows what its reports said at each moment."""

import matplotlib as mpl
import pytest

import ferrodp as fd
from ferrodp.budget import PrivacyLedger, plot_ledger, timeline
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError

mpl.use("Agg")
from matplotlib import pyplot

EVENT = fd.events.GaussianEvent(noise_multiplier=10.0)


@pytest.fixture
def ledger(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as opened:
        opened.create("hospital", epsilon=4.0, delta=1e-6)
        opened.create("hospital/images", epsilon=2.0, delta=1e-6)
        yield opened


def moments(ledger, *names):
    with ledger._access.beside() as store:
        return timeline.timelines(store, names)


def test_each_moment_is_what_the_report_said_then(ledger):
    said = {"hospital": [], "hospital/images": []}

    def note():
        for name, values in said.items():
            report = ledger.report(name)
            now = report.epsilon_charged, report.epsilon
            if not values or values[-1] != now:
                values.append(now)

    note()
    ledger.spend("hospital/images", EVENT)
    note()
    held = ledger.reserve("hospital/images", EVENT)
    note()
    ledger.cancel_ticket(held.id, reason="not needed")
    note()
    ledger.raise_cap("hospital", epsilon=5.0, reason="a second study")
    note()
    with ledger.lease("hospital", EVENT, count=10) as lease:
        note()
        lease.draw().arm()
    note()

    found = moments(ledger, *said)

    assert {name: [(m.epsilon_charged, m.epsilon) for m in each] for name, each in found.items()} == said
    assert len(said["hospital"]) > 5


def test_lines_and_budgets_of_all_scopes_are_drawn(ledger, tmp_path):
    ledger.spend("hospital/images", EVENT)
    axes = plot_ledger(ledger)

    assert axes.get_legend_handles_labels()[1] == ["hospital", "hospital/images"]
    assert [text.get_text() for text in axes.texts] == ["budget of hospital", "budget of hospital/images"]
    assert [line.get_ydata()[-1] for line in axes.get_lines()[1::2]] == [4.0, 2.0]
    assert axes.get_lines()[2].get_ydata()[-1] == ledger.report("hospital/images").epsilon_charged
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (UTC)", "ε charged at δ = 10⁻⁶")
    for suffix in ("png", "svg", "pdf"):
        axes.figure.savefig(tmp_path / f"ledger.{suffix}")
        assert (tmp_path / f"ledger.{suffix}").stat().st_size > 1000


def test_over_records_the_axis_has_their_numbers(ledger):
    ledger.spend("hospital", EVENT)
    axes = plot_ledger(ledger, "hospital", over="records")

    assert axes.get_lines()[0].get_xdata().tolist() == [1, 3, 3]
    assert axes.get_xlabel() == "records of the log"


def test_a_long_log_keeps_its_first_and_last_moment():
    trace = timeline._Trace()
    for number in range(10_000):
        trace.note(timeline._Noted("2026-01-01T00:00:00+00:00", number, None, (number,), (1,)))

    assert len(trace.found) < timeline._MOST_MOMENTS
    assert (trace.found[0].sequence, trace.last.sequence) == (0, 9_999)


def test_a_changed_log_is_not_drawn(ledger, monkeypatch):
    ledger.spend("hospital", EVENT)
    from ferrodp.budget.log import history

    kept = history.forward
    monkeypatch.setattr(
        history, "forward", lambda store: [(n, t.replace("hospital", "clinic"), h) for n, t, h in kept(store)]
    )

    with pytest.raises(LedgerError, match="was changed"):
        plot_ledger(ledger)


@pytest.mark.parametrize(
    ("draw", "error", "text"),
    [
        (lambda _: plot_ledger("budget.db"), InvalidType, r"ledger must be an open PrivacyLedger, got str: .*open"),
        (lambda opened: plot_ledger(opened, "hospitl"), InvalidParameter, "did you mean 'hospital'"),
        (lambda opened: plot_ledger(opened, []), InvalidParameter, "scopes must name at least one scope"),
        (lambda opened: plot_ledger(opened, ["hospital"] * 7), InvalidParameter, "at most 6, got 7"),
        (lambda opened: plot_ledger(opened, over="days"), InvalidParameter, '"time" or "records", got \'days\''),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_a_figure_is_made(ledger, draw, error, text):
    with pytest.raises(error, match=text):
        draw(ledger)
    assert pyplot.get_fignums() == []
