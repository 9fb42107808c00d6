"""Why a filter of several Rényi orders divides δ among them: an adversary that uses the order that suits what it saw.

It has two mechanisms, one after the other. The first has two outcomes, and the second is chosen for the outcome: it
uses up what is left at order 3 after the one, and at order 32 after the other. So the whole keeps the budget of some
order on every path. All four outcomes are enumerated, and the δ of the whole is compared with the promised one.
"""

import math
from math import exp, log

from ferrodp.accounting.filters import RdpFilter

EPSILON, DELTA, ORDERS = 8.0, 1e-5, (3.0, 32.0)
RATIO, CHANCE = 2.225540928492468, 1.507330750954765e-4
"""Of the first mechanism's second outcome: P/Q and Q. At order 3 it counts for little, at order 32 for nearly all."""


def divergence(first, second, order):
    try:
        return log(sum(p**order * q ** (1 - order) for p, q in zip(first, second, strict=True))) / (order - 1)
    except OverflowError:
        return math.inf


def larger(first, second, order):
    """Return the Rényi divergence of a pair in the worse of its two directions: the price of a mechanism."""
    return max(divergence(first, second, order), divergence(second, first, order))


def hit(ratio, order, budget):
    """Return Q of an outcome with this ratio P/Q, of a mechanism with two outcomes that costs no more than a budget."""
    low, high = 0.0, (1 - 1e-6) / ratio
    for _ in range(100):
        middle = (low + high) / 2
        within = larger([middle * ratio, 1 - middle * ratio], [middle, 1 - middle], order) <= budget
        low, high = (middle, high) if within else (low, middle)
    return low


def delta_of_the_adversary(caps):
    """Return the least δ for which the whole is (ε, δ)-private, when some order's sum has to be within its cap."""
    first = [(1 - CHANCE * RATIO, 1 - CHANCE), (CHANCE * RATIO, CHANCE)]
    whole = 0.0
    for (p, q), order, cap in zip(first, ORDERS, caps, strict=True):
        left = cap - larger([each[0] for each in first], [each[1] for each in first], order)
        assert left > 0
        # The ratio of the whole for which one order's moment allows the most δ.
        ratio = exp(EPSILON) * order / (order - 1) / (p / q)
        chance = hit(ratio, order, left)
        for there, here in ((p * chance * ratio, q * chance), (p * (1 - chance * ratio), q * (1 - chance))):
            whole += max(there - exp(EPSILON) * here, 0.0)
    return whole


def test_each_order_with_all_of_delta_would_promise_half_of_what_is_true():
    caps = [
        float(RdpFilter.for_budget(epsilon=EPSILON, delta=DELTA, orders=[order]).exact_caps()[0]) for order in ORDERS
    ]

    assert 1.99 * DELTA < delta_of_the_adversary(caps) < 2 * DELTA


def test_with_delta_divided_the_adversary_uses_all_of_it_and_no_more():
    caps = [float(cap) for cap in RdpFilter.for_budget(epsilon=EPSILON, delta=DELTA, orders=list(ORDERS)).exact_caps()]

    assert 0.99 * DELTA < delta_of_the_adversary(caps) < DELTA
