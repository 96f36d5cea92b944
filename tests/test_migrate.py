"""Migration: the whole state into another database, in steps that can be taken up again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

import brant
from brant.errors import StorageError
from brant.migrate import Progress, migrate
from tests.everything import add_foreign_rows, fill
from tests.inbox.tiny import send, signed, tiny, work
from tests.servers import Server

STEP = 2000


ON_SERVER = ("to-postgres", "from-postgres")


@pytest.fixture(params=[pytest.param("files", id=pytest.HIDDEN_PARAM), *ON_SERVER])
def direction(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def place(request: pytest.FixtureRequest, on_server: bool, name: str) -> AbstractContextManager[str]:
    if not on_server:
        return nullcontext(str(request.getfixturevalue("tmp_path") / name))
    server: Server = request.getfixturevalue("postgres_server")
    return server.database()


@pytest.fixture
def path(request: pytest.FixtureRequest, direction: str) -> Iterator[Path]:
    with place(request, direction == "from-postgres", "app.db") as address:
        yield address  # type: ignore[misc]


@pytest.fixture
def copy(request: pytest.FixtureRequest, direction: str) -> Iterator[brant.Database]:
    with place(request, direction == "to-postgres", "copy.db") as address, brant.open(address) as database:
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


@pytest.mark.parametrize("direction", [pytest.param("files", id=pytest.HIDDEN_PARAM)], indirect=True)
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
    with brant.Inbox(db) as inbox:
        fill_inbox(inbox)
        inbox.endpoint("orders", verify="none")
        inbox.receive("orders", b'{"id": 1}')
    migrate(db, copy)
    assert list(copy.dump()) == list(db.dump())
    with brant.Inbox(copy) as moved:
        assert [event.endpoint for event in moved.list_events(endpoint="orders")] == ["orders"]
        newest = moved.list_events()[0].id
        assert send(tiny(moved), "new") == newest + 1, "ids go on behind those of the source"
        assert send(tiny(moved), "gone") < newest, "the key of what was deleted is known"


def fill_inbox(inbox: brant.Inbox) -> None:
    """Something in every table, with a body that is no text."""
    endpoint = tiny(inbox, ordering_key="provider")
    endpoint.handle("good")(lambda event, tx: None)
    now = int(inbox.db.clock.now())
    send(endpoint, "gone", "good")
    work(inbox)
    inbox.prune_events(statuses=["handled"], older_than=now + 100)
    send(endpoint, "erased", "good")
    send(endpoint, "dead", "nobody's")
    work(inbox)
    inbox.erase_content(status="handled", older_than=now + 100)
    batch = b'[{"id": "b1", "about": "x"}, {"id": "b2", "about": "x"}]'
    assert endpoint.receive(batch, signed(batch)).status_code == 204
    assert endpoint.receive(b"\xff\x00 forged", [("X-Tiny", "forged")]).status_code == 401
    inbox.ignore(send(endpoint, "ignored", "good"))
