"""What was stored by an earlier version opens, and answers as it did: see `make.py` for how the files came about."""

import base64
import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest

import ferrodp as fd
import ferrodp.events
from ferrodp import accounting as ac
from ferrodp.budget import import_ledger
from ferrodp.engine import DPConfig
from ferrodp.errors import BudgetExceeded, KeyUsed
from ferrodp.events import EpsilonDeltaEvent, GaussianEvent, PoissonSampledEvent, PrivacyEvent

FOLDER = Path(__file__).parent


def stored(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


@pytest.mark.parametrize("case", stored("events"), ids=lambda case: case["repr"])
def test_an_event_is_read_and_written_as_it_was(case):
    event = PrivacyEvent.from_dict(case["event"])

    assert case["event"] == event.to_dict()
    assert case["repr"] == repr(event)


def test_an_event_of_every_kind_was_stored():
    kinds = {case["event"]["type"] for case in stored("events")}

    known = {getattr(each, "kind", "") for each in vars(ferrodp.events).values() if isinstance(each, type)}
    assert kinds == known - {""}


def test_a_sample_that_does_not_say_what_a_missing_record_changes_is_read_as_the_worst():
    """As the first version wrote it."""
    written = {"sampling_probability": 0.1, "type": "poisson_sampled", "version": 1}

    event = PrivacyEvent.from_dict(written | {"event": {"noise_multiplier": 2.0, "type": "gaussian"}})

    assert event == PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=2.0))
    assert event.null_distance == math.inf


@pytest.mark.parametrize("name", stored("accountants"))
def test_an_accountant_is_restored_with_its_settings_and_answers(name):
    case = stored("accountants")[name]
    state = case["state"]
    kind = getattr(ac, case["class"])

    restored = kind.from_state_dict(state)

    assert state == restored.state_dict()
    for quantity, at in (("epsilon", 1e-5), ("delta", 2.0)):
        # Rounding and numerics may get better; the curves that are composed are those of theorems.
        assert getattr(restored, quantity)(at) == pytest.approx(case[quantity], rel=1e-6)


@pytest.mark.parametrize("case", stored("filters"), ids=lambda case: case["class"])
def test_a_filter_goes_on_where_it_was(case):
    restored = getattr(ac.filters, case["class"]).from_state_dict(case["state"])

    assert case["state"] == restored.state_dict()
    if case["class"] == "Odometer":
        assert (case["epsilon"], case["rho"]) == (restored.epsilon, restored.rho)
        return
    event = PrivacyEvent.from_dict(case["event"])
    assert (case["spent"], case["remaining"]) == (restored.spent, restored.remaining_count(event))
    restored.charge(event, case["remaining"])
    with pytest.raises(BudgetExceeded):
        restored.charge(event)


@pytest.mark.parametrize("case", [*stored("sums"), *stored("second_sums")], ids=lambda case: str(case["count"]))
def test_a_sum_has_its_rows_and_the_noise_of_its_seed(case):
    total = fd.ClippedSum.from_state(base64.b64decode(case["state"]))

    assert base64.b64decode(case["state"]) == total.state()
    assert (case["count"], case["clip_norm"]) == (total.count, total.clip_norm)
    assert case.get("stability") == total.stability
    assert "within_bound" not in case or case["within_bound"] == total.within_bound
    released = total.release(noise_multiplier=0.5, source=fd.testing.seeded(bytes(range(32))))
    assert case["released"] == [leaf.ravel().tolist() for leaf in leaves(released)]


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in leaves(tree[name])]
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, list) else [tree]


@pytest.mark.parametrize("case", stored("settings"), ids=lambda case: case["accounting"])
def test_settings_of_an_engine_are_those_of_that_time(case):
    config = DPConfig(**case)

    assert case == json.loads(json.dumps(dataclasses.asdict(config)))


@pytest.fixture(params=["file", "log"])
def ledger(request, tmp_path):
    """The ledger as a file, and the one that its exported log makes."""
    path = tmp_path / "ledger.db"
    if request.param == "file":
        shutil.copy(FOLDER / "ledger.db", path)
    else:
        import_ledger(FOLDER / "ledger.jsonl", path, reason="kept since 0.1.0")
    with fd.PrivacyLedger.open(path) as opened:
        yield opened


def test_a_ledger_says_what_it_said(ledger):
    expected = stored("ledger")

    assert list(expected["reports"]) == list(ledger.scopes)
    for name, fields in expected["reports"].items():
        report = ledger.report(name)
        found = {field: plain(getattr(report, field)) for field in fields if field != "odometer"}
        assert fields == found | {"odometer": ledger.odometer(name).epsilon}
    tickets = [[each.id, each.key, each.state.value, each.count] for each in ledger.tickets()]
    assert expected["tickets"] == tickets
    assert ledger.verify() == ledger.head


def plain(value):
    value = getattr(value, "value", value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def test_a_ledger_goes_on_where_it_was(ledger):
    eighth = EpsilonDeltaEvent(epsilon=0.125)
    charged = ledger.report("survey").exact_epsilon_charged

    for key in ("week-1", "armed"):
        with pytest.raises(KeyUsed):
            ledger.spend("survey", eighth, key=key)
    with ledger.reserve("survey", eighth, key="held") as ticket:
        assert not ticket.is_new
        ticket.arm()
    ledger.spend("survey", eighth, key="week-2")

    assert ledger.report("survey").exact_epsilon_charged - charged == eighth.epsilon
    with pytest.raises(BudgetExceeded, match="frozen"):
        ledger.spend("clinic", GaussianEvent(noise_multiplier=20.0))
    assert ledger.verify() == ledger.head


def test_a_file_keeps_its_head_and_a_log_begins_with_the_same_records(tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copy(FOLDER / "ledger.db", path)

    with fd.PrivacyLedger.open(path, witness=stored("ledger")["head"]) as ledger:
        assert stored("ledger")["head"] == str(ledger.head)
        assert (FOLDER / "ledger.jsonl").read_text().splitlines() == list(ledger.export())


@pytest.mark.parametrize("case", stored("plans"), ids=lambda case: json.loads(case["plan"])["sampling"]["type"])
def test_a_plan_and_a_run_go_on_as_they_were_stored(case):
    plan = fd.PrivacyPlan.from_json(case["plan"])
    run = fd.plan.PlanRun.from_state(case["state"].encode())

    assert plan.to_json() == case["plan"]
    assert plan.epsilon(1e-5) <= case["epsilon"] * (1 + 1e-9)
    assert run.plan == plan
    assert run.epsilon(1e-5) <= case["spent"] * (1 + 1e-9)
    assert next(run).number == (3 if case["plan"].count("random_allocation") else 2)


def test_a_plan_with_every_kind_of_part_was_stored():
    kinds = {
        json.loads(case["plan"])[part]["type"] for case in stored("plans") for part in ("sampling", "clipping", "noise")
    }

    known = {getattr(each, "kind", "") for each in vars(fd.plan).values() if isinstance(each, type)}
    assert kinds == known - {""}
