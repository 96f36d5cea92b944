"""Migration: the whole state into another database, in steps that can be taken up again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.errors import StorageError
from brant.migrate import Progress, migrate
from tests.everything import add_foreign_rows, fill

STEP = 2000


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[brant.Database]:
    with brant.open(tmp_path / "copy.db") as database:
        yield database


class Interrupted(Exception):
    """By whoever watches the progress."""


def interrupt_after(steps: int) -> Progress:
    def watch(table: str, copied: int, of: int) -> None:
        nonlocal steps
        if copied:
            steps -= 1
            if steps == 0:
                raise Interrupted(table)

    return watch


def test_a_copy_gives_the_same_dump(db: brant.Database, path: Path, copy: brant.Database) -> None:
    fill(db)
    add_foreign_rows(path)
    counts = migrate(db, copy)
    assert list(copy.dump()) == list(db.dump())
    assert sum(counts.values()) == len(list(db.dump())) - 2


def test_ids_and_offsets_go_on_behind_those_of_the_source(db: brant.Database, copy: brant.Database) -> None:
    job, offset = db.queue("q").enqueue(1), db.stream("s").publish(1)
    for claimed in db.queue("q").claim_batch("w", 1):
        claimed.ack()
    db.stream("s").prune(up_to=offset)
    migrate(db, copy)
    assert copy.last_id() == job
    assert copy.stream("s").publish(2) == offset + 1


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_migration_that_was_broken_off_goes_on(db: brant.Database, copy: brant.Database, steps: int) -> None:
    db.queue("q").enqueue_many(range(STEP + 500))
    db.stream("s").publish_many(range(STEP))
    with pytest.raises(Interrupted):
        migrate(db, copy, interrupt_after(steps))
    seen: list[tuple[str, int]] = []
    migrate(db, copy, lambda table, copied, of: seen.append((table, copied)))
    assert list(copy.dump()) == list(db.dump())
    first_of_jobs = next(copied for table, copied in seen if table == "live")
    assert first_of_jobs == {1: 0, 2: STEP, 3: STEP + 500}[steps], "the first step was that of the queues' names"


def test_a_source_that_has_changed_since_is_refused(db: brant.Database, copy: brant.Database) -> None:
    db.queue("q").enqueue_many(range(STEP + 1))
    with pytest.raises(Interrupted):
        migrate(db, copy, interrupt_after(2))
    db.queue("q").enqueue("one more")
    with pytest.raises(StorageError, match="the source has changed since then"):
        migrate(db, copy)


def test_a_destination_that_holds_something_is_refused_and_left_alone(db: brant.Database, copy: brant.Database) -> None:
    db.queue("q").enqueue("theirs")
    copy.queue("q").enqueue("ours")
    before = list(copy.dump())
    with pytest.raises(StorageError, match="already holds rows"):
        migrate(db, copy)
    assert list(copy.dump()) == before


def test_a_destination_that_was_used_meanwhile_is_told(db: brant.Database, copy: brant.Database) -> None:
    db.queue("q").enqueue_many(range(10))

    def use(table: str, copied: int, of: int) -> None:
        if table == "rate_limits":
            copy.queue("q").enqueue("one more")

    with pytest.raises(StorageError, match="live: 11 in place of 10"):
        migrate(db, copy, use)


def test_the_inbox_is_copied_too(db: brant.Database, copy: brant.Database) -> None:
    inbox = brant.Inbox(db)
    inbox.endpoint("orders", verify="none")
    inbox.receive("orders", b'{"id": 1}')
    migrate(db, copy)
    assert list(copy.dump()) == list(db.dump())
    assert [event.endpoint for event in brant.Inbox(copy).list_events()] == ["orders"]
