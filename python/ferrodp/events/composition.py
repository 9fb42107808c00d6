"""Several releases about one dataset, and the best of several."""

from __future__ import annotations

import math
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import base
from ferrodp.events.base import PrivacyEvent, event_class


@event_class
class ComposedEvent(PrivacyEvent):
    """Several releases about the same dataset, each of which may be chosen after seeing the earlier ones.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        In the order in which they happened; a list is accepted. An empty one means that nothing was released.

    Raises
    ------
    InvalidType
        If it is neither a tuple nor a list, or holds anything but events.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent, LaplaceEvent
    >>> event = ComposedEvent(events=[GaussianEvent(noise_multiplier=1.0), LaplaceEvent(noise_multiplier=2.0)])
    >>> len(event.events)
    2
    """

    kind: ClassVar[str] = "composed"
    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, (tuple, list)):
            raise InvalidType(f"events must be a tuple or list of events, got {type(self.events).__name__}")
        for event in self.events:
            base.check_event("events must hold", event)
        base.settle(self, events=tuple(self.events))


@event_class
class SelfComposedEvent(PrivacyEvent):
    """The same event, `count` times.

    Parameters
    ----------
    event : PrivacyEvent
        What happened each time.
    count : int
        How often; from 0 to 2⁶³ − 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> SelfComposedEvent(event=GaussianEvent(noise_multiplier=1.0), count=100).count
    100
    """

    kind: ClassVar[str] = "self_composed"
    checks: ClassVar[base.Checks] = {"event": base.any_event, "count": base.COUNT_FROM_0}
    event: PrivacyEvent
    count: int


@event_class
class ParallelEvent(PrivacyEvent):
    """Releases about disjoint groups of units, one for each group: a unit pays for the worst of them, not for the sum.

    Which group a unit belongs to may depend on the unit itself (its country, its site) and on earlier releases, not on
    other units. Only adding, removing or zeroing a unit is covered: a unit that is replaced by another may change its
    group, and then two releases change.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        What was released about each group; a list is accepted. At least one.

    Raises
    ------
    InvalidParameter, InvalidType
        If there are no events, it is neither a tuple nor a list, or holds anything but events.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent, PureDpAccountant
    >>> accountant = PureDpAccountant()
    >>> accountant.compose(ParallelEvent(events=[LaplaceEvent(noise_multiplier=2), LaplaceEvent(noise_multiplier=4)]))
    >>> accountant.epsilon(0.0)
    0.5
    """

    kind: ClassVar[str] = "parallel"
    events: tuple[PrivacyEvent, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, (tuple, list)):
            raise InvalidType(f"events must be a tuple or list of events, got {type(self.events).__name__}")
        if not self.events:
            raise InvalidParameter("events must hold at least one event")
        for event in self.events:
            base.inner_event("events", event)
        base.settle(self, events=tuple(self.events))


@event_class
class RepeatAndSelectEvent(PrivacyEvent):
    """The best of a random number of runs of the same mechanism, as in a search for hyperparameters.

    Only the best result is released, and the number of runs is drawn from the stated law and kept secret ([PS22]).

    Parameters
    ----------
    event : PrivacyEvent
        One run.
    mean : float
        Mean number of runs; finite, ≥ 1, or > 0 if `shape` is infinite. Rounded up if not exactly representable.
    shape : float
        η of the truncated negative binomial law: 1 is geometric, 0 logarithmic; finite and ≥ 0, or infinite for the
        Poisson law. A number that is not exactly a float is refused: neither direction of rounding is known to be safe.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> search = RepeatAndSelectEvent(event=GaussianEvent(noise_multiplier=5.0), mean=20, shape=1.0)
    >>> search.mean
    20.0
    """

    kind: ClassVar[str] = "repeat_and_select"
    event: PrivacyEvent
    mean: float
    shape: float

    def __post_init__(self) -> None:
        base.inner_event("event", self.event)
        if type(self.shape) is float and self.shape == math.inf:
            shape = math.inf
        else:
            accepted = "finite and >= 0, or math.inf"
            shape = base.exact_float("shape", self.shape, accepted)
            if shape < 0:
                raise _validate.out_of_domain("shape", accepted, self.shape)
        mean = base.POSITIVE_UP("mean", self.mean)
        if mean < 1 and shape < math.inf:
            raise _validate.out_of_domain("mean", ">= 1 where shape is finite: there is at least one run", self.mean)
        base.settle(self, mean=mean, shape=shape + 0.0)
