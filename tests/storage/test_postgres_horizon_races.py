"""A reader of a stream on Postgres sees every committed event, in order, however transactions commit."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack

import psycopg
import pytest

from brant.storage.base import Storage
from brant.storage.session import Session
from tests.storage.side_by_side import Clients, clients
from tests.waiting import PATIENCE_S, in_thread, line_of, python

__all__ = ["clients"]

WRITERS = 8


def payloads(storage: Storage, topic: str = "t", after: int = 0) -> list[str]:
    with storage.reading() as session:
        return [row[3] for row in session.read_stream(topic, after, -1)]


def publish(storage: Storage, payload: str, topic: str = "t") -> int:
    with storage.transaction() as session:
        return session.publish(topic, None, payload)


def told(storage: Storage, after: int = 0) -> list[str]:
    with storage.reading() as session:
        return [row[2] for row in session.read_notifications("c", after, 100)]


# Two transactions


@pytest.mark.guarantee("G11")
def test_an_event_of_an_older_transaction_does_not_pass_one_that_is_still_to_be_committed(clients: Clients) -> None:
    reader, older, newer = clients.new(), clients.begin(), clients.begin()
    older.session.enqueue("q", "takes its place among the transactions")
    newer.session.publish("t", None, "1")
    older.session.publish("t", None, "2")
    older.commit()
    assert payloads(reader) == []
    newer.commit()
    assert payloads(reader) == ["1", "2"]


@pytest.mark.guarantee("G11")
def test_what_was_committed_before_an_open_transaction_published_is_read(clients: Clients) -> None:
    reader = clients.new()
    publish(reader, "before")
    late = clients.begin()
    late.session.publish("t", None, "late")
    publish(reader, "after")
    assert payloads(reader) == ["before"]
    late.commit()
    assert payloads(reader) == ["before", "late", "after"]


@pytest.mark.parametrize("read", ["honker_stream_read_since('t', 0, 10)", "_brant_read_notifications('c', 0, 10)"])
def test_where_a_snapshot_would_pass_over_late_events_reading_is_refused(clients: Clients, read: str) -> None:
    publish(clients.new(), "1")
    with clients.new().transaction() as session:
        session.notify("c", "1")
    with psycopg.connect(clients.address) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="at REPEATABLE READ events"):
            connection.execute(f"SELECT brant.{read}")
        connection.rollback()
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        assert connection.execute(f"SELECT brant.{read}").fetchall()


def test_a_transaction_that_publishes_nothing_holds_nobody_up(clients: Clients) -> None:
    reader, idle = clients.new(), clients.begin()
    idle.session.enqueue("q", "1")
    publish(reader, "1")
    assert payloads(reader) == ["1"]
    idle.commit()


def test_a_transaction_that_publishes_elsewhere_holds_nobody_up(clients: Clients) -> None:
    reader, elsewhere = clients.new(), clients.begin()
    elsewhere.session.publish("other", None, "1")
    elsewhere.session.notify("c", "1")
    publish(reader, "1")
    assert payloads(reader) == ["1"]
    elsewhere.commit()


def test_a_transaction_that_is_rolled_back_holds_nobody_up_any_more(clients: Clients) -> None:
    reader, lost = clients.new(), clients.begin()
    lost.session.publish("t", None, "lost")
    publish(reader, "kept")
    assert payloads(reader) == []
    lost.roll_back()
    assert payloads(reader) == ["kept"]


def test_a_client_that_is_gone_holds_nobody_up_any_more(clients: Clients) -> None:
    reader = clients.new()
    gone = psycopg.connect(clients.address)
    gone.execute("INSERT INTO brant._honker_stream (topic, payload) VALUES ('t', 'lost')")
    publish(reader, "kept")
    assert payloads(reader) == []
    with psycopg.connect(clients.address) as other:
        other.execute("SELECT pg_terminate_backend(%s, 30000)", [gone.info.backend_pid])
    assert payloads(reader) == ["kept"]
    gone.close()


def test_a_transaction_reads_its_own_events(clients: Clients) -> None:
    own = clients.begin()
    own.session.publish("t", None, "1")
    assert [row[3] for row in own.session.read_stream("t", 0, -1)] == ["1"]
    own.commit()


def test_the_head_is_what_can_be_read(clients: Clients) -> None:
    reader = clients.new()
    first = publish(reader, "1")
    late = clients.begin()
    late.session.publish("t", None, "2")
    last = publish(reader, "3")
    with reader.reading() as session:
        assert session.stream_head("t") == first
    late.commit()
    with reader.reading() as session:
        assert session.stream_head("t") == last


# Parts of a transaction


class Regret(Exception):
    pass


def publish_and_undo(session: Session) -> None:
    with pytest.raises(Regret), session.savepoint():
        session.publish("t", None, "undone")
        raise Regret


def test_a_publication_that_is_undone_holds_nobody_up(clients: Clients) -> None:
    reader, writer = clients.new(), clients.begin()
    publish_and_undo(writer.session)
    publish(reader, "1")
    assert payloads(reader) == ["1"]
    writer.commit()


def test_a_publication_behind_one_that_was_undone_is_not_passed(clients: Clients) -> None:
    reader, writer = clients.new(), clients.begin()
    publish_and_undo(writer.session)
    writer.session.publish("t", None, "1")
    publish(reader, "2")
    assert payloads(reader) == []
    writer.commit()
    assert payloads(reader) == ["1", "2"]


def test_a_publication_before_one_that_is_undone_is_not_passed(clients: Clients) -> None:
    reader, writer = clients.new(), clients.begin()
    writer.session.publish("t", None, "1")
    publish_and_undo(writer.session)
    publish(reader, "2")
    assert payloads(reader) == []
    writer.commit()
    assert payloads(reader) == ["1", "2"]


def test_many_topics_of_one_transaction_take_few_locks_and_none_of_them_is_passed(clients: Clients) -> None:
    reader, writer = clients.new(), clients.begin()
    topics = [f"topic-{number}" for number in range(500)]
    for topic in topics:
        writer.session.publish(topic, None, "1")
    with psycopg.connect(clients.address) as other:
        (locks,) = other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() or (0,)
    assert locks < 50
    for topic in topics:
        publish(reader, "2", topic)
    assert [payloads(reader, topic) for topic in topics] == [[]] * 500
    writer.commit()
    assert [payloads(reader, topic) for topic in topics] == [["1", "2"]] * 500


# Other ways to write


@pytest.mark.guarantee("G11")
def test_events_that_others_insert_by_plain_sql_are_not_passed(clients: Clients) -> None:
    reader = clients.new()
    with psycopg.connect(clients.address) as plain:
        plain.execute("INSERT INTO brant._honker_stream (topic, payload) VALUES ('t', '1')")
        publish(reader, "2")
        assert payloads(reader) == []
    assert payloads(reader) == ["1", "2"]


@pytest.mark.guarantee("G11")
def test_a_notification_does_not_pass_one_that_is_still_to_be_committed(clients: Clients) -> None:
    reader, older, newer = clients.new(), clients.begin(), clients.begin()
    with reader.transaction() as session:
        before = session.notify("c", "0")
    older.session.enqueue("q", "takes its place among the transactions")
    newer.session.notify("c", "1")
    older.session.notify("c", "2")
    older.commit()
    assert told(reader) == ["0"]
    with reader.reading() as session:
        assert session.last_notification("c") == before
    newer.commit()
    assert told(reader, before) == ["1", "2"]


# Health


def test_health_names_who_holds_a_stream_up(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = clients.new()
    for topic in ("other", "t"):
        publish(storage, "1", topic)
    with psycopg.connect(clients.address, application_name="slow importer") as slow:
        slow.execute("SELECT brant.honker_stream_publish('t', NULL, '2')")
        pid = slow.info.backend_pid
        assert storage.health().ok
        monkeypatch.setattr("brant.storage.postgres.health._HELD_UP_S", 0)
        (problem,) = storage.health().problems
    assert "readers of the stream 't' wait" in problem
    assert f"(slow importer, pid {pid})" in problem
    assert storage.health().ok


# Many at once


def write(storage: Storage, number: int) -> set[str]:
    """Transactions of one to forty statements, some of them undone, in two topics; gives what was committed to t."""
    chance = random.Random(number)
    committed: set[str] = set()
    for round_ in range(40):
        transaction = storage.transaction()
        session = transaction.__enter__()
        wrote = set()
        for step in range(chance.choice([1, 1, 2, 5, 40])):
            payload = f"{number}-{round_}-{step}"
            if chance.random() < 0.5:
                session.publish("t", None, payload)
                wrote.add(payload)
            elif chance.random() < 0.5:
                session.publish_many("t", [(None, payload), (None, f"{payload}+")])
                wrote |= {payload, f"{payload}+"}
            else:
                session.publish("other", None, payload)
        if chance.random() < 0.2:
            transaction.__exit__(Regret, Regret(), None)
        else:
            transaction.__exit__(None, None, None)
            committed |= wrote
    return committed


def read_all(storage: Storage, finished: threading.Event) -> list[tuple[int, str]]:
    """Reads on behind what it has seen, until there is nothing more after the writers have finished."""
    seen: list[tuple[int, str]] = []
    while True:
        is_last = finished.is_set()
        with storage.reading() as session:
            rows = session.read_stream("t", seen[-1][0] if seen else 0, 50)
        seen += [(row[0], row[3]) for row in rows]
        if is_last and not rows:
            return seen


@pytest.mark.guarantee("G11")
def test_a_reader_sees_all_that_eight_writers_commit_in_the_order_of_the_offsets(clients: Clients) -> None:
    finished = threading.Event()
    readers = [in_thread(read_all, clients.new(), finished) for _ in range(2)]
    committed = clients.at_once(WRITERS, write)
    finished.set()
    for reader in readers:
        seen = reader.result(PATIENCE_S)
        assert [offset for offset, _ in seen] == sorted(offset for offset, _ in seen)
        assert sorted(payload for _, payload in seen) == sorted(set().union(*committed))


PUBLISHES_UNTIL_KILLED = """
import sys
import brant

