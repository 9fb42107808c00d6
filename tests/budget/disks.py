"""Let system calls of a ledger fail, one by one, and see what it makes of it.

`python tests/budget/disks.py --upto 200` fails the n-th call of each kind, n = 1, 2, ..., as strace can: input and
output errors, a full disk, no locks. What was acknowledged has to be there; what failed has to be a `LedgerError`; the
next process has to find a ledger that is whole, and to use up what is left, exactly.
"""

import argparse
import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget.stores.sqlite.store import SqliteStore  # here, so that it is imported before calls fail
from ferrodp.errors import BudgetExceeded, LedgerError
from support import children

TENTH = LaplaceEvent(noise_multiplier=10.0)
SECRET = "name-of-a-patient"
FAULTS = (
    ("fsync", "EIO"), ("fdatasync", "EIO"), ("fdatasync", "ENOSPC"), ("pwrite64", "EIO"), ("pwrite64", "ENOSPC"),
    ("pread64", "EIO"), ("openat", "EIO"), ("openat", "EMFILE"), ("unlink", "EIO"), ("ftruncate", "EIO"),
    ("ftruncate", "ENOSPC"), ("fcntl", "ENOLCK"), ("fcntl", "EIO"), ("link", "EIO"), ("close", "EIO"),
    ("newfstatat", "EIO"), ("statx", "EIO"), ("mmap", "ENOMEM"), ("getrandom", "EIO"),
)  # fmt: skip


def work(path, diary, gate):
    """Begin a ledger and use it; note what was acknowledged, and what each failure said. Try again after each."""
    with children.diary(diary) as note:
        os.read(gate, 1)
        for _ in range(3):
            try:
                with PrivacyLedger.open(path, timeout=1.0) as ledger:
                    if "all" not in ledger.scopes:
                        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
                        note("created")
                    use(ledger, note)
                return
            except LedgerError as error:
                note(f"failed {error}")


def use(ledger, note):
    for number in range(4):
        ticket = ledger.reserve("all", TENTH, key=f"{SECRET}-{number}")
        note(f"reserved {ticket.id}")
        if number == 1 and ticket.state.value == "held":
            ticket.arm()
            note(f"armed {ticket.id}")
        if number == 2 and ticket.state.value == "held":
            note(f"cancelling {ticket.id}")
            ticket.cancel()


def judge(path, diary):
    """Compare what was acknowledged with what is recorded, in a process of its own."""
    lines = [line.partition(" ") for line in Path(diary).read_text().splitlines()]
    said = {word: {what for kind, _, what in lines if kind == word} for word, _, _ in lines}
    for text in said.get("failed", ()):
        assert SECRET not in text
        assert "Laplace" not in text
        assert len(text) < 500
    if not os.path.exists(path):
        assert "created" not in said
        return
    with PrivacyLedger.open(path, create=False) as ledger:
        if not ledger.scopes:
            assert "created" not in said
            return
        states = {body["ticket"]: body["state"] for body in ledger.history() if body["kind"] == "reserve"}
        for body in ledger.history():
            if body["kind"] in ("arm", "cancel"):
                states[body["ticket"]] = body["kind"]
        missing = {each for each in said.get("reserved", ()) if states.get(each, "cancel") == "cancel"}
        assert missing <= said.get("cancelling", set()), "an acknowledged charge is missing"
        assert all(states[each] == "arm" for each in said.get("armed", ())), "an acknowledged release is missing"
        charged = sum(state != "cancel" for state in states.values())
        left = ledger.remaining_count("all", TENTH)
        assert left == 10 - charged
        for _ in range(left):
            ledger.spend("all", TENTH)
        try:
            ledger.spend("all", TENTH)
        except BudgetExceeded:
            ledger.verify()
        else:
            raise AssertionError("more is charged than there is")


def case(folder, call, error, when):
    """Run one case; return whether a call failed, and whether the ledger said so."""
    name = f"{call} number {when} fails with {error}"
    path, diary, log = traced(folder, name, f"trace={call}", f"inject={call}:error={error}:when={when}")
    assert children.run(judge, path, diary) == 0, f"{name}\n{Path(diary).read_text()}"
    return "(INJECTED)" in log, "failed" in Path(diary).read_text()


