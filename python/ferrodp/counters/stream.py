"""Streams of counters: a day's totals are on disk before their noise is drawn, and no day is released twice."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _fork, _validate
from ferrodp._base._validate import Real
from ferrodp.correlated.streams import native_stream
from ferrodp.counters._file import Day, StreamFile
from ferrodp.counters._units import Limits, identified, placed
from ferrodp.counters.counter import Counter
from ferrodp.errors import FerroError, InvalidArray, InvalidParameter, InvalidType, TicketError
from ferrodp.events import ComposedEvent, PrivacyEvent, SelfComposedEvent
from ferrodp.random import NoiseSource
from ferrodp.random.noise import refuse_copy, source_or_default
from ferrodp.tickets import ReleasedStatistic, Ticket, TicketLedger, TicketState
from ferrodp.tickets.payer import payer_of
from ferrodp.tickets.statistic import changed, found_statistic

__all__ = ["CounterStream"]

Totals = npt.NDArray[np.int64]

_NOTHING = ComposedEvent(events=())
_LARGEST_TOTAL = 2**62
MOST_COUNTERS = 2**31


class CounterStream:
    """Release the totals of many counters, day after day, with noise that hardly grows with the days.

    All days together cost what `Counter.event` says; it is charged once, before the first day. Made by `Counter.start`,
    and by `open` from the file of a stream.

    With a *file* the stream outlives the process. Exact totals are on disk before their noise is drawn, and the noise
    follows from a key in the file: a process that is killed at any moment loses no day that was committed, and the
    stream that goes on releases the same numbers again for it, not others. With a *ledger* as well, the ledger owns the
    stream: the charge belongs to this one file, and each day's counts are recorded before they are released. So neither
    a new file nor a copy of an old one buys other noise for the same charge, or the same noise for other counts.

    Parameters
    ----------
    counter : Counter
        What is released, and what it costs.
    counters : int or sequence of str
        How many counters, from 1 to 2³¹, or what they are called: public, and the same on all days.
    file : path, optional
        Of the stream: made if there is none, for its owner alone; otherwise the stream goes on after its last day. It
        holds exact totals and the key of the noise: keep it as you keep the data.
    ledger : PrivacyLedger, optional
        What pays, with `scope` and `key`.
    scope : str or sequence of str, optional
        Of the ledger: what is charged.
    key : str, optional
        Names the stream, in the ledger and in its file; needed with either.
    plan_delta : float, optional
        For scopes of measure "pure", as for `PrivacyLedger.reserve`.
    source : NoiseSource, optional
        None, or a seeded source for tests, without file and ledger.

    Attributes
    ----------
    counter : Counter
        What is released.
    labels : tuple of str or None
        What the counters are called.
    num_counters : int
        How many there are.
    day : int
        Number of the next day, from 0: so many days were committed.
    last : ndarray of int64 or None
        What the last day released; None before the first.
    event : PrivacyEvent
        What all days cost together.
    guarantee : str
        "exact": the law of the outputs is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the file is that of another stream.
    FerroError
        If the file is open elsewhere, or that of a stream that the ledger knows is lost.
    BudgetExceeded
        If the ledger does not allow it. Nothing was charged.
    MemoryError
        If there is no memory for the buffers, 8 bytes a counter for each.

    Notes
    -----
    The order, for each day: the new totals to the file, and to disk; a record of them in the ledger; noise. The record
    costs nothing. It names a random number that was written with the totals, so that of several copies of a file one
    alone releases a day. A ledger that is frozen stops the stream before its next day.

    Without a ledger nothing notices that a file was copied, or an older one put back.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = fd.PrivacyLedger.open(os.path.join(folder.name, "budget.db"))
    >>> ledger.create("site/visits", epsilon=1.01, delta=1e-6, measure="gdp")
    >>> counter = fd.Counter.calibrated(epsilon=1.0, delta=1e-6, days=365)
    >>> file = os.path.join(folder.name, "pages")
    >>> where = {"ledger": ledger, "scope": "site/visits", "key": "pages", "file": file}
    >>> with counter.start(["home", "news"], **where) as stream:
    ...     monday = stream.release(np.array([1200, 310]))
    >>> with counter.start(["home", "news"], **where) as stream:  # another process, after a crash or a night
    ...     stream.day, bool(np.array_equal(stream.last, monday))
    ...     tuesday = stream.release(np.array([1100, 290]))
    (1, True)
    >>> ledger.close()
    >>> folder.cleanup()
    """

    guarantee: ClassVar[str] = "exact"

    __slots__ = (
        "_counter", "_day", "_file", "_is_broken", "_labels", "_last", "_ledger", "_limits", "_lock", "_name",
        "_native", "_num_counters", "_process", "_salt", "_scope", "_spare", "_ticket", "_totals",
    )  # fmt: skip

    def __init__(
        self,
        counter: Counter,
        counters: int | Sequence[str],
        *,
        file: str | os.PathLike[str] | None = None,
        ledger: TicketLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        source: NoiseSource | None = None,
    ) -> None:
        if not isinstance(counter, Counter):
            raise InvalidType(
                f"counter must be a Counter, got {type(counter).__name__}; for example "
                "Counter.calibrated(epsilon=1.0, delta=1e-6, days=365)"
            )
        labels, count = _labels(counters)
        _check_owner(file, ledger, scope, key)
        planned = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        drawn_from = source_or_default(source)
        if not drawn_from.is_private and (file is not None or ledger is not None):
            raise InvalidParameter("source must be private with a file or a ledger; whoever has the seed has the noise")
        self._counter, self._labels, self._num_counters = counter, labels, count
        self._ledger, self._scope, self._name = ledger, scope, key
        self._day, self._is_broken = 0, False
        self._last: Totals | None = None
        self._process = _fork.generation()
        self._lock = threading.Lock()
        self._file: StreamFile | None = None
        self._ticket: Ticket | None = None
        self._limits = Limits(counter.max_days, counter.min_separation)
        self._salt = secrets.token_bytes(32)
        try:
            self._begin(drawn_from, file, planned)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        file: str | os.PathLike[str],
        *,
        ledger: TicketLedger | None = None,
        scope: str | Sequence[str] | None = None,
        plan_delta: Real | None = None,
    ) -> Self:
        """Return the stream of a file, after its last day.

        Parameters
        ----------
        file : path
            That a stream made. What it releases, and what its counters are called, is in it.
        ledger, scope, plan_delta
            Those that it was started with.

        Returns
        -------
        CounterStream

        Raises
        ------
        InvalidParameter, InvalidType, FerroError, BudgetExceeded
            As for `CounterStream`.
        """
        found = StreamFile.open(_path(file))
        try:
            counter, counters, name, charged = _described(found)
        finally:
            found.close()
        if charged and ledger is None:
            raise InvalidParameter("ledger must be the one that the stream was started with, which records its days")
        return cls(counter, counters, file=file, ledger=ledger, scope=scope, key=name, plan_delta=plan_delta)

    def _begin(self, source: NoiseSource, file: Any, plan_delta: float | None) -> None:
        event = self._counter.event
        whole = self._reserved(event, plan_delta)
        if file is None:
            payer = payer_of(source) if self._ledger is None else None
            ticket = whole if payer is None else payer.ticket(event)
            self._open_native(source._key() if ticket is None else ticket.permit(event))
            self._ticket = ticket
            return
        if payer_of(source) is not None:
            raise InvalidParameter(
                "a stream with a file must not be in a `with budget(...)` block, which ends with its process; start it "
                "with ledger= and scope="
            )
        is_lost = whole is not None and whole.state is not TicketState.HELD and not StreamFile.exists(file)
        # mutant: counter-stream-begins-anew-for-one-charge
        if is_lost:
            raise _lost(self._name)
        about = self._about()
        path = _path(file)
        found = StreamFile.open(path) if StreamFile.exists(path) else StreamFile.make(path, str(self._name), about)
        self._file = found
        # mutant: counters-of-another-stream-go-on
        if found.name != self._name or found.about != about:
            raise InvalidParameter(
                f"file must be that of this stream, and {str(file)!r} is of another key, counter or list of counters, "
                "or was started without this ledger; each stream has a file of its own"
            )
        self._salt = found.key
        # mutant: one-charge-pays-for-two-files
        self._claim("file", found.nonce)
        if whole is not None:
            if whole.state is TicketState.HELD:
                # mutant: stream-of-counters-draws-before-it-is-paid
                whole.arm(statistic=self._words())
            whole.close()
        self._open_native(found.key)
        if found.last is not None:
            self._go_on(found.last)

    def _about(self) -> dict[str, Any]:
        counters = self._num_counters if self._labels is None else list(self._labels)
        return {"counter": self._counter.to_dict(), "counters": counters, "charged": self._ledger is not None}

    def _words(self) -> ReleasedStatistic:
        """Return what the charge of the stream is for."""
        counter, names = self._counter, None if self._labels is None else ", ".join(map(str, self._labels))
        bounds = f"L2 norm of what a unit adds on a day at most {counter.l2_sensitivity:g}"
        apart = changed(counter.neighboring_relation, "unit")
        many = f"running totals of {self._num_counters} counter{'s' * (self._num_counters != 1)}"
        return found_statistic(many, names, bounds, f"{counter.unit}, {apart}")

    def _reserved(self, event: PrivacyEvent, plan_delta: float | None) -> Ticket | None:
        """Return the ticket of the whole stream, or None without a ledger."""
        if self._ledger is None or self._scope is None:
            if plan_delta is not None:
                raise InvalidParameter(f"plan_delta must be None without a ledger to charge, got {plan_delta}")
            return None
        ticket = self._ledger.reserve(
            self._scope, event, key=f"{self._name}/counters", plan_delta=plan_delta, again_ok=True
        )
        relation = self._counter.neighboring_relation
        # mutant: scope-of-another-relation-pays-for-counters
        if ticket.neighboring_relation is not relation:
            if ticket.is_new:
                ticket.close()
            raise InvalidParameter(
                f"scope must have the neighboring_relation {relation.name} of the counter, got "
                f"{ticket.neighboring_relation.name}"
            )
        return ticket

    def _claim(self, what: str, nonce: int) -> None:
        """Record for good that something of this stream is the one with this number, and no other."""
        if self._ledger is None or self._scope is None:
            return
        try:
            ticket = self._ledger.reserve(
                self._scope,
                # Costs nothing, however often: the number is what the ledger compares.
                SelfComposedEvent(event=_NOTHING, count=nonce),
                key=f"{self._name}/{what}",
                again_ok=True,
            )
            # mutant: day-of-counters-not-recorded
            if ticket.state is TicketState.HELD:
                ticket.arm(statistic=found_statistic(f"running totals, {what}, paid for by another charge"))
            ticket.close()
        except TicketError as error:
            raise FerroError(
                f"the ledger knows {what!r} of stream {self._name!r} from another file: this one is a copy or an older "
                "one, and the same noise for other counts would show them; go on with the other file, or begin another "
                f"stream under another key, which costs as much again ({error})"
            ) from None

    def _open_native(self, key: Any) -> None:
        counter = self._counter
        self._totals: Totals = np.zeros(self._num_counters, np.int64)
        self._spare: Totals = np.zeros(self._num_counters, np.int64)
        self._native: _native.CorrelatedStream = native_stream(
            counter.strategy,
            standard_deviation=counter.standard_deviation,
            exponent=0,
            length=self._num_counters,
            key=key,
            totals=True,
        )

    def _go_on(self, last: Day) -> None:
        """Take up the stream after a day that was committed, and release that day's totals again."""
        self._totals[:] = np.frombuffer(last.totals, np.int64)
        self._limits = Limits.from_bytes(self._counter.max_days, self._counter.min_separation, last.units)
        self._claim(f"day {last.number}", last.nonce)
        # mutant: noise-of-counters-begins-anew
        for _ in range(last.number):
            self._native.skip(None)
        self._day = last.number + 1
        self._last = self._drawn(None)

    @property
    def counter(self) -> Counter:
        """What is released."""
        return self._counter

    @property
    def labels(self) -> tuple[str, ...] | None:
        """What the counters are called."""
        return self._labels

    @property
    def num_counters(self) -> int:
        """How many counters there are."""
        return self._num_counters

    @property
    def day(self) -> int:
        """Number of the next day, from 0: so many days were committed."""
        return self._day

    @property
    def last(self) -> Totals | None:
        """What the last day released; None before the first."""
        return self._last

    @property
    def event(self) -> PrivacyEvent:
        """What all days cost together."""
        return self._counter.event

    @_arrays.quiet
    def release(self, counts: Any, *, day: int | None = None, threads: int | None = None) -> Totals:
        """Add the counts of the next day, and return the totals of all days with their noise.

        Parameters
        ----------
        counts : array of int
            One number for each counter: the day's own, not a total. Numbers beyond ±2⁶²/`horizon` count as these.
        day : int, optional
            Which day the counts are of. The one that was committed last is not added again: its totals are returned as
            they were released, so that a program that was killed may repeat its last call.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        (n,) ndarray of int64
            Totals from the first day to this one, with noise: negative ones are possible, and falling ones. Read-only.

        Raises
        ------
        InvalidArray, InvalidType, InvalidParameter
            If an argument is of another shape or type, or the day is another one. Nothing was committed.
        FerroError
            If all days were released, the stream was closed, in a forked child, or while another thread releases.
            Nothing was committed.
        BudgetExceeded
            If the ledger is frozen. The day was committed; the stream that is opened later releases it.
        """
        array = _arrays.as_integer_array(counts, "counts")
        if array.shape != (self._num_counters,):
            raise InvalidArray(f"counts must have shape ({self._num_counters},), got {array.shape}")
        return self._released(lambda _: (array, self._limits), day, _validate.threads(threads))

    @_arrays.quiet
    def release_units(self, units: Any, counters: Any, *, day: int | None = None, threads: int | None = None) -> Totals:
        """Add a day that is given row by row, who and what, each person cut to what the counter says of one.

        Of a person's rows of the day those count that name different counters, the first `max_counters` in the order of
        counters. With `max_days` a person counts on the first so many days, each
        `min_separation` after the one before.

        Parameters
        ----------
        units : (m,) array of int or str
            Whose row it is.
        counters : (m,) array of int or str
            Place or name of the counter; rows of unknown ones are left out.
        day, threads
            As for `release`.

        Returns
        -------
        (n,) ndarray of int64

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, FerroError, BudgetExceeded
            As for `release`; if no whole row fits into `l2_sensitivity`.

        Examples
        --------
        >>> import ferrodp as fd
        >>> counter = fd.Counter(noise_multiplier=0.125, days=10, max_days=1)
        >>> stream = counter.start(["home", "news"])
        >>> rows = ["ann", "ann", "bob"], ["home", "home", "home"]
        >>> len(stream.release_units(*rows)), stream.day
        (2, 1)
        """
        each = self._counter.max_counters
        if each < 1:
            raise InvalidParameter(
                f"l2_sensitivity must be at least 1 for rows that count 1 each, got {self._counter.l2_sensitivity}"
            )
        who, where = identified(units, self._salt), placed(counters, self._labels, self._num_counters)
        if who.shape != where.shape:
            raise InvalidArray(f"units and counters must have the same length, got {who.size} and {where.size}")
        count = self._num_counters
        return self._released(
            lambda number: self._limits.counted(who, where, number, each, count), day, _validate.threads(threads)
        )

    def _released(self, counted: Any, day: int | None, threads: int | None) -> Totals:
        if self._process != _fork.generation():
            raise FerroError(
                "a stream of counters cannot be used in a forked child: its noise would serve twice; open its file in "
                "one process"
            )
        wanted = None if day is None else _validate.count("day", day, minimum=0, maximum=self._counter.horizon - 1)
        if not self._lock.acquire(blocking=False):
            raise FerroError("a stream of counters releases one day at a time: another thread is at one")
        try:
            if wanted is not None and wanted == self._day - 1 and self._last is not None:
                return self._last
            if wanted is not None and wanted != self._day:
                raise InvalidParameter(f"day must be {self._day}, the next one, or the one before, got {wanted}")
            self._check_open()
            counts, limits = counted(self._day)
            return self._commit(counts, limits, threads)
        finally:
            self._lock.release()

    def _check_open(self) -> None:
        if self._is_broken:
            raise FerroError("this stream was closed, or broke off within a day: open its file again")
        if self._day >= self._counter.horizon:
            raise FerroError(
                f"this stream is over: it has released its {self._day} days; start another one, which costs as much "
                "again"
            )
        if self._ticket is not None:
            self._ticket.check_running()

    def _commit(self, counts: npt.NDArray[Any], limits: Limits, threads: int | None) -> Totals:
        most = _LARGEST_TOTAL // self._counter.horizon
        # Cut, so that no sum leaves 64 bits: that brings counts of neighbors no farther apart.
        # mutant: totals-of-counters-wrap-around
        totals = np.clip(counts, -most, most, out=self._spare, casting="unsafe")
        totals += self._totals
        self._is_broken = True  # until the day is whole
        if self._file is not None:
            nonce = self._file.commit(self._day, totals.data.cast("B"), limits.table.tobytes())
            self._claim(f"day {self._day}", nonce)
        self._totals, self._spare, self._limits = totals, self._totals, limits
        self._day += 1
        self._last = self._drawn(threads)
        self._is_broken = False
        return self._last

    def _drawn(self, threads: int | None) -> Totals:
        """Return the totals with the noise of their day."""
        noised = self._totals.copy()
        self._native.add_to_integers(noised, 0, threads)
        noised.flags.writeable = False  # it is also kept for a repeated call
        return noised

    def close(self) -> None:
        """End the stream in this process: its file may be opened again, by this one or another."""
        self._is_broken = True
        if self._file is not None:
            self._file.close()
        if self._ticket is not None and self._process == _fork.generation():
            self._ticket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<CounterStream: day {self._day} of {self._counter.horizon}, {self._num_counters} counters>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("a stream of counters")


