"""What queues hand out: jobs to workers, messages to the shell."""

from __future__ import annotations

from types import TracebackType

from brant.arguments import decode, decode_or_text
from brant.errors import ClaimLost
from brant.storage.base import JobRow, MessageRow
from brant.transaction import Transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from brant.queue import Queue


class Job:
    """A claimed job: this worker's until `claim_expires_at`, unless it is settled or renewed before."""

    __slots__ = (
        "_decoded",
        "_settled_as",
        "_settled_in",
        "_text",
        "attempts",
        "claim_expires_at",
        "created_at",
        "expires_at",
        "id",
        "last_error",
        "max_attempts",
        "priority",
        "queue",
        "queue_name",
        "run_at",
        "state",
        "worker_id",
    )

    def __init__(self, queue: Queue, row: JobRow, last_error: str | None) -> None:
        self.queue = queue
        self.id = row.id
        self.queue_name = row.queue
        self._text = row.payload
        self._decoded: tuple[Any] | None = None
        self._settled_in: object | None = None
        self._settled_as: tuple[str, str | None] = ("success", None)  # by the names of a worker's events
        self.state = row.state
        self.priority = row.priority
        self.run_at = row.run_at
        self.worker_id = row.worker_id or ""
        self.claim_expires_at = row.claim_expires_at or 0
        self.attempts = row.attempts
        self.max_attempts = row.max_attempts
        self.created_at = row.created_at
        self.expires_at = row.expires_at
        self.last_error = last_error

    @property
    def payload(self) -> Any:
        """The payload, decoded on first use; ValueError if another program stored what is not JSON."""
        if self._decoded is None:
            self._decoded = (decode(self._text),)
        return self._decoded[0]

    @property
    def text(self) -> str:
        """The payload as the shell prints it: a text as it is, anything else as JSON."""
        return message_text(self._text)

    def ack(self, tx: object | None = None) -> bool:
        """Done: the job is gone. False when the claim is lost."""
        return self._settled(self.queue.ack(self.id, self.worker_id, attempt=self.attempts, tx=tx), tx, "success")

    def retry(self, delay_s: float = 60, error: str = "", tx: object | None = None) -> bool:
        """Again after `delay_s` seconds, or dead when no attempt is left. False when the claim is lost."""
        retried = self.queue.retry(self.id, self.worker_id, delay_s, error, attempt=self.attempts, tx=tx)
        return self._settled(retried, tx, "dead" if self.attempts >= self.max_attempts else "retry", error)

    def fail(self, error: str = "", tx: object | None = None) -> bool:
        """Never again: a dead letter with this reason. False when the claim is lost."""
        failed = self.queue.fail(self.id, self.worker_id, error, attempt=self.attempts, tx=tx)
        return self._settled(failed, tx, "dead", error)

    def _settled(self, done: bool, tx: object | None, kind: str, why: str | None = None) -> bool:
        if done:
            self._settled_in, self._settled_as = tx, (kind, why)
        return done

    def release(self, delay_s: float | None = None, tx: object | None = None) -> bool:
        """Give it back unused: due at once or after `delay_s`, and this attempt does not count.

        False when the claim is lost.
        """
        released = self.queue.release(self.id, self.worker_id, delay_s, attempt=self.attempts, tx=tx)
        return self._settled(released, tx, "release")

    def heartbeat(self, extend_s: float | None = None) -> bool:
        """Keep the job for that long from now (the queue's visibility timeout). False when the claim is lost."""
        lease_end = self.queue._extend(self.id, self.worker_id, extend_s, self.attempts)
        if lease_end is not None:
            self.claim_expires_at = lease_end
        return lease_end is not None

    def transaction(self, *, late: bool = False) -> Transaction:
        """A transaction that ends with the ack: the handler's writes and the ack commit together, or neither.

        A handler may settle the job itself, as with `job.retry(60, tx=tx)`: then its writes commit with that.
        ClaimLost, with everything rolled back, when the job is no longer this worker's at the end. With `late` it
        begins when it is first used, so that a handler which has not written yet keeps nobody from writing.
        """
        return _AckingTransaction(self, late=late)

    def __repr__(self) -> str:
        return f"Job(id={self.id}, queue={self.queue_name!r}, attempts={self.attempts}/{self.max_attempts})"


class _AckingTransaction(Transaction):
    def __init__(self, job: Job, *, late: bool) -> None:
        super().__init__(job.queue.db._storage, late=late)
        self._job = job

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost: BaseException | None = None
        if kind is None and self._job._settled_in is not self:
            try:
                if not self._job.ack(tx=self):
                    lost = ClaimLost(f"{self._job!r} is no longer claimed by {self._job.worker_id!r}: rolled back")
            except BaseException as failure:
                lost = failure
        if lost is None:
            super().__exit__(kind, error, trace)
        else:
            super().__exit__(type(lost), lost, lost.__traceback__)
            raise lost


class Message(str):
    """The text of a message, which also knows its `id` (microseconds since 1970) and its `queue`.

    For a payload that is not text, the text is its JSON; `payload` is the decoded value.
    """

    __slots__ = ("id", "payload", "queue")
    id: int
    queue: str
    payload: Any

    @classmethod
    def of(cls, row: MessageRow) -> Message:
        payload = message_payload(row.payload)
        message = cls(_text_of(payload))
        message.id = row.id
        message.queue = row.queue
        message.payload = payload
        return message


def message_payload(stored: str) -> Any:
    return decode_or_text(stored)


def message_text(stored: str) -> str:
    """The text that the shell prints for a stored payload."""
    return _text_of(message_payload(stored))


def _text_of(payload: object) -> str:
    if isinstance(payload, str):
        return payload
    import json

    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
