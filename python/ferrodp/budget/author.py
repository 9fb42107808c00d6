"""Who wrote a record: the user, host, process and program, for operators who read the log.

The first record of a handle says it: ``"who":{"host":…}``. Later ones of the handle name that record by its number:
``"who":12``. `PrivacyLedger.history` puts in their place what it says. Nothing depends on it, since a process may call
itself anything. Left out where the program's name is empty.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import PurePath

from ferrodp.budget import _names, records
from ferrodp.budget.records import Encoded

VARIABLE = "FERRODP_PROGRAM"
"""Environment variable: what this program is called in records; empty for records that do not say who wrote them."""
_FIELDS = {"host": str, "pid": int, "program": str, "user": str}
_LONGEST = 100


def author(program: object) -> Encoded | None:
    """Return who writes, as JSON; None if that shall be left out. `program` is what `PrivacyLedger.open` was told."""
    name = os.environ.get(VARIABLE) if program is None else program
    if name == "":
        return None
    name = _program() if name is None else _names.program(name)
    found = {"host": socket.gethostname(), "pid": os.getpid(), "program": name, "user": _user()}
    return records.plain({key: value[:_LONGEST] if isinstance(value, str) else value for key, value in found.items()})


def is_author(value: object) -> bool:
    """Whether JSON data says who wrote a record."""
    return isinstance(value, dict) and {name: type(each) for name, each in value.items()} == _FIELDS


def _program() -> str:
    path = PurePath(sys.argv[0] if sys.argv and sys.argv[0] else "python")
    return path.parent.name if path.name == "__main__.py" and path.parent.name else path.name


def _user() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):  # no such table here, or no such user in it
        return str(os.geteuid()) if hasattr(os, "geteuid") else os.environ.get("USERNAME", "unknown")
