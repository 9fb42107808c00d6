"""Runs that a ledger pays for: charged before a step, stopped by the budget, gone on with after a kill."""

import dataclasses
import json
import os
import random
import signal
import time

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import BudgetExceeded, FerroError, InvalidParameter, TicketError
from ferrodp.events import NeighboringRelation
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    CyclicPoisson,
    FlatClipping,
    GivenOrder,
    PerGroupClipping,
    PiecewiseNoise,
    PlanRun,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
)
from ferrodp.testing import SeededNoiseSource
from ferrodp.tickets import TicketState
from ferrodp.training import SGD, BudgetStop, fit
from support import children

AO, RO, RS = NeighboringRelation
DELTA = 1e-5
TEMPLATE = {"a": (2,), "b": (3,)}


def plan_of(sampling=None, *, relation=AO, steps=8, clipping=None):
    return PrivacyPlan(
        population_size=50,
        sampling=sampling or PoissonSampling(0.5),
        num_steps=steps,
        clipping=clipping or FlatClipping(1.0),
        noise=ConstantNoise(4.0),
        neighboring_relation=relation,
    )


def opened(path, **scope):
    ledger = fd.PrivacyLedger.open(path)
    if scope:
        ledger.create("a", **{"epsilon": 100.0, "delta": DELTA, "measure": "rdp"} | scope)
    return ledger


def ones(step, count=None):
    n = len(step.indices) if count is None else count
    return {"a": np.ones((n, 2)), "b": np.ones((n, 3))}


def states(ledger):
    return [ticket.state for ticket in ledger.tickets("a")]


@pytest.mark.parametrize(
    ("sampling", "relation", "clipping"),
    [
        (PoissonSampling(0.5), AO, FlatClipping(1.0)),
        (PoissonSampling(0.5), RO, FlatClipping(1.0)),
        (PoissonSampling(0.5), AO, PerGroupClipping({"a": 1.0, "b": 2.0})),
        (PoissonSampling(0.5), RO, AdaptiveClipping(1.0)),
        (RandomAllocation(4), AO, FlatClipping(1.0)),
        (RandomAllocation(3), AO, PerGroupClipping({"a": 1.0, "b": 2.0})),
        (CyclicPoisson(0.5, 3), RS, FlatClipping(1.0)),
        (GivenOrder(10, 2), RS, FlatClipping(1.0)),
    ],
    ids=str,
)
def test_the_ledger_is_charged_what_the_plan_costs(tmp_path, sampling, relation, clipping):
    plan = plan_of(sampling, relation=relation, clipping=clipping)
    with opened(tmp_path / "b.db", neighboring_relation=relation) as ledger:
        run = plan.start(TEMPLATE, ledger=ledger, scope="a")
        for step in run:
            reserved = ledger.epsilon_charged("a")
            step.add(ones(step, None if step.indices is not None else 10))
            step.release()
            assert ledger.epsilon_charged("a") == reserved  # charged before it began
        paid = [charge for charge in plan.charges() if charge.event is not None]
        assert states(ledger) == [TicketState.SPENT] * len(plan.charges())  # what costs nothing is on record, too
        other = opened(tmp_path / "other.db", neighboring_relation=relation)
        for charge in paid:
            other.spend("a", charge.event)
        assert ledger.epsilon_charged("a") == other.epsilon_charged("a")
        other.close()


def test_a_run_ends_before_the_step_that_the_budget_does_not_allow(tmp_path):
    plan = plan_of(steps=100)
    with opened(tmp_path / "b.db", epsilon=2.0) as ledger:
        allowed = ledger.remaining_count("a", plan.charges()[0].event)
        assert 2 <= allowed < 100
        with pytest.warns(UserWarning, match=f"^{allowed} of 100 steps fit"):
            run = plan.start(TEMPLATE, ledger=ledger, scope="a")
        done = 0
        for step in run:
            step.add(ones(step))
            step.release()
            done += 1
        assert done == allowed == run.step_number
        assert run.stopped == "budget"
        assert "does not fit into scope 'a'" in run.stop_reason
        assert list(run) == []


def test_a_step_that_is_not_released_is_given_back(tmp_path):
    with opened(tmp_path / "b.db", epsilon=2.0) as ledger:
        with plan_of().start(TEMPLATE, ledger=ledger, scope="a") as run:
            next(run)
            assert states(ledger) == [TicketState.HELD]
        assert states(ledger) == [TicketState.CANCELLED]
        assert ledger.epsilon_charged("a") == 0.0


