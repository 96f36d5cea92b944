"""A database with messaging in it: everything else is handed out by this."""

from __future__ import annotations

import os
import weakref

from brant.arguments import encode, is_shell_name, label, positional, queue_name, seconds, shell_name, whole
from brant.errors import InvalidValue, QueueNameError, TransactionError
from brant.queue import Queue
from brant.shell import MAX_MESSAGE_BYTES, checked_message
from brant.storage.jobs import JOB_EVENTS_TOPIC
from brant.transaction import Transaction, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self

    from brant.batch import Batch, BatchStatus, Then
    from brant.channel import Listener, UpdateEvents
    from brant.clock import Clock
    from brant.cron import CronSchedule
    from brant.decorators import MakesTask
    from brant.inspection import QueueStats
    from brant.lock import Lock
    from brant.outbox import Outbox
    from brant.schedule import Scheduler
    from brant.storage.base import Storage
    from brant.storage.health import Health
    from brant.stream import Stream
    from brant.worker import Worker

_NOT_GIVEN: Any = object()
_OLD_WINDOW_S = 40 * 86_400  # no rate limit that anybody sets has a longer window


class Database:
    """An open database; safe to share between threads, not between processes. Make one with `brant.open`."""

    def __init__(
        self,
        storage: Storage,
        again: Callable[..., Database],
        temporary_directory: str | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._storage = storage
        self._again = again
        self.max_message_bytes = max_message_bytes
        self._queues: dict[str, Queue] = {}
        self._streams: dict[str, Stream] = {}
        self._outboxes: dict[str, tuple[Outbox, tuple[object, ...]]] = {}
        forget_clock = storage.clock.on_change(storage.wake)
        # Connections with functions on them are not collected by themselves: whoever drops a Database closes it.
        self._finalizer = weakref.finalize(self, _close, storage, forget_clock, temporary_directory, os.getpid())

    def __repr__(self) -> str:
        return f"Database({self._storage.target!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        return self._storage.target

    @property
    def schema(self) -> str | None:
        """On a server, the schema that Brant's tables are in; None for a file."""
        return self._storage.schema

    @property
    def clock(self) -> Clock:
        """What it takes the time from."""
        return self._storage.clock

    @property
    def in_transaction(self) -> bool:
        """Whether this thread or task is inside a `transaction()` of it."""
        return self._storage.in_transaction()

    def another(self, *, synchronous: str) -> Database:
        """A further handle on the same database, with connections and a durability of its own (see `brant.open`)."""
        return self._again(synchronous=synchronous, create=False)

    def close(self) -> None:
        """Close all connections; who waits in this Database gets DatabaseClosed. Closing twice is harmless."""
        if self._storage.in_transaction():
            raise TransactionError("close() inside a transaction: leave its block first")
        self._finalizer()

    def vacuum(self, *, compact: bool = False) -> int:
        """Sweep what has expired: jobs, results, batches, locks, old rate windows; tells how many of the first three.

        With `compact` the file is rewritten without its unused pages, which takes a while and blocks writers.
        """
        with self._storage.transaction() as session:
            swept = sum(session.sweep_expired(name) for name in session.queue_names()) + session.sweep_results()
            swept += session.sweep_batches()
            session.sweep_locks()
            session.sweep_rate_limits(_OLD_WINDOW_S)
            while session.forget_unused_limits():
                pass
        if compact:
            self._storage.compact()
        return swept

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Copy the database to a new file, consistently, while others go on writing."""
        self._storage.backup(os.fspath(destination))

    def dump(self) -> Generator[str, None, None]:
        """Everything that is in the database as lines of JSON, each ending in a newline, as of the first one.

        Others go on writing meanwhile. Until the last line was read, or the iterator is closed, an old snapshot is kept
        and the log grows.
        """
        from brant.transfer import dump

        return dump(self)

    def load(self, lines: Iterable[str | bytes]) -> dict[str, int]:
        """Fill this database, which must be empty, with a dump: all of it or nothing; tells the rows by table."""
        from brant.transfer import load

        return load(self, lines)

    def last_id(self) -> int:
        """The highest id that a job or message has ever had."""
        with self._storage.reading() as session:
            return session.last_job_id()

    def health(self, *, thorough: bool = False) -> Health:
        """What is wrong, if anything, and a few facts; `thorough` reads the whole file to check it."""
        return self._storage.health(thorough=thorough)

    # SQL

    def transaction(self, *, wait: bool = True) -> Transaction:
        """A write transaction: `with db.transaction() as tx`. What takes `tx=` inside commits with it.

        In a file there is one at a time: without `wait` it is DatabaseBusy at once when somebody else has it.
        """
        return Transaction(self._storage, self, wait=wait)

    def query(self, sql: str, params: Iterable[object] | None = None) -> list[dict[str, Any]]:
        """Read; never takes or waits for the write lock. To write, use `transaction()`."""
        with self._storage.reading() as session:
            return session.query(sql, positional(params))

    # Queues

    def queue(
        self,
        name: str,
        visibility_timeout_s: float | None = None,
        max_attempts: int | None = None,
        max_wait_s: float | None = _NOT_GIVEN,
    ) -> Queue:
        """The queue of that name. Options are fixed by the first call that makes it; without any it is a look-up.

        When a due job has waited for more than `max_wait_s` seconds (300; None: never), every fourth claimed job is the
        one that is due longest, so that endless work of a higher priority can't hold it up for ever.
        """
        known = self._queues.get(queue_name(name))
        given = visibility_timeout_s is not None or max_attempts is not None or max_wait_s is not _NOT_GIVEN
        options = (
            300 if visibility_timeout_s is None else visibility_timeout_s,
            3 if max_attempts is None else max_attempts,
            300 if max_wait_s is _NOT_GIVEN else max_wait_s,
        )
        if known is not None:
            if given and options != (known.visibility_timeout_s, known.max_attempts, known.max_wait_s):
                raise InvalidValue(
                    f"the queue {name!r} is already opened with visibility_timeout_s={known.visibility_timeout_s}, "
                    f"max_attempts={known.max_attempts} and max_wait_s={known.max_wait_s}; pass the same, or none"
                )
            return known
        self._storage.require_open()
        if self._storage.in_transaction():
            raise TransactionError("cannot construct Queue inside a transaction: call db.queue() before it")
        if not self._queues:
            self._storage.retire_old_layout()
        self._queues.setdefault(name, Queue(self, name, *options))
        # Not the one just made: another thread may have been faster, with other options.
        return self.queue(name, visibility_timeout_s, max_attempts, max_wait_s)

    def queue_of_job(self, job_id: int) -> Queue | None:
        """The queue of a live or dead job, for whoever knows its id only."""
        whole(job_id, "job_id")
        with self._storage.reading() as session:
            row = session.get_job(job_id) or session.get_dead(job_id)
        return None if row is None else self.queue(row.queue)

    def queue_names(self) -> list[str]:
        """The names of all queues that were ever used and not deleted; drained ones too."""
        with self._storage.reading() as session:
            return session.queue_names(with_dead=True)

    def list_queues(self, prefix: str = "", pattern: str | None = None) -> list[QueueStats]:
        """The numbers of all queues, by name, or of those whose name begins so or matches."""
        return [
            Queue(self, name).stats()
            for name in self.queue_names()
            if name.startswith(prefix) and _matches(name, pattern)
        ]

    def broadcast(self, message: str, pattern: str | None = None, tx: object | None = None) -> int:
        """Write the message to every known queue (whose name matches), in one transaction; tells how many.

        Only to queues that `write` takes too: those with other names, such as an outbox's, hold no messages.
        """
        payload = checked_message(message, self.max_message_bytes)
        with writing(self._storage, tx) as session:
            targets = [name for name in session.queue_names() if is_shell_name(name) and _matches(name, pattern)]
            for name in targets:
                session.enqueue(name, payload)
        return len(targets)

    def job_events(self) -> Stream:
        """The stream of job lifecycle events, of the queues for which `record_events()` is on."""
        return self.stream(JOB_EVENTS_TOPIC)

    def unique_worker_id(self) -> str:
        """A worker id that no other process and no other call gets."""
        import socket

        return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(8).hex()}"

    # Batches

    def batch(
        self, then: Then | None = None, note: object = None, *, keep_s: float = 7 * 86_400, tx: object | None = None
    ) -> Batch:
        """Jobs that are counted together: `with db.batch(then=report) as batch: send.enqueue(user, batch=batch)`.

        When all of them have ended, `then` is enqueued: a task, which gets the keyword `batch`, a dict of the id, the
        note and the counts; or (queue, payload), a dict that gets the same under "batch". See `brant.batch.Batch`.
        """
        from brant.batch import new_batch

        return new_batch(self, then, note, keep_s, tx)

    def get_batch(self, batch_id: int) -> Batch | None:
        """The batch of that id, made in whatever process; None when there is none (any more)."""
        from brant.batch import Batch

        whole(batch_id, "batch_id")
        with self._storage.reading() as session:
            return None if session.get_batch(batch_id) is None else Batch(self, batch_id)

    def batch_of_job(self, job_id: int) -> Batch | None:
        """The batch that a job belongs to, or None."""
        from brant.batch import Batch

        whole(job_id, "job_id")
        with self._storage.reading() as session:
            batch_id = session.batch_of_job(job_id)
        return None if batch_id is None else Batch(self, batch_id)

    def batches(self, limit: int = 100) -> list[BatchStatus]:
        """The latest batches and how they stand, the newest first."""
        from brant.batch import status_of

        limit = whole(limit, "limit", minimum=1)
        with self._storage.reading() as session:
            return [status_of(row) for row in session.list_batches(limit)]

    # Aliases

    def add_alias(self, alias: str, target: str, tx: object | None = None) -> None:
        """Let `@alias` stand for a queue wherever the shell takes one."""
        shell_name(alias), shell_name(target)
        if alias == target:
            raise QueueNameError(f"the alias {alias!r} would stand for itself")
        with writing(self._storage, tx) as session:
            if session.alias_target(alias) is not None:
                raise QueueNameError(f"the alias {alias!r} exists already; remove it first")
            if session.alias_target(target) is not None:
                raise QueueNameError(f"Cannot target another alias: {target!r} is one; name a queue")
            session.add_alias(alias, target)

    def remove_alias(self, alias: str, tx: object | None = None) -> bool:
        with writing(self._storage, tx) as session:
            return session.remove_alias(alias)

    def list_aliases(self, target: str | None = None) -> dict[str, str]:
        """Aliases and their queues, by alias."""
        with self._storage.reading() as session:
            return dict(session.list_aliases(target))

    def resolve_alias(self, name: str) -> str:
        """The queue that `@name` stands for; a name without @ is a queue's own."""
        if not name.startswith("@"):
            return name
        if name == "@":
            raise QueueNameError("Alias name cannot be empty")
        with self._storage.reading() as session:
            target = session.alias_target(name[1:])
        if target is None:
            raise QueueNameError(f"Alias {name[1:]!r} is not defined")
        return target

    # Streams and channels

    def stream(self, name: str) -> Stream:
        """The stream of that name."""
        from brant.stream import Stream

        self._storage.require_open()
        return self._streams.setdefault(name, Stream(self, label(name, "stream name")))

    def list_streams(self) -> list[str]:
        """The names of the streams that hold events."""
        with self._storage.reading() as session:
            return session.topics()

    def notify(self, channel: str, payload: object, tx: object | None = None) -> int:
        """Send a notification to whoever listens when it commits; gives its id."""
        text = encode(payload)
        with writing(self._storage, tx) as session:
            return session.notify(label(channel, "channel"), text)

    def listen(self, channel: str, fallback_poll_s: float | None = 15.0) -> Listener:
        """The notifications of a channel from now on: for `for` and for `async for`."""
        from brant.channel import Listener

        poll_s = None if fallback_poll_s is None else seconds(fallback_poll_s, "fallback_poll_s", above=0)
        return Listener(self._storage, label(channel, "channel"), poll_s, self)

    def prune_notifications(
        self, older_than_s: float | None = None, max_keep: int | None = None, tx: object | None = None
    ) -> int:
        """Delete notifications that are older, or that are not among the newest `max_keep`; tells how many."""
        if older_than_s is None and max_keep is None:
            return 0
        if max_keep is not None and (not isinstance(max_keep, int) or max_keep < 0):
            raise InvalidValue(f"max_keep must not be negative, and be a whole number, not {max_keep!r}")
        age = None if older_than_s is None else seconds(older_than_s, "older_than_s")
        with writing(self._storage, tx) as session:
            return session.prune_notifications(None if age is None else session.now() - age, max_keep)

    def update_events(self) -> UpdateEvents:
        """An async iterator that gives None after each commit to the database, from whatever process."""
        from brant.channel import UpdateEvents

        return UpdateEvents(self._storage, self)

    # Coordination

    def lock(self, name: str, ttl: float = 60, owner: str | None = None, wait: float = 0) -> Lock:
        """A lock to use with `with`: LockHeld when another has it, after waiting up to `wait` seconds."""
        from brant.lock import Lock

        return Lock(self, name, ttl, owner, wait)

    def try_rate_limit(self, name: str, limit: int, per: int, tx: object | None = None) -> bool:
        """Whether one more may happen in the current window: at most `limit` in each `per` seconds."""
        checked = whole(limit, "limit", minimum=1), whole(per, "per", minimum=1)
        with writing(self._storage, tx) as session:
            return session.try_rate_limit(label(name, "limit name"), *checked)

    def sweep_rate_limits(self, older_than_s: float = 3600, tx: object | None = None) -> int:
        """Forget windows that began longer ago; tells how many."""
        with writing(self._storage, tx) as session:
            return session.sweep_rate_limits(seconds(older_than_s, "older_than_s"))

    def sweep_locks(self, tx: object | None = None) -> int:
        """Forget locks that ran out; tells how many."""
        with writing(self._storage, tx) as session:
            return session.sweep_locks()

    def scheduler(self, lock_name: str | None = None) -> Scheduler:
        """Manages and fires the schedules of this database."""
        from brant.schedule import Scheduler

        return Scheduler(self, lock_name)

    # Tasks

    def task(self, queue: str = "default", **options: Any) -> MakesTask:
        """`@db.task("emails", retries=5)`: as `@db.queue("emails").task(retries=5)`."""
        return self.queue(queue).task(**options)

    def periodic_task(self, schedule: CronSchedule | str, queue: str = "default", **options: Any) -> MakesTask:
        """As `@db.queue(queue).periodic_task(schedule)`."""
        return self.queue(queue).periodic_task(schedule, **options)

    def worker(self, queues: Mapping[str, int] | None = None, **options: Any) -> Worker:
        """A worker for these queues with their concurrency, or for all that have tasks; see `brant.worker.Worker`."""
        from brant.worker import Worker

        return Worker(self, queues, **options)

    async def run_workers(
        self,
        queue: str | None = None,
        concurrency: int | None = None,
        stop_event: asyncio.Event | None = None,
        **options: Any,
    ) -> None:
        """Run the tasks of a queue, or of all queues that have any, until `stop_event` is set."""
        from brant.worker.pool import default_concurrency

        queues = None if queue is None else {queue: default_concurrency(concurrency)}
        await self.worker(queues, concurrency=concurrency, **options).run(stop_event)

    def run_workers_sync(self, queue: str | None = None, concurrency: int | None = None, **options: Any) -> None:
        """The same in a thread, until drained or until the process is interrupted."""
        import asyncio

        asyncio.run(self.run_workers(queue, concurrency, **options))

    def outbox(
        self,
        name: str,
        delivery: Callable[[Any], Any],
        max_attempts: int = 5,
        base_backoff_s: float = 5,
        visibility_timeout_s: float = 60,
    ) -> Outbox:
        """The outbox of that name, with the function that delivers; asking again needs the same options."""
        from brant.outbox import Outbox

        # Compared by ==: the same bound method is another object each time that it is looked up.
        options = (delivery, max_attempts, base_backoff_s, visibility_timeout_s)
        if name not in self._outboxes:
            made = Outbox(self, label(name, "outbox name"), *options)
            self._outboxes[name] = (made, options)
        outbox, known = self._outboxes[name]
        if options != known:
            raise InvalidValue(f"the outbox {name!r} is already opened with another delivery or other options")
        return outbox


def _close(storage: Storage, forget_clock: Callable[[], None], temporary_directory: str | None, opened_in: int) -> None:
    forget_clock()
    storage.close()
    # A forked child that exits runs this too, and the directory is still its parent's.
    if temporary_directory is not None and os.getpid() == opened_in and os.path.isdir(temporary_directory):
        import shutil

        shutil.rmtree(temporary_directory)


def _matches(name: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    import fnmatch

    return fnmatch.fnmatchcase(name, pattern)
