"""Files of a ledger are moved, covered, cut, copied or exchanged under those who use it: see `parties`.

Each manipulation is done while a first process has the ledger open and two units armed. Then a second process opens it
by the name under which it can be reached, and both try to arm all there is; a third does so at the end, and all are
killed. In turns the first is killed before the manipulation, or the manipulation is undone before the first goes on.
"""

import contextlib
import os
import platform
import shutil
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from support import children, parties
from support.parties import CAP, World, begin, beside, copied, exchange

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="names system calls by their numbers"
)
mounting = pytest.mark.skipif("not parties.may_mount()", reason="needs the right to mount")


def remove(*suffixes):
    def manipulate(world):
        for suffix in suffixes:
            beside(world.path, suffix).unlink(missing_ok=True)

    return manipulate


def rename(*suffixes):
    def manipulate(world):
        moved = world.home / "moved.db"
        for suffix in suffixes:
            with contextlib.suppress(FileNotFoundError):
                beside(world.path, suffix).rename(beside(moved, suffix))
        return moved, lambda: [
            beside(moved, s).rename(beside(world.path, s)) for s in suffixes if beside(moved, s).exists()
        ]

    return manipulate


def link_and_unlink(world):
    other = world.folder / "other.db"
    os.link(world.path, other)
    world.path.unlink()
    return other, lambda: other.rename(world.path)


def links_of_all(world):
    """Every file has a second name, in another directory."""
    other = world.folder / "other.db"
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.link(beside(world.path, suffix), beside(other, suffix))
    return other, lambda: None


def file_exchanged(world):
    copy = world.folder / "copy.db"
    copied(world.path, copy)
    exchange(world.path, copy)
    return world.path, lambda: exchange(world.path, copy)


def file_with_log_exchanged(world):
    copy = world.folder / "copy.db"
    copied(world.path, copy)

    def change():
        for suffix in ("", "-wal", "-shm"):
            if beside(copy, suffix).exists() and beside(world.path, suffix).exists():
                exchange(beside(world.path, suffix), beside(copy, suffix))

    change()
    return world.path, change


def folder_exchanged(world):
    copy = world.folder / "copy"
    copied(world.home, copy)
    exchange(world.home, copy)
    return world.path, lambda: exchange(world.home, copy)


def folder_above_exchanged(world):
    """Not the ledger's directory changes places, but the one above."""
    copy = Path(f"{world.folder}-copy")
    copied(world.folder, copy)
    exchange(world.folder, copy)
    return world.path, lambda: exchange(world.folder, copy)


def folder_made_anew(world):
    copy = world.folder / "copy"
    copied(world.home, copy)
    shutil.rmtree(world.home)
    copy.rename(world.home)


def file_replaced_by_a_sparse_copy(world):
    data = world.path.read_bytes()
    copy = world.folder / "sparse.db"
    with copy.open("wb") as stream:
        for place in range(0, len(data), 4096):
            if data[place : place + 4096].strip(b"\0"):
                stream.seek(place)
                stream.write(data[place : place + 4096])
        stream.truncate(len(data))
    copy.replace(world.path)


def cut(suffix, length):
    def manipulate(world):
        with contextlib.suppress(FileNotFoundError):
            os.truncate(beside(world.path, suffix), length)

    return manipulate


def log_copied_over_itself(world):
    log = beside(world.path, "-wal")
    if log.exists():
        shutil.copy(log, f"{log}.copy")
        os.replace(f"{log}.copy", log)


def index_copied_over_itself(world):
    index = beside(world.path, "-shm")
    if index.exists():
        shutil.copy(index, f"{index}.copy")
        os.replace(f"{index}.copy", index)


def log_is_a_link(world):
    log = beside(world.path, "-wal")
    if log.exists():
        log.rename(f"{log}.elsewhere")
        log.symlink_to(f"{log}.elsewhere")


def log_is_a_folder(world):
    log = beside(world.path, "-wal")
    log.unlink(missing_ok=True)
    log.mkdir()
    return world.path, log.rmdir


