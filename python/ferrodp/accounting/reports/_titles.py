"""What a picture is about, in the letters of the field: σ, b, q, T."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrodp._base._pictures import power
from ferrodp.events import (
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PrivacyEvent,
)


def of_steps(event: PrivacyEvent, count: int | None = None) -> str:
    """Return the end of a title about steps that are alike: a line with σ = 1, q = 0.01, T = 3000; "" if not known."""
    known = _letters(event)
    if not known:
        return ""
    if count is not None and count > 1:
        known.append(f"T = {count if count < 10**6 else power(float(count))}")
    return "\n" + ", ".join(known)


def of_accountants(named: Mapping[str, Any]) -> str:
    """Return the end of a title about accountants that all hold one and the same kind of event; "" if they do not."""
    held = {tuple(getattr(accountant, "events", ())) for accountant in named.values()}
    if len(held) != 1:
        return ""
    [events] = held
    return of_steps(*events[0]) if len(events) == 1 else ""


def _letters(event: PrivacyEvent) -> list[str]:
    if isinstance(event, GaussianEvent):
        return [f"σ = {event.noise_multiplier:.4g}"]
    if isinstance(event, LaplaceEvent):
        return [f"b = {event.noise_multiplier:.4g}"]
    if isinstance(event, PoissonSampledEvent):
        noise = _letters(event.event)
        return [*noise, f"q = {power(event.sampling_probability)}"] if noise else []
    if isinstance(event, FixedSizeSampledEvent):
        noise = _letters(event.event)
        return [*noise, f"q = {event.sample_size} / {event.population_size}"] if noise else []
    return []
