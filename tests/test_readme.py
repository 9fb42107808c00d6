"""What the README shows runs as it stands."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from ferrodp import PrivacyLedger

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_every_python_example_runs_in_order(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)

    assert len(blocks) >= 2
    printed = float(capsys.readouterr().out.split()[0])
    promised = float(re.search(r"an upper bound: ([\d.]+)…", README).group(1))
    assert promised <= printed < promised + 0.01
    assert names["noised"].shape == (100_000,)
    assert names["engine"].budget.rounds_consumed == 3
    with PrivacyLedger.open("budget.db") as ledger:
        assert ledger.report("clinic/scans").spent == 1


def test_the_shell_examples_run_in_order_in_an_empty_folder(tmp_path):
    """Those after "From the shell"; what is before needs a clone."""
    blocks = re.findall(r"```sh\n(.*?)```", README.partition("## From the shell")[2], re.DOTALL)
    programs = sysconfig.get_path("scripts")
    environment = os.environ | {"PATH": os.pathsep.join([programs, os.environ["PATH"]])}
    script = "set -euo pipefail\n" + "".join(blocks)

    found = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert found.returncode == 0, found.stderr
    assert len(blocks) >= 2
    assert {"noised.npz", "round-1.npz", "budget.jsonl.gz", "ferrodp-demo"} <= set(os.listdir(tmp_path))
