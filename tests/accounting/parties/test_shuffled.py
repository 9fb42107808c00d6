"""Shuffled messages: bounds against all databases, random randomizers and published numbers."""

import itertools
import math
import random

import numpy as np
import pytest

from ferrodp import accounting as ac
from ferrodp._native import Shuffle
from ferrodp.accounting import NeighboringRelation, ShuffledEvent
from ferrodp.accounting._laws import shuffled
from ferrodp.errors import UnsupportedEventError
from ferrodp.tickets import payment

REPLACED = NeighboringRelation.REPLACE_ONE


def response(epsilon, k=2):
    return ac.RandomizedResponseEvent(noise_parameter=k / (math.exp(epsilon) + k - 1), num_buckets=k)


def accountant_of(randomizer, n, kind=ac.PldAccountant, count=1):
    accountant = kind(neighboring_relation=REPLACED)
    accountant.compose(ShuffledEvent(randomizer=randomizer, population_size=n), count)
    return accountant


def histogram(rows, values):
    """Return the law of the counts of messages, as a dictionary."""
    counts = {(0,) * len(rows[0]): 1.0}
    for value in values:
        grown = {}
        for seen, mass in counts.items():
            for message, chance in enumerate(rows[value]):
                key = (*seen[:message], seen[message] + 1, *seen[message + 1 :])
                grown[key] = grown.get(key, 0.0) + mass * chance
        counts = grown
    return counts


def worst_delta(rows, n, epsilon):
    """Return the largest δ(ε) over all neighboring databases, by enumeration."""
    worst = 0.0
    values = range(len(rows))
    for others in itertools.combinations_with_replacement(values, n - 1):
        laws = [histogram(rows, (value, *others)) for value in values]
        for one, other in itertools.permutations(laws, 2):
            stick = math.fsum(max(mass - math.exp(epsilon) * other.get(key, 0.0), 0.0) for key, mass in one.items())
            worst = max(worst, stick)
    return worst


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("local", [0.3, 1.0, 3.0])
def test_binary_randomized_response_is_bounded_for_all_databases(n, local):
    truth, lie = math.exp(local) / (math.exp(local) + 1), 1 / (math.exp(local) + 1)
    accountant = accountant_of(response(local), n)

    for share in (0.0, 0.2, 0.5, 0.8, 0.99):
        exact = worst_delta([[truth, lie], [lie, truth]], n, share * local)
        lower, upper = accountant.delta_bounds(share * local)
        assert lower <= exact + 1e-15
        assert exact <= upper + 1e-15
        if n == 1:
            assert upper == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("k", [3, 4])
def test_more_answers_are_bounded_for_all_databases(k):
    for local, n in ((0.5, 3), (2.0, 3), (1.0, 4)):
        other = 1 / (math.exp(local) + k - 1)
        rows = [[math.exp(local) * other if told == value else other for told in range(k)] for value in range(k)]
        accountant = accountant_of(response(local, k), n)
        for share in (0.0, 0.3, 0.7):
            exact = worst_delta(rows, n, share * local)
            lower, upper = accountant.delta_bounds(share * local)
            assert lower - 1e-15 <= exact <= upper + 1e-15


def test_no_randomizer_of_random_rows_costs_more_than_the_bound_for_any():
    """Rows within a factor of p of each other at every message: extreme points, and points between them."""
    draw = random.Random(7)
    for _ in range(60):
        local, n, messages = draw.uniform(0.2, 2.5), draw.choice([2, 3, 4]), draw.choice([2, 3, 4])
        p = math.exp(local)
        base = [draw.random() + 0.05 for _ in range(messages)]
        rows = []
        for _ in range(3):
            row = [b * draw.choice([1.0, p, p ** draw.random()]) for b in base]
            rows.append([mass / sum(row) for mass in row])
        spread = max(
            math.log(a / b) for one, other in itertools.permutations(rows, 2) for a, b in zip(one, other, strict=True)
        )
        accountant = accountant_of(ac.EpsilonDeltaEvent(epsilon=max(spread, 1e-3) * (1 + 1e-12)), n)
        for share in (0.0, 0.4, 0.9):
            assert worst_delta(rows, n, share * spread) <= accountant.delta(share * spread) + 1e-15


def test_the_clones_of_randomized_response_are_not_those_of_any_randomizer():
    """A message may be equally likely, r, for both of the user's values, and r/p < 2r/(p + 1) for another value."""
    rows = [[0.5, 0.5], [0.5, 0.5], [0.5 / math.e, 1 - 0.5 / math.e]]
    ratios = [a / b for one, other in itertools.permutations(rows, 2) for a, b in zip(one, other, strict=True)]
    assert max(ratios) <= math.e * (1 + 1e-12)
    assert rows[2][0] < (rows[0][0] + rows[1][0]) / (math.e + 1)

    general = accountant_of(ac.EpsilonDeltaEvent(epsilon=1.0), 1000).epsilon(1e-5)
    special = accountant_of(response(1.0), 1000).epsilon(1e-5)
    assert general == pytest.approx(0.1540, abs=1e-4)
    assert special == pytest.approx(0.1250, abs=1e-4)