with brant.open(sys.argv[1]) as db:
    stream = db.stream("t")
    while True:
        with db.transaction() as tx:
            for step in range(5):
                stream.publish([sys.argv[2], step], tx=tx)
        print("published", flush=True)
"""


def read_until(storage: Storage, last: str) -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = [(0, "")]
    while seen[-1][1] != last:
        with storage.reading() as session:
            seen += [(row[0], row[3]) for row in session.read_stream("t", seen[-1][0], 50)]
    return seen[1:]


@pytest.mark.guarantee("G11")
def test_writers_that_are_killed_hold_nobody_up_and_what_they_committed_is_seen(clients: Clients) -> None:
    reader = in_thread(read_until, clients.new(), "last")
    with ExitStack() as stack:
        writers = [stack.enter_context(python(PUBLISHES_UNTIL_KILLED, clients.address, n)) for n in range(3)]
        for writer in writers:
            for _ in range(20):
                assert line_of(writer) == "published"
            writer.kill()
            writer.wait(PATIENCE_S)
    publish(clients.new(), "last")
    seen = reader.result(PATIENCE_S)
    with clients.new().reading() as session:
        assert [(row[0], row[3]) for row in session.read_stream("t", 0, -1)] == seen
    assert len(seen) >= 3 * 20 * 5 + 1
