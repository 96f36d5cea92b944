"""dead: look at the letters of jobs that failed for good, put them back, or throw them away."""

from __future__ import annotations

import brant
from brant.cli.command import DONE, FAILED, NOTHING, Command
from brant.cli.numbers import count, duration, job_id
from brant.cli.output import put
from brant.cli.parsing import add_queue, queue_of
from brant.cli.terminal import confirm, is_terminal, one_line, table, when
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context
    from brant.inspection import AttemptError, DeadJob

_LETTER_HEADERS = ("ID", "QUEUE", "ATTEMPTS", "DIED", "ERROR", "PAYLOAD")
_ATTEMPT_HEADERS = ("ATTEMPT", "FAILED", "WORKER", "ERROR")


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|requeue|purge")
    shown = actions.add_parser("list", help="the dead letters, oldest job first; exit code 2 when there are none")
    shown.add_argument("queue", metavar="QUEUE", nargs="?", help="only those of this queue, or @alias")
    shown.add_argument("--limit", metavar="N", type=count, default=100, help="at most N (100)")
    shown.add_argument("--json", action="store_true", help="one JSON object a line")
    show = actions.add_parser("show", help="all about one: payload, error, history of attempts")
    show.add_argument("id", metavar="ID", type=job_id)
    show.add_argument("--json", action="store_true", help="a JSON object")
    requeue = actions.add_parser("requeue", help="put letters back: due now, with all their attempts")
    add_queue(requeue)
    requeue.add_argument("id", metavar="ID", nargs="?", type=job_id)
    requeue.add_argument("--all", action="store_true", help="all of the queue's")
    purge = actions.add_parser("purge", help="delete letters for good")
    add_queue(purge)
    purge.add_argument("--older-than", metavar="S", type=duration, help="only those that died longer ago")
    purge.add_argument("--yes", action="store_true", help="do not ask")


def _dead(context: Context, options: Namespace) -> int:
    actions = {"list": _list, "show": _show, "requeue": _requeue, "purge": _purge}
    return actions[options.action](context, options)


def _list(context: Context, options: Namespace) -> int:
    with context.open() as db:
        names = db.queue_names() if options.queue is None else [queue_of(db, options.queue).name]
        queues = [db.queue(name) for name in names]
        letters = [letter for queue in queues for letter in queue.list_dead(options.limit)]
        total = sum(queue.stats().dead for queue in queues)
    letters = sorted(letters, key=lambda letter: letter.id)[: options.limit]
    if options.json:
        for letter in letters:
            _put_json(_as_json(letter))
    elif letters:
        table([_as_row(letter) for letter in letters], _LETTER_HEADERS)
    if total > len(letters):
        context.tell(f"brant: these are {len(letters)} of {total}; --limit {total} shows all")
    return DONE if letters else NOTHING


def _as_row(letter: DeadJob) -> tuple[str, ...]:
    attempts = f"{letter.attempts}/{letter.max_attempts}"
    return str(letter.id), letter.queue, attempts, when(letter.died_at), letter.last_error or "", letter.text


def _as_json(letter: DeadJob) -> dict[str, object]:
    return {
        "id": letter.id,
        "queue": letter.queue,
        "payload": letter.payload,
        "priority": letter.priority,
        "attempts": letter.attempts,
        "max_attempts": letter.max_attempts,
        "last_error": letter.last_error,
        "created_at": letter.created_at,
        "died_at": letter.died_at,
    }


def _show(context: Context, options: Namespace) -> int:
    with context.open() as db:
        queue = db.queue_of_job(options.id)
        letter = None if queue is None else queue.get_dead(options.id)
        history = [] if queue is None else queue.errors(options.id)
    if letter is None:
        context.tell(f"brant: there is no dead letter {options.id}")
        return NOTHING
    if options.json:
        _put_json(_as_json(letter) | {"history": [_attempt_as_json(attempt) for attempt in history]})
    elif is_terminal():
        _show_to_a_person(letter, history)
    else:
        _show_to_a_pipe(letter, history)
    return DONE


def _attempt_as_json(attempt: AttemptError) -> dict[str, object]:
    return {
        "attempt": attempt.attempt,
        "worker_id": attempt.worker_id,
        "error": attempt.error,
        "failed_at": attempt.failed_at,
    }


def _show_to_a_person(letter: DeadJob, history: list[AttemptError]) -> None:
    put(f"Job {letter.id} of {letter.queue}, enqueued {when(letter.created_at)}")
    put(f"died {when(letter.died_at)}, after {letter.attempts} of {letter.max_attempts} attempts")
    for title, text in (("Error", letter.last_error or "none given"), ("Payload", letter.text)):
        put(f"\n{title}:")
        for line in text.splitlines() or [""]:
            put(f"  {one_line(line)}")
    if history:
        put("")
        table([_attempt_as_row(attempt) for attempt in history], _ATTEMPT_HEADERS)


def _show_to_a_pipe(letter: DeadJob, history: list[AttemptError]) -> None:
    facts = {
        "id": str(letter.id),
        "queue": letter.queue,
        "priority": str(letter.priority),
        "attempts": f"{letter.attempts}/{letter.max_attempts}",
        "created": when(letter.created_at),
        "died": when(letter.died_at),
        "error": letter.last_error or "",
        "payload": letter.text,
    }
    table(list(facts.items()), ("FACT", "VALUE"))
    table([("attempt", *_attempt_as_row(attempt)) for attempt in history], ("FACT", *_ATTEMPT_HEADERS))


def _attempt_as_row(attempt: AttemptError) -> tuple[str, ...]:
    return str(attempt.attempt), when(attempt.failed_at), attempt.worker_id or "", attempt.error


def _put_json(fields: dict[str, object]) -> None:
    from brant.cli.payloads import Lines

    Lines(as_json=True).put("", fields)


def _requeue(context: Context, options: Namespace) -> int:
    if (options.id is None) != options.all:
        raise InvalidValue("name one dead letter by its id, or give --all")
    with context.open() as db:
        queue = queue_of(db, options.queue)
        requeued = queue.requeue_dead(options.id)
    context.tell(f"Requeued {_letters(requeued)} of {queue.name}")
    return DONE if requeued else NOTHING


def _purge(context: Context, options: Namespace) -> int:
    with context.open() as db:
        queue = queue_of(db, options.queue)
        if not options.yes and not confirm(_question(queue, options.older_than)):
            context.tell("Nothing was deleted")
            return FAILED
        purged = queue.purge_dead(options.older_than)
    context.tell(f"Deleted {_letters(purged)} of {queue.name}")
    return DONE


def _question(queue: brant.Queue, older_than: float | None) -> str:
    if older_than is None:
        return f"Delete {_letters(queue.stats().dead)} of {queue.name} for good?"
    return f"Delete the dead letters of {queue.name} that died more than {older_than} seconds ago for good?"


def _letters(number: int) -> str:
    return f"{number} dead letter" if number == 1 else f"{number} dead letters"


DEAD = Command(
    "list, show, requeue or purge dead letters",
    _arguments,
    _dead,
    description="Dead letters are jobs that failed for good: their attempts were used up, they were failed, or they "
    "expired.",
)
