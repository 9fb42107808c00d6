"""Filters stop before the budget, exactly and for any number of charges; odometers never read too little."""

import math
import sys
import threading
import time
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import (
    ComposedEvent,
    DiscreteGaussianEvent,
    EpsilonDeltaEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    Odometer,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    privacy_filter,
    zcdp_epsilon,
    zcdp_rho,
)
from ferrodp.accounting.filters import GdpFilter, PureDpFilter, RdpFilter, ZcdpFilter
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType, UnsupportedEventError

laplace = LaplaceEvent(noise_multiplier=3.0)
gaussian = GaussianEvent(noise_multiplier=10.0)
FILTERS = {
    "pure": (lambda: PureDpFilter(epsilon=2.0), laplace),
    "zcdp": (lambda: ZcdpFilter.for_budget(epsilon=2.0, delta=1e-6), gaussian),
    "gdp": (lambda: GdpFilter.for_budget(epsilon=2.0, delta=1e-6), gaussian),
    "rdp": (lambda: RdpFilter.for_budget(epsilon=2.0, delta=1e-6), gaussian),
    "rdp-curve": (lambda: RdpFilter(orders=[2.0, 8.0], budgets=[1.0, 3.0]), gaussian),
}
every_filter = pytest.mark.parametrize("name", FILTERS)


@every_filter
def test_the_last_charge_fits_and_the_next_does_not(name):
    make, event = FILTERS[name]
    budget = make()
    left = budget.remaining_count(event)
    assert left > 0

    for done in range(left):
        assert budget.remaining_count(event) == left - done
        assert not budget.would_exceed(event)
        budget.charge(event)
    assert budget.would_exceed(event)
    spent = budget.spent
    with pytest.raises(BudgetExceeded, match="does not fit"):
        budget.charge(event)
    assert budget.spent == spent <= budget.budget
    budget.charge(event, count=0)


@every_filter
def test_nothing_is_free_of_charge(name):
    make, event = FILTERS[name]
    budget = make()

    for refused in (NonPrivateEvent(), ComposedEvent(events=(event, NonPrivateEvent()))):
        assert budget.would_exceed(refused)
        assert budget.remaining_count(refused) == 0
        with pytest.raises(BudgetExceeded):
            budget.charge(refused)
    assert budget.remaining_count(SelfComposedEvent(event=event, count=0)) == 2**63 - 1
    for wrong in (-1, 2**63):
        with pytest.raises(InvalidParameter):
            budget.would_exceed(event, count=wrong)
    for wrong in (-1, 1.0, True):
        with pytest.raises((InvalidParameter, InvalidType)):
            budget.charge(event, count=wrong)
    sampled = PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=1.0))
    with pytest.raises(UnsupportedEventError, match="cannot charge"):
        budget.charge(FixedSizeSampledEvent(population_size=10, sample_size=3, event=sampled))
    if not name.startswith("rdp"):
        with pytest.raises(UnsupportedEventError, match="cannot charge"):
            budget.charge(sampled)
    assert budget.spent == 0.0


def test_three_thirds_are_one():
    """Costs are exact rationals: a budget of 1 takes three charges of 1/3, and no crumb more."""
    budget = PureDpFilter(epsilon=1.0)

    for _ in range(3):
        budget.charge(laplace)
    assert budget.spent == 1.0
    assert budget.would_exceed(LaplaceEvent(noise_multiplier=1e300))


def test_a_million_charges_do_not_drift():
    budget = ZcdpFilter(rho=10_000.0)
    events = [GaussianEvent(noise_multiplier=10.0), GaussianEvent(noise_multiplier=10.1)]

    for _ in range(250_000):
        budget.charge(events[0])
        budget.charge(events[1])
    budget.charge(events[0], count=500_000)
    exact = 750_000 * Fraction(1, 200) + 250_000 / (2 * Fraction(10.1) ** 2)
    assert Fraction(math.nextafter(budget.spent, 0.0)) < exact <= Fraction(budget.spent)


