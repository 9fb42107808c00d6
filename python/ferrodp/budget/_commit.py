"""Group commit: requests that arrive while a transaction is being written are written together in the next one.

Making a commit durable takes far longer than a reservation. A thread that finds no leader leads: it takes the queue,
writes for all who wait, and wakes the first that arrived in between. No request is acknowledged before its commit is on
the disk. There is no background thread, so nothing is lost in a fork and nothing runs at exit.

A thread may be interrupted (Ctrl-C) anywhere. So leadership is only a hint, dropped after a moment without news; what
keeps two threads from writing is a lock, which is released whatever happens. No thread waits for that lock in order to
lead, because it would delay the leader's successor.

A thread that was served wakes the next one of its batch as it leaves. If all were woken at once, they would compete for
the interpreter's lock, and hundreds of threads would spend more time on that than on the disk.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from ferrodp.budget import _crash_points
from ferrodp.budget.stores.base import Store, Transaction
from ferrodp.budget.stores.rows import Slot
from ferrodp.errors import FerroError, LedgerError

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)
_LARGEST_BATCH = 1000
_PATIENCE = 0.5
"""Seconds after which a waiting thread checks for itself whether the store is free."""
_UNKNOWN = "the ledger could not be written, or not for certain; what was asked for counts as spent"


class _Request:
    __slots__ = ("done", "error", "following", "key", "result", "ticket", "woken", "work")

    def __init__(self, work: Callable[[Transaction], Any], key: Slot | None, ticket: str | None) -> None:
        self.work, self.key, self.ticket = work, key, ticket
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.following: _Request | None = None
        self.woken = threading.Lock()
        self.woken.acquire()


class GroupCommit:
    """Runs pieces of work on a store, many in one transaction.

    A piece of work changes its transaction at its very end, or raises a `FerroError` and has changed nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._using = threading.RLock()  # an interrupted thread holds it until its traceback is gone
        self._queue: collections.deque[_Request] = collections.deque()
        self._leader: dict[int, _Request] = {}

    def run(
        self, work: Callable[[Transaction], _Result], *, key: Slot | None = None, ticket: str | None = None
    ) -> _Result:
        """Return what `work` returns, as soon as its changes are durable.

        `key` and `ticket` name what it will look up: the rows of a whole batch are read together.

        Raises
        ------
        LedgerError
            If the outcome is unknown: what was requested may have happened.
        """
        request = _Request(work, key, ticket)
        try:
            self._queue.append(request)
            while not request.done:
                if self._leader.setdefault(0, request) is request:
                    with self._using:
                        if not request.done:
                            self._lead(request)
                    # mutant: who-interrupted-stays-in-queue-without-lead
                elif not request.woken.acquire(timeout=_PATIENCE):
                    self._leader.clear()  # it may have been interrupted before it could resign
        finally:
            if not request.done:  # interrupted while it waited: the request is void
                with contextlib.suppress(ValueError):
                    self._queue.remove(request)
            if self._leader.get(0) is request:
                self._leader.clear()
            if self._queue:
                self._pass_on()
            if request.following is not None:
                _wake(request.following)
        # mutant: refusal-of-ledger-swallowed
        if request.error is not None:
            raise request.error
        return cast("_Result", request.result)

    @contextlib.contextmanager
    def excluded(self) -> Iterator[None]:
        """Keep the store for this thread."""
        try:
            with self._using:
                yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Wake the first thread that waits, if none leads."""
        if self._queue and not self._leader:
            with contextlib.suppress(IndexError):  # it went
                _wake(self._queue[0])

    def _lead(self, own: _Request) -> None:
        """Serve the own request and those in the queue. One that an interrupted leader left out serves itself."""
        batch = [own]
        try:
            with self._store.writing() as transaction:
                self._take(batch)
                if len(batch) > 1:
                    transaction.look_up([request.key for request in batch], [request.ticket for request in batch])
                for request in batch:
                    try:
                        request.result = request.work(transaction)
                    except FerroError as error:
                        request.error = error
            _crash_points.reached("after the commit")
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s: a commit, with %d of those who waited", self._store.name, len(batch))
        except Exception as error:
            self._take(batch)  # a disk that fails this thread fails those that wait, too
            for request in batch:
                if request.error is None:  # each its own: a traceback belongs to one thread
                    request.error = _copied(error)
        except BaseException:  # Ctrl-C; without its traceback, whose frames hold locks until it is gone
            for request in batch[1:]:
                request.error = request.error or LedgerError(_UNKNOWN)
            raise
        finally:
            for request, following in itertools.pairwise(batch):
                request.following = following
            for request in batch:
                request.done = True

    def _take(self, batch: list[_Request]) -> None:
        while self._queue and len(batch) < _LARGEST_BATCH:
            try:
                request = self._queue.popleft()
            except IndexError:  # an interrupted thread took its request back
                return
            if request is not batch[0]:
                batch.append(request)


def _wake(request: _Request) -> None:
    with contextlib.suppress(RuntimeError):  # it is awake already
        request.woken.release()


def _copied(error: BaseException) -> BaseException:
    if isinstance(error, FerroError):
        return type(error)(*error.args)
    copy = LedgerError(_UNKNOWN)
    copy.__cause__ = error
    return copy
