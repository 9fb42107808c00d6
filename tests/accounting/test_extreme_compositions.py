"""Compositions at the ends of what floats hold: answers are intervals, monotone, and no method beats the least."""

import itertools
import math
import random
import time
from decimal import Decimal, localcontext
from fractions import Fraction

import extreme_compositions
import pytest

from ferrodp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    calibrate_count,
)
from ferrodp.accounting._laws import costs as _costs
from ferrodp.accounting._solve import contour as contour
from ferrodp.accounting._solve import solver as _composition
from ferrodp.accounting._solve.counts import largest_count
from ferrodp.accounting._solve.single_steps import delta_of_singles
from ferrodp.accounting.composition import compose_optimal_bounds
from ferrodp.accounting.curves import hockey_stick_epsilon


def composed(*parts, kind=PldAccountant):
    accountant = kind()
    for event, count in parts:
        accountant.compose(event, count)
    return accountant


def stated(epsilon, delta):
    return EpsilonDeltaEvent(epsilon=epsilon, delta=delta)


def sampled(probability, event):
    return PoissonSampledEvent(sampling_probability=probability, event=event)


@pytest.mark.parametrize("setting", list(extreme_compositions.settings(3)))
def test_answers_keep_the_rules(setting):
    """Crossed, contradicting, rising or needlessly wide intervals; the time is left to the script."""
    problems = [each for each in extreme_compositions.row(setting).problems if "seconds" not in each]
    assert problems == []


def test_stated_deltas_are_composed_and_not_added():
    """A million mechanisms that fail with probability 10⁻⁶: one of them does with 1 − (1 − 10⁻⁶)^(10⁶) = .632…"""
    accountant = composed((stated(0.0, 1e-6), 10**6))
    with localcontext() as context:
        context.prec = 60
        exact = 1 - (1 - Decimal.from_float(1e-6)) ** 10**6

    lower, upper = accountant.delta_bounds(0.0)
    assert Decimal(lower) <= exact <= Decimal(upper)
    assert upper - lower < 1e-6
    assert accountant.epsilon_bounds(0.7) == (0.0, 0.0)
    assert accountant.epsilon_bounds(0.63) == (math.inf, math.inf)


def test_what_fails_exactly_as_often_as_allowed_is_bounded():
    """1 − .9·.8 = .28, of the very floats a little less than the float: what is left is 3-private."""
    lower, upper = composed((stated(1.0, 0.1), 1), (stated(2.0, 0.2), 1)).epsilon_bounds(0.28)
    assert 2.999 < lower <= upper == 3.0
    assert composed((stated(1.0, 0.1), 1), (stated(2.0, 0.2), 1)).epsilon(0.27) == math.inf


def test_stated_guarantees_meet_the_optimal_composition():
    """Against the exact sums of Kairouz, Oh, Viswanath and Murtagh, Vadhan: the intervals have to overlap."""
    rng = random.Random(3)
    for _ in range(12):
        parts = [
            (rng.choice((0.1, 0.25, 1.0)), 10 ** rng.uniform(-9, -1), rng.choice((1, 2, 7)))
            for _ in range(rng.choice((1, 2)))
        ]
        one_by_one = [(epsilon, delta) for epsilon, delta, count in parts for _ in range(count)]
        failed = 1.0 - math.prod((1.0 - delta) ** count for _, delta, count in parts)
        accountant = composed(*((stated(epsilon, delta), count) for epsilon, delta, count in parts))
        for share in (1e-6, 0.1, 0.6):
            delta = failed + share * (1.0 - failed)
            ours, theirs = accountant.epsilon_bounds(delta), compose_optimal_bounds(one_by_one, delta=delta)
            assert ours.lower <= theirs.upper
            assert theirs.lower <= ours.upper
            assert ours.upper - ours.lower <= 1e-4 * ours.upper + 1e-12


@pytest.mark.parametrize("counts", [(1,), (1, 1), (3, 40), (200, 1, 7)])
def test_a_composed_failure_is_rounded_up(counts):
    """Never below the exact 1 − ∏(1 − δᵢ)^Tᵢ, and above it by no more than 50 digits allow; a sum would be."""
    deltas = [Fraction(1, 7), Fraction(1e-12), Fraction(3, 1000)][: len(counts)]
    exact = 1 - math.prod((1 - delta) ** count for delta, count in zip(deltas, counts, strict=True))
    found = _costs.failure(zip(deltas, counts, strict=True))

    assert exact <= found <= exact * (1 + Fraction(1, 10**50))
    assert sum(counts) == 1 or found < sum(delta * count for delta, count in zip(deltas, counts, strict=True))


