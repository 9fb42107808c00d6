"""Processes that use one ledger while somebody moves, covers, cuts or copies its files.

Whatever is done, two things hold: no more is armed than the cap, and what was acknowledged is shown by the next open,
or that open says that something is missing.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
from pathlib import Path

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget.stores.sqlite import store as sqlite
from ferrodp.errors import FerroError

TENTH = LaplaceEvent(noise_multiplier=10.0)
CAP = 10
LIBC = ctypes.CDLL(None, use_errno=True)
assert sqlite  # imported here, as there is no library in a chroot
_NEW_MOUNTS, _PRIVATE, _RECURSIVE, _BIND = 0x20000, 1 << 18, 1 << 14, 1 << 12
_EXCHANGE, _HERE = 2, -100


class Party:
    """A process of its own that opens a ledger and arms what it gets."""

    def __init__(self, prelude=None):
        self.armed = 0
        commands, self._send = os.pipe()
        self._answers, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._send)
            os.close(self._answers)
            _serve(commands, answer, prelude)
        os.close(commands)
        os.close(answer)

    def ask(self, *command):
        """Return the answer, or None of a process that is dead."""
        return self.answer() if self.tell(*command) else None

    def tell(self, *command):
        """Send a command, and return whether there is a process that will answer."""
        try:
            os.write(self._send, json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            return False
        return True

    def answer(self):
        """Return the answer to what was told, or None of a process that is dead."""
        data = b""
        while not data.endswith(b"\n"):
            part = os.read(self._answers, 65536)
            if not part:
                return None
            data += part
        return json.loads(data)

    def open(self, path, **settings):
        """Return None, or what was refused."""
        return self.ask("open", str(path), settings)

    def arm(self, count=3 * CAP):
        """Arm so many, or up to the first that is refused; return how many were acknowledged."""
        return self.count() if self.tell("arm", count) else 0

    def count(self):
        """Return how many were acknowledged of those that it was told to arm."""
        done = self.answer() or 0
        self.armed += done
        return done

    def kill(self):
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._send)
            os.close(self._answers)
            self.pid = 0


def _serve(commands, answer, prelude):
    ledger = None
    try:
        if prelude is not None:
            prelude()
        with open(commands, "rb", buffering=0) as stream:
            for line in iter(stream.readline, b""):
                what, *arguments = json.loads(line)
                found = None
                try:
                    if what == "open":
                        ledger = PrivacyLedger.open(arguments[0], **({"timeout": 5.0} | arguments[1]))
                    elif what == "close":
                        ledger.close()
                    elif what == "spent":
                        found = CAP - ledger.remaining_count("all", TENTH)
                    else:
                        found = 0
                        for _ in range(arguments[0]):
                            ledger.reserve("all", TENTH).arm()
                            found += 1
                except (FerroError, AttributeError) as error:
                    found = found if what == "arm" else str(error)
                os.write(answer, json.dumps(found).encode() + b"\n")
    finally:
        os._exit(0)


class World:
    """A directory with a ledger of ten units, and all who use it."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "data"
        self.home.mkdir()
        self.path = self.home / "budget.db"
        self.parties = []
        self.mounts = []
        self.before_all = 0
        begin(self.path)

    def party(self, prelude=None):
        self.parties.append(Party(prelude))
        return self.parties[-1]

    @property
    def armed(self):
        return sum(party.armed for party in self.parties)

    def mount(self, source, target, kind=None, options=None, flags=0):
        mounted(source, target, kind, options, flags)
        self.mounts.append(target)

    def unmount(self):
        LIBC.umount2(os.fsencode(self.mounts.pop()), 2)

    def settle(self, *paths):
        """Let everybody die, and see that nothing was lost silently and no more armed than there was."""
        for party in self.parties:
            party.kill()
        assert self.armed <= CAP, f"{self.armed} of {CAP} are armed"
        for path in paths or (self.path,):
            last = Party()
            refusal = last.open(path, create=False)
            shown = last.ask("spent") if refusal is None else None
            last.kill()
            complete = not isinstance(shown, int) or shown >= self.armed  # a text says that there is no such scope
            assert complete, f"{self.armed} were acknowledged, {shown} are shown"
        while self.mounts:
            self.unmount()


def begin(path):
    """Make a ledger with room for ten, from another process: this one stays without any."""

    def work():
        with PrivacyLedger.open(path) as ledger:
            ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")

    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert path.exists()


def beside(path, suffix):
    return Path(f"{path}{suffix}")


def exchange(one, other):
    """Let two names change places at once."""
    code = LIBC.syscall(316, _HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    assert code == 0, os.strerror(ctypes.get_errno())


def copied(source, target):
    """Copy a folder, or a file with what is beside it."""
    if source.is_dir():
        shutil.copytree(source, target)
        return
    for suffix in ("", "-wal", "-shm"):
        if beside(source, suffix).exists():
            shutil.copy(beside(source, suffix), beside(target, suffix))


def mounted(source, target, kind=None, options=None, flags=0):
    code = LIBC.mount(
        os.fsencode(source), os.fsencode(target), (kind or "none").encode(), flags, (options or "").encode()
    )
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def bind(source, target):
    mounted(source, target, flags=_BIND)


def own_mounts():
    """Leave the namespace of mounts, for one of one's own; raise OSError where that is not allowed."""
    if LIBC.unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    mounted("none", "/", flags=_PRIVATE | _RECURSIVE)


def may_mount():
    """Return whether this process may have mounts of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            own_mounts()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0
