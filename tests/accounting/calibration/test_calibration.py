"""Calibration: what is returned is proven to keep the target, and next to it something is proven not to."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import (
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RdpAccountant,
    calibrate_count,
    calibrate_noise_multiplier,
    calibrate_parameter,
    calibrate_sampling_probability,
)
from ferrodp.accounting.calibration._search import Margins, find_edge
from ferrodp.accounting.curves import gaussian_standard_deviation
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType, UnsupportedEventError


def step(noise_multiplier, sampling_probability):
    return PoissonSampledEvent(
        sampling_probability=sampling_probability, event=GaussianEvent(noise_multiplier=noise_multiplier)
    )


def spent_on(event, count, accountant=PldAccountant):
    spent = accountant()
    spent.compose(event, count)
    return spent


def epsilon_bounds(event, count, delta, accountant=PldAccountant):
    return spent_on(event, count, accountant).epsilon_bounds(delta)


def delta_bounds(event, count, epsilon):
    return spent_on(event, count).delta_bounds(epsilon)


SETTINGS = [
    # ε, δ, q, T
    (3.0, 1e-5, 0.01, 5000),
    (8.0, 1e-6, 0.001, 100_000),
    (0.1, 1e-8, 0.02, 500),
    (1e-2, 1e-5, 0.01, 100),
    (1.0, 1e-5, 1.0, 64),
    (50.0, 1e-5, 0.3, 200),
    (2.0, 1e-12, 0.05, 1),
    (1.0, 1e-5, 1e-5, 10),
]


@pytest.mark.parametrize(("epsilon", "delta", "probability", "count"), SETTINGS)
def test_the_noise_is_enough_and_a_little_less_is_not(epsilon, delta, probability, count):
    noise = calibrate_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sampling_probability=probability, count=count
    )

    assert epsilon_bounds(step(float(noise), probability), count, delta).upper <= epsilon
    assert delta_bounds(step(noise.limit, probability), count, epsilon).lower > delta
    assert 0.0 < noise.gap == float(noise) - noise.limit < 1e-2 * noise
    assert noise.epsilon_bounds.upper <= epsilon
    assert noise.delta_bounds.upper <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-5), (1e-3, 1e-9), (1.0, 1e-5), (100.0, 1e-10), (1e4, 1e-5)])
@pytest.mark.parametrize("count", [1, 49])
def test_without_sampling_it_is_the_exact_gaussian_calibration(epsilon, delta, count):
    single = gaussian_standard_deviation(epsilon=epsilon, delta=delta, l2_sensitivity=1.0)

    noise = calibrate_noise_multiplier(target_epsilon=epsilon, target_delta=delta, count=count)

    # n releases with z are one with z/√n; the search stops within 2·10⁻⁹ of ln z, the root and the product are floats
    assert noise == pytest.approx(single * math.sqrt(count), rel=2.1e-9)
    assert noise >= single * math.sqrt(count) * (1 - 4 * 2.0**-53)


@pytest.mark.parametrize(("epsilon", "delta", "probability", "count"), SETTINGS[:4])
def test_the_count_is_the_last_safe_one(epsilon, delta, probability, count):
    event = step(1.0, probability)

    last = calibrate_count(event, target_epsilon=epsilon, target_delta=delta)

    if last:
        assert epsilon_bounds(event, int(last), delta).upper <= epsilon
    assert delta_bounds(event, last.limit, epsilon).lower > delta
    assert last.limit == last + last.gap + 1
    assert last.gap <= 1e-3 * last


def test_where_even_one_release_is_too_much_the_count_is_zero():
    last = calibrate_count(GaussianEvent(noise_multiplier=0.1), target_epsilon=1.0, target_delta=1e-5)

    assert (last, last.limit, last.gap) == (0, 1, 0)
    assert last.epsilon_bounds == (0.0, 0.0)


def test_a_release_without_loss_has_no_last_count():
    last = calibrate_count(step(1.0, 0.0), target_epsilon=1.0, target_delta=1e-5)

    assert (last, last.limit, last.gap) == (2**63 - 1, None, 0)


@pytest.mark.parametrize(("epsilon", "delta", "count"), [(1.0, 1e-6, 1000), (8.0, 1e-5, 10), (0.05, 1e-9, 1)])
def test_the_sampling_probability_is_the_largest_safe_one(epsilon, delta, count):
    probability = calibrate_sampling_probability(
        target_epsilon=epsilon, target_delta=delta, noise_multiplier=1.0, count=count
    )

    assert epsilon_bounds(step(1.0, float(probability)), count, delta).upper <= epsilon
    assert delta_bounds(step(1.0, probability.limit), count, epsilon).lower > delta
    assert probability < probability.limit < 1.01 * probability


def test_where_no_sampling_is_needed_the_probability_is_one():
    probability = calibrate_sampling_probability(target_epsilon=8.0, target_delta=1e-5, noise_multiplier=10.0)

    assert (probability, probability.limit, probability.gap) == (1.0, None, 0.0)


def test_pure_targets_are_calibrated_by_epsilon_itself():
    def laplace(scale):
        return LaplaceEvent(noise_multiplier=scale)

    scale = calibrate_parameter(laplace, target_epsilon=0.5, target_delta=0.0, bounds=(0.01, 1e3), count=7)

    assert scale == pytest.approx(14.0, rel=2.1e-9)
    assert scale >= 14.0


def test_parameters_whose_growth_costs_more():
    def answers(truth):
        return RandomizedResponseEvent(noise_parameter=1.0 - truth, num_buckets=4)

    truth = calibrate_parameter(
        answers,
        target_epsilon=math.log(3.0),
        target_delta=0.0,
        bounds=(1e-3, 1.0 - 1e-3),
        larger_is_safer=False,
        accountant="pure",
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )

    # with truth t the likeliest answer has probability t + (1−t)/4, any other (1−t)/4: ratio 3 at t = 1/3
    assert truth == pytest.approx(1 / 3, rel=1e-8)
    assert truth <= 1 / 3


def test_accountants_can_be_chosen_and_differ_as_they_should():
    target = {"target_epsilon": 2.0, "target_delta": 1e-6, "sampling_probability": 0.02, "count": 800}

    certified = calibrate_noise_multiplier(**target)
    rdp = calibrate_noise_multiplier(**target, accountant="rdp")
    own = calibrate_noise_multiplier(**target, accountant=lambda: RdpAccountant(orders=[2, 4, 8, 16, 32]))

    assert certified < rdp < own
    assert epsilon_bounds(step(float(rdp), 0.02), 800, 1e-6, RdpAccountant).upper <= 2.0
    assert (rdp.limit, rdp.gap) == (None, math.inf)
    assert "rdp" in str(rdp.explain()).lower() or "rényi" in str(rdp.explain()).lower()


def test_gdp_calibration_is_the_same_as_the_certified_one_without_sampling():
    exact = calibrate_noise_multiplier(target_epsilon=1.0, target_delta=1e-5, count=10, accountant="gdp")
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=float(exact)), 10)

    assert accountant.epsilon(1e-5) <= 1.0
    assert exact == pytest.approx(calibrate_noise_multiplier(target_epsilon=1.0, target_delta=1e-5, count=10), rel=4e-9)


def test_targets_out_of_reach_say_what_can_be_reached():
    with pytest.raises(CalibrationError, match=r"from 0\.01 to 1\.0 .*the best, 1\.0, has epsilon"):
        calibrate_parameter(
            lambda z: GaussianEvent(noise_multiplier=z), target_epsilon=1.0, target_delta=1e-5, bounds=(0.01, 1.0)
        )


def test_an_event_the_accountant_cannot_bound_is_refused():
    with pytest.raises(UnsupportedEventError):
        calibrate_noise_multiplier(
            target_epsilon=1.0, target_delta=1e-5, sampling_probability=0.1, count=3, accountant="gdp"
        )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"target_epsilon": 0.0}, InvalidParameter),
        ({"target_epsilon": math.nan}, InvalidParameter),
        ({"target_epsilon": "1"}, InvalidType),
        ({"target_delta": 0.0}, InvalidParameter),
        ({"target_delta": 1.0}, InvalidParameter),
        ({"sampling_probability": 1.5}, InvalidParameter),
        ({"sampling_probability": math.nan}, InvalidParameter),
        ({"count": 0}, InvalidParameter),
        ({"count": 2.0}, InvalidType),
        ({"accountant": "prv"}, InvalidParameter),
        ({"accountant": 3}, InvalidType),
        ({"neighboring_relation": 1}, InvalidType),
    ],
)
def test_bad_parameters_are_refused_by_name(changes, error):
    parameters = {"target_epsilon": 1.0, "target_delta": 1e-5, "sampling_probability": 0.1, "count": 10, **changes}
    with pytest.raises(error, match=next(iter(changes))):
        calibrate_noise_multiplier(**parameters)


def test_answers_are_numbers_and_survive_a_pickle():
    noise = calibrate_noise_multiplier(target_epsilon=1.0, target_delta=1e-5)
    count = calibrate_count(GaussianEvent(noise_multiplier=5.0), target_epsilon=1.0, target_delta=1e-5)

    for answer, kind in ((noise, float), (count, int)):
        again = pickle.loads(pickle.dumps(answer))
        assert type(answer + 1) is kind
        assert (again, again.limit, again.gap) == (answer, answer.limit, answer.gap)
        assert again.epsilon_bounds == answer.epsilon_bounds


@given(
    edge=st.floats(-20.0, 20.0),
    start=st.floats(-25.0, 25.0),
    steepness=st.floats(0.1, 50.0),
    width=st.floats(0.0, 0.1),
)
def test_the_search_ends_on_the_proven_side(edge, start, steepness, width):
    """The true margin falls through 0 at `edge`; its bounds are `width` off on either side."""
    asked = []

    def margins(t):
        asked.append(t)
        true = steepness * (edge - t)
        return Margins(true - width, true + width)

    found = find_edge(margins, start, -25.0, 25.0)

    assert found.enough in asked
    assert margins(found.enough).upper <= 0.0
    assert margins(found.too_little).lower > 0.0
    assert found.enough - (edge + width / steepness) <= 4e-9 + 1e-12 * abs(edge)
    assert len(asked) < 100


def test_the_search_reports_that_nothing_is_enough():
    assert find_edge(lambda t: Margins(-math.inf, 1.0), 0.0, -5.0, 5.0) is None
