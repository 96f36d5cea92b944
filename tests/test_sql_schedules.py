"""The SQL functions of schedules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from brant.testing import FakeClock
from tests.attached import NOW, REFUSED, Plain, Sql, connection, sql

__all__ = ["connection", "sql"]

pytestmark = pytest.mark.both_backends


def register(sql: Sql, name: str = "s", expr: str = "@every 60s") -> None:
    assert sql("honker_scheduler_register", name, "q", expr, '{"n": 1}', 5, None) == 1


def listed(sql: Sql) -> dict[str, Any]:
    return {schedule["name"]: schedule for schedule in json.loads(sql("honker_scheduler_list"))}


def test_the_list_is_compact_sorted_json_by_name(sql: Sql) -> None:
    sql("honker_scheduler_register", "b", "q", "@every 60s", "{}", 5, 9, 7)
    register(sql, "a")
    assert sql("honker_scheduler_list").startswith(
        f'[{{"cron_expr":"@every 60s","enabled":true,"expires_s":null,"max_attempts":3,"name":"a",'
        f'"next_fire_at":{NOW + 60},"payload":"{{\\"n\\": 1}}","priority":5,"queue":"q"}},{{'
    )
    assert (listed(sql)["b"]["expires_s"], listed(sql)["b"]["max_attempts"]) == (9, 7)


def test_max_attempts_below_one_becomes_one(sql: Sql) -> None:
    sql("honker_scheduler_register", "s", "q", "@every 60s", "{}", 0, None, 0)
    assert listed(sql)["s"]["max_attempts"] == 1


def test_registering_again_keeps_the_next_fire_and_the_pause(sql: Sql, clock: FakeClock) -> None:
    register(sql)
    sql("honker_scheduler_pause", "s")
    clock.advance(30)
    register(sql)
    assert (listed(sql)["s"]["next_fire_at"], listed(sql)["s"]["enabled"]) == (NOW + 60, False)
    register(sql, expr="@every 10s")
    assert listed(sql)["s"]["next_fire_at"] == NOW + 40


def test_unregister_pause_and_resume_answer_whether_something_changed(sql: Sql) -> None:
    register(sql)
    assert [sql("honker_scheduler_pause", name) for name in ("s", "s", "unknown")] == [1, 0, 0]
    assert sql("honker_scheduler_soonest") == 0
    assert [sql("honker_scheduler_resume", name) for name in ("s", "s", "unknown")] == [1, 0, 0]
    assert sql("honker_scheduler_soonest") == NOW + 60
    assert [sql("honker_scheduler_unregister", name) for name in ("s", "s")] == [1, 0]
    assert sql("honker_scheduler_soonest") == 0


@pytest.mark.guarantee("G13")
def test_a_tick_enqueues_each_missed_boundary_once(sql: Sql, connection: Plain, clock: FakeClock) -> None:
    register(sql)
    clock.advance(130)
    fires = json.loads(sql("honker_scheduler_tick", NOW + 130))
    jobs = connection.execute("SELECT id, queue, payload, priority FROM _honker_live ORDER BY id").fetchall()
    assert jobs == [(fire["job_id"], "q", '{"n": 1}', 5) for fire in fires]
    assert [(fire["name"], fire["queue"], fire["fire_at"]) for fire in fires] == [
        ("s", "q", NOW + 60),
        ("s", "q", NOW + 120),
    ]
    assert sql("honker_scheduler_tick", NOW + 130) == "[]"
    assert sql("honker_scheduler_soonest") == NOW + 180


def test_a_tick_makes_up_for_no_more_than_64(sql: Sql) -> None:
    register(sql)
    assert len(json.loads(sql("honker_scheduler_tick", NOW + 60 * 100))) == 64
    assert sql("honker_scheduler_soonest") == NOW + 60 * 101


@pytest.mark.parametrize("missed", ["all", "one", "skip"])
@pytest.mark.parametrize("expr", ["@every 60s", " @EVERY 1m"])
def test_an_interval_keeps_its_step_over_any_absence(sql: Sql, connection: Plain, expr: str, missed: str) -> None:
    register(sql, expr=expr)
    connection.execute(f"UPDATE _brant_schedules SET missed = '{missed}'")
    fires = json.loads(sql("honker_scheduler_tick", NOW + 60 * 100 + 45))
    assert fires[-1]["fire_at"] == NOW + 60 * (64 if missed == "all" else 100)
    assert sql("honker_scheduler_soonest") == NOW + 60 * 101


def test_an_interval_keeps_its_step_over_any_pause(sql: Sql, clock: FakeClock) -> None:
    register(sql)
    sql("honker_scheduler_pause", "s")
    clock.advance(60 * 100 + 45)
    sql("honker_scheduler_resume", "s")
    assert sql("honker_scheduler_soonest") == NOW + 60 * 100


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ((None, None, None, None, 0), {}),
        (("@every 5s", None, None, None, 0), {"cron_expr": "@every 5s", "next_fire_at": NOW + 35}),
        ((None, "null", None, None, 0), {"payload": "null"}),
        ((None, None, 9, None, 0), {"priority": 9}),
        ((None, None, None, 30, 1), {"expires_s": 30}),
        ((None, None, None, 30, 0), {}),
        ((None, None, None, None, 0, 8, 1), {"max_attempts": 8}),
        ((None, None, None, None, 0, 8, 0), {}),
    ],
)
def test_update_changes_what_is_given(
    sql: Sql, clock: FakeClock, arguments: tuple[object, ...], changed: dict[str, object]
) -> None:
    register(sql)
    before = listed(sql)["s"]
    clock.advance(30)
    assert sql("honker_scheduler_update", "s", *arguments) == int(bool(changed))
    assert listed(sql)["s"] == before | changed
    assert sql("honker_scheduler_update", "unknown", *arguments) == 0


def test_a_null_that_is_meant_clears_the_expiry_and_resets_the_attempts(sql: Sql) -> None:
    sql("honker_scheduler_register", "s", "q", "@every 60s", "{}", 0, 9, 7)
    assert sql("honker_scheduler_update", "s", None, None, None, None, 1, None, 1) == 1
    assert (listed(sql)["s"]["expires_s"], listed(sql)["s"]["max_attempts"]) == (None, 3)


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("expr", ["", "61 * * * *", "nonsense", "@every 0s"])
def test_a_bad_expression_is_an_error_and_changes_nothing(sql: Sql, expr: str) -> None:
    register(sql)
    before = listed(sql)
    calls: list[tuple[object, ...]] = [
        ("honker_scheduler_register", "new", "q", expr, "{}", 0, None),
        ("honker_scheduler_update", "s", expr, '"changed"', None, None, 0),
        ("honker_cron_next_after", expr, NOW),
    ]
    for call in calls:
        with pytest.raises(REFUSED):
            sql(*call)
    assert listed(sql) == before
