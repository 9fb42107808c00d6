"""`GaussianUpdateFilter` between real events, contexts and exchange objects of NVFlare."""

import csv
import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from nvflare.apis.dxo import DataKind, MetaKey, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.app_constant import AppConstants
from nvflare.fuel.utils.class_utils import instantiate_class
from sites import difference, result

import ferrodp as fd
from ferrodp.accounting import PldAccountant, RdpAccountant
from ferrodp.errors import BudgetExceeded, FerroError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation
from ferrodp.integrations.nvflare import GaussianUpdateFilter

DELTA = 1e-5
MODEL = {"w": np.zeros((20, 10), np.float32), "b": np.float32(0.5)}


def sent(shareable):
    return from_shareable(shareable)


def flat(data):
    return np.concatenate([np.ravel(data[name]) for name in sorted(data)]).astype(float)


def test_it_is_what_nvflare_takes_for_a_filter_and_made_from_a_configuration():
    made = instantiate_class(
        "ferrodp.integrations.nvflare.GaussianUpdateFilter",
        json.loads('{"clip_norm": 2, "delta": 1e-5, "rounds": 4, "noise_multiplier": 3}'),
    )

    assert isinstance(made, DXOFilter)
    assert isinstance(made, GaussianUpdateFilter)
    assert made.plan.epsilon(DELTA) == fd.accounting.gaussian_epsilon(noise_multiplier=1.5 / 2, delta=DELTA)


# ------------------------------------------------------------------------------- what clinical users ask of a filter