def file_cut(world):
    os.truncate(world.path, 0)


def rearranged(world):
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(world.path, timeout=0.1)) as other:
        other.execute("VACUUM")


def checkpointed(world):
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(world.path, timeout=0.1)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def another_journal(world):
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(world.path, timeout=0.1)) as other:
        other.execute("PRAGMA journal_mode = DELETE")


def earlier_log(world):
    """The log as it was when one unit was armed is written into the log, in place."""
    with beside(world.path, "-wal").open("r+b") as stream:
        stream.write(world.earlier)
        stream.truncate()


MANIPULATIONS = {
    "index removed": remove("-shm"),
    "log removed": remove("-wal"),
    "log and index removed": remove("-wal", "-shm"),
    "file renamed": rename(""),
    "file and log renamed": rename("", "-wal"),
    "all renamed": rename("", "-wal", "-shm"),
    "linked, first name unlinked": link_and_unlink,
    "all linked": links_of_all,
    "file exchanged with a copy": file_exchanged,
    "file and log exchanged with copies": file_with_log_exchanged,
    "directory exchanged with a copy": folder_exchanged,
    "directory above exchanged with a copy": folder_above_exchanged,
    "directory deleted and made anew": folder_made_anew,
    "sparse copy put in place": file_replaced_by_a_sparse_copy,
    "log cut to nothing": cut("-wal", 0),
    "log cut in the middle": cut("-wal", 9000),
    "index cut to nothing": cut("-shm", 0),
    "index cut in the middle": cut("-shm", 100),
    "log replaced by a copy": log_copied_over_itself,
    "index replaced by a copy": index_copied_over_itself,
    "log a symbolic link": log_is_a_link,
    "log a directory": log_is_a_folder,
    "file cut to nothing": file_cut,
    "rearranged by another program": rearranged,
    "checkpointed by another program": checkpointed,
    "journal changed by another program": another_journal,
    "earlier log put back in place": earlier_log,
}


@pytest.fixture
def world(tmp_path):
    folder = tmp_path / "above"
    folder.mkdir()
    world = World(folder)
    yield world
    for party in world.parties:
        party.kill()


def play(world, manipulate, turn, path=None):
    """Do what the first lines of this file say, and return whether the second process could open the ledger."""
    path = path or world.path
    first = world.party()
    assert first.open(path) is None
    first.arm(1)
    world.earlier = beside(world.path, "-wal").read_bytes()
    first.arm(1)
    if turn == "killed":
        first.kill()
    name, undo = manipulate(world) or (path, lambda: None)
    second = world.party()
    refused = second.open(name)
    second.arm()
    if turn == "undone":
        second.ask("close")
        undo()
    first.arm()
    third = world.party()
    third.open(path)
    third.arm()
    world.settle(*({path, name}))
    return refused is None


@pytest.mark.parametrize("turn", ["alive", "killed", "undone"])
@pytest.mark.parametrize("manipulation", MANIPULATIONS)
def test_a_ledger_whose_files_are_manipulated_is_neither_overspent_nor_forgetful(world, manipulation, turn):
    play(world, MANIPULATIONS[manipulation], turn)


def test_nobody_is_refused_if_nothing_happens(world):
    """What is asserted above is worth something: two share a ledger, and arm all there is."""
    assert play(world, lambda _: None, "alive")

    assert world.armed == CAP


def test_a_link_to_the_current_directory_that_moves_on_is_noticed(world):
    current = world.folder / "current"
    current.symlink_to("data")

    def manipulate(world):
        copied(world.home, world.folder / "copy")
        current.unlink()
        current.symlink_to("copy")

    play(world, manipulate, "alive", current / "budget.db")


