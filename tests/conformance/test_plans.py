"""On SQLite, every hot statement seeks by the index that was made for it, and costs the same whatever else is there."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator

import pytest

from brant.storage.session import Session
from brant.storage.sqlite.backend import SqliteStorage
from brant.storage.sqlite.connection import GUARDED_STATEMENTS, STATEMENTS
from brant.storage.transfer import TABLES
from brant.testing import FakeClock
from tests.conformance.conftest import Backend, sqlite_backend

LARGE_TABLES = re.compile(
    r"\b(_honker_(live|dead|stream|notifications)|_brant_(attempts|batch_jobs|limits|limited|starts))\b"
)
LISTS_ALL_QUEUES = {"queue_names", "queue_names_with_dead"}
FOR_HEALTH = {"abandoned_leases", "schedules_without_consumers"}
WHOLE_TABLES = [f"dump_{table}" for table in TABLES]
FOR_DUMPS = {"row_counts", *WHOLE_TABLES}
FIRST_ROW = {"any_batch_job"}
ONCE_IN_A_WHILE = {
    "prune_notifications",
    "rescue_old_pending",
    "rescue_old_processing",
    *FOR_HEALTH,
    *FOR_DUMPS,
    *FIRST_ROW,
}
CHECKED = sorted(name for name, sql in STATEMENTS.items() if LARGE_TABLES.search(sql) and name not in ONCE_IN_A_WHILE)

# A JSON argument, the rows of a recursion, a subquery of a few rows, and small tables of which all rows are wanted.
MAY_BE_SCANNED = re.compile(
    r"SCAN (json_each|item|level|seen|CONSTANT ROW|\(subquery-\d+\)|sqlite_sequence|consumer)( |$)"
)
BY_ID = "INTEGER PRIMARY KEY"

INDEXES: dict[str, set[str]] = {
    "ack": {BY_ID},
    "ack_many": {BY_ID},
    "any_expired": {"_brant_live_expiring"},
    "attempt_errors": {"_brant_attempts_job"},
    "arrivals": {BY_ID},
    "bury": {BY_ID},
    "best_held_back": {"_brant_limited_held_back"},
    "cancel": {BY_ID},
    "candidates": {BY_ID, "_brant_live_ready"},
    "claim": {BY_ID, "_brant_live_ready", "_brant_attempts_job"},
    "claim_ids": {BY_ID, "_brant_attempts_job"},
    "claim_upkeep": {"_honker_live_processing_deadline", "_brant_live_exhausted", "_brant_live_expiring"},
    "claimable": {
        "_brant_live_ready",
        "_brant_live_exhausted",
        "_honker_live_pending_deadline",
        "_honker_live_processing_deadline",
    },
    "exhausted_jobs": {"_brant_live_exhausted"},
    "expired_jobs": {"_brant_live_expiring"},
    "extend": {BY_ID},
    "forget_unused_limits": {"_brant_limits_idle"},
    "get_dead": {BY_ID},
    "get_job": {BY_ID},
    "lapsed_jobs": {"_honker_live_processing_deadline"},
    "last_notification": {"_honker_notifications_recent"},
    "let_go": {BY_ID},
    "limited_claimable": {"_brant_limits_waking", "_brant_live_expiring", "_honker_live_processing_deadline"},
    "list_dead": {"_brant_dead_queue"},
    "longest_held_back": {"_brant_limited_oldest"},
    "move": {BY_ID, "_brant_live_ready"},
    "next_claim_at": {"_honker_live_pending_deadline", "_honker_live_processing_deadline"},
    "overdue_candidates": {BY_ID, "_honker_live_pending_deadline"},
    "owned_job": {BY_ID},
    "peek": {"_brant_live_ready"},
    "prune_stream": {"_honker_stream_topic"},
    "purge_dead": {"_brant_dead_queue"},
    "read_notifications": {"_honker_notifications_recent"},
    "read_stream": {"_honker_stream_topic"},
    "release": {BY_ID},
    "reschedule": {BY_ID},
    "revive": {BY_ID, "_brant_attempts_job"},
    "running_jobs": {"_honker_live_processing_deadline"},
    "running_of_key": {BY_ID, "_brant_limited_key"},
    "running_of_queue": {"_honker_live_processing_deadline"},
    "stream_head": {"_honker_stream_topic"},
    "take": {BY_ID, "_brant_live_ready"},
    "times_failed": {BY_ID, "_brant_attempts_job"},
    "topics": {"_honker_stream_topic"},
    "unique_holder": {BY_ID},
    "wake_key_if_needed": {"_brant_limited_held_back"},
    "woken_keys": {"_brant_limits_waking"},
}


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Backend]:
    with sqlite_backend(request, clock) as made:
        yield made
        made.close()


@pytest.fixture
def sqlite_storage(backend: Backend) -> SqliteStorage:
    storage = backend.open()
    assert isinstance(storage, SqliteStorage)
    return storage


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    params = {name: "[]" if name in ("ids", "payloads", "events") else 1 for name in re.findall(r":(\w+)", sql)}
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)]


def walks_a_table(step: str, name: str) -> bool:
    if name in LISTS_ALL_QUEUES and step == "SCAN _brant_queues":
        return False
    return "SCAN" in step and not MAY_BE_SCANNED.match(step)


def analyzed(storage: SqliteStorage) -> sqlite3.Connection:
    """As after the ANALYZE of an application: the planner then judges by what is in the tables."""
    with storage.transaction() as session:
        session.enqueue_many("q", ["1"] * 500)
        session.enqueue_many("q", ["1"] * 500, priority=1, delay=60, expires=60)
        session.bury([job.id for job, _ in session.claim("q", "w", 200, 60)], "why")
        session.claim("q", "w", 200, 60)
        for topic in ("s", "t"):
            session.publish_many(topic, [(None, "1")] * 500)
            session.notify(topic, "1")
        for number in range(50):
            session.enqueue(f"queue-{number}", "1", unique_key="k", unique_for=60)
            session.save_offset("c", f"topic-{number}", 0)
    storage._writer.execute("ANALYZE")
    return storage._writer


@pytest.fixture(params=["fresh", "analyzed"])
def connection(request: pytest.FixtureRequest, sqlite_storage: SqliteStorage) -> sqlite3.Connection:
    return sqlite_storage._writer if request.param == "fresh" else analyzed(sqlite_storage)


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("statements", [STATEMENTS, GUARDED_STATEMENTS], ids=["own", "guarded"])
def test_no_statement_walks_a_table_that_may_be_large(
    connection: sqlite3.Connection, statements: dict[str, str]
) -> None:
    scans = {
        name: [step for step in plan(connection, statements[name]) if walks_a_table(step, name)] for name in CHECKED
    }
    assert {name: steps for name, steps in scans.items() if steps} == {}


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("name", INDEXES)
def test_a_hot_statement_uses_the_index_made_for_it(connection: sqlite3.Connection, name: str) -> None:
    used = " ".join(plan(connection, STATEMENTS[name]))
    assert [index for index in INDEXES[name] if index not in used] == []


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize(
    "name",
    [
        "claim",
        "claim_upkeep",
        "claimable",
        "candidates",
        "overdue_candidates",
        "best_held_back",
        "longest_held_back",
        "take",
        "peek",
        "move",
        "read_stream",
        "list_dead",
        *WHOLE_TABLES,
    ],
)
def test_what_comes_in_order_is_not_sorted(connection: sqlite3.Connection, name: str) -> None:
    assert [step for step in plan(connection, STATEMENTS[name]) if "TEMP B-TREE" in step] == []


# Cost, counted in steps of SQLite's virtual machine


def crowd(session: Session, kind: str, clock: FakeClock) -> None:
    """What must not make a claim any slower; of a higher priority, so that it stands in front where it can."""
    match kind:
        case "ready":
            session.enqueue_many("q", ["1"] * 20_000)
        case "ready in many priorities":
            for priority in range(2_000):
                session.enqueue("q", "1", priority=priority)
        case "delayed":
            session.enqueue_many("q", ["1"] * 20_000, priority=9, delay=600)
        case "in flight":
            session.enqueue_many("q", ["1"] * 10_000, priority=9)
            session.claim("q", "other", -1, 600)
        case "in flight for the last time":
            session.enqueue_many("q", ["1"] * 10_000, priority=9, max_attempts=1)
            session.claim("q", "other", -1, 600)
        case "dead":
            session.bury(session.enqueue_many("q", ["1"] * 20_000, priority=9), "why")
        case "expired":
            session.enqueue_many("q", ["1"] * 20_000, priority=9, expires=1)
            clock.advance(1)
            session.take("q", 1)  # pays for them once
        case "other queues":
            for number in range(2_000):
                session.enqueue(f"before-q-{number}", "1", unique_key="k", unique_for=60)


def claim_and_ack(session: Session) -> None:
    ((job, _),) = session.claim("q", "w", 1, 60)
    assert session.ack(job.id, "w", job.attempts)


VERBS: dict[str, Callable[[Session], object]] = {
    "claim and ack": claim_and_ack,
    "claimable": lambda session: session.claimable("q"),
    "peek": lambda session: session.peek("q", 1),
    "take": lambda session: session.take("q", 1),
    "move": lambda session: session.move("q", "there", 1),
    "enqueue": lambda session: session.enqueue("q", "1"),
    "enqueue under a key": lambda session: session.enqueue("q", "1", unique_key="k"),
}


def cost_of_each_verb(storage: SqliteStorage) -> dict[str, int]:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    costs = {}
    for name, verb in VERBS.items():
        with storage.transaction() as session:
            session.enqueue("q", "1")
            steps = 0
            storage._writer.set_progress_handler(count, 1)
            verb(session)
            storage._writer.set_progress_handler(None, 0)
            costs[name] = steps
    return costs


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize(
    "kind",
    [
        "ready",
        "ready in many priorities",
        "delayed",
        "in flight",
        "in flight for the last time",
        "dead",
        "expired",
        "other queues",
    ],
)
def test_the_cost_of_a_verb_does_not_grow_with_what_else_is_there(
    sqlite_storage: SqliteStorage, clock: FakeClock, kind: str
) -> None:
    alone = cost_of_each_verb(sqlite_storage)
    with sqlite_storage.transaction() as session:
        session.delete_queue("q")
        crowd(session, kind, clock)
    beside = cost_of_each_verb(sqlite_storage)
    assert all(alone.values())
    assert {name: (alone[name], cost) for name, cost in beside.items() if cost > 2 * alone[name]} == {}


@pytest.mark.guarantee("G7")
def test_expired_jobs_cost_a_claim_no_more_than_a_few_times_its_own_cost(
    sqlite_storage: SqliteStorage, clock: FakeClock
) -> None:
    alone = cost_of_each_verb(sqlite_storage)
    with sqlite_storage.transaction() as session:
        session.enqueue_many("q", ["1"] * 99, priority=9, expires=1)
    clock.advance(1)
    assert cost_of_each_verb(sqlite_storage)["claim and ack"] < 10 * alone["claim and ack"]
