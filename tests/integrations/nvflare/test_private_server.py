"""The workflow of a private server: what it adds, what it asks, what it pays for. Its real jobs: `test_killed_jobs`."""

from types import SimpleNamespace

import numpy as np
import pytest
from nvflare.apis.impl.controller import Controller
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.federated import FederatedRun, RoundCheckpoint
from ferrodp.integrations.nvflare import PrivateFedAvg
from ferrodp.plan import _kept as kept

SITES, WIDTH, ROUNDS = 4, 6, 3
MODEL = {"w": np.zeros(WIDTH, np.float32), "b": np.zeros((), np.float32)}


class Served(PrivateFedAvg):
    """A workflow whose sites answer at once: `answers(site, params, round)` are results, each given to the callback."""

    def serve(self, folder, answers, sites=SITES):
        (folder / "startup").mkdir(parents=True, exist_ok=True)
        (folder / "local").mkdir(exist_ok=True)
        self.engine = SimpleNamespace(
            get_workspace=lambda: Workspace(str(folder), "server"),
            get_clients=lambda: [SimpleNamespace(name=f"site-{number}") for number in range(sites)],
        )
        self.abort_signal = Signal()
        self.answers, self.asked, self.shown, self.panics, self.said = answers, [], [], [], []
        self.fl_ctx = SimpleNamespace(get_job_id=lambda: "job")
        self.folder = folder
        self.run()
        return self.shown[-1] if self.shown else None

    def load_model(self):
        return FLModel(params_type=ParamsType.FULL, params={name: value.copy() for name, value in MODEL.items()})

    def save_model(self, model):
        self.shown.append({name: np.array(value) for name, value in model.params.items()})

    def get_run_dir(self):
        return str(self.folder)

    def event(self, event_type):
        pass

    def info(self, message):
        self.said.append(message)

    def panic(self, message):
        self.panics.append(message)

    def get_num_standing_tasks(self):
        return 0

    def send_model(self, task_name, data, targets, timeout, callback):
        self.asked.append(list(targets))
        for site in targets:
            params = {name: np.array(value) for name, value in data.params.items()}
            for answer in self.answers(site, params, data.current_round):
                answer.meta["client_name"] = site
                callback(answer)


def toward(value, kind=ParamsType.FULL):
    """Answers that move each coordinate by a value."""

    def answers(site, params, number):
        moved = {name: array + np.float32(value) for name, array in params.items()}
        if kind == ParamsType.DIFF:
            moved = {name: np.full_like(array, value) for name, array in params.items()}
        return [FLModel(params_type=kind, params=moved, metrics={"loss": 1.5}, meta={})]

    return answers


def workflow(**changes):
    usual = {"num_clients": SITES, "clip_norm": 1.0, "delta": 1e-5, "rounds": ROUNDS, "noise_multiplier": 1.0}
    return Served(**(usual | changes))


@pytest.fixture
def keys(monkeypatch):
    """Keys of noise that are a function of the round."""
    monkeypatch.setattr(kept, "_fresh_key", lambda step: bytes([step]) * 32)


def by_hand(folder, updates):
    """The models of the same plan and keys, by `FederatedRun`: `updates(number)` are those of a round."""
    models, model = [], {name: value.copy() for name, value in MODEL.items()}
    with RoundCheckpoint(folder / "by-hand") as checkpoint:
        run = FederatedRun(workflow().plan, MODEL, checkpoint=checkpoint)
        run.save(model)
        for round_ in run:
            added = updates(round_.number)
            for update in added:
                round_.add(update)
            round_.add_missing(SITES - len(added))
            change = round_.release()
            model = {name: model[name] + change[name] for name in model}
            run.save(model)
            models.append(model)
    return models


def full(value):
    return {name: np.full_like(array, value) for name, array in MODEL.items()}


def equal(one, other):
    return all(np.array_equal(one[name], other[name]) for name in MODEL)


@pytest.mark.parametrize("kind", [ParamsType.FULL, ParamsType.DIFF])
def test_a_round_is_the_noised_mean_of_the_clipped_updates(tmp_path, keys, kind):
    made = workflow(checkpoint=tmp_path / "c")
    made.serve(tmp_path / "server", toward(0.25, kind))
    # 0.25 and not 0.1: what is added to float32 models and taken away again is the same number.
    expected = by_hand(tmp_path, lambda number: [full(0.25)] * SITES)
    assert all(equal(shown, model) for shown, model in zip(made.shown, expected, strict=True))
    assert made.epsilon == made.plan.epsilon(1e-5)
    assert [record.round for record in made.records] == [0, 1, 2]
    assert len((tmp_path / "server" / "ferrodp-rounds.csv").read_text().splitlines()) == 1 + ROUNDS
    assert isinstance(made, Controller)


def test_what_a_site_sends_cannot_stop_a_round_and_counts_once(tmp_path, keys):
    """Wrong shapes, names, kinds and values count as zeros; a second answer is dropped, and so is one that is late."""
    late = []

    def answers(site, params, number):
        good = FLModel(params=full(0.5), params_type=ParamsType.DIFF, meta={})
        if late:  # of the round before
            late.pop()(good)
        bad = [
            FLModel(params={"w": np.ones(3, np.float32)}, params_type=ParamsType.DIFF, meta={}),
            FLModel(params=full(np.nan), params_type=ParamsType.DIFF, meta={}),
        ]
        if site == "site-0":
            return [good, FLModel(params=full(8.0), params_type=ParamsType.DIFF, meta={})]
        if site == "site-1":
            return bad[:1]
        if site == "site-2":
            return bad[1:]
        return []

    made = workflow(checkpoint=tmp_path / "c")
    made.serve(tmp_path / "server", answers)
    expected = by_hand(tmp_path, lambda number: [full(0.5)])
    assert all(equal(shown, model) for shown, model in zip(made.shown, expected, strict=True))


