"""What plans, rounds, engines, searches, counters and answers were charged for, as whoever answers for it reads it."""

import contextlib
import json

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, GaussianDifferentialPrivacy
from ferrodp.engine.sampling import Sampling
from ferrodp.errors import InvalidType, TicketError
from ferrodp.events import ComposedEvent, GaussianEvent, NeighboringRelation
from ferrodp.federated import DistributedPlacement, FederatedRun, LocalNoise, LocalPlacement, PlacedRun
from ferrodp.mechanisms import HadamardResponse, RandomizedResponse, SubsetResponse, UnaryResponse, VectorResponse
from ferrodp.plan import (
    AdaptiveClipping,
    AutomaticClipping,
    ConstantNoise,
    FlatClipping,
    FullBatch,
    GivenOrder,
    L1Clipping,
    PerGroupClipping,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
)
from ferrodp.plan.payments import Words
from ferrodp.tickets import ReleasedStatistic, TicketState, describing
from ferrodp.training.selection import select

AO, RO, RS = NeighboringRelation
NORM = "L2 norm of each vector at most 0.5"


@pytest.fixture
def ledger(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as opened:
        yield opened


def scope(ledger, relation=AO, measure="rdp", **caps):
    ledger.create("clinic", neighboring_relation=relation, measure=measure, **{"epsilon": 1e4, "delta": 1e-2} | caps)
    return {"ledger": ledger, "scope": "clinic"}


def plan_of(sampling=None, *, steps=4, relation=AO, clipping=None, **more):
    return PrivacyPlan(
        population_size=20,
        sampling=sampling or PoissonSampling(0.5),
        num_steps=steps,
        clipping=clipping or FlatClipping(0.5),
        noise=ConstantNoise(4.0),
        neighboring_relation=relation,
        **more,
    )


def add(step):
    size = 0 if step.indices is None else len(step.indices)
    step.add({"w": np.ones((size, 2))})


def ran(plan, **pays):
    run = plan.start({"w": (2,)}, **pays)
    for step in run:
        add(step)
        step.release()
    run.close()


def said(ledger):
    return [str(words) for each in ledger.releases() for words in each.statistics]


def bodies(ledger):
    return [json.loads(json.loads(line)["record"]) for line in list(ledger.export())[1:]]


UNITS = {
    AO: "one record, added or removed",
    RO: "one record, replaced by another",
    RS: "one record, replaced by a null record",
}


@pytest.mark.parametrize("relation", UNITS)
def test_each_step_says_what_it_is_in_the_record_of_its_charge(ledger, relation):
    sampling = FullBatch() if relation is RS else PoissonSampling(0.5)
    ran(plan_of(sampling, relation=relation), **scope(ledger, relation))

    words = ReleasedStatistic(statistic="training, 1 of 4 steps", bounds=NORM, unit=UNITS[relation])
    assert [each.statistics for each in ledger.releases()] == [(words,)] * 4
    written = [body["kind"] for body in bodies(ledger) if "statistics" in body]
    assert written == ["reserve"] * 4  # and not again in the records that arm them
    assert ledger.verify() == ledger.head


def test_a_charge_says_how_many_steps_it_covers(ledger):
    ran(plan_of(RandomAllocation(2)), **scope(ledger))
    assert {each.statistics[0].statistic for each in ledger.releases()} == {"training, 2 of 4 steps"}


def test_steps_that_another_charge_covers_say_so(ledger):
    """Steps of a plan that was charged as one, and participations beyond those that cost."""
    ran(plan_of(), plan_delta=1e-6, key="t", **scope(ledger, measure="pure"))
    whole, *steps = [each.statistics[0].statistic for each in ledger.releases()]
    assert whole == "training, 4 steps"
    assert steps == ["training, 1 of 4 steps, paid for by another charge"] * 4


def test_rows_of_a_given_order_that_cost_nothing_say_so(ledger):
    ran(plan_of(GivenOrder(10, 2), relation=RS), **scope(ledger, RS))
    found = [(each.event == ComposedEvent(events=()), each.statistics[0].statistic) for each in ledger.releases()]
    free = ", paid for by another charge"
    assert all(("paid for" in words) is is_free for is_free, words in found)
    assert {words for _, words in found} == {"training, 1 of 4 steps", f"training, 1 of 4 steps{free}"}


@pytest.mark.parametrize(
    ("clipping", "bounds"),
    [
        (FlatClipping(0.5), NORM),
        (L1Clipping(0.5), "L1 norm of each vector at most 0.5"),
        (AutomaticClipping(clip_norm=2.0), "L2 norm of each vector at most 2"),
        (PerGroupClipping({"a": 3.0, "b": 4.0}), "L2 norm of each vector at most 5"),
        (AdaptiveClipping(0.5), NORM + " at first, adapted privately"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_words_of_a_plan_have_its_clip_norm(clipping, bounds):
    assert Words.of(plan_of(clipping=clipping)).whole().bounds == bounds


def test_words_of_a_plan_say_who_shares_a_vector():
    words = Words.of(plan_of(records_per_group=3, steps=1)).part(1, is_free=False)
    assert (
        str(words)
        == f"training, 1 of 1 step, bounds {NORM}, unit: one record, of up to 3 that share a vector, added or removed"
    )


def test_what_a_caller_says_takes_the_place_of_words_of_a_plan(ledger):
    with describing(column="scans", unit="one patient"):
        ran(plan_of(steps=1), **scope(ledger))
    assert said(ledger) == [f"training, 1 of 1 step, column scans, bounds {NORM}, unit: one patient"]


def unsaid(ledger, plan, key, **more):
    """Reserve the first charges of a plan as earlier versions did: without words."""
    for place, charge in enumerate(plan.charges()[:2]):
        event = ComposedEvent(events=()) if more else charge.event
        ledger.reserve("clinic", event, key=f"{key}/{place}")
    if more:
        ledger.reserve("clinic", plan.event, key=f"{key}/plan", **more)


@pytest.mark.parametrize("more", [{}, {"plan_delta": 1e-6}], ids=["steps", "plan"])
def test_a_training_of_an_earlier_version_goes_on_with_its_charges(ledger, more):
    """Found by their keys, without words; those that were held get theirs from the record that arms them."""
    plan = plan_of()
    pays = scope(ledger, measure="pure" if more else "rdp")
    unsaid(ledger, plan, "t", **more)
    before = ledger.tickets()
    ran(plan, key="t", **more, **pays)

    tickets = ledger.tickets()
    assert len(tickets) == 4 + len(more)
    assert {each.id for each in before} <= {each.id for each in tickets}
    assert all(each.state is TicketState.SPENT for each in tickets)
    assert all(len(each.statistics) == 1 for each in ledger.releases())
    kinds = [body["kind"] for body in bodies(ledger) if "statistics" in body]
    assert (kinds.count("arm"), kinds.count("reserve")) == (2 + len(more), 2)


@pytest.mark.parametrize("more", [{}, {"plan_delta": 1e-6}], ids=["steps", "plan"])
def test_a_training_that_goes_on_under_other_words_is_the_same(ledger, more):
    """A charge keeps the words that it was made with; which charge it is, key and event say."""
    plan, pays = plan_of(), scope(ledger, measure="pure" if more else "rdp")
    with describing(unit="one patient"):
        run = plan.start({"w": (2,)}, key="t", **more, **pays)
        step = next(run)
        add(step)
        step.release()
        next(run)  # reserved, and the process dies
    ran(plan, key="t", **more, **pays)

    assert len(ledger.tickets()) == 4 + len(more)
    units = [each.statistics[0].unit for each in ledger.releases()]
    assert units == ["one patient"] * (2 + len(more)) + [UNITS[AO]] * 2


def test_a_key_of_something_else_is_still_refused(ledger):
    pays = scope(ledger)
    ledger.reserve("clinic", GaussianEvent(noise_multiplier=50.0), key="t/0")
    with pytest.raises(TicketError, match="another reservation"):
        ran(plan_of(), key="t", **pays)
    assert len(ledger.tickets()) == 1


def test_rounds_of_clients_say_so(ledger):
    plan = plan_of(steps=2, unit="client")
    run = FederatedRun(plan, {"w": np.zeros(2)}, **scope(ledger))
    for round_ in run:
        round_.add_missing(len(round_.clients))
        round_.release()
    run.close()
    assert said(ledger) == [f"federated training, 1 of 2 rounds, bounds {NORM}, unit: one client, added or removed"] * 2


@pytest.mark.parametrize(
    ("placement", "relation"),
    [(LocalPlacement(), RO), (DistributedPlacement(min_clients=2), RS)],
    ids=["local", "secure"],
)
def test_rounds_whose_noise_clients_draw_say_so(ledger, placement, relation):
    plan = plan_of(FullBatch(), steps=2, unit="client", relation=relation)
    run = PlacedRun(plan, {"w": np.zeros(2)}, placement, **scope(ledger, relation, epsilon=1e9))
    next(run).begin()
    run.close()
    unit = "one client, replaced by " + ("another" if relation is RO else "a null client")
    assert said(ledger) == [f"federated training, 1 of 2 rounds, bounds {NORM}, unit: {unit}"]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("sampling", [Sampling.POISSON, Sampling.UNIFORM])
def test_rounds_of_an_engine_say_what_they_are(ledger, mechanism, sampling):
    relation = AO if sampling is Sampling.POISSON else RO
    config = DPConfig(mechanism=mechanism, max_grad_norm=0.5, noise_multiplier=4.0, sampling_rate=0.5)
    engine = DifferentialPrivacyEngine(
        config,
        sampling=sampling,
        population_size=None if sampling is Sampling.POISSON else 10,
        **scope(ledger, relation, epsilon=1e9),
    )
    engine.round([{"w": np.ones(2)}], template={"w": np.zeros(2)})
    (words,) = said(ledger)
    norm = "L1" if mechanism == "laplace" else "L2"
    unit = "one client, " + ("added or removed" if relation is AO else "replaced by another")
    assert words == f"a round of training, bounds {norm} norm of each update at most 0.5, unit: {unit}"


def test_a_whole_model_says_what_it_is(ledger):
    privacy = GaussianDifferentialPrivacy(clip_norm=0.5, **scope(ledger))
    privacy.apply_privacy({"w": np.ones(2)}, epsilon=1.0, delta=1e-6)
    assert said(ledger) == ["a whole model, bounds L2 norm at most 0.5, unit: one unit, replaced by a null unit"]


ANSWERS = {
    RandomizedResponse: "answers among 4 categories",
    SubsetResponse: "answers among 4 categories",
    HadamardResponse: "answers among 4 categories",
    UnaryResponse: "answers among 4 categories",
    VectorResponse: "vectors",
}


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_answers_say_what_they_are(ledger, kind):
    scope(ledger, RO, "pure")
    is_vector = kind is VectorResponse
    size = {"dimension": 4, "l2_clip_norm": 1.0} if is_vector else {"num_categories": 4}
    mechanism = kind.calibrated(epsilon=1.0, **size)
    ticket = ledger.reserve("clinic", mechanism.event)
    mechanism.release(np.ones((2, 4)) if is_vector else np.array([0, 3]), ticket=ticket)
    unit = "vector" if is_vector else "answer"
    bounds = ", bounds L2 norm at most 1" if is_vector else ""
    assert said(ledger) == [f"{ANSWERS[kind]} by a {kind.__name__}{bounds}, unit: one {unit}, replaced by another"]


def test_a_client_says_that_its_update_was_randomized(ledger):
    scope(ledger, RO)
    local = LocalNoise(clip_norm=0.5, noise_multiplier=8.0)
    unit = "unit: one client, replaced by another"
    local.privatize({"w": np.ones(2)}, ticket=ledger.reserve("clinic", local.event))
    with describing(statistic="weights of a keyboard"):
        local.privatize({"w": np.ones(2)}, ticket=ledger.reserve("clinic", local.event))
    bounds = "bounds L2 norm of an update at most 0.5"
    assert said(ledger) == [
        f"{what}, {bounds}, {unit}" for what in ("a client's randomized update", "weights of a keyboard")
    ]


def test_a_search_says_whose_trainings_it_made(ledger):
    plan = plan_of()
    select(lambda _: (None, 0.0), [1], one_run=plan, mean=2.0, **scope(ledger, epsilon=1e9))
    assert said(ledger) == [f"the best of a random number of trainings, bounds {NORM}, unit: {UNITS[AO]}"]


def test_counters_say_what_they_are(ledger, tmp_path):
    counter = fd.Counter(noise_multiplier=20.0, days=5)
    with contextlib.closing(
        counter.start(["visits", "falls"], file=tmp_path / "stream", key="daily", **scope(ledger))
    ) as stream:
        stream.release([1, 0])
    first, *others = said(ledger)
    assert first.startswith("running totals of 2 counters, column visits, falls, bounds L2 norm of what a unit adds")
    assert first.endswith("unit: what a person does on one day, added or removed")
    assert others
    assert all(each.endswith("paid for by another charge") for each in others)


def test_code_of_a_caller_says_what_its_ticket_is_for(ledger):
    scope(ledger)
    event = GaussianEvent(noise_multiplier=50.0)
    words = ReleasedStatistic(statistic="my own", column="age")
    ledger.reserve("clinic", event).arm(statistic=words)
    ledger.reserve("clinic", event, statistics=words).arm(statistic=ReleasedStatistic(statistic="other"))
    held = ledger.reserve("clinic", event)
    with pytest.raises(InvalidType, match="statistic must be a ReleasedStatistic"):
        held.arm(statistic="my own")
    assert held.state is TicketState.HELD
    assert said(ledger) == [str(words)] * 2
