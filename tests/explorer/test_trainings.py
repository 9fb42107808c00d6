"""Trainings on a real server: streamed at once, commanded, bounded in number, and gone with their page."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("sklearn")

SMALL = {"dataset": "wine", "batch_size": "32", "epochs": "2"}
LONG = {"dataset": "wine", "batch_size": "8", "epochs": "50"}


class Server:
    """`ferrodp explore`, and requests as its own page sends them."""

    def __init__(self, *options):
        command = [sys.executable, "-m", "ferrodp", "explore", "--no-browser", "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline())[1])
        page = self.get("/playground")
        self.token = re.search(r'name="token" content="([^"]+)"', page)[1]

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def post(self, path, body):
        """Return a connection and its response, which may be a stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"content-type": "application/json", "x-ferrodp-token": self.token}
        connection.request("POST", path, json.dumps(body), headers)
        return connection, connection.getresponse()

    def workers(self):
        """Return the processes that train or wait to."""
        found = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{number}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
                if int(fields[1]) == self.process.pid and fields[0] != "Z":
                    found.append(int(number))
        return found

    def end(self):
        """End it as Ctrl-C does; return the exit code."""
        self.process.send_signal(2)
        with self.process:
            return self.process.wait(20)


@pytest.fixture(scope="module")
def server():
    found = Server()
    yield found
    found.end()


def events(response):
    """Yield what a stream says."""
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_training_says_where_it_stands_from_its_first_step_to_its_last(server):
    connection, response = server.post("/api/train", SMALL)
    found = list(events(response))
    connection.close()

    assert response.status == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert [each["type"] for each in found] == ["started", *["step"] * (len(found) - 2), "end"]
    steps = [each["step"] for each in found[1:]]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, found[-1]["num_steps"])
    assert found[-1]["answer"]["numbers"]["Steps"] == str(steps[-1])


def test_what_is_streamed_is_what_the_cell_prints(server):
    _, response = server.post("/api/train", SMALL)
    answer = list(events(response))[-1]["answer"]
    ran = subprocess.run([sys.executable, "-c", answer["cell"]], capture_output=True, text=True, check=True)

    assert [f"{label}: {value}" for label, value in answer["numbers"].items()] == ran.stdout.splitlines()


def test_a_training_is_paused_stepped_and_resumed(server):
    connection, response = server.post("/api/train", LONG | {"mode": "step"})
    stream = events(response)
    name = next(stream)["name"]

    assert [next(stream)["step"] for _ in range(2)] == [0, 1]
    for step in (2, 3):
        assert server.post(f"/api/train/{name}/step", {})[1].status == 200
        assert next(stream)["step"] == step
    assert server.post(f"/api/train/{name}/resume", {})[1].status == 200
    assert next(stream)["step"] > 3
    assert server.post(f"/api/train/{name}/faster", {})[1].status == 404
    assert server.post("/api/train/nothing/step", {})[1].status == 404
    response.close()
    connection.close()


def test_no_process_is_left_when_the_page_closes(server):
    time.sleep(0.2)
    wait_until(lambda: len(server.workers()) <= 1)  # that which waits to be used
    before = set(server.workers())
    connection, response = server.post("/api/train", LONG | {"mode": "step"})
    stream = events(response)
    while next(stream)["type"] == "started":
        pass
    wait_until(lambda: len(server.workers()) >= 2)
    running = set(server.workers())
    response.close()
    connection.close()

    wait_until(lambda: len(server.workers()) <= 1)
    assert len(before & running & set(server.workers())) == 0  # the one that trained is gone


def test_fifty_trainings_at_once_are_a_few_and_the_page_answers(server):
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: server.post("/api/train", LONG | {"mode": "step"}), range(50)))
        statuses = [response.status for _, response in found]
        page = server.get("/account/compare")
        most = len(server.workers())
        for connection, response in found:
            response.close()
            connection.close()

    assert statuses.count(200) == 4
    assert statuses.count(503) == 46
    assert "Compare accountants" in page
    assert most <= 5
    wait_until(lambda: len(server.workers()) <= 1)
    connection, response = server.post("/api/train", SMALL)
    assert response.status == 200
    assert list(events(response))[-1]["type"] == "end"
    connection.close()


def test_the_command_ends_cleanly_and_takes_its_processes_along():
    server = Server()
    connection, response = server.post("/api/train", LONG | {"mode": "step"})
    assert next(events(response))["type"] == "started"
    workers = server.workers()

    assert workers
    assert server.end() == 0
    wait_until(lambda: not any(os.path.exists(f"/proc/{each}") for each in workers))
    connection.close()


def test_a_public_server_lets_one_address_train_once_at_a_time():
    server = Server("--public")
    try:
        first = server.post("/api/train", LONG | {"mode": "step"})
        second = server.post("/api/train", LONG | {"mode": "step"})

        assert (first[1].status, second[1].status) == (200, 503)
    finally:
        server.end()
