"""One step of every mechanism against quadrature and sums of its very densities: no losses, no pairs."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ferrodp import accounting as ac
from ferrodp.accounting import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    SelfComposedEvent,
)
from ferrodp.accounting.curves import hockey_stick_delta, hockey_stick_epsilon, profile_to_epsilon, single_step_noise
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType, UnsupportedEventError
from reference import hockey_stick

ADD_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
EPSILONS = [-0.7, 0.0, 0.3, 1.1, 3.0]
QUADRATURE = mp.mpf("1e-16")  # 25 digits asked for; Gauss–Legendre on nine parts of analytic integrands


def sampled(q, event):
    """Of contributions that are clipped, so that replaced ones are at most opposite."""
    return PoissonSampledEvent(sampling_probability=q, event=event, null_distance=0.5)


def normal(z, shift=0.0):
    z, shift = mp.mpf(z), mp.mpf(shift)
    return lambda x: mp.exp(-(((x - shift) / z) ** 2) / 2) / (z * mp.sqrt(2 * mp.pi))


def double_exponential(b, shift=0):
    b = mp.mpf(b)
    return lambda x: mp.exp(-abs(x - shift) / b) / (2 * b)


def mixed(weights, laws):
    weights = [mp.mpf(weight) for weight in weights]
    return lambda x: mp.fsum(weight * law(x) for weight, law in zip(weights, laws, strict=True))


def lattice(weight, shift=0, far=400):
    total = mp.fsum(weight(x) for x in range(-far, far + 1))
    return lambda x: weight(x - shift) / total


def check(bounds, truth, error=QUADRATURE):
    assert bounds.lower <= truth + error
    assert truth - error <= bounds.upper
    assert bounds.upper - bounds.lower <= 1e-12


GAUSSIAN = [(0.3, 0.5, 1.0), (1.0, 0.2, 1.0), (2.0, 0.01, 1.0), (1.0, 0.999, 1.0), (5.0, 1.0, 1.0)]


@pytest.mark.parametrize(("z", "q", "_"), GAUSSIAN)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_poisson_sampled_gaussian_both_ways(z, q, _, epsilon):
    present, absent = mixed([1 - mp.mpf(q), q], [normal(z), normal(z, 1)]), normal(z)
    points = [-25 * z, 0, 1, 1 + 25 * z]
    event = sampled(q, GaussianEvent(noise_multiplier=z))

    removed = hockey_stick.from_densities(present, absent, epsilon, points)
    added = hockey_stick.from_densities(absent, present, epsilon, points)

    check(hockey_stick_delta(event, epsilon, direction="remove"), removed)
    check(hockey_stick_delta(event, epsilon, direction="add"), added)
    check(hockey_stick_delta(event, epsilon, neighboring_relation=SPECIAL), max(removed, added))


@pytest.mark.parametrize(("z", "q", "_"), GAUSSIAN)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_poisson_sampled_gaussian_replaced(z, q, _, epsilon):
    one, other = (mixed([1 - mp.mpf(q), q], [normal(z), normal(z, shift)]) for shift in (0.5, -0.5))

    truth = hockey_stick.from_densities(one, other, epsilon, [-25 * z - 1, -0.5, 0.5, 1 + 25 * z])

    event = sampled(q, GaussianEvent(noise_multiplier=z))
    check(hockey_stick_delta(event, epsilon, neighboring_relation=REPLACE), truth)


@pytest.mark.parametrize(("b", "q"), [(0.3, 0.5), (1.0, 0.2), (4.0, 0.9), (1.0, 1.0)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_poisson_sampled_laplace_both_ways(b, q, epsilon):
    absent = double_exponential(b)
    present = mixed([1 - mp.mpf(q), q], [absent, double_exponential(b, 1)])
    points = [-60 * b, 0, 1, 1 + 60 * b]
    event = sampled(q, LaplaceEvent(noise_multiplier=b))

    removed = hockey_stick.from_densities(present, absent, epsilon, points)
    added = hockey_stick.from_densities(absent, present, epsilon, points)

    check(hockey_stick_delta(event, epsilon, direction="remove"), removed)
    check(hockey_stick_delta(event, epsilon, direction="add"), added)


DISCRETE = [
    (DiscreteGaussianEvent(scale=0.4, l2_sensitivity=1), lambda x: mp.exp(-(x**2) / (2 * mp.mpf(0.4) ** 2)), 1),
    (DiscreteGaussianEvent(scale=3.0, l2_sensitivity=2), lambda x: mp.exp(-(mp.mpf(x) ** 2) / 18), 2),
    (DiscreteGaussianEvent(scale=20.0, l2_sensitivity=7), lambda x: mp.exp(-(mp.mpf(x) ** 2) / 800), 7),
    (DiscreteLaplaceEvent(scale=1.0, l1_sensitivity=1), lambda x: mp.exp(-mp.mpf(abs(x))), 1),
    (DiscreteLaplaceEvent(scale=2.5, l1_sensitivity=3), lambda x: mp.exp(-abs(x) / mp.mpf(2.5)), 3),
]


@pytest.mark.parametrize(("event", "weight", "shift"), DISCRETE)
@pytest.mark.parametrize("q", [0.3, 1.0])
def test_discrete_noise_both_ways(event, weight, shift, q):
    with mp.workdps(40):
        absent = lattice(weight)
        present = mixed([1 - mp.mpf(q), q], [absent, lattice(weight, shift)])
    step = sampled(q, event)
    for epsilon in EPSILONS:
        removed = hockey_stick.from_masses(present, absent, epsilon, range(-390, 391))
        added = hockey_stick.from_masses(absent, present, epsilon, range(-390, 391))

        check(hockey_stick_delta(step, epsilon, direction="remove"), removed)
        check(hockey_stick_delta(step, epsilon, direction="add"), added)


@pytest.mark.parametrize("z", [0.5, 2.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mixtures_of_gaussians_both_ways(z, epsilon):
    weights, shifts = (0.5, 0.25, 0.25), (0.0, 1.0, 2.5)
    event = MixtureOfGaussiansEvent(noise_multiplier=z, shifts=shifts, probabilities=weights)
    present, absent = mixed(weights, [normal(z, shift) for shift in shifts]), normal(z)
    points = [-25 * z, 0, 1, 2.5, 3 + 25 * z]

    removed = hockey_stick.from_densities(present, absent, epsilon, points)
    added = hockey_stick.from_densities(absent, present, epsilon, points)

    check(hockey_stick_delta(event, epsilon, direction="remove"), removed)
    check(hockey_stick_delta(event, epsilon, direction="add"), added)


@pytest.mark.parametrize(("noise", "answers"), [(0.5, 2), (0.3, 10), (0.999, 3), (1e-9, 5), (0.0, 4), (1.0, 4)])
def test_randomized_response(noise, answers):
    with mp.workdps(40):
        other = mp.mpf(noise) / answers
        first, second = ([1 - mp.mpf(noise) + other if j == i else other for j in range(answers)] for i in (0, 1))
        uniform = [mp.mpf(1) / answers] * answers
    event = RandomizedResponseEvent(noise_parameter=noise, num_buckets=answers)
    for epsilon in EPSILONS:
        replaced = hockey_stick.from_masses(first.__getitem__, second.__getitem__, epsilon, range(answers))
        special = max(
            hockey_stick.from_masses(a.__getitem__, b.__getitem__, epsilon, range(answers))
            for a, b in ((first, uniform), (uniform, first))
        )

        check(hockey_stick_delta(event, epsilon, neighboring_relation=REPLACE), replaced)
        check(hockey_stick_delta(event, epsilon, neighboring_relation=SPECIAL), special)
        keywords = {"epsilon": epsilon, "noise_parameter": noise, "num_buckets": answers}
        check(ac.curves.randomized_response_delta_bounds(**keywords), replaced)


def test_samples_of_fixed_size_under_replacement_follow_the_theorem():
    """Balle, Barthe, Gaboardi 2018, Theorem 9; δ of the Laplace release is 1 − e^{(ε − ε₀)/2}."""
    event = FixedSizeSampledEvent(population_size=1000, sample_size=250, event=LaplaceEvent(noise_multiplier=0.5))
    for epsilon in [0.0, 0.1, 0.7, 0.9]:
        inside = mp.log1p(mp.expm1(epsilon) / 0.25)
        truth = mp.mpf(0.25) * -mp.expm1((inside - 2) / 2)

        bounds = hockey_stick_delta(event, epsilon, neighboring_relation=REPLACE)
        mirrored = hockey_stick_delta(event, -epsilon, neighboring_relation=REPLACE)

        assert truth <= bounds.upper <= truth + 1e-12
        assert bounds.lower == 0.0  # only a bound
        reflected = -mp.expm1(-epsilon) + mp.exp(-epsilon) * truth
        assert reflected <= mirrored.upper <= reflected + 1e-12


def test_samples_of_fixed_size_to_add_or_remove_pay_for_two_contributions():
    event = FixedSizeSampledEvent(population_size=100, sample_size=10, event=GaussianEvent(noise_multiplier=3.0))
    doubled = sampled(0.1, GaussianEvent(noise_multiplier=1.5))

    for epsilon in EPSILONS:
        assert hockey_stick_delta(event, epsilon).upper == hockey_stick_delta(doubled, epsilon).upper


@pytest.mark.parametrize(
    ("noise", "law"),
    [(GaussianEvent(noise_multiplier=1.0), normal), (LaplaceEvent(noise_multiplier=1.0), double_exponential)],
)
def test_whoever_takes_the_place_of_a_zeroed_record_is_two_contributions_away(noise, law):
    """{1, −1} against {0, −1}: a sample of one has the record or the zero, or −1 in its place."""
    event = FixedSizeSampledEvent(population_size=2, sample_size=1, event=noise)
    with mp.workdps(30):
        record, zeroed = (mixed([0.5, 0.5], [law(1.0, -1.0), law(1.0, value)]) for value in (1.0, 0.0))
        for epsilon in EPSILONS:
            edges = [-80, -1, 0, 1, 80]
            truth = max(
                hockey_stick.from_densities(a, b, epsilon, edges) for a, b in ((record, zeroed), (zeroed, record))
            )

            assert truth <= hockey_stick_delta(event, epsilon, neighboring_relation=SPECIAL).upper


def test_many_samples_of_fixed_size_cover_the_zeroed_record():
    """1000 records, all others at −1: steps of N(−10 + 2B, 1) against N(−10 + B, 1), B a coin of 1/100.

    The steps above a threshold are counted, so that two binomial laws are compared: post-processing, never above
    the truth.
    """
    event = FixedSizeSampledEvent(population_size=1000, sample_size=10, event=GaussianEvent(noise_multiplier=1.0))
    accountant = ac.PldAccountant(neighboring_relation=SPECIAL)
    accountant.compose(event, 100)
    epsilon, counts = 0.768, np.arange(101)

    def law(shift, threshold):
        return stats.binom.pmf(counts, 100, 0.99 * stats.norm.sf(threshold) + 0.01 * stats.norm.sf(threshold - shift))

    truth = max(
        np.maximum(law(2.0, edge) - math.exp(epsilon) * law(1.0, edge), 0.0).sum() for edge in np.arange(1.0, 5.0, 0.1)
    )

    assert truth > 0.01
    assert truth <= accountant.delta(epsilon)


@pytest.mark.parametrize(
    "inner",
    [
        LaplaceEvent(noise_multiplier=1.3),
        DiscreteGaussianEvent(scale=2.0, l2_sensitivity=2),
        DiscreteLaplaceEvent(scale=3.0, l1_sensitivity=4),
    ],
)
def test_other_noise_sampled_under_replacement_is_bounded_for_opposite_records(inner):
    """The bound is that of fixed size; records of norm Δ/2 may be opposite, alike or one of them null."""
    with mp.workdps(30):
        if isinstance(inner, LaplaceEvent):
            laws = [double_exponential(1.3, shift) for shift in (0, 0.5, -0.5)]
        elif isinstance(inner, DiscreteGaussianEvent):
            laws = [lattice(lambda x: mp.exp(-(mp.mpf(x) ** 2) / 8), shift) for shift in (0, 1, -1)]
        else:
            laws = [lattice(lambda x: mp.exp(-abs(x) / mp.mpf(3)), shift) for shift in (0, 2, -2)]
        q = mp.mpf(0.4)
        null, one, other = (mixed([1 - q, q], [laws[0], law]) for law in laws)
    event = sampled(0.4, inner)
    for epsilon, (a, b) in itertools.product([0.0, 0.4], [(one, other), (other, one), (one, null), (null, other)]):
        if isinstance(inner, LaplaceEvent):
            truth = hockey_stick.from_densities(a, b, epsilon, [-80, -0.5, 0, 0.5, 80])
        else:
            truth = hockey_stick.from_masses(a, b, epsilon, range(-390, 391))

        bound = hockey_stick_delta(event, epsilon, neighboring_relation=REPLACE)
        assert truth <= bound.upper
        assert bound.lower == 0.0


@pytest.mark.parametrize("null_distance", [0.5, 0.75, 1.0, 3.0, math.inf])
@pytest.mark.parametrize(
    ("noise", "law"),
    [(GaussianEvent(noise_multiplier=1.0), normal), (LaplaceEvent(noise_multiplier=1.0), double_exponential)],
)
def test_what_a_replaced_record_adds_to_a_sample_counts(noise, law, null_distance):
    """Records that contribute n and n − 1, in units of the sensitivity, to a sum that is 0 without them."""
    event = PoissonSampledEvent(sampling_probability=0.1, event=noise, null_distance=null_distance)
    far = min(null_distance, 30.0)
    with mp.workdps(30):
        one, other = (mixed([0.9, 0.1], [law(1.0), law(1.0, shift)]) for shift in (far, far - 1))
        for epsilon in EPSILONS:
            edges = sorted({-60, 0, far - 1, far, far / 2, far + 60})
            truth = max(hockey_stick.from_densities(a, b, epsilon, edges) for a, b in ((one, other), (other, one)))

            assert truth <= hockey_stick_delta(event, epsilon, neighboring_relation=REPLACE).upper + QUADRATURE


def test_a_count_is_no_sum_of_clipped_contributions():
    """0 or 1 with noise 1, a sample of a tenth: 2.0e-3 at ε = ½, four hundred times what opposite halves lose."""
    count = PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=1.0), null_distance=1)

    assert 2.0e-3 <= hockey_stick_delta(count, 0.5, neighboring_relation=REPLACE).upper <= 2.1e-3
    for accountant, least in ((ac.PldAccountant, 7.05), (ac.RdpAccountant, 7.05)):
        steps = accountant(neighboring_relation=REPLACE)
        steps.compose(count, 100)
        assert steps.epsilon(1e-5) >= least


def test_epsilon_delta_events_cost_what_they_say():
    event = EpsilonDeltaEvent(epsilon=1.0, delta=1e-3)

    check(hockey_stick_delta(event, 1.0), mp.mpf(1e-3))
    check(hockey_stick_delta(event, 0.0), mp.mpf(1e-3) + (1 - mp.mpf(1e-3)) * mp.tanh(mp.mpf(1) / 2))
    assert 1.0 <= hockey_stick_epsilon(event, math.nextafter(1e-3, 1.0) * (1 + 1e-14)).upper <= 1.0 + 1e-12
    assert hockey_stick_epsilon(event, 0.9e-3) == (math.inf, math.inf)
    assert hockey_stick_delta(ExponentialMechanismEvent(epsilon=1.0), 0.0).lower == 0.0


LADDER = [1e-300, 1e-100, 1e-30, 1e-10, 1e-5, 0.01, 0.1, 0.6]
STEPS = [
    sampled(1e-6, GaussianEvent(noise_multiplier=0.5)),
    sampled(0.01, GaussianEvent(noise_multiplier=1.1)),
    sampled(0.9, GaussianEvent(noise_multiplier=0.02)),
    sampled(0.3, LaplaceEvent(noise_multiplier=0.7)),
    sampled(0.3, DiscreteGaussianEvent(scale=1.7)),
    DiscreteGaussianEvent(scale=1e5, l2_sensitivity=3),
    DiscreteLaplaceEvent(scale=1e3, l1_sensitivity=10**6),
    MixtureOfGaussiansEvent(noise_multiplier=0.9, shifts=(0.0, 1.0, 2.0), probabilities=(0.81, 0.18, 0.01)),
]


@pytest.mark.parametrize("event", STEPS)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_epsilon_is_where_delta_is_reached(event, relation):
    if isinstance(event, MixtureOfGaussiansEvent):
        relation = SPECIAL if relation is REPLACE else relation  # it says what a record adds
    previous = math.inf
    for delta in LADDER:
        bounds = hockey_stick_epsilon(event, delta, neighboring_relation=relation)

        assert 0.0 <= bounds.lower <= bounds.upper <= previous
        assert hockey_stick_delta(event, bounds.upper, neighboring_relation=relation).upper <= delta
        if bounds.lower > 0.0:
            assert hockey_stick_delta(event, bounds.lower, neighboring_relation=relation).lower > delta
            # δ is known to 10⁻¹³ of P[L > ε], and to 10⁻³⁰⁷
            assert bounds.upper - bounds.lower <= 1e-7 * bounds.upper + 1e-12
        previous = bounds.upper


@settings(max_examples=60)
@given(st.floats(0.05, 50.0), st.floats(1e-4, 1.0), st.floats(0.0, 5.0), st.floats(0.0, 2.0), st.floats(0.0, 1.0))
def test_delta_falls_with_epsilon_and_noise_and_rises_with_sampling(z, q, epsilon, more, share):
    def delta(noise_multiplier, probability, at):
        return hockey_stick_delta(sampled(probability, GaussianEvent(noise_multiplier=noise_multiplier)), at)

    here = delta(z, q, epsilon)
    assert delta(z, q, epsilon + more).lower <= here.upper
    assert delta(z * (1 + more), q, epsilon).lower <= here.upper
    assert delta(z, q * share, epsilon).lower <= here.upper


def test_trivial_samples():
    gaussian = GaussianEvent(noise_multiplier=1.0)

    assert hockey_stick_delta(sampled(0.0, gaussian), 0.0) == (0.0, 0.0)
    assert hockey_stick_epsilon(sampled(0.0, gaussian), 1e-9) == (0.0, 0.0)
    assert hockey_stick_delta(sampled(1.0, gaussian), 0.5) == hockey_stick_delta(gaussian, 0.5)
    check(hockey_stick_delta(sampled(0.0, gaussian), -1.0), -mp.expm1(-1))
    assert hockey_stick_epsilon(gaussian, 0.0) == (math.inf, math.inf)
    assert hockey_stick_delta(SelfComposedEvent(event=gaussian, count=1), 0.5) == hockey_stick_delta(gaussian, 0.5)


@pytest.mark.parametrize(
    ("event", "relation", "reason"),
    [
        (SelfComposedEvent(event=LaplaceEvent(noise_multiplier=1.0), count=2), ADD_REMOVE, "composition"),
        (ComposedEvent(events=(LaplaceEvent(noise_multiplier=1.0),) * 2), ADD_REMOVE, "more than one step"),
        (NonPrivateEvent(), ADD_REMOVE, "NonPrivateEvent"),
        (DiscreteGaussianEvent(scale=1.0, dimension=2), ADD_REMOVE, "no known worst case"),
        (DiscreteGaussianEvent(scale=1e15), ADD_REMOVE, "at most 2\\^46"),
        (RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2), ADD_REMOVE, "REPLACE_ONE"),
        (MixtureOfGaussiansEvent(noise_multiplier=1.0, shifts=(0, 1), probabilities=(0.5, 0.5)), REPLACE, "adds"),
        (sampled(0.5, RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2)), ADD_REMOVE, "no pair of laws"),
    ],
)
def test_what_has_no_curve_is_refused(event, relation, reason):
    for answer in (hockey_stick_delta, hockey_stick_epsilon):
        with pytest.raises(UnsupportedEventError, match=reason):
            answer(event, 0.5, neighboring_relation=relation)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bad_parameters_are_refused(bad):
    event = sampled(0.1, GaussianEvent(noise_multiplier=1.0))
    with pytest.raises(InvalidParameter, match="epsilon must be finite"):
        hockey_stick_delta(event, bad)
    with pytest.raises(InvalidParameter, match="delta must be finite"):
        hockey_stick_epsilon(event, bad)
    with pytest.raises(InvalidParameter, match="delta must be 0 or at least 1e-300"):
        hockey_stick_epsilon(event, 1e-301)
    with pytest.raises(InvalidParameter, match='direction must be "remove", "add" or None'):
        hockey_stick_delta(event, 1.0, direction="both")
    with pytest.raises(InvalidType, match="neighboring_relation must be a NeighboringRelation"):
        hockey_stick_delta(event, 1.0, neighboring_relation=1)


@pytest.mark.parametrize("q", [0.01, 0.5, 1.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-8), (1.0, 1e-5), (8.0, 5e-3)])
def test_the_least_noise_is_enough_and_a_little_less_is_not(q, epsilon, delta):
    def step(z):
        return sampled(q, GaussianEvent(noise_multiplier=z))

    z = single_step_noise(step, epsilon=epsilon, delta=delta)

    assert hockey_stick_delta(step(z), epsilon).upper <= delta
    assert hockey_stick_delta(step(z * (1 - 1e-6)), epsilon).lower > delta


def test_calibration_by_pure_epsilon():
    """ln(1 + q(e^{1/b} − 1)) = 1."""
    b = single_step_noise(lambda b: sampled(0.25, LaplaceEvent(noise_multiplier=b)), epsilon=1.0)

    exact = 1 / math.log1p(math.expm1(1.0) / 0.25)
    assert exact <= b <= exact * (1 + 1e-13)


def test_what_no_noise_reaches_is_a_calibration_error():
    with pytest.raises(CalibrationError, match=r"no parameter up to largest=2\.0 gives delta=1e-12: that one gives"):
        single_step_noise(lambda z: GaussianEvent(noise_multiplier=z), epsilon=0.1, delta=1e-12, largest=2.0)
    tiny = single_step_noise(lambda z: GaussianEvent(noise_multiplier=z), epsilon=1.0, delta=0.5, smallest=3.0)
    assert tiny == 3.0  # enough already


def test_profiles_are_inverted_on_the_safe_side():
    for delta in (0.9, 1e-3, 1e-200):
        epsilon = profile_to_epsilon(lambda e: math.exp(-e), delta)
        assert math.exp(-epsilon) <= delta
        assert math.exp(-math.nextafter(epsilon, 0.0)) > delta
    assert profile_to_epsilon(lambda _: 0.5, 0.1) == math.inf
    assert profile_to_epsilon(lambda _: math.nan, 0.1) == math.inf
    assert profile_to_epsilon(lambda _: 0, 0.0) == 0.0
    with pytest.raises(InvalidType, match="profile must return a float, got str"):
        profile_to_epsilon(lambda _: "0.1", 0.1)
