"""Plans that a ledger charges as one (ε, δ): all of their steps are run, once, whatever dies in between."""

import json

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import BudgetExceeded, FerroError, InvalidParameter, TicketError, UnsupportedEventError
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    CosineDecay,
    FlatClipping,
    FullBatch,
    PlanRun,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
)

DELTA = 1e-5


def plan_of(size=100, probability=0.5, steps=6, epsilon=8.0, *, delta=DELTA, **parts):
    made = {
        "population_size": size,
        "sampling": PoissonSampling(probability),
        "num_steps": steps,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(1.0),
    }
    return PrivacyPlan(**made | parts).calibrated(epsilon=epsilon, delta=delta)


@pytest.fixture
def ledger(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as opened:
        opened.create("plans", epsilon=8.0, delta=DELTA, measure="pure")
        yield opened


def paid(ledger, key="k", scope="plans"):
    return {"ledger": ledger, "scope": scope, "key": key, "plan_delta": DELTA}


def take(run, count=None):
    """Release steps; return their numbers."""
    numbers = []
    while count is None or len(numbers) < count:
        step = next(run, None)
        if step is None:
            break
        step.add(np.zeros((len(step.indices), 2)))
        step.release()
        numbers.append(step.number)
    return numbers


def plan_ticket(ledger):
    (found,) = [each for each in ledger.tickets() if each.key == "k/plan"]
    return found


# A budget equal to what the plan was calibrated to: all steps, and one epsilon

ROWS = {
    "100 clients, half of them, 30 rounds": (100, 0.5, 30, 8.0, 23),
    "20 clients, half of them, 5 rounds": (20, 0.5, 5, 8.0, 4),
    "1437 records, 60 steps, epsilon 4": (1437, 0.3, 60, 4.0, 40),
    "1437 records, 60 steps, epsilon 2": (1437, 0.3, 60, 2.0, 41),
    "1000 records, 100 steps, epsilon 1": (1000, 0.1, 100, 1.0, 79),
    "60000 records, 5000 steps, epsilon 3": (60_000, 0.01, 5000, 3.0, 4205),
}
MORE = {8.0: 8.5, 4.0: 4.0, 2.0: 2.0, 1.0: 1.1, 3.0: 3.3}
"""Budgets of Rényi scopes in which the plans above end early."""


@pytest.mark.parametrize("row", ROWS)
def test_a_budget_of_the_plans_epsilon_runs_all_of_its_steps(tmp_path, row):
    size, probability, steps, epsilon, fit = ROWS[row]
    plan = plan_of(size, probability, steps, epsilon)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("plans", epsilon=epsilon, delta=DELTA, measure="pure")
        ledger.create("steps", epsilon=9.6 if size == 20 else MORE[epsilon], delta=DELTA)

        with pytest.warns(UserWarning, match=f"^{fit} of {steps} steps fit into the budget") as told:
            plan.start(np.zeros(2), ledger=ledger, scope="steps")
        run = plan.start(np.zeros(2), **paid(ledger))
        charged = ledger.report("plans").epsilon_charged
        if steps <= 60:
            assert take(run) == list(range(steps))
            assert run.stopped == "finished"
            assert run.epsilon(DELTA) == charged

        assert told[0].filename == __file__
        assert charged == plan.epsilon(DELTA) == ledger.report("plans").epsilon_charged
        assert 0.999 * epsilon < charged <= epsilon


KINDS = {
    "adaptive clipping": {"clipping": AdaptiveClipping(1.0, count_noise_multiplier=20.0)},
    "a schedule": {"noise": CosineDecay(2.0, 1.0)},
    "allocation": {"sampling": RandomAllocation(3)},
    "all records": {"sampling": FullBatch()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_plan_is_charged_at_its_own_price(ledger, kind):
    plan = plan_of(**KINDS[kind])
    run = plan.start(np.zeros(2), **paid(ledger))

    assert take(run, 4) == [0, 1, 2, 3]
    again = plan.start(np.zeros(2), **paid(ledger))
    assert take(again) == ([] if kind == "allocation" else [4, 5])  # who is in the rest of an allocation is not kept
    assert ledger.report("plans").epsilon_charged == plan.epsilon(DELTA)


# Charged once, released once


def test_a_training_that_died_goes_on_for_nothing_and_repeats_no_step(ledger):
    plan = plan_of()
    first = plan.start(np.zeros(2), **paid(ledger))
    assert take(first, 2) == [0, 1]
    state = first.state()
    assert take(first, 1) == [2]
    dying = next(first)  # handed out, and never released

    second = plan.start(np.zeros(2), **paid(ledger))
    assert take(second, 1) == [3]  # its record was held: it had not begun
    dying.add(np.zeros((len(dying.indices), 2)))
    with pytest.raises(TicketError):
        dying.release()
    third = PlanRun.from_state(state, ledger=ledger, scope="plans")
    assert take(third) == [4, 5]
    assert take(plan.start(np.zeros(2), **paid(ledger))) == []
    report = ledger.report("plans")
    assert (report.epsilon_charged, report.held) == (plan.epsilon(DELTA), 0)


def test_two_runs_under_one_key_are_charged_once_and_share_the_steps(ledger):
    plan = plan_of()
    one, other = (plan.start(np.zeros(2), **paid(ledger)) for _ in range(2))

    assert take(one, 1) == [0]  # spends the charge that both hold
    assert take(other, 2) == [1, 2]
    assert take(one) == [3, 4, 5]
    assert take(other) == []
    assert ledger.report("plans").epsilon_charged == plan.epsilon(DELTA)


def test_the_charge_is_given_back_until_a_step_begins_and_never_afterwards(ledger):
    plan = plan_of()
    with plan.start(np.zeros(2), **paid(ledger)) as run:
        next(run)
        assert ledger.report("plans").epsilon_charged == plan.epsilon(DELTA)
    assert ledger.report("plans").epsilon_charged == 0.0

    with plan.start(np.zeros(2), **paid(ledger)) as run:
        take(run, 1)
        with pytest.raises(TicketError):
            ledger.cancel_ticket(plan_ticket(ledger).id, reason="looks unused")
    assert ledger.report("plans").epsilon_charged == plan.epsilon(DELTA)


def test_a_charge_that_an_operator_gave_back_pays_for_no_step(ledger):
    plan = plan_of()
    run = plan.start(np.zeros(2), **paid(ledger))
    step = next(run)
    step.add(np.zeros((len(step.indices), 2)))
    ledger.cancel_ticket(plan_ticket(ledger).id, reason="its process seemed dead")

    with pytest.raises(TicketError):
        step.release()
    assert ledger.report("plans").epsilon_charged == 0.0
    with plan.start(np.zeros(2), **paid(ledger)) as run:  # which charges it again
        assert take(run) == list(range(6))


def test_a_charge_whose_record_failed_pays_for_no_step(ledger, monkeypatch):
    plan = plan_of()
    run = plan.start(np.zeros(2), **paid(ledger))
    step = next(run)
    step.add(np.zeros((len(step.indices), 2)))
    book = ledger._book
    monkeypatch.setattr(type(book), "arm", lambda *_: (_ for _ in ()).throw(fd.errors.LedgerError("unknown")))
    with pytest.raises(fd.errors.LedgerError):
        step.release()
    monkeypatch.undo()

    with pytest.raises(FerroError, match="the charge of the plan was not recorded"):
        step.release()


# What is refused, before anything is charged


def test_a_plan_that_does_not_fit_is_refused_with_its_price(ledger):
    plan_of(epsilon=5.0).start(np.zeros(2), **paid(ledger, "first"))

    plan = plan_of(epsilon=4.0)
    with pytest.raises(BudgetExceeded, match=f"the plan costs epsilon {plan.epsilon(DELTA)!r} at delta 1e-05"):
        plan.start(np.zeros(2), **paid(ledger))
    assert ledger.report("plans").held == 1


def test_scopes_that_take_no_stated_delta_are_named(ledger):
    ledger.create("steps", epsilon=8.0, delta=DELTA)
    with pytest.raises(InvalidParameter, match="plan_delta must be left out unless the scope has the measure 'pure'"):
        plan_of().start(np.zeros(2), **paid(ledger, scope="steps"))
    with pytest.raises(UnsupportedEventError, match="takes the plan as one charge: plan_delta"):
        plan_of().start(np.zeros(2), ledger=ledger, scope="plans")


def test_a_key_names_one_way_to_pay(ledger):
    take(plan_of().start(np.zeros(2), **paid(ledger)), 1)

    with pytest.raises(TicketError, match="was used for another"):
        plan_of(epsilon=3.0).start(np.zeros(2), **paid(ledger))
    with pytest.raises(TicketError, match="was used for another"):
        plan_of().start(np.zeros(2), **paid(ledger) | {"plan_delta": 1e-6})


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1e-5, float("nan")])
def test_plan_delta_is_a_probability_and_needs_a_ledger(ledger, wrong):
    with pytest.raises(InvalidParameter, match="plan_delta"):
        plan_of().start(np.zeros(2), **paid(ledger) | {"plan_delta": wrong})
    with pytest.raises(InvalidParameter, match="plan_delta must be None without a ledger"):
        plan_of().start(np.zeros(2), plan_delta=DELTA)


def test_a_state_keeps_the_way_to_pay_and_is_checked(ledger):
    run = plan_of().start(np.zeros(2), **paid(ledger))
    take(run, 1)
    plain = json.loads(run.state())

    assert float.fromhex(plain["plan_delta"]) == DELTA
    for wrong in ("0x0p0", "0x1p0", "none", 7):
        with pytest.raises(InvalidParameter):
            PlanRun.from_state(json.dumps(plain | {"plan_delta": wrong}).encode(), ledger=ledger, scope="plans")


# Steps that are charged one by one


def test_the_warning_counts_from_where_a_run_goes_on_and_with_schedules(ledger):
    ledger.create("steps", epsilon=8.0, delta=DELTA)
    plan = plan_of(steps=12, noise=CosineDecay(2.0, 1.0))
    where = {"ledger": ledger, "scope": "steps", "key": "k"}

    with pytest.warns(UserWarning, match="of 12 steps fit") as told:
        run = plan.start(np.zeros(2), **where)
    fit = int(str(told[0].message).split()[0])
    assert take(run, 3) == [0, 1, 2]
    with pytest.warns(UserWarning, match=f"^{fit - 3} of 9 steps fit"):
        run = plan.start(np.zeros(2), **where)
    next(run)  # reserved, and its process dies
    with pytest.warns(UserWarning, match=f"^{fit - 3} of 9 steps fit"):
        run = plan.start(np.zeros(2), **where)
    assert take(run) == list(range(3, fit))
    assert run.stopped == "budget"
