"""Dump and load carry the inbox: what was received, its history, and the keys of what is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import BrantError, InvalidValue, StorageError
from brant.inbox.tables import table_names
from tests.inbox.tiny import send, signed, status, tiny, work
from tests.servers import Server

pytestmark = pytest.mark.both_backends

BODY = b'\xff\x00 not UTF-8, {"id": 1}'
PATIENT = brant.inbox.RetryPolicy(max_attempts=5, first_delay_s=1000)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[brant.Database]:
    """An empty database to load into."""
    with brant.open(tmp_path / "copy.db") as database:
        yield database


@pytest.fixture
def without_inbox(request: pytest.FixtureRequest, path: Path, database_kind: str) -> Iterator[Path]:
    """A database in which no inbox ever was; on a server, the databases of the other tests have its tables."""
    if database_kind == "sqlite":
        yield path
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.new_database() as address:
        yield address  # type: ignore[misc]


@pytest.fixture
def full(inbox: brant.Inbox) -> brant.Inbox:
    """An inbox with something in every table."""
    endpoint = tiny(inbox, ordering_key="provider", retry=PATIENT)
    endpoint.handle("good")(lambda event, tx: None)
    gone = send(endpoint, "gone", "good")
    work(inbox)
    inbox.prune_events(statuses=["handled"], older_than=int(inbox.db.clock.now()) + 1)
    with pytest.raises(KeyError):
        inbox.get_event(gone)
    send(endpoint, "erased", "good")
    send(endpoint, "dead", "nobody's")
    work(inbox)
    inbox.erase_content(status="handled", older_than=int(inbox.db.clock.now()) + 1)
    batch = b'[{"id": "b1", "about": "x"}, {"id": "b2", "about": "x"}]'
    assert endpoint.receive(batch, signed(batch)).status_code == 204
    assert endpoint.receive(BODY, [("X-Tiny", "forged")]).status_code == 401
    inbox.ignore(send(endpoint, "ignored", "good"))
    return inbox


def rows_of(db: brant.Database) -> dict[str, list[dict[str, Any]]]:
    return {name: sorted(db.query(f"SELECT * FROM {name}"), key=repr) for name in table_names()}


def test_a_loaded_inbox_is_the_dumped_one(full: brant.Inbox, copy: brant.Database) -> None:
    lines = list(full.db.dump())
    counts = copy.load(lines)
    assert all(counts[name] for name in table_names()), "every table takes part in this test"
    assert rows_of(copy) == rows_of(full.db)
    assert list(copy.dump()) == lines


def test_bodies_are_the_bytes_that_came(full: brant.Inbox, copy: brant.Database) -> None:
    copy.load(full.db.dump())
    with brant.Inbox(copy) as loaded:
        orphan = loaded.list_deliveries(orphaned=True, with_body=True)[0]
    assert orphan.body == BODY


def test_a_loaded_event_is_handled_once_and_its_redelivery_is_known(inbox: brant.Inbox, copy: brant.Database) -> None:
    waiting = send(tiny(inbox), "e1")
    copy.load(inbox.db.dump())
    with brant.Inbox(copy) as loaded:
        endpoint = tiny(loaded)
        seen: list[int] = []
        endpoint.handle()(lambda event, tx: seen.append(event.id))
        assert send(endpoint, "e1") == waiting
        work(loaded)
        assert (seen, status(loaded, waiting)) == ([waiting], "handled")


def test_loading_dead_jobs_adds_no_attempts(full: brant.Inbox, copy: brant.Database) -> None:
    assert full.counts()["in"]["dead"] == 1
    copy.load(full.db.dump())
    with brant.Inbox(copy) as loaded:
        assert loaded.list_attempts() == full.list_attempts()


def test_an_id_of_a_deleted_event_is_not_given_out_again(inbox: brant.Inbox, copy: brant.Database) -> None:
    endpoint = tiny(inbox)
    endpoint.handle()(lambda event, tx: None)
    last = send(endpoint, "e1")
    work(inbox)
    inbox.prune_events(statuses=["handled"], older_than=int(inbox.db.clock.now()) + 1)
    copy.load(inbox.db.dump())
    with brant.Inbox(copy) as loaded:
        assert send(tiny(loaded), "e2") > last


def test_without_an_inbox_a_dump_makes_none(without_inbox: Path, copy: brant.Database) -> None:
    with brant.open(without_inbox) as db:
        db.queue("q").enqueue(1)
        copy.load(db.dump())
    assert not copy.query("SELECT name FROM sqlite_schema WHERE name LIKE 'knocker%'")


def test_a_users_table_of_a_similar_name_is_left_alone(inbox: brant.Inbox, copy: brant.Database) -> None:
    with inbox.db.transaction() as tx:
        tx.execute("CREATE TABLE knocker_notes (text TEXT)")
        tx.execute("INSERT INTO knocker_notes VALUES ('mine')")
    lines = list(inbox.db.dump())
    assert not any("knocker_notes" in line for line in lines)
    copy.load(lines)


def test_an_inbox_that_holds_something_is_not_loaded_into(full: brant.Inbox, copy: brant.Database) -> None:
    with brant.Inbox(copy) as used:
        tiny(used)
    with pytest.raises(StorageError, match="knocker_endpoints: 1"):
        copy.load(full.db.dump())


def test_a_dump_that_is_refused_leaves_no_tables(full: brant.Inbox, copy: brant.Database) -> None:
    with pytest.raises(InvalidValue, match="cut off"):
        copy.load(list(full.db.dump())[:-1])
    assert not copy.query("SELECT name FROM sqlite_schema WHERE name LIKE 'knocker%'")


@pytest.mark.parametrize(
    ("further", "why"),
    [
        ({"_brant_moon": None}, "_brant_moon, which this Brant does not know: upgrade"),
        ({"_honker_live": 1}, "_honker_live, which this Brant does not know"),
        ({"knocker_events": "many"}, "line 1 of the dump is damaged"),
        ({"knocker_events": True}, "line 1 of the dump is damaged"),
        (["knocker_events"], "line 1 of the dump is damaged"),
    ],
)
def test_tables_that_no_dump_has_are_refused(copy: brant.Database, further: object, why: str) -> None:
    header = {"brant": 1, "format": 1, "rows": 0, "last_ids": {}, "further": further}
    with pytest.raises(InvalidValue, match=why):
        copy.load([json.dumps(header), '{"end": true, "counts": {}}'])


def test_a_row_that_refers_to_nothing_is_refused(full: brant.Inbox, copy: brant.Database) -> None:
    found = [json.loads(line) for line in full.db.dump()]
    kept = [line for line in found if line.get("table") != "knocker_endpoints"]
    kept[-1]["counts"]["knocker_endpoints"] = 0
    with pytest.raises(BrantError, match=r"(?i)foreign key"):
        copy.load(json.dumps(line) for line in kept)
    assert len(list(copy.dump())) == 2
