"""Jobs that belong together: how they ended is counted, and when all have ended, one more job is enqueued."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from brant.arguments import decode, encode, queue_name, seconds, whole
from brant.errors import InvalidValue, TransactionError
from brant.result import Deadline
from brant.storage.rows import NamedTuple
from brant.transaction import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from brant.database import Database
    from brant.queue import Queue
    from brant.storage.batches import BatchRow
    from brant.storage.session import Session
    from brant.tasks import Task

    Then = Task[..., Any] | tuple[Queue | str, dict[str, Any] | None]

KEEP_S = 7 * 86_400


class BatchCounts(NamedTuple):
    """How the members stand: `total` is the sum of the others."""

    total: int
    succeeded: int
    dead: int
    cancelled: int
    pending: int


class BatchStatus(NamedTuple):
    """A batch at one moment. `settled_at` is None while it is not settled, or was settled by another program just now.

    `then_job_id` is the job that was enqueued when it was settled.
    """

    id: int
    note: Any
    counts: BatchCounts
    is_sealed: bool
    is_settled: bool
    created_at: float
    settled_at: float | None
    then_job_id: int | None


class Batch:
    """Jobs that are counted together; make one with `db.batch()`, find it again with `db.get_batch(id)`.

    `with db.batch(then=report) as batch:` stores the batch and its jobs in one transaction and seals it. Without `with`
    the jobs may come in several transactions, until `seal()`. The batch is settled when it is sealed and each of its
    jobs is done, dead or cancelled; the job of `then` is enqueued by the same commit, once.
    """

    def __init__(
        self, db: Database, batch_id: int, definition: dict[str, Any] | None = None, tx: object | None = None
    ) -> None:
        self.db = db
        self.id = batch_id
        # Of one that is being made: it is stored with the first job, and anew if that was rolled back.
        self._definition = definition
        self._tx = tx
        self._block: AbstractContextManager[None] | None = None

    def __repr__(self) -> str:
        return f"Batch({self.id})"

    # Filling

    def __enter__(self) -> Self:
        if self._definition is None or self._block is not None:
            raise InvalidValue("`with` is for a new batch, and once: to add to one that exists, pass batch= and seal()")
        self._block = self._filling()
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._block is not None  # noqa: S101
        self._block.__exit__(kind, error, trace)

    @contextmanager
    def _filling(self) -> Iterator[None]:
        given = self._tx
        try:
            with self.db.transaction() if given is None else writing(self.db._storage, given) as entered:
                self._tx = entered if given is None else given
                with writing(self.db._storage, self._tx) as session:
                    self._store(session)
                yield
                self.seal()
        finally:
            self._tx, self._definition = given, None

    def seal(self, *, tx: object | None = None) -> None:
        """All jobs are in it, but for those that its own jobs add: from now on it can be settled. Twice is harmless."""
        with writing(self.db._storage, self._tx if tx is None else tx) as session:
            self._store(session)
            session.seal_batch(self.id)

    def _store(self, session: Session) -> None:
        if self._definition is not None:
            session.create_batch(self.id, **self._definition)

    def add(self, session: Session, job_ids: Sequence[int]) -> None:
        """Make the jobs, which that session has just written, members."""
        self._store(session)
        session.join_batch(self.id, job_ids)

    # Looking

    def status(self) -> BatchStatus:
        """Everything at once; InvalidValue when there is no such batch (any more)."""
        with self.db._storage.reading() as session:
            row = session.get_batch(self.id)
        if row is None:
            raise InvalidValue(
                f"there is no batch {self.id}: it was never committed, or it was settled long ago and removed"
            )
        return status_of(row)

    def counts(self) -> BatchCounts:
        """How many jobs it has and how they ended; after it was settled these numbers stay."""
        return self.status().counts

    @property
    def note(self) -> Any:
        """What `db.batch(note=...)` was given."""
        return decode(self._definition["note"]) if self._definition is not None else self.status().note

    @property
    def is_sealed(self) -> bool:
        return self.status().is_sealed

    @property
    def is_settled(self) -> bool:
        """Whether it is sealed and all of its jobs have ended."""
        return self.status().is_settled

    def wait(self, timeout: float | None = None) -> BatchCounts:
        """Wait in a thread until it is settled: its counts, or TimeoutError."""
        deadline = self._deadline(timeout)
        subscription = self.db._storage.subscribe()
        try:
            while not (status := self.status()).is_settled:
                subscription.wait(deadline.next_wait())
            return status.counts
        finally:
            subscription.close()

    async def wait_async(self, timeout: float | None = None) -> BatchCounts:
        """The same in an event loop."""
        import asyncio

        deadline = self._deadline(timeout)
        subscription = self.db._storage.subscribe()
        try:
            while not (status := await asyncio.to_thread(self.status)).is_settled:
                await subscription.wait_async(deadline.next_wait())
            return status.counts
        finally:
            subscription.close()

    def _deadline(self, timeout: float | None) -> Deadline:
        if self.db._storage.in_transaction():
            raise TransactionError(
                "a batch can't be waited for inside a transaction: nobody could settle it; wait after"
            )
        return Deadline(self.db, timeout, f"batch {self.id} was not settled")


def new_batch(db: Database, then: Then | None, note: object, keep_s: float, tx: object | None) -> Batch:
    definition = {
        "note": encode(note),
        "keep_s": seconds(keep_s, "keep_s", minimum=0),
        "then": None if then is None else callback_of(db, then),
    }
    # Chosen before it is stored, so that it is the same batch whichever of its transactions commits.
    batch = Batch(db, int.from_bytes(os.urandom(7)) >> 3, definition, tx)
    tasks = sys.modules.get("brant.tasks")
    if tasks is None or tasks.run_instead is None:
        return batch
    from brant.inline_batch import InlineBatch

    return InlineBatch(batch, then)


def status_of(row: BatchRow) -> BatchStatus:
    pending = row.total - row.succeeded - row.dead - row.cancelled
    return BatchStatus(
        id=row.id,
        note=decode(row.note),
        counts=BatchCounts(row.total, row.succeeded, row.dead, row.cancelled, pending),
        is_sealed=bool(row.sealed),
        is_settled=bool(row.settled),
        created_at=row.created_at,
        settled_at=row.settled_at,
        then_job_id=row.then_job_id,
    )


def callback_of(db: Database, then: Then) -> dict[str, Any]:
    """The columns of the job that follows, from a task or from (queue, payload)."""
    if isinstance(then, tuple) and len(then) == 2:
        return _plain_callback(db, *then)
    from brant.tasks import Task, envelope

    if not isinstance(then, Task):
        raise InvalidValue(f"then= must be a task or (queue, payload), not {then!r}")
    if then.queue.db is not db:
        raise InvalidValue(f"then={then.name} is a task of another Database")
    then.check_takes_batch()
    return {
        "then_queue": then.queue.name,
        "then_payload": encode(envelope(then.name, (), {})),
        "then_path": "$.__honker_task__.kwargs.batch",
        "then_priority": then.spec.priority,
        "then_max_attempts": then.spec.retries or then.queue.max_attempts,
        "then_expires_s": then.spec.expires_s,
    }


def _plain_callback(db: Database, queue: Queue | str, payload: object) -> dict[str, Any]:
    if payload is None:
        payload = {}
    if not isinstance(payload, dict) or "batch" in payload:
        raise InvalidValue(
            f"then=(queue, payload): the payload must be a dict without 'batch', which is added to it, not {payload!r}"
        )
    known = db._queues.get(queue) if isinstance(queue, str) else queue
    if known is not None and known.db is not db:
        raise InvalidValue(f"then={known!r} is a queue of another Database")
    return {
        "then_queue": queue_name(queue if known is None else known.name),
        "then_payload": encode(payload),
        "then_path": "$.batch",
        "then_priority": 0,
        "then_max_attempts": 3 if known is None else known.max_attempts,
        "then_expires_s": None,
    }


@contextmanager
def adding(db: Database, batch: Batch | int, tx: object | None) -> Iterator[tuple[Session, Batch]]:
    """Where jobs of a batch, given by itself or by its id, are written: in its `with` block's transaction if in one."""
    found = batch if isinstance(batch, Batch) else Batch(db, whole(batch, "batch"))
    if found.db is not db:
        raise InvalidValue(f"{found!r} belongs to another Database")
    with writing(db._storage, found._tx if tx is None else tx) as session:
        yield session, found
