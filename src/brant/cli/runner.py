"""run: a command for each job of a queue."""

from __future__ import annotations

import os
import time

import brant
from brant.cli.command import DONE, Command
from brant.cli.jobs import patience
from brant.cli.numbers import count, duration, positive_duration
from brant.cli.parsing import add_queue, queue_of
from brant.errors import BrantError, DatabaseBusy, InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.child import Child
    from brant.cli.command import Context

_LONGEST_BACKOFF_S = 3600
_JITTER = 0.1
_GRACE_S = 5.0
_BUSY_PAUSE_S = 0.5


def _arguments(parser: ArgumentParser) -> None:
    add_queue(parser)
    parser.add_argument("--concurrency", metavar="N", type=count, default=1, help="up to N commands at a time (1)")
    parser.add_argument(
        "--lease",
        metavar="S",
        type=positive_duration,
        default=60,
        help="a job comes back S seconds after this process died (60); renewed while its command runs",
    )
    parser.add_argument(
        "--retry-delay",
        metavar="S",
        type=duration,
        default=5,
        help="a job whose command failed waits S seconds, then twice as long each time (5)",
    )
    parser.add_argument("--max", metavar="N", type=count, help="end after N jobs")
    parser.add_argument("--drain", action="store_true", help="end when nothing is due")
    parser.add_argument("--worker", metavar="ID", help="who claims (default: an id of its own)")
    # "A...", which argparse calls PARSER: this word and all that follow, whatever they look like.
    parser.add_argument("command", metavar="COMMAND", nargs="A...", help="what to run, behind --")


def _run(context: Context, options: Namespace) -> int:
    command = _command(options.command)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        _Runner(context, queue, options, command).run()
    return DONE


def _command(words: list[str]) -> list[str]:
    import shutil

    # Depending on its version, argparse leaves the -- in.
    command = words[1:] if words[0] == "--" else words
    if not command:
        raise InvalidValue("no command: type it behind --")
    if shutil.which(command[0]) is None:
        raise InvalidValue(f"there is no command {command[0]!r}; check its name and that it may be executed")
    if os.name != "posix":
        raise InvalidValue("brant run needs process groups and signals, which this system has not got")
    return command


class _Running:
    """A job and its command."""

    def __init__(self, job: brant.Job, child: Child, lease_s: float) -> None:
        self.job = job
        self.child = child
        self.renew_at = time.monotonic() + lease_s / 3
        self.kill_at: float | None = None
        self.is_lost = self.is_given_back = False

    def next_duty_at(self) -> float:
        if self.kill_at is None:
            return self.renew_at
        return self.kill_at if self.is_lost else min(self.renew_at, self.kill_at)

    def terminate(self) -> None:
        if self.kill_at is None:
            self.child.terminate()
            self.kill_at = time.monotonic() + _GRACE_S


