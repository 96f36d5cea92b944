"""enqueue, claim, ack, retry, fail, heartbeat, cancel, dead."""

from __future__ import annotations

import time

import brant
from brant.cli.command import DONE, NOTHING, Command
from brant.cli.dead import DEAD
from brant.cli.numbers import count, duration, job_id, positive_duration, whole_number
from brant.cli.output import put
from brant.cli.parsing import add_queue, queue_of
from brant.cli.payloads import add_payload, payload_of
from brant.cli.times import timestamp
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from brant.channel import UpdateEvents
    from brant.cli.command import Context
    from brant.cli.draining import StoppableLines
    from brant.cli.stopping import StopSignals

    Settle = Callable[[brant.Queue, Namespace, str, int], bool]

_MICROS_A_SECOND = 1_000_000
# Commits and due times wake who waits; the longest wait is a safety net, the shortest keeps lost races from spinning.
_LONGEST_WAIT_S = 5.0
_SHORTEST_WAIT_S = 0.01


def _enqueue_arguments(parser: ArgumentParser) -> None:
    add_queue(parser)
    add_payload(parser)
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--delay", metavar="S", type=duration, help="not before S seconds from now")
    start.add_argument("--run-at", metavar="T", help="not before this time: ISO 8601 (UTC if it names no zone) or Unix")
    parser.add_argument("--priority", metavar="N", type=whole_number, default=0, help="higher goes first (0)")
    parser.add_argument("--expires", metavar="S", type=duration, help="a dead letter if not started within S seconds")
    parser.add_argument("--max-attempts", metavar="N", type=count, help="how often it may be claimed (3)")
    parser.add_argument("--unique-key", metavar="K", help="add nothing while a job of this key is live; print its id")
    parser.add_argument("--unique-for", metavar="S", type=positive_duration, help="and for S seconds from now")


def _enqueue(context: Context, options: Namespace) -> int:
    run_at = None if options.run_at is None else timestamp(options.run_at) / _MICROS_A_SECOND
    payload = payload_of(options, context)
    with context.open(writes=True) as db:
        added = queue_of(db, options.queue).enqueue(
            payload,
            run_at=run_at,
            delay=options.delay,
            priority=options.priority,
            expires=options.expires,
            max_attempts=options.max_attempts,
            unique_key=options.unique_key,
            unique_for=options.unique_for,
        )
    put(str(added))
    return DONE


