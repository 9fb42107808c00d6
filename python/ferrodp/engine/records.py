"""Immutable records of the engine: choices, configuration, budget and report."""

from __future__ import annotations

import enum
import itertools
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events.base import settle

__all__ = ["AccountingMethod", "CertifiedReport", "DPConfig", "NoiseMechanism", "PrivacyBudget", "PrivacyReport"]

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


class NoiseMechanism(enum.StrEnum):
    """Which noise is added, and in which norm contributions are clipped for it. Members are their own names in JSON."""

    GAUSSIAN = "gaussian"
    """Exactly rounded Gaussian noise; clipping in L2."""
    LAPLACE = "laplace"
    """Exactly rounded Laplace noise; clipping in L1."""
    DISCRETE_GAUSSIAN = "discrete_gaussian"
    """Discrete Gaussian noise on integers: contributions are cut to a grid toward zero; clipping in L2."""


class AccountingMethod(enum.StrEnum):
    """How the cost of many rounds is added up. Each is an upper bound; they differ in how far above the truth."""

    MOMENTS = "moments"
    """The moments accountant as published: integer orders up to 33 and the classical tail bound."""
    RENYI = "renyi"
    """Rényi divergences at the configured orders, and the tighter conversion."""
    BASIC_COMPOSITION = "basic"
    """All ε and all δ added up."""
    ADVANCED_COMPOSITION = "advanced"
    """The advanced composition theorem for the (ε, δ) of a round."""
    OPTIMAL = "optimal"
    """The best that can be said if nothing but the (ε, δ) of a round is known."""
    PLD = "pld"
    """The distribution of the privacy loss itself: the tightest, certified from both sides."""
    ZCDP = "zcdp"
    """Zero-concentrated differential privacy: ρ adds up. It gains nothing from sampling."""


@dataclass(frozen=True)
class PrivacyBudget:
    """How much privacy loss is allowed, and how much of it was consumed.

    A budget is an immutable value: consuming makes a new one. To keep count on disk and among processes, use a ledger.

    Parameters
    ----------
    epsilon : float
        Allowed ε; finite, ≥ 0. Rounded down if not exactly representable.
    delta : float
        Allowed δ; in [0, 1). Rounded down if not exactly representable.
    consumed_epsilon : float
        ε consumed so far; ≥ 0, perhaps infinite. Rounded up if not exactly representable.
    consumed_delta : float
        δ consumed so far; in [0, 1]. Rounded up if not exactly representable.
    rounds_consumed : int
        Number of rounds behind that; ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> PrivacyBudget(epsilon=8.0)
    PrivacyBudget(epsilon=8.0, delta=1e-05, consumed_epsilon=0.0, consumed_delta=0.0, rounds_consumed=0)
    """

    epsilon: float
    delta: float = 1e-5
    consumed_epsilon: float = 0.0
    consumed_delta: float = 0.0
    rounds_consumed: int = 0

    def __post_init__(self) -> None:
        consumed = self.consumed_epsilon
        if not (isinstance(consumed, float) and consumed == math.inf):
            consumed = _validate.non_negative("consumed_epsilon", consumed)
        settle(
            self,
            epsilon=_validate.non_negative("epsilon", self.epsilon, toward="down"),
            delta=_validate.delta(self.delta, zero=True),
            consumed_epsilon=float(consumed),
            consumed_delta=_validate.probability("consumed_delta", self.consumed_delta),
            rounds_consumed=_validate.count("rounds_consumed", self.rounds_consumed, minimum=0),
        )