def test_the_logs_of_two_crashed_ledgers_are_not_exchanged(world):
    other = world.folder / "other.db"
    begin(other)
    for path in (world.path, other):
        party = world.party()
        party.open(path)
        party.arm(3)
        party.kill()
    exchange(beside(world.path, "-wal"), beside(other, "-wal"))
    contents = {path: path.read_bytes() for path in (world.path, other)}

    for path in (world.path, other):
        assert world.party().open(path) is not None
    assert {path: path.read_bytes() for path in contents} == contents
    exchange(beside(world.path, "-wal"), beside(other, "-wal"))
    for path in (world.path, other):
        party = world.party()
        assert party.open(path) is None
        assert party.ask("spent") == 3


def test_a_copy_swapped_in_after_a_crash_takes_no_log_along(world):
    """Its last process moves the log into the copy; put back, the file says what it lacks."""
    world.party().open(world.path)
    copy = world.folder / "copy.db"
    shutil.copy(world.path, copy)
    world.parties[-1].arm(4)
    world.parties[-1].kill()
    exchange(world.path, copy)
    second = world.party()
    second.open(world.path)
    second.ask("close")
    exchange(world.path, copy)
    third = world.party()

    assert "were acknowledged" in third.open(world.path)
    world.settle()


def test_without_locks_of_open_files_there_is_no_ledger(world):
    """No falling back to locks that other code of the process can drop."""

    def forbidden():
        forbid(72, 37, 22)  # fcntl with F_OFD_SETLK: invalid argument, as before Linux 3.15

    refused = world.party(forbidden).open(world.path)

    assert refused is not None
    world.settle()


def test_without_statx_a_file_is_known_all_the_same(world):
    """Some sandboxes refuse that call."""
    first = world.party(lambda: forbid(332, None, 1))
    assert first.open(world.path) is None
    first.arm(2)
    name, _ = folder_exchanged(world)
    second = world.party()
    second.open(name)
    second.arm()
    first.arm()

    world.settle()


def forbid(number, argument, error):
    """Let the system refuse a call to this process, or only one with this second argument."""
    import ctypes
    import struct

    def code(operation, yes, no, value):
        return struct.pack("HBBI", operation, yes, no, value)

    load, equal, answer = 0x20, 0x15, 0x06
    filters = [code(load, 0, 0, 0), code(equal, 0, 1 if argument is None else 3, number)]
    if argument is not None:
        filters += [code(load, 0, 0, 24), code(equal, 0, 1, argument)]
    filters += [code(answer, 0, 0, 0x00050000 | error), code(answer, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(filters))
    header = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(program))
    assert parties.LIBC.prctl(38, 1, 0, 0, 0) == 0
    assert parties.LIBC.prctl(22, 2, header, 0, 0) == 0


def in_own_mounts(work, folder):
    """Run a test's work in a namespace of mounts of its own, which ends with it."""

    def run():
        parties.own_mounts()
        world = World(folder)
        try:
            work(world)
        finally:
            for party in world.parties:
                party.kill()

    assert children.run(run) == 0


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "above"
    folder.mkdir()
    return folder


def bound_file(world):
    other = world.folder / "mounted" / "budget.db"
    other.parent.mkdir()
    other.touch()
    world.mount(world.path, other, flags=parties._BIND)
    return other, world.unmount


def covered(world):
    """A copy lies in a file system in memory over the directory."""
    copied(world.home, world.folder / "copy")
    world.mount("none", world.home, "tmpfs")
    for entry in (world.folder / "copy").iterdir():
        shutil.copy(entry, world.home)
    return world.path, world.unmount


def overlaid(world):
    for name in ("upper", "work"):
        (world.folder / name).mkdir()
    options = f"lowerdir={world.home},upperdir={world.folder}/upper,workdir={world.folder}/work"
    world.mount("none", world.home, "overlay", options)
    return world.path, world.unmount


def overlaid_elsewhere(world):
    """As in a container whose image holds the ledger."""
    for name in ("upper", "work", "container"):
        (world.folder / name).mkdir()
    options = f"lowerdir={world.home},upperdir={world.folder}/upper,workdir={world.folder}/work"
    world.mount("none", world.folder / "container", "overlay", options)
    return world.folder / "container" / "budget.db", world.unmount


