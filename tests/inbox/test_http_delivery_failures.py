"""Outgoing webhooks that fail: which are tried again and when, which never, and what is written down about it."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.inbox import HttpDelivery
from brant.outcomes import Dead, Outcome, Retry
from brant.testing import FakeClock
from tests.inbox.odd_server import (
    Act,
    close_silently,
    drip,
    endless,
    odd_server,
    raw,
    reset,
    say_nothing,
    status,
)
from tests.inbox.test_http_delivery import LOCAL, SECRET, deliver_all
from tests.looping import run, until, working
from tests.waiting import PATIENCE_S


def outcome_of(*answers: Act, **options: Any) -> Outcome | None:
    """What one delivery to a server that answers so comes to."""
    with odd_server(*answers) as server:
        try:
            HttpDelivery(server.url, SECRET, **{**LOCAL, **options}).send({"n": 1})
        except Outcome as outcome:
            return outcome
    return None


@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
def test_any_2xx_is_success(code: int) -> None:
    assert outcome_of(status(code)) is None


@pytest.mark.parametrize("code", [408, 409, 421, 423, 425, 429, 500, 502, 503, 504, 520, 599])
def test_what_may_pass_is_tried_again(code: int) -> None:
    outcome = outcome_of(status(code))
    assert isinstance(outcome, Retry)
    assert outcome.after_s is None
    assert outcome.reason.endswith(f"answered {code}")


@pytest.mark.parametrize("code", [300, 304, 400, 401, 403, 404, 405, 410, 413, 415, 422, 451, 501, 505])
def test_what_will_not_get_better_is_dead_at_once(code: int) -> None:
    outcome = outcome_of(status(code))
    assert isinstance(outcome, Dead)
    assert f"answered {code}" in outcome.reason


def test_further_statuses_can_be_tried_again() -> None:
    assert isinstance(outcome_of(status(404), retry_statuses=[404]), Retry)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(code: int) -> None:
    with odd_server(status(204)) as elsewhere:
        outcome = outcome_of(status(code, f"Location: {elsewhere.url}"))
        assert elsewhere.connections == 0
    assert isinstance(outcome, Dead)
    assert "redirects are not followed" in outcome.reason


@pytest.mark.parametrize(
    "answer", [close_silently, reset, raw(b"nonsense\r\n\r\n"), raw(b"HTTP/1.1 2\xff0 So\r\n\r\n")]
)
def test_no_proper_answer_is_tried_again(answer: Act) -> None:
    outcome = outcome_of(answer)
    assert isinstance(outcome, Retry)
    assert "can't be reached" in outcome.reason


def test_a_port_where_nobody_listens_is_tried_again() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        with pytest.raises(Retry, match="ConnectionRefused"):
            HttpDelivery(url, SECRET, **LOCAL).send({})


@pytest.mark.parametrize(
    "answer",
    [
        say_nothing,
        drip(b"HTTP/1.1 200 So\r\nX: "),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
        drip(b"HTTP/1.1 200 So\r\nContent-Length: 2\r\nX-Long: a"),
    ],
    ids=["silence", "dripping headers", "dripping announcements", "a header without end"],
)
def test_the_whole_time_is_bounded_however_steadily_bytes_come(answer: Act) -> None:
    outcome = outcome_of(answer, timeout_s=0.3)
    assert isinstance(outcome, Retry)
    assert "did not answer in time" in outcome.reason


@pytest.mark.parametrize("code", [200, 404])
def test_once_the_status_is_there_a_body_that_drips_changes_nothing(code: int) -> None:
    dripping = drip(f"HTTP/1.1 {code} So\r\nContent-Length: 1000\r\n\r\nab".encode())
    outcome = outcome_of(dripping, timeout_s=2.0)
    assert outcome is None if code == 200 else isinstance(outcome, Dead)


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 So\r\n\r\n", b"HTTP/1.1 200 So\r\nContent-Length: 99999999999\r\n\r\n"]
)
def test_a_huge_answer_is_not_read_and_its_connection_not_used_again(head: bytes) -> None:
    with odd_server(endless(head), status(204)) as server:
        delivery = HttpDelivery(server.url, SECRET, max_response_bytes=1000, **LOCAL)
        delivery.send({"n": 1})
        delivery.send({"n": 2})
    assert [request.connection for request in server.requests] == [1, 2]


def test_too_many_headers_are_no_answer() -> None:
    flood = b"HTTP/1.1 200 So\r\n" + b"X: y\r\n" * 5000 + b"\r\n"
    assert isinstance(outcome_of(raw(flood)), Retry)


def test_announcements_before_the_answer_are_passed_over() -> None:
    hints = raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 So\r\n\r\n")
    assert outcome_of(hints) is None
    assert isinstance(outcome_of(raw(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20)), Retry)


# Retry-After


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_in_seconds_is_waited_for(timed: brant.Database, clock: FakeClock, code: int) -> None:
    with odd_server(status(code, "Retry-After: 120"), status(204)) as server:
        outbox = timed.outbox("partner", HttpDelivery(server.url, SECRET, **LOCAL), base_backoff_s=1)
        outbox.enqueue({"n": 1})

        async def test() -> None:
            async with working(outbox):
                await until(timed, lambda: outbox.queue.stats().delayed == 1)
                due_in = outbox.queue.due_in()
                assert due_in is not None
                assert 120 <= due_in <= 133
                clock.advance(due_in)
                await until(timed, lambda: not outbox.queue.exists())

        run(test())
    assert len(server.requests) == 2


def test_others_for_the_same_host_wait_too_and_use_no_attempt(timed: brant.Database, clock: FakeClock) -> None:
    with odd_server(status(429, "Retry-After: 120"), status(204)) as server:
        outbox = timed.outbox("partner", HttpDelivery(server.url, SECRET, **LOCAL), max_attempts=2)
        for n in range(5):
            outbox.enqueue({"n": n})

        async def test() -> None:
            async with working(outbox):
                await until(timed, lambda: outbox.queue.stats().delayed == 5)
                assert len(server.requests) == 1
                left = timed.query("SELECT max_attempts - attempts AS n FROM _honker_live ORDER BY id")
                assert [row["n"] for row in left] == [1, 2, 2, 2, 2]
                for _ in range(6):
                    clock.advance(140)
                await until(timed, lambda: not outbox.queue.exists())

        run(test())
    assert len(server.requests) == 6


@pytest.mark.parametrize("zone", ["GMT", "+0000"])
def test_retry_after_as_a_date_counts_by_the_clock_of_the_server(clock: FakeClock, zone: str) -> None:
    theirs = datetime(2031, 1, 1, tzinfo=UTC)
    until_then = format_datetime(theirs + timedelta(seconds=300), usegmt=True).replace("GMT", zone)
    dates = (f"Date: {format_datetime(theirs, usegmt=True)}", f"Retry-After: {until_then}")
    outcome = outcome_of(status(503, *dates), clock=clock)
    assert isinstance(outcome, Retry)
    assert outcome.after_s is not None
    assert 300 <= outcome.after_s <= 330


def test_retry_after_as_a_date_counts_by_our_clock_where_the_server_has_none(clock: FakeClock) -> None:
    then = datetime.fromtimestamp(clock.now() + 600, UTC)
    outcome = outcome_of(status(503, f"Retry-After: {format_datetime(then, usegmt=True)}"), clock=clock)
    assert isinstance(outcome, Retry)
    assert outcome.after_s is not None
    assert 600 <= outcome.after_s <= 660


@pytest.mark.parametrize("text", ["soon", "-5", "1.5", "", "0", "Thu, 01 Jan 1970 00:00:00 GMT", "٣", "1e9"])
def test_a_retry_after_that_is_no_time_to_come_leaves_the_backoff(text: str) -> None:
    outcome = outcome_of(raw(f"HTTP/1.1 503 So\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()))
    assert isinstance(outcome, Retry)
    assert outcome.after_s is None


def test_nobody_can_ask_for_more_than_about_a_day() -> None:
    outcome = outcome_of(status(503, "Retry-After: 99999999999999999999"))
    assert isinstance(outcome, Retry)
    assert outcome.after_s is not None
    assert 86_400 <= outcome.after_s <= 95_040


# What is written down


def test_neither_secret_nor_url_nor_signature_is_in_errors_logs_or_the_database(
    db: brant.Database, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTNER_SECRET", SECRET)
    caplog.set_level(logging.DEBUG)
    with odd_server(status(500, "X-Echo: all"), close_silently, status(400, body=b"you sent whsec_...")) as server:
        delivery = HttpDelivery(server.url, "env:PARTNER_SECRET", headers={"Authorization": "Bearer t0ken"}, **LOCAL)
        outbox = db.outbox("partner", delivery, base_backoff_s=0)
        outbox.enqueue({"n": 1})
        deliver_all(db, outbox)
    (dead,) = outbox.queue.list_dead()
    errors = "\n".join(error.error for error in outbox.queue.errors(dead.id))
    assert len(server.requests) == 3
    db.close()
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    signatures = [request.headers["webhook-signature"] for request in server.requests]
    for secret in (SECRET, SECRET.removeprefix("whsec_"), "t0ken", "s3cret-path", *signatures):
        assert secret not in errors + caplog.text + repr(delivery)
        assert secret.encode() not in stored


def test_a_server_that_speaks_no_tls_gets_nothing() -> None:
    heard: list[bytes] = []

    def listen() -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(PATIENCE_S)
            heard.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 204 So\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(Retry, match="SSL"):
            HttpDelivery(url, SECRET, allow="127.0.0.1", tls=ssl.create_default_context()).send({"n": "private"})
    assert b"private" not in b"".join(heard)
