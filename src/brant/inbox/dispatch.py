"""Running handlers: business writes, the handled mark, the attempt and the ack commit together, or none of them."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from brant.arguments import seconds, storable
from brant.errors import BrantError, ClaimLost, DatabaseBusy, InvalidValue, TransactionError
from brant.inbox.endpoints import Handler, RetryPolicy
from brant.inbox.records import Event
from brant.inbox.retention import RetentionPolicy
from brant.inbox.sharing import Spoilt
from brant.inbox.tables import QUEUE, RETENTION_QUEUE, is_deadlock, row, rows, run, written
from brant.outcomes import Cancel, Dead, Outcome, Retry, Snooze, outcome_of
from brant.tasks import TaskSpec
from brant.worker import TaskContext, current_task

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.inbox import Inbox
    from brant.job import Job
    from brant.transaction import Transaction

_BUSY_PAUSE_S = 1.0
_NOT_HERE_PAUSE_S = 60.0
_LONGEST_ERROR = 2000
ALERTS = "brant.inbox.dead"  # the channel that hears of each event that a handler could not handle
_AT_REST = ("handled", "ignored")

# The inboxes of this process. Weak on both sides: an Inbox holds its Database.
_inboxes: weakref.WeakKeyDictionary[Database, weakref.ref[Inbox]] = weakref.WeakKeyDictionary()


def enter(inbox: Inbox) -> None:
    """Have the jobs of its database go to this inbox."""
    _inboxes[inbox.db] = weakref.ref(inbox)


def inbox_of(context: TaskContext) -> Inbox:
    found = _inboxes.get(context.job.queue.db)
    inbox = None if found is None else found()
    if inbox is None:
        # A worker that works on the queue for other reasons: the job waits for one that has the inbox.
        raise Snooze(_NOT_HERE_PAUSE_S)
    return inbox


def dispatch(payload: object) -> None:
    """The function of the inbox's queue."""
    context = current_task()
    Dispatch(inbox_of(context), context, payload).run()


def take_care(payload: object) -> None:
    """The function of the queue that the schedules of the inbox write to."""
    context = current_task()
    inbox = inbox_of(context)
    match payload:
        case {"kind": "recovery"}:
            inbox.recover()
        case {"kind": "retention", "policies": [*policies]}:
            inbox.retain(*(RetentionPolicy(**policy) for policy in policies), stop=lambda: context.cancelled)
        case _:
            raise InvalidValue("the job asks for no care that the inbox knows")


def tasks() -> list[TaskSpec]:
    return [
        TaskSpec(name="brant.inbox.dispatch", fn=dispatch, queue_name=QUEUE, store_result=False),
        TaskSpec(name="brant.inbox.care", fn=take_care, queue_name=RETENTION_QUEUE, store_result=False),
    ]


class _NoHandler(Exception):
    """Nothing is registered for the event."""


class _AtRest(Exception):
    """The event has come to rest while its handler ran: another job of it was faster."""


