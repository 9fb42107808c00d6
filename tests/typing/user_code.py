"""Code as users write it, for a type checker to read: what public calls return, as far as types can tell.

`test_user_code.py` runs mypy on it with ``--strict``; it is never executed.
"""

from fractions import Fraction
from typing import assert_type

import numpy as np
import numpy.typing as npt

import ferrodp as fd
from ferrodp import accounting, budget, engine, events, plan, random, statistics, sums, testing, tickets

Singles = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Model = dict[str, Singles]

singles: Singles = np.zeros(3, np.float32)
doubles: Doubles = np.zeros((4, 3))
longs: Longs = np.zeros(3, np.int64)
model: Model = {"w": singles}


def plans(ledger: budget.PrivacyLedger) -> None:
    made = fd.PrivacyPlan(
        population_size=100,
        sampling=plan.PoissonSampling(0.5),
        num_steps=3,
        clipping=plan.FlatClipping(1),
        noise=plan.ConstantNoise(1.1),
    )
    assert_type(made.calibrated(epsilon=1, delta=1e-5), fd.PrivacyPlan)
    assert_type(made.epsilon(1e-5), float)
    assert_type(made.epsilon_bounds(1e-5).lower, float)
    assert_type(made.max_steps(epsilon=1.0, delta=1e-5), int)
    assert_type(made.forecast(1e-5), plan.Forecast)
    run = made.start(model, ledger=ledger, scope="a", key="b")
    assert_type(run, plan.PlanRun[Model])
    for step in run:
        assert_type(step.indices, Longs | None)
        step.add({"w": np.zeros((2, 3), np.float32)})
        assert_type(step.release(), Model)
    assert_type(next(made.start((3,))).release(), Doubles)
    assert_type(next(made.start({"w": (3,)})).release(denominator=1), dict[str, Doubles])
    assert_type(run.state(), bytes)


def blocks(ledger: fd.budget.PrivacyLedger) -> None:
    with fd.budget(epsilon=1, delta=1e-6, ledger=ledger, scope="a", parts=2) as spending:
        assert_type(fd.private_count(doubles[0]), statistics.Estimate[int])
        assert_type(spending.next_share.epsilon, float)
    assert_type(spending.report(), budget.SpendingReport)
    assert_type(spending.report().epsilon_spent, float)


def mechanisms(ticket: tickets.Ticket) -> None:
    gaussian = fd.GaussianMechanism.calibrated(epsilon=1, delta=1e-6, l2_sensitivity=Fraction(1, 2))
    assert_type(gaussian, fd.GaussianMechanism)
    assert_type(gaussian.release(1), float)
    assert_type(gaussian.release(1.0, ticket=ticket), float)
    assert_type(gaussian.release(np.float64(1.0), threads=2), float)
    assert_type(gaussian.release(singles), Singles)
    assert_type(gaussian.release(doubles, out=doubles, nonfinite="raise"), Doubles)
    assert_type(gaussian.release([1.0, 2.0]), npt.NDArray[np.floating])
    assert_type(gaussian.epsilon(1e-6), float)
    assert_type(gaussian.delta(1.0), float)
    assert_type(gaussian.event, events.GaussianEvent)
    assert_type(gaussian.standard_deviation, float)
    laplace = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0)
    assert_type(laplace.release(singles, source=testing.seeded(bytes(32))), Singles)
    assert_type(laplace.event, events.LaplaceEvent)
    discrete = fd.DiscreteGaussianMechanism(scale=2.0)
    assert_type(discrete.release(3), int)
    assert_type(discrete.release(np.int64(3), fixed_time=True), int)
    assert_type(discrete.release(longs), Longs)
    assert_type(fd.DiscreteLaplaceMechanism(scale=Fraction(1, 2)).release(longs, out=longs), Longs)
    exponential = fd.ExponentialMechanism.calibrated(epsilon=1.0, sensitivity=1.0)
    assert_type(exponential, fd.ExponentialMechanism)
    assert_type(exponential.release(doubles), int)
    assert_type(exponential.release([1.0, 2.0], candidates=["a", "b"]), str)
    assert_type(fd.ReportNoisyMax(scale=1.0, sensitivity=1.0).epsilon(), float)
    response = fd.RandomizedResponse(noise_parameter=0.5)
    assert_type(response.release(True), bool)
    assert_type(response.release(1), int)
    assert_type(response.release(longs), Longs)
    assert_type(response.estimate_frequencies([0, 1]), Doubles)
    run = fd.SparseVector(threshold=1, sensitivity=Fraction(1, 3), epsilon=1.0)
    assert_type(run.query(2.0), bool)
    assert_type(run.remaining, int)
    assert_type(run.threshold_scale, float)


def noise() -> None:
    source = fd.NoiseSource()
    assert_type(source.gaussian(3, standard_deviation=1.0), Doubles)
    assert_type(source.gaussian((2, 3), standard_deviation=1, dtype=np.float32, threads=2), Singles)
    assert_type(source.laplace(3, scale=Fraction(1, 3), dtype=np.dtype(np.float32)), Singles)
    assert_type(source.laplace(3, scale=1.0, dtype="float32"), npt.NDArray[np.floating])
    assert_type(source.discrete_gaussian(3, scale=1.0), Longs)
    assert_type(source.bernoulli_exp(0.5), bool)
    assert_type(source.bernoulli_exp(doubles), npt.NDArray[np.bool_])
    assert_type(source.bytes(8), bytes)
    assert_type(random.poisson_sample(10, 0.5), Longs)
    assert_type(testing.seeded(bytes(32)), testing.SeededNoiseSource)


