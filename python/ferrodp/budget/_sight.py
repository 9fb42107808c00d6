"""Whether scopes are frozen, for releases that were paid for before: a drawn-down lease, the rest of a composed ticket.

These write nothing, so no transaction of theirs could find out. They look instead, but not each time: what was seen
less than `FRESHNESS` ago still counts. A look that began after a freeze had been committed sees it. So a release that
begins at time t relies on a look that began after t − `FRESHNESS`, and none begins later than `FRESHNESS` after
`PrivacyLedger.freeze` returned, in any process. Within one process `freeze` makes all looks out of date: there none
begins after it returned. Where nobody can look, as the ledger is closed or out of reach, nothing begins either.

Time is that of the monotonic clock: what a machine sleeps does not count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FRESHNESS = 0.05
"""Seconds for which a look counts."""
_NEVER = float("-inf")


class _Changes:
    """How often a scope was frozen or thawed by this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_changes = _Changes()


def out_of_date() -> None:
    """Let the next release look again. Called when a scope was frozen or thawed here."""
    _changes.count += 1


class Sight:
    """What is known of the scopes that something was charged to. `look` raises if one of them is frozen."""

    __slots__ = ("_began", "_changes", "_lock", "_look")

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._began = _NEVER
        self._changes = 0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Return if a release may begin now, by a look that is recent enough; else raise what `look` raises."""
        if self._changes != _changes.count or time.monotonic() - self._began >= FRESHNESS:
            with self._lock:
                if self._changes != _changes.count or time.monotonic() - self._began >= FRESHNESS:
                    self._refresh()

    def _refresh(self) -> None:
        changes, began = (
            _changes.count,
            time.monotonic(),
        )  # before the look: what happens meanwhile was perhaps not seen
        self._look()
        self._began = began
        self._changes = changes
