"""What the explorer's server refuses, and what its pages may do in a browser."""

import random
import re

import pytest

pytest.importorskip("starlette")

from ferrodp.errors import InvalidParameter
from ferrodp.explorer import create_app
from ferrodp.explorer.app import server
from ferrodp.explorer.app.application import build
from ferrodp.explorer.app.security import MAX_BODY, MAX_TARGET
from ferrodp.explorer.app.templates import static_files
from ferrodp.explorer.app.trainings import Trainings
from support.asgi import request

TOKEN = "t" * 43
POSTED = [("content-type", "application/json"), ("x-ferrodp-token", TOKEN)]


@pytest.fixture(scope="module")
def app():
    return build(token=TOKEN)


def post(app, path, body=b"{}", *, headers=POSTED, **others):
    return request(
        app, path, method="POST", body=body, headers=[*headers, ("content-length", str(len(body)))], **others
    )


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8421", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.2",
        "127.0.0.1:8421@evil.example", "127.0.0.1/", "127.0.0.1 evil", "[::2]", "0.0.0.0", "127.0.0.1:99999999",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/figure/account", "/static/style.css"])
def test_a_foreign_host_gets_nothing(app, host, path):
    reply = request(app, path, host=host)

    assert reply.status == 400
    assert reply.json["error"]["code"] == "bad_request"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost:8421", "LOCALHOST", "[::1]:8421"])
def test_the_names_of_this_machine_are_served(app, host):
    assert request(app, "/account/compare", host=host).status == 200


def test_two_hosts_are_refused(app):
    assert request(app, "/", headers=[("host", "127.0.0.1")]).status == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "file://", "http://localhost:8421"]
)
def test_a_foreign_origin_gets_nothing(app, origin):
    for reply in (
        request(app, "/api/figure/account", headers=[("origin", origin)]),
        post(app, "/api/train", headers=[*POSTED, ("origin", origin)]),
    ):
        assert reply.status == 403


def test_other_sites_may_link_to_a_page_and_nothing_else(app):
    foreign = ("sec-fetch-site", "cross-site")

    assert request(app, "/api/figure/account", headers=[foreign, ("sec-fetch-mode", "no-cors")]).status == 403
    assert request(app, "/account/compare", headers=[foreign, ("sec-fetch-mode", "navigate")]).status == 200
    assert post(app, "/api/train", headers=[*POSTED, foreign, ("sec-fetch-mode", "navigate")]).status == 403


@pytest.mark.parametrize("token", ["", "T" * 43, TOKEN[:-1], TOKEN + "t", "ÿ"])
@pytest.mark.parametrize("path", ["/api/train", "/api/action/spending", "/api/train/x/pause"])
def test_nothing_that_acts_runs_without_the_token(app, path, token):
    headers = [("content-type", "application/json"), ("x-ferrodp-token", token)]

    assert post(app, path, headers=headers).status == 403
    assert post(app, path, headers=headers[:1]).status == 403
    assert post(app, path, headers=[*POSTED, headers[1]]).status == 403  # the right one does not excuse another


def test_two_applications_have_different_tokens_and_pages_hold_their_own():
    tokens = {
        re.search(r'name="token" content="([^"]+)"', request(create_app(), "/account/compare").text)[1] for _ in "ab"
    }

    assert len(tokens) == 2
    assert all(len(token) >= 43 for token in tokens)


def test_bodies_are_bounded_whatever_their_length_says(app):
    large = b'{"a": "' + b"x" * MAX_BODY + b'"}'

    assert post(app, "/api/train", large).status == 413
    lying = [*POSTED, ("content-length", "10")]
    assert request(app, "/api/train", method="POST", body=large, headers=lying).status == 413
    assert request(app, "/api/train", method="POST", body=b"{}", headers=POSTED).status == 411
    assert request(app, "/api/train", method="POST", headers=[*POSTED, ("content-length", "-1")]).status == 411
    assert request(app, "/api/train", method="POST", headers=[*POSTED, ("content-length", "9" * 400)]).status == 413


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"x"', b'{"a": 1}', b'{"a": {}}', b"[" * 4000, b"\xff\xfe", b'{"dataset": null}',
        b"NaN", b'{"mode": ["run"]}',
    ],
)  # fmt: skip
def test_malformed_bodies_are_refused(app, body):
    reply = post(app, "/api/train", body)

    assert reply.status == 422
    assert reply.json["schema"] == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"dataset": "../../etc/passwd"}', b'{"model": "__import__"}', b'{"epochs": "1e9"}', b'{"epochs": "nan"}',
        b'{"epochs": "1.5"}', b'{"clip_norm": "-1"}', b'{"clip_norm": "inf"}', b'{"unknown": "1"}', b'{"seed": "-1"}',
        b'{"mode": "faster"}', b'{"repeats": "1000000"}', b'{"noise_multiplier": "1_0"}',
    ],
)  # fmt: skip
def test_a_training_starts_with_nothing_but_parameters_in_their_domain(app, body):
    reply = post(app, "/api/train", body)

    assert reply.status == 422
    assert reply.json["error"]["message"]


def test_other_content_types_are_refused(app):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert post(app, "/api/train", headers=[("content-type", kind), POSTED[1]]).status == 415


