"""Senders that lie, dawdle, flood or crowd: the right status, bounded memory, and a server that goes on."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import httpx
import pytest

import brant
from tests.inbox.serving import Server, answer_on, head, serving, signed
from tests.looping import run
from tests.waiting import PATIENCE_S

GIGABYTE, MEGABYTE = 1 << 30, 1 << 20
KILLS = int(os.environ.get("BRANT_INBOX_KILLS", "3"))
SENDERS = 32


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Impatient, and the same for all tests of this file."""
    with serving(tmp_path_factory.mktemp("served"), "--body-timeout", "0.5") as started:
        yield started


@pytest.fixture(autouse=True)
def _goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever was done to it, the server takes the next event."""
    yield
    if "server" in request.fixturenames:
        server: Server = request.getfixturevalue("server")
        body = request.node.name.encode()
        assert httpx.post(f"{server.url}/hooks", content=body, headers=signed(body)).status_code == 204


def stored(server: Server, endpoint: str) -> int:
    with server.inbox() as inbox:
        return len(inbox.list_deliveries(endpoint=endpoint))


# Size


def test_a_gigabyte_that_is_announced_is_refused_unread(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(head("/open", f"Content-Length: {GIGABYTE}", "Expect: 100-continue"))
        assert answer_on(connection) == (413, f"the body is larger than {MEGABYTE} bytes\n")


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.guarantee("G36")
def test_a_gigabyte_that_is_sent_all_the_same_costs_no_memory(server: Server, announced: bool) -> None:
    httpx.post(f"{server.url}/open", content=b"x" * MEGABYTE)  # the most that is allowed
    before = server.most_memory()
    part = b"x" * 65536
    chunk = part if announced else b"10000\r\n" + part + b"\r\n"
    length = f"Content-Length: {GIGABYTE}" if announced else "Transfer-Encoding: chunked"
    with server.connect() as connection:
        connection.sendall(head("/open", length))
        with suppress(ConnectionError):  # it hangs up on whoever does not stop
            for _ in range(GIGABYTE // len(part)):
                connection.sendall(chunk)
        assert answer_on(connection)[0] == 413
    assert server.most_memory() - before < 16 * MEGABYTE


def test_a_body_of_the_largest_size_is_taken_and_one_byte_more_is_not_cut_off(server: Server) -> None:
    def statuses(size: int) -> list[int]:
        body = os.urandom(size)
        whole = httpx.post(f"{server.url}/small", content=body, headers=signed(body))
        chunked = httpx.post(f"{server.url}/small", content=iter([body[:500], body[500:]]), headers=signed(body))
        return [whole.status_code, chunked.status_code]

    assert statuses(1000) == [204, 204]
    assert statuses(1001) == [413, 413]


def _lines(count: int, size: int) -> list[str]:
    return [f"X-{number}: {'v' * size}" for number in range(count)]


@pytest.mark.parametrize(
    ("lines", "status"),
    [(_lines(10_000, 1), 431), (_lines(1001, 1), 431), (_lines(1, 70_000), 431), (_lines(100, 60_000), 400)],
)
def test_too_many_or_too_large_headers_are_refused(server: Server, lines: list[str], status: int) -> None:
    before = stored(server, "open")
    with server.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(head("/open", *lines, "Content-Length: 0"))
        assert answer_on(connection)[0] == status
    assert stored(server, "open") == before


@pytest.mark.parametrize("beginning", ["X-Endless: ", "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: "])
def test_a_line_without_end_costs_no_memory(server: Server, beginning: str) -> None:
    before = server.most_memory()
    with server.connect() as connection:
        connection.sendall(f"POST /open HTTP/1.1\r\nHost: here\r\n{beginning}".encode())
        with pytest.raises(ConnectionError):
            for _ in range(64):
                connection.sendall(b"v" * MEGABYTE)
    assert server.most_memory() - before < 16 * MEGABYTE


def test_what_comes_behind_the_body_is_no_header(server: Server) -> None:
    body = b"not signed before it was sent"
    trailers = "".join(f"{name}: {value}\r\n" for name, value in signed(body).items())
    with server.connect() as connection:
        connection.sendall(head("/hooks", "Transfer-Encoding: chunked", "X-GitHub-Event: push"))
        connection.sendall(b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers.encode()))
        assert answer_on(connection)[0] == 401


# Time


def test_a_body_that_takes_too_long_is_408_and_nobody_waits_for_it(server: Server) -> None:
    before = stored(server, "open")
    with server.connect() as slow:
        slow.sendall(head("/open", "Content-Length: 10") + b"12345")
        assert httpx.post(f"{server.url}/open", content=b"meanwhile").status_code == 204
        assert answer_on(slow) == (408, "the body took too long\n")
    assert stored(server, "open") == before + 1


# Lies


def test_a_body_that_ends_too_early_is_not_stored(server: Server) -> None:
    before = stored(server, "open")
    for _ in range(5):
        with server.connect() as connection:
            connection.sendall(head("/open", "Content-Length: 10") + b"12345")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1000).partition(b" ")[2][:3] in (b"", b"400")
    assert stored(server, "open") == before


def test_what_comes_after_the_announced_length_is_not_part_of_the_body(server: Server) -> None:
    body = b"1234567890"
    lines = [f"{name}: {value}" for name, value in signed(body).items()]
    with server.connect() as connection:
        connection.sendall(head("/hooks", "Content-Length: 5", *lines) + body)
        assert answer_on(connection)[0] == 401
    with server.inbox() as inbox:
        assert all(event.body not in (body, body[:5]) for event in inbox.list_events(endpoint="hooks", limit=1000))


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: -5"],
        ["Content-Length: 0x5"],
        ["Content-Length: 5, 6"],
        ["Transfer-Encoding: gzip"],
    ],
)
def test_a_length_that_can_be_read_in_two_ways_is_refused(server: Server, lines: list[str]) -> None:
    before = stored(server, "open")
    with server.connect() as connection:
        connection.sendall(head("/open", *lines) + b"5\r\n12345\r\n0\r\n\r\n")
        assert answer_on(connection)[0] in (400, 501)
    assert stored(server, "open") == before


@pytest.mark.parametrize(
    "chunks", [b"zz\r\nxx\r\n", b"5\r\n123456789\r\n0\r\n\r\n", b"-1\r\nx\r\n", b"f" * 30 + b"\r\n"]
)
def test_chunks_that_lie_are_400_and_not_stored(server: Server, chunks: bytes) -> None:
    before = stored(server, "open")
    with server.connect() as connection:
        connection.sendall(head("/open", "Transfer-Encoding: chunked") + chunks)
        assert answer_on(connection)[0] == 400
    assert stored(server, "open") == before


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"\r\n" * 10 + b"\0\0\r\n\r\n"])
def test_what_is_no_http_is_400(server: Server, noise: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1000).partition(b" ")[2][:3] in (b"400", b"")


def test_a_signature_that_came_twice_is_refused(server: Server) -> None:
    body = b"which one was signed"
    headers = [*signed(body).items(), ("X-Hub-Signature-256", "sha256=00")]
    answer = httpx.post(f"{server.url}/hooks", content=body, headers=headers)
    assert (answer.status_code, answer.text) == (401, "the header X-Hub-Signature-256 came more than once\n")


# Any ASGI server, also one that checks less


Asgi = Callable[..., Any]


async def _exchanged(app: Asgi, messages: Iterable[dict[str, Any]], *headers: tuple[bytes, bytes]) -> tuple[int, bytes]:
    sent: list[Any] = []
    coming = iter(messages)

    async def receive() -> Any:
        return next(coming, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/in", "headers": list(headers), "query_string": b""}
    await app(scope, receive, send)
    return (sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])) if sent else (0, b"")


def _part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_shorter_than_announced_is_400_whatever_the_server_let_through(inbox: brant.Inbox) -> None:
    inbox.endpoint("in", verify="none")

    async def exchange() -> None:
        answer = await _exchanged(inbox.asgi(), [_part(b"123")], (b"content-length", b"4"))
        assert answer == (400, b"the body is not as long as Content-Length says\n")

    run(exchange())
    assert inbox.list_deliveries() == []


def test_whoever_goes_away_before_the_end_of_the_body_leaves_nothing(inbox: brant.Inbox) -> None:
    inbox.endpoint("in", verify="none")

    async def exchange() -> None:
        assert await _exchanged(inbox.asgi(), [_part(b"123", more=True)]) == (0, b"")

    run(exchange())
    assert inbox.list_deliveries() == []


def test_a_refused_sender_has_some_time_to_read_the_answer_and_is_then_hung_up_on(inbox: brant.Inbox) -> None:
    inbox.endpoint("in", verify="none", max_body=10)
    taken = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal taken
        while True:
            taken += 1
            yield _part(b"x" * MEGABYTE, more=True)

    async def exchange() -> None:
        assert await _exchanged(inbox.asgi(), endless()) == (413, b"the body is larger than 10 bytes\n")

    run(exchange())
    assert 1 < taken < 10


def test_a_fault_of_its_own_is_503_so_that_the_sender_tries_again(inbox: brant.Inbox) -> None:
    inbox.endpoint("in", verify="none")
    app = inbox.asgi()

    async def exchange() -> None:
        assert (await _exchanged(app, [_part(b"{}")]))[0] == 204
        inbox.close()
        assert await _exchanged(app, [_part(b"{}")]) == (503, b"not now; try again later\n")
        inbox.endpoints.clear()
        inbox.db.close()
        assert await _exchanged(app, [_part(b"{}")]) == (503, b"not now; try again later\n")

    run(exchange())


@pytest.mark.guarantee("G36")
def test_bodies_that_are_being_read_hold_no_more_than_is_allowed_together(inbox: brant.Inbox) -> None:
    inbox.endpoint("in", verify="none", max_body=100)
    app = inbox.asgi(max_held_bytes=150)

    async def exchange() -> None:
        holds, finish = asyncio.Event(), asyncio.Event()
        asked = 0

        async def slowly() -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                return _part(b"x" * 90, more=True)
            holds.set()
            await finish.wait()
            return _part(b"")

        async def ignored(_: Any) -> None:
            pass

        scope = {"type": "http", "method": "POST", "path": "/in", "headers": [], "query_string": b""}
        first = asyncio.create_task(app(scope, slowly, ignored))
        await holds.wait()
        assert (await _exchanged(app, [_part(b"y" * 90)]))[0] == 503
        finish.set()
        await first
        assert (await _exchanged(app, [_part(b"y" * 90)]))[0] == 204

    run(exchange())
    assert len(inbox.list_deliveries()) == 2


# Crowds and crashes


@pytest.mark.guarantee("G30")
def test_the_same_event_twenty_times_at_once_is_one_event(server: Server) -> None:
    body, start = b'{"n": "crowd"}', Barrier(20)

    def send(_: int) -> int:
        with httpx.Client() as client:
            start.wait(PATIENCE_S)
            return client.post(
                f"{server.url}/hooks", content=body, headers=signed(body), timeout=PATIENCE_S
            ).status_code

    with ThreadPoolExecutor(20) as crowd:
        assert list(crowd.map(send, range(20))) == [204] * 20
    with server.inbox() as inbox:
        event = inbox.list_events(endpoint="hooks")[0]
        assert len(inbox.list_deliveries(event_id=event.id)) == 20


def _send_until_it_dies(server: Server, name: str, warm: Event) -> list[str]:
    """The names of all events that were answered with success."""
    answered: list[str] = []
    with httpx.Client(timeout=PATIENCE_S) as client:
        while True:
            event = f"{name}-{len(answered)}"
            body = json.dumps({"n": event}).encode()
            try:
                answer = client.post(f"{server.url}/hooks", content=body, headers=signed(body))
            except httpx.TransportError:
                return answered
            assert answer.status_code == 204
            answered.append(event)
            if len(answered) == 3:
                warm.set()


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.guarantee("G29")
def test_whenever_the_server_is_killed_each_success_is_stored_once_and_handled_once(tmp_path: Path) -> None:
    answered: list[str] = []
    for kill in range(KILLS):
        warm = [Event() for _ in range(SENDERS)]
        with serving(tmp_path) as server, ThreadPoolExecutor(SENDERS) as crowd:
            sending = [
                crowd.submit(_send_until_it_dies, server, f"{kill}-{number}", warm[number]) for number in range(SENDERS)
            ]
            assert all(each.wait(PATIENCE_S) for each in warm)
            server.command.process.kill()
            answered += [event for each in sending for event in each.result(PATIENCE_S)]
    assert len(answered) >= KILLS * SENDERS * 3
    with brant.open(tmp_path / "app.db") as db:
        stored = [json.loads(row["body_blob"])["n"] for row in db.query("SELECT body_blob FROM knocker_events")]
        assert len(stored) == len(set(stored)) == len(db.query("SELECT 1 FROM knocker_deliveries"))
        assert set(answered) <= set(stored)
        # What was cut off is there wholly or not at all: each event has its job.
        assert len(db.query("SELECT 1 FROM _honker_live WHERE queue = 'knocker.events'")) == len(stored)
    _handle_all(tmp_path)
    with brant.open(tmp_path / "app.db") as db:
        assert len(db.query("SELECT event FROM ledger")) == len(db.query("SELECT DISTINCT event FROM ledger"))
        assert len(db.query("SELECT event FROM ledger")) == len(stored)


def _handle_all(folder: Path) -> None:
    from tests.cli.processes import running

    with running(folder, "worker", "app:db", "--drain", "--quiet") as worker:
        assert worker.exit_code() == 0, worker.stderr.read()
