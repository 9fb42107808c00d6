"""The cost of rounds by each method, how many fit a target, and how much noise they need.

Accountants answer where there is one. Composition theorems use only the (ε, δ) of a round, so a part of δ is divided
among the rounds, each of which then has the ε that its own curve gives for that δ; the rest of δ is spent on
composition. Every division gives a bound; a few are tried, and the least is kept. A round satisfies every point of its
curve at once, so nothing has to be decided before the number of rounds is known.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._numerics.intervals import first
from ferrodp._numerics.rounding import narrow
from ferrodp.accounting import (
    Guarantee,
    MomentsAccountant,
    PldAccountant,
    PrivacyAccountant,
    RdpAccountant,
    ZcdpAccountant,
    amplify_by_sampling,
    calibrate_parameter,
    compose_advanced,
    compose_basic,
    compose_optimal,
    zcdp_epsilon,
)
from ferrodp.accounting.curves import hockey_stick_epsilon
from ferrodp.accounting.curves.hockey_stick import SMALLEST_DELTA
from ferrodp.engine._step import Step
from ferrodp.engine.records import AccountingMethod, NoiseMechanism
from ferrodp.errors import CalibrationError, UnsupportedEventError
from ferrodp.events import GaussianEvent, PoissonSampledEvent, PrivacyEvent

_SHARES = (Fraction(1), Fraction(1, 2), Fraction(1, 10))
"""Parts of δ that are divided among the rounds; with all of it, composition is basic."""
_MANY = 10**9
"""More rounds are composed by the advanced theorem, where the optimal one would take seconds."""
_THEOREMS = (AccountingMethod.BASIC_COMPOSITION, AccountingMethod.ADVANCED_COMPOSITION, AccountingMethod.OPTIMAL)
_LEAST, _MOST = 1e-3, 1e6
"""Noise multipliers between which one is looked for."""
_ACCURACY = 1e-6
"""Of a multiplier that a theorem needs; those of accountants are found to 2·10⁻⁹."""


def check(step: Step) -> None:
    """Refuse what the method of the configuration cannot bound, and say which methods can.

    Raises
    ------
    UnsupportedEventError
    """
    reason = _objection(step)
    if reason is None:
        return
    config = step.config
    others = [dataclasses.replace(config, accounting=method) for method in AccountingMethod]
    able = [other.accounting for other in others if _objection(dataclasses.replace(step, config=other)) is None]
    use = ", ".join(f"AccountingMethod.{method.name}" for method in able)
    raise UnsupportedEventError(f"accounting={config.accounting.value!r} has no bound for {step}: {reason}; use {use}")


def certified(step: Step, count: int) -> tuple[float, int] | None:
    """Return the ε of `count` rounds and the largest number of rounds by the least bound there is, or None."""
    other = dataclasses.replace(step, config=dataclasses.replace(step.config, accounting=AccountingMethod.PLD))
    if _objection(other) is not None:
        return None
    return epsilon(other, count), largest_count(other)


@functools.lru_cache(maxsize=1024)
def epsilon(step: Step, count: int) -> float:
    """Return an upper bound on the ε of `count` rounds at the target δ."""
    check(step)
    if not count:
        return 0.0
    if step.config.accounting in _THEOREMS:
        return _by_theorem(step, count)
    accountant = _accountant(step)
    accountant.compose(_accounted(step), count)
    return accountant.epsilon(step.config.target_delta)


@functools.lru_cache(maxsize=1024)
def largest_count(step: Step) -> int:
    """Return how many rounds are proven to stay within the target; the next one is not."""
    check(step)
    target = step.config.target_epsilon
    if step.config.accounting not in _THEOREMS:
        found = _accountant(step).remaining_count(_accounted(step), epsilon=target, delta=step.config.target_delta)
        while found and epsilon(step, found) > target:  # the same question, asked in the same words
            found -= 1
        return found
    guess = _guess(lambda count: _log_ratio(epsilon(step, count), target))
    return first(lambda count: epsilon(step, count) > target, guess, 1, _validate.MAX_COUNT + 1) - 1


def _guess(excess: Callable[[int], float]) -> int:
    """Return about the smallest count with an excess > 0; proposes only."""
    if excess(1) > 0.0:
        return 1
    low, high = 1, 8
    while excess(high) <= 0.0:
        if high > _validate.MAX_COUNT // 8:
            return _validate.MAX_COUNT + 1
        low, high = high, 8 * high
    ends = math.log(low), math.log(high)
    safe, _ = narrow(lambda t: -excess(round(math.exp(t))), *ends, 0.5 / high)
    return round(math.exp(safe)) + 1


def _log_ratio(value: float, target: float) -> float:
    """Return ln(value/target), cut to the range of exponents of floats."""
    return max(min(math.log(value / target), 700.0), -700.0) if value else -700.0


def noise_multiplier(step: Step, count: int) -> float:
    """Return the least noise multiplier for which `count` rounds are proven to stay within the target, from above.

    Raises
    ------
    CalibrationError
        If none in the searched range is enough.
    """
    check(step)

    def with_noise(multiplier: float) -> Step:
        return dataclasses.replace(step, config=dataclasses.replace(step.config, noise_multiplier=multiplier))

    proposed = _calibrated(step, count, with_noise)
    target = step.config.target_epsilon
    for _ in range(64):  # what reports will say, in their own words
        if proposed > _MOST or epsilon(with_noise(proposed), count) <= target:
            break
        proposed *= 1.0 + 2.0**-40
    if proposed > _MOST or epsilon(with_noise(proposed), count) > target:
        raise CalibrationError(_out_of_reach(with_noise(_MOST), count))
    return float(proposed)


def _calibrated(step: Step, count: int, with_noise: Callable[[float], Step]) -> float:
    config = step.config
    if config.accounting not in _THEOREMS:
        try:
            return calibrate_parameter(
                lambda multiplier: _accounted(with_noise(multiplier)),
                target_epsilon=config.target_epsilon,
                target_delta=config.target_delta,
                bounds=(_LEAST, _MOST),
                count=count,
                accountant=lambda: _accountant(step),
            )
        except CalibrationError:
            return math.inf
    return _least_enough(lambda multiplier: epsilon(with_noise(multiplier), count), config.target_epsilon)


def _least_enough(epsilon_of: Callable[[float], float], target: float) -> float:
    """Return a multiplier whose ε was seen to be within the target, and at most `_ACCURACY` more than is needed."""

    @functools.cache
    def excess(logarithm: float) -> float:
        return _log_ratio(epsilon_of(math.exp(logarithm)), target)

    low, high = -math.log(2.0), math.log(2.0)
    while excess(high) > 0.0:
        low, high = high, high + 1.0
        if high > math.log(_MOST):
            return math.inf
    while excess(low) <= 0.0:
        low, high = low - 1.0, low
        if low < math.log(_LEAST):
            return _LEAST if epsilon_of(_LEAST) <= target else math.exp(high)
    # mutant: noise-multiplier-what-just-missed
    return math.exp(narrow(excess, low, high, _ACCURACY)[1])


def _out_of_reach(best: Step, count: int) -> str:
    config = best.config
    hint = "; larger renyi_orders reach further" if config.accounting is AccountingMethod.RENYI else ""
    return (
        f"no noise_multiplier up to {_MOST:g} is proven to keep (epsilon={config.target_epsilon!r}, "
        f"delta={config.target_delta!r}) for {count} rounds by accounting={config.accounting.value!r}: "
        f"the last one has epsilon {epsilon(best, count)!r}{hint}"
    )


def _objection(step: Step) -> str | None:
    """Return why the method cannot bound a round, or None if it can."""
    config = step.config
    if config.accounting in _THEOREMS:
        return None
    stand_in = _accounted(step) != step.event
    if stand_in and config.accounting is AccountingMethod.RENYI and not _are_whole(config.renyi_orders):
        return "its moments are bounded at whole orders, and some of renyi_orders are not"
    try:
        _accountant(step).compose(_accounted(step), 0)
    except UnsupportedEventError as error:
        return str(error).split(";")[0]
    return None


def _accountant(step: Step) -> PrivacyAccountant:
    relation = step.relation
    method = step.config.accounting
    if method is AccountingMethod.MOMENTS:
        return MomentsAccountant(neighboring_relation=relation)
    if method is AccountingMethod.RENYI:
        # mutant: stand-in-of-discrete-noise-asked-at-all
        return RdpAccountant(step.config.renyi_orders, neighboring_relation=relation)
    if method is AccountingMethod.PLD:
        return PldAccountant(neighboring_relation=relation)
    return ZcdpAccountant(neighboring_relation=relation)


def _accounted(step: Step) -> PrivacyEvent:
    """Return the event that an accountant is told of a round.

    For discrete Gaussian noise about a Poisson sample that is continuous noise of the same multiplier, at whole orders
    α alone. Let P and Q be the laws with and without a client, shifted by an integer vector Δ, and r = P/Q. With it
    removed, E_Q[((1 − q) + q·r)^α] is a binomial sum of positive multiples of E_Q[r^i], i ≤ α, and each of these is at
    most e^{i(i−1)‖Δ‖²/2σ²} (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
    Theorem 4 and its form for vectors), which is what it is for continuous noise. With it added the divergence is no
    larger, as x → Δ − x exchanges the two laws (Mironov, Talwar, Zhang, "Rényi differential privacy of the sampled
    Gaussian mechanism", 2019, Theorem 5, whose proof pairs x with its image, on a lattice too). Given who else was
    sampled, that is; mixtures are no further apart.
    """
    at_orders = step.config.accounting in (AccountingMethod.RENYI, AccountingMethod.MOMENTS)
    discrete = step.config.mechanism is NoiseMechanism.DISCRETE_GAUSSIAN
    if discrete and at_orders and step.population_size is None and step.chance != 1:
        noise = GaussianEvent(noise_multiplier=step.multiplier)
        return PoissonSampledEvent(sampling_probability=step.config.sampling_rate, event=noise)
    return step.event


def _are_whole(orders: tuple[float, ...]) -> bool:
    # mutant: stand-in-used-between-whole-orders
    return all(float(order).is_integer() for order in orders)


def _by_theorem(step: Step, count: int) -> float:
    method = step.config.accounting
    shares = _SHARES[:1] if method is AccountingMethod.BASIC_COMPOSITION else _SHARES
    return min(_composed(step, count, share) for share in shares)


def _composed(step: Step, count: int, share: Fraction) -> float:
    """Return ε of the composition if a share of δ is divided among the rounds."""
    delta = step.config.target_delta
    # mutant: all-of-delta-given-to-every-round
    each = _guarantee(step, _validate.rounded(share * Fraction(delta) / count, "down"))
    if each.epsilon == math.inf:
        return math.inf
    if share == 1:
        return compose_basic([each], count=count).epsilon
    if step.config.accounting is AccountingMethod.ADVANCED_COMPOSITION or count > _MANY:
        # mutant: advanced-composition-spends-delta-twice
        left = _validate.rounded(Fraction(delta) - count * Fraction(each.delta), "down")
        return compose_advanced([each], extra_delta=left, count=count).epsilon
    # mutant: optimal-composition-forgets-failures
    return compose_optimal([each], delta=delta, count=count).epsilon


@functools.lru_cache(maxsize=4096)
def _guarantee(step: Step, delta: float) -> Guarantee:
    """Return an (ε, δ) of one round, whose δ is at most the given one."""
    if delta < SMALLEST_DELTA:
        delta = 0.0
    if step.config.mechanism is not NoiseMechanism.DISCRETE_GAUSSIAN:
        bounds = hockey_stick_epsilon(step.event, delta, neighboring_relation=step.relation)
        return Guarantee(bounds.upper, delta)
    # In several dimensions no pair of laws is known: ρ = Δ²/2σ², then (ε, δ) about the sample, then amplification.
    chance = step.chance
    inner = min(_validate.rounded(Fraction(delta) / chance, "down"), 1.0 - 2.0**-53)
    rho = _validate.rounded(1 / (2 * Fraction(step.multiplier) ** 2), "up")
    if not inner or rho == math.inf:
        return Guarantee(math.inf, 0.0)
    whole = zcdp_epsilon(rho=rho, delta=inner)
    if whole == math.inf:
        return Guarantee(math.inf, 0.0)
    # mutant: discrete-noise-amplified-before-known
    amplified = amplify_by_sampling(epsilon=whole, delta=inner, sampling_probability=chance)
    return Guarantee(amplified.epsilon, min(amplified.delta, delta))