@pytest.mark.parametrize("sampling", [PoissonSampling(0.5), RandomAllocation(4)])
def test_a_frozen_scope_stops_before_the_next_noise(tmp_path, sampling):
    with opened(tmp_path / "b.db", epsilon=50.0) as ledger:
        run = plan_of(sampling).start(TEMPLATE, ledger=ledger, scope="a")
        step = next(run)
        step.add(ones(step))
        step.release()
        step = next(run)
        step.add(ones(step))
        ledger.freeze("a", reason="review")
        with pytest.raises(BudgetExceeded, match="frozen"):
            step.release()
        ledger.thaw("a", reason="done")
        step.release()
        ledger.freeze("a", reason="again")
        if isinstance(sampling, PoissonSampling):
            assert list(run) == []
            assert run.stopped == "budget"


def test_arguments_that_do_not_fit_are_refused_before_anything_is_charged(tmp_path):
    with opened(tmp_path / "b.db", epsilon=20.0) as ledger:
        plan = plan_of()
        for given in ({"ledger": ledger}, {"scope": "a"}):
            with pytest.raises(InvalidParameter, match="ledger and scope must be given together"):
                plan.start(TEMPLATE, **given)
        with pytest.raises(InvalidParameter, match="key must be None without a ledger"):
            plan.start(TEMPLATE, key="training")
        with pytest.raises(InvalidParameter, match="source must be private"):
            plan.start(TEMPLATE, ledger=ledger, scope="a", source=SeededNoiseSource(bytes(32)))
        with pytest.raises(InvalidParameter):
            plan.start(TEMPLATE, ledger=ledger, scope="b")
        run = plan_of(relation=RO).start(TEMPLATE, ledger=ledger, scope="a")
        with pytest.raises(InvalidParameter, match="scope must have the neighboring_relation REPLACE_ONE"):
            next(run)
        assert ledger.epsilon_charged("a") == 0.0
        plan.start(TEMPLATE, ledger=ledger, scope="a", key="training")
        step = next(plan.start(TEMPLATE, ledger=ledger, scope="a", key="training"))
        step.add(ones(step))
        step.release()
        with pytest.raises(TicketError, match="used for another reservation"):
            plan_of(PoissonSampling(0.25)).start(TEMPLATE, ledger=ledger, scope="a", key="training")


@pytest.mark.parametrize("sampling", [PoissonSampling(0.5), RandomAllocation(3)])
def test_a_training_under_its_key_goes_on_after_what_was_charged(tmp_path, sampling):
    plan = plan_of(sampling)
    with opened(tmp_path / "b.db", epsilon=50.0) as ledger:
        run = plan.start(TEMPLATE, ledger=ledger, scope="a", key="t")
        for step in run:
            step.add(ones(step))
            step.release()
            if step.number == 3:
                break
        state = run.state()
        released = []
        for again in (
            PlanRun.from_state(state, ledger=ledger, scope="a"),
            plan.start(TEMPLATE, ledger=ledger, scope="a", key="t"),
        ):
            for step in again:
                step.add(ones(step))
                step.release()
                released.append(step.number)
            assert again.epsilon(DELTA) == plan.epsilon(DELTA)
        assert released == ([4, 5, 6, 7] if isinstance(sampling, PoissonSampling) else [6, 7])
        left_out = [TicketState.SPENT, TicketState.ARMED, TicketState.SPENT]  # a round that nobody may go on with
        assert states(ledger) == ([TicketState.SPENT] * 8 if isinstance(sampling, PoissonSampling) else left_out)


@pytest.mark.parametrize("measure", ["rdp", "zcdp", "gdp"])
def test_a_step_that_earlier_charges_cover_is_not_released_again(tmp_path, measure):
    """Of a unit that is in two batches the first two steps pay for all; each may be released once all the same."""
    plan = plan_of(GivenOrder(10, 2), relation=RO)
    with opened(tmp_path / "b.db", epsilon=50.0, measure=measure, neighboring_relation=RO) as ledger:
        run = plan.start(TEMPLATE, ledger=ledger, scope="a", key="t")
        before = run.state()
        for step in run:
            step.add(ones(step, 10))
            step.release()
            if step.number == 4:
                break
        charged = ledger.epsilon_charged("a")
        released = []
        for again in (
            PlanRun.from_state(before, ledger=ledger, scope="a"),
            plan.start(TEMPLATE, ledger=ledger, scope="a", key="t"),
            PlanRun.from_state(run.state(), ledger=ledger, scope="a"),
        ):
            for step in again:
                step.add(ones(step, 10))
                step.release()
                released.append(step.number)
            assert again.epsilon(DELTA) == plan.epsilon(DELTA)
        assert released == [5, 6, 7]
        assert ledger.epsilon_charged("a") == charged
        assert states(ledger) == [TicketState.SPENT] * 8


