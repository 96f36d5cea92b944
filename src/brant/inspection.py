"""What queues tell about themselves: numbers, dead letters, errors. Imported when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brant.job import message_payload, message_text
from brant.storage.base import DeadRow
from brant.storage.messages import QueueCounts


@dataclass(frozen=True)
class DeadJob:
    """A dead letter: a job that will not run again unless it is requeued."""

    id: int
    queue: str
    payload_text: str
    priority: int
    run_at: float
    attempts: int
    max_attempts: int
    last_error: str | None
    created_at: float
    died_at: float

    @classmethod
    def of(cls, row: DeadRow) -> DeadJob:
        return cls(*row)

    @property
    def payload(self) -> Any:
        return message_payload(self.payload_text)

    @property
    def text(self) -> str:
        """The payload as the shell prints it: a text as it is, anything else as JSON."""
        return message_text(self.payload_text)


@dataclass(frozen=True)
class AttemptError:
    """Why one attempt of a job failed."""

    attempt: int
    worker_id: str | None
    error: str
    failed_at: float


@dataclass(frozen=True)
class QueueStats:
    """The numbers of one queue. `delayed` jobs are among the `pending` ones."""

    queue: str
    pending: int
    delayed: int
    processing: int
    dead: int
    oldest_age: float | None
    next_run_at: float | None
    paused: bool

    @classmethod
    def of(cls, queue: str, counts: QueueCounts, now: float) -> QueueStats:
        oldest = counts.oldest_due_at
        return cls(
            queue=queue,
            pending=counts.pending,
            delayed=counts.delayed,
            processing=counts.processing,
            dead=counts.dead,
            oldest_age=None if oldest is None else max(0.0, now - oldest),
            next_run_at=counts.next_run_at,
            paused=bool(counts.paused),
        )

    @property
    def claimed(self) -> int:
        return self.processing

    @property
    def total(self) -> int:
        return self.pending + self.processing

    @property
    def exists(self) -> bool:
        return self.total > 0
