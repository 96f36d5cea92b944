"""Which queues there are: listing, broadcasting, and other names for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import QueueNameError
from brant.testing import FakeClock
from tests.waiting import write_lock_held

pytestmark = pytest.mark.both_backends


def _names(db: brant.Database, **filters: Any) -> list[str]:
    return [stats.queue for stats in db.list_queues(**filters)]


def test_queues_are_listed_by_name_with_their_numbers(timed: brant.Database, clock: FakeClock) -> None:
    timed.queue("b").write("due")
    timed.queue("a").enqueue_many([1, 2, 3])
    timed.queue("a").enqueue("later", delay=60)
    claimed = timed.queue("a").claim_batch("worker", 2)
    claimed[0].fail("broken")
    clock.advance(5)
    a, b = timed.list_queues()
    assert (a.queue, a.pending, a.delayed, a.claimed, a.total, a.dead, a.exists) == ("a", 2, 1, 1, 3, 1, True)
    assert (a.oldest_age, a.next_run_at) == (5, clock.now() + 55)
    assert (b.queue, b.pending, b.delayed, b.claimed, b.total, b.dead) == ("b", 1, 0, 0, 1, 0)


def test_asking_for_a_queue_does_not_make_one(db: brant.Database) -> None:
    db.queue("asked").read()
    db.queue("asked").peek()
    db.queue("asked").stats()
    assert not db.queue("asked").exists()
    assert _names(db) == []


@pytest.mark.parametrize(
    "drain",
    [
        lambda queue: queue.read(),
        lambda queue: queue.move("elsewhere"),
        lambda queue: queue.claim_one("worker").ack(),
        lambda queue: queue.cancel(queue.peek().id),
        lambda queue: queue.delete(message_id=queue.peek().id),
    ],
)
def test_a_drained_queue_stays_known(path: Path, drain: Callable[[brant.Queue], object]) -> None:
    with brant.open(path) as db:
        db.queue("drained").write("last")
        drain(db.queue("drained"))
        assert not db.queue("drained").exists()
    with brant.open(path) as db:
        assert "drained" in _names(db)
        assert db.list_queues(prefix="drained")[0].total == 0
        assert db.broadcast("news", "drained") == 1
        assert db.queue("drained").read() == "news"


def test_delete_forgets_the_queue(db: brant.Database) -> None:
    db.queue("kept").write("x")
    db.queue("gone").write("x")
    db.queue("gone").delete()
    assert _names(db) == ["kept"]
    assert db.broadcast("news") == 1


def test_delete_forgets_a_drained_queue_too(db: brant.Database) -> None:
    db.queue("drained").write("x")
    db.queue("drained").read()
    assert db.queue("drained").delete() is False
    assert _names(db) == []


def test_delete_does_not_end_a_pause(db: brant.Database) -> None:
    queue = db.queue("paused")
    queue.pause()
    queue.delete()
    queue.write("x")
    assert queue.is_paused()


def test_a_queue_with_nothing_but_dead_letters_is_listed(db: brant.Database) -> None:
    queue = db.queue("dead")
    queue.write("x")
    job = queue.claim_one("worker")
    assert job is not None
    job.fail("broken")
    queue.delete()
    assert [(stats.queue, stats.total, stats.dead) for stats in db.list_queues()] == [("dead", 0, 1)]


def test_a_move_makes_its_destination_known(db: brant.Database) -> None:
    db.queue("from").write("x")
    db.queue("from").move_many("to")
    db.queue("to").read()
    assert _names(db) == ["from", "to"]


def test_a_queue_that_another_program_made_is_listed(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload) VALUES ('theirs', '1')")
    assert _names(db) == ["theirs"]
    assert db.broadcast("news") == 1


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["Mail", "mail", "mail.in", "mail.out", "x"]),
        ({"prefix": "mail"}, ["mail", "mail.in", "mail.out"]),
        ({"prefix": "mail."}, ["mail.in", "mail.out"]),
        ({"pattern": "mail*"}, ["mail", "mail.in", "mail.out"]),
        ({"pattern": "?ail"}, ["Mail", "mail"]),
        ({"pattern": "[Mm]ail.*"}, ["mail.in", "mail.out"]),
        ({"prefix": "mail", "pattern": "*.in"}, ["mail.in"]),
        ({"pattern": "none*"}, []),
    ],
)
def test_list_and_broadcast_choose_by_case_sensitive_patterns(
    db: brant.Database, filters: dict[str, str], expected: list[str]
) -> None:
    for name in ("mail.out", "mail", "x", "mail.in", "Mail"):
        db.queue(name).write("before")
        db.queue(name).read()
    assert _names(db, **filters) == expected
    if "prefix" not in filters:
        assert db.broadcast("news", **filters) == len(expected)
        assert [stats.queue for stats in db.list_queues() if stats.total] == expected


def test_broadcast_writes_a_message_of_its_own_to_each_queue(db: brant.Database) -> None:
    for name in ("a", "b"):
        db.queue(name).write("before")
    assert db.broadcast("é\n\0") == 2
    a, b = db.queue("a").read_many(9), db.queue("b").read_many(9)
    assert a == b == ["before", "é\n\0"]
    assert a[1].id != b[1].id


def test_broadcast_to_nobody_reaches_nobody(db: brant.Database) -> None:
    assert db.broadcast("news") == 0


def test_broadcast_stays_out_of_queues_that_are_no_message_queues(db: brant.Database) -> None:
    outbox = db.outbox("mail", print)
    outbox.enqueue({"to": "alice"})
    db.queue("messages").write("before")
    assert db.broadcast("news") == 1
    assert outbox.queue.stats().pending == 1


@pytest.mark.guarantee("G16")
def test_broadcast_is_one_transaction(db: brant.Database) -> None:
    db.queue("a").write("before")
    db.queue("b").write("before")
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        assert db.broadcast("never", tx=tx) == 2
        raise ZeroDivisionError
    assert [stats.total for stats in db.list_queues()] == [1, 1]


@pytest.mark.parametrize("message", ["x" * (10 * 1024 * 1024 + 1), "\ud800"], ids=["too large", "surrogate"])
def test_broadcast_refuses_what_write_refuses(db: brant.Database, message: str) -> None:
    db.queue("a").write("before")
    with pytest.raises(brant.InvalidValue):
        db.broadcast(message)
    assert db.queue("a").read_many(9) == ["before"]


def test_an_alias_stands_for_a_queue_after_an_at_sign_only(path: Path) -> None:
    with brant.open(path) as db:
        db.add_alias("in", "incoming")
        assert db.resolve_alias("in") == "in"
    with brant.open(path) as db:
        assert db.resolve_alias("@in") == "incoming"


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    ("alias", "target", "reason"),
    [
        ("taken", "queue", "exists already"),
        ("same", "same", "stand for itself"),
        ("@at", "queue", "Invalid queue name"),
        ("new", "@taken", "Invalid queue name"),
        ("new", "taken", "Cannot target another alias"),
        ("bad name", "queue", "Invalid queue name"),
        ("", "queue", "Invalid queue name"),
        ("new", "", "Invalid queue name"),
        ("new\n", "queue", "Invalid queue name"),
        ("new", "bad name", "Invalid queue name"),
        ("first", "taken", "Cannot target another alias"),
    ],
)
def test_an_alias_that_would_mislead_is_refused(db: brant.Database, alias: str, target: str, reason: str) -> None:
    db.add_alias("taken", "first")
    with pytest.raises(QueueNameError, match=reason):
        db.add_alias(alias, target)
    assert db.list_aliases() == {"taken": "first"}


def test_a_target_may_become_an_alias_and_resolving_stays_one_hop(db: brant.Database) -> None:
    db.add_alias("a", "b")
    db.add_alias("b", "c")
    assert db.resolve_alias("@a") == "b"
    assert db.resolve_alias("@b") == "c"


@pytest.mark.parametrize(("name", "reason"), [("@nobody", "Alias 'nobody' is not defined"), ("@", "cannot be empty")])
def test_an_alias_that_is_not_there_is_an_error(db: brant.Database, name: str, reason: str) -> None:
    with pytest.raises(QueueNameError, match=reason):
        db.resolve_alias(name)


def test_aliases_are_listed_by_name_and_by_target(db: brant.Database) -> None:
    for alias, target in (("c", "one"), ("a", "one"), ("b", "two")):
        db.add_alias(alias, target)
    assert list(db.list_aliases().items()) == [("a", "one"), ("b", "two"), ("c", "one")]
    assert db.list_aliases("one") == {"a": "one", "c": "one"}
    assert db.list_aliases("three") == {}


def test_removing_an_alias_leaves_the_messages(db: brant.Database) -> None:
    db.queue("incoming").write("stays")
    db.add_alias("in", "incoming")
    assert db.remove_alias("in") is True
    assert db.remove_alias("in") is False
    assert db.remove_alias("@in") is False
    assert db.queue("incoming").read() == "stays"
    with pytest.raises(QueueNameError):
        db.resolve_alias("@in")


def test_broadcast_ignores_aliases(db: brant.Database) -> None:
    db.queue("real").write("before")
    db.add_alias("other", "real")
    db.add_alias("empty", "nowhere")
    assert db.broadcast("news") == 1
    assert _names(db) == ["real"]


@pytest.mark.guarantee("G8")
def test_looking_at_queues_and_aliases_does_not_wait_for_a_writer(db: brant.Database, path: Path) -> None:
    db.queue("q").write("x")
    db.add_alias("a", "q")
    with write_lock_held(path):
        assert _names(db) == ["q"]
        assert db.list_aliases() == {"a": db.resolve_alias("@a")}
        assert db.queue("q").peek_many() == ["x"]
