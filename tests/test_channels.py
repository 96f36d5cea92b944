"""Notifications to whoever listens, and the doorbell of every commit."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseClosed, DatabaseReplaced
from brant.testing import FakeClock
from tests.plainly import plain_connection
from tests.waiting import PATIENCE_S, in_thread, line_of, python

pytestmark = pytest.mark.both_backends

NOTIFIES = """
import sys
import brant

db = brant.open(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    db.notify("c", line.strip())
"""


def _take(listener: brant.Listener, count: int) -> list[Any]:
    return [notification.payload for notification in itertools.islice(listener, count)]


def test_a_listener_gets_what_is_sent_from_now_on_in_order(db: brant.Database) -> None:
    db.notify("c", "before")
    listener = db.listen("c")
    for number in range(1500):
        db.notify("c", number)
    assert _take(listener, 1500) == list(range(1500))


def test_a_notification_tells_where_it_comes_from(timed: brant.Database, clock: FakeClock) -> None:
    listener = timed.listen("c")
    sent = timed.notify("c", {"id": 42})
    assert next(listener) == brant.Notification(sent, "c", {"id": 42}, clock.now())
    assert sent == int(clock.now() * 1_000_000)


@pytest.mark.guarantee("G6")
def test_ids_grow_also_when_the_clock_steps_back(timed: brant.Database, clock: FakeClock) -> None:
    first = timed.notify("c", 1)
    clock.step_wall(-3600)
    listener = timed.listen("c")
    second = timed.notify("c", 2)
    assert second == first + 1
    assert next(listener).id == second


@pytest.mark.guarantee("G6")
def test_ids_grow_also_when_all_notifications_are_pruned(timed: brant.Database) -> None:
    first = timed.notify("c", 1)
    timed.prune_notifications(max_keep=0)
    assert timed.notify("c", 2) == first + 1


@pytest.mark.parametrize("payload", ["hello", "", "12", "null", True, None, 0, 1.5, [1, {"a": "é"}], {}])
def test_a_payload_comes_back_as_it_was(db: brant.Database, payload: object) -> None:
    listener = db.listen("c")
    db.notify("c", payload)
    with db.transaction() as tx:
        tx.notify("c", payload)
    assert _take(listener, 2) == [payload, payload]


@pytest.mark.parametrize(
    ("stored", "payload"),
    [
        ("", None),
        ("null", None),
        ('"quoted"', "quoted"),
        ("not JSON", "not JSON"),
        ("{broken", "{broken"),
        ('{"a": 1}', {"a": 1}),
        ("[" * 100_000, "[" * 100_000),
        ("[" * 100_000 + "]" * 100_000, "[" * 100_000 + "]" * 100_000),
    ],
    ids=range(8),
)
def test_what_plain_sql_sends_is_decoded_where_it_is_json(db: brant.Database, stored: str, payload: object) -> None:
    listener = db.listen("c")
    with db.transaction() as tx:
        tx.query("SELECT notify('c', ?)", [stored])
    db.notify("c", "next")
    assert _take(listener, 2) == [payload, "next"]


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.notify("c", object()),
        lambda db: db.notify("c", float("nan")),
        lambda db: db.notify("", 1),
        lambda db: db.notify("a\nb", 1),
        lambda db: db.notify(5, 1),
    ],
)
def test_what_can_not_be_sent_is_refused(db: brant.Database, call: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, brant.InvalidValue)):
        call(db)
    assert db.query("SELECT * FROM _honker_notifications") == []


def test_channels_are_apart(db: brant.Database) -> None:
    a, b = db.listen("a"), db.listen("b")
    db.notify("a", 1)
    db.notify("b", 2)
    db.notify("a", 3)
    assert _take(a, 2) == [1, 3]
    assert _take(b, 1) == [2]


def test_every_listener_gets_every_notification(db: brant.Database) -> None:
    listeners = [db.listen("c") for _ in range(3)]
    db.notify("c", "all")
    assert [_take(listener, 1) for listener in listeners] == [["all"]] * 3


@pytest.mark.guarantee("G1")
def test_a_notification_is_sent_by_the_commit(db: brant.Database) -> None:
    listener = db.listen("c")
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.notify("c", "never")
        raise ZeroDivisionError
    with db.transaction() as tx:
        tx.notify("c", "one")
        db.notify("c", "two", tx=tx)
    assert _take(listener, 2) == ["one", "two"]


@pytest.mark.guarantee("G9")
def test_a_thread_is_woken_without_any_poll(db: brant.Database) -> None:
    listener = db.listen("c", fallback_poll_s=None)
    for number in range(3):
        coming = in_thread(next, listener)
        db.notify("c", number)
        assert coming.result(PATIENCE_S).payload == number


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("backend", [None, "poll"])
def test_another_process_wakes_a_listener_without_any_poll_of_its_own(path: Path, backend: str | None) -> None:
    with brant.open(path, watcher_backend=backend) as db, python(NOTIFIES, path) as sender:
        listener = db.listen("c", fallback_poll_s=None)
        assert line_of(sender) == "ready"
        assert sender.stdin is not None
        for text in ("one", "two", "three"):
            coming = in_thread(next, listener)
            print(text, file=sender.stdin, flush=True)
            assert coming.result(PATIENCE_S).payload == text


@pytest.mark.guarantee("G9")
def test_a_commit_between_construction_and_the_first_wait_is_not_missed(db: brant.Database) -> None:
    listener = db.listen("c", fallback_poll_s=None)
    db.notify("c", "in between")
    assert in_thread(next, listener).result(PATIENCE_S).payload == "in between"

    async def listen() -> Any:
        listener = db.listen("c", fallback_poll_s=None)
        await asyncio.to_thread(db.notify, "c", "before the first await")
        async with asyncio.timeout(PATIENCE_S):
            return (await anext(listener)).payload

    assert asyncio.run(listen()) == "before the first await"


def test_a_listener_made_before_its_event_loop_runs_keeps_the_wake(db: brant.Database) -> None:
    listener, events = db.listen("c", fallback_poll_s=None), db.update_events()
    db.notify("c", "early")

    async def listen() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            await anext(aiter(events))
            return (await anext(listener)).payload

    assert asyncio.run(listen()) == "early"


def test_300_listeners_that_are_dropped_leave_no_threads(db: brant.Database) -> None:
    held = [db.listen("c") for _ in range(100)]
    with_listeners = threading.active_count()
    for _ in range(300):
        db.listen("c")
        db.update_events()
    gc.collect()
    assert threading.active_count() <= with_listeners
    db.notify("c", 1)
    assert all(_take(listener, 1) == [1] for listener in held)


def test_get_waits_no_longer_than_told(db: brant.Database) -> None:
    listener = db.listen("c", fallback_poll_s=None)
    assert listener.get(timeout=0) is None
    assert listener.get(timeout=0.01) is None
    sent = [db.notify("c", number) for number in range(2)]
    got = [listener.get(timeout=0), listener.get()]
    assert [notification and notification.id for notification in got] == sent
    assert listener.get(timeout=0) is None


def test_get_is_woken_by_a_notification_and_by_closing(db: brant.Database) -> None:
    listener = db.listen("c", fallback_poll_s=None)
    coming = in_thread(listener.get, PATIENCE_S)
    db.notify("c", "here")
    notification = coming.result(PATIENCE_S)
    assert notification is not None
    assert notification.payload == "here"
    ended = in_thread(listener.get)
    listener.close()
    assert ended.result(PATIENCE_S) is None
    assert listener.get() is None


def test_closing_ends_whoever_listens(db: brant.Database) -> None:
    with db.listen("c", fallback_poll_s=None) as listener:
        waiting = in_thread(list, listener)
    assert waiting.result(PATIENCE_S) == []
    assert list(listener) == []


def test_closing_the_database_raises_in_every_waiter(path: Path) -> None:
    db = brant.open(path)
    listener = in_thread(next, db.listen("c", fallback_poll_s=None))
    events = in_thread(db.update_events().wait)
    db.close()
    for waiting in (listener, events):
        with pytest.raises(DatabaseClosed):
            waiting.result(PATIENCE_S)


def _spaced(db: brant.Database) -> list[int]:
    """Notifications of two channels whose ids have large gaps."""
    with db.transaction() as tx:
        for number, channel in ((1, "a"), (50, "b"), (1000, "a"), (10**15, "b"), (10**15 + 7, "a")):
            tx.execute("INSERT INTO _honker_notifications (id, channel, payload) VALUES (?, ?, '1')", [number, channel])
    return _ids(db)


def _ids(db: brant.Database) -> list[int]:
    return [row["id"] for row in db.query("SELECT id FROM _honker_notifications ORDER BY id")]


@pytest.mark.parametrize("max_keep", [0, 1, 3, 5, 6, 2**63 - 1, 2**63, 10**100])
def test_prune_keeps_the_newest_by_rank_over_all_channels(db: brant.Database, max_keep: int) -> None:
    ids = _spaced(db)
    left = ids[max(0, len(ids) - max_keep) :]
    assert db.prune_notifications(max_keep=max_keep) == len(ids) - len(left)
    assert _ids(db) == left


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({}, [0, 1, 2, 3]),
        ({"older_than_s": 15}, [2, 3]),
        ({"older_than_s": 20}, [1, 2, 3]),
        ({"older_than_s": 0}, [3]),
        ({"older_than_s": 100, "max_keep": 1}, [3]),
        ({"older_than_s": 15, "max_keep": 3}, [2, 3]),
        ({"max_keep": 2}, [2, 3]),
    ],
)
def test_prune_deletes_what_meets_either_bound(
    timed: brant.Database, clock: FakeClock, bounds: dict[str, Any], left: list[int]
) -> None:
    ids = []
    for number in range(4):
        ids.append(timed.notify("c", number))
        clock.advance(10 if number < 3 else 0)
    assert timed.prune_notifications(**bounds) == 4 - len(left)
    assert _ids(timed) == [ids[index] for index in left]


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "bounds", [{"max_keep": -1}, {"max_keep": 1.5}, {"max_keep": "2"}, {"older_than_s": "x"}, {"older_than_s": "nan"}]
)
def test_prune_refuses_a_bound_that_is_none(db: brant.Database, bounds: dict[str, Any]) -> None:
    db.notify("c", 1)
    with pytest.raises(brant.InvalidValue, match=next(iter(bounds))):
        db.prune_notifications(**bounds)
    assert len(_ids(db)) == 1


def test_a_prune_that_is_rolled_back_deletes_nothing(db: brant.Database) -> None:
    ids = _spaced(db)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        assert db.prune_notifications(max_keep=0, tx=tx) == 5
        raise ZeroDivisionError
    assert _ids(db) == ids


def test_queues_streams_and_schedules_send_no_notifications(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    job = queue.claim_one("worker")
    assert job is not None
    job.retry(0)
    db.stream("s").publish(1)
    db.scheduler().add(name="n", queue="q", schedule="@daily")
    assert _ids(db) == []


@pytest.mark.guarantee("G9")
@pytest.mark.files_only("a server tells of what Brant wrote, or its SQL functions")
def test_every_commit_gives_an_update_event(db: brant.Database, path: Path) -> None:
    events = db.update_events()
    assert Path(events.path) == path
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute("CREATE TABLE mine (value)")
    assert events.wait(PATIENCE_S)
    for number in range(4):
        plain.execute("INSERT INTO mine VALUES (?)", [number])
        assert events.wait(PATIENCE_S)
        db.notify("c", number)
        assert events.wait(PATIENCE_S)
    plain.close()


def test_commits_that_nobody_waited_for_are_one_event(db: brant.Database) -> None:
    events = db.update_events()
    for number in range(50):
        db.notify("c", number)
    assert events.wait(PATIENCE_S)
    assert not events.wait(0.7)


def test_a_rollback_and_a_read_are_silent(db: brant.Database, path: Path) -> None:
    events = db.update_events()
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.notify("c", 1)
        raise ZeroDivisionError
    with plain_connection(path) as plain:
        plain.execute("INSERT INTO _honker_notifications (channel, payload) VALUES ('c', '1')")
        plain.rollback()
    db.query("SELECT 1")
    assert not events.wait(0.7)


def test_update_events_for_a_task_gives_none_until_closed(db: brant.Database) -> None:
    async def watch() -> list[None]:
        events = db.update_events()
        seen: list[None] = []
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(db.notify, "c", 1)
            async for event in events:
                seen.append(event)
                events.close()
        return seen

    assert asyncio.run(watch()) == [None]


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("backend", [None, "poll"])
@pytest.mark.files_only("only files are replaced")
def test_a_replaced_file_raises_in_every_waiter(path: Path, tmp_path: Path, backend: str | None) -> None:
    brant.open(tmp_path / "new.db").close()
    with brant.open(path, watcher_backend=backend) as db:
        db.query("SELECT 1")
        events = db.update_events()
        waiting: list[Future[Any]] = [
            in_thread(list, iter(events.wait, False)),
            in_thread(next, db.listen("c", fallback_poll_s=None)),
            in_thread(next, db.stream("s").subscribe()),
        ]
        (tmp_path / "new.db").rename(path)
        for waiter in waiting:
            with pytest.raises(DatabaseReplaced, match="watcher"):
                waiter.result(PATIENCE_S)
        with pytest.raises(DatabaseReplaced):
            db.listen("c")


@pytest.mark.guarantee("G10")
@pytest.mark.files_only("only files are replaced")
def test_a_replaced_file_is_not_read_in_the_place_of_the_old_one(path: Path, tmp_path: Path) -> None:
    with brant.open(tmp_path / "new.db") as other:
        other.stream("s").publish("not of this database")
    with brant.open(path) as db:
        (tmp_path / "new.db").rename(path)
        with pytest.raises(DatabaseReplaced):
            db.stream("s").read()
