"""The real worker, killed at each step of a job: nothing is lost, and a second run happens only where it must."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.failpoint import POINTS
from brant.tasks import envelope
from tests.cli.conftest import clean_environment
from tests.cli.processes import Running, running
from tests.waiting import PATIENCE_S, in_thread

APP = """
import os
import brant
from brant.outcomes import Dead
from brant.worker import current_task

db = brant.open("app.db")
q = db.queue("q", visibility_timeout_s=3600)
ledger = os.open("ledger", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

def note():
    task = current_task()
    os.write(ledger, b"%d %d\\n" % (task.job_id, task.attempt))
    os.fsync(ledger)

@q.task("square")
def square(number):
    note()
    return number * number

@q.task("square_later")
async def square_later(number):
    note()
    return number * number

@q.task("fail", retry_delay_s=0)
def fail():
    note()
    raise ValueError("as always")

@q.task("refuse")
def refuse():
    note()
    raise Dead("never")
"""
WORKER = ("worker", "app:db", "--concurrency", "1", "--no-scheduler")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with brant.open(tmp_path / "app.db") as database:
        yield database


def enqueue_all(queue: brant.Queue) -> list[int]:
    """Three that work and one that never does; three attempts each."""
    calls = [("square", (2,)), ("square_later", (3,)), ("square", (4,)), ("fail", ())]
    return [queue.enqueue(envelope(task, arguments, {}), max_attempts=3) for task, arguments in calls]


def let_leases_run_out(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_live SET claim_expires_at = 1 WHERE state = 'processing'")


def finish(directory: Path, *words: str) -> None:
    with running(directory, *WORKER, "--drain", *words) as healthy:
        assert healthy.exit_code() == 0


def attempts_run(directory: Path) -> dict[int, list[int]]:
    """By job, which of its attempts got as far as the function."""
    runs = defaultdict(list)
    for line in (directory / "ledger").read_text().splitlines():
        job_id, attempt = map(int, line.split())
        runs[job_id].append(attempt)
    return dict(runs)


def assert_all_settled(db: brant.Database, ids: list[int]) -> None:
    queue = db.queue("q")
    assert [queue.get_result(job_id) for job_id in ids[:3]] == [(True, 4), (True, 9), (True, 16)]
    assert sorted(letter.id for letter in queue.list_dead()) == ids[3:]
    assert queue.stats().total == 0
    assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


UNDISTURBED = [[1], [1], [1], [1, 2, 3]]


# A job is acked and the next one claimed in one commit: who dies before it has done neither, who dies after it both.
NEITHER = {-1: [1, 2]}
BOTH = {+1: [2]}


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("hit", [0, 1], ids=["function", "coroutine"])
@pytest.mark.parametrize(
    ("point", "runs", "of_neighbours"),
    [
        ("claim.before", [1], NEITHER),
        ("claim.after", [2], {}),
        ("handler.before", [2], {}),
        ("handler.after", [1, 2], {}),
        ("ack.before", [1, 2], {}),
        ("ack.after", [1], BOTH),
    ],
)
def test_a_job_whose_worker_died_runs_again_unless_it_had_not_begun_or_was_done(
    tmp_path: Path, db: brant.Database, hit: int, point: str, runs: list[int], of_neighbours: dict[int, list[int]]
) -> None:
    ids = enqueue_all(db.queue("q"))
    with running(tmp_path, *WORKER, BRANT_FAILPOINT=f"{point}:kill@{hit + 1}") as doomed:
        assert doomed.exit_code() == -signal.SIGKILL
    let_leases_run_out(db)
    finish(tmp_path)
    assert_all_settled(db, ids)
    expected = dict(enumerate(UNDISTURBED)) | {hit: runs}
    expected |= {hit + step: its_runs for step, its_runs in of_neighbours.items() if hit + step in expected}
    assert attempts_run(tmp_path) == {ids[place]: its_runs for place, its_runs in expected.items()}


def test_of_several_faults_the_first_that_is_reached_happens(tmp_path: Path, db: brant.Database) -> None:
    (job_id, *_) = enqueue_all(db.queue("q"))
    with running(tmp_path, *WORKER, BRANT_FAILPOINT="ack.after:kill@9, ack.before:exit") as doomed:
        assert doomed.exit_code() == 70
    assert attempts_run(tmp_path) == {job_id: [1]}
    assert db.queue("q").stats().processing == 1


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize(
    ("fault", "errors_kept"),
    [
        ("retry.before:kill", [2, 3]),
        ("retry.after:kill", [1, 2, 3]),
        ("retry.before:kill@2", [1, 3]),
        ("retry.after:kill@2", [1, 2, 3]),
        ("dead.before:kill", [1, 2]),
        ("dead.after:kill", [1, 2, 3]),
    ],
)
def test_a_job_that_fails_has_its_attempts_and_no_more_whenever_its_worker_dies(
    tmp_path: Path, db: brant.Database, fault: str, errors_kept: list[int]
) -> None:
    ids = enqueue_all(db.queue("q"))
    with running(tmp_path, *WORKER, BRANT_FAILPOINT=fault) as doomed:
        assert doomed.exit_code() == -signal.SIGKILL
    let_leases_run_out(db)
    finish(tmp_path)
    assert_all_settled(db, ids)
    assert attempts_run(tmp_path) == dict(zip(ids, UNDISTURBED, strict=True))
    errors = db.queue("q").errors(ids[3])
    assert [error.attempt for error in errors if error.error.startswith("as always")] == errors_kept


@pytest.mark.parametrize(("point", "runs"), [("dead.before", [1, 2]), ("dead.after", [1])])
def test_a_job_that_refuses_to_run_again_does_so_unless_its_refusal_was_booked(
    tmp_path: Path, db: brant.Database, point: str, runs: list[int]
) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(envelope("refuse", (), {}))
    with running(tmp_path, *WORKER, BRANT_FAILPOINT=f"{point}:kill") as doomed:
        assert doomed.exit_code() == -signal.SIGKILL
    let_leases_run_out(db)
    finish(tmp_path)
    assert [(letter.id, letter.last_error) for letter in queue.list_dead()] == [(job_id, "never")]
    assert attempts_run(tmp_path) == {job_id: runs}


@pytest.mark.guarantee("G5")
def test_an_attempt_whose_death_was_not_booked_is_the_last_one_all_the_same(tmp_path: Path, db: brant.Database) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(envelope("fail", (), {}), max_attempts=1)
    with running(tmp_path, *WORKER, BRANT_FAILPOINT="dead.before:kill") as doomed:
        assert doomed.exit_code() == -signal.SIGKILL
    assert queue.list_dead() == []
    let_leases_run_out(db)
    assert queue.claim_one("healthy") is None
    assert [(letter.id, letter.last_error) for letter in queue.list_dead()] == [(job_id, "max attempts exceeded")]


def until_stopped(process: subprocess.Popen[str]) -> None:
    status = in_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT).result(PATIENCE_S)
    assert status is not None
    assert status.si_code == os.CLD_STOPPED


def test_a_worker_that_stood_still_before_its_ack_finds_its_job_done_by_another(
    tmp_path: Path, db: brant.Database
) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(envelope("square", (5,), {}))
    with running(tmp_path, *WORKER, BRANT_FAILPOINT="ack.before:stop") as zombie:
        until_stopped(zombie.process)
        let_leases_run_out(db)
        finish(tmp_path)
        zombie.process.send_signal(signal.SIGCONT)
        zombie.error_line()
        assert f"lost queue=q job={job_id} task=square attempt=1" in zombie.error_line()
        assert zombie.stopped_by(signal.SIGTERM) == 0
    assert attempts_run(tmp_path) == {job_id: [1, 2]}
    assert queue.get_result(job_id) == (True, 25)


@pytest.mark.parametrize("point", ["handler.before", "handler.after", "ack.before"])
def test_an_error_inside_the_worker_costs_the_one_job_an_attempt(
    tmp_path: Path, db: brant.Database, point: str
) -> None:
    ids = enqueue_all(db.queue("q"))
    with running(tmp_path, *WORKER, "--drain", BRANT_FAILPOINT=f"{point}:raise@1") as disturbed:
        assert disturbed.exit_code() == 0
        assert "the failpoint" in told_of(disturbed)
    let_leases_run_out(db)
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_live SET run_at = 1")
    finish(tmp_path)
    assert_all_settled(db, ids)
    assert attempts_run(tmp_path)[ids[0]] == ([2] if point == "handler.before" else [1, 2])


def told_of(worker: Running) -> str:
    return in_thread(worker.stderr.read).result(PATIENCE_S)


def test_an_error_around_the_claim_ends_the_worker_in_one_line_and_loses_nothing(
    tmp_path: Path, db: brant.Database
) -> None:
    ids = enqueue_all(db.queue("q"))
    with running(tmp_path, *WORKER, "-q", BRANT_FAILPOINT="claim.after:raise") as doomed:
        assert doomed.exit_code() == 1
        assert told_of(doomed).count("\n") == 1
    let_leases_run_out(db)
    finish(tmp_path)
    assert_all_settled(db, ids)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("claim.after:explode", "there is no action 'explode'; there are kill, stop, exit, raise, kill-all"),
        ("claim.after", "there is no action ''"),
        ("claim.afterwards:kill", f"there is no point 'claim.afterwards'; there are {', '.join(POINTS)}"),
        ("claim.after:kill@0", "the number behind @ must be 1 or more"),
        ("claim.after:kill,ack.before:kill@x", "ack.before:kill@x: the number behind @ must be 1 or more"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_in_one_line(
    tmp_path: Path, db: brant.Database, setting: str, complaint: str
) -> None:
    with running(tmp_path, *WORKER, BRANT_FAILPOINT=setting) as worker:
        assert worker.exit_code() == 1
        (line,) = told_of(worker).splitlines()
    assert line.startswith("brant: error: ")
    assert complaint in line


PARENT = """
import os, subprocess, sys
command = [sys.executable, "-c", "import sys; from brant.failpoint import failpoint; input(); failpoint('ack.after')"]
children = [subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0) for _ in range(2)]
print(*(child.pid for child in children), flush=True)
children[0].communicate(b"\\n")
print("outlived", flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not tell of other processes")
def test_kill_all_ends_every_process_under_the_setting_and_no_other() -> None:
    setting = clean_environment() | {"BRANT_FAILPOINT": "ack.after:kill-all"}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(["sleep", "60"], start_new_session=True, env=setting) as elsewhere:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=setting
        ) as parent:
            assert parent.stdout is not None
            children = [int(pid) for pid in parent.stdout.readline().split()]
            # Its end is the end of all: each of them holds it open.
            assert in_thread(parent.stdout.read).result(PATIENCE_S) == ""
            assert parent.wait(PATIENCE_S) == -signal.SIGKILL
        assert len(children) == 2
        assert elsewhere.poll() is None
        elsewhere.kill()


def test_without_the_setting_a_point_does_nothing_and_imports_nothing() -> None:
    program = (
        "import sys; import os, signal, brant.errors; known = set(sys.modules)\n"
        "from brant.failpoint import POINTS, failpoint\n"
        "for point in POINTS: failpoint(point)\n"
        "print(set(sys.modules) - known - set(sys.builtin_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=clean_environment(), check=True
    )
    assert done.stdout == "{'brant.failpoint'}\n"
