"""The inbox over HTTP: what is answered, and that what was answered with success is stored."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import brant
from brant.inbox.providers import provider
from brant.inbox.providers.base import CannotVerify
from brant.testing import FakeClock
from tests.cli.conftest import Run, brant_command
from tests.inbox.senders import NOW, SENDERS
from tests.inbox.serving import SECRET, Server, answer_on, head, serving, signed
from tests.looping import run
from tests.waiting import PATIENCE_S, line_of, python

__all__ = ["brant_command"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of this file; it believes what 127.0.0.1 says of where a request comes from."""
    with serving(tmp_path_factory.mktemp("served"), "--proxy", "127.0.0.1") as started:
        with started.inbox() as inbox:
            inbox.endpoint("elsewhere", verify="none")
        yield started


def post(server: Server, path: str, body: bytes = b"{}", headers: Any = None, method: str = "POST") -> httpx.Response:
    return httpx.request(method, server.url + path, content=body, headers=headers, timeout=PATIENCE_S)


def test_a_verified_event_is_stored_before_it_is_answered(server: Server) -> None:
    body = b'{"n": "first"}'
    answer = post(server, "/hooks", body, signed(body))
    assert (answer.status_code, answer.content) == (204, b"")
    with server.inbox() as inbox:
        event = inbox.list_events(endpoint="hooks", with_body=True)[0]
    assert (event.body, event.event_type, event.status) == (body, "push", "received")


def test_the_same_event_again_is_a_success_and_no_second_event(server: Server) -> None:
    body = b'{"n": "twice"}'
    assert [post(server, "/hooks", body, signed(body)).status_code for _ in range(2)] == [204, 204]
    with server.inbox() as inbox:
        event = inbox.list_events(endpoint="hooks")[0]
        assert len(inbox.list_deliveries(event_id=event.id)) == 2


