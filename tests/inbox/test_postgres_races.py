"""Several servers receive and several workers dispatch at once: what a file's one writer gives is kept on a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

import brant
import brant.opening
from brant.inbox import Endpoint, Event, RetentionPolicy, RetryPolicy
from brant.inbox.tables import statements
from brant.testing import FakeClock
from tests.inbox.blocked import wait_until_blocked
from tests.inbox.tiny import dead_jobs, jobs, send, signed, status, tiny, work
from tests.servers import Server
from tests.waiting import PATIENCE_S, in_thread

SERVERS = 4


@pytest.fixture
def path(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database(with_inbox=True) as address:
        yield address


@contextmanager
def servers(inbox: brant.Inbox, path: str, count: int = SERVERS, **options: Any) -> Iterator[list[Endpoint]]:
    """The same endpoint in as many processes' stead: each has connections of its own."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            db = stack.enter_context(brant.open(path, clock=inbox.db.clock))
            made.append(tiny(stack.enter_context(brant.Inbox(db)), **options))
        yield made


def all_at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait(PATIENCE_S)
        return call()

    return [started.result(PATIENCE_S) for started in [in_thread(run, call) for call in calls]]


def receiving(endpoint: Endpoint, *bodies: bytes) -> Callable[[], list[int]]:
    return lambda: [endpoint.receive(body, signed(body)).status_code for body in bodies]


def body_of(key: str, about: str | None = None) -> bytes:
    return f'{{"id": "{key}", "type": "t", "about": "{about}"}}'.encode()


@pytest.mark.guarantee("G29")
def test_the_same_event_twenty_times_at_once_is_one_event_twenty_deliveries_and_one_effect(
    inbox: brant.Inbox, path: str
) -> None:
    effects: list[int] = []
    tiny(inbox).add_handler(lambda event, tx: effects.append(event.id))
    with servers(inbox, path) as crew:
        answers = all_at_once([receiving(crew[n % SERVERS], body_of("same")) for n in range(20)])
    assert answers == [[204]] * 20
    [event] = inbox.list_events()
    assert (len(inbox.list_deliveries(event_id=event.id)), jobs(inbox)) == (20, 1)
    work(inbox)
    assert effects == [event.id]


def test_the_same_events_in_opposite_orders_hold_nobody_up(inbox: brant.Inbox, path: str) -> None:
    bodies = [body_of(f"e{n}") for n in range(30)]
    with servers(inbox, path, 2) as (there, back):
        answers = all_at_once([receiving(there, *bodies), receiving(back, *reversed(bodies))])
    assert answers == [[204] * 30] * 2
    assert len(inbox.list_events()) == jobs(inbox) == 30


def test_of_all_events_of_a_key_one_has_a_job_however_many_receive_it(inbox: brant.Inbox, path: str) -> None:
    handled: list[str | None] = []
    endpoint = tiny(inbox, ordering_key="provider")
    endpoint.add_handler(lambda event, tx: handled.append(event.provider_event_id))
    with servers(inbox, path, ordering_key="provider") as crew:
        calls = [receiving(each, *(body_of(f"{n}-{m}", "xy"[m % 2]) for m in range(6))) for n, each in enumerate(crew)]
        assert all_at_once(calls) == [[204] * 6] * SERVERS
    assert (len(inbox.list_events()), jobs(inbox)) == (24, 2)
    assert work(inbox) == {"success": 24}
    for n in range(SERVERS):
        mine = [key for key in handled if key is not None and key.startswith(f"{n}-")]
        assert [key for key in mine if int(key[2:]) % 2] == [f"{n}-{m}" for m in (1, 3, 5)], "in the order it came"


def work_while_another_comes(inbox: brant.Inbox, path: str, body: bytes) -> None:
    """Another process stores it meanwhile, in a transaction that the worker has to wait for."""
    with servers(inbox, path, 1, ordering_key="provider") as [elsewhere]:
        with elsewhere.inbox.db.transaction() as coming:
            elsewhere.inbox.ingest("in", body, tx=coming)
            handling = in_thread(work, inbox)
            wait_until_blocked(path)
        handling.result(PATIENCE_S)