def test_a_result_after_its_round_is_dropped(tmp_path):
    made = workflow()
    made.serve(tmp_path / "server", toward(0.5))
    assert (
        made._received(FLModel(params=full(9.0), params_type=ParamsType.DIFF, meta={"client_name": "site-0"})) is False
    )
    made.process_result_of_unknown_task(None, "train", "id", None, None)


def test_sites_are_drawn_by_the_plan_and_a_round_without_any_is_released(tmp_path):
    made = workflow(sampling_probability=0.25, rounds=40, noise_multiplier=20.0)
    made.serve(tmp_path / "server", toward(0.5))
    assert len(made.records) == 40
    # That no round is empty has the chance (1 - .75^4)^40, below 3e-7; that all are alike has less.
    assert len(made.asked) < 40
    assert len({tuple(asked) for asked in made.asked}) > 1
    assert {record.denominator for record in made.records} == {1.0}


def test_the_ledger_pays_before_sites_are_asked_and_ends_the_run(tmp_path):
    states = []
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("job", epsilon=9.0, delta=1e-5, measure="gdp")

        def answers(site, params, number):
            states.append([ticket.state.value for ticket in ledger.tickets("job")][-1])
            return toward(0.5)(site, params, number)

        made = workflow(rounds=30, ledger=ledger, scope="job", key="t")
        with pytest.warns(UserWarning, match="of 30 steps fit"):
            made.serve(tmp_path / "server", answers)
        fits = len(made.records)
        assert 0 < fits < 30
        assert set(states) == {"held"}
        assert "the budget of the ledger is spent" in made.said[-1]
        assert made.panics == []
        again = workflow(rounds=30, ledger=ledger, scope="job", key="u", on_exhausted="fail")
        with pytest.warns(UserWarning, match="0 of 30 steps fit"):
            again.serve(tmp_path / "server", answers)
        assert again.asked == []
        assert "the budget of the ledger is spent; epsilon is 0" in again.panics[0]


def test_a_model_is_in_the_checkpoint_before_it_is_shown(tmp_path):
    made = workflow(checkpoint=tmp_path / "c")
    seen = []
    keep = made._keep

    def noted(loaded, model):
        import json

        data = (tmp_path / "c").read_bytes()
        start = len(b"ferrodp-round\x00\x01\n") + 8
        header = json.loads(data[start : start + int.from_bytes(data[start - 8 : start], "little")])
        seen.append((len(header["run"]["records"]), data.count(np.asarray(model["w"]).tobytes())))
        keep(loaded, model)

    made._keep = noted
    made.serve(tmp_path / "server", toward(0.5))
    assert seen == [(1, 1), (2, 1), (3, 1)]


def test_a_server_that_starts_again_goes_on_and_shows_the_model_of_its_checkpoint(tmp_path, keys):
    whole = workflow(checkpoint=tmp_path / "whole").serve(tmp_path / "one", toward(0.25))

    class Stopped(BaseException):
        pass

    def answers(site, params, number):
        if number == 2:
            raise Stopped
        return toward(0.25)(site, params, number)

    first = workflow(checkpoint=tmp_path / "c")
    with pytest.raises(Stopped):
        first.serve(tmp_path / "two", answers)
    second = workflow(checkpoint=tmp_path / "c")
    found = second.serve(tmp_path / "three", toward(0.25))
    assert equal(second.shown[0], first.shown[1])
    assert len(second.asked) == 1
    assert equal(found, whole)
    third = workflow(checkpoint=tmp_path / "c")
    assert equal(third.serve(tmp_path / "four", toward(0.25)), whole)
    assert third.asked == []


def test_more_sites_than_the_plan_knows_are_refused_and_nothing_is_charged(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("job", epsilon=90.0, delta=1e-5, measure="gdp")
        made = workflow(ledger=ledger, scope="job")
        with pytest.raises(InvalidParameter, match="num_clients must be at least 5"):
            made.serve(tmp_path / "server", toward(0.5), sites=5)
        assert [ticket.state.value for ticket in ledger.tickets("job")] == ["cancelled"]


def test_an_aborted_job_gives_its_round_back(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("job", epsilon=90.0, delta=1e-5, measure="gdp")
        made = workflow(ledger=ledger, scope="job")

        def answers(site, params, number):
            made.abort_signal.trigger(True)
            return []

        made.serve(tmp_path / "server", answers)
        assert [ticket.state.value for ticket in ledger.tickets("job")] == ["cancelled"]
    assert made.shown == []


def test_an_error_of_the_server_itself_ends_the_round_before_it_is_paid_for(tmp_path, monkeypatch):
    from ferrodp.federated import FederatedRound

    def fails(*args, **options):
        raise MemoryError("no memory")

    monkeypatch.setattr(FederatedRound, "add", fails)
    made = workflow()
    with pytest.raises(MemoryError):
        made.serve(tmp_path / "server", toward(0.5))
    assert made.records == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"noise_multiplier": None}, "noise_multiplier or target_epsilon must be given"),
        ({"ledger": "b.db"}, "add scope='trainings'"),
        ({"ledger": "b.db", "scope": "s", "checkpoint": "c"}, "key must be given"),
        ({"on_exhausted": "abort"}, '"end" or "fail"'),
        ({"num_clients": 0}, "num_clients"),
        ({"timeout": -1}, "timeout"),
        ({"skip": "w"}, "skip must be a sequence"),
        ({"task_name": 3}, "task_name must be a name"),
    ],
)
def test_what_does_not_fit_is_refused(changes, said):
    with pytest.raises(FerroError, match=said):
        workflow(**changes)