@pytest.mark.parametrize("sampling", [PoissonSampling(0.5), RandomAllocation(3)], ids=str)
@pytest.mark.parametrize("done", [0, 1, 2, 5, 8])
def test_a_run_that_goes_on_knows_from_its_start_how_far_the_training_came(tmp_path, sampling, done):
    plan = plan_of(sampling)
    with opened(tmp_path / "b.db", epsilon=50.0) as ledger:
        run = plan.start(TEMPLATE, ledger=ledger, scope="a", key="t")
        before = run.state()
        for _, step in zip(range(done), run, strict=False):
            step.add(ones(step))
            step.release()
        if done < 8:
            next(run)  # reserved and not released: it begins anew
        length = 1 if isinstance(sampling, PoissonSampling) else 3
        expected = min(-(-done // length) * length, 8)
        for again in (
            plan.start(TEMPLATE, ledger=ledger, scope="a", key="t"),
            PlanRun.from_state(before, ledger=ledger, scope="a"),
        ):
            assert again.step_number == expected
            assert again.epsilon(DELTA) == (plan.epsilon_after(expected, DELTA) if expected else 0.0)


def test_what_stops_at_an_epsilon_stops_there_after_a_restart_too(tmp_path):
    plan = plan_of(steps=20)
    target = plan.epsilon_after(7, DELTA)
    with opened(tmp_path / "b.db", epsilon=50.0) as ledger:
        for expected in (7, 0, 0):
            stop = BudgetStop(epsilon=target, delta=DELTA)
            run = plan.start({"a": (2,), "b": (3,)}, ledger=ledger, scope="a", key="t")
            first = run.step_number
            done = fit(
                run,
                {"a": np.zeros(2), "b": np.zeros(3)},
                lambda parameters, step: ones(step),
                optimizer=SGD(0.1),
                callbacks=[stop],
            )
            assert run.step_number - first == expected
            assert done.epsilon(DELTA) == target
        assert len(states(ledger)) == 7


def test_a_step_that_earlier_charges_cover_stops_at_a_frozen_scope(tmp_path):
    with opened(tmp_path / "b.db", epsilon=50.0, neighboring_relation=RO) as ledger:
        run = plan_of(GivenOrder(10, 1), relation=RO).start(TEMPLATE, ledger=ledger, scope="a")
        step = next(run)
        step.add(ones(step, 10))
        step.release()
        step = next(run)
        ledger.freeze("a", reason="review")
        with pytest.raises(BudgetExceeded, match="frozen"):
            step.release()
        ledger.thaw("a", reason="done")
        step.release()


def _train(path, diary, delay):
    """Train until the end; write a line for each release before the model would be updated."""
    with fd.PrivacyLedger.open(path) as ledger, children.diary(diary) as wrote:
        run = plan_of(steps=12).start(TEMPLATE, ledger=ledger, scope="a", key="t")
        for step in run:
            time.sleep(delay)
            step.add(ones(step))
            step.release()
            wrote(step.number)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_a_training_never_exceeds_its_budget(tmp_path, seed):
    """20 kills in all; each seed kills 7 times at random moments of up to twice a step."""
    path, diary = tmp_path / "b.db", tmp_path / "diary"
    plan = plan_of(steps=12)
    with opened(path, epsilon=1e3) as ledger:
        for charge in plan.charges():
            ledger.spend("a", charge.event)
        budget = ledger.epsilon_charged("a")
    path = tmp_path / "real.db"
    opened(path, epsilon=1.0001 * budget).close()
    draw = random.Random(seed)
    for _ in range(7):
        child = children.start(_train, path, diary, 0.004)
        time.sleep(draw.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        children.end_of(child)
    assert children.run(_train, path, diary, 0.0) == 0

    with fd.PrivacyLedger.open(path) as ledger:
        tickets = ledger.tickets("a")
        assert ledger.epsilon_charged("a") <= 1.0001 * budget
        charged = [ticket for ticket in tickets if ticket.state in (TicketState.ARMED, TicketState.SPENT)]
        assert len(charged) == 12
        assert not [ticket for ticket in tickets if ticket.state is TicketState.HELD]
    written = [int(line) for line in diary.read_text().split()]
    assert written == sorted(set(written))
    assert len(written) <= 12


def test_two_processes_with_one_key_release_each_step_once(tmp_path):
    path = tmp_path / "b.db"
    opened(path, epsilon=1e3).close()
    workers = [children.start(_train, path, tmp_path / f"diary{i}", 0.001) for i in range(2)]
    for worker in workers:
        children.end_of(worker)
    written = [int(line) for i in range(2) for line in (tmp_path / f"diary{i}").read_text().split()]

    assert len(written) == len(set(written)) <= 12


def test_a_release_that_fails_after_its_charge_is_not_repeated(tmp_path, monkeypatch):
    with opened(tmp_path / "b.db", epsilon=50.0) as ledger:
        run = plan_of(clipping=PerGroupClipping({"a": 1.0, "b": 1.0})).start(TEMPLATE, ledger=ledger, scope="a")
        step = next(run)
        step.add(ones(step))
        monkeypatch.setattr("ferrodp.plan._sums.release_flat", _fails)
        with pytest.raises(FerroError, match="broken"):
            step.release()
        monkeypatch.undo()
        with pytest.raises(FerroError, match="step 0 was released"):
            step.release()
        assert run.epsilon(DELTA) == plan_of().epsilon_after(1, DELTA)
        assert next(run).number == 1


@pytest.mark.parametrize("most", [None, 2, 4])
def test_a_given_order_with_decaying_noise_is_paid_for_to_its_end(tmp_path, most):
    """The least noise of all steps is charged first, and the most last, whatever noise a step has."""
    noise = PiecewiseNoise((4.0, 3.0, 2.0, 1.0), boundaries=(1, 2, 3))
    plan = dataclasses.replace(plan_of(GivenOrder(10, most), relation=RS, steps=4), noise=noise)
    with opened(tmp_path / "b.db", neighboring_relation=RS) as ledger:
        run = plan.start(TEMPLATE, ledger=ledger, scope="a")
        for step in run:
            step.add(ones(step, 10))
            step.release()
            spent = [ticket for ticket in ledger.tickets("a") if ticket.state is TicketState.SPENT]
            assert len(spent) == step.number + 1
        assert run.step_number == 4
        other = opened(tmp_path / "other.db", neighboring_relation=RS)
        for multiplier in sorted(plan.noise_multipliers)[:most]:
            other.spend("a", fd.events.GaussianEvent(noise_multiplier=multiplier))
        assert ledger.epsilon_charged("a") == other.epsilon_charged("a")
        other.close()


@pytest.mark.parametrize(
    ("sampling", "clipping"),
    [(PoissonSampling(0.5), PerGroupClipping({"a": 1.0, "b": 1.0})), (RandomAllocation(4), FlatClipping(1.0))],
)
def test_a_charge_whose_record_failed_pays_for_nothing(tmp_path, monkeypatch, sampling, clipping):
    """Neither again by the same step, nor by the next one of its round: whether it was written is not known."""
    plan = plan_of(sampling, clipping=clipping)
    with opened(tmp_path / "b.db", epsilon=50.0) as ledger:
        run = plan.start(TEMPLATE, ledger=ledger, scope="a", key="training")
        step = next(run)
        step.add(ones(step))
        monkeypatch.setattr(fd.tickets.Ticket, "_arm_in", _lost)
        with pytest.raises(OSError, match="disk is full"):
            step.release()
        monkeypatch.undo()
        assert states(ledger) == [TicketState.HELD]
        for _ in range(2):
            with pytest.raises(TicketError, match="was used"):
                step.release()
        assert run.epsilon(DELTA) == 0.0
        run.close()

        again = plan.start(TEMPLATE, ledger=ledger, scope="a", key="training")
        step = next(again)  # nothing was released for this charge
        assert step.number == 0
        step.add(ones(step))
        step.release()
        assert states(ledger)[0] in (TicketState.ARMED, TicketState.SPENT)


def _lost(*_):
    raise OSError("the disk is full")


def _fails(*_, **__):
    raise FerroError("broken")


def test_the_state_of_a_run_names_no_number_that_is_private(tmp_path):
    run = plan_of().start(TEMPLATE)
    step = next(run)
    step.add(ones(step))
    before = json.loads(run.state())
    step.release()
    after = json.loads(run.state())

    assert {name for name in after if after[name] != before[name]} == {"next_step", "charged"}
