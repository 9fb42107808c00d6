"""What the README shows runs as it stands."""

import re
from pathlib import Path

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
    assert names["ledger"].report("clinic/scans").spent == 1
    assert names["engine"].budget.rounds_consumed == 3
    names["ledger"].close()
