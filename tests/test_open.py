"""Opening a database and getting queues from it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import brant
from brant.errors import DatabaseClosed, QueueNameError, TransactionError
from tests.waiting import PATIENCE_S, in_thread, quick_switches


def test_a_path_may_be_text_or_path_like(tmp_path: Path) -> None:
    for path in (str(tmp_path / "text.db"), tmp_path / "pathlike.db"):
        with brant.open(path) as db:
            db.queue("q").enqueue(1)
        assert Path(path).exists()


def test_what_was_committed_is_there_after_reopening(path: Path) -> None:
    with brant.open(path) as db:
        job_id = db.queue("q").enqueue({"n": 1})
    with brant.open(path) as db:
        job = db.queue("q").claim_one("w")
        assert job is not None
        assert (job.id, job.payload) == (job_id, {"n": 1})


def test_a_new_file_is_its_owners_only(path: Path) -> None:
    with brant.open(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_memory_is_a_private_file_that_is_deleted_at_close() -> None:
    with brant.open(":memory:") as one, brant.open(":memory:") as other:
        one.queue("q").enqueue(1)
        assert one.queue("q").stats().pending == 1
        assert other.queue("q").stats().pending == 0
        place = Path(one.path)
        assert place.exists()
    assert not place.parent.exists()


def test_leaving_the_block_closes_the_database(path: Path) -> None:
    with brant.open(path) as db:
        queue = db.queue("q")
    with pytest.raises(DatabaseClosed, match="Database is closed"):
        queue.enqueue(1)


def test_closing_twice_is_harmless(path: Path) -> None:
    db = brant.open(path)
    db.close()
    db.close()


@pytest.mark.parametrize("path", ["", b"bytes.db"])
def test_a_path_that_is_no_file_name_is_refused(path: object) -> None:
    with pytest.raises(brant.InvalidValue, match="path"):
        brant.open(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["unknown", "Poll", " poll", "kernel "])
def test_an_unknown_watcher_backend_is_refused_by_its_exact_name(path: Path, backend: str) -> None:
    with pytest.raises(ValueError, match="unknown watcher backend"):
        brant.open(path, watcher_backend=backend)
    assert not path.exists()


@pytest.mark.parametrize("backend", [None, "poll", "polling", "kernel", "kernel-watcher"])
def test_known_watcher_backends_open(path: Path, backend: str | None) -> None:
    with brant.open(path, watcher_backend=backend) as db:
        assert db.queue("q").claim_one("w") is None


@pytest.mark.parametrize(
    "options",
    [
        {"max_readers": 0},
        {"max_readers": "8"},
        {"busy_timeout_ms": -1},
        {"busy_timeout_ms": "soon"},
        {"synchronous": "SOMETIMES"},
        {"synchronous": 5},
    ],
)
@pytest.mark.guarantee("G19")
def test_a_bad_option_is_refused_before_the_file_is_made(path: Path, options: dict[str, object]) -> None:
    with pytest.raises(brant.InvalidValue, match=next(iter(options))):
        brant.open(path, **options)  # type: ignore[arg-type]
    assert not path.exists()


def test_a_missing_directory_is_a_runtime_error_with_sqlites_text(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="unable to open") as caught:
        brant.open(tmp_path / "missing" / "app.db")
    assert isinstance(caught.value, brant.StorageError)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    text = b"this is no database, but it is long enough to look at" * 40
    path.write_bytes(text)
    with pytest.raises(RuntimeError, match="not a database"):
        brant.open(path)
    assert path.read_bytes() == text


def test_without_create_a_missing_file_is_an_error(path: Path) -> None:
    with pytest.raises(brant.StorageError, match=os.fspath(path)):
        brant.open(path, create=False)
    assert not path.exists()


def test_sql_errors_are_runtime_errors(db: brant.Database) -> None:
    with pytest.raises(RuntimeError, match="missing"):
        db.query("SELECT * FROM missing")


def test_reopening_and_asking_for_a_queue_rewrites_no_schema(path: Path) -> None:
    with brant.open(path) as db:
        db.queue("q")
        before = db.query("PRAGMA schema_version")
    with brant.open(path) as db:
        db.queue("q").enqueue(1)
        assert db.query("PRAGMA schema_version") == before


def test_a_queue_is_made_once_and_then_looked_up(db: brant.Database) -> None:
    made = db.queue("q", visibility_timeout_s=120, max_attempts=7)
    assert db.queue("q") is made
    assert db.queue("q", 120, 7) is made
    assert (made.db, made.name, made.visibility_timeout_s, made.max_attempts) == (db, "q", 120, 7)


def test_the_defaults_of_a_queue_are_five_minutes_and_three_attempts(db: brant.Database) -> None:
    queue = db.queue("q")
    assert (queue.visibility_timeout_s, queue.max_attempts) == (300, 3)
    assert db.queue("q", visibility_timeout_s=300, max_attempts=3) is queue
    assert db.queue("q", max_attempts=3) is queue


@pytest.mark.parametrize("options", [{"max_attempts": 7}, {"visibility_timeout_s": 120}, {"max_attempts": 3}])
def test_an_option_left_out_counts_as_its_default_once_one_is_given(
    db: brant.Database, options: dict[str, int]
) -> None:
    db.queue("q", visibility_timeout_s=120, max_attempts=7)
    with pytest.raises(ValueError, match="already opened"):
        db.queue("q", **options)


def test_two_databases_have_queues_of_their_own(path: Path) -> None:
    with brant.open(path) as one, brant.open(path) as other:
        assert one.queue("q", max_attempts=5) is not other.queue("q", max_attempts=6)


def test_threads_that_open_a_queue_at_once_get_one_object(db: brant.Database) -> None:
    start = threading.Barrier(8)
    made: list[brant.Queue] = []

    def ask() -> None:
        start.wait()
        made.append(db.queue("q"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(map(id, made))) == 1


def test_threads_that_open_a_queue_at_once_with_other_options_do_not_get_it(
    db: brant.Database,
) -> None:
    start = threading.Barrier(4)

    def ask(attempts: int) -> list[str]:
        surprises = []
        for number in range(200):
            start.wait()
            try:
                if db.queue(f"q{number}", max_attempts=attempts).max_attempts != attempts:
                    surprises.append(f"q{number}")
            except brant.InvalidValue:
                pass
        return surprises

    with quick_switches():
        asked = [in_thread(ask, attempts) for attempts in range(1, 5)]
        assert [answer.result(PATIENCE_S) for answer in asked] == [[], [], [], []]


def test_a_queue_is_not_constructed_inside_a_transaction(db: brant.Database) -> None:
    known = db.queue("known")
    with db.transaction():
        assert db.queue("known") is known
        with pytest.raises(TransactionError, match="cannot construct Queue"):
            db.queue("new")
    assert db.queue("new", max_attempts=9).max_attempts == 9


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00b", "\ud800", "x" * 513, None, 5, b"q", ["q"]])
@pytest.mark.guarantee("G19")
def test_a_bad_queue_name_is_refused(db: brant.Database, name: object) -> None:
    with pytest.raises(QueueNameError, match="Invalid queue name"):
        db.queue(name)  # type: ignore[arg-type]
    assert db.list_queues() == []


@pytest.mark.parametrize("name", ["q", "x" * 512, "with space", "_outbox:mail", "grüße", "日本", "a/b", "😀"])
def test_any_printable_queue_name_works(db: brant.Database, name: str) -> None:
    queue = db.queue(name)
    queue.enqueue(1)
    assert [stats.queue for stats in db.list_queues()] == [name]
    job = queue.claim_one("w")
    assert job is not None
    assert job.queue_name == name


@pytest.mark.parametrize(
    "options",
    [
        {"visibility_timeout_s": -1},
        {"visibility_timeout_s": float("nan")},
        {"visibility_timeout_s": float("inf")},
        {"visibility_timeout_s": "60"},
        {"max_attempts": -1},
        {"max_attempts": 1.5},
        {"max_attempts": "3"},
    ],
)
@pytest.mark.guarantee("G19")
def test_a_bad_queue_option_is_refused_and_nothing_is_remembered(
    db: brant.Database, options: dict[str, object]
) -> None:
    with pytest.raises(brant.InvalidValue, match=next(iter(options))):
        db.queue("q", **options)  # type: ignore[arg-type]
    assert db.queue("q").max_attempts == 3


def test_tables_of_the_early_layout_are_taken_over_by_the_first_queue(path: Path) -> None:
    with brant.open(path) as db, db.transaction() as tx:
        tx.execute(
            "CREATE TABLE _honker_pending (id INTEGER PRIMARY KEY, queue TEXT, payload TEXT, priority INTEGER,"
            " run_at INTEGER, attempts INTEGER, max_attempts INTEGER, created_at INTEGER)"
        )
        tx.execute("CREATE INDEX _honker_pending_claim ON _honker_pending (queue)")
        tx.execute("CREATE TABLE _honker_scheduler_state (name TEXT)")
        tx.execute("INSERT INTO _honker_pending VALUES (1, 'q', '\"old\"', 0, 0, 0, 3, 0)")
    with brant.open(path) as db:
        job = db.queue("q").claim_one("w")
        assert job is not None
        assert job.payload == "old"
        names = {row["name"] for row in db.query("SELECT name FROM sqlite_schema")}
        assert not names & {"_honker_pending", "_honker_pending_claim"}
        assert "_honker_scheduler_state" in names
