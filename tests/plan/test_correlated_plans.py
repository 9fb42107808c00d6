"""Plans with correlated noise: charged for what their sampling allows, drawn by one key, no step twice."""

import dataclasses
import itertools
import json
import math
import os
import random
import signal
import stat
import time

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.correlated import BandedMatrix, BandedToeplitz, BufferedToeplitz, SquareRoot, Tree
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.events import (
    MatrixMechanismEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
)
from ferrodp.federated import DistributedPlacement, PlacedRun
from ferrodp.plan import (
    AdaptiveClipping,
    AutomaticClipping,
    ConstantNoise,
    CorrelatedNoise,
    CyclicPoisson,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    GivenOrder,
    PerGroupClipping,
    PlanRun,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
)
from ferrodp.plan.step import release_bounded
from support import children

AO, RO, RS = NeighboringRelation
DELTA = 1e-5
EPOCHS = CyclicPoisson(1.0, num_parts=4)
FALLING = BandedToeplitz(num_steps=12, bands=3, coefficients=(1.0, 0.5, 0.25))
STRATEGIES = [
    SquareRoot(num_steps=12),
    FALLING,
    BufferedToeplitz(num_steps=12, buffers=2),
    BandedMatrix(np.eye(12) + np.diag(np.linspace(-0.5, 0.5, 11), -1)),
]


def plan_of(sampling=EPOCHS, strategy=FALLING, *, relation=RS, steps=12, size=40, noise=1.0, **parts):
    made = {
        "population_size": size,
        "sampling": sampling,
        "num_steps": steps,
        "clipping": FlatClipping(1.0),
        "noise": CorrelatedNoise(strategy, noise),
        "neighboring_relation": relation,
    }
    return PrivacyPlan(**made | parts)


def zeros(step, size=3, dtype=np.float64):
    return np.zeros((len(step.indices), size), dtype)


def released(run, size=3, dtype=np.float64):
    """Return what all steps of a run release about zeros: the noise alone."""
    found = []
    for step in run:
        step.add(zeros(step, size, dtype))
        found.append(step.release(denominator=1))
    return np.array(found)


def matrix_of(strategy):
    if isinstance(strategy, BandedMatrix):
        diagonals = strategy.diagonals()
        return sum(np.diag(diagonals[d, : strategy.num_steps - d], -d) for d in range(strategy.bands))
    column = np.zeros(strategy.num_steps)
    column[: len(strategy.coefficients())] = strategy.coefficients()
    return sum(np.diag(np.full(strategy.num_steps - lag, each), -lag) for lag, each in enumerate(column))


# what it costs


@pytest.mark.parametrize(
    ("sampling", "relation", "participations"),
    [
        (FullBatch(), AO, (12, 1)),
        (FullBatch(), RO, (12, 1)),
        (EPOCHS, RS, (3, 4)),
        (CyclicPoisson(1.0, num_parts=5), RO, (3, 5)),
        (GivenOrder(10, max_participations=2, min_separation=4), RS, (2, 4)),
        (GivenOrder(10, max_participations=2), RS, (2, 1)),
        (GivenOrder(10, max_participations=50, min_separation=3), RO, (12, 3)),
        (GivenOrder(10), RS, (12, 1)),
    ],
)
def test_a_plan_is_charged_once_for_the_participations_of_its_sampling(sampling, relation, participations):
    strategy = SquareRoot(num_steps=12)
    plan = plan_of(sampling, strategy, relation=relation, noise=3.0)

    charged = 1.5 if relation is RO else 3.0  # a vector that is replaced moves a sum twice as far
    assert plan.event == MatrixMechanismEvent(
        noise_multiplier=charged, sensitivity=strategy.sensitivity(*participations)
    )
    assert [charge.event is None for charge in plan.charges()] == [False] + [True] * 11
    assert plan.event_after(1) == plan.event
    assert plan.epsilon_after(5, DELTA) == plan.epsilon(DELTA) == pytest.approx(plan.epsilon_bounds(DELTA).lower)


