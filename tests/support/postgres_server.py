"""A PostgreSQL server of the tests' own: made in a new folder, reached by a socket in it, stopped with the tests.

Its programs are those of Debian's packages, or the folder that ``POSTGRESQL_BIN`` names. They refuse to run as root, so
root lets the user ``postgres`` run them, which the packages make.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from ferrodp.budget import PrivacyLedger

_ROOM = 2**30
_ROLES = "local all locked_out scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
_TABLES = "about", "head", "log", "scopes", "tickets"


def programs() -> Path | None:
    """Where the server's programs are, newest version first, or None."""
    named = os.environ.get("POSTGRESQL_BIN")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    for folder in [Path(named)] if named else found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


class Server:
    """A server that can be killed and started again.

    Durable as it is by default: a ledger refuses anything less. By default its folder is in memory where there is room,
    for a server that starts after a crash first synchronises every file it has.
    """

    def __init__(self, parent: Path | None = None) -> None:
        folder = programs()
        if folder is None:
            raise FileNotFoundError("PostgreSQL is not installed")
        self._programs = folder
        self.folder = Path(tempfile.mkdtemp(prefix="ferrodp-pg-", dir=parent or _in_memory()))
        self._as_user = ["setpriv", "--pdeathsig", "QUIT"]
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as_user += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self._data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        command = [
            "initdb",
            "--no-sync",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--wal-segsize=1",
        ]
        self._run(*command, "-D", str(self._data))
        (self._data / "pg_hba.conf").write_text(_ROLES)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._programs / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def url(self, database: str = "postgres", *, user: str = "postgres", settings: dict[str, str] | None = None) -> str:
        """Return the address of a database, for sessions with these settings."""
        options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in (settings or {}).items())
        query = {"host": str(self.folder), **({"options": options} if options else {})}
        return f"postgresql://{user}@/{database}?{urlencode(query, quote_via=quote)}"

    def dumped(self, database: str, schema: str) -> Path:
        """Return a file with a dump of one schema of a database."""
        file = self.folder / "dump.sql"
        self._run("pg_dump", f"--schema={schema}", f"--file={file}", self.url(database))
        return file

    def restored(self, database: str, dump: Path) -> None:
        """Make again what is in a dump."""
        self._run("psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}", self.url(database))

    def start(self, *, hot_standby: bool = True) -> None:
        """Start, and return when connections are taken, or for sure refused by a replica that is no `hot_standby`.

        The server ends with the thread that starts it.
        """
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "max_connections": "60"}
        settings["hot_standby"] = "on" if hot_standby else "off"
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [*self._as_user, str(self._programs / "postgres"), "-D", str(self._data), *arguments]
        for _ in range(50):  # after a kill, an old backend may hold the shared memory for a moment
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
                )
            if self._reaches("OK" if hot_standby else "REJECT"):
                return
            time.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def _reaches(self, state: str) -> bool:
        import psycopg

        assert self._process is not None
        while self._process.poll() is None:
            if psycopg.pq.PGconn.ping(self.url().encode()) == psycopg.pq.Ping[state]:
                return True
            time.sleep(0.05)
        return False

    def sql(self, text: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements as the superuser, several as one transaction."""
        import psycopg

        always = {"default_transaction_read_only": "off"}
        with psycopg.connect(self.url(database, settings=always), autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    def configure(self, setting: str, value: str | None) -> None:
        """Change a setting of the running server, or take it back, and return when it is so for new sessions."""
        self.sql(f"ALTER SYSTEM SET {setting} = {value}" if value is not None else f"ALTER SYSTEM RESET {setting}")
        loaded = self.sql("SELECT pg_conf_load_time()")
        self.sql("SELECT pg_reload_conf()")
        while self.sql("SELECT pg_conf_load_time()") == loaded:
            time.sleep(0.01)

    def terminate(self, ledger: PrivacyLedger) -> None:
        """End the session of a ledger, and return when it has ended."""
        process = ledger._access.store._session.connection.info.backend_pid  # type: ignore[attr-defined]
        self.sql(f"SELECT pg_terminate_backend({process}, 10000)")

    def tables(self) -> dict[str, list[tuple[object, ...]]]:
        """Return all that a ledger consists of."""
        return {table: self.sql(f"SELECT * FROM ferrodp.{table}") for table in _TABLES}

    def put_back(self, tables: dict[str, list[tuple[object, ...]]]) -> None:
        """Make a ledger what it was before, as who restores a backup does."""
        import psycopg

        with psycopg.connect(self.url()) as connection:
            connection.execute("ALTER TABLE ferrodp.log DISABLE TRIGGER ALL")
            for table, rows in tables.items():
                connection.execute(f"DELETE FROM ferrodp.{table}")
                places = ", ".join(["%s"] * len(rows[0])) if rows else ""
                for row in rows:
                    connection.execute(f"INSERT INTO ferrodp.{table} VALUES ({places})", row)
            connection.execute("ALTER TABLE ferrodp.log ENABLE ALWAYS TRIGGER log_is_append_only")

    @contextlib.contextmanager
    def replica(self, *, hot_standby: bool = True, follows: bool = True) -> Iterator[Server]:
        """A second server, a copy of this one that `follows` it or stays as it is."""
        other = Server.__new__(Server)
        other._programs, other._as_user, other._process = self._programs, self._as_user, None
        other.folder = Path(tempfile.mkdtemp(prefix="ferrodp-pg-", dir=self.folder))
        owner = self.folder.stat()
        os.chown(other.folder, owner.st_uid, owner.st_gid)
        other._data = other.folder / "data"
        try:
            copy = ["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "-U", "postgres", "-h", str(self.folder)]
            self._run("pg_basebackup", *copy, "-D", str(other._data))
            if not follows:
                (other._data / "postgresql.auto.conf").write_text("")
            other.start(hot_standby=hot_standby)
            yield other
        finally:
            other.stop()

    def promote(self) -> None:
        """Let a replica take over."""
        self._run("pg_ctl", "promote", "-D", str(self._data))

    def kill(self) -> None:
        """Let all its processes die at once, as in a crash."""
        assert self._process is not None
        family = [self._process.pid, *_children(self._process.pid)]
        for process in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Stop, and remove the folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _in_memory() -> Path | None:
    memory = Path("/dev/shm")
    try:
        return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= _ROOM else None
    except OSError:
        return None


def _children(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(status.parent.name))
    return found
