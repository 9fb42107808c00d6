"""A ledger on a PostgreSQL server, for many machines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ferrodp.budget import _records
from ferrodp.budget._store import TABLES, Store, Transaction
from ferrodp.errors import LedgerError, MissingPackage

_SCHEMA = "ferrodp"


class PostgresStore(Store):
    """A ledger in the schema `ferrodp` of a database."""

    def __init__(self, address: str, *, create: bool, timeout: float) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MissingPackage('a ledger on PostgreSQL needs psycopg: pip install "ferrodp[postgres]"') from error
        self._driver: Any = psycopg
        self._dead: str | None = None
        try:
            self._connection = psycopg.connect(address, autocommit=True, prepare_threshold=None)
            self._prepare(create, timeout)
        except psycopg.Error as error:
            raise self._failed(error) from error
        self._process = os.getpid()

    @property
    def name(self) -> str:
        """What messages call this ledger."""
        return "ledger on PostgreSQL"

    def _prepare(self, create: bool, timeout: float) -> None:
        run = self._connection.execute
        run(f"SET lock_timeout = {int(timeout * 1000)}")
        for setting in ("synchronous_commit", "fsync"):
            found = run(f"SHOW {setting}").fetchone()
            if found is None or found[0] == "off":
                raise LedgerError(f"{self.name} would lose what it commits: {setting} is off")
        with self._connection.transaction():
            run("SELECT pg_advisory_xact_lock(1179996754)")
            if run("SELECT to_regclass('ferrodp.head')").fetchone() == (None,):
                if not create:
                    raise LedgerError(f"{self.name} does not exist")
                run(f"CREATE SCHEMA {_SCHEMA}")
                run(f"SET LOCAL search_path TO {_SCHEMA}")
                for statement in TABLES:
                    run(statement)
                run("INSERT INTO head VALUES (1, 0, %s)", (_records.START,))

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open the one writing transaction; see `Store`."""
        with self._transaction("FOR UPDATE") as transaction:
            yield transaction
            transaction.write()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a reading transaction; see `Store`."""
        with self._transaction("FOR SHARE") as transaction:
            yield transaction

    @contextlib.contextmanager
    def _transaction(self, lock: str) -> Iterator[Transaction]:
        if self._dead is not None:
            raise LedgerError(self._dead)
        try:
            with self._connection.transaction():
                self.execute(f"SET LOCAL search_path TO {_SCHEMA}")
                self.execute(f"SELECT 1 FROM head {lock}")
                yield Transaction(self)
        except self._driver.Error as error:
            raise self._failed(error) from error

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement; see `Store`."""
        return self._connection.execute(sql.replace("?", "%s"), parameters or None)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    def close(self) -> None:
        """Give the connection back."""
        if self._dead is None:
            self._dead = f"{self.name} is closed"
            self._connection.close()

    def _failed(self, error: Exception) -> LedgerError:
        if not getattr(self, "_connection", None) or self._connection.closed:
            self._dead = f"{self.name}: the connection is gone ({type(error).__name__}); open it again"
            return LedgerError(self._dead)
        return LedgerError(f"{self.name}: {type(error).__name__}; nothing was charged, or it counts as spent")
