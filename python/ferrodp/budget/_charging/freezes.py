"""Whether scopes are frozen, asked by releases paid for earlier: draws of a lease, parts of a composed ticket.

Such releases write nothing, so no transaction of theirs would notice a freeze. They check instead, and a check counts
for `FRESHNESS` seconds from its beginning. A check that began after a freeze was committed sees it. A release that
begins at time t relies on a check that began after t − `FRESHNESS`; so none begins later than `FRESHNESS` after
`PrivacyLedger.freeze` returned, in any process. Within one process `freeze` invalidates all checks, so that no release
begins after it returned. Where no check is possible, because the ledger is closed or cannot be reached, no release
begins.

Time is that of the monotonic clock: the time that a machine sleeps does not count.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

from ferrodp.budget._charging import rules as _rules
from ferrodp.budget._charging.access import Access

FRESHNESS = 0.05
"""Seconds for which a check counts."""
_MAX_KNOWN = 4096
_NEVER = float("-inf")


class _Changes:
    """How often a scope was frozen or thawed by this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_changes = _Changes()


def invalidate() -> None:
    """Let the next release check again. Called when a scope was frozen or thawed here."""
    _changes.count += 1


class FreezeCheck:
    """The last check of the scopes that something was charged to. `look` raises if one of them is frozen."""

    __slots__ = ("_began", "_changes", "_lock", "_look")

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._began = _NEVER
        self._changes = 0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Return if a release may begin now, by a check that is recent enough; else raise what `look` raises."""
        if self._changes != _changes.count or time.monotonic() - self._began >= FRESHNESS:
            with self._lock:
                if self._changes != _changes.count or time.monotonic() - self._began >= FRESHNESS:
                    self._refresh()

    def _refresh(self) -> None:
        changes, began = _changes.count, time.monotonic()  # first: `look` may miss what happens while it runs
        self._look()
        # mutant: look-counts-from-end
        self._began = began
        self._changes = changes


class FreezeChecks:
    """The checks of one ledger, by the scopes that were charged."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[tuple[str, ...], FreezeCheck] = {}

    def of(self, names: tuple[str, ...]) -> FreezeCheck:
        """Return the check of these scopes and those around them."""
        found = self._known.get(names)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known.setdefault(names, FreezeCheck(functools.partial(self._look, names)))
        return found

    def _look(self, names: tuple[str, ...]) -> None:
        with self._access.reading() as transaction:
            _rules.refuse_frozen(transaction, names)
