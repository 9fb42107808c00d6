"""The address of a ledger on PostgreSQL, how to connect to it, and how its password is kept out of messages."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from ferrodp.errors import InvalidParameter, LedgerUnavailable, MissingPackage

_SECRET = ("password", "sslpassword", "passfile", "oauth_client_secret")
_DEFAULTS = {
    "fallback_application_name": "ferrodp",
    # A peer that vanished without a word is noticed within half a minute, not after two hours.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_PAUSES = 0.05, 1.0
"""Seconds: the first and the longest pause between two attempts to connect."""

SCHEMES = ("postgresql://", "postgres://")
"""What the address of a server begins with."""


def driver() -> Any:
    """Return psycopg, which is needed for this alone."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingPackage('a ledger on PostgreSQL needs psycopg: pip install "ferrodp[postgres]"') from error
    return psycopg


class Address:
    """An address with its password, which no message, representation or copy of this shows.

    Parameters
    ----------
    text : str
        A URL as libpq takes it (PostgreSQL's manual, 34.1.1).
    timeout : float
        For how many seconds one attempt to connect may last, at least 2 and at most 30.
    """

    __slots__ = ("_driver", "_parameters", "name")

    def __init__(self, text: str, *, timeout: float) -> None:
        self._driver = driver()
        authority = text.partition("://")[2].partition("?")[0].partition("/")[0]
        # Else a part of a password could be taken for a host or a database, and be named in a message.
        if text.count("@") > ("@" in authority):
            raise InvalidParameter("where must have each @, / and ? of a name or password percent-encoded")
        given: dict[str, Any]
        try:
            given = self._driver.conninfo.conninfo_to_dict(text)
        except (self._driver.Error, ValueError):
            raise InvalidParameter("where must be a URL as libpq takes it; what is wrong may be secret") from None
        self._parameters = {
            "connect_timeout": str(min(30, max(2, math.ceil(timeout)))),
            **_DEFAULTS,
            **given,
            "client_encoding": "utf8",
        }
        host = given.get("host") or given.get("hostaddr") or "the default host"
        port = f":{given['port']}" if "port" in given else ""
        self.name = f"ledger on PostgreSQL (database {given.get('dbname', '')!r} at {host}{port})"

    def connect(self, deadline: float, *, patient: bool) -> Any:
        """Return a connection in which every transaction begins and ends by a statement of ours.

        The `patient` wait until `deadline`, whatever is wrong: a server is restarted, a standby takes over. Others wait
        only for a server that is starting. No statement is prepared on the server: behind a pooler, the next
        transaction may meet another of its processes.
        """
        pause, longest = _PAUSES
        while True:
            try:
                return self._driver.connect(**self._parameters, autocommit=True, prepare_threshold=None)
            except (self._driver.Error, UnicodeError) as error:
                if time.monotonic() + pause > deadline or not (patient or self._starting()):
                    raise LedgerUnavailable(
                        f"{self.name} cannot be reached: {self._said(error)}; nothing was charged"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def _starting(self) -> bool:
        """Ask the server, without a password, whether it is there and takes no connections yet."""
        conninfo = self._driver.conninfo.make_conninfo(**self._parameters)
        return bool(self._driver.pq.PGconn.ping(conninfo.encode()) == self._driver.pq.Ping.REJECT)

    def _said(self, error: Exception) -> str:
        """Return what a failed attempt says, unless it quotes a secret."""
        secrets = [str(self._parameters[key]) for key in _SECRET if key in self._parameters]
        secrets += [os.environ[key] for key in ("PGPASSWORD", "PGPASSFILE") if os.environ.get(key)]
        text = " ".join(str(error).split())
        return "the reason quotes a secret" if any(secret in text for secret in secrets) else text[:500]

    def __repr__(self) -> str:
        return f"<Address of {self.name}>"
