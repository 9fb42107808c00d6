"""`PrivateStrategy` around Flower's own strategies, with real client apps and a grid in memory."""

import csv
import math

import numpy as np
import pytest
from flwr.app import ConfigRecord, MetricRecord
from flwr.app.exception import AppExitException
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedXgbBagging,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
    Strategy,
)

import ferrodp as fd
from ferrodp.accounting import PldAccountant
from ferrodp.errors import InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, PoissonSampledEvent
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    CyclicPoisson,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    GivenOrder,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
)

WIDTH = 2000
DELTA = 1e-5
NUMBERS = {"epsilon", "renyi_epsilon", "delta", "noise_multiplier", "clip_norm", "denominator"}


def plan_of(population=10, *, sampling=None, steps=3, clipping=None, noise=1.0, **others):
    return PrivacyPlan(
        **{"unit": "client", "population_size": population} | others,
        sampling=sampling or FullBatch(),
        num_steps=steps,
        clipping=clipping or FlatClipping(1.0),
        noise=ConstantNoise(noise),
    )


def private(plan, inner=None, **options):
    return PrivateStrategy(inner or FedAvg(fraction_evaluate=0.0), plan=plan, wait=0, **options)


def added(value):
    return lambda arrays, _: {name: array + np.asarray(value, array.dtype) for name, array in arrays.items()}


def weights(record, name="w"):
    return record[name].numpy()


def test_a_round_moves_the_model_by_the_noised_mean_of_clipped_updates(grid, model):
    """False alarm 1e-6: 5 standard errors."""
    plan = plan_of(20, steps=1, noise=2.0)
    strategy = private(plan)
    result = strategy.start(grid(20, added(1.0)), model(w=np.full(WIDTH, 3.0, np.float32)))

    moved = weights(result.arrays) - 3.0
    deviation = 2.0 / 20
    assert weights(result.arrays).dtype == np.float32
    assert abs(moved.mean() - 1.0 / math.sqrt(WIDTH)) < 5 * deviation / math.sqrt(WIDTH)
    assert abs(moved.std() / deviation - 1) < 5 / math.sqrt(2 * WIDTH)
    assert isinstance(strategy, Strategy)


@pytest.mark.parametrize(
    "update",
    [
        added(math.nan),
        added(math.inf),
        added(1e30),
        added(-3e38),
        lambda arrays, _: {"w": np.zeros(3, np.float32)},
        lambda arrays, _: {"w": np.float32(7)},
        lambda arrays, _: {"other": arrays["w"]},
        lambda arrays, _: {"w": np.arange(WIDTH)},
        lambda arrays, _: {},
        lambda arrays, _: 1 / 0,
        lambda arrays, _: {"w": np.full(WIDTH, 1e300)},
    ],
)
def test_no_client_moves_the_sum_by_more_than_the_bound(grid, model, make_client, update):
    """The noise is 1e-5 of the bound, so the sum is visible; without the client it is 9 updates of norm 1/2."""
    usual = 0.5 / math.sqrt(WIDTH)
    apps = {node: make_client(added(usual)) for node in range(1, 10)} | {10: make_client(update)}
    strategy = private(plan_of(10, steps=1, noise=1e-5))
    result = strategy.start(grid(apps), model(w=np.zeros(WIDTH, np.float32)))

    total = weights(result.arrays).astype(float) * 10
    assert np.linalg.norm(total - 9 * usual) <= 1.01
    assert np.isfinite(total).all()


def test_weights_and_metrics_of_clients_change_nothing_and_do_not_leave(grid, model, make_client):
    loud = {"num-examples": 10**9, "loss": 0.123456}
    apps = {node: make_client(added(0.0), metrics=loud) for node in range(1, 6)}
    strategy = private(plan_of(5, steps=2))
    result = strategy.start(grid(apps), model(w=np.zeros(3, np.float32)))

    for round_number, metrics in result.train_metrics_clientapp.items():
        assert set(metrics) == NUMBERS
        assert metrics["epsilon"] == strategy.plan.epsilon_after(round_number, DELTA)
    assert "0.123456" not in repr(result)
    assert result.evaluate_metrics_clientapp == {}


