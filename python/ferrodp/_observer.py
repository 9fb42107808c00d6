"""Test hook: records each release's input, output and declared sensitivity.

Code around private releases is right if, run on two neighboring datasets and given the same outputs, it makes the same
releases in the same order, and no two inputs of one release are further apart than its declared sensitivity. This can
be tested on any two datasets: record a run on the first, replay it on the second [KMRTZ20]. NOT PRIVATE: a record holds
the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ferrodp.events import NeighboringRelation, PrivacyEvent

Norm = Literal["L0", "L1", "L2", "Linf"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observation:
    """The record of one release: NOT PRIVATE.

    Attributes
    ----------
    mechanism : str
        Name of the class that made it.
    event : PrivacyEvent
        What it costs: nothing further for a query of a sparse vector run.
    norm : {"L0", "L1", "L2", "Linf"}
        How the distance of neighboring inputs is measured; "L0" counts the coordinates that differ.
    sensitivity : float
        How large the distance may be.
    public : tuple of str
        Parameters that must not depend on the data, such as a denominator.
    value : ndarray
        What went in: a copy. Numbers that are not finite are 0, as they are for the mechanism.
    unit : float
        What 1 in `value` stands for: the grid width of a sum, otherwise 1.
    output : ndarray
        What came out: a copy.
    together : (int, PrivacyEvent), optional
        Of releases about disjoint groups of rows: which of them belong together, and what these cost, in place of their
        own events.
    """

    mechanism: str
    event: PrivacyEvent
    norm: Norm
    sensitivity: float
    public: tuple[str, ...] = ()
    value: npt.NDArray[Any]
    unit: float = 1.0
    output: npt.NDArray[Any]
    together: tuple[int, PrivacyEvent] | None = None

    def is_within(self, other: Observation) -> bool:
        """Return whether the inputs of both are no further apart than the sensitivity, in rational arithmetic.

        Parameters
        ----------
        other : Observation
            Of a release with inputs of the same shape.

        Returns
        -------
        bool
            True if their distance in `norm` is at most `sensitivity`.

        Raises
        ------
        ValueError
            If the shapes differ in size.

        Examples
        --------
        >>> import ferrodp as fd
        >>> mechanism = fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0)
        >>> with fd.testing.record() as log:
        ...     _ = [mechanism.release(value) for value in (1.0, 2.0, 4.0)]
        >>> log[0].is_within(log[1]), log[0].is_within(log[2])
        (True, False)
        """
        there, here = self.value.ravel(), other.value.ravel()
        if self.norm == "Linf" and self.unit == 1 and there.size == here.size and _integers(there) and _integers(here):
            # differences of integers up to 2⁵² are exact
            return float(np.abs(there - here).max(initial=0.0)) <= self.sensitivity
        pairs = zip(self.value.ravel().tolist(), other.value.ravel().tolist(), strict=True)
        steps = [abs(Fraction(a) - Fraction(b)) * Fraction(self.unit) for a, b in pairs]
        bound = Fraction(self.sensitivity)
        match self.norm:
            case "L0":
                return sum(step > 0 for step in steps) <= bound
            case "L1":
                return sum(steps) <= bound
            case "L2":
                return sum(step**2 for step in steps) <= bound**2
            case "Linf":
                # mutant: distances-taken-for-smallest-of-steps
                return max(steps, default=Fraction(0)) <= bound


def _integers(value: npt.NDArray[Any]) -> bool:
    """Return whether floats are integers up to 2⁵²."""
    return value.dtype == np.float64 and bool(((np.abs(value) <= 2.0**52) & (value == np.rint(value))).all())


class Recorder:
    """Keeps what it sees, as it is stated for a relation; None where releases say themselves what they are about."""

    def __init__(self, neighboring_relation: NeighboringRelation | None = None) -> None:
        self.log: list[Observation] = []
        self.neighboring_relation = neighboring_relation
        self.together: tuple[int, PrivacyEvent] | None = None

    def saw(
        self,
        mechanism: object,
        value: npt.NDArray[Any],
        output: Any,
        **declared: Any,
    ) -> Any:
        """Record one release, and return what it shall return: an array like `output`.

        `declared` are `event`, `norm` and `sensitivity`, perhaps `unit` and `public`: fields of an `Observation`.
        """
        seen = np.array(np.where(np.isfinite(value), value, 0) if value.dtype.kind == "f" else value)
        name = type(mechanism).__name__
        self.log.append(
            Observation(mechanism=name, value=seen, output=np.array(output), together=self.together, **declared)
        )
        return np.array(output)


class Replayer(Recorder):
    """Compares what it sees with a record, and returns the recorded outputs.

    Raises `AssertionError` for anything that would distinguish the datasets.
    """

    def __init__(self, record: Sequence[Observation], neighboring_relation: NeighboringRelation | None = None) -> None:
        super().__init__(neighboring_relation)
        self._record = record

    def saw(self, *args: Any, **fields: Any) -> Any:
        """Compare one release with the record, and return the output from there."""
        super().saw(*args, **fields)
        number, now = len(self.log), self.log[-1]
        if number > len(self._record):
            raise AssertionError(f"release {number}, by {now.mechanism}, is not in the record, which has fewer")
        then = self._record[number - 1]
        for name, there, here in zip(_COMPARED, _compared(then), _compared(now), strict=True):
            if there != here:
                raise AssertionError(f"release {number} has another {name} than in the record: {here!r}, not {there!r}")
        # mutant: replay-does-not-look-at-inputs
        if not now.is_within(then):
            raise AssertionError(
                f"release {number}, by {now.mechanism}, has an input further from the recorded one than its declared "
                f"{now.norm} sensitivity, {now.sensitivity!r}"
            )
        return np.array(then.output)

    def finish(self) -> None:
        """Check that nothing is missing."""
        if len(self.log) < len(self._record):
            raise AssertionError(f"{len(self.log)} releases were made, and the record has {len(self._record)}")


_COMPARED = ("mechanism", "event", "norm", "sensitivity", "public parameters", "unit", "cost", "shape of the input")


def _compared(seen: Observation) -> tuple[Any, ...]:
    about = seen.public, seen.unit, seen.together
    return seen.mechanism, seen.event, seen.norm, seen.sensitivity, *about, seen.value.shape


OBSERVER: ContextVar[Recorder | None] = ContextVar("ferrodp observer", default=None)
"""The observer of this thread or task; None except in tests."""


@contextmanager
def together(event: PrivacyEvent) -> Iterator[None]:
    """Tell the observer, if there is one, what the releases that follow cost together."""
    observer = OBSERVER.get()
    if observer is None:
        yield
        return
    observer.together = len(observer.log), event
    try:
        yield
    finally:
        observer.together = None


def drawn_in_place(
    array: npt.NDArray[Any],
    draw: Callable[[npt.NDArray[Any]], None],
    mechanism: Any,
    norm: Norm,
    sensitivity: float,
    *,
    public: tuple[str, ...] = (),
    exact: npt.NDArray[Any] | None = None,
) -> None:
    """Noise `array` by `draw`, and report it to the observer, if there is one; `exact` is what floats stand for."""
    observer = OBSERVER.get()
    if observer is None:
        draw(array)
        return
    value = array.copy() if exact is None else exact
    draw(array)
    array[...] = observer.saw(
        mechanism, value, array, event=mechanism.event, norm=norm, sensitivity=sensitivity, public=public
    )
