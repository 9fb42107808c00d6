"""System calls fail and disks fill up: an error, never a gift. See `disks.py`, which fails every one of them."""

import disks
import pytest

CASES = [
    ("fsync", "EIO", "1"),
    ("fdatasync", "EIO", "5"),
    ("fdatasync", "EIO", "9+"),
    ("pwrite64", "ENOSPC", "12"),
    ("pwrite64", "EIO", "30"),
    ("pwrite64", "ENOSPC", "40+"),
    ("pread64", "EIO", "25"),
    ("openat", "EIO", "6+"),
    ("unlink", "EIO", "1"),
    ("unlink", "EIO", "2+"),
    ("newfstatat", "EIO", "6"),
    ("newfstatat", "EIO", "10+"),
    ("statx", "EIO", "5"),
    ("statx", "EIO", "7+"),
    ("ftruncate", "EIO", "2"),
    ("ftruncate", "ENOSPC", "3+"),
    ("fcntl", "EIO", "30"),
]


needs_strace = pytest.mark.skipif(not disks.possible(), reason="strace is not installed, or may not attach to a child")


@needs_strace
def test_nothing_is_acknowledged_before_the_disk_has_it(tmp_path):
    found = disks.syncs(str(tmp_path))

    assert len(found) == 6
    assert min(found) >= 1


@needs_strace
@pytest.mark.parametrize("fault", CASES, ids=" ".join)
def test_a_call_that_fails_costs_one_charge_at_most(tmp_path, fault):
    disks.case(str(tmp_path), *fault)


@pytest.mark.parametrize("limit", [50_000, 77_777, 100_000])
def test_a_file_that_cannot_grow_takes_no_more_charges(tmp_path, limit):
    (tmp_path / "disk").mkdir()

    assert disks.full(str(tmp_path / "disk"), limit) > 0
