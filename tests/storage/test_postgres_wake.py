"""How commits on a server are noticed: by LISTEN, by polling, and by a few notifications for many commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import brant
from brant.storage.postgres.rings import Rings
from brant.storage.postgres.wake import QUIET_S, Wake
from tests.waiting import PATIENCE_S, in_thread, line_of, python

ENQUEUE = """
import sys, brant
with brant.open(sys.argv[1]) as db:
    print("ready", flush=True)
    sys.stdin.readline()
    db.queue("q").enqueue("from elsewhere")
"""


@pytest.fixture
def heard(address: str) -> Iterator[psycopg.Connection[object]]:
    """A connection of the test's own that gets the notifications, too."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute('LISTEN "brant:brant"')
        yield connection


def notifications(heard: psycopg.Connection[object]) -> int:
    return len(list(heard.notifies(timeout=0.5)))


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("watcher", [None, "poll"], ids=["listen", "poll"])
def test_a_commit_of_another_process_wakes_a_waiting_claim(address: str, watcher: str | None) -> None:
    with brant.open(address, watcher_backend=watcher) as db, python(ENQUEUE, address) as other:
        assert line_of(other) == "ready"
        jobs = db.queue("q").claim("w")
        waiting = in_thread(next, jobs)
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
        assert waiting.result(PATIENCE_S).payload == "from elsewhere"
        jobs.close()


@pytest.mark.guarantee("G9")
def test_who_waits_is_woken_by_the_commit_of_the_callers_own_connection(address: str) -> None:
    with brant.open(address) as db, psycopg.connect(address) as own:
        listener = db.listen("c", fallback_poll_s=None)
        waiting = in_thread(listener.get, PATIENCE_S)
        queue = db.queue("q")
        queue.enqueue(1, tx=own)
        subscription = db.update_events()
        own.commit()
        assert subscription.wait(PATIENCE_S)
        db.notify("c", "end")
        assert waiting.result(PATIENCE_S) is not None


def test_many_commits_are_told_by_a_few_notifications(address: str, heard: psycopg.Connection[object]) -> None:
    with brant.open(address) as db:
        queue = db.queue("q")
        for number in range(100):
            queue.enqueue(number)
    told = notifications(heard)
    assert 2 <= told < 50


def test_a_commit_that_was_not_told_at_once_is_told_at_the_latest_by_the_close(
    address: str, heard: psycopg.Connection[object]
) -> None:
    with brant.open(address) as db:
        queue = db.queue("q")
        queue.enqueue(1)
        queue.enqueue(2)
    assert notifications(heard) == 2


def test_a_claim_and_a_renewed_lease_tell_nobody(address: str, heard: psycopg.Connection[object]) -> None:
    with brant.open(address) as db:
        queue = db.queue("q")
        queue.enqueue(1)
        assert notifications(heard) == 1
        job = queue.claim_one("w")
        assert job is not None
        assert job.heartbeat(60)
    assert notifications(heard) == 0


def test_what_is_rolled_back_is_told_to_nobody(address: str, heard: psycopg.Connection[object]) -> None:
    with brant.open(address) as db:
        queue = db.queue("q")
        with pytest.raises(KeyError), db.transaction() as tx:
            queue.enqueue(1, tx=tx)
            raise KeyError
    assert notifications(heard) == 0


def test_queues_do_not_hold_up_each_others_notifications() -> None:
    wake = Wake(lambda: None, lambda _: None, None)  # type: ignore[arg-type, return-value]
    assert wake.rings_now(["a"])
    assert not wake.rings_now(["a"])
    assert wake.rings_now(["a", "b"])
    threading.Event().wait(QUIET_S * 2)
    assert wake.rings_now(["a"])


def test_what_a_transaction_tells_of() -> None:
    rings = Rings()
    rings.note("claim", {"queue": "q"})
    assert (rings.wrote, rings.is_lazy, rings.keys) == (True, False, set())
    rings.note("ack", {"id": 1})
    assert (rings.is_lazy, rings.keys) == (True, set())
    rings.note("move", {"queue": "q", "destination": "d"})
    rings.note("publish", {"topic": "t"})
    assert rings.keys == {"d", "t"}
    rings.clear()
    assert (rings.wrote, rings.is_lazy, rings.keys) == (False, False, set())


def test_a_child_after_a_fork_can_open_the_database_anew_and_the_parent_goes_on(address: str, tmp_path: Path) -> None:
    program = """
import os, sys, brant
from brant.errors import DatabaseClosed
db = brant.open(sys.argv[1])
listener = db.listen("c", fallback_poll_s=None)
db.queue("q").enqueue("parent")
child = os.fork()
if child == 0:
    try:
        db.queue("q").enqueue("never")
    except DatabaseClosed:
        with brant.open(sys.argv[1]) as own:
            own.queue("q").enqueue("child")
            own.notify("c", "hello")
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert listener.get(20).payload == "hello"
db.queue("q").enqueue("parent again")
print([job.payload for job in db.queue("q").claim_batch("w", 10)])
db.close()
"""
    with python(program, address) as process:
        assert line_of(process) == "['parent', 'child', 'parent again']"