def test_an_event_that_comes_while_the_one_before_it_ends_is_not_left_behind(inbox: brant.Inbox, path: str) -> None:
    endpoint = tiny(inbox, ordering_key="provider")
    endpoint.add_handler(lambda event, tx: None)
    first, second = body_of("first", "x"), body_of("second", "x")
    endpoint.receive(first, signed(first))
    work_while_another_comes(inbox, path, second)
    assert [event.status for event in inbox.list_events()] == ["handled", "handled"]


def test_an_event_that_comes_while_the_queue_gives_the_one_before_it_up_is_not_left_behind(
    inbox: brant.Inbox, path: str, clock: FakeClock
) -> None:
    endpoint = tiny(inbox, ordering_key="provider", retry=RetryPolicy(max_attempts=1))
    endpoint.add_handler(lambda event, tx: None)
    first, second = body_of("first", "x"), body_of("second", "x")
    endpoint.receive(first, signed(first))
    assert inbox.jobs.queue.claim_one("crashes") is not None
    clock.advance(61)
    work_while_another_comes(inbox, path, second)
    assert [event.status for event in inbox.list_events()] == ["handled", "dead"]


def test_what_is_kept_of_invalid_requests_stays_within_its_bounds(inbox: brant.Inbox, path: str) -> None:
    tiny(inbox, max_orphans=5)
    with servers(inbox, path, max_orphans=5) as crew:

        def forge(endpoint: Endpoint) -> list[int]:
            return [endpoint.receive(b"forged", {}).status_code for _ in range(10)]

        assert all_at_once([partial(forge, each) for each in crew]) == [[401] * 10] * SERVERS
    assert len(inbox.list_deliveries(orphaned=True)) == 5
    assert [reject.count for reject in inbox.list_rejects()] == [10 * SERVERS]


def test_a_pause_holds_for_all_that_comes_after_it(inbox: brant.Inbox, path: str) -> None:
    tiny(inbox)
    with servers(inbox, path) as crew:
        inbox.pause("in")
        assert all_at_once([receiving(each, body_of("e")) for each in crew]) == [[503]] * SERVERS
        inbox.resume("in")
        assert all_at_once([receiving(each, body_of("e")) for each in crew]) == [[204]] * SERVERS


def test_a_redelivery_of_what_is_just_being_deleted_is_known(inbox: brant.Inbox, path: str, clock: FakeClock) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(lambda event, tx: None)
    old = send(endpoint, "old")
    work(inbox)
    clock.advance(10)
    with psycopg.connect(path) as pruning, servers(inbox, path, 1) as [elsewhere]:
        pruning.execute("SELECT 1 FROM brant.knocker_events FOR UPDATE")
        for sql in (
            "INSERT INTO brant._brant_inbox_tombstones SELECT endpoint_id, dedupe_key, id, 1 FROM brant.knocker_events",
            "DELETE FROM brant.knocker_deliveries",
            "DELETE FROM brant.knocker_events",
        ):
            pruning.execute(sql)
        waiting = in_thread(elsewhere.receive, body_of("old"), signed(body_of("old")))
        wait_until_blocked(path)
        pruning.commit()
        received = waiting.result(PATIENCE_S)
    assert (received.status_code, received.duplicate, received.event_ids) == (204, True, (old,))
    assert (inbox.list_events(), jobs(inbox)) == ([], 0)


def test_retention_beside_receiving_loses_no_delivery_and_runs_nothing_twice(inbox: brant.Inbox, path: str) -> None:
    effects: list[str | None] = []
    tiny(inbox).add_handler(lambda event, tx: effects.append(event.provider_event_id))
    bodies = [body_of(f"e{n}") for n in range(15)]
    receiving(inbox.endpoints["in"], *bodies)()
    work(inbox)
    policy = RetentionPolicy(keep_s={"handled": 0})
    with servers(inbox, path) as crew:
        inbox.db.clock.advance(5)  # type: ignore[attr-defined]
        sending = [receiving(each, *bodies) for each in crew]
        answers = all_at_once([*sending, lambda: inbox.retain(policy), lambda: inbox.retain(policy)])
    assert answers[:SERVERS] == [[204] * 15] * SERVERS
    work(inbox)
    assert sorted(map(str, effects)) == sorted(f"e{n}" for n in range(15))


