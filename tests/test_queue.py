"""Adding jobs: options, payloads, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock, pending_payloads
from tests.plainly import plain_connection

pytestmark = pytest.mark.both_backends


def stored(db: brant.Database) -> list[str]:
    return [row["payload"] for row in db.query("SELECT payload FROM _honker_live ORDER BY id")]


def circular() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


PAYLOADS = [
    None,
    True,
    0,
    -1.5,
    10**30,
    "",
    "grüße 日本 😀",
    "nul \x00 inside",
    "\ud800",
    "line\nbreak",
    [],
    {},
    {"a": {"b": [1, None]}},
    nested(50),
    "x" * 100_000,
]
NOT_JSON = [
    float("nan"),
    float("inf"),
    -float("inf"),
    {1, 2},
    b"bytes",
    object(),
    {"deep": {1}},
    {(1, 2): 3},
    datetime(2024, 1, 1),
    circular(),
    nested(100_000),
    10**5000,
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: repr(payload)[:20])
def test_a_payload_comes_back_as_it_was(db: brant.Database, payload: object) -> None:
    db.queue("q").enqueue(payload)
    job = db.queue("q").claim_one("w")
    assert job is not None
    assert job.payload == payload
    assert type(job.payload) is type(payload)


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: repr(payload)[:20])
def test_enqueue_many_stores_what_enqueue_stores(db: brant.Database, payload: object) -> None:
    db.queue("q").enqueue(payload)
    db.queue("q").enqueue_many([payload])
    one, many = stored(db)
    assert one == many


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"n": 1}, '{"n": 1}'),
        ({"from": "py"}, '{"from": "py"}'),
        ([1, 2], "[1, 2]"),
        ("old-newest", '"old-newest"'),
        ({1: "a"}, '{"1": "a"}'),
        ((1, 2), "[1, 2]"),
        ("é", '"\\u00e9"'),
    ],
)
@pytest.mark.guarantee("G17")
def test_json_is_stored_with_the_default_spacing(db: brant.Database, payload: object, text: str) -> None:
    db.queue("q").enqueue(payload)
    assert stored(db) == [text]


@pytest.mark.parametrize("payload", NOT_JSON, ids=lambda payload: type(payload).__name__)
@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "save_result"])
@pytest.mark.guarantee("G19")
def test_what_json_cannot_say_is_a_type_error_and_nothing_is_written(
    db: brant.Database, verb: str, payload: object
) -> None:
    queue = db.queue("q")
    calls: dict[str, Callable[[], object]] = {
        "enqueue": lambda: queue.enqueue(payload),
        "enqueue_many": lambda: queue.enqueue_many(["good", payload]),
        "save_result": lambda: queue.save_result(1, payload),
    }
    with pytest.raises(TypeError, match="not JSON"):
        calls[verb]()
    assert stored(db) == []
    assert queue.get_result(1) == (False, None)
    assert db.list_queues() == []


@pytest.mark.guarantee("G19")
def test_a_bad_payload_leaves_the_transaction_around_it_usable(db: brant.Database) -> None:
    queue = db.queue("q")
    with db.transaction() as tx:
        queue.enqueue("before", tx=tx)
        with pytest.raises(TypeError):
            queue.enqueue({1}, tx=tx)
        queue.enqueue("after", tx=tx)
    assert pending_payloads(queue) == ["before", "after"]


@pytest.mark.parametrize(
    ("text", "payload"), [("", None), ("null", None), ("NaN", pytest.approx(float("nan"), nan_ok=True)), ("[1]", [1])]
)
def test_what_other_programs_store_is_decoded(db: brant.Database, text: str, payload: object) -> None:
    insert(db, text)
    job = db.queue("q").claim_one("w")
    assert job is not None
    assert job.payload == payload


@pytest.mark.parametrize("text", ["{bad", "plain words", " ", "[" * 100_000 + "]" * 100_000], ids=lambda text: text[:9])
def test_bad_json_of_other_programs_raises_on_access_and_can_be_settled(db: brant.Database, text: str) -> None:
    insert(db, text)
    job = db.queue("q").claim_one("w")
    assert job is not None
    for _ in range(2):
        with pytest.raises(ValueError, match=r"."):
            _ = job.payload
    assert job.fail("bad payload")
    [dead] = db.queue("q").list_dead()
    assert (dead.payload_text, dead.payload, dead.last_error) == (text, text, "bad payload")


def insert(db: brant.Database, payload: str) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload) VALUES ('q', ?)", [payload])


def test_the_defaults_of_a_job(timed: brant.Database, clock: FakeClock) -> None:
    job_id = timed.queue("q", max_attempts=5).enqueue({"n": 1})
    assert timed.queue("q").get_job(job_id) == {
        "id": job_id,
        "queue": "q",
        "payload": '{"n": 1}',
        "state": "pending",
        "priority": 0,
        "run_at": 1_700_000_000,
        "worker_id": None,
        "claim_expires_at": None,
        "attempts": 0,
        "max_attempts": 5,
        "created_at": 1_700_000_000,
        "expires_at": None,
    }


def test_the_options_of_a_job(timed: brant.Database) -> None:
    job_id = timed.queue("q").enqueue(1, delay=30, priority=-4, expires=60, max_attempts=9)
    row = timed.queue("q").get_job(job_id)
    assert row is not None
    assert {name: row[name] for name in ("run_at", "priority", "expires_at", "max_attempts")} == {
        "run_at": 1_700_000_030,
        "priority": -4,
        "expires_at": 1_700_000_060,
        "max_attempts": 9,
    }


AFTERNOON = datetime(2023, 11, 14, 22, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "run_at",
    [
        AFTERNOON.timestamp(),
        int(AFTERNOON.timestamp()),
        AFTERNOON,
        AFTERNOON.astimezone().replace(tzinfo=None),
    ],
    ids=["float", "int", "aware", "naive is local"],
)
def test_run_at_takes_a_number_or_a_datetime(timed: brant.Database, clock: FakeClock, run_at: float | datetime) -> None:
    queue = timed.queue("q")
    queue.enqueue(1, run_at=run_at)
    wait = int(AFTERNOON.timestamp() - clock.now())
    clock.advance(wait - 1)
    assert queue.claim_one("w") is None
    clock.advance(1)
    job = queue.claim_one("w")
    assert job is not None
    assert job.run_at == AFTERNOON.timestamp()


def test_a_delay_wins_over_run_at(timed: brant.Database) -> None:
    queue = timed.queue("q")
    row = queue.get_job(queue.enqueue(1, run_at=5, delay=10))
    assert row is not None
    assert row["run_at"] == 1_700_000_010


def test_a_time_in_the_past_means_now(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue("past", run_at=AFTERNOON - timedelta(days=365))
    queue.enqueue("negative", delay=-5)
    assert [job.payload for job in queue.claim_batch("w", 9)] == ["past", "negative"]


BAD_OPTIONS: list[dict[str, object]] = [
    {"run_at": "tomorrow"},
    {"run_at": float("nan")},
    {"run_at": float("inf")},
    {"delay": "5"},
    {"delay": float("nan")},
    {"delay": float("inf")},
    {"delay": 10**400},
    {"delay": 1e300},
    {"delay": [1]},
    {"priority": 1.5},
    {"priority": "high"},
    {"priority": None},
    {"priority": 2**63},
    {"priority": -(2**70)},
    {"expires": "soon"},
    {"expires": float("nan")},
    {"expires": 2**70},
    {"max_attempts": -1},
    {"max_attempts": 2.5},
    {"max_attempts": "3"},
    {"max_attempts": 2**63},
]
BAD_UNIQUENESS: list[dict[str, object]] = [
    {"unique_key": ""},
    {"unique_key": 5},
    {"unique_key": b"k"},
    {"unique_key": "\ud800"},
    {"unique_for": 5},
    {"unique_for": 0, "unique_key": "k"},
    {"unique_for": -1, "unique_key": "k"},
    {"unique_for": float("nan"), "unique_key": "k"},
    {"unique_for": "5", "unique_key": "k"},
]


@pytest.mark.parametrize("options", [*BAD_OPTIONS, *BAD_UNIQUENESS], ids=lambda options: repr(options)[:40])
@pytest.mark.guarantee("G19")
def test_a_bad_option_is_refused_by_name_and_nothing_is_written(db: brant.Database, options: dict[str, object]) -> None:
    with pytest.raises(brant.InvalidValue, match=next(iter(options))):
        db.queue("q").enqueue(1, **options)  # type: ignore[arg-type]
    assert stored(db) == []
    assert db.list_queues() == []


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=lambda options: repr(options)[:40])
@pytest.mark.guarantee("G19")
def test_enqueue_many_refuses_the_same_options(db: brant.Database, options: dict[str, object]) -> None:
    with pytest.raises(brant.InvalidValue, match=next(iter(options))):
        db.queue("q").enqueue_many([1, 2], **options)  # type: ignore[arg-type]
    assert stored(db) == []


def test_enqueue_many_gives_ids_in_the_order_of_the_payloads(db: brant.Database) -> None:
    queue = db.queue("q")
    ids = queue.enqueue_many(range(12_000), priority=2)
    assert ids == sorted(set(ids))
    assert len(ids) == 12_000
    assert pending_payloads(queue) == list(range(12_000))
    row = queue.get_job(ids[-1])
    assert row is not None
    assert (row["payload"], row["priority"]) == ("11999", 2)


def test_enqueue_many_of_nothing_writes_nothing(db: brant.Database) -> None:
    assert db.queue("q").enqueue_many([]) == []
    assert db.list_queues() == []


@pytest.mark.guarantee("G16")
def test_enqueue_many_is_all_or_nothing(db: brant.Database) -> None:
    def payloads() -> Any:
        yield "first"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.queue("q").enqueue_many(payloads())
    assert stored(db) == []


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("commits", [True, False])
def test_a_job_exists_if_and_only_if_its_transaction_commits(db: brant.Database, commits: bool) -> None:
    queue = db.queue("q")
    try:
        with db.transaction() as tx:
            queue.enqueue(1, tx=tx)
            queue.enqueue_many([2, 3], tx=tx)
            assert pending_payloads(queue) == []
            if not commits:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert pending_payloads(queue) == ([1, 2, 3] if commits else [])


@pytest.mark.guarantee("G1")
def test_a_job_commits_with_the_callers_own_connection(db: brant.Database, path: Path) -> None:
    queue = db.queue("q")
    with plain_connection(path) as own:
        queue.enqueue("kept", tx=own.tx)
        own.commit()
        queue.enqueue("lost", tx=own.tx)
        own.rollback()
    assert pending_payloads(queue) == ["kept"]


def test_a_job_may_be_added_by_plain_sql(db: brant.Database) -> None:
    insert(db, json.dumps({"plain": "sql"}))
    job = db.queue("q").claim_one("w")
    assert job is not None
    assert (job.payload, job.max_attempts, job.priority) == ({"plain": "sql"}, 3, 0)