@dataclass(frozen=True)
class DPConfig:
    """Noise, clipping, sampling and accounting of a training: one description from which all of them follow.

    Parameters
    ----------
    mechanism : NoiseMechanism
        Which noise; the member, or its value such as "gaussian".
    accounting : AccountingMethod
        How rounds are added up; the member, or its value such as "renyi".
    target_epsilon : float
        ε that all rounds together may cost; finite, > 0. Rounded down if not exactly representable.
    target_delta : float
        δ at which ε is stated; in (0, 1). Rounded down if not exactly representable.
    max_grad_norm : float
        C, the norm to which each contribution is clipped, in its units: L1 for Laplace noise, L2 otherwise; finite,
        > 0. Rounded down if not exactly representable.
    noise_multiplier : float
        z, the standard deviation (Laplace: scale) of the noise divided by C; unitless, finite, > 0. Rounded up if not
        exactly representable.
    sampling_rate : float
        Chance of each client to be in a round; in (0, 1], 1 for no sampling. Rounded up if not exactly representable.
    renyi_orders : tuple of numbers
        Orders α of `AccountingMethod.RENYI`; > 1, in increasing order. No other orders are used.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    `dataclasses.asdict` gives plain data that `json.dumps` writes, and ``DPConfig(**json.loads(…))`` an equal
    configuration.

    Examples
    --------
    >>> config = DPConfig(noise_multiplier=1.5, accounting="pld")
    >>> config.accounting is AccountingMethod.PLD, config.renyi_orders
    (True, (2, 5, 10, 20, 50, 100))
    """

    mechanism: NoiseMechanism = NoiseMechanism.GAUSSIAN
    accounting: AccountingMethod = AccountingMethod.RENYI
    target_epsilon: float = 8.0
    target_delta: float = 1e-5
    max_grad_norm: float = 1.0
    noise_multiplier: float = 1.1
    sampling_rate: float = 0.01
    renyi_orders: tuple[float, ...] = (2, 5, 10, 20, 50, 100)

    def __post_init__(self) -> None:
        settle(
            self,
            mechanism=member(NoiseMechanism, "mechanism", self.mechanism),
            accounting=member(AccountingMethod, "accounting", self.accounting),
            target_epsilon=_validate.positive("target_epsilon", self.target_epsilon, toward="down"),
            target_delta=_validate.delta(self.target_delta, name="target_delta"),
            max_grad_norm=_validate.positive("max_grad_norm", self.max_grad_norm, toward="down"),
            noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier),
            sampling_rate=sampling_rate(self.sampling_rate),
            renyi_orders=_orders(self.renyi_orders),
        )


@dataclass(frozen=True)
class PrivacyReport:
    """What a number of rounds costs.

    Attributes
    ----------
    epsilon_spent, delta_spent : float
        The rounds together are (ε, δ)-differentially private: upper bounds on what was spent. Both are 0 before the
        first round.
    noise_scale : float
        Standard deviation (Laplace: scale) of the noise in the units of the gradients, z·C rounded up.
    num_compositions : int
        Number of rounds that were added up.
    budget_remaining : float
        Target ε less `epsilon_spent`, rounded down; 0 if nothing is left. ε does not add up, so this is no measure of
        how many rounds are left:
    estimated_rounds_left : int
        So many more rounds are proven to stay within the target; one more is not. 2⁶³ − 1 stands for no limit.
    accounting_method : AccountingMethod
        How they were added up.
    """

    epsilon_spent: float
    delta_spent: float
    noise_scale: float
    num_compositions: int
    budget_remaining: float
    estimated_rounds_left: int
    accounting_method: AccountingMethod


