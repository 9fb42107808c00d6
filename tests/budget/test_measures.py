"""Costs and caps as integers: rounded the safe way, and by less than one unit."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import (
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    privacy_filter,
)
from ferrodp.budget import _measures
from ferrodp.budget._measures import UNITS, Terms, checked_terms
from ferrodp.errors import InvalidParameter

RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
RELATIONS = {"pure": NeighboringRelation.REPLACE_ONE, "zcdp": NeighboringRelation.REPLACE_ONE}  # all answers are there
multipliers = st.floats(min_value=0.05, max_value=1e6)
additive = st.one_of(
    multipliers.map(lambda z: LaplaceEvent(noise_multiplier=z)),
    multipliers.map(lambda b: DiscreteLaplaceEvent(scale=max(b, 0.5))),
    st.floats(min_value=1e-6, max_value=20.0).map(lambda e: ExponentialMechanismEvent(epsilon=e)),
)
gaussian = multipliers.map(lambda z: GaussianEvent(noise_multiplier=z))
sampled = st.builds(
    lambda z, q: PoissonSampledEvent(sampling_probability=q, event=GaussianEvent(noise_multiplier=z)),
    st.floats(min_value=0.5, max_value=100.0),
    st.floats(min_value=1e-4, max_value=0.5),
)
CASES = {
    "pure": ({"epsilon": 3.0, "delta": 0.0}, additive),
    "zcdp": ({"epsilon": 3.0, "delta": 1e-6}, st.one_of(additive, gaussian)),
    "gdp": ({"epsilon": 3.0, "delta": 1e-6}, gaussian),
    "rdp": ({"epsilon": 3.0, "delta": 1e-6}, st.one_of(gaussian, sampled)),
}
every_measure = pytest.mark.parametrize("measure", CASES)


def terms_of(measure):
    return checked_terms(measure=measure, neighboring_relation=RELATIONS.get(measure, RELATION), **CASES[measure][0])


def filter_of(terms):
    settings = {"orders": terms.orders} if terms.orders else {}
    relation = terms.neighboring_relation
    return privacy_filter(
        terms.measure, epsilon=terms.epsilon, delta=terms.delta, neighboring_relation=relation, **settings
    )


@every_measure
@given(data=st.data())
def test_costs_are_rounded_up_by_less_than_a_unit(measure, data):
    terms = terms_of(measure)
    event = data.draw(CASES[measure][1])
    same = filter_of(terms)
    exact = [Fraction(cost, same._meter.unit) * UNITS[measure] for cost in same._meter.costs(event)]
    for kept in (_measures._filter, _measures._pricing, _measures._costs):
        kept.cache_clear()  # a filter that has seen very many different costs rounds up by itself, too

    costs = terms.costs(event)

    assert all(0 <= cost - true < 1 for cost, true in zip(costs, exact, strict=True))


@every_measure
def test_caps_are_rounded_down_by_less_than_a_unit(measure):
    terms = terms_of(measure)
    same = filter_of(terms)
    exact = [Fraction(cap, same._meter.unit) * UNITS[measure] for cap in same._meter.caps]

    assert all(0 <= true - cap < 1 for cap, true in zip(terms.caps(), exact, strict=True))


@every_measure
@given(data=st.data())
def test_so_many_fit_as_the_filter_says_or_one_less(measure, data):
    terms = terms_of(measure)
    event = data.draw(CASES[measure][1])
    caps, costs = terms.caps(), terms.costs(event)
    expected = filter_of(terms).remaining_count(event)

    count = terms.remaining((0,) * len(caps), caps, costs)

    # A unit is at most 2⁻⁹⁶, a cost above 10⁻¹³, so rounding cannot take more than one of fewer than 10¹⁶ away.
    assert expected - 1 <= count <= expected
    assert terms.fits(_measures.scaled(costs, count), caps)
    assert not terms.fits(_measures.scaled(costs, count + 1), caps)


@every_measure
@given(data=st.data(), part=st.integers(0, 1000))
def test_a_reading_grows_with_what_is_spent_up_to_what_was_promised(measure, data, part):
    terms = terms_of(measure)
    event = data.draw(CASES[measure][1])
    caps, costs = terms.caps(), terms.costs(event)
    count = terms.remaining((0,) * len(caps), caps, costs)
    some = _measures.scaled(costs, count * part // 1000)
    more = _measures.scaled(costs, count)

    assert 0.0 <= terms.epsilon_of(some, caps) <= terms.epsilon_of(more, caps) <= terms.epsilon


@pytest.mark.parametrize("times", [3, 7, 10, 60, 100])
def test_parts_of_one_add_up_to_one(times):
    terms = checked_terms(measure="pure", epsilon=1.0, delta=0.0, neighboring_relation=RELATION)
    costs, caps = terms.costs(LaplaceEvent(noise_multiplier=float(times))), terms.caps()

    assert terms.remaining((0, 0), caps, costs) == times


@every_measure
def test_terms_survive_json(measure):
    terms = terms_of(measure)

    assert Terms.from_dict(terms.to_dict()) == terms


def test_orders_of_a_scope_stay_when_its_budget_changes():
    wide = checked_terms(measure="rdp", epsilon=8.0, delta=1e-5, neighboring_relation=RELATION)
    narrow = checked_terms(measure="rdp", epsilon=0.6, delta=1e-5, neighboring_relation=RELATION, orders=wide.orders)
    kept = Terms(measure="rdp", epsilon=0.6, delta=1e-5, neighboring_relation=RELATION, orders=wide.orders)

    assert set(narrow.orders) < set(wide.orders)
    assert [cap >= 0 for cap in kept.caps()] == [order in narrow.orders for order in wide.orders]
    event = GaussianEvent(noise_multiplier=50.0)
    assert len(kept.costs(event)) == len(wide.orders)
    assert kept.remaining((0,) * len(wide.orders), kept.caps(), kept.costs(event)) > 0


def test_orders_belong_to_renyi_divergences():
    with pytest.raises(InvalidParameter, match="orders"):
        checked_terms(measure="gdp", epsilon=1.0, delta=1e-5, neighboring_relation=RELATION, orders=(2.0,))
