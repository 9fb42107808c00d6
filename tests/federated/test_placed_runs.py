"""The placements whose noise clients draw: noise that is there, costs that are paid, and rounds that are refused."""

import math

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import (
    BudgetExceeded,
    FerroError,
    InvalidArray,
    InvalidArrayType,
    InvalidParameter,
    InvalidType,
    TicketError,
)
from ferrodp.events import DistributedDiscreteGaussianEvent, GaussianEvent, NeighboringRelation, ShuffledEvent
from ferrodp.federated import (
    DistributedPlacement,
    FederatedRun,
    LocalPlacement,
    PlacedRun,
    SecureSum,
    ShuffledPlacement,
    ShuffledReports,
)
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    FlatClipping,
    FullBatch,
    PoissonSampling,
    PrivacyPlan,
    StepDecay,
)

SPECIAL, REPLACE = NeighboringRelation.REPLACE_SPECIAL, NeighboringRelation.REPLACE_ONE
SEED = bytes(range(32))
DELTA = 1e-5
PLACEMENTS = {
    "local": (LocalPlacement(), REPLACE, 8.0),
    "distributed": (DistributedPlacement(min_clients=8), SPECIAL, 4.0),
    "distributed, rotated": (DistributedPlacement(min_clients=8, num_dishonest=1, rotation=True), REPLACE, 4.0),
    "distributed, in a field": (DistributedPlacement(min_clients=10, modulus="field64"), REPLACE, 4.0),
    "shuffled": (ShuffledPlacement(), REPLACE, 40.0),
}
each_placement = pytest.mark.parametrize("name", PLACEMENTS)


def plan_of(relation, noise, steps=3, clients=10, clip_norm=0.5, **changes):
    options = {
        "unit": "client",
        "population_size": clients,
        "sampling": FullBatch(),
        "num_steps": steps,
        "clipping": FlatClipping(clip_norm),
        "noise": ConstantNoise(noise) if isinstance(noise, float) else noise,
        "neighboring_relation": relation,
    }
    return PrivacyPlan(**(options | changes))


def run_of(name, template=None, steps=3, **options):
    placement, relation, noise = PLACEMENTS[name]
    return PlacedRun(
        plan_of(relation, noise, steps), np.zeros(4) if template is None else template, placement, **options
    )


def release(round_, update, clients=10, **options):
    for _ in range(clients):
        round_.add(round_.encode(update))
    return round_.release(**options)


# ------------------------------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize(("clients", "factor"), [(10, 10 / 8), (8, 1.0)])
def test_shares_of_noise_add_up_to_the_stated_variance(clients, factor):
    """The sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    plan = plan_of(SPECIAL, 4.0)
    found = release(
        next(PlacedRun(plan, np.zeros(30_000), DistributedPlacement(min_clients=8))),
        np.zeros(30_000),
        clients,
        denominator=1,
    )

    assert abs(np.square(found).sum() / (30_000 * factor * (4.0 * 0.5) ** 2) - 1) < 7 * math.sqrt(2 / 30_000)


def test_local_messages_add_up_to_their_variances():
    """The sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    found = release(next(run_of("local", np.zeros(30_000))), np.zeros(30_000), denominator=1)

    assert abs(np.square(found).sum() / (30_000 * 10 * (8.0 * 0.5) ** 2) - 1) < 7 * math.sqrt(2 / 30_000)