@pytest.mark.parametrize("sampling", [EPOCHS, CyclicPoisson(0.5, num_parts=4), FullBatch()])
@pytest.mark.parametrize("steps", [12, 9])
def test_no_unit_takes_part_more_often_or_closer_than_is_charged(sampling, steps):
    from ferrodp.plan.correlated import participation

    plan = plan_of(sampling, steps=steps)
    most, apart = participation(plan)
    taking_part = [[] for _ in range(plan.population_size)]
    for step in plan.start(np.zeros(1)):
        for unit in step.indices:
            taking_part[unit].append(step.number)
        step.add(zeros(step, 1))
        step.release()

    assert max(len(each) for each in taking_part) <= most
    assert all(b - a >= apart for each in taking_part for a, b in itertools.pairwise(each))
    if getattr(sampling, "probability", 1.0) == 1.0:
        assert max(len(each) for each in taking_part) == most


@pytest.mark.parametrize(("relation", "multiplier", "distance"), [(RS, 2.0, math.inf), (RO, 1.0, 0.5)])
def test_rounds_of_cyclic_samples_cost_samples_of_one_column(relation, multiplier, distance):
    plan = plan_of(CyclicPoisson(0.25, num_parts=4), relation=relation, noise=2.0)

    one = MatrixMechanismEvent(noise_multiplier=multiplier, sensitivity=FALLING.sensitivity())
    sampled = PoissonSampledEvent(sampling_probability=0.25, event=one, null_distance=distance)
    assert plan.event == SelfComposedEvent(event=sampled, count=3)
    assert plan.event_after(4) == sampled
    assert plan.event_after(5) == SelfComposedEvent(event=sampled, count=2)
    assert plan.epsilon(DELTA) < plan_of(EPOCHS, noise=2.0, relation=relation).epsilon(DELTA)
    assert plan.max_steps(epsilon=plan.epsilon_after(8, DELTA), delta=DELTA) == 8


def test_adaptive_vectors_gain_nothing_under_cyclic_samples():
    """δ(ε) by likelihood ratios of drawn runs, 2·10⁵ of them: the bound is not exceeded, and nearly reached.

    Two rounds of two parts, one unit in part 0, C = ((1), (.75, 1), …). Its second vector has the sign that the first
    two releases suggest, as an adversary would choose; with one coordinate the sign changes nothing in the law.
    """
    strategy = BandedToeplitz(num_steps=4, bands=2, coefficients=(1.0, 0.75))
    plan = plan_of(CyclicPoisson(0.5, num_parts=2), strategy, steps=4, size=2, noise=1.5)
    epsilon = 1.0
    accountant = fd.accounting.PldAccountant(neighboring_relation=RS)
    accountant.compose(plan.event)
    bounds = accountant.delta_bounds(epsilon)
    rng, draws = np.random.default_rng(5), 200_000
    z = rng.normal(scale=1.5, size=(draws, 4))
    joins = rng.random((draws, 2)) < 0.5
    shifted = z.copy()  # C·y with the unit: rows 0, 1 move by (1, .75)·g₀, rows 2, 3 by (1, .75)·g₁
    shifted[:, 0] += joins[:, 0] * 1.0
    shifted[:, 1] += joins[:, 0] * 0.75
    sign = np.where(shifted[:, 0] + 0.75 * shifted[:, 1] > 0.5, 1.0, -1.0)
    shifted[:, 2] += joins[:, 1] * sign
    shifted[:, 3] += joins[:, 1] * 0.75 * sign

    def ratio(first, second, sign):
        inner = sign * (first + 0.75 * second)
        return 0.5 + 0.5 * np.exp((inner - 0.5 * 1.5625) / 2.25)

    loss = np.log(ratio(shifted[:, 0], shifted[:, 1], 1.0)) + np.log(ratio(shifted[:, 2], shifted[:, 3], sign))
    seen = np.maximum(0.0, 1.0 - np.exp(epsilon - loss))
    error = 6.0 * seen.std() / math.sqrt(draws)  # false alarms below 10⁻⁸

    assert bounds.lower <= seen.mean() + error
    assert seen.mean() - error <= bounds.upper