def _claim_arguments(parser: ArgumentParser) -> None:
    add_queue(parser)
    parser.add_argument("--lease", metavar="S", type=positive_duration, default=60, help="yours for S seconds (60)")
    parser.add_argument("-n", metavar="N", dest="n", type=count, default=1, help="up to N jobs (1)")
    parser.add_argument("--worker", metavar="ID", help="who claims (default: an id of its own for each call)")
    parser.add_argument("--wait", metavar="S", type=duration, default=0, help="wait so long for a job (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _claim(context: Context, options: Namespace) -> int:
    from brant.cli.draining import StoppableLines
    from brant.cli.stopping import StopSignals

    with context.open() as db:
        queue = queue_of(db, options.queue)
        # Before the first look, so that a commit between the two is not missed.
        commits = db.update_events() if options.wait else None
        # Before the claim: from then on a signal must not end this before the jobs are printed or given back.
        stop = StopSignals() if commits is None else StopSignals(commits.close)
        lines = StoppableLines(stop, as_json=options.json)
        jobs = _claimed(queue, options, commits, stop)
        _hand_out(db, jobs, lines)
    stop.raise_if_requested()
    return DONE if jobs else NOTHING


def _claimed(
    queue: brant.Queue, options: Namespace, commits: UpdateEvents | None, stop: StopSignals
) -> list[brant.Job]:
    worker = queue.db.unique_worker_id() if options.worker is None else options.worker
    deadline = time.monotonic() + options.wait
    while not stop.requested():
        due_in = queue.due_in()
        jobs = queue.claim_batch(worker, options.n, options.lease) if due_in == 0 else []
        left = deadline - time.monotonic()
        if jobs or left <= 0 or commits is None:
            return jobs
        commits.wait(min(left, patience(due_in)))
    return []


def patience(due_in: float | None) -> float:
    """How long to wait for a commit before the next look, given what `Queue.due_in()` said."""
    return _LONGEST_WAIT_S if due_in is None else min(max(due_in, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)


def _hand_out(db: brant.Database, jobs: list[brant.Job], lines: StoppableLines) -> None:
    printed = 0
    try:
        for job in jobs:
            if not lines.put(f"{job.id}\t{_token(job)}\t{job.text}", _as_json(job)):
                break
            printed += 1
    finally:
        if printed < len(jobs):
            _give_back(db, jobs[printed:])


def _give_back(db: brant.Database, jobs: list[brant.Job]) -> None:
    with db.transaction() as tx:
        for job in jobs:
            job.release(tx=tx)


def _as_json(job: brant.Job) -> dict[str, object]:
    return {
        "id": job.id,
        "token": _token(job),
        "payload": _payload(job),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "priority": job.priority,
        "queue": job.queue_name,
        "lease_expires_at": job.claim_expires_at,
        "last_error": job.last_error,
    }


def _payload(job: brant.Job) -> object:
    try:
        return job.payload
    except ValueError:  # another program stored what is not JSON
        return job.text


def _token(job: brant.Job) -> str:
    """Who claimed it, and for which attempt. In hexadecimal: a worker's id may be any text, a token needs no quotes."""
    return f"{job.attempts}-{job.worker_id.encode().hex()}"


def _claim_of(token: str) -> tuple[str, int]:
    attempt, _, worker = token.partition("-")
    try:
        if not worker:
            raise ValueError
        return bytes.fromhex(worker).decode(), int(attempt)
    except ValueError:
        raise InvalidValue(f"{token!r} is no token; give the one that 'brant claim' printed behind the id") from None


def _settling_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", type=job_id, help="the job, as claim printed it")
    parser.add_argument("token", metavar="TOKEN", help="the claim, as claim printed it")


def _retry_arguments(parser: ArgumentParser) -> None:
    _settling_arguments(parser)
    parser.add_argument("--delay", metavar="S", type=duration, default=60, help="again after S seconds (60)")
    parser.add_argument("--error", metavar="TEXT", default="", help="why, for the job's history")


def _fail_arguments(parser: ArgumentParser) -> None:
    _settling_arguments(parser)
    parser.add_argument("--error", metavar="TEXT", default="", help="why, for the dead letter")


def _heartbeat_arguments(parser: ArgumentParser) -> None:
    _settling_arguments(parser)
    parser.add_argument(
        "--extend", metavar="S", type=positive_duration, default=60, help="yours for S seconds from now (60)"
    )


def _settling(settle: Settle) -> Callable[[Context, Namespace], int]:
    def run(context: Context, options: Namespace) -> int:
        worker, attempt = _claim_of(options.token)
        with context.open() as db:
            queue = db.queue_of_job(options.id)
            if queue is not None and settle(queue, options, worker, attempt):
                return DONE
        context.tell(
            f"brant: the claim of job {options.id} is lost: its lease ran out, or it was settled or taken over"
        )
        return NOTHING

    return run


def _ack(queue: brant.Queue, options: Namespace, worker: str, attempt: int) -> bool:
    return queue.ack(options.id, worker, attempt=attempt)


def _retry(queue: brant.Queue, options: Namespace, worker: str, attempt: int) -> bool:
    return queue.retry(options.id, worker, options.delay, options.error, attempt=attempt)


def _fail(queue: brant.Queue, options: Namespace, worker: str, attempt: int) -> bool:
    return queue.fail(options.id, worker, options.error, attempt=attempt)


def _heartbeat(queue: brant.Queue, options: Namespace, worker: str, attempt: int) -> bool:
    return queue.heartbeat(options.id, worker, options.extend, attempt=attempt)


def _cancel_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", type=job_id, help="the job")


def _cancel(context: Context, options: Namespace) -> int:
    with context.open() as db:
        queue = db.queue_of_job(options.id)
        if queue is not None and queue.cancel(options.id):
            return DONE
    context.tell(f"brant: there is no live job {options.id}")
    return NOTHING


_LOST = "Exit code 2 when the claim is lost: its lease ran out, or the job was settled, cancelled or taken over."

COMMANDS = {
    "enqueue": Command("add a job with a JSON payload and print its id", _enqueue_arguments, _enqueue),
    "claim": Command(
        "take jobs under a lease, to ack, retry or fail them",
        _claim_arguments,
        _claim,
        description="Claim due jobs and print a line for each: ID, TOKEN and PAYLOAD, separated by tabs. The token "
        "identifies this claim: pass it on as it is to ack, retry, fail or heartbeat; it needs no quotes. A text "
        "payload is printed as its text, any other as JSON. A job that is not settled within its lease is claimed anew "
        "by somebody else. Exit code 2 when there is no job.",
    ),
    "ack": Command(
        "a claimed job is done", _settling_arguments, _settling(_ack), description=f"The job is done and gone. {_LOST}"
    ),
    "retry": Command(
        "put a claimed job back for later",
        _retry_arguments,
        _settling(_retry),
        description=f"Again after a while, or a dead letter when its attempts are used up. {_LOST}",
    ),
    "fail": Command(
        "make a dead letter of a claimed job",
        _fail_arguments,
        _settling(_fail),
        description=f"Never again, unless 'brant dead requeue' puts it back. {_LOST}",
    ),
    "heartbeat": Command(
        "keep a claimed job for longer",
        _heartbeat_arguments,
        _settling(_heartbeat),
        description=f"Move the end of the lease to so many seconds from now. {_LOST}",
    ),
    "cancel": Command(
        "remove a job, running or not",
        _cancel_arguments,
        _cancel,
        description="Remove a job. A worker that runs it is refused its ack; 'brant run' terminates its command. "
        "Exit code 2 when there is no such job.",
    ),
    "dead": DEAD,
}
