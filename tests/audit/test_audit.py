"""Statistical tests of privacy claims: what they find, how often they are wrong, and what they say of themselves."""

import dataclasses
import json
import math
import time

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.audit import _joint, _law_test, audit_callable, audit_mechanism, mechanisms, smallest_violation
from ferrodp.audit._events.outputs import outputs_of
from ferrodp.audit._events.regions import last_bits
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


def test_bounds_allow_for_two_events_and_a_violation_needs_the_higher_confidence():
    """Outputs that are not drawn: 1500 and 900 hits of 3000. The other event is the complement: nothing is pooled."""

    def release(value, n):
        return np.arange(n) < (n // 2 if value else 3 * n // 10)

    def bound(failure, epsilon):
        pair = _joint.Pair(1500, 900, 3000, _joint.Rates(0.5, 0.3), min(epsilon, math.log(5 / 3)), 0.0, 3000)
        return _joint.bound([pair], failure / 2.0, 0.0)

    claim = 0.5 * (bound(0.05, 0.4) + bound(1e-3, 0.4))
    report = audit_callable(None, neighbors=(0, 1), epsilon=claim, delta=0.0, draws=4000, release_many=release)

    assert report.hits == (1500, 900)
    assert report.epsilon_lower_bound == pytest.approx(bound(0.05, claim), abs=2e-4)
    assert report.epsilon_lower_bound_999 == pytest.approx(bound(1e-3, claim), abs=2e-4)
    assert report.epsilon_lower_bound > claim + 0.01 > claim > report.epsilon_lower_bound_999 + 0.01
    assert not report.violation
    assert audit_callable(
        None, neighbors=(0, 1), epsilon=bound(1e-3, claim) - 1e-3, delta=0.0, draws=4000, release_many=release
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

        share = 0.99

        def release(self, value, **options):
            weak = fd.GaussianMechanism(noise_multiplier=self.share * self.noise_multiplier, l2_sensitivity=1.0)
            return weak.release(value, **options)

    class Half(Weak):
        share = 0.5

    stated = {"noise_multiplier": 3.7306317, "l2_sensitivity": 1.0}
    assert not audit_mechanism(Weak(**stated), epsilon=1.0, delta=1e-5, draws=1_000_000).law_holds
    half = audit_mechanism(Half(**stated), epsilon=1.0, delta=1e-5, draws=1_000_000)
    assert half.violation
    assert half.epsilon_lower_bound > 1.2
    assert not half.law_holds


class WeakDiscreteGaussian(fd.DiscreteGaussianMechanism):
    """Draws with a scale that is 1 % smaller than the stated one."""

    def release(self, value, **options):
        weak = fd.DiscreteGaussianMechanism(scale=0.99 * self.scale, l2_sensitivity=1.0, dimension=self.dimension)
        return weak.release(value, **options)


class ZeroTwice(fd.DiscreteLaplaceMechanism):
    """Draws 0 too often: −1 becomes 0 once in thirty times."""

    def release(self, value, **options):
        noised = super().release(value, **options)
        noised[(noised - value == -1) & (np.arange(noised.size) % 30 == 0)] += 1
        return noised


class HardlyOdd(fd.DiscreteGaussianMechanism):
    """Prefers even numbers by 2 %."""

    def release(self, value, **options):
        noised = super().release(value, **options)
        noised[(np.arange(noised.size) % 50 == 0) & ((noised - value) % 2 == 1)] += 1
        return noised


@pytest.mark.parametrize(
    "mechanism",
    [
        WeakDiscreteGaussian(scale=4.0, l2_sensitivity=1.0),
        ZeroTwice(scale=2.0, l1_sensitivity=1),
        HardlyOdd(scale=30.0, l2_sensitivity=1.0),
    ],
)
def test_the_law_of_whole_numbers_is_tested_too(mechanism):
    """Missed with probability below 1e-6: the effects are nine standard deviations and more at so many draws."""
    assert not audit_mechanism(mechanism, delta=1e-3, draws=2_000_000).law_holds


@pytest.mark.parametrize(
    "mechanism",
    [
        fd.GaussianMechanism(noise_multiplier=2.0, l2_sensitivity=3.0),
        fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0),
        fd.DiscreteGaussianMechanism(scale=0.7, l2_sensitivity=1),
        fd.DiscreteGaussianMechanism(scale=2.5, l2_sensitivity=1),
        fd.DiscreteLaplaceMechanism(scale=3.0, l1_sensitivity=2),
    ],
)
def test_the_law_is_wrongly_doubted_once_in_a_thousand_runs_at_most(mechanism):
    """Six of 200 runs or more happen with probability below 1e-7 if each does with 1e-3."""
    wrong, is_whole = 0, isinstance(mechanism, (fd.DiscreteGaussianMechanism, fd.DiscreteLaplaceMechanism))
    if isinstance(mechanism, fd.DiscreteGaussianMechanism):
        mechanism = dataclasses.replace(mechanism, dimension=2000)
    for _ in range(200):
        tails = _law_test.Tails(mechanisms._events(mechanism))
        tails.count(mechanism.release(np.zeros(2000, dtype=np.int64 if is_whole else np.float32)))
        wrong += not tails.hold(1e-3)

    assert wrong <= 5


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 11_000.0])
def test_stated_rates_of_whole_numbers_are_those_of_the_laws(scale):
    reach = math.ceil(40 * scale)
    x = np.arange(-reach, reach + 1)
    for law, weights in (
        (_law_test.discrete_gaussian, np.exp(-0.5 * (x / scale) ** 2)),
        (_law_test.discrete_laplace, np.exp(-np.abs(x) / scale)),
    ):
        masses = weights / weights.sum()
        for at in (-2, 0, 1, math.ceil(scale), math.ceil(3 * scale)):
            low, high = law(at, scale)
            exact = math.fsum(masses[x >= at])
            assert low <= exact * (1 + 1e-12)
            assert exact <= high * (1 + 1e-12)
            assert high - low <= (1e-8 if scale < 1e4 else 1e-4)
    assert _law_test._even(_law_test.discrete_laplace, scale) == pytest.approx(math.fsum(masses[x % 2 == 0]), abs=1e-7)