@pytest.mark.parametrize(("relation", "multiplier"), [(AO, 2.0), (RS, 2.0)])
@pytest.mark.parametrize("strategy", [FALLING, BandedMatrix(np.eye(12) + np.diag(np.linspace(-0.5, 0.5, 11), -1))])
def test_an_allocation_costs_one_to_steps_that_share_no_noise(strategy, relation, multiplier):
    alone, two = (plan_of(RandomAllocation(steps), strategy, relation=relation, noise=2.0) for steps in (12, 6))
    matrix = np.abs(matrix_of(strategy))
    gram = matrix.T @ matrix
    column, meeting = gram.diagonal().max(), (gram - np.diag(gram.diagonal())).max()

    assert isinstance(alone.event, RandomAllocationEvent)
    assert alone.event.num_steps == 12 // strategy.bands
    assert alone.event.event == MatrixMechanismEvent(noise_multiplier=multiplier, sensitivity=strategy.sensitivity())
    [(one, count)] = [(two.event.event, two.event.count)]
    assert (one.num_steps, one.num_selected, count) == (6 // strategy.bands, 1, 2)
    assert column + meeting <= one.event.sensitivity**2 * (1 + 1e-15) <= 2.0 * column * (1 + 1e-15) ** 2
    assert [charge.num_steps for charge in two.charges()] == [6, 6]
    assert alone.epsilon_bounds(DELTA).lower == 0.0 == alone.forecast(DELTA, num_points=2).epsilon_lower[-1]
    assert alone.epsilon(DELTA) < plan_of(FullBatch(), strategy, relation=relation, noise=2.0).epsilon(DELTA)


@pytest.mark.parametrize(("steps", "bands"), [(12, 3), (6, 2), (6, 3), (4, 2), (4, 1)])
def test_columns_that_an_allocation_may_take_are_what_a_contraction_makes_of_orthogonal_ones(steps, bands):
    """Every pattern of rests of all rounds: the largest eigenvalue of their columns' scalar products, and how many."""
    rng = np.random.default_rng(bands)
    for strategy in (
        SquareRoot(num_steps=12, bands=bands),
        BandedToeplitz(num_steps=12, bands=bands, coefficients=(1.0, *rng.uniform(-1.0, 1.0, bands - 1).tolist())),
        BandedMatrix(np.tril(np.triu(rng.uniform(-1, 1, (12, 12)), 1 - bands), -1) + np.eye(12)),
    ):
        if isinstance(strategy, BandedMatrix) and strategy.bands != bands:
            continue
        event = plan_of(RandomAllocation(steps), strategy).charges()[0].event
        matrix = matrix_of(strategy)
        for rests in itertools.product(range(bands), repeat=12 // steps):
            possible = [
                step
                for index in range(12 // steps)
                for step in range(steps * index + rests[index], steps * (index + 1), bands)
            ]
            columns = matrix[:, possible]
            largest = np.linalg.eigvalsh(columns.T @ columns).max()
            assert largest <= event.event.sensitivity**2 * (1 + 1e-12)
            assert len(possible) >= event.num_steps * (12 // steps)


@pytest.mark.parametrize(("rounds", "bands"), [(1, 4), (1, 1), (2, 2)])
def test_allocations_cost_no_more_than_is_charged_by_likelihood_ratios(rounds, bands):
    """δ(ε) of drawn runs, 2·10⁵ of them, in both directions; false alarms below 10⁻⁸."""
    size, sigma, draws = 16, 1.5, 200_000
    strategy = BandedToeplitz(num_steps=size * rounds, bands=bands)
    plan = plan_of(RandomAllocation(size), strategy, relation=AO, steps=size * rounds, noise=sigma)
    accountant = fd.accounting.PldAccountant()
    accountant.compose(plan.event)
    matrix = matrix_of(strategy)
    rng = np.random.default_rng(11)
    pairs = list(itertools.product(range(size), repeat=rounds))
    means = np.array(
        [matrix[:, [size * index + each for index, each in enumerate(pair)]].sum(axis=1) for pair in pairs]
    )
    squares = 0.5 * np.sum(means**2, axis=1) / sigma**2

    def loss(y):
        found = np.empty(len(y))
        for start in range(0, len(y), 10_000):
            inner = y[start : start + 10_000] @ means.T / sigma**2 - squares
            most = inner.max(axis=1)
            found[start : start + 10_000] = most + np.log(np.mean(np.exp(inner - most[:, np.newaxis]), axis=1))
        return found

    z = rng.normal(scale=sigma, size=(draws, size * rounds))
    with_unit = loss(means[rng.integers(len(pairs), size=draws)] + z)
    without = -loss(z)
    for epsilon in (0.1, 0.5, 1.0):
        for seen in (with_unit, without):
            each = np.maximum(0.0, 1.0 - np.exp(epsilon - seen))
            error = 6.0 * each.std() / math.sqrt(draws)
            assert each.mean() - error <= accountant.delta(epsilon)
            if bands == 1 and seen is with_unit and epsilon < 1.0:  # independent noise: the charge is what it costs
                assert accountant.delta(epsilon) <= each.mean() + error + 1e-4


def test_a_round_of_an_allocation_is_left_out_by_whoever_goes_on(tmp_path):
    plan = plan_of(RandomAllocation(6))
    with opened(tmp_path / "a.db") as ledger, opened(tmp_path / "b.db") as other:
        options = {"scope": "a", "key": "t", "noise_file": tmp_path / "n"}
        whole = released(plan.start(np.zeros(3), ledger=ledger, **options))
        charged = ledger.epsilon_charged("a")
        run = plan.start(np.zeros(3), ledger=other, **options)
        for step in run:
            step.add(zeros(step))
            assert np.array_equal(step.release(denominator=1), whole[step.number])
            if step.number == 2:
                break
        again = plan.start(np.zeros(3), ledger=other, **options)

        assert again.step_number == 6
        assert np.array_equal(released(again), whole[6:])
        assert other.epsilon_charged("a") == charged
    seeded = plan.start(np.zeros(3), source=fd.testing.seeded(bytes(32)))
    first = next(seeded)
    first.add(zeros(first))
    first.release()
    assert PlanRun.from_state(seeded.state(), source=fd.testing.seeded(bytes(32))).step_number == 6


def test_calibrated_noise_is_the_least_that_keeps_the_promise():
    plan = plan_of(strategy=SquareRoot(num_steps=12)).calibrated(epsilon=2.0, delta=DELTA)

    assert plan.epsilon(DELTA) <= 2.0
    less = dataclasses.replace(plan, noise=plan.noise.scaled(1 - 1e-9))
    assert less.epsilon(DELTA) > 2.0
    assert plan.max_steps(epsilon=2.0, delta=DELTA) == 12
    assert less.max_steps(epsilon=2.0, delta=DELTA) == 0


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.kind)
def test_a_plan_with_correlated_noise_is_a_value_with_a_json(strategy):
    plan = plan_of(GivenOrder(10, max_participations=2, min_separation=4), strategy)

    again = PrivacyPlan.from_json(plan.to_json())

    assert again == plan
    assert again.fingerprint == plan.fingerprint
    assert again.event == plan.event


def test_an_order_without_a_separation_has_the_json_of_earlier_versions():
    plain = GivenOrder(10, max_participations=2).to_dict()

    assert plain == {"type": "given_order", "batch_size": 10, "max_participations": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": PoissonSampling(0.1)}, r"PoissonSampling does not; use CyclicPoisson\(1\.0, num_parts"),
        ({"sampling": FixedSizeSampling(4)}, "FixedSizeSampling does not"),
        ({"sampling": RandomAllocation(6, 2)}, "num_selected=1 with CorrelatedNoise.*make rounds of 3 steps"),
        (
            {"sampling": RandomAllocation(5)},
            "twice the strategy's 3 bands.*got 5; take a BandedToeplitz of at most 2 bands",
        ),
        (
            {"sampling": RandomAllocation(12), "strategy": BufferedToeplitz(num_steps=12, buffers=1)},
            "twice the strategy's 12 bands",
        ),
        ({"sampling": CyclicPoisson(0.5, num_parts=2)}, "num_parts >= the strategy's 3 bands"),
        (
            {"sampling": CyclicPoisson(0.5, num_parts=4), "strategy": BufferedToeplitz(num_steps=12, buffers=1)},
            "num_parts >= the strategy's 12 bands",
        ),
        ({"steps": 13}, "at most the strategy's 12, got 13; make the strategy with num_steps=13"),
        ({"clipping": AdaptiveClipping(1.0, count_noise_multiplier=50.0)}, "FlatClipping or AutomaticClipping"),
        ({"clipping": PerGroupClipping({"a": 1.0})}, "FlatClipping or AutomaticClipping"),
        ({"strategy": Tree(num_steps=12)}, "BufferedToeplitz"),
    ],
)
def test_what_no_theorem_covers_is_refused(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        plan_of(**changes)


def test_a_strategy_has_to_be_one():
    with pytest.raises(InvalidType, match="must be a Strategy such as"):
        CorrelatedNoise("square_root", 1.0)


# what is drawn


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.kind)
def test_the_strategy_makes_independent_noise_of_what_all_steps_release(strategy, dtype):
    """C times the releases is Z: of 12·4000 numbers, variances and all covariances, at a false-alarm rate of 10⁻⁶."""
    size, noise, norm = 4000, 1.25, 0.5
    plan = plan_of(strategy=strategy, noise=noise, clipping=FlatClipping(norm))

    z = matrix_of(strategy) @ released(plan.start(np.zeros(size, dtype)), size, dtype).astype(float) / (noise * norm)

    gram = z @ z.T / size
    limit = 6.0 / math.sqrt(size)  # 78 sums, each normal to 10⁻² of its tail: 78·2·10⁻⁹
    assert np.abs(gram - np.diag(np.diag(gram))).max() < limit
    assert np.abs(np.diag(gram) - 1.0).max() < math.sqrt(2.0) * limit


def test_the_sum_of_the_vectors_is_in_what_is_released():
    plan = plan_of(noise=1e-6)
    for step in plan.start(np.zeros(3, np.float32)):
        step.add(np.full((len(step.indices), 3), 0.25, np.float32))
        assert step.release() == pytest.approx(0.25, abs=1e-4)  # 100 deviations


def test_a_sum_of_compiled_code_has_the_same_noise():
    seeded = [plan_of().start(np.zeros(3), source=fd.testing.seeded(bytes(32))) for _ in range(2)]
    expected = released(seeded[0])
    found = np.array([step.release_sum(np.zeros(3), denominator=1) for step in seeded[1]])

    assert found == pytest.approx(expected, abs=1e-7)  # sums lie on a grid of their own


def test_a_sum_that_a_framework_bounds_has_the_same_noise():
    seeded = [plan_of().start(np.zeros(3), source=fd.testing.seeded(bytes(32))) for _ in range(2)]
    expected = released(seeded[0])
    found = []
    for step in seeded[1]:
        values = np.zeros(3)
        release_bounded(step, values, count=len(step.indices), within=len(step.indices))
        found.append(values)

    assert np.array(found) == pytest.approx(expected, abs=1e-7)


def test_automatic_clipping_has_correlated_noise_too():
    run = plan_of(clipping=AutomaticClipping(stability=0.1), noise=1e-6).start(np.zeros(2))
    step = next(run)
    step.add(np.tile([3.0, 4.0], (len(step.indices), 1)))

    assert step.release() == pytest.approx(np.array([3.0, 4.0]) / 5.1, abs=1e-4)


def test_a_seeded_run_repeats_itself_and_is_not_private():
    runs = [plan_of().start(np.zeros(3), source=fd.testing.seeded(bytes(32))) for _ in range(2)]
    first, second = (released(run) for run in runs)

    assert np.array_equal(first, second)
    assert runs[0].epsilon(DELTA) == math.inf
    assert not np.array_equal(released(plan_of().start(np.zeros(3))), released(plan_of().start(np.zeros(3))))


def test_a_step_goes_on_with_the_noise_of_its_place():
    plan, source = plan_of(), fd.testing.seeded(bytes(32))
    whole = released(plan.start(np.zeros(3), source=source))
    run = plan.start(np.zeros(3), source=fd.testing.seeded(bytes(32)))
    for step in run:
        step.add(zeros(step))
        step.release()
        if step.number == 4:
            break
    state = run.state()

    again = PlanRun.from_state(state, source=fd.testing.seeded(bytes(32)))
    rest = released(again)

    assert np.array_equal(rest, whole[5:])
    with pytest.raises(FerroError, match="state must be the newest"):
        PlanRun.from_state(state)


def test_a_state_without_its_key_is_none():
    plain = json.loads(plan_of().start(np.zeros(3)).state())
    for key in (None, "00", 7):
        changed = {**plain, "noise_key": key}
        with pytest.raises(InvalidParameter, match="the key of its noise"):
            PlanRun.from_state(json.dumps(changed).encode())
    del plain["noise_key"]
    with pytest.raises(InvalidParameter, match="the key of its noise"):
        PlanRun.from_state(json.dumps(plain).encode())


# with a ledger


def opened(path):
    ledger = fd.PrivacyLedger.open(path)
    if not ledger.scopes:
        ledger.create("a", epsilon=100.0, delta=DELTA, measure="rdp", neighboring_relation=RS)
    return ledger


def test_the_ledger_is_charged_once_and_a_run_goes_on_with_its_noise(tmp_path):
    plan = plan_of()
    with opened(tmp_path / "a.db") as ledger, opened(tmp_path / "b.db") as other:
        options = {"scope": "a", "key": "t"}
        whole = released(plan.start(np.zeros(3), ledger=ledger, noise_file=tmp_path / "n", **options))
        charged = ledger.epsilon_charged("a")
        run = plan.start(np.zeros(3), ledger=other, noise_file=tmp_path / "n", **options)
        for step in run:
            step.add(zeros(step))
            assert np.array_equal(step.release(denominator=1), whole[step.number])
            assert other.epsilon_charged("a") == charged
            if step.number == 3:
                break
        abandoned = next(run)
        abandoned.add(zeros(abandoned))
        abandoned._payments.pay(abandoned.number)  # as if the process had died after its charge
        again = plan.start(np.zeros(3), ledger=other, noise_file=tmp_path / "n", **options)

        assert again.step_number == 5
        assert np.array_equal(released(again), whole[5:])
        assert other.epsilon_charged("a") == charged

    assert stat.S_IMODE((tmp_path / "n").stat().st_mode) == 0o600
    assert not list(tmp_path.glob("n.*"))


def test_a_plan_charged_as_one_has_the_same_noise_too(tmp_path):
    plan = plan_of(noise=5.0)
    with fd.PrivacyLedger.open(tmp_path / "a.db") as ledger:
        ledger.create("a", epsilon=plan.epsilon(DELTA), delta=DELTA, measure="pure", neighboring_relation=RS)
        options = {"scope": "a", "key": "t", "plan_delta": DELTA, "noise_file": tmp_path / "n", "ledger": ledger}
        first = next(plan.start(np.zeros(3), **options))
        first.add(zeros(first))
        first.release()
        rest = released(plan.start(np.zeros(3), **options))

        assert len(rest) == 11
        assert ledger.report("a").epsilon_charged == plan.epsilon(DELTA)


def test_noise_that_is_lost_is_not_replaced(tmp_path):
    plan = plan_of()
    with opened(tmp_path / "a.db") as ledger:
        options = {"ledger": ledger, "scope": "a", "key": "t", "noise_file": tmp_path / "n"}
        step = next(plan.start(np.zeros(3), **options))
        step.add(zeros(step))
        step.release()
        kept = (tmp_path / "n").read_bytes()
        (tmp_path / "n").unlink()
        with pytest.raises(FerroError, match="the noise that cancels theirs is lost"):
            plan.start(np.zeros(3), **options)
        (tmp_path / "n").write_bytes(kept[:-10])
        with pytest.raises(InvalidParameter, match="one that a run made"):
            plan.start(np.zeros(3), **options)
        (tmp_path / "n").write_bytes(kept)
        with pytest.raises(InvalidParameter, match="of another key or plan"):
            plan.start(np.zeros(3), **options | {"key": "u"})
        with pytest.raises(InvalidParameter, match="of another key or plan"):
            plan_of(size=44).start(np.zeros(3), **options)
        assert plan.start(np.zeros(3), **options).step_number == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "t"}, "key and noise_file must be given together"),
        ({"noise_file": "n"}, "key and noise_file must be given together"),
        ({"audit_canaries": 1000}, "audit_canaries must be 0"),
    ],
)
def test_runs_that_could_not_go_on_are_refused_first(tmp_path, options, message):
    with opened(tmp_path / "a.db") as ledger:
        with pytest.raises(InvalidParameter, match=message):
            plan_of().start(np.zeros(3), ledger=ledger, scope="a", **options)
        assert ledger.epsilon_charged("a") == 0.0
        with pytest.raises(InvalidType, match="noise_file must be a path"):
            plan_of().start(np.zeros(3), ledger=ledger, scope="a", key="t", noise_file=7)
        with pytest.raises(InvalidParameter, match="noise_file must be None"):
            dataclasses.replace(plan_of(), noise=ConstantNoise(1.0)).start(
                np.zeros(3), ledger=ledger, scope="a", key="t", noise_file=tmp_path / "n"
            )


