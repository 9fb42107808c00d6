"""The loop ties run, optimizer and callbacks: nothing is charged that was not released, and nothing beyond a budget."""

import csv
import json

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PiecewiseNoise, PlanRun, PoissonSampling
from ferrodp.testing import SeededNoiseSource
from ferrodp.training import SGD, BudgetStop, Callback, CsvLog, JsonLog, PrivacyMonitor, ProgressBar, fit

DELTA = 1e-5
POINTS = np.random.default_rng(0).normal(size=(50, 2))


def plan(num_steps=6, **options):
    settings = {
        "population_size": 50,
        "sampling": PoissonSampling(0.5),
        "num_steps": num_steps,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(3.0),
    }
    return fd.PrivacyPlan(**(settings | options))


def toward_mean(center, step):
    return center - POINTS[step.indices]


def trained(run, *callbacks, gradients=toward_mean):
    return fit(run, np.zeros(2), gradients, optimizer=SGD(0.5), callbacks=callbacks)


def test_all_steps_of_a_plan_are_run_and_charged():
    whole = plan()
    run = whole.start(np.zeros(2))

    done = trained(run)

    assert (done.num_steps, done.stop_reason, run.stopped) == (6, None, "finished")
    assert whole.epsilon(DELTA) == done.epsilon(DELTA) == run.epsilon(DELTA)


def test_parameters_are_those_of_the_optimizer_along_what_was_released():
    run = plan(sampling=FullBatch()).start(np.zeros(2), source=SeededNoiseSource(bytes(32)))
    replay = plan(sampling=FullBatch()).start(np.zeros(2), source=SeededNoiseSource(bytes(32)))
    center = np.zeros(2)
    for step in replay:
        step.add(toward_mean(center, step))
        center = center - 0.5 * step.release()

    assert np.array_equal(center, trained(run).parameters)


@pytest.mark.parametrize("how", ["chunks", "itself"])
def test_gradients_may_come_in_chunks_or_be_added_by_the_function(how):
    def gradients(center, step):
        stacked = toward_mean(center, step)
        if how == "chunks":
            return iter([stacked[:3], stacked[3:]])
        step.add(stacked)
        return None

    assert trained(plan().start(np.zeros(2)), gradients=gradients).num_steps == 6


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_budget_stops_before_the_step_that_would_exceed_it(epsilon):
    whole = plan(num_steps=200)
    run = whole.start(np.zeros(2))

    done = trained(run, BudgetStop(epsilon, DELTA))

    assert run.epsilon(DELTA) <= epsilon < whole.epsilon_after(done.num_steps + 1, DELTA)
    assert whole.max_steps(epsilon=epsilon, delta=DELTA) == done.num_steps
    assert f"step {done.num_steps + 1} would exceed" in done.stop_reason


def test_a_budget_that_allows_no_step_draws_nothing():
    run = plan(noise=ConstantNoise(0.5)).start(np.zeros(2))

    done = trained(run, BudgetStop(0.01, DELTA))

    assert done.num_steps == 0
    assert done.gradient is None
    assert run.epsilon(DELTA) == 0.0


def test_a_step_that_a_callback_stopped_is_not_charged_to_the_ledger(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "ledger.db") as ledger:
        ledger.create("a", epsilon=5.0, delta=DELTA)
        with pytest.warns(UserWarning, match="of 100 steps fit"):
            run = plan(num_steps=100).start(np.zeros(2), ledger=ledger, scope="a")
        done = trained(run, BudgetStop(1.0, DELTA))

        assert 0 < done.num_steps < 100
        assert ["spent"] * done.num_steps == [ticket.state.value for ticket in ledger.tickets("a")]


def test_a_monitor_shows_what_the_plan_states_the_certified_bound_first(capsys):
    whole = plan(num_steps=3, sampling=FullBatch())
    monitor = PrivacyMonitor(DELTA, measures=("zcdp", "rdp", "pld"))

    trained(whole.start(np.zeros(2)), monitor)

    assert monitor.measures == ("pld", "zcdp", "rdp")
    for line in monitor.history:
        for measure in monitor.measures:
            assert whole.epsilon_after(line["step"], DELTA, accountant=measure) == line[measure]
        assert line["pld"] == min(line[measure] for measure in monitor.measures)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert printed[0].index("(pld)") < printed[0].index("(zcdp)")