def test_epsilon_is_that_of_the_accountant_and_written_round_by_round(grid, model, tmp_path):
    file = tmp_path / "rounds.csv"
    plan = plan_of(40, sampling=PoissonSampling(0.25), steps=5)
    strategy = private(plan, log=file)
    asked = grid(40, added(0.1))
    strategy.start(asked, model(w=np.zeros(4, np.float32)))

    accountant = PldAccountant()
    with file.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["round"]) for row in rows] == [0, 1, 2, 3, 4]
    for row in rows:
        accountant.compose(PoissonSampledEvent(sampling_probability=0.25, event=GaussianEvent(noise_multiplier=1.0)))
        assert float(row["epsilon"]) == accountant.epsilon(DELTA)
    assert strategy.epsilon == accountant.epsilon(DELTA)
    sizes = [len(nodes) for nodes in asked.asked]
    assert len({tuple(nodes) for nodes in asked.asked}) == 5
    assert 15 < sum(sizes) < 85  # 200 chances of 1/4: beyond 5.7 standard deviations


def test_it_halts_before_the_round_that_would_exceed_the_target(grid, model):
    plan = plan_of(10, steps=50, noise=4.0)
    target = plan.epsilon_after(7, DELTA)
    strategy = private(plan, max_epsilon=target)
    asked = grid(10, added(0.1))
    strategy.start(asked, model(w=np.zeros(4, np.float32)))

    assert strategy.run.round_number == 7
    assert strategy.epsilon == target
    assert [len(nodes) for nodes in asked.asked] == [10] * 7


def test_a_ledger_is_charged_before_clients_are_asked_and_its_end_ends_the_run(grid, model, tmp_path):
    plan = plan_of(10, steps=20, noise=4.0)
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("flower", epsilon=plan.epsilon_after(5, DELTA) * 1.05, delta=DELTA, measure="gdp")
        allowed = ledger.remaining_count("flower", plan.charges()[0].event)
        charged = []

        def update(arrays, _):
            charged.append(ledger.remaining_count("flower", plan.charges()[0].event))
            return arrays

        strategy = private(plan, ledger=ledger, scope="flower", key="t")
        strategy.start(grid(10, update), model(w=np.zeros(4, np.float32)))
        assert strategy.run.round_number == allowed
        assert strategy.run.stopped == "budget"
        assert charged[0] == allowed - 1

        again = private(plan, ledger=ledger, scope="flower", key="t")
        asked = grid(10, update)
        again.start(asked, model(w=np.zeros(4, np.float32)), num_rounds=1)
        assert asked.asked == []
        assert ledger.remaining_count("flower", plan.charges()[0].event) == 0


def test_a_training_goes_on_after_a_crash_between_asking_and_aggregating(grid, model, tmp_path):
    plan = plan_of(4, steps=6)
    start = model(w=np.zeros(4, np.float32))
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("flower", epsilon=100, delta=DELTA, measure="rdp")
        first = private(plan, ledger=ledger, scope="flower", key="t")
        first.start(grid(4, added(0.1)), start, num_rounds=2)
        from flwr.app import ConfigRecord

        first.configure_train(3, start, ConfigRecord(), grid(4, added(0.1)))  # reserved, and then the process dies

        second = private(plan, ledger=ledger, scope="flower", key="t")
        second.start(grid(4, added(0.1)), start)
        assert second.run.round_number == 6
        assert second.epsilon == plan.epsilon(DELTA)
        assert [record.round for record in second.records] == [2, 3, 4, 5]  # steps 2 to 5: the reserved one, too
        assert len(ledger.tickets("flower")) == 6


@pytest.mark.parametrize("inner", [FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad, FedProx])
def test_strategies_that_take_a_mean_take_the_noised_one(grid, model, inner):
    options = {"proximal_mu": 0.1} if inner is FedProx else {}
    strategy = private(plan_of(8, steps=3, noise=1e-3), inner(fraction_evaluate=0.0, **options))
    result = strategy.start(grid(8, added(0.01)), model(w=np.zeros(30, np.float32), b=np.zeros((2, 3))))

    assert (weights(result.arrays) > 0).mean() > 0.9
    assert weights(result.arrays, "b").dtype == np.float64


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        (lambda: Krum(num_malicious_nodes=1), "must not compare replies"),
        (lambda: MultiKrum(num_malicious_nodes=1), "must not compare replies"),
        (lambda: Bulyan(num_malicious_nodes=1), "must not compare replies"),
        (FedMedian, "must not compare replies"),
        (FedTrimmedAvg, "must not compare replies"),
        (lambda: DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 5), "must not add noise of its own"),
        (lambda: PrivateStrategy(FedAvg(), plan=plan_of()), "must not add noise of its own"),
        (lambda: QFedAvg(0.1), "inner must be FedAvg"),
        (FedXgbBagging, "inner must be FedAvg"),
        (lambda: "FedAvg", "inner must be a strategy of Flower"),
    ],
)
def test_strategies_that_would_be_wrong_are_refused(inner, said):
    with pytest.raises((InvalidParameter, InvalidType), match=said):
        PrivateStrategy(inner(), plan=plan_of())