def _path(file: Any) -> Any:
    if not isinstance(file, (str, os.PathLike)):
        raise InvalidType(f"file must be a path or None, got {type(file).__name__}")
    return file


def _labels(counters: object) -> tuple[tuple[str, ...] | None, int]:
    """Return the names of counters, or None, and how many there are."""
    if isinstance(counters, (int, np.integer)):
        return None, _validate.count("counters", counters, maximum=MOST_COUNTERS)
    if not isinstance(counters, (list, tuple)) or not all(isinstance(each, str) for each in counters):
        raise InvalidType(
            f"counters must be a number or a list of texts, got {type(counters).__name__}; for example "
            "counters=['home']"
        )
    if not counters or len(set(counters)) < len(counters):
        raise InvalidParameter("counters must be different texts, at least one")
    return tuple(counters), len(counters)


def _check_owner(file: object, ledger: object, scope: object, key: object) -> None:
    _validate.ledger_and_scope(ledger, scope)
    if file is not None:
        _path(file)
    if key is not None and (not isinstance(key, str) or not key):
        raise InvalidType(f"key must be a str that is not empty, or None, got {type(key).__name__}")
    if (file is not None or ledger is not None) != (key is not None):
        raise InvalidParameter(
            "key must name the stream where it has a file or a ledger, and only there; for example key='pages'"
        )


def _described(found: StreamFile) -> tuple[Counter, int | list[str], str, bool]:
    about = found.about
    return Counter.from_dict(about["counter"]), about["counters"], found.name, bool(about["charged"])


def _lost(name: str | None) -> FerroError:
    return FerroError(
        f"file must be the one of stream {name!r}, which was begun, and there is none of that name: its exact totals "
        "and its noise are lost with it; begin another stream under another key, which costs as much again"
    )
