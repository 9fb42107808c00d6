"""What rounds cost: never less than the truth, by whatever method."""

import dataclasses
import functools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import (
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
)
from ferrodp.engine import (
    AccountingMethod,
    DifferentialPrivacyEngine,
    DifferentialPrivacyProtocol,
    DPConfig,
    NoiseMechanism,
    PrivacyBudget,
    Sampling,
    _accounts,
)
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from reference import rdp_reference

METHODS = list(AccountingMethod)
MECHANISMS = list(NoiseMechanism)
POPULATION = 200


def engine_of(config, sampling=Sampling.POISSON):
    return DifferentialPrivacyEngine(config, sampling=sampling, population_size=POPULATION)


def spent(config, steps, sampling=Sampling.POISSON):
    calm = DPConfig(noise_multiplier=1000.0)
    return engine_of(calm, sampling).compute_privacy_spent(config, steps)


def is_supported(config):
    """The table of the engine's documentation."""
    return config.accounting is not AccountingMethod.ZCDP or config.sampling_rate == 1


@functools.cache
def least_epsilon(mechanism, multiplier, rate, steps, delta, sampling):
    """A certified lower bound on what any method may say: the privacy loss of one pair of neighbors.

    Where a client is replaced, all others contribute nothing, and its update is replaced by its opposite (Gaussian) or
    by zeros; the size of the sample is then of no account, and the pair is one of Poisson sampling. Discrete noise is
    taken on a coarse grid, of four units: a method must be right on every grid.
    """
    relation, null_distance = NeighboringRelation.ADD_OR_REMOVE_ONE, math.inf
    if mechanism is NoiseMechanism.GAUSSIAN and sampling is Sampling.UNIFORM:
        relation, null_distance = NeighboringRelation.REPLACE_ONE, 0.5
        noise = GaussianEvent(noise_multiplier=multiplier / 2)
    elif mechanism is NoiseMechanism.GAUSSIAN:
        noise = GaussianEvent(noise_multiplier=multiplier)
    elif mechanism is NoiseMechanism.LAPLACE:
        noise = LaplaceEvent(noise_multiplier=multiplier)
    else:
        noise = DiscreteGaussianEvent(scale=4 * multiplier, l2_sensitivity=4)
    accountant = PldAccountant(neighboring_relation=relation)
    sampled = PoissonSampledEvent(sampling_probability=rate, event=noise, null_distance=null_distance)
    accountant.compose(sampled, steps)
    return accountant.epsilon_bounds(delta).lower


CASES = [(1, 0.05, 1.0), (40, 0.05, 1.0), (40, 1.0, 8.0)]


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_above_the_truth_or_refuses(method, mechanism, sampling):
    for steps, rate, multiplier in CASES:
        config = DPConfig(mechanism, method, noise_multiplier=multiplier, sampling_rate=rate)
        if not is_supported(config):
            with pytest.raises(UnsupportedEventError, match=f"accounting='{method.value}'.*; use AccountingMethod"):
                spent(config, steps, sampling)
            with pytest.raises(UnsupportedEventError):
                engine_of(config, sampling)
            continue

        report = spent(config, steps, sampling)

        least = least_epsilon(mechanism, multiplier, rate, steps, config.target_delta, sampling)
        assert least > 0.0, "the comparison would be empty"
        assert report.epsilon_spent >= least
        assert report.delta_spent == config.target_delta
        assert report.num_compositions == steps
        assert report.accounting_method is method


@settings(max_examples=12)
@given(
    mechanism=st.sampled_from(["gaussian", "laplace"]),
    method=st.sampled_from([method for method in METHODS if method is not AccountingMethod.ZCDP]),
    multiplier=st.floats(0.7, 20.0),
    rate=st.floats(0.01, 1.0),
    steps=st.integers(1, 100),
    delta=st.floats(-18.0, -4.0).map(lambda exponent: 10.0**exponent),
)
def test_any_configuration_is_above_the_truth_and_consistent(mechanism, method, multiplier, rate, steps, delta):
    config = DPConfig(
        mechanism, method, noise_multiplier=multiplier, sampling_rate=rate, target_delta=delta, target_epsilon=4.0
    )

    report, next_report = spent(config, steps), spent(config, steps + 1)

    assert report.epsilon_spent >= least_epsilon(config.mechanism, multiplier, rate, steps, delta, Sampling.POISSON)
    assert next_report.epsilon_spent >= report.epsilon_spent * (1 - 1e-9)  # grids are placed anew
    assert (report.estimated_rounds_left > 0) == (next_report.epsilon_spent <= 4.0)
    assert 0.0 <= report.budget_remaining <= max(0.0, 4.0 - report.epsilon_spent)


