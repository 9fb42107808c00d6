"""Unions of keys whose last round decides by coins: their costs, the law of all rounds on small tables, the draws."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.reference import key_coins

import ferrodp as fd
from ferrodp.accounting.rdp import rdp_to_delta
from ferrodp.statistics.keys import union, weighted
from ferrodp.statistics.keys.weighted import Coins
from ferrodp.testing import seeded

BUDGETS = [(0.25, 1e-9), (1.0, 1e-6), (1.0, 0.2), (8.0, 1e-12), (30.0, 1e-5)]


def probabilities(coins):
    """What the words of the coins denote, as whole numbers of 2⁻²⁵⁶."""
    return [sum(int(word) << (64 * (3 - at)) for at, word in enumerate(row)) for row in coins.probabilities]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_divergence_of_an_order_keeps_epsilon_and_delta(epsilon, delta):
    alpha, rho = weighted.order(epsilon, delta)
    found = float(rdp_to_delta([alpha], [rho], epsilon=epsilon).value)

    assert delta * 0.99 < found <= delta


@pytest.mark.parametrize("groups", [1, 3, 100])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_rounds_keep_the_divergence_of_one_order(groups, epsilon, delta):
    """Gaussian rounds by their multipliers, coins by many of their steps in 60 digits, own keys by their chances."""
    half = delta / 2.0
    alpha, rho = weighted.order(epsilon, half)
    *sums, coins = union.rounds(epsilon, delta, groups)
    spent = sum(alpha / (2.0 * each.mechanism.noise_multiplier**2) for each in sums)
    left = rho - spent
    table = probabilities(coins)
    rng = np.random.default_rng(4)
    with mpmath.workdps(60):
        law = [mpmath.mpf(each) / 2**256 for each in table]
        assert law[0] == 0
        highest = len(table) - 1
        starts = sorted({*range(1, 40), *rng.integers(1, highest + 1, 40).tolist(), highest})
        for degree in sorted({*range(1, min(groups, 9) + 1), groups // 2 + 1, groups}):
            weight = int(coins.weights[degree])
            assert degree * law[min(weight, highest)] <= mpmath.mpf(half) / 3
            for s in starts:
                assert degree * key_coins.cost(alpha, law[min(s + weight, highest)], law[s]) <= left


def test_no_coins_with_these_costs_are_likelier():
    """Within a percent, by the slow reference."""
    alpha, rho = weighted.order(8.0, 1e-6)
    coins = weighted.coins(alpha, rho, 1e-7, 3)
    law = [each / 2**256 for each in probabilities(coins)]
    weights = {degree: int(coins.weights[degree]) for degree in (1, 2, 3)}
    with mpmath.workdps(30):
        largest = key_coins.largest(alpha, rho, 1e-7, weights, 520)

    assert largest[520] > 1e-5
    for s in range(1, 521, 3):
        assert float(largest[s]) * 0.97 <= law[s] <= float(largest[s]) * (1.0 + 1e-9)


@pytest.mark.parametrize("groups", [1, 2, 9, 100, 300])
def test_weights_descend_in_the_number_of_keys(groups):
    coins = weighted.coins(20.0, 0.3, 1e-7, groups)

    assert coins.weights[0] == 0
    assert coins.weights[1] == 256
    assert coins.weights.size == groups + 1
    assert np.all(np.diff(coins.weights[1:]) <= 0)
    assert coins.weights.min(initial=256, where=np.arange(groups + 1) > 0) >= 1


def chance(rule, degrees):
    """The exact chance that a round releases a key that units of so many keys have."""
    if isinstance(rule, Coins):
        at = min(sum(int(rule.weights[degree]) for degree in degrees), len(rule.probabilities) - 1)
        return sum(int(word) / 2.0 ** (64 * (place + 1)) for place, word in enumerate(rule.probabilities[at]))
    total = sum(math.isqrt(2**40 // degree) for degree in degrees)
    return float(stats.norm.sf((rule.threshold - total) / rule.mechanism.standard_deviation))


def law_of(table, rules):
    """The chances of all transcripts: the round in which each key was found. A table is a tuple of sets of keys."""
    transcripts = {(): 1.0}
    for rule in rules:
        following = {}
        for found, probability in transcripts.items():
            before = frozenset().union(*found)
            left = [unit - before for unit in table]
            keys = sorted(frozenset().union(*left))
            chances = [chance(rule, [len(unit) for unit in left if key in unit]) for key in keys]
            for chosen in itertools.product((False, True), repeat=len(keys)):
                step = probability
                for one, is_in in zip(chances, chosen, strict=True):
                    step *= one if is_in else 1.0 - one
                released = frozenset(key for key, is_in in zip(keys, chosen, strict=True) if is_in)
                following[(*found, released)] = following.get((*found, released), 0.0) + step
        transcripts = following
    return transcripts


SUBSETS = [frozenset(each) for number in (1, 2) for each in itertools.combinations("ab", number)]


@pytest.mark.parametrize(("epsilon", "delta", "most"), [(1.0, 0.2, 6), (4.0, 1e-2, 4), (8.0, 1e-3, 3)])
def test_no_unit_tells_more_than_epsilon_and_delta_on_all_small_tables(epsilon, delta, most):
    """The exact law of all rounds, for so many units of each set of two keys, and each unit that comes or goes."""
    rules = union.rounds(epsilon, delta, 2)
    furthest = 0.0
    laws = {}
    for counts in itertools.product(range(most + 1), repeat=len(SUBSETS)):
        table = [unit for unit, number in zip(SUBSETS, counts, strict=True) for _ in range(number)]
        laws[counts] = law_of(table, rules)
    for counts, here in laws.items():
        for at in range(len(SUBSETS)):
            more = tuple(number + (place == at) for place, number in enumerate(counts))
            if more not in laws:
                continue
            for one, other in ((here, laws[more]), (laws[more], here)):
                tells = sum(max(0.0, p - math.exp(epsilon) * other.get(what, 0.0)) for what, p in one.items())
                furthest = max(furthest, tells)

    assert furthest <= delta
    assert furthest > delta / 50.0  # tables that test something


def test_no_unit_moves_sums_by_more_than_its_weights(monkeypatch):
    """Where the first rounds find nothing: a unit with d keys adds w(d) to d of the sums, and nothing to others."""
    seen = []

    def chosen(self, sums, source):
        seen.append(sums.copy())
        return np.zeros(sums.size, np.bool_)

    monkeypatch.setattr(Coins, "chosen", chosen)
    rng = np.random.default_rng(2)
    for trial in range(40):
        groups = 1 + trial % 6
        rule = fd.KeyUnion(epsilon=0.5, delta=1e-9)
        others = {"key": np.arange(6), "unit": np.arange(6) + 10}
        own = rng.choice(6, int(rng.integers(1, 7)), replace=False)
        with_own = {"key": np.append(others["key"], own), "unit": np.append(others["unit"], np.full(own.size, 9))}
        for frame in (others, with_own):
            fd.private_group_by(frame, "key", keys=rule, unit="unit", groups_per_unit=groups)
        moved = seen[-1] - seen[-2]
        degree = min(own.size, groups)
        weights = union.rounds(0.5, 1e-9, groups)[-1].weights

        assert sorted(moved.tolist(), reverse=True) == [int(weights[degree])] * degree + [0] * (6 - degree)


def test_coins_have_their_probabilities():
    """False alarm 1e-9."""
    coins = union.rounds(4.0, 1e-3, 2)[-1]
    law = [each / 2**256 for each in probabilities(coins)]
    for at, target in enumerate((1e-3, 0.1, 0.5, 0.9)):
        s = int(np.searchsorted(law, target))
        found = int(coins.chosen(np.full(20_000, s), seeded(bytes([at] * 32))).sum())

        assert 1e-9 / 8 < stats.binom(20_000, law[s]).cdf(found) < 1.0 - 1e-9 / 8
    assert law[-1] < 1.0


def test_coins_need_fewer_units_of_a_key_than_thresholds_of_sums():
    """A key of units with ten keys each that is found half the time."""
    coins = union.rounds(1.0, 1e-6, 100)[-1]
    half = np.searchsorted(coins.probabilities[:, 0], np.uint64(2**63))
    alpha, rho = weighted.order(1.0, 5e-7)
    sums = union._round(math.sqrt(alpha / (2.0 * rho * 0.9)), 1e-6 / 6, 100)

    assert half / coins.weights[10] < 0.85 * sums.threshold / math.isqrt(2**40 // 10)
