"""Choices have exactly the stated probabilities, and these keep the stated ε: formulas, keys, counts."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

from ferrodp import _native
from ferrodp.mechanisms import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from ferrodp.testing import seeded
from reference import keystream, selection
from support import vectors

SEED = b"mechanisms: exact choices       "
NOISES = {"gumbel": ExponentialMechanism, "exponential": PermuteAndFlip, "laplace": ReportNoisyMax}
VECTORS = vectors.samplers("expmech-", "permflip-")
CASES = [
    ([0.0, 1.0], 2.0),
    ([0.0, 1.0, 3.0], 0.8),
    ([2.0, 2.0, 1.0, 0.0], 2.0),
    ([5.0, 0.0, 0.0, 0.0], 1.5),
    ([1e15, 1e15 + 1, 1e15 - 2, 0.0], 1.0),
    ([1e-300, 2e-300, 0.0], 1e-300),
]

SLACK = mpf(10) ** -20  # of numbers of thirty digits or more, of which differences are formed

every_noise = pytest.mark.parametrize("noise", NOISES)


def drawn(mechanism, utilities, count):
    source = seeded(SEED)
    values = np.array(utilities)
    return [mechanism.release(values, source=source) for _ in range(count)]


# formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_reference_and_the_mechanism_have_the_given_probabilities(vector):
    inputs = vector["inputs"]
    noise = "gumbel" if vector["id"].startswith("expmech") else "exponential"
    mechanism = NOISES[noise].calibrated(epsilon=inputs["eps"], sensitivity=inputs["sens"])

    exact = Fraction(2 * inputs["sens"]) / Fraction(inputs["eps"])
    with mp.workdps(40):
        for scale, tolerance in ((exact, mpf(vector["tolerance"]["rel"])), (mechanism.scale, mpf(10) ** -15)):
            found = selection.probabilities(noise, inputs["scores"], scale)
            for expected, probability in zip(vector["expected"], found, strict=True):
                assert abs(probability / mpf(expected) - 1) < tolerance
    assert mechanism.epsilon() <= inputs["eps"]


@pytest.mark.parametrize(("utilities", "scale"), CASES, ids=str)
def test_permute_and_flip_is_the_largest_with_exponential_noise(utilities, scale):
    with mp.workdps(40):
        flips = selection.exponential(utilities, scale)
        largest = selection.by_pieces("exponential", utilities, scale)

        assert abs(mpmath.fsum(flips) - 1) < SLACK
        assert all(abs(a - b) < SLACK for a, b in zip(flips, largest, strict=True))


def test_formulas_are_what_quadrature_finds():
    """The density of the noise of the first times the chance that the second is below; less than 1e-17 is cut off."""
    laplace = lambda x: mpmath.exp(-abs(x)) / 2  # noqa: E731
    below = lambda x: mpmath.exp(x) / 2 if x < 0 else 1 - mpmath.exp(-x) / 2  # noqa: E731
    gumbel = lambda x: mpmath.exp(-x - mpmath.exp(-x))  # noqa: E731
    ends = [-25, -8, -2, 0, 2, 10, 45]

    for density, distribution, noise in (
        (laplace, below, "laplace"),
        (gumbel, lambda x: mpmath.exp(-mpmath.exp(-x)), "gumbel"),
    ):
        found = mpmath.quad(lambda x, f=density, g=distribution: f(x) * g(x - 2), ends)

        assert abs(found - selection.probabilities(noise, [0.0, 4.0], 2.0)[0]) < 1e-12


# privacy ----------------------------------------------------------------------------------------------------------

sizes = st.integers(2, 4)


def losses(noise, mechanism, utilities, moved):
    """Return the loss of every candidate, and the probabilities."""
    p, q = (selection.probabilities(noise, values, mechanism.scale) for values in (utilities, moved))
    return [mpmath.log(a / b) for a, b in zip(p, q, strict=True)], p, q


def neighbors(data, monotonic, sensitivity):
    count = data.draw(sizes)
    grid = st.integers(-32, 32).map(lambda n: n / 8)
    utilities = data.draw(st.lists(grid, min_size=count, max_size=count))
    steps = st.integers(0 if monotonic else -8, 8).map(lambda n: n / 8 * sensitivity)
    return utilities, [
        u + step for u, step in zip(utilities, data.draw(st.lists(steps, min_size=count, max_size=count)), strict=True)
    ]


@every_noise
@pytest.mark.parametrize("monotonic", [False, True])
def test_no_loss_exceeds_epsilon(noise, monotonic):
    @settings(max_examples=20)
    @given(st.data(), st.sampled_from([0.25, 1.0, 4.0]))
    def check(data, scale):
        mechanism = NOISES[noise](scale=scale, sensitivity=0.5, monotonic=monotonic)
        utilities, moved = neighbors(data, monotonic, 0.5)
        with mp.workdps(30):
            found, p, q = losses(noise, mechanism, utilities, moved)

            assert max(found) <= mechanism.epsilon() + SLACK
            assert min(found) >= -mechanism.epsilon() - SLACK
            if noise == "gumbel":
                assert max(found) - min(found) <= mechanism.event.epsilon + SLACK
            for epsilon in (0.0, 0.3 * mechanism.epsilon(), 0.7 * mechanism.epsilon()):
                ratio = mpmath.exp(epsilon)
                delta = mpmath.fsum(max(a - ratio * b, mpf(0)) for a, b in zip(p, q, strict=True))
                assert delta <= mechanism.delta(epsilon) + SLACK

    check()


@every_noise
@pytest.mark.parametrize("monotonic", [False, True])
def test_epsilon_is_nearly_attained(noise, monotonic):
    """One of few candidates moves alone, from far behind: a smaller ε would be refuted."""
    mechanism = NOISES[noise](scale=1.0, sensitivity=0.5, monotonic=monotonic)
    others = 0.0 if monotonic else -0.5
    with mp.workdps(30):
        found, _, _ = losses(noise, mechanism, [0.5, 2e4 + others], [0.0, 2e4])

        assert max(found) > 0.999 * mechanism.epsilon()
        assert max(found) <= mechanism.epsilon()


def test_permute_and_flip_has_no_bounded_range():
    """Why its event is plain ε: losses lie further apart than ε."""
    mechanism = PermuteAndFlip(scale=0.5, sensitivity=0.5)
    with mp.workdps(30):
        found, _, _ = losses("exponential", mechanism, [0.0, 0.0], [-0.5, 0.5])

        assert max(found) - min(found) > 1.2 * mechanism.epsilon()


@pytest.mark.parametrize("utilities", [[3.0, 1.0, 0.0], [2.0, 2.0, 2.0], [5.0, 4.5, -3.0, 0.0]])
def test_permute_and_flip_falls_short_by_no_more_than_the_exponential_mechanism(utilities):
    with mp.workdps(30):
        flip, softmax = (
            mpmath.fsum(
                p * (max(utilities) - u)
                for p, u in zip(selection.probabilities(noise, utilities, 1.5), utilities, strict=True)
            )
            for noise in ("exponential", "gumbel")
        )

        assert softmax / 2 - SLACK <= flip <= softmax + SLACK


# runs -------------------------------------------------------------------------------------------------------------

RUNS = [
    ([0.0, 1.0, 3.0], [2, 1, 1], [0.0, 0.5, 2.0], 0.8),
    ([1.0, 1.0], [1, 0], [0.25, 3.0], 1.5),
    ([-2.0, 0.0], [3, 1], [0.0, 0.0], 1.0),
    ([0.0, 0.5, 0.25], [0, 0, 0], [1.0, 2.0, 0.125], 2.0),
]


def test_a_race_of_one_kind_is_permute_and_flip_or_the_exponential_mechanism():
    utilities, copies = [0.0, 1.0, 3.0], [2, 1, 1]
    with mp.workdps(20):
        flips = selection.exponential([0.0, 0.0, 1.0, 3.0], 0.8)
        found = selection.race(utilities, 0.8, copies, [0] * 3)
        softmax = selection.race(utilities, 0.8, [0] * 3, [2.0, 1.0, 1.0])

        assert found[:3] == pytest.approx([flips[0] + flips[1], *flips[2:]], rel=1e-12)
        assert softmax[3:] == pytest.approx([2 * selection.gumbel([0.0, 0.0, 1.0, 3.0], 0.8)[0],
                                             *selection.gumbel([0.0, 0.0, 1.0, 3.0], 0.8)[2:]], rel=1e-12)  # fmt: skip
    assert selection.permuted(utilities, 0.8, copies) == pytest.approx([float(each) for each in found[:3]], rel=1e-12)


@pytest.mark.parametrize(("utilities", "whole", "weights", "scale"), RUNS)
def test_a_race_of_both_kinds_costs_no_more_than_epsilon(utilities, whole, weights, scale):
    """Every shift of every utility by −d, 0 or d, and by 0 or d where these are monotonic."""
    d = 0.5
    with mp.workdps(20):
        before = selection.race(utilities, scale, whole, weights)
        assert mpmath.fsum(before) == pytest.approx(1.0, rel=1e-12)
        for monotonic in (False, True):
            epsilon = (1 if monotonic else 2) * d / scale
            for shifts in itertools.product([0.0, d] if monotonic else [-d, 0.0, d], repeat=len(utilities)):
                moved = [u + shift for u, shift in zip(utilities, shifts, strict=True)]
                after = selection.race(moved, scale, whole, weights)
                for p, q in zip(before, after, strict=True):
                    assert not p or abs(mpmath.log(p / q)) <= epsilon + 1e-9


def test_less_than_one_uniform_arrival_would_cost_more():
    """Why weights below one are those of exponential arrivals: 1 − (1 − v)^m is not concave in v for m < 1."""
    d, m = 0.1, 0.01
    beyond = lambda v: 1.0 - (1.0 - v) ** m  # noqa: E731
    assert beyond(math.exp(-d) * 0.999_999) < math.exp(-d) * beyond(0.999_999)


@pytest.mark.parametrize(("utilities", "whole", "weights", "scale"), RUNS)
def test_runs_win_as_often_as_the_race_says(utilities, whole, weights, scale):
    """6 000 seeded choices: chi-square with up to 5 degrees of freedom, below 40 except with probability 2e-7."""
    draws, unit, count = 6_000, 3, len(utilities)
    mechanism, source = PermuteAndFlip(scale=scale, sensitivity=1.0), seeded(SEED)
    parts = [np.array(whole, np.uint64), np.array([int(8 * each) for each in weights], np.uint64)]
    found = np.zeros(2 * count)
    for _ in range(draws):
        chosen = mechanism.release_from_runs(
            utilities, parts[0], lambda run, _: run, weights=parts[1], unit=unit, source=source
        )
        found[int(chosen)] += 1
    with mp.workdps(15):
        due = draws * np.array([float(each) for each in selection.race(utilities, scale, whole, weights)])
    assert not found[due == 0.0].any()
    kept = due > 0.0
    assert ((found[kept] - due[kept]) ** 2 / due[kept]).sum() < 40.0


@pytest.mark.parametrize(("permuted", "unit"), [(0, 0), (5, 0), (3, 0), (3, 41), (0, 63)])
def test_runs_are_those_of_the_reference(permuted, unit):
    """Counts of any size, a run of none among them: the outcome for a key, bit for bit."""
    utilities, counts = [0.0, 1.0, 2.5, -20.0, 1.0], [3, 1, 0, 2**55 + 1, 2**20]
    for call in range(20):
        key = keystream.call_key(SEED, call)
        found = _native.choose_run_of_candidates(
            np.array(utilities), np.array(counts, np.uint64), permuted, unit, 1.0, 0.7, 1, key
        )
        assert selection.choose_run(key, utilities, counts, permuted, unit, 0.7) == found


# outcomes ---------------------------------------------------------------------------------------------------------


@every_noise
@pytest.mark.parametrize(("utilities", "scale"), CASES, ids=str)
def test_choices_are_those_of_the_reference(noise, utilities, scale):
    mechanism = NOISES[noise](scale=scale, sensitivity=1.0 if scale > 1e-100 else 1e-300)
    expected = [selection.choose(noise, keystream.call_key(SEED, call), utilities, scale) for call in range(25)]

    assert expected == drawn(mechanism, utilities, 25)


@every_noise
def test_many_candidates_are_addressed_as_in_the_reference(noise):
    """Across the pieces in which words are made."""
    utilities = [float(i * 37 % 101) / 50 for i in range(1100)]
    mechanism = NOISES[noise](scale=1.0, sensitivity=1.0)
    with mp.workprec(120):
        key = keystream.call_key(SEED, 0)
        noisy = [u + selection.noise_of(noise, key, i, 64) for i, u in enumerate(selection.scaled(utilities, 1.0))]

    assert drawn(mechanism, utilities, 1) == [max(range(1100), key=lambda i: noisy[i])]


@every_noise
@pytest.mark.parametrize("call", range(12))
def test_the_winner_changes_at_the_right_float(noise, call):
    """Utilities that tie up to the last bit of a float, so that only exact comparison tells: eight floats around it."""
    key = keystream.call_key(SEED, call)
    with mp.workprec(2 * selection.DIGITS):
        difference = selection.noise_of(noise, key, 0) - selection.noise_of(noise, key, 1)
        tie = float(difference)
        at = [tie]
        for toward in (-math.inf, math.inf):
            at += [step := math.nextafter(tie, toward), math.nextafter(step, toward)]
        expected = [int(selection.exact(u) > difference) for u in at]
    found = [_native.choose_candidate(np.array([0.0, u]), noise, 1.0, 1.0, 1, key) for u in at]

    assert expected == found
    assert len(set(found)) == 2


@every_noise
@pytest.mark.parametrize(("utilities", "scale"), CASES, ids=str)
def test_counts_are_those_of_the_law(noise, utilities, scale):
    """Chi-square of 20 000 choices, candidates with an expectation below 5 taken together; false alarm 1e-9 a test."""
    draws = 20_000
    mechanism = NOISES[noise](scale=scale, sensitivity=1.0 if scale > 1e-100 else 1e-300)
    with mp.workdps(30):
        expected = draws * np.array([float(p) for p in selection.probabilities(noise, utilities, scale)])
    observed = np.bincount(drawn(mechanism, utilities, draws), minlength=len(utilities)).astype(float)
    rare = expected < 5
    theory = np.append(expected[~rare], expected[rare].sum())
    counts = np.append(observed[~rare], observed[rare].sum())
    kept = theory > 1e-6

    statistic = ((counts[kept] - theory[kept]) ** 2 / theory[kept]).sum()

    assert counts[~kept].sum() == 0
    assert stats.chi2.sf(statistic, max(kept.sum() - 1, 1)) > 1e-9


# curves -----------------------------------------------------------------------------------------------------------


@every_noise
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(1e-12, 0.99))
def test_epsilon_and_delta_are_inverse_and_rounded_up(noise, scale, sensitivity, delta):
    mechanism = NOISES[noise](scale=scale, sensitivity=sensitivity)
    epsilon = mechanism.epsilon(delta)
    whole = Fraction(2) * Fraction(sensitivity) / Fraction(scale)

    assert 0.0 <= epsilon <= mechanism.epsilon()
    assert Fraction(math.nextafter(mechanism.epsilon(), 0.0)) < whole <= Fraction(mechanism.epsilon())
    assert mechanism.delta(epsilon) <= delta
    with mp.workdps(60):
        eta, at = selection.exact(whole), mpf(epsilon)
        if noise == "gumbel":
            exact = (1 - mpmath.exp((at - eta) / 2)) ** 2 / (1 - mpmath.exp(-eta)) if at < eta else mpf(0)
        else:
            exact = (1 - mpmath.exp(at - eta)) / (1 + mpmath.exp(-eta)) if at < eta else mpf(0)
        found = mechanism.delta(epsilon)
        assert exact <= mpf(found) <= exact * (1 + mpf(2) ** -51) + mpf(5e-324)
