"""The records: the specified fields in their order, checked at the door, and never changed."""

import dataclasses
import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from ferrodp.engine import AccountingMethod, DPConfig, NoiseMechanism, PrivacyBudget, PrivacyReport, Sampling
from ferrodp.errors import InvalidParameter, InvalidType

REQUIRED = dataclasses.MISSING


def fields_of(record):
    return [(field.name, field.default) for field in dataclasses.fields(record)]


def test_budget_has_the_specified_fields_and_defaults():
    assert fields_of(PrivacyBudget) == [
        ("epsilon", REQUIRED),
        ("delta", 1e-5),
        ("consumed_epsilon", 0.0),
        ("consumed_delta", 0.0),
        ("rounds_consumed", 0),
    ]


def test_config_has_the_specified_fields_and_defaults():
    assert fields_of(DPConfig) == [
        ("mechanism", NoiseMechanism.GAUSSIAN),
        ("accounting", AccountingMethod.RENYI),
        ("target_epsilon", 8.0),
        ("target_delta", 1e-5),
        ("max_grad_norm", 1.0),
        ("noise_multiplier", 1.1),
        ("sampling_rate", 0.01),
        ("renyi_orders", (2, 5, 10, 20, 50, 100)),
    ]


def test_report_has_the_specified_fields_and_no_defaults():
    names = [
        "epsilon_spent",
        "delta_spent",
        "noise_scale",
        "num_compositions",
        "budget_remaining",
        "estimated_rounds_left",
        "accounting_method",
    ]

    assert fields_of(PrivacyReport) == [(name, REQUIRED) for name in names]


def test_enums_have_the_specified_members_and_values():
    assert {each.name: each.value for each in NoiseMechanism} == {
        "GAUSSIAN": "gaussian",
        "LAPLACE": "laplace",
        "DISCRETE_GAUSSIAN": "discrete_gaussian",
    }
    assert {each.name: each.value for each in AccountingMethod} == {
        "MOMENTS": "moments",
        "RENYI": "renyi",
        "BASIC_COMPOSITION": "basic",
        "ADVANCED_COMPOSITION": "advanced",
        "OPTIMAL": "optimal",
        "PLD": "pld",
        "ZCDP": "zcdp",
    }


@pytest.mark.parametrize("record", [PrivacyBudget(1.0), DPConfig(), PrivacyReport(*range(7))])
def test_records_are_frozen_and_hashable(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.epsilon = 100.0

    assert hash(record) == hash(dataclasses.replace(record))


def test_a_config_survives_json():
    config = DPConfig(mechanism=NoiseMechanism.LAPLACE, accounting=AccountingMethod.PLD, renyi_orders=(1.5, 3))

    assert DPConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_values_stand_for_members():
    config = DPConfig(mechanism="laplace", accounting="zcdp")

    assert config.mechanism is NoiseMechanism.LAPLACE
    assert config.accounting is AccountingMethod.ZCDP


def test_numbers_that_are_no_floats_round_to_the_side_that_promises_less():
    third = Fraction(1, 3)
    config = DPConfig(
        target_epsilon=third, target_delta=third, max_grad_norm=third, noise_multiplier=third, sampling_rate=third
    )

    assert Fraction(config.target_epsilon) < third
    assert Fraction(config.target_delta) < third
    assert Fraction(config.max_grad_norm) < third
    assert Fraction(config.noise_multiplier) > third
    assert Fraction(config.sampling_rate) > third
    budget = PrivacyBudget(Decimal("0.1"), third, third, third)
    assert Fraction(budget.epsilon) <= Fraction(1, 10)
    assert Fraction(budget.delta) < third < min(Fraction(budget.consumed_epsilon), Fraction(budget.consumed_delta))


NUMBERS = ("target_epsilon", "target_delta", "max_grad_norm", "noise_multiplier", "sampling_rate")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, -math.inf, -0.0])
def test_numbers_out_of_their_domain_are_refused_by_name(name, value):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        DPConfig(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [None, True, "1", [1.0], np.array(1.0), np.ones(1), 1j, object()])
def test_what_is_no_number_is_refused_by_name(name, value):
    with pytest.raises(InvalidType, match=f"^{name} must be a real number"):
        DPConfig(**{name: value})


@pytest.mark.parametrize("value", [1.0, 1.5, np.nextafter(1.0, 2.0)])
def test_delta_stays_below_one_and_a_rate_reaches_it(value):
    with pytest.raises(InvalidParameter):
        DPConfig(target_delta=value)
    if value == 1.0:
        assert DPConfig(sampling_rate=value).sampling_rate == 1.0
    else:
        with pytest.raises(InvalidParameter):
            DPConfig(sampling_rate=value)


@pytest.mark.parametrize(
    "orders", [(), [], (1,), (0.5, 2), (2, 2), (5, 2), (2, math.nan), (2, math.inf), (-2, 3), (2, 1e400)]
)
def test_orders_out_of_their_domain_are_refused(orders):
    with pytest.raises(InvalidParameter, match=r"^renyi_orders"):
        DPConfig(renyi_orders=orders)


@pytest.mark.parametrize("orders", [2, "2, 5", None, {2, 5}, ("2", 5), (True, 5), (2, None)])
def test_orders_of_other_types_are_refused(orders):
    with pytest.raises(InvalidType, match=r"^renyi_orders"):
        DPConfig(renyi_orders=orders)


def test_orders_become_a_tuple_of_plain_numbers():
    config = DPConfig(renyi_orders=np.array([2.5, 4.0]))

    assert config.renyi_orders == (2.5, 4.0)
    assert DPConfig(renyi_orders=range(2, 5)).renyi_orders == (2, 3, 4)
    assert [type(order) for order in DPConfig(renyi_orders=[2, np.float64(3)]).renyi_orders] == [int, float]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("mechanism", "gauss", InvalidParameter),
        ("mechanism", AccountingMethod.PLD, InvalidParameter),
        ("mechanism", Sampling.POISSON, InvalidParameter),
        ("accounting", "GAUSSIAN", InvalidParameter),
        ("accounting", None, InvalidType),
        ("accounting", 3, InvalidType),
    ],
)
def test_other_choices_are_refused(name, value, error):
    with pytest.raises(error, match=f"^{name} must be"):
        DPConfig(**{name: value})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epsilon": -1.0}, InvalidParameter),
        ({"epsilon": math.inf}, InvalidParameter),
        ({"epsilon": math.nan}, InvalidParameter),
        ({"epsilon": "8"}, InvalidType),
        ({"delta": 1.0}, InvalidParameter),
        ({"delta": -1e-5}, InvalidParameter),
        ({"consumed_epsilon": math.nan}, InvalidParameter),
        ({"consumed_epsilon": -math.inf}, InvalidParameter),
        ({"consumed_epsilon": -0.1}, InvalidParameter),
        ({"consumed_delta": 1.1}, InvalidParameter),
        ({"rounds_consumed": -1}, InvalidParameter),
        ({"rounds_consumed": 1.0}, InvalidType),
        ({"rounds_consumed": True}, InvalidType),
    ],
)
def test_budgets_out_of_their_domain_are_refused(changes, error):
    with pytest.raises(error):
        PrivacyBudget(**{"epsilon": 1.0, **changes})


def test_an_unbounded_loss_can_be_written_down():
    assert PrivacyBudget(1.0, consumed_epsilon=math.inf).consumed_epsilon == math.inf
