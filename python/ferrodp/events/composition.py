"""Several releases about one dataset, and the best of several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ferrodp import _validate
from ferrodp.errors import InvalidType
from ferrodp.events.base import PrivacyEvent, check_event, check_inner, exact_float, register, settle

__all__ = ["ComposedEvent", "RepeatAndSelectEvent", "SelfComposedEvent"]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedEvent(PrivacyEvent):
    """Several releases about the same dataset, each of which may be chosen after seeing the ones before.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        In the order in which they happened; a list is accepted. None at all means that nothing was released.
    """

    kind: ClassVar[str] = "composed"
    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, (tuple, list)):
            raise InvalidType(f"events must be a tuple or list of events, got {type(self.events).__name__}")
        for event in self.events:
            check_event("events must hold", event)
        settle(self, events=tuple(self.events))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class SelfComposedEvent(PrivacyEvent):
    """The same event, `count` times.

    Parameters
    ----------
    event : PrivacyEvent
        What happened each time.
    count : int
        How often; from 0 to 2⁶³ − 1.
    """

    kind: ClassVar[str] = "self_composed"
    event: PrivacyEvent
    count: int

    def __post_init__(self) -> None:
        check_event("event must be", self.event)
        settle(self, count=_validate.count("count", self.count, minimum=0))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAndSelectEvent(PrivacyEvent):
    """The best of a random number of runs of the same mechanism, as in a search for hyperparameters.

    Only the best result is released, and the number of runs is drawn from the stated law and kept secret (Papernot,
    Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR 2022).

    Parameters
    ----------
    event : PrivacyEvent
        One run.
    mean : float
        Mean number of runs; finite, ≥ 1, or > 0 if `shape` is infinite. Rounded up if it is no float.
    shape : float
        η of the truncated negative binomial law: 1 geometric, 0 logarithmic; finite and ≥ 0, or infinite for the
        Poisson law. A number that no float denotes is refused: no side of it is known to be safe.
    """

    kind: ClassVar[str] = "repeat_and_select"
    event: PrivacyEvent
    mean: float
    shape: float

    def __post_init__(self) -> None:
        check_inner(self.event)
        if type(self.shape) is float and self.shape == math.inf:
            shape = math.inf
        else:
            accepted = "finite and >= 0, or math.inf"
            shape = exact_float("shape", self.shape, accepted)
            if shape < 0:
                raise _validate.out_of_domain("shape", accepted, self.shape)
        mean = _validate.positive("mean", self.mean, toward="up")
        if mean < 1 and shape < math.inf:
            raise _validate.out_of_domain("mean", ">= 1 where shape is finite: there is at least one run", self.mean)
        settle(self, mean=mean, shape=shape + 0.0)