def test_what_is_left_of_delta_after_failures_is_rounded_down():
    failed, delta = Fraction(1, 3), Fraction(1, 2)
    assert 0 < failed + (1 - failed) * Fraction(_costs.without_failure(delta, failed)) <= delta
    assert Fraction(_costs.with_failure(Fraction(1, 5), failed)) >= failed + (1 - failed) * Fraction(1, 5)
    assert _costs.without_failure(failed, failed) == 0.0


def test_nothing_beside_a_release_changes_it():
    """An event without loss got two masses of 1 on a grid finer than its own error: a lower end above the truth."""
    step = sampled(7.900276978691255e-10, GaussianEvent(noise_multiplier=78.08063361097578))
    lower, upper = composed((step, 100), (stated(0.0, 0.0), 100)).delta_bounds(0.0)
    exact = contour.bounds("delta", [contour.Release(78.08063361097578, 7.900276978691255e-10, 100)], [0.0])[0]

    assert lower <= exact.upper
    assert exact.lower <= upper


def test_a_single_step_has_the_bounds_of_its_curve():
    mixture = MixtureOfGaussiansEvent(noise_multiplier=20.0, shifts=(0.0, 1.0, 2.0), probabilities=(0.5, 0.25, 0.25))
    for event in (mixture, sampled(1e-6, GaussianEvent(noise_multiplier=1.35)), stated(1.0, 1e-310)):
        assert composed((event, 1)).epsilon_bounds(1e-300) == hockey_stick_epsilon(event, 1e-300)
    event = LaplaceEvent(noise_multiplier=0.05)
    assert composed((event, 1)).epsilon(1.0 - 1e-12) <= hockey_stick_epsilon(event, 1.0 - 1e-12).upper


@pytest.mark.parametrize(
    ("parts", "delta", "most"),
    [
        ([(GaussianEvent(noise_multiplier=1.0), 1), (LaplaceEvent(noise_multiplier=1.0), 1)], 1e-300, 38.6),
        ([(sampled(1e-12, LaplaceEvent(noise_multiplier=11.08)), 10**9)], 1e-9, 1.4e-8),
    ],
)
def test_the_least_of_all_methods_answers(parts, delta, most):
    accountant = composed(*parts)

    assert accountant.epsilon(delta) <= composed(*parts, kind=RdpAccountant).epsilon(delta) < most
    assert "Rényi" in accountant.explain(delta).method


FALLING = [10.0**-digits for digits in range(24, 8, -1)] + [1e-8, 1e-6, 1e-5, 1e-4, 0.01, 0.1, 0.3, 0.7, 0.99]


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (DiscreteGaussianEvent(scale=0.1, l2_sensitivity=2), 100),
        (DiscreteGaussianEvent(scale=0.11, l2_sensitivity=1), 10),
        (DiscreteGaussianEvent(scale=0.3, l2_sensitivity=1), 10**4),
        (DiscreteLaplaceEvent(scale=0.02, l1_sensitivity=1), 100),
        (stated(30.0, 1e-13), 100),
        (LaplaceEvent(noise_multiplier=0.01), 100),
        (sampled(1.0 - 1e-6, DiscreteLaplaceEvent(scale=0.05, l1_sensitivity=1)), 100),
        (ExponentialMechanismEvent(epsilon=20.0), 100),
    ],
)
def test_a_larger_delta_never_has_a_larger_upper_end(event, count):
    """What holds at a smaller δ holds at a larger one; but for the width at which an interval counts as narrow.

    Where nearly all mass is at one loss, as of little noise on integers, no plan succeeds at some δ between others.
    """
    accountant = composed((event, count))
    answers = [accountant.epsilon(delta) for delta in FALLING]

    for smaller, larger in itertools.pairwise(answers):
        assert larger <= smaller * (1.0 + extreme_compositions.SLACK)


