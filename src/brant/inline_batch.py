"""A batch inside `run_inline()`: its tasks run where they are added, and are counted in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from brant import tasks
from brant.arguments import decode
from brant.batch import Batch, BatchCounts, BatchStatus
from brant.errors import InvalidValue
from brant.outcomes import Dead, Retry, Snooze

if TYPE_CHECKING:
    from brant.batch import Then
    from brant.storage.session import Session


class InlineBatch(Batch):
    """Stores nothing and opens no transaction: the tasks that run in it have theirs. `then` follows at the seal."""

    def __init__(self, batch: Batch, then: Then | None) -> None:
        super().__init__(batch.db, batch.id, batch._definition, batch._tx)
        self._then = then
        self._ended: Counter[str] = Counter()
        self._sealed = False
        self._created_at = self.db._storage.clock.now()
        self._then_job_id: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.seal()

    def count(self, outcome: object) -> None:
        """A task has run; one that wants to run again later stays pending."""
        match outcome:
            case Dead() | Retry():
                self._ended["dead"] += 1
            case Snooze():
                self._ended["pending"] += 1
            case _:
                self._ended["succeeded"] += 1

    def add(self, session: Session, job_ids: Sequence[int]) -> None:  # noqa: ARG002, refused as they are
        raise InvalidValue("inside run_inline() a batch takes tasks only: nobody would run a job that is in a queue")

    def require_open(self) -> None:
        if self.is_settled:
            raise InvalidValue(f"batch {self.id} is settled: nothing can be added to it; make another one")

    def seal(self, *, tx: object | None = None) -> None:
        if self._sealed:
            return
        self._sealed = True
        if not self.is_settled or self._then is None:
            return
        counts = self.counts()._asdict()
        del counts["pending"]
        summary: dict[str, Any] = {"id": self.id, "note": self.note, **counts}
        if isinstance(self._then, tasks.Task):
            assert tasks.run_instead is not None  # noqa: S101
            self._then_job_id = tasks.run_instead(self._then, (), {"batch": summary}, None).id
        else:
            queue, payload = self._then
            found = self.db.queue(queue) if isinstance(queue, str) else queue
            where = self._tx if tx is None else tx
            self._then_job_id = found.enqueue({**(payload or {}), "batch": summary}, tx=where)

    def status(self) -> BatchStatus:
        ended = self._ended
        counts = BatchCounts(ended.total(), ended["succeeded"], ended["dead"], ended["cancelled"], ended["pending"])
        settled = self._sealed and not counts.pending
        assert self._definition is not None  # noqa: S101
        return BatchStatus(
            id=self.id,
            note=decode(self._definition["note"]),
            counts=counts,
            is_sealed=self._sealed,
            is_settled=settled,
            created_at=self._created_at,
            settled_at=self.db._storage.clock.now() if settled else None,
            then_job_id=self._then_job_id,
        )


def inline_members(batch: object) -> InlineBatch:
    """What was passed as batch= of a task that runs inline."""
    if not isinstance(batch, InlineBatch):
        raise InvalidValue(
            "a task that runs inline can't join a batch that was made outside run_inline(); make it inside"
        )
    batch.require_open()
    return batch