def test_noise_is_calibrated_to_the_target_and_no_larger(site):
    """Sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    private = site(target_epsilon=4.0, rounds=10, clip_norm=0.5)
    plan = private.filter.plan
    multiplier = plan.noise.noise_multiplier

    assert plan.epsilon(DELTA) <= 4.0
    less = fd.accounting.gaussian_epsilon(noise_multiplier=0.9999 * multiplier / 2 / math.sqrt(10), delta=DELTA)
    assert less > 4.0
    update = sent(private.task({"w": np.zeros(30_000, np.float32)}, difference(0.0))).data["w"].astype(float)
    variance = (0.5 * multiplier) ** 2
    assert abs(np.square(update).sum() / (30_000 * variance) - 1) < 7 * math.sqrt(2 / 30_000)


def test_each_round_states_certified_and_renyi_epsilon_in_the_result_and_the_csv(site):
    private = site(noise_multiplier=4.0)
    certified, renyi = PldAccountant(), RdpAccountant()
    stated = []
    for number in range(3):
        exchange = sent(private.task(MODEL, difference(0.1), number=number))
        event = GaussianEvent(noise_multiplier=2.0)  # two updates are two clip norms apart
        certified.compose(event)
        renyi.compose(event)
        stated.append(exchange.get_meta_prop("ferrodp"))

        assert stated[-1]["epsilon"] == certified.epsilon(DELTA)
        assert stated[-1]["renyi_epsilon"] == renyi.epsilon(DELTA)
        assert stated[-1]["renyi_epsilon"] >= stated[-1]["epsilon"]
    with (private.folder / "ferrodp-rounds.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["epsilon"]) for row in rows] == [row["epsilon"] for row in stated]
    assert [float(row["renyi_epsilon"]) for row in rows] == [row["renyi_epsilon"] for row in stated]
    assert private.filter.epsilon == certified.epsilon(DELTA)


def test_it_halts_before_the_round_that_would_exceed_the_target(site):
    whole = GaussianUpdateFilter(1.0, DELTA, 20, noise_multiplier=8.0).plan
    target = whole.epsilon_after(7, DELTA)
    private = site(noise_multiplier=8.0, rounds=20, target_epsilon=target)
    for number in range(7):
        private.task(MODEL, difference(0.1), number=number)
    assert private.engine.panics == []

    assert private.task(MODEL, difference(0.1), number=7) is None
    assert private.executed == 7
    assert private.filter.epsilon == target
    assert private.engine.panics == ["the privacy budget of this site allows no further round: target_epsilon"]


def test_the_refusal_comes_before_the_round_at_the_same_round_each_time_and_costs_nothing(site, tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "own.db") as ledger:
        for number in range(3):
            scope = f"study-{number}"
            ledger.create(scope, epsilon=3.0, delta=DELTA, neighboring_relation=NeighboringRelation.REPLACE_ONE)
            allowed = ledger.remaining_count(scope, GaussianEvent(noise_multiplier=4.0))
            private = site(f"job-{number}", noise_multiplier=8.0, rounds=50, ledger=ledger, scope=scope)
            while not private.engine.abort.triggered:
                before = ledger.report(scope)
                private.task(MODEL, difference(1e9 if number else 0.0))
            report = ledger.report(scope)

            assert 1 <= allowed < 50
            assert private.executed == allowed
            assert (report.spent, report.held, report.armed) == (before.spent, 0, before.armed)
            assert report.spent + report.armed == allowed


def test_a_refusal_may_leave_the_job_to_the_others(site):
    private = site(noise_multiplier=8.0, rounds=1, on_exhausted="refuse")
    private.task(MODEL, difference(0.1))
    with pytest.raises(BudgetExceeded, match="no further round: all rounds were released"):
        private.task(MODEL, difference(0.1))

    assert private.engine.panics == []


def test_no_round_opens_a_connection(site, monkeypatch):
    def refused(*_):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refused)
    private = site(target_epsilon=4.0)
    for number in range(3):
        private.task(MODEL, difference(0.1), number=number)
    private.end()


def test_no_value_of_an_update_is_in_a_log_a_file_or_an_error(site, caplog, tmp_path, capfd):
    """Refusals, failures and rounds with a marked number: none of its digits may be found anywhere."""
    caplog.set_level(logging.DEBUG)
    mark = 48271.63
    bad = [
        difference(mark),
        lambda model: result(DataKind.WEIGHT_DIFF, {"w": np.full(3, mark), "b": np.float32(mark)}),
        lambda model: result(DataKind.WEIGHT_DIFF, {"w": np.full((20, 10), 48271), "b": np.float32(mark)}),
        lambda model: result(DataKind.METRICS, {"loss": mark}),
        difference(mark),
        difference(mark),
        difference(mark),
    ]
    private = site(noise_multiplier=1e-3, on_exhausted="refuse")
    errors = []
    for execute in bad:
        try:
            exchange = sent(private.task({**MODEL, "w": np.full((20, 10), mark, np.float32)}, execute))
            assert "48271" not in json.dumps(exchange.get_meta_prop("ferrodp"))
        except FerroError as error:
            errors.append(repr(error))
    private.end()

    assert len(errors) == 4
    texts = [caplog.text, *errors, *capfd.readouterr(), repr(private.filter)]
    texts += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert not any("48271" in text for text in texts)
    marked = np.float32(mark).tobytes(), np.float64(mark).tobytes()
    assert not any(each.decode("latin-1") in text for text in texts for each in marked)


# --------------------------------------------------------------------------------------------------- what leaves


def test_a_difference_is_clipped_and_noised_and_nothing_else_is_in_the_result(site):
    private = site(noise_multiplier=1e-5)
    number = 10 / math.sqrt(201)
    exchange = sent(
        private.task(
            MODEL,
            lambda model: result(
                DataKind.WEIGHT_DIFF,
                {"w": np.full((20, 10), number, np.float32), "b": np.float32(number)},
                **{MetaKey.NUM_STEPS_CURRENT_ROUND: 1234, MetaKey.INITIAL_METRICS: {"loss": 0.25}},
            ),
        )
    )

    assert exchange.data_kind == DataKind.WEIGHT_DIFF
    assert np.linalg.norm(flat(exchange.data)) == pytest.approx(1.0, abs=1e-3)
    assert exchange.data["w"].dtype == exchange.data["b"].dtype == np.float32
    assert set(exchange.meta) == {MetaKey.NUM_STEPS_CURRENT_ROUND, MetaKey.FILTER_HISTORY, "ferrodp"}
    assert exchange.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 1
    assert exchange.get_filter_history() == ["GaussianUpdateFilter"]


def test_weights_are_the_model_that_was_sent_plus_the_noised_difference(site):
    """Also where the trainer writes to the arrays that it got."""

    def in_place(model):
        model["w"] += 1.0
        return result(DataKind.WEIGHTS, model)

    model = {"w": np.full(400, 7.0, np.float32), "steps": np.array(3)}
    private = site(noise_multiplier=1e-5, skip=["steps"])
    reply = private.task(model, in_place, number=5)
    exchange = sent(reply)

    assert exchange.data["w"] == pytest.approx(7.0 + 1 / 20, abs=1e-3)
    assert exchange.data["steps"] == 3
    assert reply.get_header(AppConstants.CURRENT_ROUND) == 5


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38, -1e38, 0.0])
@pytest.mark.parametrize("kind", [DataKind.WEIGHT_DIFF, DataKind.WEIGHTS])
def test_no_update_moves_what_leaves_by_more_than_the_bound(site, value, kind):
    private = site(noise_multiplier=1e-5)
    exchange = sent(
        private.task(MODEL, lambda model: result(kind, {n: np.full_like(a, value) for n, a in model.items()}))
    )
    base = 0.0 if kind == DataKind.WEIGHT_DIFF else flat(MODEL)

    assert np.isfinite(flat(exchange.data)).all()
    assert np.linalg.norm(flat(exchange.data) - base) <= 1.01


def test_half_and_double_precision_come_back_as_they_were(site):
    model = {"half": np.zeros(2, np.float16), "double": np.zeros(3)}
    exchange = sent(site(noise_multiplier=1.0).task(model, difference(0.1)))

    assert [exchange.data[name].dtype for name in model] == [np.float16, np.float64]


@pytest.mark.parametrize(
    ("execute", "error"),
    [
        (lambda model: result(DataKind.METRICS, {"accuracy": 0.5}), InvalidParameter),
        (lambda model: result(DataKind.STATISTICS, {"count": 5}), InvalidParameter),
        (lambda model: result(DataKind.COLLECTION, {"a": 1}), InvalidParameter),
        (lambda model: Shareable({"weights": model}), InvalidType),
        (lambda model: result(DataKind.WEIGHT_DIFF, {}), InvalidArray),
        (lambda model: result(DataKind.WEIGHT_DIFF, {"w": model["w"]}), InvalidArray),
        (lambda model: result(DataKind.WEIGHT_DIFF, {**model, "more": model["w"]}), InvalidArray),
        (lambda model: result(DataKind.WEIGHT_DIFF, {**model, "w": np.zeros((10, 20))}), InvalidArray),
        (lambda model: result(DataKind.WEIGHT_DIFF, {**model, "w": np.zeros((20, 10), int)}), InvalidArrayType),
        (
            lambda model: result(DataKind.WEIGHT_DIFF, model, **{MetaKey.PROCESSED_ALGORITHM: "HE"}),
            InvalidParameter,
        ),
    ],
)
def test_what_is_no_update_like_the_model_does_not_leave_and_is_not_charged(site, execute, error):
    private = site(noise_multiplier=1.0)
    with pytest.raises(error):
        private.task(MODEL, execute)

    assert private.filter.epsilon == 0.0
    private.task(MODEL, difference(0.1))  # with the round that was reserved
    assert len(private.filter.records) == 1


def test_of_a_failed_task_only_the_return_code_leaves(site):
    def failed(model):
        reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
        reply["DXO"] = {"data": model}
        reply.set_header("loss", 0.25)
        return reply

    private = site(noise_multiplier=1.0)
    reply = private.task(MODEL, failed)

    assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert "DXO" not in reply
    assert reply.get_header("loss") is None
    assert private.filter.epsilon == 0.0


def test_weights_of_a_task_that_was_not_announced_are_refused_and_differences_are_paid(site):
    private = site(noise_multiplier=1.0)
    with pytest.raises(InvalidParameter, match="the model that the server sent"):
        private.filter.process(result(DataKind.WEIGHTS, dict(MODEL)), private.context)
    private.filter.process(result(DataKind.WEIGHT_DIFF, dict(MODEL)), private.context)

    assert private.filter.epsilon == private.filter.plan.epsilon_after(1, DELTA)


# ------------------------------------------------------------------------------------------------ budgets that last


def test_a_site_that_starts_again_goes_on_after_what_was_charged(site):
    first = site(noise_multiplier=4.0)
    first.task(MODEL, difference(0.1))
    first.task(MODEL, difference(0.1))
    first.end()
    with pytest.raises(FerroError, match="the job of this filter has ended"):
        first.task(MODEL, difference(0.1))

    again = site(noise_multiplier=4.0)
    again.task(MODEL, difference(0.1))
    assert again.filter.epsilon == again.filter.plan.epsilon(DELTA)
    assert again.task(MODEL, difference(0.1)) is None
    assert again.engine.panics == ["the privacy budget of this site allows no further round: all rounds were released"]
    assert site("job-2", noise_multiplier=4.0).task(MODEL, difference(0.1)) is not None


KILLED = """
import sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
import sites, numpy as np
site = sites.Site(Path({root!r}), noise_multiplier=4.0)
model = {{"w": np.zeros((20, 10), np.float32), "b": np.float32(0.5)}}
site.task(model, sites.difference(0.1))
def slow(model):
    print("training", flush=True)
    import time
    time.sleep(60)
