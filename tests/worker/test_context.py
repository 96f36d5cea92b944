"""What a task can ask and tell while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import brant
from brant.errors import TransactionError
from brant.testing import FakeClock
from brant.worker import TaskContext, current_task
from tests.waiting import PATIENCE_S
from tests.worker.observing import running

pytestmark = pytest.mark.both_backends


def seen(db: brant.Database, look: Callable[[TaskContext], object], **options: object) -> object:
    """What a task sees when it looks at its context."""
    answer = db.task("q", name="look", retries=1, **options)(lambda: look(current_task()))()
    with running(db):
        return answer.get(PATIENCE_S)


def test_a_task_knows_its_job_and_its_deadline(timed: brant.Database, clock: FakeClock) -> None:
    clock.advance(5)
    facts = seen(timed, lambda task: [task.task, task.attempt, task.deadline, task.cancelled], timeout_s=PATIENCE_S)
    assert facts == ["look", 1, 5 + PATIENCE_S, False]


def test_without_a_worker_there_is_no_context() -> None:
    with pytest.raises(ValueError, match="inside a task"):
        current_task()


@pytest.mark.parametrize("make", ["thread", "loop"])
def test_the_context_of_each_task_is_its_own(db: brant.Database, make: str) -> None:
    together = threading.Barrier(4)
    q = db.queue("q")

    def plain() -> int:
        together.wait(PATIENCE_S)
        return current_task().job_id

    async def on_loop() -> int:
        return current_task().job_id

    task = q.task("which")(plain if make == "thread" else on_loop)
    answers = [task() for _ in range(4)]
    with running(db, slots=4):
        assert [answer.get(PATIENCE_S) for answer in answers] == [answer.id for answer in answers]


def test_a_heartbeat_extends_the_lease(timed: brant.Database, clock: FakeClock) -> None:
    def extend(task: TaskContext) -> list[object]:
        held = task.heartbeat(500)
        row = task.job.queue.get_job(task.job_id)
        return [held, row and row["claim_expires_at"]]

    assert seen(timed, extend) == [True, int(clock.now()) + 500]


def test_progress_is_a_notification(db: brant.Database) -> None:
    listener = db.listen("_brant:progress")
    answer = db.queue("q").task("work")(lambda: current_task().progress(0.5, "half"))()
    with running(db):
        answer.get(PATIENCE_S)
    assert next(listener).payload == {"job_id": answer.id, "task": "work", "progress": 0.5, "note": "half"}
    with pytest.raises(brant.TaskFailed, match="from 0 to 1"):
        seen(db, lambda task: task.progress(1.5))


@pytest.fixture
def effects(db: brant.Database) -> Callable[[], int]:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE effects (n INTEGER)")
    return lambda: int(db.query("SELECT count(*) AS n FROM effects")[0]["n"])


def test_a_transaction_commits_with_the_ack(db: brant.Database, effects: Callable[[], int]) -> None:
    q = db.queue("q", visibility_timeout_s=0.3)
    go, committed = threading.Event(), threading.Event()

    @q.task
    def work() -> list[object]:
        with current_task().transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (1)")
        committed.set()
        return [go.wait(PATIENCE_S), current_task().cancelled]

    answer = work()
    with running(db) as crew:
        assert committed.wait(PATIENCE_S)
        assert effects() == 1
        assert q.get_job(answer.id) is None
        for _ in range(8):  # each commit makes the worker look whether the job is still there
            db.notify("any", 1)
            assert not go.wait(0.1)
        go.set()
        assert answer.get(PATIENCE_S) == [True, False]
        assert crew.heard.all("lost") == []


def test_a_transaction_that_fails_leaves_nothing_and_the_job_is_retried(
    db: brant.Database, effects: Callable[[], int]
) -> None:
    @db.queue("q").task(retries=2, retry_delay_s=0)
    def work() -> int:
        with current_task().transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (1)")
            if current_task().attempt == 1:
                raise ValueError("not yet")
        return current_task().attempt

    answer = work()
    with running(db):
        assert answer.get(PATIENCE_S) == 2
    assert effects() == 1


def test_an_error_after_the_transaction_does_not_repeat_it(db: brant.Database, effects: Callable[[], int]) -> None:
    q = db.queue("q")

    @q.task(retry_delay_s=0)
    def work() -> None:
        with current_task().transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (1)")
        raise ValueError("too late")

    work()
    with running(db) as crew:
        crew.wait("success")
        assert "too late" in str(crew.wait("trouble")[0].error)
    assert effects() == 1
    assert q.stats().total == 0
    assert q.list_dead() == []


def test_a_task_has_one_transaction(db: brant.Database, effects: Callable[[], int]) -> None:
    def twice(task: TaskContext) -> str:
        with task.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (1)")
        with pytest.raises(TransactionError, match="one only"), task.transaction():
            pass
        return "refused"

    assert seen(db, twice) == "refused"
    assert effects() == 1


def test_a_job_cancelled_inside_the_transaction_rolls_it_back(db: brant.Database, effects: Callable[[], int]) -> None:
    q = db.queue("q")

    @q.task
    def work() -> None:
        q.cancel(current_task().job_id)
        with current_task().transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (1)")

    work()
    with running(db) as crew:
        crew.wait("lost")
    assert effects() == 0
