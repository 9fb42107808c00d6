"""Histories of Opacus' accountants, to and from events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ferrodp import accounting
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from ferrodp.events import (
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    decompose,
)

__all__ = ["from_opacus_history", "to_opacus_history"]

History: TypeAlias = list[tuple[float, float, int]]
"""Noise multiplier, sample rate and number of steps of consecutive steps that have the former two in common."""


def from_opacus_history(history: Mapping[str, Any] | Iterable[Sequence[Any]]) -> PrivacyEvent:
    """Return the event that an Opacus accountant has recorded.

    Parameters
    ----------
    history : mapping or iterable of (noise multiplier, sample rate, number of steps)
        The accountant's ``state_dict()``, or its ``history``.

    Returns
    -------
    PrivacyEvent
        Poisson-sampled Gaussian releases.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is neither, or an entry is not a triple of numbers in their domains.

    See Also
    --------
    ferrodp.accounting.from_opacus_history : what this event states of a training.

    Examples
    --------
    >>> from ferrodp.integrations.opacus import from_opacus_history
    >>> state = {"history": [(1.1, 0.01, 500)], "mechanism": "rdp"}
    >>> [part.count for part in from_opacus_history(state).events]
    [500]
    """
    if isinstance(history, Mapping):
        if "history" not in history:
            raise InvalidParameter("a state_dict of an Opacus accountant must have the key 'history'")
        history = history["history"]
    return accounting.from_opacus_history(history)


def to_opacus_history(event: PrivacyEvent) -> History:
    """Return an event as the history of an Opacus accountant.

    Parameters
    ----------
    event : PrivacyEvent
        Any composition of Gaussian releases and of Poisson samples of them, in the add-or-remove relation.

    Returns
    -------
    list of (float, float, int)
        Noise multiplier, sample rate and number of steps, to be assigned to ``accountant.history``.

    Raises
    ------
    UnsupportedEventError
        If something else was released. Opacus cannot account for it.
    InvalidType
        If `event` is not an event.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
    >>> from ferrodp.integrations.opacus import to_opacus_history
    >>> step = PoissonSampledEvent(sampling_probability=0.25, event=GaussianEvent(noise_multiplier=1.5))
    >>> to_opacus_history(SelfComposedEvent(event=step, count=40))
    [(1.5, 0.25, 40)]
    """
    history: History = []
    for part, count in decompose(event):
        if not count:
            continue
        match part:
            case PoissonSampledEvent(event=GaussianEvent() as inner):
                entry = (float(inner.noise_multiplier), float(part.sampling_probability))
            case GaussianEvent():
                entry = (float(part.noise_multiplier), 1.0)
            case PoissonSampledEvent(event=NonPrivateEvent()):
                entry = (0.0, float(part.sampling_probability))
            case NonPrivateEvent():
                entry = (0.0, 1.0)
            case _:
                raise UnsupportedEventError(f"a history of Opacus has no entry for {type(part).__name__}")
        if history and history[-1][:2] == entry:
            count += history.pop()[2]
        history.append((*entry, count))
    return history