def test_little_noise_on_integers_loses_what_one_loss_is():
    """The loss of each of 100 steps is 200 but with probability 4·10⁻²²: at 1e-9 the answer of 1e-12 holds."""
    accountant = composed((DiscreteGaussianEvent(scale=0.1, l2_sensitivity=2), 100))

    for delta in (1e-12, 1e-10, 1e-9, 1e-6, 1e-3, 0.1):
        # 20000 + ln(1 − δ) is the ε where the loss is 20000 surely, and ln .9 > −.11
        assert 20000.0 - 0.11 <= accountant.epsilon(delta) <= 20000.0 * (1.0 + 1e-9)


def test_deltas_next_to_one_need_no_more_epsilon_than_smaller_ones():
    """1 − δ drowns in the errors of δ; ε(δ) of a smaller δ is a bound, too."""
    accountant = composed((sampled(0.01, GaussianEvent(noise_multiplier=1.8)), 10**8))
    answers = [accountant.epsilon(delta) for delta in (0.9, 0.999, 1.0 - 1e-5, 1.0 - 1e-9, 1.0 - 1e-12)]

    assert answers == sorted(answers, reverse=True)
    assert answers[-1] < 1600.0


@pytest.mark.parametrize(
    ("probability", "noise_multiplier", "count", "more", "epsilon"),
    [
        (1.457794464440912e-06, 1.3527917460747885, 2, 100, 1.0),
        (5.523096001506306e-08, 2.0597917903881893, 48, 96, 0.01),
        (1.560953424885419e-12, 0.010266645832680554, 4, 200, 0.0),
    ],
)
def test_fewer_rarely_sampled_steps_have_no_larger_delta(probability, noise_multiplier, count, more, epsilon):
    step = sampled(probability, GaussianEvent(noise_multiplier=noise_multiplier))

    assert composed((step, count)).delta(epsilon) <= composed((step, more)).delta(epsilon)


def test_fewer_rarely_sampled_steps_have_no_larger_epsilon():
    kinds = ((4.5949963774741153e-11, 4.538045006703493), (8.480127905796595e-05, 1.1459543450792804))
    events = [sampled(q, GaussianEvent(noise_multiplier=z)) for q, z in kinds]

    few, many = (composed(*((event, count) for event in events)).epsilon(1e-100) for count in (1, 2))
    assert few <= many


def law(*masses):
    """Return the masses (P, Q) of a law and the exact curve of n independent copies."""

    def exact(epsilon, count):
        total, scale = Fraction(0), Fraction(math.exp(epsilon))
        for chosen in itertools.product(masses, repeat=count):
            p, q = (math.prod((each[side] for each in chosen), start=Fraction(1)) for side in (0, 1))
            total += max(p - scale * q, 0)
        return total

    return exact


RARE = law((Fraction(1, 10**6), Fraction(1, 10**9)), (1 - Fraction(1, 10**6), 1 - Fraction(1, 10**9)))
"""A loss of ln 1000 = 6.9 with probability 10⁻⁶, and about 0 otherwise."""
FREQUENT = law((Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 3), Fraction(2, 3)))
STEPWISE = law(
    (Fraction(1, 10**9), Fraction(0)),
    (Fraction(1, 10**3), Fraction(1, 10**4)),
    (1 - Fraction(1, 10**3) - Fraction(1, 10**9), 1 - Fraction(1, 10**4)),
)


@pytest.mark.parametrize("exact", [RARE, FREQUENT, STEPWISE])
def test_curves_of_single_steps_bound_a_composition(exact):
    """All outcomes of up to six steps, enumerated; two of the larger losses have to be counted where one is too few."""
    curve = lambda epsilon: math.nextafter(float(exact(epsilon, 1)), math.inf)  # noqa: E731
    for epsilon in (0.0, 1e-3, 0.1, 1.0, 2.0, 6.0, 7.5, 13.0):
        bounds = [delta_of_singles(epsilon, [(curve, count)], 2.0) for count in range(1, 7)]

        assert bounds == sorted(bounds)
        for count, bound in enumerate(bounds, 1):
            assert exact(epsilon, count) <= bound * (1 + 1e-12)
    few = delta_of_singles(6.0, [(curve, 1), (curve, 2)], 2.0)
    assert few == delta_of_singles(6.0, [(curve, 3)], 2.0)


