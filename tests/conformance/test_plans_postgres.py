"""On Postgres, the cost of a verb does not grow with what else is in the tables, whichever plan the server keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg import sql

from brant.storage.postgres.sql import Statement, statements_of
from brant.storage.session import Session
from brant.testing import FakeClock
from tests.conformance.conftest import Backend, postgres_backend

MANY = 20_000
CROWDS = ["ready", "ready in many priorities", "delayed", "in flight", "dead", "expired", "other queues"]
HOT = [
    "ack",
    "ack_many",
    "any_expired",
    "bury",
    "cancel",
    "claim",
    "claim_upkeep",
    "claimable",
    "drop_jobs",
    "exhausted_jobs",
    "extend",
    "get_job",
    "lapsed_jobs",
    "move",
    "owned_job",
    "peek",
    "peek_lapsed",
    "release",
    "reschedule",
    "take",
    "times_failed",
    "unique_holder",
]
# Pages that a statement may touch: a few descents of an index, whatever is there.
MOST_PAGES = 60


@pytest.fixture(params=["postgres"])
def backend(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Backend]:
    with postgres_backend(request, clock) as made:
        yield made
        made.close()


def crowd(session: Session, kind: str, clock: FakeClock) -> None:
    """What must not make a claim any slower; of a higher priority, so that it stands in front where it can."""
    match kind:
        case "ready":
            session.enqueue_many("q", ["1"] * MANY)
        case "ready in many priorities":
            for priority in range(500):
                session.enqueue_many("q", ["1"] * 10, priority=priority)
        case "delayed":
            session.enqueue_many("q", ["1"] * MANY, priority=9, delay=600)
        case "in flight":
            session.enqueue_many("q", ["1"] * MANY, priority=9)
            session.claim("q", "other", -1, 600)
        case "dead":
            session.bury(session.enqueue_many("q", ["1"] * MANY, priority=9), "why")
        case "expired":
            session.enqueue_many("q", ["1"] * MANY, priority=9, expires=1)
            clock.advance(1)
            session.take("q", 1)  # pays for them once
        case "other queues":
            for number in range(500):
                session.enqueue(f"before-q-{number}", "1", unique_key="k", unique_for=60)


def values(session: Session, job_id: int) -> dict[str, object]:
    return session.times() | {
        "queue": "q",
        "worker": "w",
        "limit": 1,
        "lease_end": session.now() + 60,
        "run_at": session.now(),
        "id": job_id,
        "ids": json.dumps([job_id]),
        "attempt": 1,
        "error": "why",
        "key": "k",
        "destination": "there",
        **dict.fromkeys(("after", "before", "seen_id", "seen_priority", "seen_run_at")),
    }


def plan(
    connection: psycopg.Connection[Any], statement: Statement, given: Mapping[str, object], mode: str
) -> list[str]:
    """The plan as it ran, with the pages it touched; undone again. `mode` is the kind of plan that the server keeps."""
    arguments = sql.SQL(", ").join(sql.Literal(given[name]) for name in statement.params)
    with connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("SET LOCAL plan_cache_mode = {}").format(sql.Literal(mode)))
        connection.execute(f"PREPARE tried AS {statement.sql}")
        try:
            explained = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE tried({})")
            return [row[0] for row in connection.execute(explained.format(arguments))]
        finally:
            connection.execute("DEALLOCATE tried")


def pages(steps: list[str]) -> int:
    """Of the statement itself: the first count is that of the topmost step, which includes those below it."""
    first = next((step for step in steps if "Buffers:" in step), "")
    return sum(map(int, re.findall(r"(?:hit|read)=(\d+)", first)))


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("kind", CROWDS)
def test_a_hot_statement_touches_a_few_pages_whatever_else_is_there(
    backend: Backend, clock: FakeClock, kind: str
) -> None:
    storage, statements = backend.open(), statements_of("brant")
    with storage.transaction() as session:
        crowd(session, kind, clock)
        session.enqueue_many("q", ["1"] * 3, priority=10)
        ((job, _),) = session.claim("q", "w", 1, 60)
        given = values(session, job.id)
    with backend.connect_plainly() as connection:
        connection.autocommit = True
        connection.execute("VACUUM FULL brant._honker_live")
        costly = {}
        for upkeep in ("VACUUM", "VACUUM ANALYZE"):  # without knowledge of what is in the columns, and with it
            connection.execute(upkeep)
            for mode in ("force_custom_plan", "force_generic_plan"):
                for name in HOT:
                    steps = plan(connection, statements[name], given, mode)
                    if pages(steps) > MOST_PAGES:
                        costly[name, mode, upkeep] = steps
    assert {case: pages(steps) for case, steps in costly.items()} == {}, "\n".join(next(iter(costly.values())))
