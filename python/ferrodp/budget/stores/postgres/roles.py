"""The rights of roles of a PostgreSQL server: reading a ledger, spending from it, or setting its budgets.

The server enforces them: a process that connects as a role with the rights to spend can reserve, arm, finish and
cancel, whatever its code does. It cannot create a scope, change a budget, or freeze or thaw one, because it may not
write the columns that hold these. A role that may write rows can still write wrong ones; verification compares them
with the log.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Literal

from ferrodp._base import _validate
from ferrodp.budget import records
from ferrodp.budget.stores.postgres.address import SCHEMES, Address, driver
from ferrodp.budget.stores.rows import CHARGED, FIELDS, MOVED
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError

Rights = Literal["reader", "spender", "operator"]

_ALL = ", ".join(FIELDS["scopes"])
_READING = ("GRANT USAGE ON SCHEMA ferrodp", "GRANT SELECT ON ALL TABLES IN SCHEMA ferrodp")
_SPENDING = (
    *_READING,
    "GRANT UPDATE (sequence, hash) ON ferrodp.head",
    "GRANT INSERT ON ferrodp.log, ferrodp.tickets, ferrodp.states",
    f"GRANT UPDATE ({', '.join(MOVED)}) ON ferrodp.tickets",
    f"GRANT UPDATE ({', '.join(CHARGED)}) ON ferrodp.scopes",
)
_RIGHTS: dict[str, tuple[str, ...]] = {
    "reader": _READING,
    "spender": _SPENDING,
    "operator": (*_SPENDING, "GRANT INSERT ON ferrodp.scopes", f"GRANT UPDATE ({_ALL}) ON ferrodp.scopes"),
}
_REVOKED = ("REVOKE ALL ON ALL TABLES IN SCHEMA ferrodp", "REVOKE ALL ON SCHEMA ferrodp")
_FOREIGN = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'ferrodp' "
    "AND NOT (pg_has_role(n.nspowner, 'USAGE') AND pg_has_role(c.relowner, 'USAGE'))"
)
"""Asks for what the caller does not own: there a GRANT would do nothing, with a warning at most."""
_OWNED = (
    "SELECT count(*) FROM pg_namespace n WHERE n.nspname = 'ferrodp' AND (pg_has_role(%s, n.nspowner, 'MEMBER') OR "
    "EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND pg_has_role(%s, c.relowner, 'MEMBER')))"
)


def grant(address: str, role: str, rights: Rights, *, timeout: float = 60.0) -> None:
    """Let a role of the server read a ledger, spend from it, or operate it; its earlier rights are revoked.

    Call this as the owner of the ledger's tables, and let the processes that spend connect as another role, which is
    neither a superuser nor a member of the owner's role.

    Parameters
    ----------
    address : str
        The ledger, ``postgresql://…``, as its owner connects to it.
    role : str
        A role that the server knows. Letter case counts.
    rights : {"reader", "spender", "operator"}
        "reader" sees everything and changes nothing; "spender" also reserves, arms, finishes and cancels; "operator"
        also creates scopes, changes budgets, freezes and thaws.
    timeout : float
        Seconds to wait for others.

    Raises
    ------
    LedgerError
        If there is no ledger or no such role, the caller may not do that, or no rights bind the role, because it is a
        superuser or owns the tables.
    InvalidParameter, InvalidType
        If an argument is not one of these; a ledger in a file has no roles.

    Examples
    --------
    >>> import ferrodp as fd
    >>> fd.budget.grant("budget.db", "trainer", "spender")
    Traceback (most recent call last):
        ...
    ferrodp.errors.InvalidParameter: address must be a str that begins with postgresql://; a file has no roles
    """
    if not isinstance(role, str):
        raise InvalidType(f"role must be a str, got {type(role).__name__}")
    if rights not in _RIGHTS:
        raise _validate.out_of_domain("rights", "one of " + ", ".join(map(repr, _RIGHTS)), rights)
    seconds = _validate.positive("timeout", timeout)
    if not isinstance(address, str) or not address.startswith(SCHEMES):
        raise InvalidParameter("address must be a str that begins with postgresql://; a file has no roles")
    found = driver()
    place = Address(address, timeout=seconds)
    connection = place.connect(time.monotonic() + seconds, patient=False)
    try:
        with contextlib.closing(connection), connection.transaction():
            _change(connection, found, place.name, role, rights)
    except found.Error as error:
        said = error.diag.message_primary or type(error).__name__
        raise LedgerError(f"{place.name}: the rights of role {role!r} could not be changed: {said[:200]}") from error


def _change(connection: Any, found: Any, name: str, role: str, rights: str) -> None:
    about = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    if about is None:
        raise LedgerError(f"{name}: the server has no role {role!r}; create it first")
    if connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'ferrodp'").fetchone() != (1,):
        raise records.not_there(name)
    if about[0] or connection.execute(_OWNED, (role, role)).fetchone() != (0,):
        raise LedgerError(f"{name}: role {role!r} is a superuser or owns the ledger, so no rights bind it; use another")
    if connection.execute(_FOREIGN).fetchone() != (0,):
        raise LedgerError(f"{name}: only the owner of its tables may change the rights of roles")
    identifier = found.sql.Identifier(role)
    for statement in (*(f"{each} FROM {{}}" for each in _REVOKED), *(f"{each} TO {{}}" for each in _RIGHTS[rights])):
        connection.execute(found.sql.SQL(statement).format(identifier))