def test_a_block_that_charges_releases_one_by_one_is_refused():
    run = plan_of().start(np.zeros(3))
    step = next(run)
    step.add(zeros(step))
    with fd.budget(epsilon=1.0, delta=DELTA, neighboring_relation=RS):
        with pytest.raises(InvalidParameter, match="must not be in a `with budget"):
            plan_of().start(np.zeros(3))
        with pytest.raises(InvalidParameter, match="must not be in a `with budget"):
            step.release()
    step.release()


def test_clients_that_noise_for_themselves_are_refused():
    plan = plan_of(FullBatch(), unit="client")

    with pytest.raises(InvalidParameter, match="independent noise where clients draw it"):
        PlacedRun(plan, {"w": np.zeros(3)}, DistributedPlacement(min_clients=40), delta=DELTA)


def test_a_forked_child_cannot_draw():
    run = plan_of().start(np.zeros(3))

    def draws():
        with pytest.raises(FerroError, match="forked"):
            next(run)
        with pytest.raises(FerroError, match="forked"):
            run._correlated.add_to(np.zeros(3))

    assert children.run(draws) == 0


def _train(folder, diary, delay):
    """Train until the end; write what each step released."""
    with fd.PrivacyLedger.open(folder / "b.db") as ledger, children.diary(diary) as wrote:
        run = plan_of().start(np.zeros(3), ledger=ledger, scope="a", key="t", noise_file=folder / "noise")
        for step in run:
            time.sleep(delay)
            step.add(zeros(step))
            wrote(json.dumps([step.number, *step.release(denominator=1).tolist()]))


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_a_training_draws_the_same_noise_and_no_step_twice(tmp_path, seed):
    """20 kills in all; each seed kills 7 times at random moments of up to twice a step."""
    opened(tmp_path / "b.db").close()
    draw = random.Random(seed)
    for _ in range(7):
        child = children.start(_train, tmp_path, tmp_path / "diary", 0.004)
        time.sleep(draw.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        children.end_of(child)
    assert children.run(_train, tmp_path, tmp_path / "diary", 0.0) == 0

    written = [json.loads(line) for line in (tmp_path / "diary").read_text().splitlines()]
    numbers = [number for number, *_ in written]
    assert numbers == sorted(set(numbers))
    with opened(tmp_path / "c.db") as other:
        run = plan_of().start(np.zeros(3), ledger=other, scope="a", key="t", noise_file=tmp_path / "noise")
        whole = released(run)
        with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
            assert ledger.epsilon_charged("a") == other.epsilon_charged("a")
    assert all(np.array_equal(values, whole[number]) for number, *values in written)


def test_trees_of_arrays_have_the_noise_of_one_array_of_their_coordinates():
    plan = fd.PrivacyPlan(
        population_size=10,
        sampling=FullBatch(),
        num_steps=3,
        clipping=FlatClipping(1.0),
        noise=CorrelatedNoise(BandedToeplitz(num_steps=3, bands=2), 2.0),
    )
    rows = np.random.default_rng(1).normal(size=(10, 5))

    def released(template, split):
        found = []
        for step in plan.start(template, source=fd.testing.seeded(b"t" * 32)):
            step.add(split(rows))
            found.append(step.release())
        return found

    flat = released(np.zeros(5), lambda each: each)
    trees = released(
        {"w": np.zeros((2, 1)), "b": np.zeros(3)}, lambda each: {"w": each[:, :2].reshape(10, 2, 1), "b": each[:, 2:]}
    )
    for one, tree in zip(flat, trees, strict=True):
        np.testing.assert_array_equal(one, np.concatenate([tree["w"].ravel(), tree["b"]]))
