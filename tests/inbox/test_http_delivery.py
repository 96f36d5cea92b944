"""Outgoing webhooks that arrive: what is sent, how it is signed, and over which connection."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

import brant
from brant.errors import InvalidValue
from brant.inbox import Destination, HttpDelivery, Secret
from brant.inbox.providers.standard_webhooks import StandardWebhooks
from brant.inbox.request import Request
from brant.outcomes import Retry
from brant.testing import FakeClock, drain_tasks
from tests.inbox.keys import ed25519_key, ed25519_public
from tests.inbox.odd_server import Exchange, close_silently, last, odd_server, status
from tests.inbox.serving import serving
from tests.looping import run, until, working
from tests.waiting import line_of, python

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes length").decode()
OTHER = "whsec_" + base64.b64encode(b"another key of the same length!!").decode()
LOCAL: dict[str, Any] = {"allow": "127.0.0.0/8", "allow_http": True}
RECEIVER = f"""
import brant

db = brant.open("app.db")
inbox = brant.Inbox(db)
inbox.endpoint("hook", provider="standard-webhooks", secrets={SECRET!r})
"""


def deliver_all(db: brant.Database, outbox: Any) -> None:
    """Have a worker of the outbox deliver what is there."""

    async def test() -> None:
        async with working(outbox):
            await until(db, lambda: not outbox.queue.exists())

    run(test())


def verified_by_the_library(request: Exchange, secret: str) -> Any:
    return Webhook(secret).verify(request.body, request.headers)


def test_what_an_outbox_delivers_is_verified_by_the_reference_library(db: brant.Database) -> None:
    with odd_server(status(204)) as server:
        outbox = db.outbox("partner", HttpDelivery(server.url, SECRET, **LOCAL))
        outbox.enqueue({"type": "order.paid", "id": 7, "name": "Zoë"})
        deliver_all(db, outbox)
    (request,) = server.requests
    assert verified_by_the_library(request, SECRET) == {"type": "order.paid", "id": 7, "name": "Zoë"}
    assert request.line == "POST /hook?key=s3cret-path HTTP/1.1"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == f"brant/{brant.__version__}"


def test_an_inbox_over_http_takes_it_once_however_often_it_is_delivered(db: brant.Database, tmp_path: Path) -> None:
    folder = tmp_path / "receiver"
    folder.mkdir()
    (folder / "app.py").write_text(RECEIVER)
    with serving(folder) as receiver:
        outbox = db.outbox("partner", HttpDelivery(f"{receiver.url}/hook", SECRET, **LOCAL))
        outbox.enqueue({"type": "order.paid"})
        with db.transaction() as tx:
            # As after a crash between the answer and the ack: the same job once more.
            tx.execute("CREATE TABLE again AS SELECT * FROM _honker_live")
        deliver_all(db, outbox)
        with db.transaction() as tx:
            tx.execute("INSERT INTO _honker_live SELECT * FROM again")
        deliver_all(db, outbox)
        with receiver.inbox() as inbox:
            (event,) = inbox.list_events()
            assert event.event_type == "order.paid"
            assert len(inbox.list_deliveries(event_id=event.id)) == 2


def test_the_id_stays_over_attempts_and_the_time_does_not(timed: brant.Database, clock: FakeClock) -> None:
    with odd_server(status(500), status(500), status(200)) as server:
        outbox = timed.outbox("partner", HttpDelivery(server.url, SECRET, **LOCAL))
        outbox.enqueue({"n": 1})
        began = clock.now()

        async def test() -> None:
            async with working(outbox):
                for attempt in (1, 2):
                    await until(timed, lambda: outbox.queue.stats().delayed == 1 and len(server.requests) == attempt)  # noqa: B023
                    clock.advance(1000)
                await until(timed, lambda: not outbox.queue.exists())

        run(test())
    assert len(server.requests) == 3
    assert len(set(server.ids)) == 1
    times = [int(request.headers["webhook-timestamp"]) for request in server.requests]
    assert times == [began, began + 1000, began + 2000]
    assert len({request.headers["webhook-signature"] for request in server.requests}) == 3


def test_two_jobs_of_the_same_payload_are_two_messages(db: brant.Database) -> None:
    with odd_server(status(204)) as server:
        outbox = db.outbox("partner", HttpDelivery(server.url, SECRET, **LOCAL))
        outbox.enqueue({"n": 1})
        outbox.enqueue({"n": 1})
        deliver_all(db, outbox)
    assert len(set(server.ids)) == 2


def test_while_secrets_are_changed_all_of_them_sign_until_they_run_out() -> None:
    clock = FakeClock(datetime.now(UTC).timestamp())
    old = Secret(OTHER, not_after=clock.now() + 60)
    with odd_server(status(204)) as server:
        delivery = HttpDelivery(server.url, [SECRET, old], clock=clock, **LOCAL)
        delivery.send({"n": 1})
        clock.advance(61)
        delivery.send({"n": 2})
    first, second = server.requests
    assert verified_by_the_library(first, SECRET) == verified_by_the_library(first, OTHER) == {"n": 1}
    assert verified_by_the_library(second, SECRET) == {"n": 2}
    with pytest.raises(WebhookVerificationError):
        verified_by_the_library(second, OTHER)


def test_a_private_key_signs_what_its_public_key_verifies() -> None:
    seed = ed25519_key().private_bytes_raw()
    private = "whsk_" + base64.b64encode(seed + ed25519_public()).decode()
    public = b"whpk_" + base64.b64encode(ed25519_public())
    with odd_server(status(204)) as server:
        HttpDelivery(server.url, [private, SECRET], **LOCAL).send({"n": 1})
    (request,) = server.requests
    told = Request.of(request.body, request.headers)
    now = datetime.now(UTC).timestamp()
    assert StandardWebhooks().verify(told, [public], now) is None
    assert StandardWebhooks().verify(told.adding(), [SECRET.encode()], now) is None
    assert StandardWebhooks().verify(Request.of(b"{}", request.headers), [public], now) == "no signature matches"


def test_a_function_of_the_payload_chooses_place_secret_and_body() -> None:
    def to(payload: dict[str, Any]) -> Destination:
        return Destination(payload["url"], payload["secret"], payload["event"])

    with odd_server(status(204)) as one, odd_server(status(204)) as two:
        delivery = HttpDelivery(to, **LOCAL)
        delivery({"url": one.url, "secret": SECRET, "event": {"n": 1}})
        delivery({"url": two.url, "secret": OTHER, "event": b"\xff raw"})
    assert verified_by_the_library(one.requests[0], SECRET) == {"n": 1}
    assert two.requests[0].body == b"\xff raw"


def test_a_task_of_a_worker_can_deliver_with_an_id_that_stays(timed: brant.Database, clock: FakeClock) -> None:
    with odd_server(status(503), status(204)) as server:
        delivery = HttpDelivery(server.url, SECRET, breaker_failures=None, **LOCAL)
        queue = timed.queue("hooks")

        @queue.task(retries=3)
        def tell(n: int) -> None:
            delivery({"n": n})
            delivery({"n": n + 1})

        tell(1)
        drain_tasks(timed, "hooks")
        clock.advance(3600)
        drain_tasks(timed, "hooks")
    assert [json.loads(request.body)["n"] for request in server.requests] == [1, 1, 2]
    first, again, other = server.ids
    assert first == again != other


def test_unsigned_is_a_choice_that_has_to_be_made() -> None:
    with pytest.raises(InvalidValue, match="secret=None"):
        HttpDelivery("https://example.com/")
    with odd_server(status(204)) as server:
        HttpDelivery(server.url, secret=None, **LOCAL).send({})
    assert "webhook-signature" not in server.requests[0].headers
    assert server.ids[0].startswith("msg_")


def test_connections_are_used_again() -> None:
    with odd_server(status(204)) as server:
        delivery = HttpDelivery(server.url, SECRET, **LOCAL)
        for n in range(5):
            delivery.send({"n": n})
        assert server.connections == 1
        delivery.close()
        delivery.send({})
        delivery.send({})
        assert server.connections == 3


def test_a_connection_that_the_server_has_ended_is_not_used_again() -> None:
    with odd_server(status(204), last(200), status(204)) as server:
        delivery = HttpDelivery(server.url, SECRET, **LOCAL)
        for n in range(3):
            delivery.send({"n": n})
    assert [request.connection for request in server.requests] == [1, 1, 2]


def test_a_connection_that_ends_under_a_request_is_replaced_and_the_message_is_the_same() -> None:
    with odd_server(status(204), close_silently, status(204)) as server:
        delivery = HttpDelivery(server.url, SECRET, **LOCAL)
        delivery.send({"n": 1})
        delivery.send({"n": 2})
    assert [json.loads(request.body)["n"] for request in server.requests] == [1, 2, 2]
    assert server.ids[1] == server.ids[2]


def test_further_headers_go_with_it_and_ours_can_not_be_replaced() -> None:
    with odd_server(status(204)) as server:
        HttpDelivery(server.url, SECRET, headers={"X-Team": "blue", "Content-Type": "text/plain"}, **LOCAL).send({})
    assert server.requests[0].headers["x-team"] == "blue"
    assert server.requests[0].headers["content-type"] == "text/plain"
    for bad in ({"Host": "other"}, {"webhook-id": "1"}, {"X": "a\r\nY: b"}, {"X Y": "a"}, {"X": "é"}):
        with pytest.raises(InvalidValue):
            HttpDelivery("https://example.com/", SECRET, headers=bad)


def test_an_event_loop_is_not_blocked() -> None:
    async def test() -> None:
        await HttpDelivery(server.url, SECRET, **LOCAL).send_async({"n": 1}, message_id="mine")

    with odd_server(status(204)) as server:
        run(test())
    assert server.ids == ["mine"]


@pytest.mark.parametrize("secret", ["", "env:BRANT_TEST_NOT_SET", "whpk_" + "A" * 43 + "=", "whsec_!", [], "whsk_AAAA"])
def test_secrets_that_can_not_sign_are_refused_when_it_is_made(secret: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        HttpDelivery("https://example.com/", secret)
    assert not secret or "A" * 10 not in str(refused.value)


def test_a_secret_that_has_run_out_is_a_failure_and_nothing_is_sent_unsigned() -> None:
    clock = FakeClock()
    ended = Secret(SECRET, not_after=datetime.fromtimestamp(clock.now(), UTC) - timedelta(seconds=1))
    with odd_server(status(204)) as server:
        with pytest.raises(Retry, match="can't be signed"):
            HttpDelivery(server.url, ended, clock=clock, **LOCAL).send({})
        assert server.requests == []


FORKS = """
import os, sys
from brant.inbox import HttpDelivery
delivery = HttpDelivery(sys.argv[1], sys.argv[2], allow="127.0.0.1", allow_http=True)
delivery.send({"from": "parent"})
if os.fork() == 0:
    delivery.send({"from": "child"})
    os._exit(0)
os.wait()
delivery.send({"from": "parent"})
print("done", flush=True)
"""


def test_after_a_fork_parent_and_child_have_connections_of_their_own() -> None:
    with odd_server(status(204)) as server, python(FORKS, server.url, SECRET) as process:
        assert line_of(process) == "done"
    told = [(json.loads(request.body)["from"], request.connection) for request in server.requests]
    assert told == [("parent", 1), ("child", 2), ("parent", 1)]
