"""How a command ends: one exit code for each kind of failure, with its name in JSON and what to do about it."""

from __future__ import annotations

import os
from typing import NamedTuple

from ferrodp.errors import FerroError


class Exit(NamedTuple):
    """A way to end.

    Parameters
    ----------
    status : int
        What the shell sees.
    meaning : str
        What happened, for tables.
    remedy : str
        What to do about it.
    """

    status: int
    meaning: str
    remedy: str


INTERNAL, MISUSED, INTERRUPTED, UNREAD, SYSTEM, MEMORY = (
    *("internal", "usage", "interrupted", "unread", "system", "out-of-memory"),
)
TRACEBACK = "FERRODP_TRACEBACK"
"""Environment variable: anything but empty lets unexpected exceptions through, for a report of the defect."""

EXITS: dict[str, Exit] = {
    "failed": Exit(1, "failed for a reason without a code of its own", "read the message"),
    INTERNAL: Exit(
        1, "an error that nobody foresaw", f"run it again with {TRACEBACK}=1 and report what is printed then"
    ),
    MISUSED: Exit(2, "the command line cannot be understood", "see --help of the command"),
    "key-used": Exit(
        3,
        "the release that a key names has begun before",
        "name another release by another key; repeat this one with --again-ok only if it was not published",
    ),
    "invalid-parameter": Exit(4, "a value outside its domain", "give a value that the message allows"),
    "invalid-array": Exit(4, "arrays of another shape or type than is accepted", "give arrays as the message says"),
    "budget-exceeded": Exit(
        5,
        "the budget does not allow it",
        "add noise or release less; 'ferrodp ledger status' says what still fits, 'raise-cap' allows more",
    ),
    "scope-frozen": Exit(6, "the scope is frozen", "ask who froze it ('ferrodp ledger history'); 'thaw' ends it"),
    "unknown-scope": Exit(7, "the ledger has no such scope", "use a scope that the message lists, or create it"),
    "ledger-not-found": Exit(8, "there is no ledger", "check the path, or begin one with 'ferrodp ledger create'"),
    "ledger-damaged": Exit(
        9,
        "the ledger is damaged, was changed, or is none",
        "stop releasing, and restore a backup with 'ferrodp ledger import'",
    ),
    "ledger-unavailable": Exit(
        10, "the ledger does not answer now: server down, busy, disk full", "try again later; a key makes that safe"
    ),
    "ledger-refused": Exit(11, "the ledger cannot be used like this, or from here", "do what the message says"),
    "ticket-refused": Exit(12, "a ticket or key cannot be used for this", "see 'ferrodp ledger tickets'"),
    "unsupported-event": Exit(
        13, "no proven bound for this event here", "choose another --accountant, or a scope of another --measure"
    ),
    "out-of-reach": Exit(14, "no value in the supported range reaches the target", "ask for less"),
    "file-refused": Exit(15, "a file cannot be read or written, or does not hold what it must", "correct the file"),
    SYSTEM: Exit(15, "the operating system refused", "read the message"),
    "missing-package": Exit(16, "an optional package is not installed", "install what the message names"),
    "no-entropy": Exit(17, "the operating system gave no random bytes", "repair the system; nothing was released"),
    MEMORY: Exit(18, "not enough memory", "use a machine with more, or smaller inputs"),
    INTERRUPTED: Exit(130, "interrupted", "run it again"),
    UNREAD: Exit(141, "nobody reads the output", "leave the reader open"),
}
"""By the code of the error, as it is in JSON and as `ferrodp.errors.FerroError.code` has it."""


def code_of(error: BaseException) -> str:
    """Return the code of an exception."""
    if isinstance(error, FerroError):
        return error.code
    return MEMORY if isinstance(error, MemoryError) else SYSTEM if isinstance(error, OSError) else INTERNAL


def told(error: BaseException) -> str:
    """Return the message of an exception that a user can do something about."""
    if isinstance(error, FerroError):
        return str(error)
    if isinstance(error, MemoryError):
        return str(error) or "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename else error.strerror
    # Neither message nor trace: an exception that nobody foresaw could quote data.
    return f"internal error ({type(error).__name__}); {TRACEBACK}=1 shows where"


def as_json(code: str, message: str) -> dict[str, object]:
    """Return what `--json` prints of a failure."""
    return {"error": {"code": code, "message": message, "remedy": EXITS[code].remedy}}


def table() -> str:
    """Return the exit codes as `--help` shows them."""
    meanings: dict[int, list[str]] = {0: ["done"]}
    for each in EXITS.values():
        meanings.setdefault(each.status, []).append(each.meaning)
    lines = []
    for status, texts in meanings.items():
        lines += [f"  {status if not place else '':>3}  {text}" for place, text in enumerate(texts)]
    return "exit codes:\n" + "\n".join(lines) + "\n"
