"""A queue whose jobs name no task: one function takes the payloads."""

from __future__ import annotations

import pytest

import brant
from brant.tasks import TaskSpec, registry
from brant.testing import drain_tasks
from brant.worker import current_task

pytestmark = pytest.mark.both_backends


def taking(function: object) -> TaskSpec:
    return TaskSpec(name="raw", fn=function, queue_name="raw", store_result=False)  # type: ignore[arg-type]


def test_every_payload_that_names_no_task_goes_to_the_function_of_its_queue(db: brant.Database) -> None:
    seen: list[object] = []
    registry().register_queue(taking(seen.append))
    for payload in ({"event_id": 1}, "text", [1]):
        db.queue("raw").enqueue(payload)
    assert registry().queues() == ["raw"]
    assert drain_tasks(db) == {"success": 3}
    assert seen == [{"event_id": 1}, "text", [1]]


def test_a_queue_without_a_function_makes_dead_letters_of_them_as_before(db: brant.Database) -> None:
    registry().register_queue(taking(print))
    db.queue("other").enqueue(1)
    assert drain_tasks(db, "other") == {"dead": 1}


def test_a_queue_has_one_function(db: brant.Database) -> None:
    registry().register_queue(taking(print))
    registry().register_queue(taking(print))
    with pytest.raises(brant.InvalidValue, match="has a function already"):
        registry().register_queue(taking(len))


def test_a_job_that_its_function_has_settled_is_told_of_as_that(timed: brant.Database) -> None:
    def retry(payload: object) -> None:
        context = current_task()
        with context.transaction() as tx:
            context.job.retry(60, "later", tx=tx)
        context.settled_as, context.settled_because = "retry", "later"

    registry().register_queue(taking(retry))
    timed.queue("raw").enqueue(1)
    assert drain_tasks(timed, "raw") == {"retry": 1}
    assert timed.queue("raw").due_in() == 60
