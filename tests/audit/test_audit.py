"""Statistical tests of privacy claims: what they find, how often they are wrong, and what they say of themselves."""

import json
import math
import time

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.audit import _binomial, audit_callable, audit_mechanism, smallest_violation
from ferrodp.audit._regions import last_bits, outputs_of
from ferrodp.audit.power import favorable
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.testing import seeded

RUNS = 300


def response(rng, epsilon):
    """Return randomized response with that very ε, which one event shows fully."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return lambda value, n: np.where(rng.random(n) < truth, value, 1 - value)


def test_floating_point_laplace_and_gaussian_noise_are_told_apart_by_their_last_bits():
    rng, began = np.random.default_rng(3), time.perf_counter()
    for noise, epsilon, delta in ((rng.laplace, 1.0, 0.0), (lambda size: rng.normal(scale=4.0, size=size), 1.0, 1e-5)):
        report = audit_callable(
            lambda value, noise=noise: value + noise(1)[0],
            neighbors=(0.0, 1.0),
            epsilon=epsilon,
            delta=delta,
            draws=100_000,
            release_many=lambda value, n, noise=noise: value + noise(size=n),
        )
        assert report.violation
        assert "multiple of 2^-5" in report.region
        assert report.epsilon_lower_bound > 5
        assert report.log_e_value > 50
        assert report.law_holds is None
    assert time.perf_counter() - began < 60


def test_this_librarys_noise_has_no_such_bits():
    source = seeded(bytes(32))
    mechanism = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0)
    report = audit_callable(
        mechanism.release,
        neighbors=(0.0, 1.0),
        epsilon=1.0,
        delta=0.0,
        draws=100_000,
        release_many=lambda value, n: mechanism.release(np.full(n, value), source=source),
    )

    assert not report.violation
    assert 0.9 < report.epsilon_lower_bound <= 1.0
    assert report.power == smallest_violation(draws=report.counted, epsilon=1.0, delta=0.0)


def test_false_alarms_of_many_runs_are_within_the_stated_rates():
    """At the very ε of the mechanism. Each limit is exceeded with probability below 1e-6 if the rate is as stated."""
    rng = np.random.default_rng(11)
    violations = high = evidence = 0
    for _ in range(RUNS):
        report = audit_callable(
            None, neighbors=(0, 1), epsilon=1.0, delta=0.0, draws=400, release_many=response(rng, 1.0)
        )
        violations += report.violation
        high += report.epsilon_lower_bound > 1.0
        evidence += report.e_value > 20

    assert violations <= 5  # mean 0.3 at most
    assert high <= 38  # mean 15 at most
    assert evidence <= 38


def test_bounds_allow_for_two_events_and_two_rates_and_a_violation_needs_the_higher_confidence():
    """Outputs that are not drawn: 1500 and 900 hits of 3000."""

    def release(value, n):
        return np.arange(n) < (n // 2 if value else 3 * n // 10)

    def bound(failure):
        return math.log(_binomial.lower_bound(1500, 3000, failure / 4) / _binomial.upper_bound(900, 3000, failure / 4))

    claim = 0.5 * (bound(0.05) + bound(1e-3))
    report = audit_callable(None, neighbors=(0, 1), epsilon=claim, delta=0.0, draws=4000, release_many=release)

    assert report.hits == (1500, 900)
    assert (report.epsilon_lower_bound, report.epsilon_lower_bound_999) == (bound(0.05), bound(1e-3))
    assert report.epsilon_lower_bound > claim > report.epsilon_lower_bound_999
    assert not report.violation
    assert audit_callable(
        None, neighbors=(0, 1), epsilon=bound(1e-3) - 1e-6, delta=0.0, draws=4000, release_many=release
    ).violation


def test_a_violation_of_the_stated_size_is_seen_nine_times_of_ten():
    draws, rng = 20_000, np.random.default_rng(12)
    counted = draws - draws // 4
    least, rate = favorable(draws=counted, epsilon=0.2, delta=0.0)

    def release(value, n):
        return rng.random(n) < (rate * math.exp(least) if value else rate)

    seen = sum(
        audit_callable(None, neighbors=(0, 1), epsilon=0.2, delta=0.0, draws=draws, release_many=release).violation
        for _ in range(150)
    )

    assert 0.2 < least < 0.4
    assert least == smallest_violation(draws=counted, epsilon=0.2, delta=0.0)
    assert seen >= 110  # 135 are expected; fewer with probability below 1e-6


def test_less_noise_than_stated_is_found_by_the_law_and_by_the_claim():
    class Weak(fd.GaussianMechanism):
        """Draws with a standard deviation that is smaller than the stated one."""

        def release(self, value, share=0.99):
            return fd.GaussianMechanism(noise_multiplier=share * self.noise_multiplier, l2_sensitivity=1.0).release(
                value
            )

    class Half(Weak):
        def release(self, value):
            return super().release(value, 0.5)

    stated = {"noise_multiplier": 3.7306317, "l2_sensitivity": 1.0}
    assert not audit_mechanism(Weak(**stated), epsilon=1.0, delta=1e-5, draws=1_000_000).law_holds
    half = audit_mechanism(Half(**stated), epsilon=1.0, delta=1e-5, draws=1_000_000)
    assert half.violation
    assert half.epsilon_lower_bound > 1.2
    assert not half.law_holds


@pytest.mark.parametrize(
    "mechanism",
    [
        fd.GaussianMechanism(noise_multiplier=2.0, l2_sensitivity=3.0),
        fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0),
        fd.DiscreteGaussianMechanism(scale=3.0, l2_sensitivity=2),
        fd.DiscreteLaplaceMechanism(scale=2.0, l1_sensitivity=1),
    ],
)
def test_mechanisms_show_most_of_their_epsilon_and_no_more(mechanism):
    """Not seeded: at confidence 99.9 % the bound is exceeded by a tenth with probability far below 1e-9."""
    report = audit_mechanism(mechanism, delta=1e-3, draws=400_000)

    assert 0.6 * report.epsilon < report.epsilon_lower_bound
    assert report.epsilon_lower_bound_999 < 1.1 * report.epsilon
    assert report.epsilon == mechanism.epsilon(1e-3)
    assert report.counted < report.draws == 400_000


def test_exceptions_text_and_arrays_are_outputs():
    rng = np.random.default_rng(1)

    def raises(value):
        if value and rng.random() < 0.2:
            raise KeyError("patient 17")
        return 0.0

    report = audit_callable(raises, neighbors=(0, 1), epsilon=1.0, delta=1e-3, draws=2000)
    assert report.violation
    assert "KeyError" in report.region
    assert report.likelier == "second"

    report = audit_callable(
        lambda value: "yes" if rng.random() < 0.5 + 0.4 * value else "no",
        neighbors=(0, 1),
        epsilon=0.5,
        delta=0.0,
        draws=4000,
    )
    assert report.violation
    assert "yes" in report.region or "no" in report.region

    report = audit_callable(
        lambda value: np.array([rng.normal(), value + rng.normal(scale=0.1)]),
        neighbors=(0.0, 1.0),
        epsilon=1.0,
        delta=0.0,
        draws=2000,
    )
    assert report.violation
    assert "output[1]" in report.region


def test_a_leak_that_is_rarer_than_delta_is_no_violation():
    rng = np.random.default_rng(2)
    leak = lambda value, n: np.where(rng.random(n) < 0.01, value, 0)  # noqa: E731

    assert not audit_callable(
        None, neighbors=(0, 1), epsilon=1.0, delta=0.02, draws=20_000, release_many=leak
    ).violation
    assert audit_callable(None, neighbors=(0, 1), epsilon=1.0, delta=1e-3, draws=20_000, release_many=leak).violation


def test_a_report_is_text_and_json():
    rng = np.random.default_rng(4)
    report = audit_callable(None, neighbors=(0, 1), epsilon=0.1, delta=0.0, draws=4000, release_many=response(rng, 3.0))

    plain = json.loads(report.to_json())
    assert plain["violation"] is True
    assert {"epsilon_lower_bound", "power", "e_value", "region", "counted", "curve", "multiplicity"} <= plain.keys()
    assert "VIOLATED" in str(report)
    assert [delta for delta, _ in report.curve] == sorted(delta for delta, _ in report.curve)
    assert [bound for _, bound in report.curve] == sorted((bound for _, bound in report.curve), reverse=True)


def test_power_grows_with_the_draws():
    found = [smallest_violation(draws=n, epsilon=1.0, delta=1e-5) for n in (100, 10**4, 10**6, 10**8)]

    assert found == sorted(found, reverse=True)
    assert found[-1] < 1.001
    assert smallest_violation(draws=3, epsilon=1.0, delta=1e-5) == math.inf


def test_last_bits_are_those_of_the_numbers():
    assert last_bits(np.array([1.0, 3.0, 0.5, 6.0, 2.0**-60, 1 + 2.0**-52, -12.0])).tolist() == [
        0,
        0,
        -1,
        1,
        -60,
        -52,
        2,
    ]
    assert (last_bits(np.array([0.0, np.inf, np.nan])) > 5000).all()
    assert outputs_of([1.0, 2]).kinds == outputs_of(np.array([1.0, 2.0])).kinds


def test_what_cannot_be_tested_is_refused():
    good = {"neighbors": (0, 1), "epsilon": 1.0, "delta": 0.0, "draws": 100}
    for bad in ({"draws": 99}, {"epsilon": -1.0}, {"delta": 1.0}, {"delta": -0.1}):
        with pytest.raises(InvalidParameter):
            audit_callable(abs, **{**good, **bad})
    with pytest.raises(InvalidParameter, match="release_many must return"):
        audit_callable(abs, release_many=lambda value, n: [value], **good)
    with pytest.raises(InvalidType, match="adds noise"):
        audit_mechanism(abs, delta=1e-5, draws=1000)