@pytest.mark.parametrize("act", ["ignore", "replay", "requeue"])
def test_an_operator_who_is_faster_than_the_handler_has_its_work_undone(
    inbox: brant.Inbox, path: str, act: str
) -> None:
    endpoint = tiny(inbox)
    tries: list[str] = []

    def handle(event: Event, tx: brant.Transaction) -> None:
        tx.execute("CREATE TABLE public.effect (id integer)")
        tries.append(event.status)
        if len(tries) == 2:
            with brant.open(path, clock=inbox.db.clock) as db, brant.Inbox(db) as operator:
                getattr(operator, act)(event.id)
        if len(tries) == 1:
            raise ValueError("so that it is failed, and an operator may act on it")

    endpoint.add_handler(handle)
    event_id = send(endpoint, "e1")
    work(inbox)
    inbox.db.clock.advance(3600)  # type: ignore[attr-defined]
    work(inbox)
    [found] = inbox.db.query("SELECT to_regclass('public.effect') IS NOT NULL AS is_there")
    if act == "ignore":
        assert (status(inbox, event_id), len(tries), found["is_there"]) == ("ignored", 2, False)
    else:
        assert (status(inbox, event_id), len(tries), found["is_there"]) == ("handled", 3, True)
    assert (jobs(inbox), dead_jobs(inbox)) == (0, 0)


def test_a_transaction_that_ends_a_deadlock_is_tried_again(inbox: brant.Inbox, path: str) -> None:
    """One holds what the other waits for, and the other way round; the server ends one of the two."""
    endpoint = tiny(inbox)
    insert = """
        INSERT INTO brant.knocker_events (
            endpoint_id, dedupe_key, body_blob, headers_json, query_json, method, status
        )
        VALUES (%s, %s, '', '{}', '{}', 'POST', 'received')
    """
    batch = b'[{"id": "k1"}, {"id": "k2"}]'
    with psycopg.connect(path) as other:
        other.execute("SET deadlock_timeout = '1h'")  # so that it is the inbox that is undone
        other.execute(insert, (endpoint.id, "k2"))
        sending = in_thread(endpoint.receive, batch, signed(batch))
        wait_until_blocked(path)
        other.execute(insert, (endpoint.id, "k1"))
        other.rollback()
        assert sending.result(PATIENCE_S).status_code == 204
    assert len(inbox.list_events()) == 2


def test_a_handler_that_ends_a_deadlock_runs_again_and_loses_no_attempt(
    inbox: brant.Inbox, path: str, clock: FakeClock
) -> None:
    endpoint = tiny(inbox)
    with inbox.db.transaction() as tx:
        tx.execute("CREATE TABLE ledger (id integer, n integer)")
        tx.execute("INSERT INTO ledger VALUES (1, 0), (2, 0)")

    @endpoint.handle()
    def handle(event: Event, tx: brant.Transaction) -> None:
        tx.execute("UPDATE ledger SET n = n + 1 WHERE id = 2")
        tx.execute("UPDATE ledger SET n = n + 1 WHERE id = 1")

    event_id = send(endpoint, "e1")
    with psycopg.connect(path) as other:
        other.execute("SET deadlock_timeout = '1h'")  # so that it is the handler that is undone
        other.execute("UPDATE ledger SET n = 0 WHERE id = 1")
        handling = in_thread(work, inbox)
        wait_until_blocked(path)
        other.execute("UPDATE ledger SET n = 0 WHERE id = 2")
        assert handling.result(PATIENCE_S) == {"snooze": 1}
        other.rollback()
    assert (status(inbox, event_id), inbox.list_attempts()) == ("received", [])
    clock.advance(5)
    work(inbox)
    assert (status(inbox, event_id), inbox.db.query("SELECT sum(n) AS n FROM ledger")) == ("handled", [{"n": 2}])


