"""The sparse vector technique: which of many queries are above a threshold."""

from __future__ import annotations

import functools
import math
import threading
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, NoReturn

import numpy as np

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._observer import OBSERVER
from ferrodp.errors import EntropyError, FerroError, InvalidType
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms._additive import source_of
from ferrodp.random import NoiseSource
from ferrodp.random.noise import refuse_copy, source_or_default
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import payer_of

__all__ = ["SparseVector"]

_SCALES = (1e-300, 1e300)
_NOTHING_FURTHER = ComposedEvent(events=())


@dataclass(slots=True)
class _Run:
    """What queries use up; `noisy` is gone with the last answer."""

    noisy: _native.NoisyThreshold | None
    remaining: int
    source: NoiseSource
    ticket: Ticket | None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SparseVector:
    r"""Answer a stream of queries, each with whether it is above a threshold; pay for those that are.

    A run is ε-differentially private as a whole, however many queries it answers with False, for whatever unit of
    privacy and neighboring relation `sensitivity` was stated in. It ends with its `max_answers`-th True; later queries
    are refused. Queries may be chosen adaptively. Only the answers are private: publishing the value of a query that
    was above the threshold is a further release.

    Parameters
    ----------
    threshold : float
        What queries are compared with: public, finite.
    sensitivity : float
        Δ, the largest change of any one query between neighboring datasets; finite, > 0. Rounded up if not exactly
        representable.
    epsilon : float
        ε of the whole run; finite, > 0. `Fraction` and `Decimal` are taken exactly.
    max_answers : int
        c, the number of True answers after which the run is over; from 1 to 2^31.
    monotonic : bool
        Whether all queries move the same way: of two neighboring datasets one has no query value below that of the
        other. This holds for counts of records if a record is added or removed, not if one is replaced. Halves the
        noise of queries.
    source : NoiseSource, optional
        None, or a seeded source for tests.
    ticket : Ticket, optional
        What pays for the run: see `ferrodp.tickets`. It is armed after all checks, right before the noise of the
        threshold is drawn, and counts as spent from then on; queries need no other.

    Attributes
    ----------
    threshold_scale, query_scale : float
        Scales of the Laplace noise of the threshold, drawn once, and of each query, drawn afresh.
    remaining : int
        How many more times the answer can be True.
    event : EpsilonDeltaEvent
        What an accountant needs to know about the whole run, whose cost is incurred when it begins.
    guarantee : str
        "exact": the law of the answers is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or a scale outside 1e-300 to 1e300.
    TicketError
        If `ticket` was used or cancelled before. Nothing was drawn.
    EntropyError
        If the operating system gives no key.

    Warns
    -----
    WeakPrivacyWarning
        If ε > 20.

    Notes
    -----
    [LSL17] Algorithm 7 without numeric answers: ε₁ + ε₂ = ε, noise of scale Δ/ε₁ on the threshold and 2cΔ/ε₂ on every
    query (Theorem 4), or cΔ/ε₂ if queries are monotonic (Theorem 5); ε₁ : ε₂ = 1 : (2c)^(2/3), or 1 : c^(2/3), which
    minimizes the variance of what is compared (Section 4.2). Both scales are rounded up so that ε₁ + ε₂ ≤ ε exactly.

    Proof: couple the noise of the neighbors' thresholds Δ apart, ρ and ρ + Δ. Every False is then at least as likely
    for the second, as no query moved by more than Δ; that costs ε₁ once. A True moves by at most 2Δ against its noise
    (Δ if queries move the same way as the threshold, or that is left alone), which costs ε₂/c; there are at most c.

    The comparison is one of real numbers: digits of the noise are revealed until they decide it, so the answers have
    exactly the distribution that the theorem is about. The digits of the threshold's noise are a key, which is wiped
    with the last answer and cannot be copied, pickled or used in a forked child.

    References
    ----------
    [LSL17] Lyu, Su, Li, "Understanding the sparse vector technique for differential privacy", PVLDB 10(6), 2017.

    Examples
    --------
    >>> run = SparseVector(threshold=1000.0, sensitivity=1.0, epsilon=1.0)
    >>> [run.query(value) for value in (10.0, 250.0, 5000.0)]
    [False, False, True]
    >>> run.remaining
    0
    """

    guarantee: ClassVar[str] = "exact"

    threshold: float
    sensitivity: float
    epsilon: float
    max_answers: int
    monotonic: bool
    threshold_scale: float
    query_scale: float
    _budget: Fraction
    _run: _Run

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
        # mutant: answers-that-share-epsilon
        scales = _scales(bound, budget, answers if _validate.truth("monotonic", monotonic) else 2 * answers)
        if not all(_SCALES[0] <= scale <= _SCALES[1] for scale in scales):
            accepted = f"such that noise of scale {_SCALES[0]:g} to {_SCALES[1]:g} suffices"
            raise _validate.out_of_domain("epsilon", accepted, epsilon)
        warn_if_weak(epsilon)
        settle(self, threshold=level, sensitivity=bound, epsilon=_validate.rounded(budget, "up"), _budget=budget)
        settle(self, max_answers=answers, monotonic=monotonic, threshold_scale=scales[0], query_scale=scales[1])
        payer = payer_of(drawn_from) if ticket is None else None
        if payer is not None:
            # mutant: run-in-a-block-asks-nobody-whether-it-is-frozen
            ticket = payer.ticket(self.event)
        # mutant: sparse-vector-run-forgets-ticket
        key = source_of(self, drawn_from, ticket)._key()
        settle(self, _run=_Run(_native.NoisyThreshold(level, *scales, key), answers, drawn_from, ticket))
        observer = OBSERVER.get()
        if observer is not None:
            observer.saw(self, np.empty(0), np.empty(0), event=self.event, **self._declared())

    @property
    def remaining(self) -> int:
        """How many more times the answer can be True."""
        return self._run.remaining

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
            If `value` is no such number. Nothing was drawn.
        FerroError
            If the run is over, or in a forked child of the process that began it. Nothing was drawn.
        BudgetExceeded
            If a scope that the run was charged to is frozen. Nothing was drawn.
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

        Calls from several threads are answered one after the other. How long one takes can depend on the noise.
        """
        number, integer = _number(value)
        run = self._run
        noisy = run.noisy
        if noisy is None:
            self._refuse()
        if not noisy.is_own:  # before the lock, which a thread of the parent may hold for ever
            raise FerroError(
                "a sparse vector run cannot go on in a forked child, where its noise would serve twice; begin a new run"
            )
        if run.ticket is not None:
            # mutant: run-of-many-answers-asks-nobody
            run.ticket.check_running()
        with run.lock:
            if run.remaining <= 0:  # another thread got the last one
                self._refuse()
            # Counted before it is known, so that an interruption cannot lead to an answer too many.
            # mutant: answers-not-counted
            run.remaining -= 1
            try:
                # mutant: noisy-threshold
                above = noisy.is_reached(number, run.source._key(), integer)
            except EntropyError:
                run.remaining += 1
                raise
            observer = OBSERVER.get()
            if observer is not None:
                seen = np.array(number if integer is None else _arrays.clamped(int(value)))
                above = bool(observer.saw(self, seen, above, event=_NOTHING_FURTHER, **self._declared()))
            if not above:
                run.remaining += 1
            elif not run.remaining:
                run.noisy = None
            return above

    def _declared(self) -> dict[str, Any]:
        return {"norm": "Linf", "sensitivity": self.sensitivity, "public": (f"threshold={self.threshold!r}",)}

    def _refuse(self) -> NoReturn:
        raise FerroError(
            f"this sparse vector run is over: it has given its {self.max_answers} answers above the threshold; "
            "begin a new run, which costs as much again"
        )

    def __repr__(self) -> str:
        return (
            f"<SparseVector: threshold {self.threshold!r}, sensitivity {self.sensitivity!r}, epsilon "
            f"{self.epsilon!r}, {self.remaining} of {self.max_answers} answers left>"
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
