"""What a running task can ask and tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from brant.batch import Batch
from brant.errors import InvalidValue, TransactionError
from brant.job import Job
from brant.transaction import Transaction

PROGRESS_CHANNEL = "_brant:progress"
Work = Callable[[Transaction], object]
OnError = Callable[[Transaction, BaseException], object]
_current: ContextVar[TaskContext | None] = ContextVar("brant_task", default=None)


class TaskContext:
    """The job that a task runs for: `current_task()` gives it inside the function.

    `deadline` is on the monotonic clock of the database, as is `started`; None without a `timeout_s`.
    """

    def __init__(self, job: Job, task: str, timeout_s: float | None) -> None:
        self.job = job
        self.job_id = job.id
        self.attempt = job.attempts
        self.task = task
        self.started = job.queue.db._storage.clock.monotonic()
        self.deadline = None if timeout_s is None else self.started + timeout_s
        self._given_up = False
        self.acked = False
        self.acking = False
        # As what, where a task settles its job itself and the verb, as `job.retry(60, tx=tx)`, does not say it all.
        self.settled_as: str | None = None
        self.settled_because: str | None = None
        self.work: Work | None = None
        self.on_error: OnError | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the job is no longer this worker's, or its time is over: a long function should look, and end."""
        return self._given_up

    @property
    def batch(self) -> Batch | None:
        """The batch that the job belongs to: while it runs it may add more jobs to it."""
        return self.job.queue.db.batch_of_job(self.job_id)

    def give_up(self) -> None:
        self._given_up = True

    def heartbeat(self, extend_s: float | None = None) -> bool:
        """Renew the lease now; the worker does so by itself."""
        return self.job.heartbeat(extend_s)

    def progress(self, share: float, note: str = "") -> None:
        """Tell how far the task is, from 0 to 1: a notification on the channel `_brant:progress`."""
        if not 0 <= share <= 1:
            raise InvalidValue(f"progress goes from 0 to 1, not {share!r}")
        payload = {"job_id": self.job_id, "task": self.task, "progress": share, "note": note}
        self.job.queue.db.notify(PROGRESS_CHANNEL, payload)

    @contextmanager
    def transaction(self, *, late: bool = False) -> Iterator[Transaction]:
        """A transaction that commits with the ack: what is written in it happens exactly once.

        With `late` it begins when it is first used.
        """
        with self._settling(), self.job.transaction(late=late) as tx:
            yield tx

    def at_ack(self, work: Work, on_error: OnError | None = None) -> None:
        """Have `work(tx)` called when the function has returned, in the transaction that acks the job.

        Jobs that end at the same time share it, each of them undone alone: so it costs less than `transaction()`, and
        is for what takes no time. What `work` raises is taken for what the function raised; with `on_error(tx, error)`
        that may settle the job itself, as by `job.retry(60, tx=tx)`, once what `work` wrote is undone.
        """
        self._require_open()
        self.work, self.on_error = work, on_error

    def _require_open(self) -> None:
        if self.acked:
            raise TransactionError("the task has committed its transaction already; it has one only")
        if self.work is not None:
            raise TransactionError("the task has left its work for the ack already; there is one only")

    @contextmanager
    def _settling(self) -> Iterator[None]:
        self._require_open()
        # From here on the job may be gone because it is done: that is no loss.
        self.acking = True
        try:
            yield
            self.acked = True
        finally:
            self.acking = self.acked


def current_task() -> TaskContext:
    """The context of the task that runs here."""
    context = _current.get()
    if context is None:
        raise InvalidValue("current_task() works inside a task that a worker runs")
    return context


def enter(context: TaskContext) -> None:
    """Make it the current one of this thread or task."""
    _current.set(context)
