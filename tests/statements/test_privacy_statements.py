"""Privacy statements: their numbers are those of accountants and ledgers, and nothing in them is private."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ferrodp as fd
from ferrodp import plan
from ferrodp._base import _html
from ferrodp.accounting import PldAccountant
from ferrodp.accounting.reports import membership_advantage
from ferrodp.cli import main
from ferrodp.events import GaussianEvent, NeighboringRelation, PrivacyEvent, SelfComposedEvent

EVENT = GaussianEvent(noise_multiplier=4.0)
PLAN = fd.PrivacyPlan(
    sampling=plan.PoissonSampling(0.01),
    clipping=plan.FlatClipping(1.0),
    noise=plan.ConstantNoise(1.0),
    num_steps=100,
    unit="client",
)


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with fd.PrivacyLedger.open(tmp_path / "budget.db", program="SECRET-program") as ledger:
        ledger.create("hospital", epsilon=4.0, delta=1e-6, highest_epsilon=5.0)
        for number in range(3):
            ledger.spend("hospital", EVENT, key=f"SECRET-key-{number}")
        ledger.reserve("hospital", EVENT, key="SECRET-key-held").cancel()
        ledger.raise_cap("hospital", epsilon=4.5, reason="SECRET-reason")
        yield ledger


def test_the_bounds_of_a_plan_are_those_of_its_accountant() -> None:
    found = fd.statement(PLAN, delta=1e-6)
    bounds = PLAN.epsilon_bounds(1e-6)

    assert (found.guarantee["epsilon_at_least"], found.guarantee["epsilon"]) == (bounds.lower, bounds.upper)
    assert [each["epsilon"] for each in found.curve] == [PLAN.epsilon(each["delta"]) for each in found.curve]
    assert found.protected["unit"] == "client"
    assert [each["times"] for each in found.released] == [100]
    assert "sampling probability 0.01" in found.released[0]["parameters"]


def test_a_scope_states_its_promise_and_what_was_charged(ledger: Any) -> None:
    found = fd.statement(ledger, "hospital", unit="patient")
    spent = PldAccountant()
    spent.compose(EVENT, 3)  # the cancelled one released nothing

    assert (found.guarantee["epsilon"], found.guarantee["budget_epsilon"]) == (5.0, 4.5)  # the highest is the promise
    assert found.guarantee["epsilon_charged"] == ledger.report("hospital").epsilon_charged
    assert found.guarantee["epsilon_at_any_time"] == ledger.odometer("hospital").epsilon
    assert found.guarantee["epsilon_of_charges_at_least"] == spent.epsilon_bounds(1e-6).lower
    assert [(each["event"], each["times"]) for each in found.released] == [("gaussian", 3)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.released[0][name]) for name in ("first", "last"))
    assert found.versions["ledger_head"] == str(ledger.head)


def test_a_scope_raised_beyond_what_was_declared_says_so(tmp_path: Path) -> None:
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("a", epsilon=1.0, delta=1e-6)
        assert fd.statement(ledger, "a").guarantee["holds"].startswith("for all that is charged")
        ledger.raise_cap("a", epsilon=2.0, reason="x")
        found = fd.statement(ledger, "a").guarantee

    assert (found["epsilon"], found["holds"][:7]) == (2.0, "only if")


def test_nothing_in_a_statement_is_private(ledger: Any, tmp_path: Path) -> None:
    found = fd.statement(ledger, "hospital")
    for text in (found.to_markdown(), found.to_html(), found.to_json()):
        assert "SECRET" not in text
        assert str(tmp_path) not in text
        for record in ledger.history():
            who = record.get("who", {})
            assert not [each for each in (who.get("program"), str(who.get("pid"))) if each and f'"{each}"' in text]


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_what_an_attacker_gains_is_never_understated(relation: NeighboringRelation) -> None:
    spent = PldAccountant(neighboring_relation=relation)
    spent.compose(EVENT)
    guess, _, advantage = fd.statement(EVENT, delta=1e-6, neighboring_relation=relation).attackers
    right = re.search(r"at most (\S+) times", guess)
    gained = re.search(r": (\S+)\.$", advantage)

    assert right is not None
    assert gained is not None
    exact = membership_advantage(spent)
    assert 50.0 + 50.0 * exact <= float(right[1]) <= 50.0 + 50.0 * exact + 0.11
    assert exact <= float(gained[1]) <= exact * 1.01


def test_every_form_holds_the_same_and_escapes_what_is_given() -> None:
    found = fd.statement(PLAN, delta=1e-6, details={"curator": "A <b>|hospital|</b>"})

    assert json.loads(found.to_json()) == found.to_dict()
    assert "<b>" not in found.to_html()
    assert "| curator | A \\<b\\>\\|hospital\\|\\</b\\> |" in found.to_markdown()
    for value in (_html.at_most(found.guarantee["epsilon"]), *found.assumptions):
        assert value in found.to_html().replace("&#x27;", "'")
        assert value in found.to_markdown()


def test_a_statement_begins_with_its_guarantee_in_one_sentence() -> None:
    found = fd.statement(PLAN, delta=1e-6, unit="patient")
    bound = re.escape(_html.at_most(found.guarantee["epsilon"]))

    assert float(_html.at_most(found.guarantee["epsilon"])) >= found.guarantee["epsilon"]
    assert re.search(
        f"for one patient, with epsilon at most {bound} at delta = 10⁻⁶\\.", found.to_markdown().split("## ")[0]
    )


def test_people_read_bounds_rounded_to_their_own_side() -> None:
    found = fd.statement(PLAN, delta=1e-6)
    rows = dict(re.findall(r"^\| (exact epsilon, at least|epsilon, at most) \| (\S+) \|$", found.to_markdown(), re.M))

    assert float(rows["exact epsilon, at least"]) <= found.guarantee["epsilon_at_least"]
    assert found.guarantee["epsilon"] <= float(rows["epsilon, at most"])
    assert len(rows["epsilon, at most"]) <= len("0.123456")


def test_long_plans_are_listed_in_part_and_counted_in_full() -> None:
    decayed = fd.PrivacyPlan(
        sampling=plan.FullBatch(),
        clipping=plan.FlatClipping(1.0),
        noise=plan.ExponentialDecay(50.0, rate=0.001),
        num_steps=150,
    )
    found = fd.statement(decayed, delta=1e-6)

    assert len(found.released) == 101
    assert sum(each["times"] for each in found.released) == 150


def test_a_composed_event_is_listed_by_its_parts() -> None:
    event: PrivacyEvent = SelfComposedEvent(event=EVENT, count=7)

    assert [each["times"] for each in fd.statement(event, delta=1e-6).released] == [7]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ledger: fd.statement(PLAN), "delta must be given"),
        (lambda ledger: fd.statement(PLAN, "hospital", delta=1e-6), "scope must be that of a ledger, got 'hospital'"),
        (lambda ledger: fd.statement(ledger), "scope must be given with a ledger, got None; it has 'hospital'"),
        (lambda ledger: fd.statement(ledger, "hospital", delta=1e-6), "delta must be left out"),
        (lambda ledger: fd.statement(ledger, "hospitals"), "did you mean 'hospital'"),
        (lambda ledger: fd.statement("budget.db", delta=1e-6), "subject must be a plan, a ledger, a mechanism or an"),
    ],
)
def test_what_cannot_be_stated_is_refused(ledger: Any, call: Any, message: str) -> None:
    with pytest.raises(fd.errors.FerroError, match=message):
        call(ledger)


def test_the_command_writes_each_form(
    ledger: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(PLAN.to_json())
    found = fd.statement(ledger, "hospital", unit="patient", details={"curator": "A hospital"})
    options = ["--ledger", "budget.db", "--scope", "hospital", "--unit", "patient", "--detail", "curator=A hospital"]
    for suffix, text in ((".md", found.to_markdown()), (".html", found.to_html()), (".json", found.to_json())):
        assert main(["statement", *options, "-o", f"out{suffix}"]) == 0
        assert Path(f"out{suffix}").read_text() == text
    assert main(["statement", *options, "-o", "out.pdf"]) == 4
    assert main(["statement", "plan.json", "--ledger", "budget.db"]) == 4
    capsys.readouterr()

    assert main(["statement", "plan.json", "--delta", "1e-6"]) == 0
    assert capsys.readouterr().out == fd.statement(PLAN, delta=1e-6).to_markdown()
    assert main(["statement", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statement"] == found.to_dict()
