"""Dump and load: the whole state, out of one file and into another."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brant
from brant.errors import DatabaseClosed, InvalidValue, StorageError, TransactionError
from brant.storage.transfer import TABLES
from tests.everything import add_foreign_rows, everything, fill

Lines = list[str]


@pytest.fixture
def full(db: brant.Database, path: Path) -> brant.Database:
    """A database with something in every table."""
    fill(db)
    add_foreign_rows(path)
    return db


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[brant.Database]:
    """An empty database to load into."""
    with brant.open(tmp_path / "copy.db") as database:
        yield database


@pytest.fixture
def small(db: brant.Database) -> Lines:
    """A dump of a few lines."""
    db.queue("q").enqueue_many([1, 2])
    db.stream("t").publish("event")
    return list(db.dump())


def parsed(lines: Lines) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def is_empty(db: brant.Database) -> bool:
    return len(list(db.dump())) == 2


# There and back


def test_a_loaded_database_is_the_dumped_one(full: brant.Database, copy: brant.Database) -> None:
    lines = list(full.dump())
    counts = copy.load(lines)
    assert all(counts.values()), "every table takes part in this test"
    assert everything(Path(copy.path)) == everything(Path(full.path))
    assert list(copy.dump()) == lines


def test_no_table_and_no_column_is_left_out(db: brant.Database) -> None:
    tables = db.query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    columns = {
        row["name"].removeprefix("_honker_").removeprefix("_brant_"): tuple(
            column["name"] for column in db.query("SELECT name FROM pragma_table_info(?)", [row["name"]])
        )
        for row in tables
        if row["name"] != "_brant_meta"
    }
    assert columns == TABLES


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_NOT_NULL = _TEXT | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=5)
_VALUE = st.none() | _NOT_NULL


@settings(max_examples=30, deadline=None)
@given(
    jobs=st.lists(st.tuples(_NOT_NULL, st.binary(max_size=5), _NOT_NULL, _VALUE, _VALUE), max_size=5),
    locks=st.lists(st.tuples(_VALUE, _NOT_NULL, _NOT_NULL), max_size=5),
    attempts=st.lists(st.tuples(_NOT_NULL, st.binary(max_size=5)), max_size=5),
)
def test_any_value_of_any_type_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[tuple[object, ...]],
    locks: list[tuple[object, ...]],
    attempts: list[tuple[object, ...]],
) -> None:
    folder = tmp_path_factory.mktemp("files")
    with brant.open(folder / "a.db") as source, brant.open(folder / "b.db") as copy:
        with closing(sqlite3.connect(source.path)) as connection:
            connection.executemany(
                "INSERT INTO _honker_live (queue, payload, priority, run_at, worker_id, expires_at)"
                " VALUES (?1, CAST(?2 AS TEXT), ?3, coalesce(?4, 0), ?4, ?5)",
                jobs,
            )
            connection.executemany("INSERT OR IGNORE INTO _honker_locks VALUES (?, ?, ?)", locks)
            connection.executemany("INSERT INTO _brant_attempts VALUES (?1, 1, NULL, CAST(?2 AS TEXT), 0)", attempts)
            connection.commit()
        lines = list(source.dump())
        copy.load(lines)
        assert everything(folder / "b.db") == everything(folder / "a.db")
        assert list(copy.dump()) == lines


def test_work_goes_on_in_the_copy(db: brant.Database, copy: brant.Database) -> None:
    queue = db.queue("q")
    leased, last = queue.enqueue("leased"), queue.enqueue("cancelled")
    assert queue.claim_one("w") is not None
    queue.cancel(last)
    db.stream("t").publish_many([1, 2, 3])
    db.stream("t").prune(up_to=3)
    copy.load(db.dump())
    assert copy.queue("q").claim_one("another") is None, "the lease holds"
    assert copy.queue("q").ack(leased, "w")
    assert copy.queue("q").enqueue("new") > last
    assert copy.stream("t").publish("new") == 4


def test_a_file_of_lines_is_written_and_read_as_it_is(full: brant.Database, copy: brant.Database, path: Path) -> None:
    file = path.with_suffix(".ndjson")
    with file.open("w", encoding="ascii") as output:
        output.writelines(full.dump())
    with file.open("rb") as source:
        copy.load(source)
    assert "".join(copy.dump()) == file.read_text("ascii")


def test_a_line_is_one_line_for_every_program(full: brant.Database) -> None:
    text = "".join(full.dump())
    assert text.isascii()
    assert [json.loads(line)["table"] for line in text.splitlines()[1:-1]]


def test_what_json_can_not_say_is_spelled_out(db: brant.Database, path: Path) -> None:
    add_foreign_rows(path)
    rows = [row for row in parsed(list(db.dump())) if row.get("table") == "live"]
    assert rows[0]["payload"] == {"text": "Iv/D7aCAIAAi"}
    assert rows[0]["worker_id"] == {"blob": "Iv/D7aCAIAAi"}
    assert rows[0]["run_at"] == {"real": "inf"}
    assert rows[1]["payload"] == {"blob": "AP8="}


def test_the_first_line_tells_what_it_is_and_the_last_one_how_much_there_was(small: Lines) -> None:
    header, *rows, end = parsed(small)
    assert (header["brant"], header["format"], header["rows"]) == (1, 1, len(rows))
    assert set(header["last_ids"]) == {"live", "stream"}
    assert end["end"] is True
    assert {table: count for table, count in end["counts"].items() if count} == {"queues": 1, "live": 2, "stream": 1}


def test_jobs_of_an_early_honker_are_in_the_dump(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE _honker_pending (id INTEGER PRIMARY KEY, queue, payload, priority, run_at, attempts,"
            " max_attempts, created_at)"
        )
        connection.execute("""INSERT INTO _honker_pending VALUES (1, 'q', '"early"', 0, 0, 0, 3, 0)""")
        connection.commit()
    assert [row["payload"] for row in parsed(list(db.dump())) if row.get("table") == "live"] == ['"early"']


def test_what_can_not_be_taken_over_is_not_left_out_in_silence(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE _honker_pending (unknown)")
    with pytest.raises(StorageError, match="early Honker"):
        list(db.dump())


# While others work


def test_a_dump_shows_one_moment(db: brant.Database, copy: brant.Database) -> None:
    queue = db.queue("q")
    for number in range(3):
        queue.enqueue(number)
    lines = db.dump()
    first = next(lines)
    queue.enqueue("later")
    assert queue.read() == "0"
    db.stream("later").publish("event")
    assert copy.load([first, *lines])["live"] == 3
    assert copy.queue("q").peek_many() == ["0", "1", "2"]
    assert copy.list_streams() == []


def test_a_dump_takes_no_reader_from_others(path: Path) -> None:
    with brant.open(path, max_readers=1) as db, closing(db.dump()) as lines:
        next(lines)
        assert db.queue_names() == []


def log_can_be_emptied(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        blocked: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not blocked


def test_the_snapshot_is_kept_until_the_iterator_is_closed(small: Lines, db: brant.Database, path: Path) -> None:
    lines = db.dump()
    next(lines)
    db.queue("q").enqueue("later")
    assert not log_can_be_emptied(path)
    lines.close()
    assert log_can_be_emptied(path)


def test_large_payloads_are_not_kept_in_memory(db: brant.Database, copy: brant.Database) -> None:
    for _ in range(10):
        db.queue("q").enqueue("x" * 2_000_000)
    tracemalloc.start()
    try:
        assert copy.load(db.dump())["live"] == 10
        assert tracemalloc.get_traced_memory()[1] < 14_000_000
    finally:
        tracemalloc.stop()


def test_a_closed_database_can_not_be_dumped_any_further(small: Lines, db: brant.Database) -> None:
    lines = db.dump()
    next(lines)
    db.close()
    for dump in (lines, db.dump()):
        with pytest.raises(DatabaseClosed):
            next(dump)


def test_loading_inside_a_transaction_is_refused(small: Lines, copy: brant.Database) -> None:
    with copy.transaction(), pytest.raises(TransactionError):
        copy.load(small)


# Refused, and nothing is loaded


@pytest.mark.guarantee("G19")
def test_a_dump_that_was_cut_off_is_refused_wherever_it_was_cut(small: Lines, copy: brant.Database) -> None:
    text = "".join(small)
    cuts = [*range(1, 40), *range(len(text) - 200, len(text) - 1), *(text.index(line) for line in small[1:])]
    for cut in cuts:
        with pytest.raises(InvalidValue, match=r"cut off|is no dump"):
            copy.load(text[:cut].splitlines(keepends=True))
    assert is_empty(copy)
    copy.load(text[:-1].splitlines())  # nothing is missing but the last newline


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: [], "is no dump"),
        (lambda lines: ["\n", *lines], "is no dump"),
        (lambda lines: [b"SQLite format 3\0\xff\xfe"], "is no dump"),
        (lambda lines: ["{}"], "is no dump"),
        (lambda lines: ["[1]"], "is no dump"),
        (lambda lines: ["[" * 100_000], "is no dump"),
        (lambda lines: ['{"brant": 1, "format": "1"}'], "is no dump"),
        (lambda lines: lines[1:], "is no dump"),
        (lambda lines: [lines[0].replace('"format": 1', '"format": 2'), *lines[1:]], "format 2.*upgrade Brant"),
        (lambda lines: [lines[0].replace('"live"', '"other"'), *lines[1:]], "line 1 .* last ids"),
        (lambda lines: [*lines[:2], "{", *lines[2:]], "line 3 .* no JSON object"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 5 .* other counts"),
        (lambda lines: [*lines[:3], *lines[2:]], "line 4 .*UNIQUE"),
        (lambda lines: [*lines, lines[1]], "line 7 .* behind the end"),
        (lambda lines: lines + lines, "line 7 .* behind the end"),
        (lambda lines: [lines[0], lines[1].replace("queues", "users"), *lines[2:]], "line 2 .*'users'.* no table"),
        (lambda lines: [lines[0], lines[1].replace('"queues"', "[]"), *lines[2:]], "line 2 .* no table"),
        (lambda lines: [lines[0], lines[1].replace("paused", "halted"), *lines[2:]], "line 2 .*name, paused, events"),
        (lambda lines: [lines[0], lines[1].replace('"paused": 0, ', ""), *lines[2:]], "line 2 .*name, paused, events"),
    ],
)
def test_what_is_no_dump_is_refused_with_the_reason(
    small: Lines, copy: brant.Database, change: Callable[[Lines], list[str | bytes]], why: str
) -> None:
    with pytest.raises((InvalidValue, StorageError), match=f"(?s){why}.*nothing was loaded"):
        copy.load(change(small))
    assert is_empty(copy)


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "value",
    [
        *("true", "[]", "{}", "NaN", "-Infinity", r'"\ud800"', '{"text": "*"}', '{"blob": 1}', '{"real": "nan"}'),
        *('{"text": "", "blob": ""}', '{"other": ""}', "9223372036854775808"),
    ],
)
def test_a_value_that_no_dump_has_is_refused(small: Lines, copy: brant.Database, value: str) -> None:
    lines = [line.replace('"payload": "1"', f'"payload": {value}') for line in small]
    assert lines != small
    with pytest.raises(InvalidValue, match=r"line 3 .*nothing was loaded"):
        copy.load(lines)
    assert is_empty(copy)


def test_a_database_that_holds_rows_is_refused(small: Lines, db: brant.Database) -> None:
    with pytest.raises(StorageError, match=r"already holds rows \(queues: 1, live: 2, stream: 1\)"):
        db.load(small)
    assert list(db.dump()) == small


def test_ids_of_an_emptied_database_are_not_given_out_again(small: Lines, copy: brant.Database) -> None:
    for _ in range(9):
        copy.stream("t").publish("event")
    copy.stream("t").prune(up_to=9)
    copy.load(small)
    assert copy.stream("t").publish("new") == 10


def test_a_source_that_breaks_loads_nothing(small: Lines, copy: brant.Database) -> None:
    def breaking() -> Iterator[str]:
        yield from small[:-1]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        copy.load(breaking())
    assert is_empty(copy)
    copy.load(small)
    assert list(copy.dump()) == small