def test_the_six_orders_of_the_default_configuration_give_the_published_bound():
    """ρ by the binomial sum of Mironov, Talwar, Zhang, and the conversion of Balle et al., both from their formulas."""
    config, steps = DPConfig(), 1000
    totals = {
        order: steps * rdp_reference.poisson_gaussian_integer(config.sampling_rate, config.noise_multiplier, order)
        for order in (2, 5, 10, 20, 50, 100)
    }
    expected = min(rdp_reference.epsilon(order, rho, config.target_delta) for order, rho in totals.items())

    report = DifferentialPrivacyEngine().compute_privacy_spent(config, steps)

    assert report.epsilon_spent >= expected
    # curves are within 1e-12 relatively, times some ten for the cancellation in the conversion
    assert report.epsilon_spent <= expected * (1 + 1e-11)
    assert report.noise_scale == 1.1
    assert report.budget_remaining == pytest.approx(8.0 - float(expected), rel=1e-11)
    assert report.budget_remaining <= 8.0 - report.epsilon_spent


def test_no_other_orders_are_used():
    one = spent(DPConfig(renyi_orders=(3,)), 1000).epsilon_spent
    rho = 1000 * rdp_reference.poisson_gaussian_integer(0.01, 1.1, 3)

    assert one == pytest.approx(float(rdp_reference.epsilon(3, rho, 1e-5)), rel=1e-11)
    assert one > spent(DPConfig(), 1000).epsilon_spent


@pytest.mark.parametrize("mechanism", [NoiseMechanism.GAUSSIAN, NoiseMechanism.LAPLACE])
@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_better_theorems_promise_no_less(mechanism, rate):
    config = DPConfig(mechanism, noise_multiplier=4.0, sampling_rate=rate)

    def epsilon(method):
        return spent(dataclasses.replace(config, accounting=method), 30).epsilon_spent

    basic, advanced, optimal, pld = map(epsilon, ["basic", "advanced", "optimal", "pld"])
    assert basic >= advanced >= optimal >= pld
    assert epsilon("moments") >= pld


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("method", "theorem"), [("advanced", "compose_advanced"), ("optimal", "compose_optimal")])
def test_no_part_of_delta_is_spent_twice(monkeypatch, mechanism, method, theorem):
    """What the rounds fail with and what composition adds come to δ at most, in exact arithmetic."""
    composed, asked = getattr(_accounts, theorem), []

    def spy(guarantees, *, count, **how):
        asked.append((guarantees, count, how))
        return composed(guarantees, count=count, **how)

    monkeypatch.setattr(_accounts, theorem, spy)
    config = DPConfig(mechanism, method, noise_multiplier=9.0, sampling_rate=0.37, target_delta=1.7e-5)

    assert spent(config, 13).epsilon_spent > 0.0

    assert asked
    for ((epsilon, delta),), count, how in asked:
        rounds = count * Fraction(delta)
        assert count * Fraction(delta) > Fraction(1, 20) * Fraction(config.target_delta)
        assert epsilon >= least_epsilon(config.mechanism, 9.0, 0.37, 1, delta, Sampling.POISSON) > 0.0
        assert rounds + Fraction(how.get("extra_delta", 0)) <= Fraction(config.target_delta)
        assert how.get("delta", config.target_delta) == config.target_delta