@pytest.mark.parametrize(
    "path",
    [
        "/static/../__init__.py", "/static/..%2f..%2fplan.py", "/static/%2e%2e/figures.py", "/static/style.css/",
        "/static/", "/static/C:\\windows", "/static/style.css\x00.js", "/learn/../../etc/passwd",
        "/api/figure/../train", "/api/figure/__class__", "/account/compare/more", "//evil.example/account",
    ],
)  # fmt: skip
def test_no_path_reaches_a_file(app, path):
    reply = request(app, path)

    assert reply.status in (302, 307, 404)
    assert reply.headers.get("location", "/").startswith("/")
    assert not reply.headers.get("location", "/").startswith("//")
    assert b"root:" not in reply.body


def test_methods_that_no_page_uses_are_refused(app):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"):
        assert request(app, "/account/compare", method=method).status == 405


def test_addresses_are_bounded(app):
    assert request(app, "/api/figure/account", query="delta=" + "1" * MAX_TARGET).status == 414
    assert request(app, "/" + "a" * MAX_TARGET).status == 414


@pytest.mark.parametrize(
    "query",
    [
        "delta=2", "delta=nan", "delta=inf", "delta=", "delta=1e-5&delta=1e-6", "nothing=1", "num_steps=1.5",
        "num_steps=1e99", "delta=0x1", "sampling_probability=-0.1", "delta=" + "1" * 100, "delta=%00", "delta[]=1",
    ],
)  # fmt: skip
def test_a_parameter_outside_its_domain_is_refused_in_the_words_of_the_library(app, query):
    reply = request(app, "/api/figure/account", query=query)

    assert reply.status == 422
    assert reply.json["error"]["code"] == "InvalidParameter"
    assert "<" not in reply.json["error"]["message"]


def test_every_reply_carries_the_policy(app):
    replies = [
        request(app, "/account/compare"), request(app, "/static/style.css"), request(app, "/api/figure/account"),
        request(app, "/none"), request(app, "/", host="evil.example"), request(app, "/"), post(app, "/api/train", b"["),
    ]  # fmt: skip
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "style-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in reply.headers


def test_pages_hold_no_inline_script_or_style_and_name_no_other_host(app, monkeypatch):
    monkeypatch.setattr(Trainings, "prepare", lambda self: None)  # the loop of one request could not end the process
    for path in ("/account/compare", "/playground", "/learn/coin", "/none"):
        page = request(app, path).text
        assert re.findall(r"\sstyle=|\son\w+=|javascript:|<style", page) == []
        assert [
            each for each in re.findall(r"<script([^>]*)>", page) if "src=" not in each and "json" not in each
        ] == []
        assert [url for url in re.findall(r"https?://[^\s\"'<]+", page) if "w3.org" not in url] == []
    for name, file in static_files().items():
        text = file.body.decode()
        assert [url for url in re.findall(r"https?://[^\s\"'<`]+", text) if "www.w3.org" not in url] == [], name
        assert (
            re.findall(r"\beval\(|new Function|innerHTML|outerHTML|document\.write|insertAdjacentHTML", text) == []
        ), name


def test_the_page_is_small():
    assert sum(len(file.body) for file in static_files().values()) <= 250_000


def test_a_hundred_hostile_requests_leave_the_page_as_it_is(app):
    before = request(app, "/account/compare").body
    rng = random.Random(1)
    parts = [
        "/",
        "..",
        "%2e",
        "api",
        "figure",
        "train",
        "static",
        "\x00",
        "é",
        "<script>",
        "account",
        "{}",
        "~",
        "?",
        "#",
        "\\",
    ]
    for _ in range(100):
        path = "/" + "".join(rng.choice(parts) for _ in range(rng.randrange(1, 8)))
        query = "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(40)))
        body = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        method = rng.choice(["GET", "POST", "PUT", "HEAD"])
        headers = [*POSTED, ("content-length", str(len(body)))] if method == "POST" else []
        reply = request(app, path, method=method, query=query, body=body, headers=headers)
        assert reply.status in (200, 302, 307, 404, 405, 411, 414, 415, 422), (method, path, query)

    assert request(app, "/account/compare").body == before


def test_a_public_server_limits_the_requests_of_each_address():
    app = build(public=True, token=TOKEN)
    found = [request(app, "/static/icon.svg", host="any.example", client="192.0.2.1").status for _ in range(400)]

    assert found[:100] == [200] * 100
    assert found.count(429) >= 100
    assert request(app, "/static/icon.svg", host="any.example", client="192.0.2.2").status == 200


def test_a_public_server_still_knows_who_asks():
    app = build(public=True, token=TOKEN)

    assert (
        post(app, "/api/train", host="any.example", headers=[*POSTED, ("origin", "http://evil.example")]).status == 403
    )
    assert post(app, "/api/train", host="any.example", headers=POSTED[:1]).status == 403


def test_a_server_for_named_hosts_answers_these_and_no_others():
    app = create_app(public=True, hosts=["dp.example"])

    assert request(app, "/static/icon.svg", host="dp.example").status == 200
    assert request(app, "/static/icon.svg", host="evil.example").status == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "dp.example"])
def test_addresses_that_others_can_reach_need_the_word_public(host):
    with pytest.raises(InvalidParameter, match="--public"):
        server.serve(host=host, browser=False, say=print)


def test_loopback_addresses_are_known():
    assert all(map(server.is_loopback, ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"]))
    assert not any(map(server.is_loopback, ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", ""]))


def test_websockets_are_closed(app):
    import asyncio

    sent = []

    async def keep(message):
        sent.append(message)

    asyncio.run(app({"type": "websocket", "headers": []}, None, keep))

    assert sent == [{"type": "websocket.close", "code": 1008}]
