"""run: a command for each job; its failures, its leases, and what signals do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

# Says that it runs, and then runs until the test opens the gate.
GATED = ("sh", "-c", "echo started; read _ < gate")
ENDLESS = ("sh", "-c", "echo started; sleep 60; true")


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[brant.Queue]:
    """A queue of the database that the command finds in its directory."""
    with brant.open(tmp_path / ".brant.db") as database:
        yield database.queue("q")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


class Runner:
    """A `brant run` that goes on while the test looks at it."""

    def __init__(self, directory: Path, *words: object, **environment: str) -> None:
        self.process = subprocess.Popen(
            [COMMAND, "run", "q", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env=clean_environment(**environment),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return in_thread(self.process.stdout.readline).result(PATIENCE_S).strip()

    def error_line(self) -> str:
        assert self.process.stderr is not None
        return in_thread(self.process.stderr.readline).result(PATIENCE_S).strip()

    def rest_of_output(self) -> str:
        """Until nobody has the output open any more: neither the runner nor any command of it, however deep."""
        assert self.process.stdout is not None
        return in_thread(self.process.stdout.read).result(PATIENCE_S)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)


@contextmanager
def running(directory: Path, *words: object, **environment: str) -> Iterator[Runner]:
    runner = Runner(directory, *words, **environment)
    try:
        with runner.process:
            try:
                yield runner
            finally:
                runner.process.kill()
    finally:
        runner.process.wait()


def open_gate(gate: Path) -> None:
    in_thread(gate.write_text, "\n").result(PATIENCE_S)


# Running


def test_a_message_written_in_the_shell_is_on_the_commands_stdin(brant_command: Run, queue: brant.Queue) -> None:
    brant_command("write", "q", "naïve\nlines 😀")
    done = brant_command("run", "q", "--drain", "--", "cat")
    assert (done.returncode, done.stdout, done.stderr) == (0, "naïve\nlines 😀", "")
    assert not queue.exists()


def test_a_job_enqueued_in_python_comes_as_json_with_its_facts(
    brant_command: Run, queue: brant.Queue, tmp_path: Path
) -> None:
    job_id = queue.enqueue({"to": ["é", 1]}, max_attempts=7)
    script = 'cat; echo; echo "$BRANT_JOB_ID $BRANT_QUEUE $BRANT_ATTEMPT $BRANT_MAX_ATTEMPTS $BRANT_DATABASE"'
    done = brant_command("run", "q", "--max", "1", "--", "sh", "-c", script)
    assert done.stdout.splitlines() == ['{"to":["é",1]}', f"{job_id} q 1 7 {tmp_path / '.brant.db'}"]


def test_200_jobs_are_run_once_each_by_four_at_a_time(brant_command: Run, queue: brant.Queue) -> None:
    queue.enqueue_many(range(200))
    done = brant_command("run", "q", "--concurrency", "4", "--drain", "--", "sh", "-c", 'echo "$(cat)"')
    assert sorted(map(int, done.stdout.split())) == list(range(200))
    assert (done.returncode, done.stderr) == (0, "")
    assert not queue.exists()
    assert queue.list_dead() == []


def test_commands_run_at_the_same_time(brant_command: Run, queue: brant.Queue, gate: Path) -> None:
    queue.enqueue_many(["reads", "writes"])
    # Opening a fifo waits for the other side: alone, neither command would end.
    script = 'if [ "$(cat)" = reads ]; then cat gate; else echo met > gate; fi'
    assert brant_command("run", "q", "--concurrency", "2", "--drain", "--", "sh", "-c", script).stdout == "met\n"


def test_drain_waits_for_jobs_that_a_running_command_adds(brant_command: Run, queue: brant.Queue, gate: Path) -> None:
    queue.write("seed")
    script = f"""
        case "$(cat)" in
            seed) printf 'reads\\nwrites' | {COMMAND} -f "$BRANT_DATABASE" write --lines q;;
            reads) cat gate;;
            writes) echo met > gate;;
        esac"""
    assert brant_command("run", "q", "--concurrency", "2", "--drain", "--", "sh", "-c", script).stdout == "met\n"
    assert not queue.exists()


def test_drain_leaves_what_is_not_due(brant_command: Run, queue: brant.Queue) -> None:
    queue.enqueue("later", delay=600)
    done = brant_command("run", "q", "--drain", "--", "cat")
    assert (done.returncode, done.stdout) == (0, "")
    assert queue.stats().delayed == 1


def test_max_ends_after_so_many_jobs(brant_command: Run, queue: brant.Queue) -> None:
    queue.enqueue_many(range(5))
    done = brant_command("run", "q", "--max", "3", "--concurrency", "2", "--", "sh", "-c", 'echo "$(cat)"')
    assert sorted(done.stdout.split()) == ["0", "1", "2"]
    assert [message.payload for message in queue.peek_many()] == [3, 4]


def test_an_idle_runner_is_woken_by_the_next_job(tmp_path: Path, queue: brant.Queue) -> None:
    with running(tmp_path, "--max", "2", "--", "sh", "-c", "cat; echo") as runner:
        queue.write("first")
        assert runner.line() == "first"
        acks = queue.db.update_events()
        while queue.exists():
            acks.wait(PATIENCE_S)
        written = time.monotonic()
        queue.write("second")
        assert runner.line() == "second"
        assert time.monotonic() - written < 4  # it looks every five seconds anyway
        assert runner.exit_code() == 0


def test_the_words_of_the_command_are_its_own(brant_command: Run, queue: brant.Queue) -> None:
    command = ("sh", "-c", 'echo "$@"', "sh", "--", "--max", "5", "--json")
    for words in (("--drain", "--", *command), ("--drain", *command)):
        queue.write("x")
        done = brant_command("run", "q", *words)
        assert (done.returncode, done.stdout) == (0, "-- --max 5 --json\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "COMMAND"),
        (("--",), "COMMAND"),
        (("--", "no-such-command"), "there is no command 'no-such-command'"),
        (("--concurrency", "0", "--", "true"), "--concurrency: '0' is no whole number of at least 1"),
        (("--lease", "0", "--", "true"), "--lease: must be more than 0 seconds"),
    ],
)
def test_bad_arguments_claim_nothing(brant_command: Run, queue: brant.Queue, words: tuple[str, ...], hint: str) -> None:
    queue.write("kept")
    refused = brant_command("run", "q", *words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("brant: error: ")
    assert hint in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert queue.peek() == "kept"


# Failures


@pytest.mark.guarantee("G5")
def test_a_failing_command_is_retried_and_dead_lettered_with_its_stderr(brant_command: Run, queue: brant.Queue) -> None:
    job_id = queue.enqueue("bad", max_attempts=2)
    script = 'echo "boom $BRANT_ATTEMPT" >&2; exit 7'
    done = brant_command("run", "q", "--drain", "--retry-delay", "0", "--", "sh", "-c", script)
    assert done.returncode == 0
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.last_error, dead.attempts) == ("exit code 7\nboom 2", 2)
    assert [error.error for error in queue.errors(job_id)] == ["exit code 7\nboom 1", "exit code 7\nboom 2"]
    assert done.stderr.splitlines() == [
        "boom 1",
        f"brant: job {job_id}, attempt 1/2: exit code 7; again in 0.0 s",
        "boom 2",
        f"brant: job {job_id}, attempt 2/2: exit code 7; now a dead letter",
    ]


def test_the_error_holds_the_last_2_kb_of_stderr_and_all_of_it_is_passed_on(
    brant_command: Run, queue: brant.Queue
) -> None:
    job_id = queue.enqueue("loud", max_attempts=1)
    program = "import sys; sys.stderr.write('x' * 300_000 + 'the end'); sys.exit(1)"
    done = brant_command("-q", "run", "q", "--drain", "--", sys.executable, "-c", program)
    assert done.stderr == "x" * 300_000 + "the end"
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert dead.last_error == "exit code 1\n" + "x" * (2048 - len("the end")) + "the end"


def test_a_command_that_a_signal_ends_has_failed(brant_command: Run, queue: brant.Queue) -> None:
    job_id = queue.enqueue("bad", max_attempts=1)
    brant_command("run", "q", "--drain", "--", "sh", "-c", "kill -9 $$")
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert dead.last_error == "killed by signal 9 (Killed)"


@pytest.mark.parametrize(
    ("attempt", "delay", "least", "most"), [(1, 100, 90, 110), (3, 100, 360, 440), (5, 3000, 3240, 3960)]
)
def test_the_delay_doubles_with_each_attempt_up_to_an_hour(
    brant_command: Run, queue: brant.Queue, attempt: int, delay: int, least: int, most: int
) -> None:
    job_id = queue.enqueue("bad", max_attempts=9)
    for _ in range(attempt - 1):
        job = queue.claim_one("w")
        assert job is not None
        job.retry(0)
    before = time.time()
    brant_command("run", "q", "--max", "1", "--retry-delay", delay, "--", "false")
    row = queue.get_job(job_id)
    assert row is not None
    assert before + least - 1 <= row["run_at"] <= time.time() + most


def test_a_command_that_can_not_be_started_has_failed(brant_command: Run, queue: brant.Queue, tmp_path: Path) -> None:
    queue.enqueue("bad", max_attempts=1)
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    assert brant_command("run", "q", "--drain", "--", script).returncode == 0
    assert [(letter.last_error or "").split(":")[0] for letter in queue.list_dead()] == [
        "the command could not be started"
    ]


def test_a_command_that_leaves_a_process_behind_is_not_waited_for(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("x")
    # The one left behind has the command's stderr open still.
    done = brant_command("run", "q", "--drain", "--", "sh", "-c", "sleep 60 > /dev/null & echo $!")
    left_behind = int(done.stdout)
    os.kill(left_behind, signal.SIGKILL)  # it was spared: it is there to be killed
    assert done.returncode == 0
    assert not queue.exists()


def test_an_ack_waits_for_a_database_that_is_busy(tmp_path: Path, queue: brant.Queue, gate: Path) -> None:
    queue.write("x")
    with running(tmp_path, "--max", "1", "--", *GATED, BRANT_BUSY_TIMEOUT="50") as runner:
        assert runner.line() == "started"
        with write_lock_held(tmp_path / ".brant.db"):
            open_gate(gate)
            assert runner.error_line().startswith("brant: warning: trying again: ")
        assert runner.exit_code() == 0
    assert not queue.exists()


# Leases


def test_the_lease_is_renewed_while_the_command_runs(tmp_path: Path, queue: brant.Queue, gate: Path) -> None:
    job_id = queue.write("long")
    with running(tmp_path, "--lease", "0.9", "--max", "1", "--", *GATED) as runner:
        assert runner.line() == "started"
        lease_ends: set[float] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(lease_ends) < 5 and time.monotonic() < deadline:
            row = queue.get_job(job_id)
            assert row is not None
            lease_ends.add(row["claim_expires_at"])
            assert queue.claim_one("thief") is None
        assert len(lease_ends) == 5
        open_gate(gate)
        assert runner.exit_code() == 0
    assert not queue.exists()


def test_a_command_whose_claim_is_lost_is_terminated(tmp_path: Path, queue: brant.Queue) -> None:
    job_id = queue.write("unwanted")
    with running(tmp_path, "--lease", "0.6", "--max", "1", "--", *ENDLESS) as runner:
        assert runner.line() == "started"
        assert queue.cancel(job_id)
        assert runner.error_line() == f"brant: job {job_id}: its claim is lost; terminating its command"
        assert runner.rest_of_output() == ""
        assert runner.exit_code() == 0
    assert queue.list_dead() == []


@pytest.mark.guarantee("G2")
def test_kill_9_takes_the_command_along_and_the_job_comes_back(tmp_path: Path, queue: brant.Queue) -> None:
    queue.write("survivor")
    with running(tmp_path, "--lease", "1", "--", *ENDLESS) as runner:
        assert runner.line() == "started"
        runner.process.kill()
        # Ends only when the shell and the sleep that it started are gone too.
        assert runner.rest_of_output() == ""
    script = 'echo "$(cat) $BRANT_ATTEMPT"'
    with running(tmp_path, "--max", "1", "--", "sh", "-c", script) as second:
        assert second.line() == "survivor 2"
        assert second.exit_code() == 0
    assert not queue.exists()


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_command_finish(
    tmp_path: Path, queue: brant.Queue, gate: Path, number: signal.Signals
) -> None:
    queue.enqueue_many(["running", "waiting"])
    with running(tmp_path, "--", *GATED) as runner:
        assert runner.line() == "started"
        runner.process.send_signal(number)
        assert runner.error_line() == "brant: stopping; 1 to finish (once more: terminate them)"
        open_gate(gate)
        assert runner.rest_of_output() == ""
        assert runner.exit_code() == 0
    left = queue.claim_batch("w", 9)
    assert [(job.payload, job.attempts) for job in left] == [("waiting", 1)]


def test_a_signal_ends_an_idle_runner(tmp_path: Path, queue: brant.Queue) -> None:
    queue.write("x")
    with running(tmp_path, "--", "cat") as runner:
        assert in_thread(runner.process.stdout.read, 1).result(PATIENCE_S) == "x"  # type: ignore[union-attr]
        runner.process.terminate()
        assert runner.exit_code() == 0
        assert runner.rest_of_output() == ""


def test_a_second_signal_terminates_the_commands_and_gives_their_jobs_back(tmp_path: Path, queue: brant.Queue) -> None:
    ids = queue.enqueue_many(["one", "two"], max_attempts=1)
    with running(tmp_path, "--concurrency", "2", "--lease", "600", "--", *ENDLESS) as runner:
        assert [runner.line(), runner.line()] == ["started", "started"]
        runner.process.terminate()
        assert runner.error_line().startswith("brant: stopping; 2 to finish")
        runner.process.terminate()
        assert runner.rest_of_output() == ""
        assert runner.exit_code() == 0
    given_back = queue.claim_batch("w", 9)
    assert [job.id for job in given_back] == ids
    assert [job.last_error for job in given_back] == [None, None]
    assert queue.list_dead() == []


@pytest.mark.slow
def test_a_command_that_ignores_being_terminated_is_killed(tmp_path: Path, queue: brant.Queue) -> None:
    queue.write("stubborn")
    script = "trap '' TERM; echo started; while :; do sleep 1; done"
    with running(tmp_path, "--", "sh", "-c", script) as runner:
        assert runner.line() == "started"
        runner.process.terminate()
        assert runner.error_line().startswith("brant: stopping")
        runner.process.terminate()
        assert runner.rest_of_output() == ""
        assert runner.exit_code() == 0
    assert queue.claim_one("w") is not None


def test_a_replaced_database_ends_the_runner_and_its_commands(tmp_path: Path, queue: brant.Queue) -> None:
    queue.write("x")
    with running(tmp_path, "--", *ENDLESS) as runner:
        assert runner.line() == "started"
        for name in (".brant.db", ".brant.db-wal", ".brant.db-shm"):
            with suppress(FileNotFoundError):
                (tmp_path / name).unlink()
        assert runner.rest_of_output() == ""
        assert runner.exit_code() == 1
        assert runner.process.stderr is not None
        assert runner.process.stderr.read().splitlines()[-1].startswith("brant: error: ")
