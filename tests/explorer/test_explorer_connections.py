"""How many connections one address may hold, and for how long it may send a request."""

import contextlib
import http.client
import socket
import sys
import threading
import time

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

import uvicorn

from ferrodp.explorer.app import security
from ferrodp.explorer.app.application import build
from ferrodp.explorer.app.connections import network, protocol
from support.asgi import request

MOST, SECONDS = 4, 0.4
PATH = "/static/style.css"
ELSEWHERE = pytest.mark.skipif(sys.platform != "linux", reason="other systems give loopback one address")


@pytest.fixture
def port():
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        build(token="t"), http=protocol(most=MOST, seconds=SECONDS), ws="none", log_level="critical",
        limit_concurrency=4 * MOST, timeout_keep_alive=30, timeout_graceful_shutdown=1,
    )  # fmt: skip
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    running.should_exit = True
    thread.join(10.0)
    listener.close()
    assert not thread.is_alive()


def connected(port, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", port), timeout=10.0, source_address=(source, 0))


def status(port, source="127.0.0.1"):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0, source_address=(source, 0))
    with contextlib.closing(client):
        client.request("GET", PATH)
        return client.getresponse().status


def is_closed(connection, within):
    """Return whether the server closes a connection within so many seconds."""
    connection.settimeout(within)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@ELSEWHERE
def test_an_address_that_holds_all_its_connections_keeps_no_other_out(port):
    with contextlib.ExitStack() as held:
        for _ in range(20 * MOST):  # many times what the whole server would hold
            held.enter_context(connected(port, "127.0.0.2")).sendall(b"GET / HTTP/1.1\r\nHost: 127.")

        assert status(port) == 200
        with connected(port, "127.0.0.2") as beyond:
            assert is_closed(beyond, within=10.0)


def test_half_a_header_is_not_waited_for(port):
    for sent in (b"", b"GET /", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
        with connected(port) as slow:
            slow.sendall(sent)
            began = time.monotonic()

            assert is_closed(slow, within=10.0)
            assert time.monotonic() - began > SECONDS / 2


def test_bytes_that_trickle_in_do_not_gain_time(port):
    with connected(port) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):  # 10 s at least: 25 times the limit
                slow.sendall(b"a")
                if is_closed(slow, within=SECONDS / 4):
                    break
            else:
                pytest.fail("the server waits for ever")


def test_connections_that_are_closed_do_not_count(port):
    for _ in range(3 * MOST):
        assert status(port) == 200


def test_a_second_half_of_a_header_has_its_time_too(port):
    with connected(port) as slow:
        slow.sendall(f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert slow.recv(1) == b"H"
        with contextlib.suppress(TimeoutError):
            while slow.recv(1 << 16):
                slow.settimeout(SECONDS / 4)
        slow.sendall(b"GET / HTTP/1.1\r\n")

        assert is_closed(slow, within=10.0)


def test_a_body_that_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(security, "BODY_SECONDS", 0.05)
    headers = [("content-type", "application/json"), ("x-ferrodp-token", "t"), ("content-length", "9")]

    assert request(build(token="t"), "/api/train", method="POST", body=None, headers=headers).status == 408


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("2001:db8::ffff:0:0:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_a_client_is_an_address_or_a_network_of_one(host, counted):
    assert network(host) == counted