def test_a_charge_costs_the_same_after_many():
    """Best of ten rounds each, and room for a factor of four: growth with the number of charges would be 1000-fold."""

    def fastest(budget):
        def round_of_charges():
            start = time.perf_counter()
            for _ in range(200):
                budget.charge(gaussian)
            return time.perf_counter() - start

        return min(round_of_charges() for _ in range(10))

    budget = ZcdpFilter(rho=1e9)
    first = fastest(budget)
    budget.charge(gaussian, count=10**9)
    for _ in range(100_000):
        budget.charge(gaussian)
    assert fastest(budget) < 4 * first


def test_many_different_events_round_up_and_stay_short():
    budget = PureDpFilter(epsilon=1e6)
    multipliers = [1.0 + i / 997 for i in range(500)]

    for z in multipliers:
        budget.charge(LaplaceEvent(noise_multiplier=z))
    exact = sum(1 / Fraction(z) for z in multipliers)
    assert budget._meter.unit.bit_length() <= 4096
    assert exact <= Fraction(budget._meter.spent[0], budget._meter.unit) <= exact + Fraction(500, 2**256)


def test_threads_share_one_budget():
    budget = PureDpFilter(epsilon=100.0)
    done = []

    def worker():
        count = 0
        while True:
            try:
                budget.charge(laplace)
            except BudgetExceeded:
                break
            count += 1
        done.append(count)

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == 300


@given(st.floats(0.1, 20.0), st.sampled_from([1e-9, 1e-5]), st.floats(1.0, 100.0))
@settings(max_examples=30)
def test_budgets_keep_what_they_promise(epsilon, delta, multiplier):
    """Whatever was charged in Gaussian events is (ε, δ)-private by the exact accountant too."""
    event = GaussianEvent(noise_multiplier=multiplier)
    counts = {}
    for measure in ("zcdp", "gdp", "rdp"):
        settings = {"orders": [1.0 + 2.0**i for i in range(-2, 12)]} if measure == "rdp" else {}
        counts[measure] = privacy_filter(measure, epsilon=epsilon, delta=delta, **settings).remaining_count(event)

    exact = GdpAccountant().remaining_count(event, epsilon=epsilon, delta=delta)
    assert counts["rdp"] <= counts["zcdp"] <= counts["gdp"] <= exact <= counts["gdp"] + 1


@given(st.floats(0.5, 20.0), st.floats(1.2, 60.0))
def test_the_budget_of_an_order_is_the_conversion_inverted(epsilon, order):
    """ε = B + ln(1 − 1/α) − ln(αδ/n)/(α − 1), to 40 digits."""
    delta = 0.1
    try:
        budget = RdpFilter.for_budget(epsilon=epsilon, delta=delta, orders=[order, 100.0])
    except InvalidParameter:
        return

    for alpha, cap in zip(budget.orders, budget._meter.caps, strict=True):
        with mp.workdps(60):
            alpha = mp.mpf(alpha)
            converted = mp.mpf(cap) / budget._meter.unit + mp.log1p(-1 / alpha)
            converted -= mp.log(alpha * mp.mpf(delta) / 2) / (alpha - 1)
            assert converted <= epsilon
            assert epsilon - converted < mp.mpf(10) ** -40 * 100


def test_some_order_may_be_exceeded_but_not_all():
    some = RdpFilter.for_budget(epsilon=4.0, delta=1e-5, orders=[4.0, 8.0, 16.0])
    event = DiscreteGaussianEvent(scale=4.0)
    some.charge(event, count=some.remaining_count(event))

    lasting = [spent <= cap for spent, cap in zip(some._meter.spent, some._meter.caps, strict=True)]
    assert any(lasting)
    assert not all(lasting)
    every = RdpFilter(orders=[2.0, 8.0], budgets=[0.5, 0.5])
    every.charge(event, count=every.remaining_count(event))
    assert all(spent <= cap for spent, cap in zip(every._meter.spent, every._meter.caps, strict=True))
    assert every.budget == 0.5


def test_stated_deltas_have_a_budget_of_their_own():
    stated = EpsilonDeltaEvent(epsilon=0.01, delta=2.0**-20)

    assert PureDpFilter(epsilon=1.0).remaining_count(stated) == 0
    assert PureDpFilter(epsilon=1.0, delta=2.0**-16).remaining_count(stated) == 16
    assert ZcdpFilter(rho=1.0, delta=2.0**-16).remaining_count(stated) == 16
    with pytest.raises(UnsupportedEventError, match="Rényi"):
        RdpFilter(orders=[2.0], budgets=[1.0]).charge(stated)


