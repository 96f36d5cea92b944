"""The SQL functions: what each one answers, on a plain connection in autocommit mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from brant.testing import FakeClock
from tests.attached import NOW, Plain, Sql, connection, sql

__all__ = ["connection", "sql"]

pytestmark = pytest.mark.both_backends


def enqueue(
    sql: Sql,
    payload: str = "1",
    *,
    queue: str = "q",
    run_at: int | None = None,
    delay: int | None = None,
    priority: int = 0,
    max_attempts: int = 3,
    expires: int | None = None,
) -> int:
    job_id: int = sql("honker_enqueue", queue, payload, run_at, delay, priority, max_attempts, expires)
    return job_id


def claim(sql: Sql, n: int = 1, *, worker: str = "w", lease: int = 60) -> list[Any]:
    jobs: list[Any] = json.loads(sql("honker_claim_batch", "q", worker, n, lease))
    return jobs


def dead(connection: Plain) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT id, attempts, last_error FROM _honker_dead ORDER BY id"
    ).fetchall()
    return rows


def test_bootstrap_answers_one_however_often_it_is_called(sql: Sql) -> None:
    assert [sql("honker_bootstrap"), sql("honker_bootstrap")] == [1, 1]


def test_notify_stores_the_text_as_it_is_and_answers_the_id(sql: Sql, connection: Plain) -> None:
    ids = [sql("notify", "c", text) for text in ("not json", "")]
    assert ids == [NOW * 1_000_000, NOW * 1_000_000 + 1]
    rows = connection.execute("SELECT id, channel, payload, created_at FROM _honker_notifications").fetchall()
    assert rows == [(ids[0], "c", "not json", NOW), (ids[1], "c", "", NOW)]


def test_enqueue_answers_ids_that_are_times_and_grow(sql: Sql, clock: FakeClock) -> None:
    first, second = enqueue(sql), enqueue(sql)
    clock.step_wall(-3600)
    assert [first, second, enqueue(sql)] == [NOW * 1_000_000 + n for n in range(3)]


@pytest.mark.parametrize(
    ("given", "run_at", "expires_at"),
    [
        ({}, NOW, None),
        ({"run_at": 5}, 5, None),
        ({"delay": 10}, NOW + 10, None),
        ({"run_at": 5, "delay": 10}, NOW + 10, None),
        ({"delay": -10}, NOW - 10, None),
        ({"expires": 30}, NOW, NOW + 30),
        ({"expires": 0}, NOW, NOW),
        ({"expires": -1}, NOW, NOW - 1),
    ],
)
def test_enqueue_sets_the_times(
    sql: Sql, connection: Plain, given: dict[str, int], run_at: int, expires_at: int | None
) -> None:
    enqueue(sql, **given)  # type: ignore[arg-type]
    assert connection.execute("SELECT run_at, expires_at FROM _honker_live").fetchall() == [(run_at, expires_at)]


def test_enqueue_writes_no_notification(sql: Sql, connection: Plain) -> None:
    enqueue(sql)
    assert connection.execute("SELECT * FROM _honker_notifications").fetchall() == []


def test_claim_batch_answers_compact_sorted_json_with_the_payload_as_text(sql: Sql) -> None:
    job_id = enqueue(sql, '{"to": "alice"}')
    assert sql("honker_claim_batch", "q", "w", 5, 60) == (
        f'[{{"attempts":1,"claim_expires_at":{NOW + 60},"id":{job_id},"payload":"{{\\"to\\": \\"alice\\"}}",'
        '"queue":"q","worker_id":"w"}]'
    )
    assert sql("honker_claim_batch", "q", "w", 5, 60) == "[]"


@pytest.mark.guarantee("G6")
def test_claim_batch_goes_by_priority_then_run_at_then_id(sql: Sql) -> None:
    late, low, first, second = (
        enqueue(sql, run_at=NOW - 1, priority=5),
        enqueue(sql, run_at=NOW - 9),
        enqueue(sql, run_at=NOW - 5, priority=5),
        enqueue(sql, run_at=NOW - 5, priority=5),
    )
    assert [job["id"] for job in claim(sql, 9)] == [first, second, late, low]


@pytest.mark.parametrize(("n", "claimed"), [(0, 0), (2, 2), (9, 3), (-1, 3)])
def test_claim_batch_takes_up_to_n_and_all_for_a_negative_n(sql: Sql, n: int, claimed: int) -> None:
    for _ in range(3):
        enqueue(sql)
    assert len(claim(sql, n)) == claimed


def test_claim_batch_buries_the_exhausted_first(sql: Sql, connection: Plain, clock: FakeClock) -> None:
    spent, fresh = enqueue(sql, max_attempts=1), enqueue(sql)
    assert claim(sql)[0]["id"] == spent
    clock.advance(61)
    assert [job["id"] for job in claim(sql, 9)] == [fresh]
    assert dead(connection) == [(spent, 1, "max attempts exceeded")]


def test_max_attempts_of_zero_is_dead_at_the_first_claim(sql: Sql, connection: Plain) -> None:
    job_id = enqueue(sql, max_attempts=0)
    assert claim(sql) == []
    assert dead(connection) == [(job_id, 0, "max attempts exceeded")]


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("honker_ack", ()),
        ("honker_retry", (0, "e")),
        ("honker_fail", ("e",)),
        ("honker_heartbeat", (60,)),
    ],
)
def test_settling_needs_the_worker_and_a_lease_that_holds(
    sql: Sql, clock: FakeClock, function: str, arguments: tuple[object, ...]
) -> None:
    job_id = enqueue(sql)
    claim(sql, lease=60)
    assert sql(function, job_id + 1, "w", *arguments) == 0
    assert sql(function, job_id, "somebody else", *arguments) == 0
    clock.advance(61)
    assert sql(function, job_id, "w", *arguments) == 0
    claim(sql, lease=60)
    clock.advance(60)
    assert sql(function, job_id, "w", *arguments) == 1


def test_ack_batch_counts_what_was_held(sql: Sql) -> None:
    ids = [enqueue(sql) for _ in range(3)]
    claim(sql, 2)
    assert sql("honker_ack_batch", json.dumps(ids), "w") == 2
    assert sql("honker_ack_batch", "[]", "w") == 0
    assert len(claim(sql, 9)) == 1


def test_retry_puts_the_job_back_and_keeps_its_attempts(sql: Sql, connection: Plain) -> None:
    job_id = enqueue(sql)
    claim(sql)
    assert sql("honker_retry", job_id, "w", 30, "why") == 1
    row = connection.execute("SELECT state, run_at, worker_id, claim_expires_at, attempts FROM _honker_live").fetchone()
    assert row == ("pending", NOW + 30, None, None, 1)


def test_retry_of_the_last_attempt_is_a_dead_letter_with_the_error(sql: Sql, connection: Plain) -> None:
    job_id = enqueue(sql, max_attempts=1)
    claim(sql)
    assert sql("honker_retry", job_id, "w", 30, "why") == 1
    assert dead(connection) == [(job_id, 1, "why")]


def test_fail_is_a_dead_letter_at_once(sql: Sql, connection: Plain) -> None:
    job_id = enqueue(sql)
    claim(sql)
    assert sql("honker_fail", job_id, "w", "bad") == 1
    assert dead(connection) == [(job_id, 1, "bad")]


def test_heartbeat_sets_the_end_of_the_lease_from_now_and_may_shorten_it(
    sql: Sql, connection: Plain, clock: FakeClock
) -> None:
    job_id = enqueue(sql)
    claim(sql, lease=60)
    clock.advance(10)
    assert sql("honker_heartbeat", job_id, "w", 5) == 1
    assert connection.execute("SELECT claim_expires_at FROM _honker_live").fetchone() == (NOW + 15,)


def test_cancel_deletes_a_live_job_in_either_state(sql: Sql, connection: Plain) -> None:
    claimed, pending = enqueue(sql), enqueue(sql)
    claim(sql)
    assert [sql("honker_cancel", job_id) for job_id in (claimed, pending, pending)] == [1, 1, 0]
    assert dead(connection) == []


def test_get_job_answers_the_row_or_an_empty_text(sql: Sql) -> None:
    job_id = enqueue(sql, '"text"', priority=2, expires=9)
    assert sql("honker_get_job", job_id) == (
        f'{{"attempts":0,"claim_expires_at":null,"created_at":{NOW},"expires_at":{NOW + 9},"id":{job_id},'
        f'"max_attempts":3,"payload":"\\"text\\"","priority":2,"queue":"q","run_at":{NOW},"state":"pending",'
        '"worker_id":null}'
    )
    assert sql("honker_get_job", job_id + 1) == ""


def test_next_claim_at_is_the_next_run_or_the_second_after_a_lease(sql: Sql) -> None:
    assert sql("honker_queue_next_claim_at", "q") == 0
    enqueue(sql)
    assert sql("honker_queue_next_claim_at", "q") == 0
    enqueue(sql, delay=100)
    assert sql("honker_queue_next_claim_at", "q") == NOW + 100
    claim(sql, lease=60)
    assert sql("honker_queue_next_claim_at", "q") == NOW + 61


def test_next_claim_at_ignores_the_exhausted_and_the_expired(sql: Sql, clock: FakeClock) -> None:
    enqueue(sql, max_attempts=1)
    claim(sql, lease=0)
    enqueue(sql, delay=50, expires=10)
    clock.advance(20)
    assert sql("honker_queue_next_claim_at", "q") == 0


def test_sweep_expired_buries_what_was_not_started_in_time(sql: Sql, connection: Plain) -> None:
    job_id = enqueue(sql, expires=0)
    enqueue(sql, expires=1)
    assert [sql("honker_sweep_expired", "q"), sql("honker_sweep_expired", "q")] == [1, 0]
    assert dead(connection) == [(job_id, 0, "expired")]


@pytest.mark.guarantee("G15")
def test_a_lock_has_one_owner_until_it_runs_out(sql: Sql, clock: FakeClock) -> None:
    assert sql("honker_lock_acquire", "l", "a", 60) == 1
    assert sql("honker_lock_acquire", "l", "b", 60) == 0
    clock.advance(30)
    assert sql("honker_lock_acquire", "l", "a", 60) == 1
    clock.advance(30)
    assert sql("honker_lock_acquire", "l", "b", 60) == 1
    assert sql("honker_lock_renew", "l", "a", 60) == 0
    assert sql("honker_lock_release", "l", "a") == 0
    assert sql("honker_lock_release", "l", "b") == 1


@pytest.mark.parametrize("fraction", [0, 0.5])
def test_a_lock_of_no_time_can_be_taken_over_at_once(sql: Sql, clock: FakeClock, fraction: float) -> None:
    clock.advance(fraction)
    assert sql("honker_lock_acquire", "l", "a", 0) == 1
    assert sql("honker_lock_acquire", "l", "b", 60) == 1


def test_renewing_a_lock_prolongs_it_while_it_is_held(sql: Sql, clock: FakeClock) -> None:
    sql("honker_lock_acquire", "l", "a", 60)
    clock.advance(59)
    assert sql("honker_lock_renew", "l", "a", 60) == 1
    clock.advance(59)
    assert sql("honker_lock_acquire", "l", "b", 60) == 0
    clock.advance(1)
    assert sql("honker_lock_renew", "l", "a", 60) == 0


def test_the_rate_limit_counts_what_it_lets_pass_in_each_window(sql: Sql, clock: FakeClock) -> None:
    clock.step_wall(100 - NOW % 100)
    assert [sql("honker_rate_limit_try", "api", 2, 100) for _ in range(3)] == [1, 1, 0]
    clock.advance(99)
    assert sql("honker_rate_limit_try", "api", 2, 100) == 0
    clock.advance(1)
    assert sql("honker_rate_limit_try", "api", 2, 100) == 1
    clock.advance(100)
    assert [sql("honker_rate_limit_sweep", 101), sql("honker_rate_limit_sweep", 100)] == [1, 0]


def test_a_result_is_kept_for_its_time_or_for_good(sql: Sql, clock: FakeClock, connection: Plain) -> None:
    assert [sql("honker_result_save", 7, "short", 10), sql("honker_result_save", 8, "long", 0)] == [1, 1]
    assert [sql("honker_result_get", job_id) for job_id in (7, 8, 9)] == ["short", "long", None]
    clock.advance(10)
    assert [sql("honker_result_get", job_id) for job_id in (7, 8)] == [None, "long"]
    assert [sql("honker_result_sweep"), sql("honker_result_sweep")] == [1, 0]
    clock.advance(1)
    sql("honker_result_save", 8, "new", -1)
    row = connection.execute("SELECT job_id, value, created_at, expires_at FROM _honker_results").fetchall()
    assert row == [(8, "new", NOW, None)]


def test_streams_count_offsets_from_one_and_are_read_behind_an_offset(sql: Sql) -> None:
    assert [sql("honker_stream_publish", "t", key, "{}") for key in (None, "k")] == [1, 2]
    sql("honker_stream_publish", "other", None, "{}")
    assert sql("honker_stream_read_since", "t", 1, 9) == (
        f'[{{"created_at":{NOW},"key":"k","offset":2,"payload":"{{}}","topic":"t"}}]'
    )
    assert [len(json.loads(sql("honker_stream_read_since", "t", 0, limit))) for limit in (0, 1, -1)] == [0, 1, 2]


@pytest.mark.guarantee("G11")
def test_a_saved_offset_only_grows(sql: Sql) -> None:
    assert sql("honker_stream_get_offset", "reader", "t") == 0
    assert [sql("honker_stream_save_offset", "reader", "t", offset) for offset in (5, 5, 4, 6)] == [1, 0, 0, 1]
    assert sql("honker_stream_get_offset", "reader", "t") == 6


def test_cron_next_after_is_strictly_later(sql: Sql) -> None:
    assert sql("honker_cron_next_after", "* * * * *", NOW) == NOW - NOW % 60 + 60
    assert sql("honker_cron_next_after", "@every 5s", NOW) == NOW + 5
    minute = NOW - NOW % 60
    assert sql("honker_cron_next_after", "* * * * *", minute) == minute + 60
