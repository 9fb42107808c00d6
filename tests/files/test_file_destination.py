"""An output file appears whole or not at all, whatever the disk does."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from ferrodp import files
from ferrodp.files import _atomic

CONTENT = b"x" * 5000


def write(stream: IO[bytes]) -> None:
    stream.write(CONTENT)


def commit(
    path: Path,
    *,
    force: bool = False,
    reserve: int = 0,
    meanwhile: Callable[[], object] = lambda: None,
    write: Any = write,
) -> None:
    with files.Destination(path, force=force) as destination:
        destination.reserve(reserve)
        meanwhile()
        destination.commit(write)


@pytest.fixture(params=["nameless", "hidden"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, once with files without a name, once as where those do not exist."""
    if request.param == "hidden":
        monkeypatch.setattr(_atomic, "_nameless", lambda _: None)
    return tmp_path


def test_the_file_appears_at_the_commit(folder: Path) -> None:
    with files.Destination(folder / "a") as destination:
        destination.reserve(100_000)
        assert not (folder / "a").exists()
        destination.commit(write)
        assert (folder / "a").read_bytes() == CONTENT

    assert os.listdir(folder) == ["a"]


def test_without_a_commit_nothing_is_left(folder: Path) -> None:
    with files.Destination(folder / "a") as destination:
        destination.reserve(1000)
    with pytest.raises(KeyboardInterrupt), files.Destination(folder / "a"):
        raise KeyboardInterrupt

    assert os.listdir(folder) == []


def test_a_file_that_is_there_stays_unless_forced(folder: Path) -> None:
    (folder / "a").write_bytes(b"old")

    with pytest.raises(files.FileRefused, match="exists already"), files.Destination(folder / "a"):
        pass
    assert (folder / "a").read_bytes() == b"old"

    with files.Destination(folder / "a", force=True) as destination:
        assert (folder / "a").read_bytes() == b"old"
        destination.commit(write)
    assert (folder / "a").read_bytes() == CONTENT
    assert os.listdir(folder) == ["a"]


def test_a_file_that_came_in_between_stays(folder: Path) -> None:
    with pytest.raises(files.FileRefused, match="exists already"):
        commit(folder / "a", meanwhile=lambda: (folder / "a").write_bytes(b"other"))

    assert (folder / "a").read_bytes() == b"other"
    assert os.listdir(folder) == ["a"]


def test_a_system_without_links_still_refuses_to_replace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(_atomic, "_nameless", lambda _: None)
    monkeypatch.setattr(os, "link", no_link)
    commit(folder / "a")
    with pytest.raises(files.FileRefused, match="exists already"):
        commit(folder / "b", meanwhile=lambda: (folder / "b").write_bytes(b"other"))

    assert (folder / "a").read_bytes() == CONTENT
    assert (folder / "b").read_bytes() == b"other"


def test_a_link_is_followed(folder: Path) -> None:
    (folder / "target").write_bytes(b"old")
    (folder / "link").symlink_to("target")

    commit(folder / "link", force=True)

    assert (folder / "link").is_symlink()
    assert (folder / "target").read_bytes() == CONTENT


def test_the_permissions_are_those_of_any_new_file(folder: Path) -> None:
    old = os.umask(0o027)
    try:
        commit(folder / "a")
    finally:
        os.umask(old)

    assert (folder / "a").stat().st_mode & 0o777 == 0o640


def test_places_where_nothing_can_be_written_are_refused(folder: Path) -> None:
    (folder / "file").write_bytes(b"")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    cases = {
        "folder": "not a regular file",
        "pipe": "not a regular file",
        "missing/a": "No such file or directory",
        "file/a": "Not a directory",
        "n" * 300: "File name too long",
    }
    for name, reason in cases.items():
        with pytest.raises(files.FileRefused, match=reason):
            commit(folder / name, force=True)
    with pytest.raises(files.FileRefused, match="not a regular file"):
        commit(Path("/dev/full"), force=True)


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Let every file of this process be at most so large: what a full disk looks like, without one."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_shows_before_anything_is_computed(folder: Path) -> None:
    reached: list[int] = []
    with file_size_limit(1000), pytest.raises(files.FileRefused, match="a: cannot be written: File too large"):
        commit(folder / "a", reserve=5000, meanwhile=lambda: reached.append(1))

    assert not reached

    assert os.listdir(folder) == []


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_disk_that_fills_while_writing_leaves_nothing(folder: Path, suffix: str) -> None:
    array = np.ones(100_000)
    for limit in (0, 1, 100, 400_000, 799_999, 800_000):  # the headers need some bytes too
        with file_size_limit(limit), pytest.raises(files.FileRefused, match="cannot be written: File too large"):
            commit(folder / f"a{suffix}", write=lambda stream: files.write(stream, suffix, {"x": array}))

    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("call", "force"),
    [("fsync", False), ("fsync", True), ("posix_fallocate", True), ("link", False), ("replace", True)],
)
def test_a_disk_that_breaks_leaves_the_old_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, force: bool
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (folder / "old").write_bytes(b"old")
    monkeypatch.setattr(os, call, broken)
    with pytest.raises(files.FileRefused, match="cannot be written: Input/output error"):
        commit(folder / ("old" if force else "new"), force=force, reserve=1000)

    assert (folder / "old").read_bytes() == b"old"
    assert os.listdir(folder) == ["old"]


def test_a_disk_that_cannot_reserve_is_used_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    commit(folder / "a", reserve=1000)

    assert (folder / "a").read_bytes() == CONTENT
