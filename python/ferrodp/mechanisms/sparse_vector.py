"""The sparse vector technique: which of many queries are above a threshold."""

from __future__ import annotations

import functools
import math
import threading
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, NoReturn

import numpy as np

from ferrodp import _arrays, _native, _validate
from ferrodp._observer import OBSERVER
from ferrodp._validate import Real
from ferrodp.errors import EntropyError, FerroError, InvalidType
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent
from ferrodp.mechanisms import _additive
from ferrodp.random import NoiseSource
from ferrodp.random.noise import refuse_copy, source_or_default
from ferrodp.tickets import Ticket

__all__ = ["SparseVector"]

_SCALES = (1e-300, 1e300)
_NOTHING_FURTHER = ComposedEvent(events=())


class SparseVector:
    r"""Answer a stream of queries, each with whether it is above a threshold; pay for those that are.

    A run is ε-differentially private as a whole, however many queries it answers with False, for whatever unit of
    privacy and neighboring relation `sensitivity` was stated in. It ends with its `max_answers`-th True: from then on
    every query is refused. Queries may be chosen in view of earlier answers. Only answers are private: the value of a
    query that was above is a release of its own.

    Parameters
    ----------
    threshold : float
        What queries are compared with: public, finite.
    sensitivity : float
        Δ, the largest change of any one query between neighboring datasets; finite, > 0. Rounded up if it is no float.
    epsilon : float
        ε of the whole run; finite, > 0. `Fraction` and `Decimal` are taken exactly.
    max_answers : int
        c, the number of True answers after which the run is over; from 1 to 2^31.
    monotonic : bool
        Whether all queries move the same way: of two neighboring datasets one has no query value below that of the
        other. So it is for counts of records if a record is added or removed; not if it is replaced. Halves the noise
        of queries.
    source : NoiseSource, optional
        None, or a seeded source for tests.
    ticket : Ticket, optional
        What pays for the run: see `ferrodp.tickets`. It is armed after every check, right before the noise of the
        threshold is drawn, and spent from then on; queries need no other.

    Attributes
    ----------
    threshold_scale, query_scale : float
        Scales of the Laplace noise of the threshold, drawn once, and of each query, drawn afresh.
    remaining : int
        How many more times the answer can be True.
    event : EpsilonDeltaEvent
        What an accountant needs to know about the whole run. It is spent as a whole when the run begins.
    guarantee : str
        "exact": the law of the answers is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or a scale outside 1e-300 to 1e300.
    TicketError
        If `ticket` was used or cancelled before: before anything is drawn.
    EntropyError
        If the operating system gives no key.

    Warns
    -----
    WeakPrivacyWarning
        If ε > 20.

    Notes
    -----
    Lyu, Su, Li, "Understanding the sparse vector technique for differential privacy", PVLDB 10(6), 2017, Algorithm 7
    without numeric answers: ε₁ + ε₂ = ε, noise of scale Δ/ε₁ on the threshold and 2cΔ/ε₂ on every query (Theorem 4),
    or cΔ/ε₂ if queries are monotonic (Theorem 5); ε₁ : ε₂ = 1 : (2c)^(2/3), or 1 : c^(2/3), which minimizes the
    variance of what is compared (Section 4.2). Both scales are rounded up so that ε₁ + ε₂ ≤ ε holds exactly.

    The proof: fix the noise of neighbors' thresholds Δ apart, ρ and ρ + Δ. Every False is then at least as likely for
    the second, as no query moved by more than Δ; that costs ε₁ once. A True moves by at most 2Δ against its noise (Δ
    if queries move the same way as the threshold, or that is left alone), which costs ε₂/c; there are at most c.

    The comparison is one of real numbers: of the noise as many random digits are revealed as decide it, so that the
    answers have exactly the law that the theorem is about. The digits of the threshold's noise are a key, which is
    wiped with the last answer and cannot be copied, pickled or used in a forked child.

    Examples
    --------
    >>> run = SparseVector(threshold=1000.0, sensitivity=1.0, epsilon=1.0)
    >>> [run.query(value) for value in (10.0, 250.0, 5000.0)]
    [False, False, True]
    >>> run.remaining
    0
    """

    guarantee: ClassVar[str] = "exact"

    __slots__ = (
        "_budget",
        "_epsilon",
        "_lock",
        "_max_answers",
        "_monotonic",
        "_noisy",
        "_query_scale",
        "_remaining",
        "_sensitivity",
        "_source",
        "_threshold",
        "_threshold_scale",
        "_ticket",
    )

    def __init__(
        self,
        *,
        threshold: Real,
        sensitivity: Real,
        epsilon: Real,
        max_answers: int = 1,
        monotonic: bool = False,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        drawn_from = source_or_default(source)
        level = _validate.rounded(_validate.exact("threshold", threshold), "up")
        if not math.isfinite(level):
            raise _validate.out_of_domain("threshold", "within the range of floats", threshold)
        bound = _validate.positive("sensitivity", sensitivity)
        _validate.positive("epsilon", epsilon)
        budget = _validate.exact("epsilon", epsilon)
        answers = _validate.count("max_answers", max_answers, maximum=2**31)
        if type(monotonic) is not bool:
            raise _validate.out_of_domain("monotonic", "True or False", monotonic)
        # mutant: answers-that-share-epsilon
        scales = _scales(bound, budget, answers if monotonic else 2 * answers)
        if not all(_SCALES[0] <= scale <= _SCALES[1] for scale in scales):
            accepted = f"such that noise of scale {_SCALES[0]:g} to {_SCALES[1]:g} suffices"
            raise _validate.out_of_domain("epsilon", accepted, epsilon)
        _additive.warn_if_weak(epsilon)
        self._threshold, self._sensitivity = level, bound
        self._budget, self._epsilon = budget, _validate.rounded(budget, "up")
        self._max_answers, self._monotonic = answers, monotonic
        self._threshold_scale, self._query_scale = scales
        self._source, self._remaining, self._lock = drawn_from, answers, threading.Lock()
        # mutant: sparse-vector-run-forgets-ticket
        key = _additive.source_of(self, drawn_from, ticket)._key()
        self._ticket = ticket
        self._noisy: _native.NoisyThreshold | None = _native.NoisyThreshold(level, *scales, key)
        observer = OBSERVER.get()
        if observer is not None:
            observer.saw(self, np.empty(0), np.empty(0), event=self.event, **self._declared())

    @property
    def threshold(self) -> float:
        """What queries are compared with."""
        return self._threshold

    @property
    def sensitivity(self) -> float:
        """Largest change of any one query between neighboring datasets."""
        return self._sensitivity

    @property
    def epsilon(self) -> float:
        """ε of the whole run, rounded up to a float."""
        return self._epsilon

    @property
    def max_answers(self) -> int:
        """The number of True answers after which the run is over."""
        return self._max_answers

    @property
    def monotonic(self) -> bool:
        """Whether all queries move the same way between neighboring datasets."""
        return self._monotonic

    @property
    def threshold_scale(self) -> float:
        """Scale of the Laplace noise of the threshold."""
        return self._threshold_scale

    @property
    def query_scale(self) -> float:
        """Scale of the Laplace noise of each query."""
        return self._query_scale

    @property
    def remaining(self) -> int:
        """How many more times the answer can be True."""
        return self._remaining

    @property
    def event(self) -> EpsilonDeltaEvent:
        """What an accountant needs to know about the whole run."""
        return EpsilonDeltaEvent(epsilon=self._budget)

    @_arrays.quiet
    def query(self, value: float) -> bool:
        """Return whether `value` plus noise is at or above the threshold plus its noise.

        Parameters
        ----------
        value : float
            An int or float, or a numpy integer or floating scalar of at most 64 bits.

        Returns
        -------
        bool
            After the last True that the run allows, the next query is refused.

        Raises
        ------
        InvalidType
            If `value` is no such number: before anything is drawn.
        FerroError
            If the run is over, or in a forked child of the process that began it: before anything is drawn.
        BudgetExceeded
            If a scope that the run was charged to is frozen: before anything is drawn.
        EntropyError
            If the operating system gives no key; the run goes on.

        Notes
        -----
        ==============================  ======================================================
        value                           counts as
        ==============================  ======================================================
        NaN or infinite                 0
        integer                         itself, exactly, like the equal float; cut to the range of floats
        ==============================  ======================================================

        A call from several threads answers one query after the other. How long it takes can depend on the noise.
        """
        number, integer = _number(value)
        noisy = self._noisy
        if noisy is None:
            self._refuse()
        if not noisy.is_own:  # before the lock, which a thread of the parent may hold for ever
            raise FerroError(
                "a sparse vector run cannot go on in a forked child, where its noise would serve twice; begin a new run"
            )
        if self._ticket is not None:
            # mutant: run-of-many-answers-asks-nobody
            self._ticket.check_running()
        with self._lock:
            if self._remaining <= 0:  # another thread got the last one
                self._refuse()
            # Counted before it is known, so that an interruption cannot lead to an answer too many.
            # mutant: answers-not-counted
            self._remaining -= 1
            try:
                # mutant: noisy-threshold
                above = noisy.is_reached(number, self._source._key(), integer)
            except EntropyError:
                self._remaining += 1
                raise
            observer = OBSERVER.get()
            if observer is not None:
                seen = np.array(number if integer is None else _arrays.clamped(int(value)))
                above = bool(observer.saw(self, seen, above, event=_NOTHING_FURTHER, **self._declared()))
            if not above:
                self._remaining += 1
            elif not self._remaining:
                self._noisy = None
            return above

    def _declared(self) -> dict[str, Any]:
        return {"norm": "Linf", "sensitivity": self._sensitivity, "public": (f"threshold={self._threshold!r}",)}

    def _refuse(self) -> NoReturn:
        raise FerroError(
            f"this sparse vector run is over: it has given its {self._max_answers} answers above the threshold; "
            "begin a new run, which costs as much again"
        )

    def __repr__(self) -> str:
        return (
            f"<SparseVector: threshold {self._threshold!r}, sensitivity {self._sensitivity!r}, epsilon "
            f"{self._epsilon!r}, {self._remaining} of {self._max_answers} answers left>"
        )

    def __reduce__(self) -> NoReturn:
        refuse_copy("a sparse vector run")


@functools.lru_cache(maxsize=64)
def _scales(sensitivity: float, epsilon: Fraction, factor: int) -> tuple[float, float]:
    """Return the scales of threshold and queries for a factor of 2c, or c for monotonic queries.

    The first share is about ε/(1 + factor^(2/3)): any share would be private. Its scale is rounded up, and the second
    scale is what is left over, rounded up: Δ/b₁ + factor·Δ/b₂ ≤ ε.
    """
    with localcontext() as context:
        context.prec = 30
        ratio = Fraction(Decimal(factor) ** (Decimal(2) / 3))
    first = _validate.rounded(Fraction(sensitivity) * (1 + ratio) / epsilon, "up")
    if not _SCALES[0] <= first <= _SCALES[1]:
        return first, first
    left = epsilon - Fraction(sensitivity) / Fraction(first)
    return first, _validate.rounded(factor * Fraction(sensitivity) / left, "up")


def _number(value: Any) -> tuple[float, tuple[bool, bytes] | None]:
    """Return the value of a query as a float, and as an integer where no float denotes it."""
    if isinstance(value, (float, np.float32, np.float16)):
        return float(value), None
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64)):
        integer = _arrays.clamped(int(value))
        nearest = float(integer)
        return nearest, None if nearest == integer else _arrays.bytes_of(integer)
    raise InvalidType(f"value must be an int or float, or a numpy one of at most 64 bits, got {type(value).__name__}")
