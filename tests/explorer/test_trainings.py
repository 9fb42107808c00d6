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


class Posted:
    """The response to a request, perhaps a stream; closed like a page."""

    def __init__(self, connection):
        self._connection, self._response = connection, connection.getresponse()
        self.status, self.headers = self._response.status, self._response.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __iter__(self):
        """Yield what a stream says."""
        for line in self._response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def close(self):
        self._response.close()
        self._connection.close()


class Server:
    """`ferrodp explore`, and requests as its own page sends them."""

    def __init__(self, *options):
        command = [sys.executable, "-m", "ferrodp", "explore", "--no-browser", "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline())[1])
        self.token = re.search(r'name="token" content="([^"]+)"', self.get("/playground"))[1]

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"content-type": "application/json", "x-ferrodp-token": self.token}
        connection.request("POST", path, json.dumps(body), headers)
        return Posted(connection)

    def does(self, path):
        """Send a command and return the status."""
        with self.post(path, {}) as posted:
            return posted.status

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


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_training_says_where_it_stands_from_its_first_step_to_its_last(server):
    with server.post("/api/train", SMALL) as training:
        found = list(training)

    assert training.status == 200
    assert training.headers["content-type"] == "text/event-stream"
    assert [each["type"] for each in found] == ["started", *["step"] * (len(found) - 2), "end"]
    steps = [each["step"] for each in found[1:]]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, found[-1]["num_steps"])
    assert found[-1]["answer"]["numbers"]["Steps"] == str(steps[-1])


def test_what_is_streamed_is_what_the_cell_prints(server):
    with server.post("/api/train", SMALL) as training:
        answer = list(training)[-1]["answer"]
    ran = subprocess.run([sys.executable, "-c", answer["cell"]], capture_output=True, text=True, check=True)

    assert [f"{label}: {value}" for label, value in answer["numbers"].items()] == ran.stdout.splitlines()


def test_a_training_is_paused_stepped_and_resumed(server):
    with server.post("/api/train", LONG | {"mode": "step"}) as training:
        stream = iter(training)
        name = next(stream)["name"]

        assert [next(stream)["step"] for _ in range(2)] == [0, 1]
        for step in (2, 3):
            assert server.does(f"/api/train/{name}/step") == 200
            assert next(stream)["step"] == step
        assert server.does(f"/api/train/{name}/resume") == 200
        assert next(stream)["step"] > 3
        assert server.does(f"/api/train/{name}/faster") == 404
        assert server.does("/api/train/nothing/step") == 404


def test_no_process_is_left_when_the_page_closes(server):
    wait_until(lambda: len(server.workers()) == 1)  # that which waits to be used
    before = set(server.workers())
    with server.post("/api/train", LONG | {"mode": "step"}) as training:
        stream = iter(training)
        while next(stream)["type"] == "started":
            pass
        wait_until(lambda: len(server.workers()) == 2)

    wait_until(lambda: len(server.workers()) == 1)
    assert before.isdisjoint(server.workers())  # the one that trained is gone


def test_fifty_trainings_at_once_are_a_few_and_the_page_answers(server):
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: server.post("/api/train", LONG | {"mode": "step"}), range(50)))
    statuses = [training.status for training in found]
    page = server.get("/account/compare")
    most = len(server.workers())
    for training in found:
        training.close()

    assert (statuses.count(200), statuses.count(503)) == (4, 46)
    assert "Compare accountants" in page
    assert most <= 5
    wait_until(lambda: len(server.workers()) == 1)
    with server.post("/api/train", SMALL) as training:
        assert list(training)[-1]["type"] == "end"


def test_the_command_ends_cleanly_and_takes_its_processes_along():
    server = Server()
    with server.post("/api/train", LONG | {"mode": "step"}) as training:
        assert next(iter(training))["type"] == "started"
        workers = server.workers()

        assert workers
        assert server.end() == 0
        wait_until(lambda: not any(os.path.exists(f"/proc/{each}") for each in workers))


def test_a_public_server_lets_one_address_train_once_at_a_time():
    server = Server("--public")
    try:
        with server.post("/api/train", LONG | {"mode": "step"}) as one, server.post("/api/train", LONG) as other:
            assert (one.status, other.status) == (200, 503)
    finally:
        server.end()


def test_the_server_ends_while_an_answer_is_computed():
    """Membership with the most trainings takes long; nobody waits for its thread."""
    server = Server()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/api/figure/membership?trainings=400&steps=40")
    time.sleep(1.0)
    began = time.monotonic()

    assert server.end() == 0
    connection.close()
    assert time.monotonic() - began < 10  # two seconds of grace, and the interpreter's end