class _Runner:
    """One thread that claims, renews, settles and heeds signals, so that nothing needs a lock."""

    def __init__(self, context: Context, queue: brant.Queue, options: Namespace, command: list[str]) -> None:
        self._context = context
        self._queue = queue
        self._options = options
        self._command = command
        self._worker = queue.db.unique_worker_id() if options.worker is None else options.worker
        self._running: list[_Running] = []
        self._claimed = 0
        self._found_nothing = False
        self._stop_requests = 0

    def run(self) -> None:
        from brant.cli.bell import Bell

        with Bell(self._queue.db.update_events()) as bell:
            try:
                wait_s = self._round(bell.stop_requests)
                while not self._is_finished():
                    bell.wait(wait_s)
                    wait_s = self._round(bell.stop_requests)
            finally:
                self._abandon()

    def _is_finished(self) -> bool:
        if self._running:
            return False
        return bool(self._stop_requests) or self._free_slots() == 0 or (self._options.drain and self._found_nothing)

    def _round(self, stop_requests: int) -> float:
        """Do what there is to do; tells how many seconds there is nothing more."""
        try:
            self._heed(stop_requests)
            self._settle_ended()
            self._renew_leases()
            self._kill_overdue()
            return self._claim()
        except DatabaseBusy as error:
            # Whatever was not done yet is done in the next round.
            self._context.tell(f"brant: warning: trying again: {error}")
            return _BUSY_PAUSE_S

    def _heed(self, stop_requests: int) -> None:
        if stop_requests == self._stop_requests:
            return
        if self._stop_requests == 0 and self._running:
            self._context.tell(f"brant: stopping; {len(self._running)} to finish (once more: terminate them)")
        self._stop_requests = stop_requests
        if stop_requests > 1:
            for running in self._running:
                if running.child.exit_code is None:
                    running.is_given_back = True
                    running.terminate()

    def _free_slots(self) -> int:
        free: int = self._options.concurrency - len(self._running)
        return free if self._options.max is None else min(free, self._options.max - self._claimed)

    def _claim(self) -> float:
        free = 0 if self._stop_requests else self._free_slots()
        if free == 0:
            return self._next_duty_in()
        due_in = self._queue.due_in()
        jobs = self._queue.claim_batch(self._worker, free, self._options.lease) if due_in == 0 else []
        self._claimed += len(jobs)
        self._found_nothing = not jobs
        for job in jobs:
            self._start(job)
        return 0 if jobs else min(patience(due_in), self._next_duty_in())

    def _next_duty_in(self) -> float:
        if not self._running:
            return patience(None)
        return max(0.0, min(running.next_duty_at() for running in self._running) - time.monotonic())

    def _start(self, job: brant.Job) -> None:
        from brant.cli.child import Child

        environment = {
            "BRANT_JOB_ID": str(job.id),
            "BRANT_QUEUE": job.queue_name,
            "BRANT_ATTEMPT": str(job.attempts),
            "BRANT_MAX_ATTEMPTS": str(job.max_attempts),
            "BRANT_DATABASE": self._database(),
        }
        try:
            child = Child(self._command, job.text, os.environ | environment)
        except OSError as error:
            self._retry(job, f"the command could not be started: {error}")
            return
        self._running.append(_Running(job, child, self._options.lease))

    def _database(self) -> str:
        """For -f of a command in it; an address with its password, since it could not be opened without."""
        target = self._context.target()
        return target.path if target.is_server else os.path.abspath(self._queue.db.path)

    def _settle_ended(self) -> None:
        for running in list(self._running):
            code = running.child.exit_code
            if code is not None:
                if not running.is_lost and not self._settle(running, code):
                    self._context.tell(f"brant: job {running.job.id}: its claim was lost before its command ended")
                self._running.remove(running)
                running.child.close()

    def _settle(self, running: _Running, code: int) -> bool:
        if running.is_given_back:
            return running.job.release()
        if code == 0:
            return running.job.ack()
        return self._retry(running.job, f"{_ending(code)}\n{running.child.last_words()}".strip())

    def _retry(self, job: brant.Job, error: str) -> bool:
        delay_s = _backoff(self._options.retry_delay, job.attempts)
        held = job.retry(delay_s, error)
        if held:
            fate = f"again in {delay_s:.1f} s" if job.attempts < job.max_attempts else "now a dead letter"
            reason = error.partition("\n")[0]
            self._context.tell(f"brant: job {job.id}, attempt {job.attempts}/{job.max_attempts}: {reason}; {fate}")
        return held

    def _renew_leases(self) -> None:
        now = time.monotonic()
        for running in self._running:
            if running.renew_at <= now and not running.is_lost:
                running.is_lost = not running.job.heartbeat(self._options.lease)
                running.renew_at = now + self._options.lease / 3
                if running.is_lost:
                    self._context.tell(f"brant: job {running.job.id}: its claim is lost; terminating its command")
                    running.terminate()

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for running in self._running:
            if running.kill_at is not None and running.kill_at <= now:
                running.kill_at = now + _GRACE_S
                running.child.kill()

    def _abandon(self) -> None:
        """After an error: no command goes on, and other workers need not wait for the leases."""
        for running in self._running:
            running.child.kill()
            try:
                running.job.release()
            except BrantError:  # the database is what failed: the leases will run out
                pass


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    import signal

    return f"killed by signal {-code} ({signal.strsignal(-code)})"


def _backoff(base_s: float, attempt: int) -> float:
    """Doubled each time up to an hour, a little random: what failed together should not come back together."""
    import random

    doubled = base_s * 2.0 ** min(attempt - 1, 30)
    return min(doubled, max(base_s, _LONGEST_BACKOFF_S)) * random.uniform(1 - _JITTER, 1 + _JITTER)


COMMANDS = {
    "run": Command(
        "run a command for each job, with the job's text on its stdin",
        _arguments,
        _run,
        description="Claim jobs and run the command for each, with the payload on its stdin: a text as it is, anything "
        "else as JSON. BRANT_JOB_ID, BRANT_QUEUE, BRANT_ATTEMPT, BRANT_MAX_ATTEMPTS and BRANT_DATABASE are in its "
        "environment. Exit code 0 of the command acks the job; any other retries it, with the end of stderr as the "
        "error. SIGINT or SIGTERM: no new jobs, wait for those that run; a second one terminates them and gives their "
        "jobs back.",
    )
}