@pytest.mark.parametrize("method", METHODS)
def test_the_estimate_is_the_last_count_within_the_target(method):
    rate = 1.0 if method is AccountingMethod.ZCDP else 0.05
    config = DPConfig(accounting=method, noise_multiplier=2.0 if rate < 1 else 12.0, sampling_rate=rate)

    left = spent(config, 0).estimated_rounds_left

    assert left >= 1
    assert spent(config, left).epsilon_spent <= config.target_epsilon < spent(config, left + 1).epsilon_spent
    assert spent(config, 1).estimated_rounds_left == left - 1
    assert spent(config, left + 5).estimated_rounds_left == 0
    assert spent(config, left + 5).budget_remaining == 0.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("multiplier", "rate", "steps", "delta"),
    [
        (1e6, 1.0, 2**63 - 1, 1e-5),
        (1e300, 1.0, 2**63 - 1, 1e-5),
        (1.0, 1e-300, 5, 1e-5),
        (1e-300, 1.0, 1, 1e-5),
        (5.0, 1.0, 10, 1e-299),
        (5.0, 1.0, 10, 1 - 2**-53),
    ],
)
def test_extreme_configurations_have_an_answer(method, multiplier, rate, steps, delta):
    config = DPConfig("gaussian", method, noise_multiplier=multiplier, sampling_rate=rate, target_delta=delta)
    if not is_supported(config):
        return

    report = spent(config, steps)

    assert 0.0 <= report.epsilon_spent <= math.inf
    assert 0 <= report.estimated_rounds_left <= 2**63 - 1


def test_nothing_costs_nothing():
    report = spent(DPConfig(target_epsilon=3.0), 0)

    assert (report.epsilon_spent, report.delta_spent, report.budget_remaining) == (0.0, 0.0, 3.0)


@pytest.mark.parametrize("sampling", Sampling)
def test_sampling_of_fixed_size_is_accounted_for_replacement(sampling):
    """The size that is drawn is the size that is accounted: 0.013·200 is rounded to 3."""
    engine = engine_of(DPConfig(sampling_rate=0.013, noise_multiplier=4.0), sampling)

    if sampling is Sampling.UNIFORM:
        assert engine.neighboring_relation is NeighboringRelation.REPLACE_ONE
        assert (engine.event.sample_size, engine.event.population_size) == (3, POPULATION)
        assert engine.event.event == GaussianEvent(noise_multiplier=2.0)
    else:
        assert engine.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE
        assert engine.event.sampling_probability == 0.013


# the rest of the protocol


def test_the_engine_satisfies_the_protocol():
    assert isinstance(DifferentialPrivacyEngine(), DifferentialPrivacyProtocol)
    assert not isinstance(object(), DifferentialPrivacyProtocol)


def test_renyi_divergence_is_exact_and_rounded_up():
    engine = DifferentialPrivacyEngine()

    assert engine.renyi_divergence(2, 1) == 1.0
    assert engine.renyi_divergence(1, 1) == 0.5
    assert engine.renyi_divergence(1, 3) == math.nextafter(1 / 18, 1)  # the float nearest to 1/18 is below it
    for alpha, sigma in [(0.5, 1), (2, 0), (2, -1), (math.nan, 1), (2, math.nan), (math.inf, 1)]:
        with pytest.raises(InvalidParameter):
            engine.renyi_divergence(alpha, sigma)


def test_a_budget_is_kept_up_to_its_last_float():
    check = DifferentialPrivacyEngine().check_budget

    assert check(PrivacyBudget(1.0))
    assert check(PrivacyBudget(1.0, 1e-5, 1.0, 1e-5, 3))
    assert not check(PrivacyBudget(1.0, 1e-5, math.nextafter(1.0, 2.0), 1e-5))
    assert not check(PrivacyBudget(1.0, 1e-5, 0.5, 2e-5))
    assert not check(PrivacyBudget(1.0, consumed_epsilon=math.inf))
    with pytest.raises(InvalidType):
        check(1.0)


@pytest.mark.parametrize("steps", [-1, 1.0, True, "3", None])
def test_numbers_of_rounds_are_checked(steps):
    with pytest.raises((InvalidParameter, InvalidType), match="num_steps"):
        DifferentialPrivacyEngine().compute_privacy_spent(DPConfig(), steps)


def test_configurations_are_checked():
    with pytest.raises(InvalidType, match="config"):
        DifferentialPrivacyEngine().compute_privacy_spent({}, 1)
    with pytest.raises(InvalidType, match="config"):
        DifferentialPrivacyEngine(8.0)