def test_filters_of_loss_distributions_are_refused_by_design():
    for measure in ("pld", "fdp"):
        with pytest.raises(InvalidParameter, match=r"2602\.06756"):
            privacy_filter(measure, epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match='"pure", "zcdp"'):
        privacy_filter("best", epsilon=1.0, delta=1e-6)
    assert privacy_filter("pure", epsilon=1.0, delta=0.0).budget == 1.0


def test_parameters_are_checked():
    for keywords in ({"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": 1.0, "delta": 1.0}):
        with pytest.raises(InvalidParameter):
            PureDpFilter(**keywords)
    with pytest.raises(InvalidType, match="neighboring_relation"):
        PureDpFilter(epsilon=1.0, neighboring_relation=1)
    for orders in ([], [1.0], [2.0, 2.0], [0.5, 2.0]):
        with pytest.raises(InvalidParameter, match="orders"):
            RdpFilter(orders=orders, budgets=[1.0] * len(orders))
    with pytest.raises(InvalidParameter, match="budgets"):
        RdpFilter(orders=[2.0], budgets=[])
    with pytest.raises(InvalidParameter, match="larger ones"):
        RdpFilter.for_budget(epsilon=0.01, delta=1e-9, orders=[2.0])
    with pytest.raises(InvalidType, match="orders"):
        RdpFilter(orders="23", budgets=[1.0, 1.0])


def test_an_odometer_reads_the_mixture_bound():
    odometer = Odometer(delta=1e-5)
    odometer.charge(gaussian, count=100)

    with mp.workdps(50):
        gamma, rho, goal = mp.mpf(odometer._gamma), mp.mpf(1) / 2, -2 * mp.log(mp.mpf(1e-5))
        exact = rho + mp.sqrt((2 * rho + gamma) * (goal + mp.log1p(2 * rho / gamma)))
        assert exact <= mp.mpf(odometer.epsilon) <= exact * (1 + mp.mpf(2) ** -52)
    assert zcdp_epsilon(rho=0.5, delta=1e-5) < odometer.epsilon < 1.4 * zcdp_epsilon(rho=0.5, delta=1e-5)
    assert odometer.rho == 0.5


def test_an_odometer_never_runs_backwards_and_knows_pure_sums():
    odometer, readings = Odometer(delta=1e-6), [0.0]
    for _ in range(20):
        odometer.charge(laplace)
        readings.append(odometer.epsilon)

    assert readings == sorted(readings)
    assert readings[3] == 1.0
    odometer.charge(ComposedEvent(events=(gaussian, LaplaceEvent(noise_multiplier=0.01))))
    assert odometer.epsilon > 100.0 + readings[-1]
    before = odometer.epsilon
    for refused, error in (
        (NonPrivateEvent(), BudgetExceeded),
        (EpsilonDeltaEvent(epsilon=1.0, delta=0.1), UnsupportedEventError),
    ):
        with pytest.raises(error):
            odometer.charge(refused)
    assert odometer.epsilon == before
    assert Odometer(delta=0.5).epsilon == 0.0


def test_the_largest_budget_is_no_overflow():
    budget = GdpFilter.for_budget(epsilon=1e308, delta=1e-6)
    assert budget.budget == sys.float_info.max  # μ² = 2e308, rounded down to a float
    assert not budget.would_exceed(gaussian, count=10**12)


def test_relations_are_kept():
    relation = NeighboringRelation.REPLACE_ONE
    budget = ZcdpFilter(rho=zcdp_rho(epsilon=1.0, delta=1e-6), neighboring_relation=relation)

    assert budget.neighboring_relation is relation
    assert "0.0 of" in repr(budget)


def test_a_filter_of_sampled_steps_stays_within_the_accountant():
    """The filter's one order is the accountant's best: the same count, or one less for rounding."""
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    accountant = RdpAccountant()
    count = accountant.remaining_count(step, epsilon=2.0, delta=1e-5)
    accountant.compose(step, count)

    budget = RdpFilter.for_budget(epsilon=2.0, delta=1e-5, orders=[accountant.optimal_order(1e-5)])
    assert count - 2 <= budget.remaining_count(step) <= count
