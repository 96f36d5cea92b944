"""The SQL functions on whatever connection: strict, atomic, part of the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import brant
from brant.errors import InvalidValue, StorageError
from brant.testing import FakeClock
from tests.attached import Sql, connection, sql
from tests.waiting import PATIENCE_S, in_thread, line_of, python

__all__ = ["connection", "sql"]

ENQUEUE = "SELECT honker_enqueue('q', '1', NULL, NULL, 0, 3, NULL)"
REFUSE_THE_DEAD = "CREATE TRIGGER full BEFORE INSERT ON _honker_dead BEGIN SELECT RAISE(ABORT, 'cemetery full'); END"


def live(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT state, worker_id, attempts FROM _honker_live ORDER BY id").fetchall()


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("notify", (None, "p")),
        ("notify", ("c", 5)),
        ("notify", ("c", b"p")),
        ("honker_enqueue", ("q", None, None, None, 0, 3, None)),
        ("honker_enqueue", ("q", "1", 1.5, None, 0, 3, None)),
        ("honker_enqueue", ("q", "1", None, "5", 0, 3, None)),
        ("honker_enqueue", ("q", "1", None, None, None, 3, None)),
        ("honker_enqueue", ("q", "1", None, None, 0, 3.0, None)),
        ("honker_claim_batch", ("q", "w", "1", 60)),
        ("honker_claim_batch", ("q", None, 1, 60)),
        ("honker_ack", ("1", "w")),
        ("honker_ack", (1, 2)),
        ("honker_ack_batch", ("not json", "w")),
        ("honker_ack_batch", ("5", "w")),
        ("honker_ack_batch", ('["1"]', "w")),
        ("honker_ack_batch", ("[true]", "w")),
        ("honker_lock_acquire", ("l", "a", None)),
        ("honker_lock_renew", ("l", "a", 0)),
        ("honker_rate_limit_try", ("l", 0, 1)),
        ("honker_rate_limit_try", ("l", 1, 0)),
        ("honker_result_save", (1, None, 0)),
        ("honker_stream_publish", ("t", 5, "p")),
        ("honker_stream_save_offset", ("c", "t", None)),
        ("honker_cron_next_after", ("* * * * *", 1.5)),
        ("honker_scheduler_tick", (None,)),
    ],
)
def test_an_argument_of_the_wrong_type_or_value_is_an_error_and_nothing_is_written(
    sql: Sql, connection: sqlite3.Connection, function: str, arguments: tuple[object, ...]
) -> None:
    before = connection.total_changes
    with pytest.raises(sqlite3.OperationalError):
        sql(function, *arguments)
    assert connection.total_changes == before
    assert not connection.in_transaction


@pytest.mark.parametrize(("function", "arguments"), [("honker_ack", (1,)), ("notify", ("c",)), ("honker_nothing", ())])
def test_a_wrong_number_of_arguments_or_a_wrong_name_is_an_error(
    sql: Sql, function: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises(sqlite3.OperationalError, match=function):
        sql(function, *arguments)


def test_inside_a_brant_transaction_the_functions_are_there_and_errors_keep_their_text(db: brant.Database) -> None:
    queue = db.queue("q")
    with db.transaction() as tx:
        (row,) = tx.query("SELECT honker_enqueue('q', ?, NULL, NULL, 0, 3, NULL) AS id", ['{"n": 1}'])
        with pytest.raises(InvalidValue, match="honker_ack: argument 1 must be an integer, not 'one'"):
            tx.query("SELECT honker_ack('one', 'w')")
        with pytest.raises(InvalidValue, match="nonsense"):
            tx.query("SELECT honker_cron_next_after('nonsense', 0)")
        tx.execute(REFUSE_THE_DEAD)
        claimed = json.loads(tx.query("SELECT honker_claim_batch('q', 'w', 1, 60) AS jobs")[0]["jobs"])
        with pytest.raises(StorageError, match="cemetery full"):
            tx.query("SELECT honker_fail(?, 'w', 'bad')", [row["id"]])
    assert [job["id"] for job in claimed] == [row["id"]]
    assert queue.stats().processing == 1


def test_an_earlier_error_does_not_hide_a_later_one(db: brant.Database) -> None:
    with db.transaction() as tx:
        with pytest.raises(InvalidValue):
            tx.query("SELECT honker_ack('one', 'w')")
        with pytest.raises(StorageError, match="no such table: missing"):
            tx.query("SELECT * FROM missing")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize(
    "settle", ["honker_fail(id, 'w', 'bad')", "honker_retry(id, 'w', 0, 'bad')"], ids=["fail", "retry"]
)
def test_a_move_to_the_dead_that_fails_half_way_changes_nothing(
    sql: Sql, connection: sqlite3.Connection, settle: str
) -> None:
    sql("honker_enqueue", "q", "1", None, None, 0, 1, None)
    sql("honker_claim_batch", "q", "w", 1, 60)
    connection.execute(REFUSE_THE_DEAD)
    with pytest.raises(sqlite3.OperationalError):
        connection.execute(f"SELECT {settle} FROM (SELECT max(id) AS id FROM _honker_live)").fetchall()
    assert live(connection) == [("processing", "w", 1)]
    assert connection.execute("SELECT * FROM _brant_attempts").fetchall() == []
    assert not connection.in_transaction


@pytest.mark.guarantee("G16")
def test_a_sweep_or_claim_that_fails_half_way_changes_nothing(sql: Sql, connection: sqlite3.Connection) -> None:
    sql("honker_enqueue", "q", "1", None, None, 0, 3, 0)
    sql("honker_enqueue", "q", "2", None, None, 0, 0, None)
    connection.execute(REFUSE_THE_DEAD)
    for call in (("honker_sweep_expired", "q"), ("honker_claim_batch", "q", "w", 9, 60)):
        with pytest.raises(sqlite3.OperationalError):
            sql(*call)
    assert live(connection) == [("pending", None, 0)] * 2


@pytest.mark.guarantee("G16")
def test_a_tick_that_fails_half_way_fires_nothing(sql: Sql, connection: sqlite3.Connection, clock: FakeClock) -> None:
    for name in ("a", "b"):
        sql("honker_scheduler_register", name, name, "@every 60s", "{}", 0, None)
    connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON _honker_live WHEN NEW.queue = 'b' BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(sqlite3.OperationalError):
        sql("honker_scheduler_tick", int(clock.now()) + 60)
    assert live(connection) == []
    assert sql("honker_scheduler_soonest") == int(clock.now()) + 60


DIES_BETWEEN_THE_STATEMENTS = """
import os, signal, sqlite3, sys
import brant
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
brant.attach(connection)
connection.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
connection.execute(f"CREATE TEMP TRIGGER dies AFTER {sys.argv[2]} BEGIN SELECT die(); END")
connection.execute("SELECT honker_fail(max(id), 'w', 'bad') FROM _honker_live").fetchall()
"""


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("moment", ["INSERT ON _honker_dead", "DELETE ON _honker_live", "INSERT ON _brant_attempts"])
def test_a_process_killed_between_the_statements_leaves_no_half_move(
    sql: Sql, connection: sqlite3.Connection, path: Path, moment: str, clock: FakeClock
) -> None:
    sql("honker_enqueue", "q", "1", None, None, 0, 3, None)
    sql("honker_claim_batch", "q", "w", 1, 10**9)
    with python(DIES_BETWEEN_THE_STATEMENTS, path, moment) as process:
        assert process.wait(PATIENCE_S) == -9
    assert live(connection) == [("processing", "w", 1)]
    assert connection.execute("SELECT * FROM _honker_dead").fetchall() == []
    assert connection.execute("SELECT * FROM _brant_attempts").fetchall() == []


def test_in_default_mode_a_call_outside_a_transaction_commits_and_leaves_none_open(path: Path) -> None:
    with closing(sqlite3.connect(path)) as default, closing(sqlite3.connect(path)) as other:
        brant.attach(default)
        for call in (ENQUEUE, "SELECT honker_lock_acquire('l', 'me', 60)", "SELECT notify('c', 'p')"):
            default.execute(call).fetchall()
            assert not default.in_transaction
        assert len(live(other)) == 1
        assert other.execute("SELECT owner FROM _honker_locks").fetchall() == [("me",)]


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("isolation_level", [None, "DEFERRED"])
def test_inside_the_callers_transaction_a_call_commits_or_rolls_back_with_it(path: Path, isolation_level: None) -> None:
    with closing(sqlite3.connect(path, isolation_level=isolation_level)) as mine:
        brant.attach(mine)
        for end, rows in ((mine.rollback, 0), (mine.commit, 1)):
            mine.execute("BEGIN")
            mine.execute(ENQUEUE).fetchall()
            assert mine.in_transaction
            end()
            assert len(live(mine)) == rows


@pytest.mark.guarantee("G1")
def test_a_trigger_of_the_users_own_may_enqueue(path: Path, db: brant.Database) -> None:
    queue = db.queue("mail")
    with closing(sqlite3.connect(path)) as shop:
        brant.attach(shop)
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        shop.execute(
            "CREATE TRIGGER tell AFTER INSERT ON orders BEGIN"
            " SELECT honker_enqueue('mail', json_object('order', NEW.id), NULL, NULL, 0, 3, NULL); END"
        )
        shop.execute("INSERT INTO orders VALUES (1), (2)")
        shop.rollback()
        assert queue.stats().pending == 0
        shop.execute("INSERT INTO orders VALUES (3), (4)")
        shop.commit()
    assert [message.payload for message in queue.peek_many()] == [{"order": 3}, {"order": 4}]


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("isolation_level", [None, "DEFERRED"])
def test_a_call_that_fails_in_a_writing_statement_undoes_that_statement(path: Path, isolation_level: None) -> None:
    with closing(sqlite3.connect(path, isolation_level=isolation_level)) as shop:
        brant.attach(shop)
        shop.execute("CREATE TABLE jobs (id INTEGER)")
        with pytest.raises(sqlite3.OperationalError):
            shop.execute(
                "INSERT INTO jobs SELECT honker_enqueue('q', value, NULL, NULL, 0, 3, NULL)"
                " FROM json_each('[\"text\", 2]')"
            )
        shop.commit()
        assert live(shop) == []
        assert shop.execute("SELECT * FROM jobs").fetchall() == []


def test_a_function_may_be_called_for_each_row_of_a_table(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shop:
        brant.attach(shop)
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        shop.execute("INSERT INTO orders VALUES (1), (2), (3)")
        ids = shop.execute("SELECT honker_enqueue('q', id || '', NULL, NULL, 0, 3, NULL) FROM orders").fetchall()
        assert len(live(shop)) == len(set(ids)) == 3


def test_a_call_that_reads_before_it_writes_waits_for_another_writer(sql: Sql, path: Path, clock: FakeClock) -> None:
    sql("honker_enqueue", "q", "1", None, None, 0, 3, None)
    with (
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as mine,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        brant.attach(mine, clock)
        other.execute("BEGIN IMMEDIATE")
        claiming = in_thread(lambda: mine.execute("SELECT honker_claim_batch('q', 'w', 1, 60)").fetchone()[0])
        with pytest.raises(TimeoutError):
            claiming.result(0.05)
        other.execute("UPDATE _honker_live SET priority = 1")
        other.execute("COMMIT")
        assert len(json.loads(claiming.result(PATIENCE_S))) == 1


@pytest.mark.guarantee("G8")
@pytest.mark.parametrize(
    "call",
    [
        "honker_get_job(1)",
        "honker_result_get(1)",
        "honker_queue_next_claim_at('q')",
        "honker_stream_read_since('t', 0, 9)",
        "honker_stream_get_offset('c', 't')",
        "honker_scheduler_list()",
        "honker_scheduler_soonest()",
        "honker_cron_next_after('@every 5s', 0)",
    ],
)
def test_a_call_that_only_reads_does_not_wait_for_a_writer(path: Path, call: str) -> None:
    with (
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as mine,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        mine.execute("PRAGMA journal_mode = WAL")
        brant.attach(mine)
        other.execute("BEGIN IMMEDIATE")
        mine.execute(f"SELECT {call}").fetchall()


@pytest.mark.parametrize("prepare", [lambda c: None, lambda c: c.execute("PRAGMA journal_mode = WAL")])
def test_attaching_makes_the_tables_in_any_journal_mode(
    path: Path, prepare: Callable[[sqlite3.Connection], object]
) -> None:
    with closing(sqlite3.connect(path)) as plain:
        prepare(plain)
        brant.attach(plain)
        brant.attach(plain)
        assert plain.execute(ENQUEUE).fetchone()[0] > 0
        assert not plain.in_transaction


def test_attaching_in_memory_works_too() -> None:
    with closing(sqlite3.connect(":memory:")) as plain:
        brant.attach(plain)
        plain.execute(ENQUEUE).fetchall()
        assert len(live(plain)) == 1


def test_attaching_inside_a_transaction_leaves_that_transaction_open(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("BEGIN")
        plain.execute("CREATE TABLE mine (x)")
        brant.attach(plain)
        assert plain.in_transaction
        plain.execute("ROLLBACK")
        assert plain.execute("SELECT * FROM sqlite_schema").fetchall() == []


def test_attaching_to_a_file_that_is_ready_writes_nothing(path: Path, db: brant.Database) -> None:
    before = db.query("PRAGMA schema_version")
    with closing(sqlite3.connect(path)) as plain:
        brant.attach(plain)
        assert plain.total_changes == 0
    assert db.query("PRAGMA schema_version") == before


def test_attaching_to_a_file_of_a_newer_brant_is_refused(path: Path) -> None:
    with brant.open(path) as db, db.transaction() as tx:
        tx.execute("UPDATE _brant_meta SET value = '99' WHERE key = 'schema_version'")
        with pytest.raises(StorageError, match="newer Brant"):
            tx.bootstrap_honker_schema()
    with closing(sqlite3.connect(path)) as plain:
        with pytest.raises(StorageError, match="newer Brant"):
            brant.attach(plain)
        assert plain.execute("SELECT value FROM _brant_meta").fetchall() == [("99",)]


@pytest.mark.parametrize("wrong", [None, "app.db", object()])
def test_only_a_connection_can_be_attached_to(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"sqlite3\.Connection"):
        brant.attach(wrong)  # type: ignore[arg-type]


def test_a_row_factory_of_the_owner_does_not_disturb_the_functions(path: Path) -> None:
    with closing(sqlite3.connect(path)) as plain:
        plain.row_factory = lambda cursor, row: {"never": "by position"}
        brant.attach(plain)
        plain.row_factory = None
        job_id = plain.execute(ENQUEUE).fetchone()[0]
        plain.row_factory = lambda cursor, row: {"value": row[0]}
        claimed = plain.execute("SELECT honker_claim_batch('q', 'w', 1, 60)").fetchone()
        assert [job["id"] for job in json.loads(claimed["value"])] == [job_id]


COMMITS_WHEN_TOLD = """
import sys
import brant
with brant.open(sys.argv[1]) as db:
    print("ready", flush=True)
    for _ in sys.stdin:
        db.notify("c", 1)