@pytest.mark.parametrize(
    ("plan", "options", "said"),
    [
        (lambda: plan_of(unit="record"), {}, 'unit="client"'),
        (lambda: plan_of(None, population_size=None), {}, "population_size"),
        (lambda: plan_of(records_per_group=2), {}, "one vector for each client"),
        (
            lambda: plan_of(sampling=GivenOrder(3), neighboring_relation=NeighboringRelation.REPLACE_ONE),
            {},
            "must draw its samples",
        ),
        (lambda: "plan", {}, "plan must be a PrivacyPlan"),
        (plan_of, {"delta": 0}, "delta must be"),
        (plan_of, {"max_epsilon": -1}, "max_epsilon must be"),
        (plan_of, {"skip": "w"}, "skip must be a sequence"),
        (plan_of, {"share_evaluation": 1}, "share_evaluation"),
        (plan_of, {"on_exhausted": "raise"}, "on_exhausted must be"),
        (plan_of, {"checkpoint": 7}, "checkpoint must be a path"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(plan, options, said):
    with pytest.raises((InvalidParameter, InvalidType), match=said):
        PrivateStrategy(FedAvg(), plan=plan(), **options)


def test_arrays_that_are_not_floats_are_refused_or_skipped(grid, model):
    arrays = model(w=np.zeros(3, np.float32), steps=np.array(7), half=np.zeros(2, np.float16), scale=np.float32(2.0))
    with pytest.raises(InvalidArrayType, match="name the key of a counter in skip"):
        private(plan_of(4)).start(grid(4, added(1)), arrays)
    with pytest.raises(InvalidParameter, match="skip must name arrays"):
        private(plan_of(4), skip=("step",)).start(grid(4, added(1)), arrays)
    strategy = private(plan_of(4, noise=1e-3), skip=("steps",))
    result = strategy.start(grid(4, added(1)), arrays)
    assert weights(result.arrays, "steps") == 7
    assert weights(result.arrays, "half").dtype == np.float16
    assert weights(result.arrays, "scale").shape == ()
    assert weights(result.arrays, "scale") > 2.0


def test_clients_that_are_missing_count_as_zeros_and_too_many_are_refused(grid, model):
    strategy = private(plan_of(10, steps=1, noise=1e-4))
    result = strategy.start(grid(5, added(1.0)), model(w=np.zeros(1, np.float32)))
    assert weights(result.arrays) == pytest.approx(0.5, abs=0.01)
    with pytest.raises(InvalidParameter, match="population_size of at least 11"):
        private(plan_of(10)).start(grid(11, added(1.0)), model(w=np.zeros(1, np.float32)))


def test_an_empty_round_is_noised_and_charged(grid, model):
    plan = plan_of(10, sampling=PoissonSampling(1e-9), steps=2)
    strategy = private(plan)
    result = strategy.start(grid(10, added(1.0)), model(w=np.zeros(50, np.float32)))

    assert weights(result.arrays).std() > 0
    assert strategy.epsilon == plan.epsilon(DELTA)


def test_one_client_that_replies_twice_is_counted_once(grid, model):
    strategy = private(plan_of(3, steps=1, noise=1e-4))
    twice = grid(3, added(1.0))
    once = twice.send_and_receive
    twice.send_and_receive = lambda messages, timeout=None: [*(replies := once(messages)), *replies]
    result = strategy.start(twice, model(w=np.zeros(1, np.float32)))

    assert weights(result.arrays) == pytest.approx(1.0, abs=0.01)


def test_the_clip_norm_converges_toward_the_quantile(grid, model, make_client):
    norms = np.linspace(0.5, 1.5, 40)
    apps = {i + 1: make_client(added(norms[i])) for i in range(40)}
    clipping = AdaptiveClipping(8.0, target_quantile=0.5, learning_rate=0.3, count_noise_multiplier=4.0)
    strategy = private(plan_of(40, steps=40, clipping=clipping, noise=1.0))
    strategy.start(grid(apps), model(w=np.zeros(1, np.float32)))

    used = [record.clip_norm for record in strategy.records]
    assert used[0] == 8.0
    assert abs(np.median(used[-10:]) - 1.0) < 0.3
    assert strategy.epsilon == strategy.plan.epsilon(DELTA)


def test_evaluation_is_shared_only_if_asked_for(grid, model, make_client):
    app = make_client(added(0.0))

    @app.evaluate()
    def evaluate(message, context):
        from flwr.app import Message, RecordDict

        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 0.5})}), reply_to=message)

    apps = dict.fromkeys(range(1, 4), app)
    silent = private(plan_of(3, steps=1), FedAvg()).start(grid(apps), model(w=np.zeros(1)))
    told = private(plan_of(3, steps=1), FedAvg(), share_evaluation=True).start(grid(apps), model(w=np.zeros(1)))
    assert silent.evaluate_metrics_clientapp == {}
    assert told.evaluate_metrics_clientapp[1]["loss"] == 0.5