site.task(model, slow)
"""


def test_a_site_that_is_killed_while_it_trains_goes_on(site, tmp_path):
    code = textwrap.dedent(KILLED).format(tests=str(Path(__file__).parent), root=str(tmp_path / "site-1"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "training"
        os.kill(process.pid, signal.SIGKILL)

    again = site(noise_multiplier=4.0)
    epsilons = []
    while (reply := again.task(MODEL, difference(0.1))) is not None:
        epsilons.append(sent(reply).get_meta_prop("ferrodp")["epsilon"])
    # The first round was released; the second was reserved and drew nothing.
    assert epsilons == [again.filter.plan.epsilon_after(number, DELTA) for number in (2, 3)]
    with (again.folder / "ferrodp-rounds.csv").open() as stream:
        assert [row["round"] for row in csv.DictReader(stream)] == ["0", "1", "2"]


def test_a_ledger_of_the_site_is_opened_by_its_path_and_never_begun(site, tmp_path):
    missing = site(noise_multiplier=4.0, ledger="budget.db", scope="images")
    with pytest.raises((FerroError, OSError)):
        missing.task(MODEL, difference(0.1))
    with pytest.raises(FerroError, match="the round was not begun"):
        missing.filter.process(difference(0.1)(MODEL), missing.context)
    with fd.PrivacyLedger.open(tmp_path / "site-1" / "budget.db") as ledger:
        ledger.create("images", epsilon=9.0, delta=DELTA, neighboring_relation=NeighboringRelation.REPLACE_ONE)
        ledger.create("other", epsilon=9.0, delta=DELTA)
    with pytest.raises(InvalidParameter, match="REPLACE_ONE"):
        site(noise_multiplier=4.0, ledger="budget.db", scope="other").task(MODEL, difference(0.1))
    private = site(noise_multiplier=4.0, ledger="budget.db", scope="images")
    private.task(MODEL, difference(0.1))
    private.end()
    with fd.PrivacyLedger.open(tmp_path / "site-1" / "budget.db") as ledger:
        report = ledger.report("images")
        assert report.spent + report.armed == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, InvalidParameter),
        ({"noise_multiplier": 0.0}, InvalidParameter),
        ({"noise_multiplier": 1.0, "delta": 1.0}, InvalidParameter),
        ({"noise_multiplier": 1.0, "clip_norm": -1}, InvalidParameter),
        ({"noise_multiplier": 1.0, "rounds": 0}, InvalidParameter),
        ({"noise_multiplier": 1.0, "target_epsilon": 0.0}, InvalidParameter),
        ({"noise_multiplier": 1.0, "ledger": "budget.db"}, InvalidParameter),
        ({"noise_multiplier": 1.0, "scope": "images"}, InvalidParameter),
        ({"noise_multiplier": 1.0, "on_exhausted": "warn"}, InvalidParameter),
        ({"noise_multiplier": 1.0, "tasks": "train"}, InvalidType),
        ({"noise_multiplier": 1.0, "skip": [1]}, InvalidType),
    ],
)
def test_arguments_that_do_not_fit_are_refused(site, options, error):
    with pytest.raises(error):
        site(**options)
