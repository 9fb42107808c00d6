"""Opens the store at an address: a file, or a server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ferrodp.budget.author import author
from ferrodp.budget.stores.postgres.address import SCHEMES
from ferrodp.errors import InvalidParameter

if TYPE_CHECKING:
    from ferrodp.budget.stores.base import Store

_LIKE_A_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def opened_store(
    where: Any,
    *,
    create: bool,
    timeout: float,
    read_only: bool = False,
    start: str | None = None,
    receives: str | None = None,
    program: str | None = None,
    **of_files: Any,
) -> Store:
    """Open the store at an address; `of_files` are settings that only a file has; `program` is for `author`.

    Raises
    ------
    LedgerError
        If it cannot be opened or made.
    InvalidParameter
        If `where` is a URL that is not taken. What is wrong with it is not shown: it may hold a password.
    """
    writer = author(program)
    settings: dict[str, Any] = {"create": create, "timeout": timeout, "read_only": read_only}
    settings |= {"start": start, "receives": receives}
    store: Store
    if isinstance(where, str) and where.startswith(SCHEMES):
        from ferrodp.budget.stores.postgres.store import PostgresStore  # a database driver: not needed for a file

        store = PostgresStore(where, **settings)
    elif _LIKE_A_URL.match(str(where)):
        raise InvalidParameter(
            "where must be a file, or a str that begins with postgresql://, got another address; for example "
            "where='budget.db' or where='postgresql://server/budgets'"
        )
    else:
        from ferrodp.budget.stores.sqlite.store import SqliteStore

        store = SqliteStore(where, **settings, **of_files)
    store.author = writer
    return store