class Dispatch:
    """One attempt at one event.

    A quick handler shares its transaction with others. Any other has one of its own, which begins when the handler
    first uses it: until then nobody waits for it.
    """

    def __init__(self, inbox: Inbox, context: TaskContext, payload: object) -> None:
        self._inbox = inbox
        self._context = context
        self._job: Job = context.job
        self._payload: dict[str, Any] = payload if isinstance(payload, dict) else {}
        self._event_id = self._payload.get("event_id")
        self._policy = RetryPolicy()
        self._most_attempts = self._job.max_attempts
        self._about: dict[str, object] = {}

    def run(self) -> None:
        if type(self._event_id) is not int:
            raise Dead("the job names no event of the inbox")
        found = row(self._inbox.db, "event_to_run", self._event_id)
        if found is None or found["status"] in _AT_REST:
            self._ack()  # pruned, ignored, or a job that was left over: that is all there is to do
            return
        event = self._event(found)
        self._about = {"event_id": event.id, "endpoint": event.endpoint, "event_type": event.event_type}
        try:
            self._handle(event, self._handler_of(event))
        except ClaimLost:
            raise  # rolled back: the event is whoever's the job now is
        except _AtRest:
            self._ack()
        except BaseException as error:
            self._book(error)

    def _ack(self) -> None:
        with self._context.transaction():
            pass

    def _handler_of(self, event: Event) -> Handler | None:
        endpoint = self._inbox.endpoints.get(event.endpoint)
        if endpoint is None:
            return None
        self._policy = endpoint.policy_for(event.event_type)
        # A job that was made where the endpoint is not registered, as by a shell, knows nothing of its policy.
        self._most_attempts = min(self._job.max_attempts, self._policy.max_attempts)
        return endpoint.handler_for(event.event_type)

    def _handle(self, event: Event, handler: Handler | None) -> None:
        if handler is None:
            raise _NoHandler(f"no handler for {event.event_type!r} of the endpoint {event.endpoint!r}")
        paces = self._inbox.paces
        # Handlers keep each other from writing in a file only: on a server they go side by side.
        if self._inbox.db.schema is None and paces.is_quick(handler):
            try:
                self._handle_shared(event, handler)
                return
            except Spoilt:
                pass
            except TransactionError:
                # It opens one of its own, which it can't inside that of others.
                paces.is_unfit(handler)
        self._handle_alone(event, handler)

    def _handle_shared(self, event: Event, handler: Handler) -> None:
        def attempt(tx: Transaction) -> None:
            self._attempt(tx, event, handler)
            if not self._job.ack(tx=tx):
                raise ClaimLost(f"{self._job!r} is no longer claimed by {self._job.worker_id!r}: rolled back")

        with self._context.settling():
            self._inbox.sharing.run(attempt)

    def _handle_alone(self, event: Event, handler: Handler) -> None:
        begun = False
        try:
            with self._context.transaction(late=True) as tx:
                try:
                    self._attempt(tx, event, handler)
                finally:
                    begun = tx.has_begun
        except DatabaseBusy as error:
            # Not the handler's fault: it was not reached, or it was undone so that another one could go on.
            if not begun or is_deadlock(error):
                raise Snooze(_BUSY_PAUSE_S) from error
            raise

    def _attempt(self, tx: Transaction, event: Event, handler: Handler) -> None:
        begun = self._inbox.db.clock.monotonic()
        answer = handler(event, tx)
        if inspect.isawaitable(answer):
            self._inbox.paces.is_unfit(handler)
            if tx.schema is not None:
                # Begun inside the loop, it would be the transaction of what runs there, and of nobody after it.
                rows(tx, "is_prepared")
            # In a loop of its own, in this thread: the transaction is this thread's.
            answer = asyncio.run(_awaited(answer))
        self._inbox.paces.took(handler, self._inbox.db.clock.monotonic() - begun)
        if isinstance(answer, Outcome):
            raise answer
        if row(tx, "mark_open_handled", event.id, self._job.attempts, self._now()) is None:
            raise _AtRest
        run(tx, "insert_attempt", event.id, self._now(), "handled", None, self._duration_ms())
        self._inbox.jobs.finish(tx, event.id)

    def _event(self, found: dict[str, Any]) -> Event:
        delivery_id = self._payload.get("delivery_id")
        delivery = None if delivery_id is None else row(self._inbox.db, "get_delivery", delivery_id, True)
        if delivery is None:
            return Event.of(found)
        # The content is the delivery's, the identity and the life are the event's.
        kept = {name: found[name] for name in ("id", "status", "attempt_count", "handled_at", "last_error")}
        return Event.of({**delivery, **kept}, replayed_delivery=delivery_id)

    # After the rollback

    def _book(self, error: BaseException) -> None:
        text = _text_of(error)
        outcome = Dead(text) if isinstance(error, _NoHandler) else outcome_of(error) or Retry(None, text)
        with self._context.transaction() as tx:
            found = row(tx, "event_to_change", self._event_id)
            if found is None or found["status"] in _AT_REST:
                return
            # Where the claim is lost, the end of the block raises ClaimLost, and nothing is booked.
            self._settle(tx, outcome, text)

    def _settle(self, tx: Transaction, outcome: Outcome, text: str) -> None:
        match outcome:
            case Snooze(for_s=pause):
                self._settled_as("snooze", None)
                self._job.release(self._checked(pause), tx=tx)
            case Cancel(reason=reason):
                self._mark(tx, "ignored", reason or "cancelled by the handler")
                self._settled_as("cancel", reason)
                self._job.ack(tx=tx)
            case Dead(reason=reason):
                self._mark(tx, "dead", reason)
                self._settled_as("dead", reason)
                self._job.fail(storable(reason), tx=tx)
            case Retry(after_s=after, reason=reason):
                is_last = self._job.attempts >= self._most_attempts
                self._mark(tx, "dead" if is_last else "failed", reason or text)
                self._settled_as("dead" if is_last else "retry", reason or text)
                if is_last:
                    self._job.fail(storable(reason or text), tx=tx)
                else:
                    self._job.retry(self._checked(after), storable(reason or text), tx=tx)
            case _:
                raise TypeError(f"unknown outcome {outcome!r}")

    def _checked(self, delay: object) -> float:
        if delay is not None:
            try:
                return seconds(delay, "the delay", minimum=0)
            except InvalidValue:
                pass  # the handler asked for what is no time: its endpoint's own is right
        return self._policy.delay_after(self._job.attempts)

    def _mark(self, tx: Transaction, status: str, reason: str) -> None:
        error = storable(reason)[:_LONGEST_ERROR]
        run(tx, "mark", self._event_id, status, self._job.attempts, error)
        run(tx, "insert_attempt", self._event_id, self._now(), status, error, self._duration_ms())
        if status == "dead":
            tx.notify(ALERTS, {**self._about, "error": error})
        if status != "failed":
            self._inbox.jobs.finish(tx, int(str(self._event_id)))

    def _settled_as(self, kind: str, reason: str | None) -> None:
        self._context.settled_as, self._context.settled_because = kind, reason

    def _now(self) -> int:
        return int(self._inbox.db.clock.now())

    def _duration_ms(self) -> int:
        return round((self._inbox.db.clock.monotonic() - self._context.started) * 1000)


def recover(inbox: Inbox, most: int) -> int:
    """Give open events that nobody would ever run a job again; tells how many."""
    mended = 0
    for status in ("received", "failed", "processing"):
        after = 0
        while page := rows(inbox.db, "events_without_job", status, after, most):
            after = page[-1]["id"]
            mended += written(inbox.db, partial(_mend_all, inbox, [found["id"] for found in page]))
    return mended


def _mend_all(inbox: Inbox, event_ids: list[int], tx: Transaction) -> int:
    inbox.jobs.hold_orders(tx, event_ids)
    return sum(_mend(inbox, tx, event_id) for event_id in event_ids)


def _mend(inbox: Inbox, tx: Transaction, event_id: int) -> bool:
    # Looked at again: between the reading and this transaction, it may have got one, or be done.
    event = row(tx, "event_to_change", event_id)
    if event is None or event["status"] in (*_AT_REST, "dead") or inbox.jobs.has_job(tx, event_id):
        return False
    return inbox.jobs.mend(tx, event["endpoint_id"], event_id)


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, (Outcome, BrantError, _NoHandler)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
