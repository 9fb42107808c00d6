"""What a counter states: its cost for every adversary, its errors, and intervals that hold as often as they say."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

import ferrodp as fd
from ferrodp.accounting.curves import gaussian_delta, gaussian_noise_multiplier
from ferrodp.correlated import BandedToeplitz, BufferedToeplitz, SquareRoot, Tree
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import MatrixMechanismEvent, NeighboringRelation, decompose

AO, RO, RS = NeighboringRelation
SIGMA = 1.5
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
REACH = 14  # beyond ±14 counts of a first total about 0: below 10⁻¹⁹
TWO_DAYS = BandedToeplitz(num_steps=2, bands=2, coefficients=(1.0, 0.5))


def law(first, second, sigma=SIGMA, strategy=TWO_DAYS):
    """Return P(Y₀ = a, Y₁ = b) of the totals of one counter: of `first`, and then `second(a)` counts.

    By quadrature over the Z of the first day, in each interval that rounds to one number.
    """
    c0, c1 = strategy.coefficients()
    carried = (1.0 - c1 / c0) / c0  # of Z₀ in the second total: 1/c₀ − c₁/c₀²
    totals = np.arange(-REACH, REACH + 1)
    lasts = np.arange(-3 * REACH, 3 * REACH + 1)
    found = np.zeros((totals.size, lasts.size))
    for place, total in enumerate(totals):
        z = (total - first + 0.5 * NODES) * c0 / sigma
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * WEIGHTS * 0.5 * c0 / sigma
        center = first + second(total) + sigma * carried * z
        upper = special.ndtr((lasts[:, None] + 0.5 - center) * c0 / sigma)
        lower = special.ndtr((lasts[:, None] - 0.5 - center) * c0 / sigma)
        found[place] = (upper - lower) @ density
    return found


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


PARTS = (lambda total: total < -1, lambda total: -1 <= total < 1, lambda total: total >= 1)


def answers():
    """Yield functions of the first total, by which of three parts of the line it is in: all moves of one count."""
    for moves in itertools.product((-1, 0, 1), repeat=3):
        yield lambda total, moves=moves: next(move for move, part in zip(moves, PARTS, strict=True) if part(total))


def the_data(total):
    """Counts of the second day that depend on what the first one released."""
    return 2 if total > 0 else -1


@pytest.mark.parametrize(("max_days", "is_worst"), [(1, False), (2, True)])
def test_no_adversary_of_two_days_sees_more_than_is_charged(max_days, is_worst):
    """All 27 adaptive changes of the second day for each change of the first, within the days that a unit has.

    Truncation and quadrature err by less than 10⁻¹².
    """
    counter = fd.Counter(noise_multiplier=SIGMA, days=2, max_days=max_days, strategy=TWO_DAYS)
    reached = 0.0
    base = law(0, the_data)
    assert base.sum() == pytest.approx(1.0, abs=1e-12)
    for change in (-1, 0, 1):
        for answer in answers():
            if max_days == 1 and change and any(answer(total) for total in (-5, 0, 5)):
                continue
            moved = law(change, lambda total, answer=answer: the_data(total) + answer(total))
            for epsilon in (0.0, 0.3, 0.8):
                stated = counter.delta(epsilon)
                for one, other in ((base, moved), (moved, base)):
                    found = hockey_stick(one, other, epsilon)
                    assert found <= stated + 1e-12
                    reached = max(reached, found / stated)
    # Rounding to whole counts hides a little.
    assert reached > 0.9
    if is_worst:  # a charge for one day would be exceeded
        once = fd.Counter(noise_multiplier=SIGMA, days=2, strategy=TWO_DAYS)
        both = law(1, lambda total: the_data(total) + 1)
        assert hockey_stick(both, base, 0.3) > once.delta(0.3)


def test_totals_of_two_days_have_the_law_of_the_definition():
    """10⁶ counters whose second day depends on their first total; chi-square, false alarms 10⁻⁶."""
    size = 10**6
    counter = fd.Counter(noise_multiplier=SIGMA, days=2, strategy=TWO_DAYS)
    stream = counter.start(size)
    first = stream.release(np.zeros(size, np.int64))
    second = stream.release(np.where(first > 0, 2, -1))
    expected = law(0, the_data) * size

    seen, _, _ = np.histogram2d(
        first,
        second,
        bins=[np.arange(-REACH - 0.5, REACH + 1), np.arange(-3 * REACH - 0.5, 3 * REACH + 1)],
    )
    often = expected >= 20
    rest = size - seen[often].sum(), size - expected[often].sum()
    score = ((seen - expected)[often] ** 2 / expected[often]).sum() + (rest[0] - rest[1]) ** 2 / rest[1]
    assert stats.chi2.sf(score, int(often.sum())) > 1e-6


@pytest.mark.parametrize("strategy", [None, SquareRoot(num_steps=6), BandedToeplitz(num_steps=6, bands=3)])
def test_the_increments_of_totals_times_the_strategy_are_independent_noise(strategy):
    """Six days of 2·10⁵ counters: 21 variances and covariances, false alarms below 10⁻⁶ in all (5.6 deviations)."""
    size, days, sigma = 200_000, 6, 1000.0
    counter = fd.Counter(noise_multiplier=sigma, days=days, strategy=strategy)
    stream = counter.start(size)
    counts = np.arange(days)[:, None] * np.ones(size, np.int64)
    totals = np.array([stream.release(each) for each in counts])
    noise = (totals - np.cumsum(counts, axis=0)) / sigma
    column = counter.strategy.coefficients()
    column = np.append(column, np.zeros(days))[:days]
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(days)] for i in range(days)])
    z = matrix @ np.diff(noise, axis=0, prepend=0.0)

    covariance = z @ z.T / size
    deviations = np.where(np.eye(days, dtype=bool), math.sqrt(2.0 / size), math.sqrt(1.0 / size))
    assert np.all(np.abs(covariance - np.eye(days)) < 5.6 * deviations + 1e-5)
    for day in range(days):
        spread = float(np.std(noise[day])) * sigma
        assert spread == pytest.approx(counter.standard_error(day), rel=5.6 / math.sqrt(2 * size))
    for first, last in [(0, 1), (2, 5), (0, 5)]:
        spread = float(np.std(noise[last] - noise[first])) * sigma
        assert spread == pytest.approx(counter.change_error(first, last), rel=5.6 / math.sqrt(2 * size))


@pytest.mark.parametrize(("max_days", "apart"), [(None, 1), (1, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_the_event_covers_every_pattern_of_days(max_days, apart, relation):
    days = 7
    counter = fd.Counter(
        noise_multiplier=2.0, days=days, max_days=max_days, min_separation=apart, neighboring_relation=relation
    )
    column = counter.strategy.coefficients()
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(days)] for i in range(days)])
    worst = max(
        float(np.linalg.norm(matrix[:, list(chosen)].sum(axis=1)))
        for count in range(1, (max_days or 1) + 1)
        for chosen in itertools.combinations(range(days), count)
        if all(b - a >= apart for a, b in itertools.pairwise(chosen))
    ) * (2.0 if relation is RO else 1.0)

    ((event, count),) = decompose(counter.event)
    assert count == 1
    assert event.noise_multiplier == pytest.approx(2.0 / worst, rel=1e-9)
    assert event.noise_multiplier <= 2.0 / worst * (1 + 1e-15)
    assert counter.epsilon(1e-6) == pytest.approx(
        fd.GaussianMechanism(noise_multiplier=event.noise_multiplier, l2_sensitivity=1.0).epsilon(1e-6), rel=1e-12
    )
    assert isinstance(counter.event, MatrixMechanismEvent)


@pytest.mark.parametrize(
    "options",
    [
        {"days": 30},
        {"days": 30, "max_days": 5, "max_counters": 3},
        {"days": 30, "neighboring_relation": RO},
        {"l2_sensitivity": 7.5, "days": 5},
        {},
    ],
)
def test_calibrated_noise_is_the_least_that_keeps_the_target(options):
    counter = fd.Counter.calibrated(epsilon=0.7, delta=1e-7, **options)

    assert counter.epsilon(1e-7) <= 0.7
    assert counter.delta(0.7) <= 1e-7
    assert counter.epsilon(1e-7) == pytest.approx(0.7, rel=1e-9)
    bound = options.get("l2_sensitivity", math.sqrt(options.get("max_counters", 1)))
    assert counter.l2_sensitivity == pytest.approx(bound, rel=1e-15)
    assert counter.standard_deviation >= counter.noise_multiplier * bound
    distance = 2 if options.get("neighboring_relation") is RO else 1
    sensitivity = counter.strategy.sensitivity(options.get("max_days", 1))
    assert counter.noise_multiplier >= gaussian_noise_multiplier(epsilon=0.7, delta=1e-7) * distance * sensitivity
    assert gaussian_delta(epsilon=0.7, noise_multiplier=counter.noise_multiplier / distance / sensitivity) <= 1.1e-7


def test_the_error_of_a_million_days_is_nearly_the_least():
    counter = fd.Counter(noise_multiplier=1.0, days=2**20)

    assert counter.standard_error(2**20 - 1) * counter.strategy.sensitivity() <= 5.6
    assert len(counter.strategy.decays) <= 5
    assert Tree(num_steps=2**20).max_error() > 10.0


def test_a_number_of_days_that_is_not_known_costs_less_than_half_as_much_variance_again():
    unknown = fd.Counter(noise_multiplier=1.0)
    whole = unknown.strategy.sensitivity()
    for days in [2**power for power in range(7, 21)] + [200, 365, 3650, 10**5]:
        known = SquareRoot(num_steps=days)
        least = float(known.coefficients() @ known.coefficients())  # its largest error times its sensitivity
        ratio = (unknown.standard_error(days - 1) * whole / least) ** 2
        assert ratio <= 1.37, days


def test_intervals_hold_as_often_as_they_say_and_no_wider_than_they_must():
    counter = fd.Counter(noise_multiplier=3.0, l2_sensitivity=2.0, days=50)
    for day, level in [(0, 0.5), (10, 0.95), (49, 0.999)]:
        lower, upper = counter.interval(100, day=day, level=level)
        reach = (upper - lower) // 2
        error = counter.standard_error(day)

        def misses(k, error=error):
            return 2.0 * stats.norm.sf((k + 0.5) / error)

        assert 1.0 - misses(reach) >= level
        assert 1.0 - misses(reach - 1) < level
        many = counter.interval(100, day=day, level=level, comparisons=1000)
        assert 1000 * misses((many.upper - many.lower) // 2) <= 1.0 - level


def test_intervals_of_changes_hold_the_truth_as_often_as_they_say():
    """10⁵ counters; at a level of 0.9, 0.05 false alarms in a million: below 0.9 by 5.5 deviations."""
    size = 100_000
    counter = fd.Counter(noise_multiplier=4.0, days=20)
    stream = counter.start(size)
    counts = np.full(size, 3)
    totals = [stream.release(counts) for _ in range(20)]
    for first, last in [(3, 4), (2, 17)]:
        lower, upper = counter.change_interval(totals[first], totals[last], days=(first, last), level=0.9)
        truth = 3 * (last - first)
        share = float(np.mean((lower <= truth) & (truth <= upper)))
        assert 0.9 - 5.5 * math.sqrt(0.09 / size) < share < 0.96


def test_limits_of_a_unit_and_the_norm_agree_exactly():
    for most in (1, 2, 3, 5, 7, 10**6 + 3):
        counter = fd.Counter(noise_multiplier=1.0, max_counters=most, days=2)
        assert counter.max_counters == most
        assert Fraction(counter.l2_sensitivity) ** 2 >= most
    assert fd.Counter(noise_multiplier=1.0, l2_sensitivity=math.sqrt(3) - 1e-15, days=2).max_counters == 2
    assert fd.Counter(noise_multiplier=9.0, l2_sensitivity=0.5, days=2).max_counters == 0


def test_a_counter_is_written_and_read_as_it_is():
    for counter in (
        fd.Counter(noise_multiplier=2.0),
        fd.Counter(noise_multiplier=2.0, days=10, max_days=3, min_separation=2, max_counters=4),
        fd.Counter(noise_multiplier=2.0, days=10, strategy=SquareRoot(num_steps=12), neighboring_relation=RO),
    ):
        assert fd.Counter.from_dict(counter.to_dict()) == counter


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"noise_multiplier": 0.0}, InvalidParameter, "noise_multiplier"),
        ({"noise_multiplier": 0.01}, InvalidParameter, "between 1/8"),
        ({"noise_multiplier": 1.0, "l2_sensitivity": 2.0, "max_counters": 3}, InvalidParameter, "max_counters"),
        ({"noise_multiplier": 1.0, "min_separation": 2}, InvalidParameter, "max_days"),
        ({"noise_multiplier": 1.0, "days": 0}, InvalidParameter, "days"),
        ({"noise_multiplier": 1.0, "days": 9, "strategy": SquareRoot(num_steps=8)}, InvalidParameter, "days=8"),
        ({"noise_multiplier": 1.0, "strategy": "square_root"}, InvalidType, "BufferedToeplitz"),
        ({"noise_multiplier": 1.0, "days": 9, "strategy": Tree(num_steps=9)}, InvalidParameter, "Toeplitz"),
    ],
)
def test_what_no_counter_can_be_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        fd.Counter(**options)


def test_errors_of_days_that_are_none_are_refused():
    counter = fd.Counter(noise_multiplier=1.0, days=5)
    for call in (
        lambda: counter.standard_error(5),
        lambda: counter.change_error(3, 3),
        lambda: counter.interval(1, day=0, level=1.0),
        lambda: counter.interval(1, day=0, comparisons=0),
        lambda: counter.change_interval(1, 2, days=(1, 2, 3)),
        lambda: counter.change_interval([1], [2, 3], days=(1, 2)),
        lambda: fd.Counter.from_dict({"days": 3}),
    ):
        with pytest.raises(InvalidParameter):
            call()


def test_the_strategy_of_known_days_is_the_best_of_a_few_buffers():
    counter = fd.Counter(noise_multiplier=1.0, days=100, max_days=4, min_separation=7)
    again = BufferedToeplitz(num_steps=100, buffers=3, num_participations=4, min_separation=7, objective="max")

    assert counter.strategy == again
    assert counter.horizon == 100
    assert "4 days, at least 7 days apart" in counter.unit


@pytest.mark.parametrize("days", [1, 2, 3, 4, 5, 9, 16, 17, 365, 1001, 2**16 + 1])
def test_few_buffers_are_as_good_as_the_square_root(days):
    counter = fd.Counter(noise_multiplier=1.0, days=days)

    assert counter.strategy.max_error() <= 1.003 * SquareRoot(num_steps=days).max_error()
    assert fd.Counter.from_dict(counter.to_dict()) == counter
