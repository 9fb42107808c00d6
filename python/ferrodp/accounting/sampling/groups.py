"""Events of known mechanisms for groups of records as the unit of privacy."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from ferrodp import events
from ferrodp._base import _validate
from ferrodp._numerics.rounding import next_up
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import GaussianEvent, MixtureOfGaussiansEvent, PoissonSampledEvent, PrivacyEvent, decompose

MAX_GROUP = 1024
"""Largest group whose sampled contributions are told apart."""


def grouped(event: PrivacyEvent, size: int) -> PrivacyEvent:
    """Return the event whose cost for one record is that of `event` for a group: tight, and composable.

    Parameters
    ----------
    event : PrivacyEvent
        What happened, with sensitivities of one record: noise, Poisson sampled Gaussian noise, zCDP, and
        compositions of those. The group is added or removed; or, where nothing is sampled, replaced.
    size : int
        k, the number of records that are one unit of privacy; at least 1, at most 1024 where they are sampled.

    Returns
    -------
    PrivacyEvent
        For any accountant.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.
    UnsupportedEventError
        For other events; use `group_privacy` on their ε and δ.

    Notes
    -----
    ==============================  ==============================================================
    Gaussian, Laplace               noise multiplier ÷ k
    discrete Gaussian, Laplace      sensitivity × k
    zCDP                            k²·ρ ([BS16] Proposition 1.9)
    Poisson sampled Gaussian        mixture of Gaussians with shift j of probability Binomial(k, q)
    ==============================  ==============================================================

    The mixture is that of [Gan24] Theorem 3.1. Its weights are floats, rounded so that mass only moves to larger
    shifts; optimal tests are thresholds, whose power then grows, so that the mixture dominates.

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
    return events.ComposedEvent(events=tuple(_repeated(part, times) for part, times in parts))


def binomial_weights(size: int, probability: float) -> tuple[float, ...]:
    """Return floats p₀, …, p_k in place of Binomial(k, q), with mass moved to larger numbers only.

    Their exact sum s is at most 1, and pⱼ + … + p_k ≥ s·P[Binomial(k, q) ≥ j]. From the largest number down, each
    weight is what is missing to the exact upper tail, rounded up; as soon as this exceeds what is left to 1, the weight
    is that rest, rounded down, and all smaller numbers get 0: those tails are then all of the mass.
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
            weight = _float(tail - given, bits, "up")
            left = (1 << bits) - given
            if _integer(weight, bits) > left:
                weights[j] = _float(left, bits, "down")
                return tuple(weights)
            weights[j] = weight
            given += _integer(weight, bits)
        term = term * (j * other) // ((size - j + 1) * numerator)
    weights[0] = _float((1 << bits) - given, bits, "down")
    return tuple(weights)


def _float(number: int, bits: int, toward: _validate.Rounding) -> float:
    """Return number/2^bits as a float; faster than from a ratio in lowest terms."""
    nearest = number / (1 << bits)
    error = _integer(nearest, bits) - number
    if toward == "up" and error < 0:
        return next_up(nearest)
    return math.nextafter(nearest, 0.0) if toward == "down" and error > 0 else nearest


def _integer(value: float, bits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (bits - denominator.bit_length() + 1)


def _repeated(event: PrivacyEvent, times: int) -> PrivacyEvent:
    return event if times == 1 else events.SelfComposedEvent(event=event, count=times)


def _grouped_single(event: PrivacyEvent, size: int) -> PrivacyEvent:
    if size == 1:
        return event
    if isinstance(event, (GaussianEvent, events.LaplaceEvent)):
        return dataclasses.replace(event, noise_multiplier=Fraction(event.noise_multiplier) / size)  # type: ignore[arg-type]
    if isinstance(event, events.DiscreteGaussianEvent):
        return dataclasses.replace(event, l2_sensitivity=Fraction(event.l2_sensitivity) * size)  # type: ignore[arg-type]
    if isinstance(event, events.DiscreteLaplaceEvent):
        return dataclasses.replace(event, l1_sensitivity=event.l1_sensitivity * size)
    if isinstance(event, events.ZcdpEvent):
        return events.ZcdpEvent(rho=Fraction(event.rho) * size**2)  # type: ignore[arg-type]  # rounded up
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