def test_fixed_size_samples_are_asked_as_drawn(grid, model):
    plan = plan_of(12, sampling=FixedSizeSampling(5), steps=6, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    asked = grid(12, added(0.1))
    private(plan).start(asked, model(w=np.zeros(1, np.float32)))

    assert [len(nodes) for nodes in asked.asked] == [5] * 6


@pytest.mark.parametrize(
    ("sampling", "relation"),
    [
        (RandomAllocation(5), NeighboringRelation.ADD_OR_REMOVE_ONE),
        (CyclicPoisson(1.0, num_parts=5), NeighboringRelation.REPLACE_SPECIAL),
    ],
)
def test_a_client_that_comes_back_under_another_name_takes_part_once_an_epoch(
    grid, model, make_client, sampling, relation
):
    """Flower names a client anew that was started again; what an epoch costs is charged for one participation.

    False alarm 1e-8: that nobody is asked at all.
    """
    apps = {node: make_client(added(1.0)) for node in range(1, 9)}
    made, arrays = grid(apps), model(w=np.zeros(4, np.float32))
    strategy = private(plan_of(100, sampling=sampling, steps=15, neighboring_relation=relation))
    for number in range(15):
        if number in (2, 4, 8, 13):  # all of them are started again
            first = 100 * (number + 1)
            apps = {first + place: app for place, app in enumerate(apps.values())}
            made.apps = apps
        config = ConfigRecord()
        replies = made.send_and_receive(strategy.configure_train(number + 1, arrays, config, made))
        arrays, _ = strategy.aggregate_train(number + 1, replies)
    asked = [[node % 100 if node > 10 else node - 1 for node in nodes] for nodes in made.asked]
    for epoch in range(3):
        seen = [client for nodes in asked[5 * epoch : 5 * epoch + 5] for client in nodes]
        assert len(seen) == len(set(seen))
    assert any(asked)


def test_nodes_that_are_started_again_take_the_places_of_those_that_are_gone(grid, model, make_client):
    """As all are, under other names, where a SuperLink was killed: the population is who is connected at a time."""
    apps = [make_client(added(1.0)) for _ in range(3)]
    made, arrays = grid({}), model(w=np.zeros(4, np.float32))
    strategy = private(plan_of(3, steps=6, noise=1e-3))
    for number in range(6):
        made.apps = {10 * number + place: app for place, app in enumerate(apps, 1)}
        replies = made.send_and_receive(strategy.configure_train(number + 1, arrays, ConfigRecord(), made))
        arrays, _ = strategy.aggregate_train(number + 1, replies)
    assert [len(nodes) for nodes in made.asked] == [3] * 6


def test_a_client_whose_place_was_taken_takes_part_once_an_epoch(grid, model, make_client):
    """Without the rule the chance that none of 30 epochs has a client twice is below 1e-6."""
    app = make_client(added(1.0))
    made, arrays = grid({}), model(w=np.zeros(4, np.float32))
    strategy = private(plan_of(8, sampling=RandomAllocation(5), steps=150))
    first, others = range(1, 9), range(101, 105)
    connected = [first, first, [*others, 5, 6, 7, 8], [101, *range(1, 8)], [101, *range(1, 8)]]
    for number in range(150):
        made.apps = dict.fromkeys(connected[number % 5], app)
        replies = made.send_and_receive(strategy.configure_train(number + 1, arrays, ConfigRecord(), made))
        arrays, _ = strategy.aggregate_train(number + 1, replies)
    for epoch in range(30):
        seen = [node for nodes in made.asked[5 * epoch : 5 * epoch + 5] for node in nodes]
        assert len(seen) == len(set(seen))
    assert any(made.asked)


def test_the_end_of_a_budget_is_announced_once_by_round_and_reason(grid, model, caplog, tmp_path):
    rounds = plan_of(4, steps=5, noise=3.0)
    one = rounds.epsilon(DELTA) / 2.0
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger, caplog.at_level("WARNING", "ferrodp.flower"):
        ledger.create("app", epsilon=one, delta=DELTA)
        strategy = private(rounds, ledger=ledger, scope="app", delta=DELTA)
        strategy.start(grid(4, added(1.0)), model(w=np.zeros(3, np.float32)), num_rounds=5)
    done = len(strategy.records)

    assert 1 <= done < 4
    told = [record.getMessage() for record in caplog.records if "ask no client" in record.getMessage()]
    assert told == [
        f"round {done + 1} and later ones ask no client and leave the model as it is: the ledger's budget is spent"
    ]


def test_rounds_beyond_the_plan_are_announced_once(grid, model, caplog):
    strategy = private(plan_of(4, steps=2))
    with caplog.at_level("WARNING", "ferrodp.flower"):
        strategy.start(grid(4, added(1.0)), model(w=np.zeros(3, np.float32)), num_rounds=4)

    told = [record.getMessage() for record in caplog.records if "ask no client" in record.getMessage()]
    assert told == ["round 3 and later ones ask no client and leave the model as it is: the plan has 2 rounds"]


@pytest.mark.parametrize("reason", ["budget", "target"])
def test_a_run_that_has_to_fail_at_the_end_of_its_budget_ends_with_flowers_own_code(grid, model, tmp_path, reason):
    plan = plan_of(4, steps=50, noise=4.0)
    limit = plan.epsilon_after(3, DELTA)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("app", epsilon=limit * 1.05, delta=DELTA, measure="gdp")
        options = {"ledger": ledger, "scope": "app"} if reason == "budget" else {"max_epsilon": limit}
        strategy = private(plan, on_exhausted="fail", delta=DELTA, **options)
        asked = grid(4, added(1.0))
        with pytest.raises(AppExitException, match="epsilon is") as error:
            strategy.start(asked, model(w=np.zeros(3, np.float32)))
    assert error.value.exit_code == 200
    assert len(asked.asked) == len(strategy.records) >= 3
    private(plan_of(4, steps=2), on_exhausted="fail").start(grid(4, added(1.0)), model(w=np.zeros(3)), num_rounds=5)


@pytest.mark.parametrize("inner", [FedAvgM, FedAdam, FedYogi])
def test_a_first_round_without_clients_is_a_round(grid, model, inner):
    plan = plan_of(10, sampling=PoissonSampling(1e-9), steps=2)
    strategy = private(plan, inner(fraction_evaluate=0.0))
    strategy.start(grid(10, added(1.0)), model(w=np.zeros(50, np.float32)))

    assert strategy.epsilon == plan.epsilon(DELTA)


def test_initial_and_final_models_are_evaluated_with_public_data(grid, model):
    seen = []

    def evaluate(number, arrays):
        seen.append((number, float(weights(arrays)[0])))
        return MetricRecord({"seen": len(seen)})

    result = private(plan_of(4, steps=2)).start(
        grid(4, added(1.0)), model(w=np.zeros(3, np.float32)), evaluate_fn=evaluate
    )
    assert [number for number, _ in seen] == [0, 1, 2]
    assert seen[0][1] == 0.0
    assert seen[2][1] == float(weights(result.arrays)[0])
    assert result.evaluate_metrics_serverapp[2]["seen"] == 3