def test_the_central_noise_has_the_stated_variance():
    """The sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    round_ = next(FederatedRun(plan_of(SPECIAL, 4.0), np.zeros(30_000)))
    round_.add_missing(10)
    found = round_.release(denominator=1)

    assert abs(np.square(found).sum() / (30_000 * (4.0 * 0.5) ** 2) - 1) < 7 * math.sqrt(2 / 30_000)


def test_shuffled_bits_have_the_stated_variance_and_no_bias():
    """7 standard deviations: at most 1e-7 for the sum of 64 squares, nearly a chi-square, and 3e-12 for the mean.

    The estimate is a sum of n vectors ±v at random places. The sum of its squares over d places has the expectation
    n·v², and as its n(n − 1)/2 products of two have the variance v⁴/d each and no correlation, the variance
    2n(n − 1)v⁴/d.
    """
    n, d, z, clip_norm = 3000, 64, 400.0, 0.5
    reports = ShuffledReports((d,), clip_norm=clip_norm, noise_multiplier=z, num_clients=n, rotation_seed=SEED)
    noise = reports.decode(reports.shuffled([reports.encode(np.zeros(d)) for _ in range(n)]))
    squares, stated = np.square(noise).sum(), d * (z * clip_norm) ** 2
    assert abs(squares / stated - 1) < 7 * math.sqrt(2 / d)

    direction = np.zeros(d)
    direction[7] = clip_norm
    found = reports.decode(reports.shuffled([reports.encode(2.0 * direction) for _ in range(n)]))
    assert abs(found[7] - n * clip_norm) < 7 * z * clip_norm


@each_placement
def test_a_short_round_divides_by_the_number_of_the_plan(name):
    if name in ("shuffled", "distributed, in a field"):
        pytest.skip("all clients have to send something")
    found = release(next(run_of(name, source=fd.testing.seeded(SEED))), np.full(4, 0.25), clients=9)

    assert np.abs(found * 10 - 9 * 0.25).max() < 7 * math.sqrt(10) * 8.0 * 0.5


@each_placement
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, 0.0])
def test_whatever_a_client_sends_its_message_is_one(name, value):
    round_ = next(run_of(name, {"w": np.zeros(4), "b": [np.zeros(())]}))
    found = release(round_, {"w": np.full(4, value), "b": [np.array(value)]})

    assert np.isfinite(found["w"]).all()
    assert found["b"][0].shape == ()


@each_placement
def test_models_of_mixed_types_come_back_as_they_were(name):
    model = {"half": np.zeros(3, np.float16), "double": np.zeros(()), "steps": np.array(3)}
    round_ = next(run_of(name, model, cast="float32", skip=["steps"]))
    found = release(round_, model)

    assert {key: array.dtype.name for key, array in found.items()} == {"half": "float16", "double": "float64"}


# ------------------------------------------------------------------------------------------------------------- costs


def test_each_placement_states_the_cost_of_its_own_mechanism():
    found = {}
    for name, (_, relation, _noise) in PLACEMENTS.items():
        run = run_of(name, steps=2)
        for round_ in run:
            release(round_, np.zeros(4))
        accountant = fd.accounting.PldAccountant(neighboring_relation=relation)
        accountant.compose(round_.mechanism.event, 2)
        assert run.epsilon(DELTA) == accountant.epsilon(DELTA) == run.records[1].epsilon
        found[name] = round_.mechanism.event
    assert found["local"] == GaussianEvent(noise_multiplier=4.0)
    assert isinstance(found["distributed"], DistributedDiscreteGaussianEvent)
    assert found["distributed"].num_shares == 8
    assert isinstance(found["shuffled"], ShuffledEvent)


def test_local_rounds_cost_what_the_plan_says():
    run = run_of("local")
    for round_ in run:
        release(round_, np.zeros(4))
    assert run.epsilon(DELTA) == run.plan.epsilon(DELTA)


def test_a_report_is_amplified_like_any_randomizer_and_never_costs_more_than_by_itself():
    reports = ShuffledReports((64,), clip_norm=1.0, noise_multiplier=400.0, num_clients=3000, rotation_seed=SEED)
    local = reports.local_epsilon

    assert reports.event.randomizer == fd.events.EpsilonDeltaEvent(epsilon=local, delta=0.0)
    assert 0 < reports.epsilon(1e-6) < local / 2
    weak = ShuffledReports((64,), clip_norm=1.0, noise_multiplier=3.2, num_clients=1, rotation_seed=SEED)
    assert weak.epsilon(1e-6) <= weak.local_epsilon


def test_a_bit_is_replaced_as_often_as_its_epsilon_says():
    """20 000 bits of certain value against 6 standard deviations of their number: 2e-9."""
    reports = ShuffledReports((1,), clip_norm=1.0, noise_multiplier=9.0, num_clients=4, rotation_seed=SEED)
    ones = sum(int(reports.encode(np.array([sign]))[1]) for sign in [1.0] * 10_000)
    lies = min(ones, 10_000 - ones)  # the rotation of one coordinate is its sign
    # The coordinate is a third of its bound: before randomization 2/3 of the bits tell its sign.
    share = 1 / (1 + math.exp(reports.local_epsilon))
    expected = 10_000 * (share + (1 - 2 * share) / 3)

    assert abs(lies - expected) < 6 * math.sqrt(2500)


@each_placement
def test_a_ledger_pays_before_the_first_message_and_what_has_not_begun_is_given_back(name, tmp_path):
    placement, relation, noise = PLACEMENTS[name]
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=200.0, delta=1e-5, neighboring_relation=relation)
        options = {"ledger": ledger, "scope": "cohort", "key": "study"}
        run = PlacedRun(plan_of(relation, noise), np.zeros(4), placement, **options)
        round_ = next(run)
        report = ledger.report("cohort")
        assert (report.held, report.armed, report.spent) == (1, 0, 0)
        round_.add(round_.encode(np.zeros(4)))
        report = ledger.report("cohort")
        assert (report.held, report.armed + report.spent) == (0, 1)
        run.close()  # a round that had begun is lost, and charged
        again = PlacedRun(plan_of(relation, noise), np.zeros(4), placement, **options)
        assert next(again).number == 1
        again.close()
        report = ledger.report("cohort")
        assert (report.held, report.armed + report.spent) == (0, 1)
        with pytest.raises(FerroError):
            round_.encode(np.zeros(4))


def test_rounds_end_with_the_budget_and_at_the_target(tmp_path):
    placement, relation, noise = PLACEMENTS["distributed"]
    plan = plan_of(relation, noise, 20)
    event = next(PlacedRun(plan, np.zeros(4), placement)).mechanism.event
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=4.0, delta=1e-5, neighboring_relation=relation)
        allowed = ledger.remaining_count("cohort", event)
        with PlacedRun(plan, np.zeros(4), placement, ledger=ledger, scope="cohort") as run:
            for round_ in run:
                release(round_, np.zeros(4))
            assert (len(run.records), run.stopped) == (allowed, "budget")
            assert 3 < allowed < 20
    with PlacedRun(plan, np.zeros(4), placement, max_epsilon=run.records[2].epsilon, delta=DELTA) as halted:
        for round_ in halted:
            release(round_, np.zeros(4))
        assert (len(halted.records), halted.stopped) == (3, "target")


def test_a_round_with_too_few_messages_releases_nothing_and_stays_charged():
    for name, clients in {"distributed": 7, "distributed, rotated": 8, "shuffled": 9}.items():
        run = run_of(name)
        round_ = next(run)
        with pytest.raises(FerroError, match="away"):
            release(round_, np.zeros(4), clients)
        assert run.records == ()
        assert run.epsilon(DELTA) > 0
        assert next(run).number == 1


def test_a_round_has_no_more_messages_than_clients_and_is_released_once():
    run = run_of("distributed")
    round_ = next(run)
    with pytest.raises(FerroError, match="must be released before"):
        next(run)
    message = round_.encode(np.zeros(4))
    for _ in range(10):
        round_.add(message)
    with pytest.raises(FerroError, match="more messages"):
        round_.add(message)
    round_.release()
    with pytest.raises(FerroError, match="was released"):
        round_.release()


def test_seeded_rounds_say_that_nothing_is_private_and_no_ledger_pays_for_them(tmp_path):
    run = run_of("distributed", source=fd.testing.seeded(SEED))
    release(next(run), np.zeros(4))
    assert run.records[0].epsilon == math.inf
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=9.0, delta=1e-5, neighboring_relation=SPECIAL)
        with pytest.raises(InvalidParameter, match="source must be private"):
            run_of("distributed", source=fd.testing.seeded(SEED), ledger=ledger, scope="cohort")


def test_noise_may_change_from_round_to_round():
    plan = plan_of(SPECIAL, StepDecay(8.0, every=1, factor=0.5))
    run = PlacedRun(plan, np.zeros(4), DistributedPlacement(min_clients=8))
    scales = []
    for round_ in run:
        scales.append(round_.mechanism.noise_multiplier)
        release(round_, np.zeros(4))
    assert scales == list(plan.noise_multipliers)
    assert len(set(scales)) == 3


@pytest.mark.parametrize(
    ("changes", "placement", "said"),
    [
        ({"unit": "record"}, LocalPlacement(), 'unit="client"'),
        ({"sampling": PoissonSampling(0.5)}, LocalPlacement(), "FullBatch"),
        ({"clipping": AdaptiveClipping(1.0, count_noise_multiplier=9.0)}, LocalPlacement(), "FlatClipping"),
        ({"neighboring_relation": SPECIAL}, LocalPlacement(), "REPLACE_ONE"),
        ({"neighboring_relation": SPECIAL}, ShuffledPlacement(), "REPLACE_ONE"),
        (
            {"neighboring_relation": NeighboringRelation.ADD_OR_REMOVE_ONE},
            DistributedPlacement(min_clients=8),
            "REPLACE_SPECIAL or REPLACE_ONE",
        ),
        ({}, DistributedPlacement(min_clients=11), "max_clients must be at least"),
        ({}, ShuffledPlacement(), "noise_multiplier must be above 9.48"),
        ({}, "local", "placement must be a Placement"),
        ({}, None, "placement must be a Placement"),
    ],
)
def test_plans_that_a_placement_cannot_run_are_refused(changes, placement, said):
    with pytest.raises((InvalidParameter, InvalidType), match=said):
        PlacedRun(plan_of(REPLACE, 1.0, **changes), np.zeros(4), placement)


# ------------------------------------------------------------------------------------------- reports and their sums


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([np.array([16, 0], np.uint32)] * 3, InvalidArray),
        ([np.array([0, 2], np.uint32)] * 3, InvalidArray),
        ([np.array([0, 1, 1], np.uint32)] * 3, InvalidArray),
        ([np.array([0, 1])] * 3, InvalidArrayType),
    ],
)
def test_what_is_no_report_is_refused(messages, error):
    reports = ShuffledReports((16,), clip_norm=1.0, noise_multiplier=9.0, num_clients=3, rotation_seed=SEED)
    with pytest.raises(error):
        reports.decode(messages)


def test_shuffled_messages_do_not_tell_their_senders():
    reports = ShuffledReports((16,), clip_norm=1.0, noise_multiplier=40.0, num_clients=50, rotation_seed=SEED)
    messages = [reports.encode(np.ones(16)) for _ in range(50)]

    assert np.array_equal(reports.shuffled(messages), reports.shuffled(messages[::-1]))


def test_a_secure_sum_takes_the_ticket_of_its_event_once_and_no_other(tmp_path):
    secure = SecureSum((4,), clip_norm=1.0, noise_multiplier=4.0, min_clients=8, max_clients=10)
    total = secure.zero()
    for _ in range(8):
        secure.add(total, secure.encode(np.zeros(4)))
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=9.0, delta=1e-5, neighboring_relation=SPECIAL)
        ledger.create("other", epsilon=9.0, delta=1e-5, neighboring_relation=REPLACE)
        ticket = ledger.reserve("cohort", secure.event)
        with pytest.raises(FerroError, match="throw the sum away"):
            secure.decode(total, num_clients=7, ticket=ticket)
        assert ledger.report("cohort").held == 1
        for wrong in (
            ledger.reserve("cohort", GaussianEvent(noise_multiplier=4.0)),
            ledger.reserve("other", secure.event),
        ):
            with pytest.raises(InvalidParameter, match="ticket must be for"):
                secure.decode(total, num_clients=8, ticket=wrong)
        with pytest.raises(InvalidType, match="ticket must be a Ticket"):
            secure.decode(total, num_clients=8, ticket="paid")
        assert secure.decode(total, num_clients=8, ticket=ticket).num_clients == 8
        with pytest.raises(TicketError):
            secure.decode(total, num_clients=8, ticket=ticket)


def test_a_secure_sum_is_charged_to_the_budget_that_is_open():
    secure = SecureSum((4,), clip_norm=1.0, noise_multiplier=4.0, min_clients=8, max_clients=10)
    total = secure.zero()
    for _ in range(8):
        secure.add(total, secure.encode(np.zeros(4)))
    with fd.budget(epsilon=2.0, delta=1e-5, measure="rdp", neighboring_relation=SPECIAL) as spending:
        with pytest.raises(FerroError, match="throw the sum away"):
            secure.decode(total, num_clients=7)
        assert spending.report().charges == ()
        allowed = spending.remaining_count(secure.event)
        assert 1 <= allowed < 100
        for _ in range(allowed):
            secure.decode(total, num_clients=8)
        assert spending.report().charges == (secure.event,) * allowed
        with pytest.raises(BudgetExceeded):
            secure.decode(total, num_clients=8)
    with fd.budget(epsilon=2.0, delta=1e-5, measure="rdp") as spending:
        with pytest.raises(InvalidParameter, match="neighboring_relation REPLACE_SPECIAL of the sum"):
            secure.decode(total, num_clients=8)
        assert spending.report().charges == ()
    assert secure.decode(total, num_clients=8).num_clients == 8


@pytest.mark.parametrize(
    "make",
    [
        lambda: DistributedPlacement(min_clients=0),
        lambda: DistributedPlacement(min_clients=8, num_dishonest=-1),
        lambda: DistributedPlacement(min_clients=8, rotation=1),
        lambda: ShuffledPlacement(min_clients=0),
        lambda: ShuffledPlacement(coordinate_bound=0.0),
    ],
)
def test_parameters_of_placements_are_checked_when_they_are_made(make):
    with pytest.raises((InvalidParameter, InvalidType)):
        make()