def test_a_measure_without_a_bound_shows_a_dash(capsys):
    monitor = PrivacyMonitor(DELTA, every=2)

    trained(plan(num_steps=3).start(np.zeros(2)), monitor)

    assert [line["step"] for line in monitor.history] == [2, 3]
    assert monitor.history[0]["zcdp"] is None
    assert "- (zcdp)" in capsys.readouterr().out


def test_a_monitor_shows_the_last_step_of_a_training_that_was_stopped():
    monitor = PrivacyMonitor(DELTA, ("pld",), every=100, verbose=False)

    done = trained(plan(num_steps=200).start(np.zeros(2)), monitor, BudgetStop(1.0, DELTA))

    assert [done.num_steps] == [line["step"] for line in monitor.history]


def test_a_schedule_is_monitored_as_what_it_is():
    whole = plan(num_steps=4, noise=PiecewiseNoise((4.0, 1.0), boundaries=(2,)))
    monitor = PrivacyMonitor(DELTA, ("rdp",), verbose=False)

    trained(whole.start(np.zeros(2)), monitor)

    steps = np.diff([0.0, *(line["rdp"] for line in monitor.history)])
    assert steps[2] > 2 * steps[1]


def test_a_seeded_training_has_no_finite_epsilon():
    monitor = PrivacyMonitor(DELTA, ("pld",), verbose=False)

    trained(plan(num_steps=1).start(np.zeros(2), source=SeededNoiseSource(bytes(32))), monitor)

    assert monitor.history == [{"step": 1, "pld": float("inf")}]


def test_logs_hold_a_line_for_each_step_and_go_on_when_resumed(tmp_path):
    table, lines = tmp_path / "log.csv", tmp_path / "log.jsonl"

    def callbacks():
        return PrivacyMonitor(DELTA, ("pld", "zcdp"), verbose=False), CsvLog(table), JsonLog(lines)

    class StopAtThree(Callback):
        def on_step_begin(self, progress):
            if progress.num_steps == 3:
                progress.stop("three")

    run = plan().start(np.zeros(2))
    assert trained(run, *callbacks(), StopAtThree()).stop_reason == "three"
    trained(PlanRun.from_state(run.state()), *callbacks())

    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    read = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [str(i) for i in range(1, 7)] == [row["step"] for row in rows]
    assert [float(row["epsilon_pld"]) for row in rows] == [line["epsilon_pld"] for line in read]
    assert {None} == {line["epsilon_zcdp"] for line in read}


def test_a_training_that_begins_replaces_its_log(tmp_path):
    for _ in range(2):
        trained(plan(num_steps=2).start(np.zeros(2)), JsonLog(tmp_path / "log"))

    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_a_progress_bar_ends_at_the_last_step(capsys):
    trained(plan(num_steps=2).start(np.zeros(2)), ProgressBar("digits"))

    assert "2/2" in capsys.readouterr().out


def test_callbacks_are_told_the_end_when_gradients_fail():
    class Watch(Callback):
        ended = 0

        def on_train_end(self, progress):
            self.ended += 1

    watch = Watch()

    with pytest.raises(ZeroDivisionError):
        trained(plan().start(np.zeros(2)), watch, gradients=lambda center, step: 1 / 0)

    assert watch.ended == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: fit("run", np.zeros(2), toward_mean, optimizer=SGD(0.1)),
        lambda: fit(plan().start(np.zeros(2)), np.zeros(2), toward_mean, optimizer="sgd"),
        lambda: trained(plan().start(np.zeros(2)), "callback"),
        lambda: PrivacyMonitor(DELTA, measures=()),
        lambda: PrivacyMonitor(DELTA, measures=("none",)),
        lambda: BudgetStop(0.0, DELTA),
        lambda: JsonLog(3),
    ],
)
def test_what_is_not_accepted_is_refused(make):
    with pytest.raises((InvalidParameter, InvalidType)):
        make()
