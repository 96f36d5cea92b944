"""worker --isolate: whatever a function does to its process costs its own attempt and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import Run
from tests.cli.processes import in_time, running
from tests.cli.tasks_module import Gate, calls, enqueue, write_module

TASKS = """
import asyncio, ctypes, functools, subprocess
from brant.outcomes import Cancel, Dead, Retry, Snooze

@emails.task(retry_delay_s=0)
def whoami(*_):
    return os.getpid()

@emails.task(retry_delay_s=0)
def exits():
    os._exit(139)

@emails.task(retry_delay_s=0)
def segfaults():
    ctypes.string_at(0)

@emails.task(retry_delay_s=0)
def hogs():
    return len(bytearray(2_000_000_000))

@emails.task(retry_delay_s=0, timeout_s=1)
def hangs():
    subprocess.run(["sleep", "60"])

@emails.task(retry_delay_s=0)
def raises():
    raise LookupError("no such customer")

@emails.task(retry_delay_s=0)
def leaves():
    sys.exit("enough")

@emails.task(retry_delay_s=0)
def transacts():
    with current_task().transaction():
        pass

@emails.task(retry_delay_s=0)
def leaves_work():
    current_task().at_ack(print)

@emails.task
async def coroutine(number):
    await asyncio.sleep(0)
    task = current_task()
    task.progress(0.5)
    return [number, task.attempt, task.heartbeat()]

def traced(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)
    return wrapper

@emails.task
@traced
async def wrapped(number):
    await asyncio.sleep(0)
    return [number, current_task().attempt]

@emails.task(retry_delay_s=0)
@traced
async def wrapped_and_failing():
    await asyncio.sleep(0)
    raise LookupError("no such customer")

@emails.task
def outcome(kind):
    return {"retry": Retry(3600, "later"), "snooze": Snooze(3600), "dead": Dead("never"), "cancel": Cancel()}[kind]

@emails.task
def large(size):
    return "x" * size

@emails.task
def unstorable():
    return object()

@emails.task
def gated():
    print("started", flush=True)
    with open("gate", "rb", buffering=0) as gate:
        gate.read(1)