@pytest.mark.guarantee("G35")
def test_a_forged_request_is_401_with_a_reason_that_holds_no_secret(server: Server) -> None:
    answer = post(server, "/hooks", b"forged", signed(b"other"))
    assert answer.status_code == 401
    assert answer.text == "no signature matches\n"
    with server.inbox() as inbox:
        assert inbox.list_deliveries(endpoint="hooks")[0].signature_valid is False


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/nowhere", {}, 404),
        ("POST", "/hooks/", {}, 404),
        ("POST", "/", {}, 404),
        ("POST", "/%ff%00", {}, 404),
        ("PUT", "/open", {}, 405),
        ("GET", "/open", {}, 405),
        ("HEAD", "/open", {}, 405),
        ("POST", "/small", {"Content-Length": "1001"}, 413),
        ("POST", "/open", {"X-Large": "x" * 65536}, 431),
        ("POST", "/paused", {}, 503),
        ("POST", "/elsewhere", {}, 503),
        ("POST", "/unset", {}, 503),
        ("POST", "/walled", {}, 403),
    ],
)
def test_what_is_refused_has_its_status(
    server: Server, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    body = b"x" * 1001 if "Content-Length" in headers else b""
    answer = post(server, path, body, headers, method)
    assert answer.status_code == status
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert answer.headers.get("Allow") == ("POST" if status == 405 else None)
    assert len(answer.text) < 100


def test_a_fault_on_this_side_is_not_told_to_strangers(server: Server) -> None:
    assert "SECRET" not in post(server, "/unset").text


def test_more_than_the_rate_limit_is_429_with_the_time_to_wait(server: Server) -> None:
    answers = [post(server, "/limited", body) for body in (b"1", b"2")]
    assert [answer.status_code for answer in answers] == [204, 429]
    assert answers[1].headers["Retry-After"] == "3600"


def test_what_is_refused_before_it_is_read_is_counted(server: Server) -> None:
    for _ in range(2):
        post(server, "/small", b"x" * 2000)
    with server.inbox() as inbox:
        [reject] = [reject for reject in inbox.list_rejects() if reject.endpoint == "small"]
    assert reject.status == 413
    assert reject.count >= 2


@pytest.mark.parametrize(
    ("forwarded", "status"),
    [
        (["192.0.2.7"], 204),
        (["203.0.113.9, 192.0.2.7"], 204),
        (["192.0.2.7, 203.0.113.9"], 403),
        (["192.0.2.7", "203.0.113.9"], 403),
        (["192.0.2.7, unknown"], 403),
        ([], 403),
    ],
)
def test_an_allow_list_goes_by_whom_the_named_proxy_names_last(
    server: Server, forwarded: list[str], status: int
) -> None:
    headers = [("X-Forwarded-For", value) for value in forwarded]
    assert post(server, "/walled", b"{}", headers).status_code == status


def test_nobody_is_believed_who_was_not_named(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert post(server, "/walled", b"{}", {"X-Forwarded-For": "192.0.2.7"}).status_code == 403


def test_a_handshake_is_answered_and_not_stored(server: Server) -> None:
    body = b'{"type": "url_verification", "challenge": "3eZbrw1aB"}'
    request = provider("slack").sign(body, SECRET, time.time())
    answer = post(server, "/slack", body, list(request.headers))
    assert (answer.status_code, answer.text) == (200, "3eZbrw1aB")
    assert answer.headers["Content-Type"].startswith("text/plain")
    with server.inbox() as inbox:
        assert inbox.list_deliveries(endpoint="slack") == []


def test_headers_that_came_twice_are_both_kept(server: Server) -> None:
    assert post(server, "/open", b"headers", [("X-Odd", "1"), ("X-Odd", "2")]).status_code == 204
    with server.inbox() as inbox:
        assert inbox.list_deliveries(endpoint="open")[0].headers.all("x-odd") == ["1", "2"]


@pytest.mark.parametrize("body", [gzip.compress(b"{}" * 1000, mtime=0), b"\xff\xfe\x00", b""])
def test_a_body_is_stored_as_it_was_sent(server: Server, body: bytes) -> None:
    headers = {**signed(body), "Content-Encoding": "gzip"}
    assert post(server, "/hooks", body, headers).status_code == 204
    with server.inbox() as inbox:
        assert inbox.list_deliveries(endpoint="hooks", with_body=True)[0].body == body


@pytest.mark.parametrize(("point", "stored"), [("inbox.before_commit", 0), ("inbox.after_commit", 1)])
def test_a_server_that_dies_around_the_commit_has_not_answered(tmp_path: Path, point: str, stored: int) -> None:
    with serving(tmp_path, BRANT_FAILPOINT=f"{point}:kill") as server:
        with pytest.raises(httpx.TransportError):
            post(server, "/hooks", b"{}", signed(b"{}"))
        with server.inbox() as inbox:
            assert len(inbox.list_events()) == len(inbox.list_deliveries()) == stored


def test_the_signed_curl_of_the_docs_is_taken(server: Server) -> None:
    page = (Path(__file__).parents[2] / "docs" / "inbox.md").read_text()
    [script] = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "openssl" in block]
    script = script.replace("http://127.0.0.1:8000", server.url)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.startswith("HTTP/1.1 204")


# The command


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_cleanly(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as server:
        assert post(server, "/open").status_code == 204
        assert server.command.stopped_by(number) == 0
        assert server.command.error_line() == "brant inbox: stopped cleanly"


def test_a_request_that_outlasts_the_grace_is_told_to_come_again(tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "0.1") as server, server.connect() as slow:
        slow.sendall(head("/open", "Content-Length: 10", "Expect: 100-continue"))
        assert slow.recv(1000).startswith(b"HTTP/1.1 100")  # it is being read
        assert server.command.stopped_by(signal.SIGTERM) == 0
        assert answer_on(slow) == (503, "not now; try again later\n")
        assert "Traceback" not in server.command.stderr.read()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["app"], "MODULE:VAR"),
        (["app:db"], "app:db is no Inbox"),
        (["app:missing"], "has no 'missing'"),
        (["empty:inbox"], "no endpoints"),
        (["app:inbox", "--port", "65536"], "is no port"),
        (["app:inbox", "--proxy", "nginx"], "proxies takes addresses"),
        (["app:inbox", "--host", "192.0.2.1"], "can't listen on 192.0.2.1"),
    ],
)
def test_serve_says_in_one_line_what_is_wrong(
    tmp_path: Path, brant_command: Run, words: list[str], complaint: str
) -> None:
    (tmp_path / "app.py").write_text("import brant\ndb = brant.open('app.db')\ninbox = brant.Inbox(db)\n")
    (tmp_path / "empty.py").write_text("from app import inbox\n")
    with (tmp_path / "app.py").open("a") as app:
        app.write("import sys\nif 'empty:inbox' not in sys.argv: inbox.endpoint('x', verify='none')\n")
    done = brant_command("inbox", "serve", *words)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