def test_threads_count_all_draws_and_report_the_same_event(monkeypatch):
    mechanism = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0)
    seen = []
    counted = _law_test.Tails.count
    monkeypatch.setattr(_law_test.Tails, "count", lambda self, noise: (seen.append(noise.size), counted(self, noise)))
    for cores in (1, 3):
        seen.clear()
        monkeypatch.setattr(mechanisms, "_cores", lambda cores=cores: cores)
        report = audit_mechanism(mechanism, delta=0.0, draws=4_000_001, confidence=1.0 - 1e-9)
        assert sum(seen) == report.counted == 3_800_001
        assert report.law_holds
        assert 0.97 < report.epsilon_lower_bound < 1.01  # ε is 1; a bound deviates by about 0.001
        assert abs(report.hits[0] / report.counted - math.exp(1.0) * report.hits[1] / report.counted) < 0.003


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


def test_sequences_of_answers_are_events_too():
    """Each of six answers is ε = 0.5 by itself, and 3 together; no single one, nor their first, shows more than 0.5."""
    rng = np.random.default_rng(6)
    truth = math.exp(0.5) / (1 + math.exp(0.5))

    def release(value, n):
        return (rng.random((n, 6)) < (truth if value else 1 - truth)).astype(float)

    report = audit_callable(None, neighbors=(0, 1), epsilon=2.0, delta=0.0, draws=60_000, release_many=release)
    assert report.violation
    assert any(word in report.region for word in ("output", "ratio", "numbers"))
    assert report.epsilon_lower_bound < 3.0
    some = audit_callable(
        None, neighbors=(0, 1), epsilon=3.0, delta=0.0, draws=60_000,
        release_many=lambda value, n: [list(row) if row[0] else [row[0]] * 3 for row in release(value, n)],
    )  # fmt: skip
    assert not some.violation
    assert some.epsilon_lower_bound > 1.0


def test_a_claim_beyond_all_numbers_is_not_contradicted():
    rng = np.random.default_rng(6)
    report = audit_callable(None, neighbors=(0, 1), epsilon=1e9, delta=0.0, draws=200, release_many=response(rng, 1.0))

    assert not report.violation
    assert report.log_e_value == 0.0
    assert report.power == math.inf


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


def test_of_few_draws_the_stated_violation_is_seen_and_a_smaller_one_is_not():
    """Fewer than 24 of 40 have probability below 1e-6 where 90 % are seen, and so have more than 35 where half are."""
    draws, rng = 100, np.random.default_rng(13)
    counted = draws - draws // 4
    least, rate = favorable(draws=counted, epsilon=1.0, delta=1e-5)

    def seen(epsilon):
        def release(value, n):
            return rng.random(n) < (rate * math.exp(epsilon) + 1e-5 if value else rate)

        run = {"neighbors": (0, 1), "epsilon": 1.0, "delta": 1e-5, "draws": draws}
        return sum(audit_callable(None, **run, release_many=release).violation for _ in range(40))

    assert seen(least) >= 24
    assert seen(0.9 * least) <= 35


