"""worker: what it says, what it refuses, how it stops, and that no job is lost when it dies."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.cli.processes import running
from tests.cli.tasks_module import Gate, calls, enqueue, numbers_in, wait_until_empty, write_module
from tests.waiting import PATIENCE_S, in_thread

GREETINGS = """
@emails.task
def greet(name):
    return f"hello {name}"

@emails.task(retries=2, retry_delay_s=0)
def fail(reason):
    raise ValueError(reason)

@db.queue("reports").task
async def report():
    pass
"""
# Appends its number in one write. In the middle it says so; from then on each call waits at the gate, if there is one.
EFFECTS = """
@emails.task(retries=3, retry_delay_s=0)
def effect(number):
    if number >= 300 and os.path.exists("gate"):
        print(number, flush=True)
        with open("gate", "rb", buffering=0) as gate:
            gate.read(1)
    with open("effects", "ab", buffering=0) as effects:
        effects.write(b"%d\\n" % number)
"""
SLOW = """
@emails.task
def slow():
    print("started", flush=True)
    time.sleep(3600)

@emails.task
def writing():
    with db.transaction():
        print("started", flush=True)
        time.sleep(3600)

@emails.task
async def patient():
    import asyncio
    print("started", flush=True)
    await asyncio.sleep(3600)
"""
MANY = 1000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the module opens."""
    with brant.open(tmp_path / "app.db") as database:
        yield database


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with closing(Gate(tmp_path)) as gate:
        yield gate


def test_list_prints_each_task_with_its_queue(tmp_path: Path, brant_command: Run) -> None:
    write_module(tmp_path, GREETINGS)
    done = brant_command("worker", "app:db", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "app.fail  queue=emails",
        "app.greet  queue=emails",
        "app.report  queue=reports",
    ]


def test_list_of_one_queue_prints_its_tasks_only(tmp_path: Path, brant_command: Run) -> None:
    write_module(tmp_path, GREETINGS)
    assert brant_command("worker", "app:db", "--list", "--queue", "reports=3").stdout == "app.report  queue=reports\n"


def test_the_database_may_be_an_attribute_of_an_attribute(tmp_path: Path, brant_command: Run) -> None:
    write_module(tmp_path, GREETINGS + "\nclass site:\n    class settings:\n        database = db\n")
    assert brant_command("worker", "app:site.settings.database", "--list").returncode == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["app"], "'app' does not name a Database: type MODULE:VAR, as in app:db"),
        ([":db"], "':db' does not name a Database: type MODULE:VAR, as in app:db"),
        (["app.py:db"], "'app.py:db' names a file: type the module, app:db"),
        (["nowhere:db"], "can't import 'nowhere': ModuleNotFoundError: No module named 'nowhere'"),
        (["broken:db"], "can't import 'broken': ZeroDivisionError: division by zero"),
        (["leaving:db"], "can't import 'leaving': SystemExit: 3"),
        (["app:none"], "the module 'app' has no 'none'"),
        (["app:db.none"], "the module 'app' has no 'db.none'"),
        (["app:emails"], "app:emails is no Database but of type Queue: name what brant.open() gave"),
        (["idle:db"], "no tasks: idle decorates no function with @queue.task"),
        (["idle:db", "--list"], "no tasks: idle decorates no function with @queue.task"),
        (["app:db", "--queue", "emials"], "no task uses the queue 'emials'; those with tasks: emails, reports"),
        (["app:db", "--queue", "emails=0"], "--queue emails=0: the number behind = must be 1 or more"),
        (["app:db", "--memory", "64"], "--memory limits the processes of --isolate: give both"),
    ],
)
def test_what_can_not_work_is_refused_in_one_line(
    words: list[str], complaint: str, tmp_path: Path, brant_command: Run
) -> None:
    write_module(tmp_path, GREETINGS)
    write_module(tmp_path, "", "idle")
    write_module(tmp_path, "1 / 0", "broken")
    write_module(tmp_path, "sys.exit(3)", "leaving")
    done = brant_command("worker", *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"brant: error: {complaint}\n")


def test_a_database_of_the_command_line_is_refused(tmp_path: Path, brant_command: Run) -> None:
    write_module(tmp_path, GREETINGS)
    done = brant_command("-f", "other.db", "worker", "app:db")
    assert done.returncode == 1
    assert done.stderr == "brant: error: the worker uses the database that app:db opens: leave -d and -f out\n"