def clipped_sums() -> None:
    assert_type(fd.clip_rows(doubles, clip_norm=1.0), tuple[Doubles, Doubles])
    assert_type(fd.clip_by_global_norm(model, clip_norm=1), tuple[Model, float])
    total = fd.clip_and_sum(doubles, clip_norm=1.0)
    assert_type(total, sums.GridSum[Doubles])
    assert_type(total.release(noise_multiplier=1.0), Doubles)
    assert_type(total.to_float(), Doubles)
    assert_type(total.event, events.PrivacyEvent)
    assert_type(fd.ClippedSum(model, clip_norm=1.0).release(noise_multiplier=1.0), Model)
    assert_type(fd.ClippedSum((3,), clip_norm=1.0).release(noise_multiplier=1.0), Doubles)
    assert_type(fd.ClippedSum((3,), clip_norm=1.0, dtype=np.float32).release(noise_multiplier=1.0), Singles)
    by_shapes = fd.ClippedSum({"w": (2, 3), "b": (3,)}, clip_norm=1.0, dtype=np.float32)
    assert_type(by_shapes.release(noise_multiplier=1, denominator=10), Model)
    assert_type(by_shapes.to_float(), dict[str, Doubles])
    assert_type(by_shapes.state(), bytes)
    layers = fd.ClippedSum([(singles, singles), (singles, singles)], clip_norm=1.0)
    assert_type(layers.release(noise_multiplier=1.0), list[tuple[Singles, Singles]])


def columns() -> None:
    assert_type(fd.private_count([1, 2, 3], epsilon=1.0), statistics.Estimate[int])
    assert_type(fd.private_count(longs, epsilon=1.0).value, int)
    assert_type(fd.private_sum(doubles, bounds=(0, 1), epsilon=1.0).value, float)
    assert_type(fd.private_mean(doubles, bounds=(0, 1), epsilon=1.0).value, float)
    assert_type(fd.private_histogram(longs, bins=[0, 1], epsilon=1.0).value, Longs)
    assert_type(fd.private_quantile(longs, 0.5, bounds=(0, 1), epsilon=1.0).value, float)
    count, mean = fd.private_count(longs, epsilon=1.0), fd.private_mean(doubles, bounds=(0, 1), epsilon=1.0)
    assert_type(count + 1, statistics.Estimate[int])
    assert_type(2 * count - 1, statistics.Estimate[int])
    assert_type(count / 2, statistics.Estimate[float])
    assert_type((1.5 - mean).value, float)
    assert_type(round(mean, 1), float)
    assert_type(round(count), int)
    assert_type(mean.interval(0.9).lower, float)
    assert_type(count.interval().upper, float)
    bins = fd.private_histogram(longs, bins=[0, 1], epsilon=1.0)
    assert_type(bins[0], statistics.Estimate[int])
    assert_type(bins[0].value, int)
    assert_type(len(bins), int)
    assert_type(bins.interval().lower, Doubles)
    assert_type(bins.edges, Doubles | None)
    assert_type(float(mean), float)


def costs() -> None:
    accountant = accounting.PldAccountant()
    accountant.compose(events.GaussianEvent(noise_multiplier=1.0), count=10)
    assert_type(accountant.epsilon(1e-6), float)
    assert_type(accountant.delta(1.0), float)
    assert_type(accountant.copy(), accounting.PldAccountant)
    assert_type(accounting.dp_sgd_epsilon(1.0, 0.01, 1000, delta=1e-5), float)
    assert_type(accounting.dp_sgd_epsilon([1.0, 2.0], 0.01, 1000, delta=1e-5), Doubles)


def rounds(ledger: budget.PrivacyLedger) -> None:
    trainer = engine.DifferentialPrivacyEngine(engine.DPConfig(), population_size=100, ledger=ledger, scope="a")
    assert_type(trainer.sample(), Longs)
    assert_type(trainer.round([model], template=model), Model)
    assert_type(trainer.round([], template={"w": (3,)}), dict[str, Doubles])
    for released in trainer.run_rounds(lambda clients: [model for _ in clients], template=model, num_rounds=2):
        assert_type(released, Model)
    assert_type(trainer.clip_gradients(model, 1.0), tuple[Model, float])
    assert_type(trainer.per_sample_clip(model, 1.0), tuple[Model, Doubles])
    assert_type(trainer.add_noise(model, engine.DPConfig()), Model)
    assert_type(trainer.compute_privacy_spent(engine.DPConfig(), 10), engine.CertifiedReport)
    assert_type(trainer.get_noise_multiplier(8, 1e-5, 0.01, 100), float)
    assert_type(engine.GaussianDifferentialPrivacy().apply_privacy(model, 1.0, 1e-6), Model)
    assert_type(engine.uniform_sample(10, 3), Longs)
    assert_type(ledger.reserve("a", trainer.event), tickets.Ticket)