def bound_elsewhere(world):
    """The directory, as containers should have it: nothing is wrong with that."""
    other = world.folder / "mounted"
    other.mkdir()
    world.mount(world.home, other, flags=parties._BIND)
    return other / "budget.db", world.unmount


def bound_over(world):
    """Another directory is mounted over that of the ledger."""
    copied(world.home, world.folder / "copy")
    world.mount(world.folder / "copy", world.home, flags=parties._BIND)
    return world.path, world.unmount


def log_bound(world):
    """A file of its own is mounted over the log."""
    (world.folder / "log").touch()
    beside(world.path, "-wal").touch()
    world.mount(world.folder / "log", beside(world.path, "-wal"), flags=parties._BIND)
    return world.path, world.unmount


MOUNTS = {
    "file mounted elsewhere": bound_file,
    "directory covered by memory": covered,
    "directory covered by an overlay": overlaid,
    "directory in an overlay elsewhere": overlaid_elsewhere,
    "directory mounted elsewhere": bound_elsewhere,
    "copy mounted over the directory": bound_over,
    "log mounted": log_bound,
}


@mounting
@pytest.mark.parametrize("turn", ["alive", "killed", "undone"])
@pytest.mark.parametrize("manipulation", MOUNTS)
def test_a_ledger_that_is_mounted_is_neither_overspent_nor_forgetful(folder, manipulation, turn):
    def work(world):
        opened = play(world, MOUNTS[manipulation], turn)
        assert not (opened and manipulation in ("file mounted elsewhere", "directory in an overlay elsewhere"))
        assert opened or manipulation != "directory mounted elsewhere"

    in_own_mounts(work, folder)


@mounting
def test_containers_that_mount_the_file_alone_are_refused_in_turn(folder):
    def work(world):
        for number in range(3):
            other = world.folder / f"container {number}" / "budget.db"
            other.parent.mkdir()
            other.touch()
            world.mount(world.path, other, flags=parties._BIND)
            party = world.party()
            assert "mount point" in party.open(other)
            party.arm()
            party.kill()
        host = world.party()
        assert host.open(world.path) is None
        assert host.arm() == CAP
        world.settle()

    in_own_mounts(work, folder)


@mounting
def test_a_path_through_another_process_is_not_taken_for_one_here(folder):
    """A box and its host have each a ledger under one name: links such as /proc/PID/root are no text."""

    def work(world):
        inside = world.party(
            lambda: (parties.own_mounts(), parties.mounted("none", world.home, "tmpfs"), begin(world.path))
        )
        assert inside.open(world.path) is None
        inside.arm(2)
        outside = world.party()
        assert "/proc/PID/root" in outside.open(f"/proc/{inside.pid}/root{world.path}")
        assert outside.open(world.path) is None
        assert outside.arm() == CAP  # its own
        assert inside.arm() == CAP - 2  # another, which nobody else reached

    in_own_mounts(work, folder)


@mounting
@pytest.mark.parametrize("attempt", range(4))
def test_in_a_chroot_without_proc_nothing_is_lost(folder, attempt):
    """Three arm at once, and in each a thread reads the three files, again and again: no lock is dropped by that."""

    def work(world):
        def prelude():
            os.chroot(world.folder)
            os.chdir("/")
            threading.Thread(target=read_again_and_again, args=(Path("/data/budget.db"),), daemon=True).start()

        inside = [world.party(prelude) for _ in range(3)]
        for party in inside:
            assert party.open("/data/budget.db") is None
        for party in inside:
            party.tell("arm", CAP)
        for party in inside:
            party.count()
        outside = world.party()
        assert outside.open(world.path) is None
        assert outside.ask("spent") == CAP
        world.settle()

    in_own_mounts(work, folder)


def read_again_and_again(path):
    while True:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                beside(path, suffix).read_bytes()
