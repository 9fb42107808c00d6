"""A SuperLink and SuperNodes, processes on loopback, for tests that run apps there and kill what they like."""

import json
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

APP = Path(__file__).parents[3] / "examples" / "flower_app"
BIN = Path(sys.executable).parent
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
SECONDS = 300
# Stands before the real program on the path: notes the id and, at the end, the exit status of each process.
NOTED = """#!/bin/sh
"{program}" "$@" &
echo $! >> "{folder}/server-apps"
wait $!
echo "$! $?" >> "{folder}/server-app-codes"
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.2)


class Federation:
    """Processes whose logs are in a folder; `close` ends those that it started."""

    def __init__(self, folder, nodes=2, keeps_state=False):
        self.folder, self.port, self.keeps_state = folder, free_port(), keeps_state
        home, programs = folder / "flwr", folder / "programs"
        home.mkdir()
        programs.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "lo"\n[superlink.lo]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        noted = programs / "flwr-serverapp"
        noted.write_text(NOTED.format(program=BIN / "flwr-serverapp", folder=folder))
        noted.chmod(0o755)
        self.environment = os.environ | OFFLINE | {
            "FLWR_HOME": str(home),
            "PATH": os.pathsep.join([str(programs), str(BIN), os.environ["PATH"]]),
        }  # fmt: skip
        self.started = []
        self.link = self.start_link()
        self.nodes = nodes
        self.start_nodes()

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def logs(self):
        return [path.read_text()[-2000:] for path in self.folder.glob("*.log")]

    def _start(self, name, *command):
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self.started.append(process)
        return process

    def start_link(self):
        """Start the SuperLink, on the same port each time."""
        state = ["--database", str(self.folder / "link.db")] if self.keeps_state else []
        process = self._start("link", "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(self.port),
                              "--disable-runtime-dependency-installation", *state)  # fmt: skip

        def healthy():
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return answer.status == 200
            return False

        wait_for(healthy, self.logs)
        return process

    def start_nodes(self):
        """Start the SuperNodes, and wait until all are known: those of a SuperLink that ended have ended, too."""
        known = self.log("link").count("ActivateNode")
        for number in range(self.nodes):
            where = ["--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port())]
            about = ["--node-config", f"partition-id={number} num-partitions={self.nodes}"]
            node = self._start(f"node{number}", "flower-supernode", "--insecure", *where, *about)
            (self.folder / f"node{number}.pid").write_text(str(node.pid))
        wait_for(lambda: self.log("link").count("ActivateNode") >= known + self.nodes, self.logs)

    def begin(self, app, *settings):
        """Start `flwr run --stream`, and return its process."""
        command = ["flwr", "run", str(app), "lo", "--stream"]
        if settings:
            command += ["--run-config", " ".join(settings)]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, app, *settings, seconds=SECONDS):
        """Run an app to its end; return the exit code of `flwr run`, and what it printed."""
        process = self.begin(app, *settings)
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(self.logs()) from None
        return process.returncode, printed

    def statuses(self):
        """Return the status of each run, as `flwr list` has it, the newest last."""
        command = ["flwr", "list", "lo", "--format", "json"]
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=True)
        return [run["status"] for run in reversed(json.loads(ended.stdout)["runs"])]

    def server_apps(self):
        """Return the process ids of all server apps so far."""
        path = self.folder / "server-apps"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def codes(self):
        """Return the exit status of each server app that has ended, by process id."""
        path = self.folder / "server-app-codes"
        lines = path.read_text().splitlines() if path.exists() else []
        return {int(line.split()[0]): int(line.split()[1]) for line in lines}

    def close(self):
        for process in reversed(self.started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def copied(folder, name="app"):
    """Return a copy of the example app in a folder."""
    return Path(shutil.copytree(APP, folder / name))
