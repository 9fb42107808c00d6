"""What rounds cost: never less than the truth, by whatever method."""

import dataclasses
import functools
import itertools
import math

import mpmath as mp
import pytest
from reference import rdp_reference

from ferrodp.accounting import (
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    calibrate_noise_multiplier,
)
from ferrodp.engine import (
    AccountingMethod,
    DifferentialPrivacyEngine,
    DifferentialPrivacyProtocol,
    DPConfig,
    NoiseMechanism,
    PrivacyBudget,
    Sampling,
)
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType, UnsupportedEventError

METHODS = list(AccountingMethod)
MECHANISMS = list(NoiseMechanism)
POPULATION = 200


def engine_of(config, sampling=Sampling.POISSON):
    return DifferentialPrivacyEngine(config, sampling=sampling, population_size=POPULATION)


def spent(config, steps, sampling=Sampling.POISSON):
    calm = DPConfig(noise_multiplier=1000.0)
    return engine_of(calm, sampling).compute_privacy_spent(config, steps)


def is_supported(config, sampling):
    """The table of the engine's documentation."""
    sampled = config.sampling_rate < 1
    if config.accounting is AccountingMethod.ZCDP:
        return not sampled
    if config.mechanism is not NoiseMechanism.DISCRETE_GAUSSIAN:
        return True
    if config.accounting is AccountingMethod.PLD:
        return False
    if config.accounting in (AccountingMethod.MOMENTS, AccountingMethod.RENYI):
        return not sampled or sampling is Sampling.POISSON
    return True


@functools.cache
def least_epsilon(mechanism, multiplier, rate, steps, delta, sampling):
    """A certified lower bound on what any method may say: the privacy loss of one pair of neighbors.

    Where a client is replaced, all others contribute nothing, and its update is replaced by its opposite (Gaussian) or
    by zeros; the size of the sample is then of no account, and the pair is one of Poisson sampling. Discrete noise is
    taken on a coarse grid, of four units: a method must be right on every grid.
    """
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    if mechanism is NoiseMechanism.GAUSSIAN and sampling is Sampling.UNIFORM:
        relation = NeighboringRelation.REPLACE_ONE
        noise = GaussianEvent(noise_multiplier=multiplier / 2)
    elif mechanism is NoiseMechanism.GAUSSIAN:
        noise = GaussianEvent(noise_multiplier=multiplier)
    elif mechanism is NoiseMechanism.LAPLACE:
        noise = LaplaceEvent(noise_multiplier=multiplier)
    else:
        noise = DiscreteGaussianEvent(scale=4 * multiplier, l2_sensitivity=4)
    accountant = PldAccountant(neighboring_relation=relation)
    accountant.compose(PoissonSampledEvent(sampling_probability=rate, event=noise), steps)
    return accountant.epsilon_bounds(delta).lower


CASES = [(1, 0.05, 1.0), (40, 0.05, 1.0), (40, 1.0, 8.0)]


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_above_the_truth_or_refuses(method, mechanism, sampling):
    for steps, rate, multiplier in CASES:
        config = DPConfig(mechanism, method, noise_multiplier=multiplier, sampling_rate=rate)
        if not is_supported(config, sampling):
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


# discrete noise about Poisson samples: its own moments, from the definition


@pytest.mark.parametrize("shift", [(1,), (3,), (1, 1), (2, 1)])
@pytest.mark.parametrize(("sigma", "rate"), [(0.4, 0.1), (1.0, 0.01), (2.0, 0.5)])
def test_discrete_noise_about_a_sample_costs_no_more_than_the_stand_in(shift, sigma, rate):
    """Both directions at whole orders, by sums over the lattice: Theorem 5 of MTZ19 and Theorem 4 of CKS20 at work."""
    length = mp.sqrt(sum(s * s for s in shift))
    scale = sigma * length  # so that σ is the noise multiplier
    reach = int(14 * scale) + 40
    for order in (2, 5, 10):
        bound = rdp_reference.poisson_gaussian_integer(rate, sigma, order)
        with mp.workdps(30):
            removed, added = sampled_divergences(shift, scale, mp.mpf(rate), order, reach)
        assert added <= removed * (1 + mp.mpf(10) ** -20)
        assert removed <= bound * (1 + mp.mpf(10) ** -20)


