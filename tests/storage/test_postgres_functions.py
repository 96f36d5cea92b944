"""The SQL functions on Postgres, called by a plain driver beside Brant's own API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import psycopg
import pytest

import brant
from brant.limit import Limit
from brant.storage.base import Storage
from brant.storage.jobs import JOB_EVENTS_TOPIC
from brant.testing import FakeClock
from tests.servers import Server
from tests.storage.side_by_side import Clients, clients
from tests.waiting import PATIENCE_S

__all__ = ["clients"]

NOW = 1_700_000_000


class Caller:
    """A program in another language: it knows nothing but SQL."""

    def __init__(self, connection: psycopg.Connection[Any], clock: FakeClock) -> None:
        self.connection = connection
        self._clock = clock

    def __call__(self, function: str, *arguments: object) -> Any:
        self.connection.execute("SELECT set_config('brant_clock.now', %s, false)", [str(self._clock.now())])
        marks = ", ".join(["%s"] * len(arguments))
        row = self.connection.execute(f"SELECT brant.{function}({marks})".encode(), arguments).fetchone()
        assert row is not None
        return row[0]

    def enqueue(self, payload: str = "1", queue: str = "q", delay: int | None = None, max_attempts: int = 3) -> int:
        return int(self("honker_enqueue", queue, payload, None, delay, 0, max_attempts, None))

    def claim(self, count: int = -1, worker: str = "w") -> list[int]:
        return [job["id"] for job in json.loads(self("honker_claim_batch", "q", worker, count, 60))]


@pytest.fixture
def caller(clients: Clients) -> Iterator[Caller]:
    with psycopg.connect(clients.address, autocommit=True) as connection:
        yield Caller(connection, clients.clock)


@pytest.fixture
def db(clients: Clients) -> Iterator[brant.Database]:
    with brant.open(clients.address, clock=clients.clock) as database:
        yield database


# Both ways


def test_what_sql_enqueues_a_worker_of_brants_runs(caller: Caller, db: brant.Database) -> None:
    job_id = caller.enqueue('{"to": "alice"}')
    job = db.queue("q").claim_one("worker")
    assert job is not None
    assert (job.id, job.payload) == (job_id, {"to": "alice"})
    assert job.ack()
    assert caller("honker_get_job", job_id) == ""


def test_what_brant_enqueues_is_claimed_retried_and_acked_by_sql(caller: Caller, db: brant.Database) -> None:
    queue = db.queue("q")
    first, second = queue.enqueue(1), queue.enqueue(2)
    assert caller.claim() == [first, second]
    assert caller("honker_retry", first, "w", 0, "not yet") == 1
    assert caller("honker_ack", second, "w") == 1
    job = queue.claim_one("worker")
    assert job is not None
    assert (job.id, job.attempts, job.last_error) == (first, 2, "not yet")


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("commits", [False, True])
def test_a_call_is_part_of_the_callers_transaction(clients: Clients, db: brant.Database, commits: bool) -> None:
    with psycopg.connect(clients.address) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        connection.execute("INSERT INTO orders VALUES (1)")
        connection.execute("SELECT brant.honker_enqueue('q', '1', NULL, NULL, 0, 3, NULL)")
        connection.execute("SELECT brant.notify('c', '1'), brant.honker_stream_publish('t', NULL, '1')")
        if not commits:
            connection.rollback()
    assert db.queue("q").stats().pending == int(commits)
    assert len(db.stream("t").read()) == int(commits)


def test_a_trigger_of_the_users_own_may_enqueue(clients: Clients) -> None:
    with psycopg.connect(clients.address) as shop, brant.open(clients.address) as db:
        shop.execute("CREATE TABLE orders (id int)")
        shop.execute(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM brant.honker_enqueue("
            "'mail', CAST(json_build_object('order', NEW.id) AS text), NULL, NULL, 0, 3, NULL); RETURN NEW; END $$"
        )
        shop.execute("CREATE TRIGGER tell AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION tell()")
        shop.execute("INSERT INTO orders VALUES (3), (4)")
        assert db.queue("mail").peek_many() == []
        shop.commit()
        assert [message.payload for message in db.queue("mail").peek_many()] == [{"order": 3}, {"order": 4}]


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize(
    "call",
    [
        "honker_enqueue('q', '1', NULL, NULL, 0, 3, NULL)",
        "notify('c', '1')",
        "honker_stream_publish('t', NULL, '1')",
        "honker_result_save(7, '1', 0)",
        "honker_scheduler_register('s', 'q', '@every 60s', '1', 0, NULL)",
    ],
)
def test_whoever_waits_is_woken(clients: Clients, caller: Caller, call: str) -> None:
    doorbell = clients.new().subscribe()
    caller.connection.execute(f"SELECT brant.{call}".encode())
    assert doorbell.wait(PATIENCE_S)


def test_a_new_queue_of_an_open_call_keeps_nobody_waiting(clients: Clients, db: brant.Database) -> None:
    with psycopg.connect(clients.address) as connection:
        connection.execute("SELECT brant.honker_enqueue('new', '1', NULL, NULL, 0, 3, NULL)")
        db.queue("new").enqueue(1)
        with psycopg.connect(clients.address) as other:
            other.execute("SELECT brant.honker_enqueue('new', '1', NULL, NULL, 0, 3, NULL)")
    assert db.queue("new").stats().pending == 3


# What Brant knows of queues


def events(storage: Storage) -> list[dict[str, Any]]:
    with storage.reading() as session:
        return [json.loads(row[3]) for row in session.read_stream(JOB_EVENTS_TOPIC, 0, -1)]


def by_brant(storage: Storage, queue: str, task: str) -> None:
    with storage.transaction() as session:
        session.record_queue_events(queue, True)
        done, dead, gone = (session.enqueue(queue, task, max_attempts=2) for _ in range(3))
        session.enqueue(queue, "1", delay=60)
        session.claim(queue, "w", 2, 60)
        session.ack(done, "w")
        session.retry(dead, "w", 0, "why")
        session.claim(queue, "w", 1, 60)
        session.fail(dead, "w", "no")
        session.cancel(gone)


def by_sql(caller: Caller, queue: str, task: str) -> None:
    done, dead, gone = (caller.enqueue(task, queue, max_attempts=2) for _ in range(3))
    caller.enqueue("1", queue, delay=60)
    caller("honker_claim_batch", queue, "w", 2, 60)
    caller("honker_ack", done, "w")
    caller("honker_retry", dead, "w", 0, "why")
    caller("honker_claim_batch", queue, "w", 1, 60)
    caller("honker_fail", dead, "w", "no")
    caller("honker_cancel", gone)


def test_the_events_of_jobs_are_the_same_as_brants_own(clients: Clients, caller: Caller) -> None:
    storage = clients.new()
    task = '{"__honker_task__": {"task": "app.send"}}'
    by_brant(storage, "q", task)
    expected = events(storage)
    with storage.transaction() as session:
        session.delete_queue("q")
        session.prune_stream(JOB_EVENTS_TOPIC)
    by_sql(caller, "q", task)
    told = events(storage)
    first, other_first = expected[0]["job_id"], told[0]["job_id"]
    assert [event | {"job_id": event["job_id"] - other_first} for event in told] == [
        event | {"job_id": event["job_id"] - first} for event in expected
    ]


def test_nothing_is_claimed_from_a_paused_queue(caller: Caller, db: brant.Database) -> None:
    caller.enqueue()
    db.queue("q").pause()
    assert caller.claim() == []
    db.queue("q").resume()
    assert len(caller.claim()) == 1


def test_limits_hold_for_claims_by_sql_too(caller: Caller, db: brant.Database) -> None:
    queue = db.queue("q")
    first, second = (queue.enqueue(number, limit=Limit("k", max_running=1)) for number in (1, 2))
    assert caller.claim() == [first]
    assert caller.claim() == []
    assert queue.claim_batch("other", 5) == []
    assert caller("honker_ack", first, "w") == 1
    assert caller.claim() == [second]


def test_jobs_that_are_settled_by_sql_count_in_their_batch(
    caller: Caller, db: brant.Database, clock: FakeClock
) -> None:
    queue = db.queue("q")
    with db.batch(then=("done", None)) as batch:
        ids = [queue.enqueue(number, batch=batch) for number in range(3)]
    clock.advance(5)
    assert caller.claim(2) == ids[:2]
    assert caller("honker_ack_batch", str(ids[:1]), "w") == 1
    assert caller("honker_fail", ids[1], "w", "no") == 1
    assert not batch.is_settled
    assert caller("honker_cancel", ids[2]) == 1
    counts = batch.counts()
    assert (counts.succeeded, counts.dead, counts.cancelled) == (1, 1, 1)
    (callback,) = db.queue("done").peek_many()
    assert callback.id == (NOW + 5) * 1_000_000


def test_jobs_whose_lease_ran_out_are_claimed_again_with_their_error_noted(
    caller: Caller, clients: Clients, clock: FakeClock
) -> None:
    job_id = caller.enqueue()
    caller.claim(1, "dies")
    clock.advance(61)
    assert caller.claim(1, "lives") == [job_id]
    with clients.new().reading() as session:
        ((attempt, worker, error, _),) = session.attempt_errors(job_id)
    assert (attempt, worker) == (1, "dies")
    assert "lease ran out" in error


def test_every_job_is_claimed_once_by_sql_or_by_brant(clients: Clients) -> None:
    with clients.new().transaction() as session:
        ids = session.enqueue_many("q", ["1"] * 300)

    def work(storage: Storage, number: int) -> list[int]:
        mine: list[int] = []
        with psycopg.connect(clients.address, autocommit=True) as connection:
            caller = Caller(connection, clients.clock)
            while True:
                if number % 2:
                    claimed = caller.claim(7, f"w{number}")
                else:
                    with storage.transaction() as session:
                        claimed = [job.id for job, _ in session.claim("q", f"w{number}", 7, 60)]
                if not claimed:
                    return mine
                mine += claimed

    assert sorted(chain.from_iterable(clients.at_once(6, work))) == ids


# Schedules


@pytest.mark.parametrize("missed", ["all", "one", "skip"])
@pytest.mark.parametrize("late_by", [5, 100, 3 * 3_600, 100 * 3_600])
def test_a_tick_fires_what_brants_own_would(clients: Clients, caller: Caller, missed: str, late_by: int) -> None:
    storage = clients.new()
    for name in ("own", "sql"):
        with storage.transaction() as session:
            session.register_schedule(name, "q", "0 * * * *", "1", tz="Europe/Berlin", missed=missed)
            session.pause_schedule(name)
    clients.clock.advance(2_800 + late_by)
    ticked = []
    for name in ("own", "sql"):
        with storage.transaction() as session:
            session.execute("UPDATE brant._honker_scheduler_tasks SET enabled = 1 WHERE name = ?", [name])
            fires = [fire.fire_at for fire in session.tick(clients.clock.now())] if name == "own" else None
        if fires is None:
            fires = [fire["fire_at"] for fire in json.loads(caller("honker_scheduler_tick", int(clients.clock.now())))]
        with storage.reading() as session:
            schedule = session.get_schedule(name)
            assert schedule is not None
            ticked.append((fires, schedule.next_fire_at, schedule.last_fire_at))
    assert ticked[0] == ticked[1]


def test_zone_and_policy_of_a_schedule_outlive_its_registration_by_sql(clients: Clients, caller: Caller) -> None:
    storage = clients.new()
    with storage.transaction() as session:
        session.register_schedule("s", "q", "0 9 * * *", "1", tz="Asia/Tokyo", missed="one")
    assert caller("honker_scheduler_register", "s", "other", "0 10 * * *", "2", 0, None) == 1
    with storage.reading() as session:
        schedule = session.get_schedule("s")
    assert schedule is not None
    assert (schedule.queue, schedule.tz, schedule.missed) == ("other", "Asia/Tokyo", "one")
    assert schedule.next_fire_at % 86_400 == 3_600


@pytest.mark.guarantee("G13")
def test_a_schedule_that_can_not_fire_is_parked_and_stops_no_other(clients: Clients, caller: Caller) -> None:
    for name in ("bad", "good"):
        caller("honker_scheduler_register", name, "q", "@every 60s", "1", 0, None)
    caller.connection.execute("UPDATE brant._honker_scheduler_tasks SET cron_expr = 'nonsense' WHERE name = 'bad'")
    clients.clock.advance(60)
    assert [fire["name"] for fire in json.loads(caller("honker_scheduler_tick", NOW + 60))] == ["good"]
    with clients.new().reading() as session:
        bad = session.get_schedule("bad")
    assert bad is not None
    assert "nonsense" in (bad.error or "")


# Other schemas, bad arguments


def test_the_functions_are_in_the_schema_that_the_database_was_opened_with(postgres_server: Server) -> None:
    with (
        postgres_server.new_database() as address,
        brant.open(address, schema="Über uns") as db,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        connection.execute("""SELECT "Über uns".honker_enqueue('q', '1', NULL, NULL, 0, 3, NULL)""")
        assert db.queue("q").read() == "1"


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "call",
    [
        "notify(NULL, 'p')",
        "honker_enqueue('q', NULL, NULL, NULL, 0, 3, NULL)",
        "honker_enqueue('q', '1', NULL, NULL, NULL, 3, NULL)",
        "honker_enqueue('q', '1', 1.5, NULL, 0, 3, NULL)",
        "honker_claim_batch('q', NULL, 1, 60)",
        "honker_ack(NULL, 'w')",
        "honker_ack_batch('not json', 'w')",
        "honker_ack_batch('5', 'w')",
        "honker_ack_batch('[\"1\"]', 'w')",
        "honker_ack_batch('[true]', 'w')",
        "honker_retry(1, 'w', NULL, 'e')",
        "honker_fail(1, 'w', NULL)",
        "honker_lock_acquire('l', 'a', NULL)",
        "honker_lock_renew('l', 'a', 0)",
        "honker_rate_limit_try('l', 0, 1)",
        "honker_rate_limit_try('l', 1, 0)",
        "honker_result_save(1, NULL, 0)",
        "honker_stream_publish('t', NULL, NULL)",
        "honker_stream_save_offset('c', 't', NULL)",
        "honker_cron_next_after('* * * * *', 1.5)",
        "honker_scheduler_tick(NULL)",
        "honker_nothing()",
    ],
)
def test_an_argument_of_the_wrong_type_or_value_is_an_error(caller: Caller, call: str) -> None:
    with pytest.raises(psycopg.Error, match=r"honker_|notify|JSON|json|positive|array|scalar"):
        caller.connection.execute(f"SELECT brant.{call}".encode())
