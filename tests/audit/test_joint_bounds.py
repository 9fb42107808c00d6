"""Lower bounds on ε from both counts at once, against slow computations and exact probabilities of being wrong."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom, norm

from ferrodp.audit import _joint, _region_test
from ferrodp.audit._events.regions import Region
from ferrodp.audit._events.statistics import Column
from ferrodp.audit._joint import Pair, Rates, bound, pooling_helps, tails_of

COUNTS = [(1, 1), (1, 7), (7, 7), (3, 40), (40, 41), (1, 10**6), (900, 3000), (20_000, 10**8), (10**9 - 4, 10**9)]


@pytest.mark.parametrize(("k", "n"), COUNTS)
def test_scores_of_a_count_enclose_the_exact_ones_and_are_tight(k, n):
    tails = tails_of(k, n)
    reach = norm.isf(1e-9)
    for i in (0, 1, 17, 300, 512, 900, 1022, 1023):
        p = mp.mpf(float(tails.nodes[i]))
        if p == 1:
            continue
        exact = float(mp.sqrt(2) * mp.erfinv(2 * _tail(k, n, p) - 1))
        assert tails.low[i] <= exact <= tails.high[i]
        if abs(exact) < reach:
            assert tails.high[i] - tails.low[i] < 4e-5

    assert (np.diff(tails.nodes) > 0).all()
    assert (np.diff(tails.low) >= 0).all()


def _tail(k, n, p):
    """Return P[X ≥ k] with 40 digits, by terms of the shorter tail."""
    with mp.workdps(40):
        down = k <= n * p
        at = k - 1 if down else k
        if at < 0:
            return mp.mpf(1)
        log = mp.loggamma(n + 1) - mp.loggamma(at + 1) - mp.loggamma(n - at + 1)
        term = mp.exp(log + at * mp.log(p) + (n - at) * mp.log1p(-p))
        total, odds = mp.mpf(0), p / (1 - p)
        while 0 <= at <= n and term > total * mp.mpf("1e-25"):
            total += term
            term *= at / ((n - at + 1) * odds) if down else odds * (n - at) / (at + 1)
            at += -1 if down else 1
        return 1 - total if down else total


def slow(counts, n, level, delta, weighed, alone, lefts):
    """Return the bound without nodes: the least score over a fine grid of the other rate, by another library."""
    q = np.sin(np.linspace(1e-4, 1.5, 40_001)) ** 2
    total = level * (1 - sum(alone))

    def least(hits, other, left, epsilon):
        p = np.minimum(np.exp(epsilon) * q + delta, 1.0)
        one, two = norm.isf(binom.sf(hits - 1, n, p)), norm.isf(binom.cdf(other, left, q))
        best = np.minimum(np.exp(weighed) * q + delta, 1.0 - 1e-9)
        a, b = np.sqrt(best * (1 - best)), np.exp(weighed) * np.sqrt(q * (1 - q))
        score = (a * np.maximum(one, -99) + b * np.maximum(two, -99)) / np.hypot(a, b)
        shares = [level / len(counts) * share for share in alone]
        score[(one >= norm.isf(shares[0])) | (two >= norm.isf(shares[1]))] = np.inf
        return score.min()

    low, high = 0.0, 20.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        found = [least(*count, left, middle) for count, left in zip(counts, lefts, strict=True)]
        is_rejected = np.inf in found or sum(found) >= norm.isf(total) * math.sqrt(len(counts))
        low, high = (middle, high) if is_rejected else (low, middle)
    return low


SETTINGS = [
    ([(1500, 900)], 3000, 0.025, 0.0, 0.5, (0.01, 0.025)),
    ([(1500, 900)], 3000, 5e-4, 0.01, 0.5, (0.01, 0.025)),
    ([(300, 2)], 3000, 0.025, 1e-3, 3.0, (0.01, 0.5)),
    ([(300, 0)], 3000, 0.025, 0.0, 1.0, (0.01, 0.5)),
    ([(200, 70), (190, 80)], 3000, 0.05, 0.01, 1.0, (0.01, 0.025)),
]


@pytest.mark.parametrize(("counts", "n", "level", "delta", "weighed", "alone"), SETTINGS)
def test_bounds_are_those_of_a_slow_computation_rounded_down(counts, n, level, delta, weighed, alone, monkeypatch):
    lefts = [n - other[0] for other in counts[::-1]] if len(counts) == 2 else [n]
    exact = slow(counts, n, level, delta, weighed, alone, lefts)
    for nodes, loss in ((1024, 0.03), (16_000, 0.002)):
        monkeypatch.setattr(_joint, "_NODES", nodes)
        pairs = [
            Pair(hits, other, n, Rates(hits / n, other / n), weighed, delta, left)
            for (hits, other), left in zip(counts, lefts, strict=True)
        ]
        assert pairs[0].alone == alone
        found = bound(pairs, level, delta)
        assert found <= exact
        assert found >= exact - loss * exact


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_a_bound_is_too_large_with_at_most_its_level_whatever_the_rates(delta, monkeypatch):
    """Exactly, over all counts of 16 draws a side. So few hits come in steps that leave much of the level unused."""
    monkeypatch.setattr(_joint, "_NODES", 128)
    n, level, worst = 16, 0.2, 0.0
    counts = np.arange(n + 1)
    bounds = np.array(
        [[bound([Pair(x, y, n, Rates(0.5, 0.2), 0.9, delta, n)], level, delta) for y in counts] for x in counts]
    )
    for q in np.linspace(0.02, 0.45, 12):
        for p in np.linspace(q + delta + 0.01, 0.98, 12):
            masses = np.outer(binom.pmf(counts, n, p), binom.pmf(counts, n, q))
            wrong = float(masses[bounds > math.log((p - delta) / q)].sum())
            assert wrong <= level
            worst = max(worst, wrong)

    assert worst > 0.1 * level


def test_a_bound_of_two_events_is_too_large_with_at_most_its_level(monkeypatch):
    """Of 80 runs at level 0.2, 38 or more are wrong with probability below 1e-6 if each is with 0.2."""
    monkeypatch.setattr(_joint, "_NODES", 200)
    rng, n, rates = np.random.default_rng(7), 300_000, Rates(0.004, 0.0016)
    wrong = 0
    for _ in range(80):
        (x1, y2, _), (x2, y1, _) = rng.multinomial(n, [*rates, 1 - sum(rates)], size=2)
        counts = [_count("above", 1.0, 0, (x1, y1), rates), _count("below", -1.0, 1, (x2, y2), rates)]
        pooled = _region_test._Bounds(counts, n, 0.9, 0.0).pooled
        wrong += bound(pooled, 0.2, 0.0) > rates.epsilon(0.0)

    assert binom.sf(37, 80, 0.2) < 1e-6
    assert 1 <= wrong <= 37


def test_the_draws_of_one_event_are_no_draws_of_the_other():
    """What was counted: two events of half of all draws of a side each, of which 9 in 10 hit."""
    rates = Rates(0.5, 0.4)
    counts = [_count("above", 1.0, 0, (5000, 3900), rates), _count("below", -1.0, 1, (5100, 4000), rates)]
    bounds = _region_test._Bounds(counts, 10_000, 0.2, 0.0)
    assert not bounds.pooled  # promises nothing
    assert len(bounds.of(0.05, 0.0)) == 2

    rates = Rates(0.02, 0.004)
    counts = [_count("above", 1.0, 0, (2100, 420), rates), _count("below", -1.0, 1, (1900, 390), rates)]
    bounds = _region_test._Bounds(counts, 100_000, 1.5, 0.0)
    pairs = [
        Pair(2100, 420, 100_000, rates, 1.5, 0.0, 100_000 - 1900),
        Pair(1900, 390, 100_000, rates, 1.5, 0.0, 100_000 - 2100),
    ]
    alone = [Pair(2100, 420, 100_000, rates, 1.5, 0.0, 100_000), Pair(1900, 390, 100_000, rates, 1.5, 0.0, 100_000)]
    assert bounds.of(0.05, 0.0) == [
        bound(alone[:1], 0.0125, 0.0),
        bound(alone[1:], 0.0125, 0.0),
        bound(pairs, 0.025, 0.0),
    ]
    assert bounds.of(0.05, 0.0)[2] > max(bounds.of(0.05, 0.0)[:2])


def _count(what, at, likelier, hits, rates):
    return _region_test._Count(Region(what, Column(0), at), likelier, rates, 0.0, *map(int, hits))


def test_a_rate_between_two_nodes_counts_as_the_upper_one(monkeypatch):
    """With few nodes for 150 hits of 300, and a rate of the other side that is known well: the box is what is lost."""
    exact = slow([(150, 9000)], 300, 0.025, 0.0, 0.5, (0.01, 0.025), [30_000])
    monkeypatch.setattr(_joint, "_NODES", 40)

    found = bound([Pair(150, 9000, 300, Rates(0.5, 0.3), 0.5, 0.0, 30_000)], 0.025, 0.0)

    assert exact - 0.1 < found <= exact


def test_counts_that_show_nothing_bound_nothing():
    for hits, other in ((0, 0), (0, 10), (10, 10), (5, 9)):
        assert bound([Pair(hits, other, 10, Rates(0.5, 0.2), 1.0, 0.0, 10)], 0.05, 0.0) == 0.0
    assert bound([Pair(10, 0, 10, Rates(0.5, 0.2), 1.0, 0.0, 10)], 0.05, 0.0) > 0.5


def test_events_that_exclude_each_other_are_known_by_their_definitions():
    above, below, equal = (
        Region("above", Column(0), 1.0),
        Region("below", Column(0), -1.0),
        Region("equal", Column(0), 0.0),
    )
    finer, coarser = Region("finer", Column(0), -3.0), Region("coarser", Column(0), -3.0)

    for one, other in ((above, below), (above, equal), (below, equal), (finer, coarser)):
        assert one.excludes(other)
        assert other.excludes(one)
    assert Region("kind", kind="a").excludes(Region("kind", kind="b"))
    assert equal.excludes(Region("equal", Column(0), 1.0))
    for one, other in (
        (above, Region("below", Column(0), 1.0)),
        (above, Region("below", Column(1), -1.0)),
        (above, Region("equal", Column(0), 1.0)),
        (above, above),
        (finer, Region("coarser", Column(0), -4.0)),
        (above, finer),
        (Region("kind", kind="a"), Region("kind", kind="a")),
    ):
        assert not one.excludes(other)
        assert not other.excludes(one)


def test_two_events_are_pooled_where_they_promise_more():
    assert pooling_helps([Rates(2e-4, 7e-5)] * 2, 10**8, 1e-5)
    assert not pooling_helps([Rates(2e-4, 7e-5), Rates(1e-4, 7e-5)], 10**6, 1e-5)
    assert not pooling_helps([Rates(0.73, 0.27)] * 2, 10**4, 0.0)  # complements: the second tells nothing new
    assert not pooling_helps([Rates(0.5, 0.0), Rates(0.5, 0.1)], 10**4, 0.0)
    assert not pooling_helps([Rates(0.001, 0.0005)] * 2, 10**4, 0.01)