@pytest.mark.parametrize(
    ("local", "n", "delta", "numerical"),
    [
        (0.5, 10**3, 1e-5, 0.0516),
        (1.0, 10**3, 1e-5, 0.1250),
        (1.0, 10**4, 1e-5, 0.0352),
        (2.0, 10**4, 1e-5, 0.0956),
        (4.0, 10**4, 1e-6, 0.4108),
    ],
)
def test_published_settings_of_randomized_response(local, n, delta, numerical):
    accountant = accountant_of(response(local), n)
    lower, upper = accountant.epsilon_bounds(delta)
    of_pair = Shuffle(local, 2 / (math.exp(local) + 1), n).epsilon(delta)

    assert upper == pytest.approx(numerical, abs=1e-4)
    assert 0.6 * upper < lower < upper
    assert of_pair[0] <= upper <= of_pair[1] * (1 + 1e-6)
    assert of_pair[1] - of_pair[0] <= 1e-4 * upper
    assert accountant.delta(upper) <= delta


@pytest.mark.parametrize("randomizer", [response(1.5), response(1.5, 10), ac.LaplaceEvent(noise_multiplier=2 / 3)])
def test_no_shuffle_costs_more_than_a_message_by_itself(randomizer):
    for n in (1, 2, 10, 10**3, 10**9, 2**62):
        for delta in (1e-3, 1e-9):
            found = accountant_of(randomizer, n).epsilon(delta)
            assert found <= 1.5 * (1 + 1e-12)
    assert accountant_of(randomizer, 10**9).epsilon(1e-9) < 0.001
    assert accountant_of(randomizer, 1).epsilon(0.0) == pytest.approx(1.5)


def test_more_users_and_less_local_loss_cost_no_more():
    found = [accountant_of(response(1.0), n).epsilon(1e-6) for n in (10, 30, 100, 1000, 30_000, 10**7)]
    assert found == sorted(found, reverse=True)
    found = [accountant_of(response(local), 1000).epsilon(1e-6) for local in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)]
    assert found == sorted(found)


def test_compositions_cost_no_less_than_the_pair_and_hardly_more():
    """The dominating outcomes have a curve that is nowhere less, and two of their convolution neither."""
    event = ShuffledEvent(randomizer=response(1.0), population_size=50)
    p, q, _ = shuffled.messages(event, REPLACED).masses
    pair = Shuffle(1.0, 2 / (math.e + 1), 50)
    for epsilon in np.linspace(0.0, 0.999, 60):
        stick = math.fsum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(p, q, strict=True))
        lower, _ = pair.delta(float(epsilon))
        assert lower <= stick * (1 + 1e-9)
        assert stick <= lower * 1.02 + 1e-12
    for kind in (ac.PldAccountant, ac.RdpAccountant):
        one, two, ten = (accountant_of(response(1.0), 50, kind, count).epsilon(1e-5) for count in (1, 2, 10))
        assert one < two < 2 * one
        assert two < ten < 5 * two


def test_the_renyi_curve_is_that_of_the_dominating_outcomes():
    event = ShuffledEvent(randomizer=response(1.0), population_size=200)
    p, q, _ = shuffled.messages(event, REPLACED).masses
    accountant = accountant_of(response(1.0), 200, ac.RdpAccountant)
    for order in (1.5, 4.0, 60.0, 2000.0):
        logs = [order * math.log(a) + (1 - order) * math.log(b) for a, b in zip(p, q, strict=True)]
        exact = (max(logs) + math.log(math.fsum(math.exp(each - max(logs)) for each in logs))) / (order - 1)
        assert exact <= accountant.rdp(order) * (1 + 1e-6)
        assert accountant.rdp(order) <= min(exact * (1 + 1e-4), 1.0) + 1e-9


def test_only_local_randomizers_of_users_who_are_replaced():
    event = ShuffledEvent(randomizer=response(1.0), population_size=100)
    for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL):
        with pytest.raises(UnsupportedEventError, match="not left out"):
            ac.PldAccountant(neighboring_relation=relation).compose(event)
    for bad in (
        ac.GaussianEvent(noise_multiplier=1.0),
        ac.EpsilonDeltaEvent(epsilon=1.0, delta=1e-9),
        ac.PoissonSampledEvent(sampling_probability=0.5, event=response(1.0)),
        response(0.0),
    ):
        with pytest.raises(UnsupportedEventError):
            accountant_of(bad, 100)


def test_a_ticket_pays_for_the_messages_of_all_users_once():
    event = ac.SelfComposedEvent(event=ShuffledEvent(randomizer=response(1.0), population_size=100), count=3)

    assert payment.releases(event) == {response(1.0): 3}
