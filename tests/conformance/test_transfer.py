"""Whole tables, out of a database and into one."""

from __future__ import annotations

import pytest

from brant.errors import StorageError
from brant.storage.base import Storage
from brant.storage.session import Session
from brant.storage.transfer import NUMBERED_TABLES, TABLES

NOW = 1_700_000_000
# Of columns that do not take any number or text.
LIMITED: dict[str, object] = {
    "paused": 1,
    "events": 0,
    "enabled": 1,
    "missed": "one",
    "state": "processing",
    "sealed": 1,
    "settled": 0,
}
TEXTS = {"name", "alias", "target", "queue", "worker_id", "last_error", "error", "key", "value", "topic", "channel"}
TEXTS |= {"payload", "cron_expr", "tz", "owner", "note", "then_queue", "then_payload", "then_path"}


def a_row_of(table: str) -> dict[str, object]:
    """A row whose every column has a value that no other column has."""
    return {
        column: LIMITED.get(column, f"{column} é\n" if column in TEXTS else NOW + number)
        for number, column in enumerate(TABLES[table])
    }


def rows_of(storage: Storage, table: str) -> list[dict[str, object]]:
    with storage.snapshot() as session:
        return [dict(zip(TABLES[table], row, strict=True)) for row in session.table_rows(table)]


@pytest.mark.parametrize("table", TABLES)
def test_a_row_is_read_as_it_was_loaded_and_no_other_table_has_it(
    storage: Storage, session: Session, table: str
) -> None:
    session.load_row(table, a_row_of(table))
    assert rows_of(storage, table) == [a_row_of(table)]
    assert session.row_counts() == dict.fromkeys(TABLES, 0) | {table: 1}


@pytest.mark.parametrize("column", ["worker_id", "claim_expires_at", "expires_at"])
def test_what_is_not_set_stays_so(storage: Storage, session: Session, column: str) -> None:
    session.load_row("live", a_row_of("live") | {column: None})
    assert rows_of(storage, "live")[0][column] is None


def test_fractions_of_a_second_are_kept(storage: Storage, session: Session) -> None:
    times = {"run_at": NOW + 0.1, "claim_expires_at": NOW + 1e-6, "expires_at": NOW + 0.3}
    session.load_row("live", a_row_of("live") | times)
    assert rows_of(storage, "live") == [a_row_of("live") | times]


def test_what_was_made_by_other_verbs_is_read(storage: Storage, session: Session) -> None:
    first, second = session.enqueue_many("q", ["1", "2"])
    session.claim("q", "w", 1, 60)
    assert [(row["id"], row["state"], row["worker_id"]) for row in rows_of(storage, "live")] == [
        (first, "processing", "w"),
        (second, "pending", None),
    ]
    assert rows_of(storage, "queues") == [{"name": "q", "paused": 0, "events": 0}]


def test_a_loaded_job_is_a_job(session: Session) -> None:
    session.load_row("live", a_row_of("live") | {"id": 7, "queue": "q", "worker_id": "w", "attempts": 1})
    job = session.get_job(7)
    assert job is not None
    assert (job.queue, job.state) == ("q", "processing")
    assert session.ack(7, "w", 1)


def test_rows_are_read_one_by_one(storage: Storage, session: Session) -> None:
    ids = session.enqueue_many("q", ["1", "2"])
    with storage.snapshot() as reading:
        rows = reading.table_rows("live")
        assert [next(rows)[0], next(rows)[0], next(rows, None)] == [*ids, None]


def test_a_snapshot_shows_one_moment(storage: Storage, session: Session) -> None:
    (first,) = session.enqueue_many("q", ["1"])
    with storage.snapshot() as reading:
        assert reading.row_counts()["live"] == 1
        second = session.enqueue("q", "2")
        session.cancel(first)
        assert [row[0] for row in reading.table_rows("live")] == [first]
        # Ids may be given out outside of transactions: then no snapshot has the last one of its own moment.
        assert reading.last_ids() in ({"live": first}, {"live": second})
    assert [row["payload"] for row in rows_of(storage, "live")] == ["2"]


def test_a_snapshot_refuses_to_write(storage: Storage) -> None:
    with storage.snapshot() as reading, pytest.raises(StorageError):
        reading.enqueue("q", "1")


def test_the_last_ids_outlive_their_rows(session: Session) -> None:
    assert session.last_ids() == {}
    job_id, offset, notification = session.enqueue("q", "1"), session.publish("t", None, "1"), session.notify("c", "1")
    session.cancel(job_id)
    session.prune_stream("t")
    session.prune_notifications(None, 0)
    assert session.last_ids() == {"live": job_id, "notifications": notification, "stream": offset}


def new_id(session: Session, table: str) -> int:
    match table:
        case "live":
            return session.enqueue("q", "1")
        case "stream":
            return session.publish("t", None, "1")
        case _:
            return session.notify("c", "1")


@pytest.mark.parametrize("table", NUMBERED_TABLES)
@pytest.mark.parametrize("is_used", [False, True])
def test_ids_go_on_behind_the_raised_one(session: Session, table: str, is_used: bool) -> None:
    last_id = 10 * NOW * 1_000_000
    if is_used:
        new_id(session, table)
    session.raise_last_id(table, last_id)
    assert session.last_ids()[table] == last_id
    assert new_id(session, table) == last_id + 1


@pytest.mark.parametrize("table", NUMBERED_TABLES)
def test_the_last_id_is_never_lowered(session: Session, table: str) -> None:
    used = new_id(session, table)
    session.raise_last_id(table, used - 1)
    assert session.last_ids() == {table: used}


def test_there_are_no_jobs_of_earlier_systems_in_a_new_database(session: Session) -> None:
    assert not session.has_old_layout()


def test_tables_of_other_parts_are_carried_too(storage: Storage) -> None:
    with storage.transaction() as session:
        session.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)", [])
        session.execute(
            "CREATE TABLE children (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parents DEFERRABLE)", []
        )
    with storage.transaction() as session:
        found = session.further_tables(["children", "missing", "parents"])
        assert sorted(found) == ["children", "parents"]
        session.defer_references()
        session.load_further_row(found["children"], {"id": 2, "parent": 1})
        session.load_further_row(found["parents"], {"id": 1})
    with storage.snapshot() as session:
        assert session.further_count(found["children"]) == 1
        assert [tuple(row) for row in session.further_rows(found["children"])] == [(2, 1)]


def test_how_far_a_migration_is_stays_noted_until_it_has_ended(session: Session) -> None:
    assert session.migration_note() is None
    session.save_migration_note("begun")
    session.save_migration_note("half way")
    assert session.migration_note() == "half way"
    session.forget_migration_note()
    assert session.migration_note() is None
