"""System calls fail and disks fill up: an error, never a gift. See `disks.py`, which fails every one of them."""

import subprocess
import sys

import disks
import pytest

from ferrodp.budget import PrivacyLedger

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


OPENS = """
import sys
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import FerroError
try:
    with PrivacyLedger.open(sys.argv[1]) as ledger:
        ledger.spend("all", LaplaceEvent(noise_multiplier=10.0))
except FerroError as error:
    print(error.code, error)
"""


@needs_strace
@pytest.mark.parametrize(("error", "code"), [("ENOSPC", "unavailable"), ("EDQUOT", "unavailable"), ("EIO", "refused")])
@pytest.mark.parametrize("when", [1, 2, 4, 6])
def test_a_full_disk_is_called_so_wherever_it_is_met(tmp_path, error, code, when):
    """The first call that writes is that for the index, which SQLite itself reports as a failure of the disk."""
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
    inject = f"inject=pwrite64:error={error}:when={when}+"
    filtered = ["strace", "-f", "--seccomp-bpf", "-e", "trace=pwrite64"]  # other calls are not stopped for
    trace = [*filtered, "-o", str(tmp_path / "trace"), "-e", inject]

    done = subprocess.run(
        [*trace, sys.executable, "-c", OPENS, tmp_path / "budget.db"], capture_output=True, text=True, check=False
    )

    assert "(INJECTED)" in (tmp_path / "trace").read_text()
    assert done.stdout.startswith(f"ledger-{code} "), done.stdout + done.stderr
    assert ("has a full disk;" in done.stdout or ": the disk is full;" in done.stdout) is (code == "unavailable")
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert ledger.verify() == ledger.head