def test_power_changes_little_from_one_draw_to_the_next():
    found = [smallest_violation(draws=n, epsilon=1.0, delta=1e-5) for n in (60, 61, 62)]

    assert max(found) < 1.02 * min(found)
    assert (
        smallest_violation(draws=75, epsilon=1.0, delta=1e-5) < 2.5
    )  # which an audit of 100 draws finds nearly always


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
    assert outputs_of([1.0, 2]).kinds == ["float", "int"]


def test_what_cannot_be_tested_is_refused():
    good = {"neighbors": (0, 1), "epsilon": 1.0, "delta": 0.0, "draws": 100}
    for bad in ({"draws": 99}, {"epsilon": -1.0}, {"delta": 1.0}, {"delta": -0.1}):
        with pytest.raises(InvalidParameter):
            audit_callable(abs, **{**good, **bad})
    with pytest.raises(InvalidParameter, match="release_many must return"):
        audit_callable(abs, release_many=lambda value, n: [value], **good)
    with pytest.raises(InvalidType, match="adds noise"):
        audit_mechanism(abs, delta=1e-5, draws=1000)


RNG = np.random.default_rng(77)
FOREIGN = {
    "a variance for a deviation": lambda value, n: value + RNG.normal(scale=3.8**0.5, size=n),
    "a scale that underflows": lambda value, n: value + RNG.normal(size=n) * float(np.float16(1e-5) * np.float16(1e-3)),
    "a seed of eight bits": lambda value, n: (
        value + np.array([np.random.default_rng(i).normal(scale=3.8) for i in range(256)])[RNG.integers(256, size=n)]
    ),
    "noise of a uniform law": lambda value, n: value + RNG.uniform(-6.6, 6.6, size=n),
    "noise cut at two deviations": lambda value, n: value + np.clip(RNG.normal(scale=3.8, size=n), -7.6, 7.6),
    "noise that is added with one sign": lambda value, n: value + np.abs(RNG.normal(scale=3.8, size=n)),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_noise_of_somebody_else_that_is_wrong_is_found(name):
    """Each claims ε = 1 at δ = 1e-5, which takes a deviation of 3.8."""
    report = audit_callable(
        None, neighbors=(0.0, 1.0), epsilon=1.0, delta=1e-5, draws=100_000, release_many=FOREIGN[name]
    )

    assert report.violation
    assert report.confidence == pytest.approx(0.999)


def test_a_violation_needs_the_confidence_that_was_asked_for():
    """Rates of 0.5 and 0.25 of 6000 counted draws: ln 2, against a claim that lies between two bounds."""

    def release(value, n):
        return np.arange(n) < (n // 2 if value else n // 4)

    def violated(confidence, epsilon=0.55):
        return audit_callable(
            None,
            neighbors=(0, 1),
            epsilon=epsilon,
            delta=0.0,
            draws=8000,
            release_many=release,
            confidence=confidence,
        ).violation

    assert violated(0.95)
    assert violated(0.999)
    assert not violated(1.0 - 1e-12)
    assert violated(1.0 - 1e-12, epsilon=0.4)  # bounds reach as far as such a level asks
    assert smallest_violation(draws=6000, epsilon=0.55, delta=0.0, confidence=1.0 - 1e-12) > smallest_violation(
        draws=6000, epsilon=0.55, delta=0.0
    )
    with pytest.raises(InvalidParameter):
        violated(0.4)


def test_answers_have_their_law_and_other_answers_have_not():
    made = fd.RandomizedResponse(noise_parameter=0.5, num_categories=3)
    report = audit_mechanism(made, delta=0.0, draws=50_000, confidence=1.0 - 1e-9)
    assert not report.violation
    assert report.law_holds
    assert report.epsilon_lower_bound > 1.2  # one run of twenty shows more than ε, which is ln 4

    class Never(fd.RandomizedResponse):
        def release(self, answers, **options):  # type: ignore[override]
            found = super().release(answers, **options)
            return np.where(found == 2, 1, found)

    assert audit_mechanism(Never(noise_parameter=0.5, num_categories=3), delta=0.0, draws=50_000).law_holds is False