def syncs(folder):
    """Return how often the disk was told to keep what it has before each acknowledgement."""
    _, _, log = traced(folder, "nothing fails", "trace=fsync,fdatasync,write")
    found, count = [], 0
    for line in log.splitlines():
        if "sync(" in line:
            count += 1
        elif "write(" in line and any(f'"{word}' in line for word in ("created", "reserved", "armed")):
            found.append(count)
            count = 0
    return found


def traced(folder, name, *expressions):
    """Run `work` under strace; return the paths of the ledger and the diary, and what strace wrote."""
    path, diary, log = f"{folder}/budget.db", f"{folder}/diary", f"{folder}/trace"
    for file in os.listdir(folder):
        os.remove(f"{folder}/{file}")
    Path(diary).touch()
    gate, opened = os.pipe()
    child = children.start(work, path, diary, gate)
    command = ["strace", "-f", "-p", str(child), "-o", log]
    for expression in expressions:
        command += ["-e", expression]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with tracer.stderr:
        attached = tracer.stderr.readline()
        os.write(opened, b"!")
        code = children.end_of(child)
        tracer.stderr.read()
    tracer.wait()
    os.close(gate)
    os.close(opened)
    assert "attached" in attached, attached
    assert code == 0, f"{name}: the process ended with {code}\n{Path(diary).read_text()}"
    return path, diary, Path(log).read_text()


def fill(path, diary, limit):
    """Spend until there is no room, and see that it stays so; note what was acknowledged."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with children.diary(diary) as note, PrivacyLedger.open(path, timeout=1.0) as ledger:
        ledger.create("all", epsilon=1000.0, delta=0.0, measure="pure")
        try:
            for number in itertools.count():
                ledger.spend("all", TENTH, key=f"{number}-{'x' * 900}")
                note(f"spent {number}")
        except LedgerError as error:
            note(f"failed {error}")


def full(folder, limit=0):
    """Run `fill` on a disk, or with files, of bounded size; return how many charges were acknowledged."""
    path, diary = f"{folder}/budget.db", f"{folder}.diary"
    assert children.run(fill, path, diary, limit) == 0, Path(diary).read_text()
    lines = Path(diary).read_text().splitlines()
    os.remove(diary)
    spent = [line.split()[1] for line in lines if line.startswith("spent")]
    assert lines[-1].startswith("failed"), lines[-1]
    with PrivacyLedger.open(path, create=False) as ledger:
        recorded = {body["key"].split("-")[0] for body in ledger.history() if body["kind"] == "reserve"}
        assert set(spent) <= recorded
        assert len(recorded) <= len(spent) + 1
        assert ledger.remaining_count("all", TENTH) == 10_000 - len(recorded)
    return len(spent)


def possible():
    """Whether strace is here and may attach to our children."""
    if shutil.which("strace") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            case(folder, "fsync", "EIO", "60000")
        except (AssertionError, OSError):
            return False
    return True


def main():
    """Run all cases and print, for each kind of call, how many failed and how many the ledger reported."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upto", type=int, default=200)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--folder", help="where to put the ledgers; a temporary folder by default")
    options = parser.parse_args()
    if not possible():
        print("strace cannot attach here: nothing was tested")
        return
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="disks-") as folder:
        for call, error in FAULTS:
            hits = reported = 0
            for when in range(1, options.upto + 1, options.step):
                for form in (f"{when}", f"{when}+"):
                    hit, said = case(folder, call, error, form)
                    hits, reported = hits + hit, reported + said
                if not hit:
                    break  # there are no so many calls
            print(f"{call} {error}: {hits} cases with failed calls, {reported} reported", flush=True)
    with tempfile.TemporaryDirectory(prefix="disks-") as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", folder], check=False).returncode == 0:
            try:
                print(f"a full disk: {full(folder)} charges fitted")
            finally:
                subprocess.run(["umount", folder], check=True)
        else:
            print("no disk could be mounted: a full one was not tested")
    print(f"all promises kept by {SqliteStore.__name__}, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