def test_a_receipt_waits_for_the_disk_even_where_the_server_would_not(path: str) -> None:
    seen: list[str] = []

    def look(db: brant.Database, tx: brant.Transaction, body: bytes) -> None:
        seen.append(str(tx.query("SHOW synchronous_commit")[0]["synchronous_commit"]))

    with brant.open(f"{path}&options=-csynchronous_commit%3Doff") as db:
        for durability in ("FULL", "NORMAL"):
            with brant.Inbox(db, synchronous=durability) as inbox:
                endpoint = tiny(inbox)
                endpoint.take = look
                send(endpoint, durability)
    assert seen == ["on", "off"]


def test_the_handle_that_receives_has_the_password_too(path: str) -> None:
    with psycopg.connect(path, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS brant_password")
        connection.execute("CREATE ROLE brant_password SUPERUSER LOGIN PASSWORD 'right'")
        try:
            address = path.replace("postgres:@", "brant_password:right@")
            with brant.open(address) as db, brant.Inbox(db) as inbox:
                assert status(inbox, send(tiny(inbox), "e1")) == "received"
                assert "right" not in repr(inbox)
        finally:
            connection.execute("DROP ROLE brant_password")


def test_nothing_but_brants_own_is_left_to_be_dropped(postgres_server: Server) -> None:
    with postgres_server.new_database() as address:
        with brant.open(address) as db, brant.Inbox(db) as inbox:
            send(tiny(inbox), "e1")
        assert brant.opening.remove(address)
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'brant'").fetchone() is None


def test_what_no_text_of_a_server_can_hold_is_stored_and_refused_as_anything_else(inbox: brant.Inbox) -> None:
    def fail(event: Event, tx: brant.Transaction) -> None:
        raise ValueError("with a \0 in it")

    endpoint = tiny(inbox, ordering_key="provider", publish_to="events")
    endpoint.add_handler(fail)
    body = b'{"id": "a\\u0000b", "type": "t\\u0000", "about": "\\u0000"}'
    received = endpoint.receive(body, [*signed(body), ("x", "\0")], query="a=%00")
    assert received.status_code == 204
    assert work(inbox) == {"retry": 1}
    event = inbox.get_event(received.event_ids[0])
    assert (event.body, event.last_error) == (body, "ValueError: with a \\x00 in it")
    assert inbox.unknown_path("/\0").status_code == 404


def test_the_tables_are_in_the_schema_of_the_database_whatever_the_user_has(path: str) -> None:
    with psycopg.connect(path) as connection:
        connection.execute("CREATE TABLE public.knocker_events (mine integer)")
    with brant.open(path, schema='my "own"') as db, brant.Inbox(db) as inbox:
        event_id = send(tiny(inbox), "e1")
        assert inbox.get_event(event_id).status == "received"
        [found] = db.query('SELECT count(*) AS n FROM "my ""own""".knocker_events')
        assert (db.schema, found["n"]) == ('my "own"', 1)
        assert "brant." not in statements('my "own"')["insert_event"]
        with brant.open(path, schema="copy") as copy:
            assert copy.load(db.dump())["knocker_events"] == 1


def test_many_make_the_tables_at_once(postgres_server: Server) -> None:
    with postgres_server.new_database() as address, ExitStack() as stack:
        databases = [stack.enter_context(brant.open(address)) for _ in range(4)]
        made = all_at_once([partial(brant.Inbox, db) for db in databases])
        endpoints = all_at_once([partial(inbox.endpoint, "a", verify="none") for inbox in made])
        assert len({endpoint.id for endpoint in endpoints}) == 1


def test_people_read_times(inbox: brant.Inbox) -> None:
    send(tiny(inbox), "e1")
    [row] = inbox.db.query("SELECT received_at, endpoint, status FROM brant.inbox_events")
    assert (row["endpoint"], row["status"]) == ("in", "received")
    assert row["received_at"].timestamp() == int(inbox.db.clock.now())