@dataclass(frozen=True, slots=True)
class CertifiedReport(PrivacyReport):
    """A report that says what the configured method costs: the least bound on the same rounds stands beside it.

    Attributes
    ----------
    epsilon_spent, delta_spent, noise_scale, num_compositions : float or int
        As for `PrivacyReport`.
    budget_remaining, estimated_rounds_left, accounting_method
        As for `PrivacyReport`.
    certified_epsilon : float or None
        The ε of the same rounds by `AccountingMethod.PLD`, the least bound of this package; None where that method has
        none.
    certified_rounds_left : int or None
        How many more rounds that method allows. What lies between it and `estimated_rounds_left` is the price of the
        configured method, such as the few orders of ``renyi_orders``.
    """

    certified_epsilon: float | None = None
    certified_rounds_left: int | None = None

    def explain(self) -> str:
        """Return what was spent and what is left in words, and what the configured method costs.

        Returns
        -------
        str
            A line for the configured method, and one for the certified bound where there is one.

        Examples
        --------
        >>> from ferrodp.engine import DifferentialPrivacyEngine, DPConfig
        >>> config = DPConfig(sampling_rate=0.05)
        >>> print(DifferentialPrivacyEngine(config).compute_privacy_spent(config, 0).explain())
        0 rounds cost ε = 0 by the configured method, renyi, which allows 518 more
        the certified bound is ε = 0, which allows 779 more: renyi forgoes 261 rounds (see AccountingMethod.PLD)
        """
        rounds = f"{self.num_compositions} round{'' if self.num_compositions == 1 else 's'}"
        method = self.accounting_method.value
        left = _shown_count(self.estimated_rounds_left)
        delta = f" at δ = {self.delta_spent:g}" if self.delta_spent else ""
        cost = f"ε = {self.epsilon_spent:.6g}{delta}"
        text = f"{rounds} cost {cost} by the configured method, {method}, which allows {left} more"
        if self.certified_epsilon is None or self.certified_rounds_left is None:
            return text
        text += f"\nthe certified bound is ε = {self.certified_epsilon:.6g}, which allows "
        text += f"{_shown_count(self.certified_rounds_left)} more"
        forgone = self.certified_rounds_left - self.estimated_rounds_left
        # mutant: price-of-the-configured-method-not-said
        if forgone > 0 and self.certified_rounds_left < _validate.MAX_COUNT:
            text += f": {method} forgoes {forgone} rounds (see AccountingMethod.PLD)"
        return text

    def __str__(self) -> str:
        return self.explain()


def _shown_count(count: int) -> str:
    return "any number of" if count >= _validate.MAX_COUNT else str(count)


def member(choices: type[_Choice], name: str, value: object) -> _Choice:
    """Return the member of an enum that `value` is, or names."""
    if isinstance(value, str):
        for choice in choices:
            if value == choice.value and (isinstance(value, choices) or not isinstance(value, enum.Enum)):
                return choice
    elif not isinstance(value, enum.Enum):
        raise InvalidType(f"{name} must be a {choices.__name__} or its value, got {type(value).__name__}")
    accepted = ", ".join(f'"{choice.value}"' for choice in choices)
    raise _validate.out_of_domain(name, f"a {choices.__name__}, one of {accepted}", value)


def config_of(value: object) -> DPConfig:
    """Return a configuration, or refuse what is none."""
    if not isinstance(value, DPConfig):
        raise _validate.wrong_type("config", "a DPConfig", value, write="DPConfig(target_epsilon=1.0)")
    return value


def sampling_rate(value: object) -> float:
    """Return a chance in (0, 1], rounded up."""
    chance = _validate.probability("sampling_rate", value)
    if not chance:
        raise _validate.out_of_domain("sampling_rate", "finite and in (0, 1]", value)
    return chance


def _orders(value: object) -> tuple[float, ...]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, (tuple, list, range)):
        raise InvalidType(f"renyi_orders must be a tuple of numbers, got {type(value).__name__}")
    orders = tuple(_order(each) for each in value)
    if not orders or any(a >= b for a, b in itertools.pairwise(orders)):
        raise InvalidParameter("renyi_orders must hold at least one order, in increasing order and different")
    return orders


def _order(value: object) -> float:
    """Return an order > 1 as the int or float that it is; any order proves a bound, so which way it rounds is equal."""
    order = _validate.positive("renyi_orders", value)
    if not order > 1.0:
        raise _validate.out_of_domain("renyi_orders", "finite and > 1", value)
    return int(order) if isinstance(value, int) and order == value else order