def test_the_bound_of_single_steps_is_tight_far_out():
    """Three rare losses: little more than three times the curve of one; and two of them are what is beyond one."""
    curve = lambda epsilon: math.nextafter(float(RARE(epsilon, 1)), math.inf)  # noqa: E731

    assert delta_of_singles(5.0, [(curve, 3)], 2.0) < 1.05 * RARE(5.0, 3)
    assert RARE(7.5, 3) <= delta_of_singles(7.5, [(curve, 3)], 2.0) < 1e-9


def test_losses_without_end_have_an_answer():
    """Numbers of nodes beyond all integers: no panic, and a bound."""
    accountant = composed((GaussianEvent(noise_multiplier=1e-9), 10**9), (LaplaceEvent(noise_multiplier=1e3), 1))
    for delta in (1e-300, 1e-5, 0.999):
        assert 0.0 <= accountant.epsilon_bounds(delta).lower <= accountant.epsilon_bounds(delta).upper < math.inf
    assert accountant.delta(1e30) < 1e-9


@pytest.mark.parametrize("delta", [1e-6, 1.0 - 1e-12])
def test_counts_of_extreme_targets_are_found_in_few_questions(delta, monkeypatch):
    """One after the other, a count that misses by the width of an interval would be lowered by one at a time."""
    asked = []
    solve = _composition.solve
    monkeypatch.setattr(_composition, "solve", lambda *rest: asked.append(rest) or solve(*rest))
    step = sampled(1e-12, GaussianEvent(noise_multiplier=19.0))
    count = calibrate_count(step, target_epsilon=2.5, target_delta=delta)

    assert len(asked) <= 80
    assert composed((step, count)).epsilon(delta) <= 2.5


def test_remaining_counts_are_exact_and_found_in_few_questions(monkeypatch):
    asked = []
    solve = _composition.solve
    monkeypatch.setattr(_composition, "solve", lambda *rest: asked.append(rest) or solve(*rest))
    accountant, step = PldAccountant(), sampled(1e-4, LaplaceEvent(noise_multiplier=20.0))
    count = accountant.remaining_count(step, epsilon=1.0, delta=1e-6)

    assert len(asked) <= 60
    assert composed((step, count)).epsilon(1e-6) <= 1.0 < composed((step, count + 1)).epsilon(1e-6)


@pytest.mark.parametrize("edge", [1, 2, 7, 1000, 10**12 + 1, 2**63 - 1, 2**63])
def test_the_largest_count_is_found_whatever_rough_answers_say(edge):
    """Exactly, with a neighborhood that is right, off by a factor of 100, or not to be had."""

    def over(count):
        return -1e-9 if count < edge else 1e-9

    def log_over(count):
        return math.log(count / edge) if count < edge else math.log(count / edge) + 1e-300

    for ask in (over, log_over):
        for rough in (None, ask, lambda _: -1.0, lambda _: 1.0, lambda count: math.log(count) - math.log(edge) - 4.6):
            assert largest_count(ask, rough) == edge - 1


@pytest.mark.parametrize(("log2_noise", "probability", "count"), [(-5, 0.5, 10**6), (-6, 0.01, 10**6), (-6, 0.5, 1000)])
def test_of_little_noise_one_contour_is_asked(log2_noise, probability, count, monkeypatch):
    """Each costs up to .6 s and finds no ε: four of them were 2 s."""
    asked, ask = [], contour.bounds
    monkeypatch.setattr(contour, "bounds", lambda *args: asked.append(args) or ask(*args))
    accountant = composed((sampled(probability, GaussianEvent(noise_multiplier=2.0**log2_noise)), count))

    assert math.isfinite(accountant.epsilon(1e-5))
    assert len(asked) == 1


@pytest.mark.parametrize("log2_noise", [-16, -20, -24, -50])
def test_noise_that_no_contour_answers_for_costs_none(log2_noise):
    """CPU time; measured .2 s, where looking for a saddle of the other direction took 4 to 40 s."""
    accountant = composed((sampled(0.5, GaussianEvent(noise_multiplier=2.0**log2_noise)), 1000))
    start = time.process_time()

    assert math.isfinite(accountant.epsilon(1e-5))
    assert time.process_time() - start < 2.0