def test_the_traceback_of_an_import_is_shown_when_debugging(tmp_path: Path, brant_command: Run) -> None:
    write_module(tmp_path, "1 / 0", "broken")
    done = brant_command("worker", "broken:db", BRANT_DEBUG="1")
    assert done.returncode == 1
    assert "broken.py" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_draining_runs_what_is_due_and_reports_what_failed(
    tmp_path: Path, brant_command: Run, db: brant.Database
) -> None:
    write_module(tmp_path, GREETINGS)
    (good,) = enqueue(db, "greet", ("alice",))
    (bad,) = enqueue(db, "fail", ("no such\naddress",))
    done = brant_command("worker", "app:db", "--drain", "--queue=emails=3", "--queue=reports", "--concurrency=2")
    assert (done.returncode, done.stdout) == (0, "")
    banner, *reports = done.stderr.splitlines()
    assert banner.startswith("brant worker: pid=")
    assert banner.endswith(" queues=emails,reports concurrency=3,2 tasks=3")
    assert reports == [
        f"brant worker: retry queue=emails job={bad} task=app.fail attempt=1 error=no such",
        f"brant worker: dead queue=emails job={bad} task=app.fail attempt=2 error=no such",
        "brant worker: stopped cleanly",
    ]
    assert db.queue("emails").get_result(good) == (True, "hello alice")