def sampled_divergences(shift, scale, rate, order, reach):
    """D(mixture‖plain) and D(plain‖mixture). The loss depends on the shifted direction alone, ⟨x, Δ⟩."""
    squared = sum(s * s for s in shift)
    weights = {}
    line = [mp.exp(-mp.mpf(x) ** 2 / (2 * scale**2)) for x in range(-reach, reach + 1)]
    if len(shift) == 1:
        for x, weight in enumerate(line, -reach):
            weights[x * shift[0]] = weights.get(x * shift[0], 0) + weight
    else:
        for (x, a), (y, b) in itertools.product(list(enumerate(line, -reach)), repeat=2):
            if a * b > mp.mpf(10) ** -60:
                product = x * shift[0] + y * shift[1]
                weights[product] = weights.get(product, 0) + a * b
    total = mp.fsum(weights.values())
    mixed = {p: 1 - rate + rate * mp.exp((2 * p - squared) / (2 * scale**2)) for p in weights}
    removed = mp.fsum(w * mixed[p] ** order for p, w in weights.items()) / total
    added = mp.fsum(w * mixed[p] ** (1 - order) for p, w in weights.items()) / total
    return mp.log(removed) / (order - 1), mp.log(added) / (order - 1)


def test_discrete_noise_about_a_sample_needs_whole_orders():
    config = DPConfig("discrete_gaussian", renyi_orders=(2, 2.5))

    with pytest.raises(UnsupportedEventError, match="whole orders.*AccountingMethod.MOMENTS"):
        DifferentialPrivacyEngine(config)
    assert DifferentialPrivacyEngine(dataclasses.replace(config, renyi_orders=(2.0, 3))).remaining_rounds > 0
    assert DifferentialPrivacyEngine(dataclasses.replace(config, sampling_rate=1, noise_multiplier=9)).remaining_rounds


# calibration


def test_the_noise_multiplier_is_never_below_the_certified_truth():
    truth = calibrate_noise_multiplier(target_epsilon=8, target_delta=1e-5, sampling_probability=0.01, count=1000)
    tightest = DifferentialPrivacyEngine(DPConfig(accounting="pld")).get_noise_multiplier(8, 1e-5, 0.01, 1000)

    assert truth.limit <= tightest <= truth * (1 + 1e-8)  # both within 2e-9 of the edge
    for method in METHODS:
        if method is not AccountingMethod.ZCDP:
            engine = DifferentialPrivacyEngine(DPConfig(accounting=method, target_epsilon=100.0))
            assert engine.get_noise_multiplier(8, 1e-5, 0.01, 1000) >= truth.limit


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", METHODS)
def test_an_engine_with_the_calibrated_noise_runs_as_many_rounds(method, mechanism, sampling):
    config = DPConfig(mechanism, method, noise_multiplier=20.0, target_epsilon=2.0, sampling_rate=1.0)
    if mechanism is NoiseMechanism.DISCRETE_GAUSSIAN and method is AccountingMethod.PLD:
        pytest.skip("refused, as tested above")
    engine = engine_of(dataclasses.replace(config, target_epsilon=100.0), sampling)

    multiplier = engine.get_noise_multiplier(2.0, 1e-5, 1.0, 5)

    enough = dataclasses.replace(config, noise_multiplier=multiplier)
    less = dataclasses.replace(config, noise_multiplier=multiplier * (1 - 1e-6))
    assert engine.compute_privacy_spent(enough, 5).estimated_rounds_left >= 0
    assert engine.compute_privacy_spent(enough, 5).epsilon_spent <= 2.0
    assert engine.compute_privacy_spent(less, 5).epsilon_spent > 2.0


def test_what_cannot_be_reached_says_so():
    """At α ≤ 2 the conversion alone costs ln(1/4δ) = 10.1, whatever the noise."""
    engine = DifferentialPrivacyEngine(DPConfig(renyi_orders=(2,), target_epsilon=50))

    with pytest.raises(CalibrationError, match="noise_multiplier"):
        engine.get_noise_multiplier(1.0, 1e-5, 0.01, 10)


@pytest.mark.parametrize(
    "arguments",
    [(0, 1e-5, 0.1, 1), (1, 0, 0.1, 1), (1, 1e-5, 0, 1), (1, 1e-5, 1.1, 1), (1, 1e-5, 0.1, 0), (math.inf, 1e-5, 0.1, 1)],
)
def test_calibration_refuses_bad_targets(arguments):
    with pytest.raises(InvalidParameter):
        DifferentialPrivacyEngine().get_noise_multiplier(*arguments)


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
