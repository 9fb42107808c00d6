"""What errors of a PostgreSQL server mean for a ledger, by their SQLSTATE (PostgreSQL's manual, appendix A)."""

from __future__ import annotations

from typing import Any

from ferrodp.budget import records
from ferrodp.budget.stores.postgres.schema import MOVED, PENDING
from ferrodp.errors import LedgerDamaged, LedgerError, LedgerUnavailable

CONFLICTS = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the server asks to try again."""

_WAITED = "is busy: another writer, or the server, did not finish in time"
_MEANINGS = {
    "55P03": _WAITED,
    "57014": _WAITED,
    "40001": "is busy: it conflicts with other transactions again and again",
    "40P01": "is busy: it conflicts with other transactions again and again",
    MOVED: "was moved to another place: it takes no record any more; use the new one",
    PENDING: records.STILL_PENDING,
    "25006": "is read-only",
    "42501": "may not be made, used or changed like this by this role, see ferrodp.budget.grant",
    "53100": "has a server whose disk is full",
    "53200": "has a server without memory left",
    "25P03": "was given up by the server, because this process paused in the middle of a change",
    "25P04": "took the server too long",
}
_PASSING = frozenset({"55P03", "57014", "40001", "40P01", "53100", "53200", "25P03", "25P04"})
"""Errors after which the same call may succeed later."""
_DAMAGED = frozenset({"XX001", "XX002", "58P01", "42P01", "42703", "3F000"})


def meaning(error: Any, *, lost: bool) -> tuple[str, type[LedgerError]]:
    """Return what a ledger failed of before a commit was sent; one that is damaged shall not be used any more."""
    state = error.sqlstate
    if state in _DAMAGED:
        return "is damaged, or was removed while it was open; restore it from a copy", LedgerDamaged
    if state in _MEANINGS:
        return f"{_MEANINGS[state]}; nothing was charged", LedgerUnavailable if state in _PASSING else LedgerError
    if lost:
        return "was cut off: the connection to the server was lost; nothing was charged", LedgerUnavailable
    said = error.diag.message_primary or "no reason was given"
    return f"failed ({state or type(error).__name__}: {said[:200]}); nothing was charged", LedgerError