# Mounted into other applications


BESIDE_DJANGO = """
import sys
import brant
from django.conf import settings
from django.core.asgi import get_asgi_application
from tests.inbox.test_http import _asked
settings.configure(ROOT_URLCONF=(), ALLOWED_HOSTS=["*"])
django = get_asgi_application()
inbox = brant.Inbox(brant.open(sys.argv[1]))
inbox.endpoint("hooks", path="/in/hooks", verify="none")
hooks = inbox.asgi()
async def app(scope, receive, send):
    await (hooks if scope.get("path", "").startswith("/in/") else django)(scope, receive, send)
print([_asked(app, path) for path in ("/in/hooks", "/in/other", "/page")], flush=True)
"""


def _asked(app: Any, path: str) -> int:
    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return (await client.post(path, content=b"{}")).status_code

    return asyncio.run(ask())


def _in_starlette(inbox: brant.Inbox) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/in", app=inbox.asgi())])


def _in_fastapi(inbox: brant.Inbox) -> Any:
    from fastapi import FastAPI

    app = FastAPI()
    app.mount("/in", inbox.asgi())
    return app


@pytest.mark.parametrize("mount", [_in_starlette, _in_fastapi])
def test_it_can_be_mounted_and_its_paths_are_below_that(db: brant.Database, mount: Any) -> None:
    with brant.Inbox(db) as inbox:
        inbox.endpoint("hooks", path="/hooks", verify="none")
        app = mount(inbox)
        assert [_asked(app, path) for path in ("/in/hooks", "/hooks", "/in/other")] == [204, 404, 404]
        assert len(inbox.list_events()) == 1


def test_it_can_stand_beside_django(path: Path) -> None:
    with python(BESIDE_DJANGO, path) as process:
        assert line_of(process) == "[204, 404, 404]"


@pytest.mark.parametrize(
    ("kind", "messages", "answers"),
    [
        ("websocket", ["websocket.connect"], ["websocket.close"]),
        (
            "lifespan",
            ["lifespan.startup", "lifespan.shutdown"],
            ["lifespan.startup.complete", "lifespan.shutdown.complete"],
        ),
    ],
)
def test_it_answers_what_else_a_server_asks(
    inbox: brant.Inbox, kind: str, messages: list[str], answers: list[str]
) -> None:
    coming, sent = iter(messages), []

    async def receive() -> dict[str, Any]:
        return {"type": next(coming)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    run(inbox.asgi()({"type": kind, "path": "/"}, receive, send))
    assert sent == answers


# Subscriptions


@pytest.mark.parametrize(("failure", "status"), [(None, "200"), (CannotVerify("away"), "503")])
def test_a_subscription_is_confirmed_or_the_sender_tries_again(
    inbox: brant.Inbox, clock: FakeClock, failure: Exception | None, status: str
) -> None:
    clock.advance(NOW - clock.now())
    sns = SENDERS["aws-sns"]
    inbox.endpoint("sns", provider=sns.provider())
    request = sns.provider().sign(b"", sns.signing(), NOW, event_type="SubscriptionConfirmation")
    happened: list[str] = []

    def fetch(url: str) -> bytes:
        happened.append(url)
        if failure is not None:
            raise failure
        return b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.body}

    async def send(message: Any) -> None:
        happened.append(str(message.get("status", message["type"])))

    scope = {"type": "http", "method": "POST", "path": "/sns", "headers": [], "query_string": b""}
    run(inbox.asgi(fetch=fetch)(scope, receive, send))
    assert happened == [json.loads(request.body)["SubscribeURL"], status, "http.response.body"]