@pytest.mark.parametrize("words", [["-q", "worker", "app:db", "--drain"], ["worker", "app:db", "--drain", "-q"]])
def test_a_quiet_worker_says_nothing(words: list[str], tmp_path: Path, brant_command: Run, db: brant.Database) -> None:
    write_module(tmp_path, GREETINGS)
    enqueue(db, "fail", ("reason",))
    done = brant_command(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert db.queue("emails").stats().dead == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_an_idle_worker(number: int, tmp_path: Path) -> None:
    write_module(tmp_path, GREETINGS)
    with running(tmp_path, "worker", "app:db", "--concurrency", "2") as worker:
        assert worker.error_line() == (
            f"brant worker: pid={worker.process.pid} queues=emails,reports concurrency=2 tasks=3"
        )
        assert worker.stopped_by(number) == 0
        assert worker.error_line() == "brant worker: stopped cleanly"


def test_a_worker_that_is_stopped_finishes_what_it_runs_and_the_next_one_the_rest(
    tmp_path: Path, brant_command: Run, db: brant.Database, gate: Gate
) -> None:
    write_module(tmp_path, EFFECTS)
    enqueue(db, "effect", *calls(range(MANY)))
    with running(tmp_path, "worker", "app:db", "--concurrency", "4") as worker:
        for _ in range(4):
            worker.line()
        worker.process.send_signal(signal.SIGTERM)
        gate.let_through(4)
        # One more for each that was claimed before the signal was heeded: the others wait for the next worker.
        for _ in iter(worker.line, ""):
            gate.let_through(1)
        assert worker.exit_code() == 0
    left = db.queue("emails").stats()
    assert left.processing == 0
    assert left.pending > 0
    assert len(numbers_in(tmp_path / "effects")) == MANY - left.pending
    (tmp_path / "gate").unlink()
    assert brant_command("worker", "app:db", "--concurrency", "4", "--drain").returncode == 0
    assert numbers_in(tmp_path / "effects") == list(range(MANY))
    assert db.queue("emails").stats().total == 0


def test_after_a_kill_the_next_worker_runs_the_lost_jobs_again(tmp_path: Path, db: brant.Database, gate: Gate) -> None:
    write_module(tmp_path, EFFECTS)
    enqueue(db, "effect", *calls(range(MANY)))
    with running(tmp_path, "worker", "app:db", "--concurrency", "4") as worker:
        in_flight = {int(worker.line()) for _ in range(4)}
        worker.process.kill()
        assert worker.exit_code() == -signal.SIGKILL
    assert db.queue("emails").stats().processing >= len(in_flight)
    assert in_flight.isdisjoint(numbers_in(tmp_path / "effects"))
    (tmp_path / "gate").unlink()
    with running(tmp_path, "worker", "app:db", "--concurrency", "4") as second:
        wait_until_empty(db)
        assert second.stopped_by(signal.SIGTERM) == 0
    assert set(numbers_in(tmp_path / "effects")) == set(range(MANY))
    assert db.queue("emails").stats().dead == 0


@pytest.mark.parametrize("task", ["slow", "writing"])
def test_a_second_signal_ends_the_worker_though_a_function_goes_on(
    task: str, tmp_path: Path, db: brant.Database
) -> None:
    write_module(tmp_path, SLOW)
    enqueue(db, task)
    with running(tmp_path, "worker", "app:db", "--grace", "3600") as worker:
        worker.error_line()
        assert worker.line() == "started"
        worker.process.send_signal(signal.SIGTERM)
        assert worker.stopped_by(signal.SIGINT) == 0
        assert "error=cut off while it ran" in worker.error_line()
        assert worker.error_line() == "brant worker: stopped; 1 running job was cut off, to run again after the lease"
    assert db.queue("emails").stats().processing == 1


def test_a_second_signal_gives_a_coroutine_s_job_back_unused(tmp_path: Path, db: brant.Database) -> None:
    write_module(tmp_path, SLOW)
    (job_id,) = enqueue(db, "patient")
    with running(tmp_path, "worker", "app:db", "--grace", "3600") as worker:
        worker.error_line()
        assert worker.line() == "started"
        worker.process.send_signal(signal.SIGTERM)
        assert worker.stopped_by(signal.SIGINT) == 0
        assert worker.error_line() == "brant worker: stopped cleanly"
    row = db.queue("emails").get_job(job_id)
    assert row is not None
    assert row["state"] == "pending"
    assert row["max_attempts"] - row["attempts"] == 2


def test_jobs_are_cut_off_when_the_grace_is_over(tmp_path: Path, db: brant.Database) -> None:
    write_module(tmp_path, SLOW)
    enqueue(db, "patient")
    with running(tmp_path, "worker", "app:db", "--grace", "0.05") as worker:
        assert worker.line() == "started"
        assert worker.stopped_by(signal.SIGTERM) == 0
    assert db.queue("emails").stats().pending == 1


def test_a_worker_whose_file_is_replaced_says_so_and_fails(tmp_path: Path, db: brant.Database) -> None:
    write_module(tmp_path, GREETINGS)
    with running(tmp_path, "worker", "app:db", "-q") as worker, brant.open(tmp_path / "other.db") as other:
        (job_id,) = enqueue(db, "greet", ("alice",))
        db.queue("emails").wait_result_sync(job_id, PATIENCE_S)
        other.close()
        (tmp_path / "other.db").rename(tmp_path / "app.db")
        assert worker.exit_code() == 1
        assert worker.error_line().startswith("brant: error: ")


@pytest.mark.parametrize(("words", "fires"), [([], True), (["--no-scheduler"], False)])
def test_schedules_fire_unless_they_are_left_to_others(
    words: list[str], fires: bool, tmp_path: Path, db: brant.Database
) -> None:
    write_module(tmp_path, GREETINGS)
    with brant.open(tmp_path / "app.db", clock=FakeClock(1_700_000_000)) as long_ago:
        long_ago.scheduler().add(name="overdue", queue="reports", schedule="@every 1h", payload=None, missed="one")
    with running(tmp_path, "worker", "app:db", *words) as worker:
        worker.error_line()
        (job_id,) = enqueue(db, "greet", ("alice",))
        db.queue("emails").wait_result_sync(job_id, PATIENCE_S)
        with closing(db.update_events()) as commits:
            while fires and db.scheduler().schedules()[0].last_fire_at is None:
                commits.wait(5)
        assert worker.stopped_by(signal.SIGTERM) == 0
    assert (db.scheduler().schedules()[0].last_fire_at is not None) == fires


def test_draining_shows_a_bar_at_a_terminal(tmp_path: Path, db: brant.Database) -> None:
    pytest.importorskip("rich")
    write_module(tmp_path, GREETINGS)
    enqueue(db, "greet", ("alice",), ("bob",))
    (bad,) = enqueue(db, "fail", ("reason",))
    ours, theirs = pty.openpty()
    command = [COMMAND, "worker", "app:db", "--drain"]
    environment = clean_environment(TERM="xterm-256color", COLUMNS="200")
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment) as worker:
        os.close(theirs)
        shown = in_thread(all_of, ours).result(PATIENCE_S)
    assert worker.returncode == 0
    assert "draining" in shown
    assert "3/3" in shown
    assert f"dead queue=emails job={bad}" in shown
    assert "stopped cleanly" in shown


def all_of(terminal: int) -> str:
    """What is printed until the last process that has it open ends, which Linux tells by an error."""
    shown = b""
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    return shown.decode()