"""


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("options", [(None,), ("kernel",), ("poll",), ("poll", 5)])
def test_the_watcher_functions_tell_of_commits_of_other_processes(
    sql: Sql, path: Path, options: tuple[object, ...]
) -> None:
    with python(COMMITS_WHEN_TOLD, path) as process:
        assert line_of(process) == "ready"
        handle = sql("honker_update_watcher_open", str(path), *options)
        assert sql("honker_update_watcher_wait", handle, 0) == 0
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
        assert sql("honker_update_watcher_wait", handle, PATIENCE_S * 1000) == 1
    assert sql("honker_update_watcher_close", handle) == 1
    assert sql("honker_update_watcher_wait", handle, 0) == -1


def test_a_watcher_of_a_file_that_is_replaced_is_dead(sql: Sql, path: Path, tmp_path: Path) -> None:
    handle = sql("honker_update_watcher_open", str(path), None)
    path.rename(tmp_path / "moved.db")
    assert sql("honker_update_watcher_wait", handle, PATIENCE_S * 1000) == -1


@pytest.mark.parametrize("arguments", [("app.db", "shm"), ("app.db", "poll", 0), ("missing.db", None), (None, None)])
def test_a_watcher_that_can_not_be_opened_is_an_error(
    sql: Sql, path: Path, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    name, *rest = arguments
    with pytest.raises(sqlite3.OperationalError):
        sql("honker_update_watcher_open", name and str(tmp_path / str(name)), *rest)