@emails.task
def nested():
    subprocess.run(["sh", "-c", "echo started; sleep 60; true"])
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the module opens."""
    write_module(tmp_path, TASKS)
    with brant.open(tmp_path / "app.db") as database:
        yield database


def drained(brant_command: Run, *words: object) -> list[str]:
    """What a worker reports that runs all that is due."""
    done = brant_command("worker", "app:db", "--isolate", "--drain", *words)
    assert done.returncode == 0
    _, *reports, last = done.stderr.splitlines()
    assert last == "brant worker: stopped cleanly"
    return reports


def result(db: brant.Database, job_id: int) -> object:
    found, value = db.queue("emails").get_result(job_id)
    assert found
    return value


def test_each_job_has_a_process_of_its_own(brant_command: Run, db: brant.Database) -> None:
    jobs = enqueue(db, "whoami", *calls(range(3)))
    assert drained(brant_command) == []
    assert len({result(db, job_id) for job_id in jobs} - {os.getpid()}) == 3


@pytest.mark.parametrize(
    ("task", "error"),
    [
        ("exits", "the process of the task ended with exit code 139 before it had an answer"),
        ("segfaults", "the process of the task was killed by signal 11 (Segmentation fault) before it had an answer"),
        ("hogs", "the task ran out of memory: it may use 400 MB"),
        ("hangs", "timeout after 1s"),
        ("raises", "no such customer"),
        ("leaves", "the task raised SystemExit"),
        ("transacts", "current_task().transaction() does not work in a process of its own"),
        ("leaves_work", "current_task().at_ack() does not work in a process of its own"),
    ],
)
def test_a_poison_job_costs_its_attempts_and_its_neighbours_nothing(
    task: str, error: str, brant_command: Run, db: brant.Database
) -> None:
    (poison,) = enqueue(db, task)
    others = enqueue(db, "whoami", *calls(range(2)))
    retry, dead = drained(brant_command, "--memory", 400, "--concurrency", 2)
    about = f"queue=emails job={poison} task=app.{task}"
    assert retry.startswith(f"brant worker: retry {about} attempt=1 error={error}")
    assert dead.startswith(f"brant worker: dead {about} attempt=2 error={error}")
    assert all(result(db, job_id) for job_id in others)
    (letter,) = db.queue("emails").list_dead()
    assert (letter.id, letter.attempts) == (poison, 2)


def test_the_error_has_the_traceback_of_the_function(brant_command: Run, db: brant.Database) -> None:
    enqueue(db, "raises")
    drained(brant_command)
    (letter,) = db.queue("emails").list_dead()
    assert letter.last_error is not None
    assert 'app.py", line' in letter.last_error
    assert "LookupError: no such customer" in letter.last_error


def test_a_coroutine_knows_its_job(brant_command: Run, db: brant.Database) -> None:
    (job_id,) = enqueue(db, "coroutine", (7,))
    assert drained(brant_command) == []
    assert result(db, job_id) == [7, 1, True]


def test_a_coroutine_that_a_plain_function_hands_out_is_awaited(brant_command: Run, db: brant.Database) -> None:
    (job_id,) = enqueue(db, "wrapped", (7,))
    assert drained(brant_command) == []
    assert result(db, job_id) == [7, 1]


def test_such_a_coroutine_that_fails_is_tried_again(brant_command: Run, db: brant.Database) -> None:
    enqueue(db, "wrapped_and_failing")
    assert [report.split()[2] for report in drained(brant_command)] == ["retry", "dead"]
    (letter,) = db.queue("emails").list_dead()
    assert str(letter.last_error).startswith("no such customer")


def test_an_answer_may_be_large(brant_command: Run, db: brant.Database) -> None:
    (job_id,) = enqueue(db, "large", (3_000_000,))
    assert drained(brant_command) == []
    assert result(db, job_id) == "x" * 3_000_000


def test_what_is_no_json_is_reported_and_the_job_is_done(brant_command: Run, db: brant.Database) -> None:
    enqueue(db, "unstorable")
    (report,) = drained(brant_command)
    assert "the result was not stored" in report
    assert db.queue("emails").stats().total == 0


def test_an_outcome_is_heeded(brant_command: Run, db: brant.Database) -> None:
    retried, snoozed, dead, cancelled = enqueue(db, "outcome", ("retry",), ("snooze",), ("dead",), ("cancel",))
    drained(brant_command)
    queue = db.queue("emails")
    assert [error.error for error in queue.errors(retried)] == ["later"]
    row = queue.get_job(snoozed)
    assert row is not None
    assert row["max_attempts"] - row["attempts"] == 2
    assert [(letter.id, letter.last_error) for letter in queue.list_dead()] == [(dead, "never")]
    assert queue.get_job(cancelled) is None


def test_a_module_that_opens_another_file_each_time_is_told_so(
    tmp_path: Path, brant_command: Run, db: brant.Database
) -> None:
    write_module(tmp_path, 'db = brant.open(":memory:")\n@db.queue("q").task(retries=1)\ndef f(): pass\nf()\n')
    (report,) = drained(brant_command)
    assert "error=the module opened " in report


def test_an_interrupt_at_the_terminal_lets_the_job_finish(tmp_path: Path, db: brant.Database) -> None:
    enqueue(db, "gated")
    with closing(Gate(tmp_path)) as gate, running(tmp_path, "worker", "app:db", "--isolate") as worker:
        assert worker.line() == "started"
        os.killpg(worker.process.pid, signal.SIGINT)  # as a terminal does: to all in the foreground
        gate.let_through(1)
        assert worker.exit_code() == 0
    assert db.queue("emails").stats().total == 0


def test_a_second_signal_kills_the_job_and_gives_it_back_unused(tmp_path: Path, db: brant.Database) -> None:
    (job_id,) = enqueue(db, "nested")
    with running(tmp_path, "worker", "app:db", "--isolate", "--grace", "3600") as worker:
        assert worker.line() == "started"
        worker.process.send_signal(signal.SIGTERM)
        assert worker.stopped_by(signal.SIGINT) == 0  # another one: two of a kind may arrive as one
        assert in_time(worker.stdout.read) == ""  # ends when nobody has it open any more, however deep
    row = db.queue("emails").get_job(job_id)
    assert row is not None
    assert (row["state"], row["max_attempts"] - row["attempts"]) == ("pending", 2)


def test_a_job_does_not_outlive_a_worker_that_is_killed(tmp_path: Path, db: brant.Database) -> None:
    enqueue(db, "nested")
    with running(tmp_path, "worker", "app:db", "--isolate") as worker:
        assert worker.line() == "started"
        worker.process.kill()
        assert in_time(worker.stdout.read) == ""
    assert db.queue("emails").stats().processing == 1


def test_a_job_that_is_cancelled_is_killed(tmp_path: Path, db: brant.Database) -> None:
    (job_id,) = enqueue(db, "nested")
    with running(tmp_path, "worker", "app:db", "--isolate") as worker:
        worker.error_line()
        assert worker.line() == "started"
        assert db.queue("emails").cancel(job_id)
        assert f"lost queue=emails job={job_id}" in worker.error_line()
        assert worker.stopped_by(signal.SIGTERM) == 0
        assert in_time(worker.stdout.read) == ""
