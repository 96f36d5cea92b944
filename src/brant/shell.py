"""The shell's verbs: messages written, read, peeked at and moved, on the same rows as a worker's jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from brant.arguments import encode, seconds, shell_name, whole
from brant.errors import InvalidValue
from brant.job import Message
from brant.storage.base import JobRow, MessageRow
from brant.transaction import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.database import Database
    from brant.queue import Queue
    from brant.storage.messages import Chosen

MAX_MESSAGE_BYTES = 10 * 1024 * 1024
_PAGE = 1000
_LARGEST_LIMIT = 2**62


class ShellVerbs:
    """Text in, text out, oldest first; rows with a priority or a delay come in the worker's order, when due."""

    db: Database
    name: str
    max_attempts: int
    visibility_timeout_s: float

    def write(self, message: str, tx: object | None = None) -> int:
        """Add a message; gives its id. A worker that claims it gets the text as its payload."""
        shell_name(self.name)
        payload = checked_message(message, self.db.max_message_bytes)
        with writing(self.db._storage, tx) as session:
            return session.enqueue(self.name, payload, max_attempts=self.max_attempts)

    def write_many(self, messages: Iterable[str], tx: object | None = None) -> list[int]:
        """Add many messages in one transaction, all of them or none; gives their ids."""
        shell_name(self.name)
        payloads = [checked_message(message, self.db.max_message_bytes) for message in messages]
        if not payloads:
            return []
        with writing(self.db._storage, tx) as session:
            return session.enqueue_many(self.name, payloads, max_attempts=self.max_attempts)

    def read(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        message_id: int | None = None,
        tx: object | None = None,
    ) -> Message | None:
        """Take the oldest message (in the open range of ids, or that one): it is gone once this returns."""
        taken = self._take(1, after, before, message_id, tx)
        return taken[0] if taken else None

    def read_many(
        self, limit: int, *, after: int | None = None, before: int | None = None, tx: object | None = None
    ) -> list[Message]:
        """Take up to `limit` messages, in one transaction."""
        return self._take(whole(limit, "limit", minimum=1), after, before, None, tx)

    def read_generator(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        at_least_once: bool = False,
        batch_size: int = 100,
        lease_s: float = 60,
    ) -> Iterator[Message]:
        """Take all messages that are there, one at a time.

        With `at_least_once` each batch is leased instead and removed when the batch has been consumed: what was not
        consumed comes back, at once when the iteration is stopped, after `lease_s` seconds when the process dies. The
        lease is renewed between messages, so `lease_s` has to be long enough for one of them.
        """
        if not at_least_once:
            return self._read_each(after, before)
        if after is not None or before is not None:
            raise InvalidValue("at_least_once leases messages in order and takes no range; leave after and before out")
        whole(batch_size, "batch_size", minimum=1)
        return self._lease_each(batch_size, seconds(lease_s, "lease_s", above=0))

    def _read_each(self, after: int | None, before: int | None) -> Iterator[Message]:
        while (message := self.read(after=after, before=before)) is not None:
            yield message

    def _lease_each(self, batch_size: int, lease_s: float) -> Iterator[Message]:
        storage = self.db._storage
        worker = self.db.unique_worker_id()
        while True:
            with storage.transaction() as session:
                batch = [job for job, _ in session.claim(self.name, worker, batch_size, lease_s)]
            if not batch:
                return
            consumed: list[int] = []
            renew_at = storage.clock.monotonic() + lease_s / 3
            try:
                for job in batch:
                    if storage.clock.monotonic() >= renew_at:
                        self._renew(worker, consumed, batch, lease_s)
                        renew_at = storage.clock.monotonic() + lease_s / 3
                    yield Message.of(MessageRow(job.id, job.queue, job.payload, job.priority, job.run_at, job.attempts))
                    consumed.append(job.id)
            finally:
                with storage.transaction() as session:
                    session.ack_many(consumed, worker)
                    session.release([job.id for job in batch[len(consumed) :]], worker)

    def _renew(self, worker: str, consumed: list[int], batch: list[JobRow], lease_s: float) -> None:
        with self.db._storage.transaction() as session:
            session.ack_many(consumed, worker)
            for job in batch[len(consumed) :]:
                session.extend(job.id, worker, lease_s, job.attempts)

    @contextmanager
    def consuming(
        self,
        limit: int = 1,
        *,
        after: int | None = None,
        before: int | None = None,
        message_id: int | None = None,
    ) -> Iterator[Iterator[Message]]:
        """Take up to `limit` messages as the block consumes them: `with queue.consuming(100) as messages`.

        A message is consumed when the next one is asked for. At the end of the block those are gone, and the one in
        hand and all behind it have never left the queue; also when the block raises. The block holds the write lock,
        so it should not wait for anything.
        """
        chosen = _chosen(after, before, message_id)
        consumed: list[int] = []
        failure: BaseException | None = None
        with self.db._storage.transaction() as session:
            try:
                with session.savepoint():
                    rows = session.take(self.name, whole(limit, "limit", minimum=1), **chosen)
                    try:
                        yield _consumed_one_by_one(rows, consumed)
                    except BaseException as error:
                        failure = error
                    if len(consumed) < len(rows):
                        raise _LeaveTheRest
            except _LeaveTheRest:
                for message in consumed:
                    session.take(self.name, 1, message_id=message)
        if failure is not None:
            raise failure

    def _take(
        self, limit: int, after: int | None, before: int | None, message_id: int | None, tx: object | None
    ) -> list[Message]:
        chosen = _chosen(after, before, message_id)
        with writing(self.db._storage, tx) as session:
            return [Message.of(row) for row in session.take(self.name, limit, **chosen)]

    def peek(
        self, *, after: int | None = None, before: int | None = None, message_id: int | None = None
    ) -> Message | None:
        """The message that `read` would take, left where it is."""
        with self.db._storage.reading() as session:
            found = session.peek(self.name, 1, **_chosen(after, before, message_id))
        return Message.of(found[0]) if found else None

    def peek_many(self, limit: int = 1000, *, after: int | None = None, before: int | None = None) -> list[Message]:
        limit = whole(limit, "limit", minimum=1)
        with self.db._storage.reading() as session:
            return [Message.of(row) for row in session.peek(self.name, limit, **_chosen(after, before, None))]

    def peek_generator(self, *, after: int | None = None, before: int | None = None) -> Iterator[Message]:
        """All messages that are there; removal by others meanwhile makes it skip none."""
        chosen = _chosen(after, before, None)
        seen: MessageRow | None = None
        while True:
            with self.db._storage.reading() as session:
                page = session.peek(self.name, _PAGE, seen=seen, **chosen)
            yield from map(Message.of, page)
            if len(page) < _PAGE:
                return
            seen = page[-1]

    def move(
        self,
        destination: str | Queue,
        *,
        after: int | None = None,
        before: int | None = None,
        message_id: int | None = None,
        tx: object | None = None,
    ) -> Message | None:
        """Move the oldest message (in the range, or that one); it keeps its id and so its age."""
        moved = self._move(destination, 1, after, before, message_id, tx)
        return moved[0] if moved else None

    def move_many(
        self,
        destination: str | Queue,
        limit: int | None = None,
        *,
        after: int | None = None,
        before: int | None = None,
        tx: object | None = None,
    ) -> list[Message]:
        """Move up to `limit` messages, by default all, in one transaction."""
        limit = _LARGEST_LIMIT if limit is None else whole(limit, "limit", minimum=1)
        return self._move(destination, limit, after, before, None, tx)

    def move_generator(
        self, destination: str | Queue, *, after: int | None = None, before: int | None = None
    ) -> Iterator[Message]:
        """Move all messages, one at a time, each as it is consumed."""
        while (message := self.move(destination, after=after, before=before)) is not None:
            yield message

    def _move(
        self,
        destination: str | Queue,
        limit: int,
        after: int | None,
        before: int | None,
        message_id: int | None,
        tx: object | None,
    ) -> list[Message]:
        target = shell_name(destination if isinstance(destination, str) else destination.name)
        if target == self.name:
            raise InvalidValue("Source and destination queues cannot be the same")
        chosen = _chosen(after, before, message_id)
        with writing(self.db._storage, tx) as session:
            return [Message.of(row) for row in session.move(self.name, target, limit, **chosen)]

    def delete(self, *, message_id: int | None = None, tx: object | None = None) -> bool:
        """Remove every row of the queue, leased ones too, or one message that is not leased. False for none."""
        with writing(self.db._storage, tx) as session:
            if message_id is None:
                return session.delete_queue(self.name) > 0
            return session.delete_message(self.name, whole(message_id, "message_id"))

    def exists(self) -> bool:
        """Whether the queue has any row, leased ones included."""
        with self.db._storage.reading() as session:
            return session.queue_has_rows(self.name)

    def has_pending(self, after: int | None = None) -> bool:
        """Whether `read` would find a message."""
        with self.db._storage.reading() as session:
            found = session.peek(self.name, 1, **_chosen(after, None, None))
            return bool(found) and not session.queue_paused(self.name)


class _LeaveTheRest(Exception):
    """Takes back what was taken too much."""


def _consumed_one_by_one(rows: list[MessageRow], consumed: list[int]) -> Iterator[Message]:
    for row in rows:
        yield Message.of(row)
        consumed.append(row.id)


def checked_message(message: object, max_bytes: int) -> str:
    """The text as it is stored; refuses what is not text, what UTF-8 can't encode and what is too large."""
    if not isinstance(message, str):
        raise TypeError(f"a message is text, not {type(message).__name__}; enqueue() takes any JSON value")
    try:
        size = len(message.encode())
    except UnicodeEncodeError as error:
        raise InvalidValue("the message is not valid Unicode text: it holds lone surrogates") from error
    if size > max_bytes:
        raise InvalidValue(f"Message exceeds maximum size of {max_bytes} bytes")
    return encode(message)


def _chosen(after: int | None, before: int | None, message_id: int | None) -> Chosen:
    if message_id is not None and (after is not None or before is not None):
        raise InvalidValue("message_id names one message and can't be combined with after or before")
    return {
        "after": None if after is None else whole(after, "after"),
        "before": None if before is None else whole(before, "before"),
        "message_id": None if message_id is None else whole(message_id, "message_id"),
    }
