"""The example app on a real SuperLink and two SuperNodes, processes on loopback, started by `flwr run`."""

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

import ferrodp as fd

APP = Path(__file__).parents[3] / "examples" / "flower_app"
BIN = Path(sys.executable).parent
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
SECONDS = 300


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def federation(tmp_path):
    """Start a SuperLink and two SuperNodes; yield a function that runs an app there. Ends what it started."""
    home, port = tmp_path / "flwr", free_port()
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "lo"\n[superlink.lo]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    environment = os.environ | OFFLINE | {"FLWR_HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    started = []

    def begin(name, *command):
        log = (tmp_path / f"{name}.log").open("w")
        started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))
        log.close()

    def wait_for(condition, what):
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, f"{what}: {[p.read_text()[-2000:] for p in tmp_path.glob('*.log')]}"
            time.sleep(0.3)

    def healthy():
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return answer.status == 200
        return False

    begin("link", "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port),
          "--disable-runtime-dependency-installation")  # fmt: skip
    wait_for(healthy, "superlink")
    for node in range(2):
        begin(f"node{node}", "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port",
              str(free_port()), "--node-config", f"partition-id={node} num-partitions=2")  # fmt: skip
    wait_for(lambda: (tmp_path / "link.log").read_text().count("ActivateNode") >= 2, "supernodes")

    def run(app, *settings):
        command = ["flwr", "run", str(app), "lo", "--stream", "--run-config", " ".join(settings)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        return ended.stdout + ended.stderr

    yield run
    for process in reversed(started):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in started:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_three_private_rounds_run_under_flwr_run(federation, tmp_path):
    app = tmp_path / "app"
    shutil.copytree(APP, app)
    ledger, log = tmp_path / "budget.db", tmp_path / "rounds.csv"

    told = federation(app, f'ledger="{ledger}"', f'log="{log}"')

    assert told.count("at delta 1e-05") >= 3, told[-4000:]
    with log.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["round"] for row in rows] == ["0", "1", "2"]
    assert 0 < float(rows[0]["epsilon"]) < float(rows[2]["epsilon"]) <= 8.0
    with fd.PrivacyLedger.open(ledger) as opened:
        assert [ticket.state.value for ticket in opened.tickets("digits")] == ["spent"] * 3
