"""Groups of records as the unit of privacy, where the mechanism is known: the event that says what they lose."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from ferrodp import _validate
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    SelfComposedEvent,
    ZcdpEvent,
    decompose,
)

MAX_GROUP = 1024
"""Largest group whose sampled contributions are told apart."""


def grouped(event: PrivacyEvent, size: int) -> PrivacyEvent:
    """Return the event that says for one record what `event` says for a group: tight, and composable.

    Parameters
    ----------
    event : PrivacyEvent
        What happened, with sensitivities of one record: noise, Poisson sampled Gaussian noise, zCDP, and
        compositions of those. The group is added or removed; or, where nothing is sampled, replaced.
    size : int
        k, the number of records that are one unit of privacy; at least 1, at most 1024 where they are sampled.

    Raises
    ------
    UnsupportedEventError
        For other events; use `group_privacy` on their ε and δ.

    Notes
    -----
    ==============================  ==============================================================
    Gaussian, Laplace               noise multiplier ÷ k
    discrete Gaussian, Laplace      sensitivity × k
    zCDP                            k²·ρ (Bun, Steinke, TCC 2016, Proposition 1.9)
    Poisson sampled Gaussian        mixture of Gaussians with shift j of probability Binomial(k, q)
    ==============================  ==============================================================

    The mixture: Ganesh, "Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians mechanisms",
    arXiv 2401.10294, Theorem 3.1. Its weights are floats, rounded so that mass only moves to larger shifts; tests are
    thresholds, whose power grows then, so that the mixture dominates.

    Examples
    --------
    >>> step = PoissonSampledEvent(sampling_probability=0.5, event=GaussianEvent(noise_multiplier=2.0))
    >>> grouped(step, 2)
    MixtureOfGaussiansEvent(noise_multiplier=2.0, shifts=(0.0, 1.0, 2.0), probabilities=(0.25, 0.5, 0.25))
    """
    count = _validate.count("size", size)
    parts = [(_grouped_single(part, count), times) for part, times in decompose(event)]
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    return ComposedEvent(events=tuple(_repeated(part, times) for part, times in parts))


def binomial_weights(size: int, probability: float) -> tuple[float, ...]:
    """Return floats p₀, …, p_k that stand for Binomial(k, q), mass moved to larger numbers only.

    Their exact sum s is at most 1, and pⱼ + … + p_k ≥ s·P[Binomial(k, q) ≥ j]. From above, each is what is missing
    to the exact upper tail, rounded up; once more than what is left to 1 is missing, it gets that, rounded down, and
    all below it get nothing: those tails are then all of the mass.
    """
    numerator, denominator = probability.as_integer_ratio()  # all numbers below are integers over 2^bits
    other = denominator - numerator
    extra = 1200  # the finest float is 2^−1074
    bits = (denominator.bit_length() - 1) * size + extra
    term = numerator**size << extra
    weights = [0.0] * (size + 1)
    tail = given = 0
    for j in range(size, 0, -1):
        tail += term
        if tail > given:
            weight = _float(tail - given, bits, 1)
            left = (1 << bits) - given
            if _integer(weight, bits) > left:
                weights[j] = _float(left, bits, 0)
                return tuple(weights)
            weights[j] = weight
            given += _integer(weight, bits)
        term = term * (j * other) // ((size - j + 1) * numerator)
    weights[0] = _float((1 << bits) - given, bits, 0)
    return tuple(weights)


def _float(number: int, bits: int, direction: int) -> float:
    """Return number/2^bits as a float, rounded down, or up with `direction` 1."""
    if not number:
        return 0.0
    shift = max(number.bit_length() - 53, bits - 1074)  # the place of the float's last bit
    mantissa = number >> shift
    if direction and mantissa << shift != number:
        mantissa += 1
    return math.ldexp(mantissa, shift - bits)


def _integer(value: float, bits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (bits - denominator.bit_length() + 1)


def _repeated(event: PrivacyEvent, times: int) -> PrivacyEvent:
    return event if times == 1 else SelfComposedEvent(event=event, count=times)


def _grouped_single(event: PrivacyEvent, size: int) -> PrivacyEvent:
    if size == 1:
        return event
    if isinstance(event, (GaussianEvent, LaplaceEvent)):
        return dataclasses.replace(event, noise_multiplier=Fraction(event.noise_multiplier) / size)  # type: ignore[arg-type]
    if isinstance(event, DiscreteGaussianEvent):
        return dataclasses.replace(event, l2_sensitivity=Fraction(event.l2_sensitivity) * size)  # type: ignore[arg-type]
    if isinstance(event, DiscreteLaplaceEvent):
        return dataclasses.replace(event, l1_sensitivity=event.l1_sensitivity * size)
    if isinstance(event, ZcdpEvent):
        return ZcdpEvent(rho=Fraction(event.rho) * size**2)  # type: ignore[arg-type]  # rounded up
    if isinstance(event, PoissonSampledEvent) and isinstance(event.event, GaussianEvent):
        _validate.count("size", size, maximum=MAX_GROUP)
        weights = binomial_weights(size, event.sampling_probability)
        return MixtureOfGaussiansEvent(
            noise_multiplier=event.event.noise_multiplier,
            shifts=tuple(float(j) for j in range(size + 1)),
            probabilities=weights,
        )
    raise UnsupportedEventError(
        f"no tight group event for {type(event).__name__}; apply group_privacy to its epsilon and delta"
    )
