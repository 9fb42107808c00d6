"""Explanations say what a number is, what it means, how far it can be off, and whether it is a bound at all."""

import dataclasses
import json
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import Explanation, GaussianEvent, GdpAccountant, NeighboringRelation, NonPrivateEvent
from ferrodp.errors import InvalidParameter, InvalidType


def explained(**changed):
    known = {"quantity": "epsilon", "value": 2.0, "method": "a method", "parameters": {"delta": 1e-6}}
    return str(Explanation(**{**known, **changed}))


def test_a_bound_says_so_and_what_it_promises():
    text = explained()

    assert text.startswith("ε is at most 2.0 at δ = 1e-06: a proven upper bound, rounding errors included.\n")
    assert "is at most e^2 = 7.39 times that under the other, plus 1e-06." in text
    assert "Method: a method." in text
    assert "How far the exact ε lies below it is not known." in text
    assert "estimate" not in text


def test_an_estimate_says_that_it_is_none():
    text = explained(is_bound=False)

    assert text.startswith("ε is about 2.0 at δ = 1e-06: an estimate, NOT a bound; the truth may be larger.")
    assert "Meaning, if the estimate were exact: whatever" in text
    assert "ε is at most" not in text
    assert "proven" not in text


def test_the_width_is_told():
    assert "The exact ε lies between 1.5 and 2.0: it is overstated by at most 0.5 (25 %)." in explained(lower=1.5)
    assert "The exact ε lies between 1.5 and 2.0: it is overstated by at most 0.1 (5 %)." in explained(
        lower=1.5, slack=0.1
    )
    assert "The exact ε is this very number." in explained(lower=2.0)
    assert "It exceeds the exact ε by at most 0.1." in explained(slack=0.1)


@pytest.mark.parametrize(
    ("direction", "text"),
    [
        ("add", "only in the second dataset (add)."),
        ("remove", "only in the first dataset (remove)."),
        ("both", "Both directions"),
        ("symmetric", "the same by symmetry"),
        ("the other way round", "Direction: the other way round."),
    ],
)
def test_the_direction_is_told(direction, text):
    assert text in explained(direction=direction)


def test_parameters_and_assumptions_are_listed():
    text = explained(
        parameters={"order": 12.5, "delta": 1e-6, "value_discretization_interval": 1e-4},
        assumptions=("batches are Poisson samples.", "nobody saw them"),
    )

    assert "Found with order α = 12.5, value discretization interval = 0.0001." in text
    assert text.endswith("It holds if:\n  - batches are Poisson samples\n  - nobody saw them")


def test_deltas_are_explained_from_the_other_side():
    text = explained(quantity="delta", value=1e-6, parameters={"epsilon": 2.0})

    assert text.startswith("δ is at most 1e-06 at ε = 2.0: a proven upper bound")
    assert "is at most e^2 = 7.39 times that under the other, plus 1e-06." in text


def test_other_quantities_have_no_meaning_line():
    text = explained(quantity="noise_multiplier", parameters={})

    assert text.startswith("noise_multiplier is at most 2.0: ")
    assert "Meaning" not in text


@pytest.mark.parametrize("changed", [{"value": math.inf, "lower": math.inf}, {"parameters": {"delta": 1.0}}])
def test_what_promises_nothing_says_so(changed):
    assert "Meaning: nothing is promised" in explained(**changed)


def test_no_loss_at_all():
    text = explained(value=0.0, parameters={"delta": 0.0}, slack=0.0)

    assert "says nothing that could tell two neighboring datasets apart" in text
    assert "How far" not in text


def test_no_factor_or_no_addend_is_not_written():
    assert "is at most that under the other, plus 1e-06." in explained(value=0.0)
    assert "7.39 times that under the other.\n" in explained(parameters={"delta": 0.0})


@given(st.floats(1e-300, 750.0))
def test_the_factor_is_rounded_up(epsilon):
    text = explained(value=epsilon)

    shown = text.split(" = ")[2].split(" times")[0]
    if epsilon > 700.0:
        assert shown == "more than 1e304"
    else:
        exact = Decimal(epsilon).exp()
        assert exact <= Decimal(shown.replace(",", "")) <= exact * Decimal("1.002")
        power = text.split("e^")[1].split(" =")[0]
        assert Decimal(epsilon) <= Decimal(power.replace(",", "")) <= Decimal(epsilon) * Decimal("1.00002")


def test_numbers_are_written_for_people():
    assert "at most e^9.6297 = 15,210 times" in explained(value=9.6297)
    assert "at most e^20 = 4.852e+8 times" in explained(value=20.0)
    assert "at most e^2.50000e-7 = 1.001 times" in explained(value=2.5e-7)


def test_huge_epsilons_do_not_overflow():
    assert "e^100,000 = more than 1e304 times that" in explained(value=1e5)


def test_plain_data_is_json():
    explanation = Explanation(quantity="epsilon", value=math.inf, method="m", parameters={"delta": 0.5, "mu": math.inf})

    plain = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert plain["value"] == plain["slack"] == plain["parameters"]["mu"] == "inf"
    assert plain["parameters"]["delta"] == 0.5
    assert plain["assumptions"] == []
    assert plain.keys() == {field.name for field in dataclasses.fields(Explanation)}


def test_explanations_do_not_change():
    parameters = {"delta": 0.5}
    explanation = Explanation(quantity="epsilon", value=1.0, method="m", parameters=parameters)
    parameters["delta"] = 0.7

    assert explanation.parameters == {"delta": 0.5}
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanation.value = 0.5


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"value": math.nan}, InvalidParameter, "value must be a number, got nan"),
        ({"lower": math.nan}, InvalidParameter, "lower must be a number, got nan"),
        ({"lower": 3.0}, InvalidParameter, "lower must be at most value = 2.0, got 3.0"),
        ({"method": None}, InvalidType, "method must be text, got NoneType"),
        ({"assumptions": "one"}, InvalidType, "assumptions must be a tuple of sentences"),
    ],
)
def test_explanations_are_checked(changed, error, text):
    with pytest.raises(error, match=text):
        explained(**changed)


def test_the_gaussian_accountant_explains_itself():
    accountant = GdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(GaussianEvent(noise_multiplier=10.0), 100)

    explanation = accountant.explain(1e-5)
    assert (explanation.value, explanation.lower) == (accountant.epsilon(1e-5), accountant.epsilon_bounds(1e-5).lower)
    assert explanation.parameters == {"delta": 1e-5, "mu": 1.0}
    text = str(explanation)
    for fact in ("ε is at most 4.377178095681225 at δ = 1e-05", "Dong, Roth, Su", "replace_one", "symmetry", "μ = 1.0"):
        assert fact in text
    accountant.compose(NonPrivateEvent())
    assert "ε is infinite" in str(accountant.explain(1e-5))
