"""Group commit: whoever comes while a transaction is being written rides in the next one.

Making a commit durable takes far longer than a reservation. One thread leads: it takes the queue, writes for all who
wait, wakes them and hands the lead to the first who came meanwhile. Nobody is acknowledged before the commit is on the
disk. There is no thread of our own, so nothing is lost in a fork and nothing runs at exit.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from ferrodp.budget import _points
from ferrodp.budget._store import Store, Transaction
from ferrodp.errors import FerroError, LedgerError

_Result = TypeVar("_Result")
_LARGEST_BATCH = 1000


class _Request:
    __slots__ = ("done", "error", "leads", "result", "woken", "work")

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work = work
        self.done = self.leads = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.woken = threading.Lock()
        self.woken.acquire()


class GroupCommit:
    """Runs pieces of work on a store, many in one transaction.

    A piece of work changes its transaction at its very end, or raises a `FerroError` and has changed nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._using = threading.Lock()
        self._mutex = threading.Lock()
        self._queue: collections.deque[_Request] = collections.deque()
        self._led = False

    def run(self, work: Callable[[Transaction], _Result]) -> _Result:
        """Return what `work` returns, as soon as its changes are durable.

        Raises
        ------
        LedgerError
            If the outcome is unknown: what was asked for may have happened.
        """
        request = _Request(work)
        with self._mutex:
            self._queue.append(request)
            if not self._led:
                self._led = request.leads = True
        try:
            if not request.leads:
                request.woken.acquire()
            if request.leads:
                self._lead()
        finally:
            self._leave(request)
        if request.error is not None:
            raise request.error
        return cast("_Result", request.result)

    @contextlib.contextmanager
    def excluded(self) -> Iterator[None]:
        """Keep the store for this thread."""
        with self._using:
            yield

    def _lead(self) -> None:
        with self._mutex:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
        try:
            with self._using, self._store.writing() as transaction:
                for request in batch:
                    try:
                        request.result = request.work(transaction)
                    except FerroError as error:
                        request.error = error
            _points.reached("after the commit")
        except BaseException as error:
            for request in batch:
                if request.error is None:  # each its own: a traceback belongs to one thread
                    request.error = _copied(error)
            if not isinstance(error, Exception):
                raise
        finally:
            for request in batch:
                request.done = True
                if not request.leads:
                    request.woken.release()

    def _leave(self, request: _Request) -> None:
        """Pass the lead on, also if this thread was interrupted while it waited or led."""
        with self._mutex:
            if not request.leads:
                if not request.done:  # interrupted: nobody waits for it any more
                    with contextlib.suppress(ValueError):
                        self._queue.remove(request)
                return
            if request in self._queue:
                self._queue.remove(request)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].woken.release()
            else:
                self._led = False


def _copied(error: BaseException) -> BaseException:
    if isinstance(error, FerroError):
        return type(error)(*error.args)
    copy = LedgerError("the ledger could not be written, or not for certain; what was asked for counts as spent")
    copy.__cause__ = error
    return copy
