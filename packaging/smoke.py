"""Uses an installed FerroDP as a newcomer would, and fails if anything is amiss: ``python packaging/smoke.py``.

Noise from a fixed seed has the same bits on every machine, so its digest is compared with one that is known.
"""

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import ferrodp as fd
from ferrodp import testing

# SHA-256 of 100,000 float64 numbers with noise from the seed of 32 zero bytes.
NOISE = "83d3a429b820a1963ec8d0c934797e6e6c707426e8052d35612180ad24549da8"


def check_noise() -> None:
    """Compare bits with those of other machines."""
    noise = np.zeros(100_000)
    testing.seeded(bytes(32)).add_gaussian_(noise, standard_deviation=1.1)
    digest = hashlib.sha256(noise.astype("<f8").tobytes()).hexdigest()
    assert digest == NOISE, digest


def check_release() -> None:
    """Clip, sum, release and account."""
    updates = np.random.default_rng(0).standard_normal((20, 1000), np.float32)
    total = fd.ClippedSum(updates[0], clip_norm=1.0)
    total.add_many(updates)
    released = total.release(noise_multiplier=1.1)
    assert released.shape == (1000,)
    assert np.isfinite(released).all()

    accountant = fd.accounting.GdpAccountant()
    accountant.compose(total.event)
    assert 4.3 < accountant.epsilon(delta=1e-6) < 4.5


def check_ledger(folder: Path) -> None:
    """Charge a budget on disk, and be refused when it is spent."""
    with fd.PrivacyLedger.open(folder / "budget.db") as ledger:
        ledger.create("smoke", epsilon=1.0, delta=0.0, measure="pure")
        mechanism = fd.LaplaceMechanism.calibrated(epsilon=0.6, l1_sensitivity=1.0)
        with ledger.reserve("smoke", mechanism.event, key="first") as ticket:
            mechanism.release(10.0, ticket=ticket)
        try:
            ledger.reserve("smoke", mechanism.event, key="second")
        except fd.errors.BudgetExceeded:
            return
    raise AssertionError("the second release was not refused")


def check_command(folder: Path) -> None:
    """Run the command line, which needs no extra to print plain text."""
    asked = ["epsilon", "--noise-multiplier", "1.1", "--sampling-probability", "0.01", "--count", "10000"]
    # Under an emulator the interpreter cannot start itself again, so the command runs in this process.
    if os.environ.get("FERRODP_SMOKE_IN_PROCESS"):
        from ferrodp.cli import main

        assert main(asked) in (0, None)
        return
    program = Path(sys.executable).with_name("ferrodp")
    answer = subprocess.run([program, *asked], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "5.19" in answer, answer


def check_files() -> None:
    """Look for the texts that come with a wheel."""
    files = {str(file).split("/", 1)[-1] for file in distribution("ferrodp").files or []}
    assert {"licenses/LICENSE", "sboms/ferrodp.cdx.json", "py.typed"} <= files, files


if __name__ == "__main__":
    # A ledger wants a local file system; the temporary folder of a container may be an overlay.
    place = "/dev/shm" if sys.platform == "linux" and os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        check_files()
        check_noise()
        check_release()
        if sys.platform == "linux":
            check_ledger(Path(name))
        check_command(Path(name))
    print(f"ferrodp {fd.__version__} works on {platform.machine()}, Python {platform.python_version()}, {sys.platform}")
