"""Running handlers: business writes, the handled mark, the attempt and the ack commit together, or none of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from brant.arguments import seconds, storable
from brant.errors import BrantError, ClaimLost, DatabaseBusy, InvalidValue, TransactionError
from brant.inbox.endpoints import Handler, RetryPolicy
from brant.inbox.inboxes import any_inbox, inbox_for
from brant.inbox.records import Event
from brant.inbox.retention import RetentionPolicy
from brant.inbox.tables import QUEUE, RETENTION_QUEUE, is_deadlock, row, rows, run
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
_LONGEST_NOT_HERE_S = 86_400
_LONGEST_ERROR = 2000
_DEFAULT_POLICY = RetryPolicy()
ALERTS = "brant.inbox.dead"  # the channel that hears of each event that a handler could not handle
_AT_REST = ("handled", "ignored")


def dispatch(payload: object) -> None:
    """The function of the inbox's queue."""
    context = current_task()
    match payload:
        case {"event_id": int(event_id), **others} if not isinstance(event_id, bool):
            inbox = _required(inbox_for(context.job.queue.db, event_id))
            Dispatch(inbox, context, event_id, others.get("delivery_id")).run()
        case _:
            raise Dead("the job names no event of the inbox")


def take_care(payload: object) -> None:
    """The function of the queue that the schedules of the inbox write to."""
    context = current_task()
    inbox = _required(any_inbox(context.job.queue.db))
    match payload:
        case {"kind": "recovery"}:
            inbox.recover()
        case {"kind": "retention", "policies": [*policies]}:
            inbox.retain(*(RetentionPolicy(**policy) for policy in policies), stop=lambda: context.cancelled)
        case _:
            raise InvalidValue("the job asks for no care that the inbox knows")


def _required(inbox: Inbox | None) -> Inbox:
    if inbox is None:
        # A worker that works on the queue for other reasons: the job waits for one that has the inbox.
        raise Snooze(_NOT_HERE_PAUSE_S)
    return inbox


def tasks() -> list[TaskSpec]:
    return [
        TaskSpec(name="brant.inbox.dispatch", fn=dispatch, queue_name=QUEUE, store_result=False),
        TaskSpec(name="brant.inbox.care", fn=take_care, queue_name=RETENTION_QUEUE, store_result=False),
    ]


class _NoHandler(Exception):
    """Nothing is registered for the event."""


class _NotHere(Exception):
    """The endpoint is registered in another process, if in any."""


class _AtRest(Exception):
    """The event has come to rest while its handler ran: another job of it was faster."""


class _Apart(Exception):
    """The handler is none that may share a transaction."""


class Dispatch:
    """One attempt at one event.

    A quick handler runs in the transaction that the worker acks jobs in, and shares it with others. Any other has one
    of its own, which begins when the handler first uses it: until then nobody waits for it.
    """

    def __init__(self, inbox: Inbox, context: TaskContext, event_id: int, delivery_id: object) -> None:
        self._inbox = inbox
        self._context = context
        self._job: Job = context.job
        self._event_id = event_id
        self._delivery_id = delivery_id
        self._policy = _DEFAULT_POLICY
        self._about: dict[str, object] = {}
        self._handler: Handler | None = None

    def run(self) -> None:
        inbox = self._inbox
        # Handlers keep each other from writing in a file only: on a server they go side by side.
        if inbox.db.schema is None and inbox.paces.are_quick and self._event_id not in inbox.paces.apart:
            self._context.at_ack(self._run_shared, self._after_shared)
            return
        inbox.paces.apart.discard(self._event_id)
        event = self._found_in(inbox.db)
        if event is None:
            self._ack()
            return
        handler = self._handler_of(event)
        if inbox.db.schema is None and inbox.paces.is_quick(handler):
            self._context.at_ack(partial(self._attempt, event=event, handler=handler), self._after_shared)
        else:
            self._run_alone(event, handler)

    def _found_in(self, where: Database | Transaction) -> Event | None:
        """None when it was pruned or ignored, or is a job that was left over: then there is nothing to do."""
        found = row(where, "event_to_run", self._event_id)
        if found is None or found["status"] in _AT_REST:
            return None
        event = self._event(where, found)
        self._about = {"event_id": event.id, "endpoint": event.endpoint, "event_type": event.event_type}
        return event

    # In the transaction of the ack

    def _run_shared(self, tx: Transaction) -> None:
        event = self._found_in(tx)
        if event is None:
            self._inbox.jobs.leave(tx, self._event_id)
            return
        handler = self._handler_of(event)
        if handler is not None and not self._inbox.paces.is_quick(handler):
            raise _Apart
        self._attempt(tx, event, handler)

    def _after_shared(self, tx: Transaction, error: BaseException) -> None:
        match error:
            case _Apart():
                self._inbox.paces.apart.add(self._event_id)
                self._give_back(tx)
            case TransactionError() if self._handler is not None:
                # It opens one of its own, or ends this one, neither of which it can inside that of others.
                self._inbox.paces.is_unfit(self._handler)
                self._give_back(tx)
            case _AtRest():
                self._ack_at_rest(tx)
            case _:
                self._book_in(tx, error)

    def _ack_at_rest(self, tx: Transaction) -> None:
        # Another program that brought it to rest knows nothing of ordering keys: the event would hold its own for ever.
        self._inbox.jobs.leave(tx, self._event_id)
        self._job.ack(tx=tx)

    def _give_back(self, tx: Transaction) -> None:
        self._settled_as("release", "to be run in a transaction of its own")
        self._job.release(tx=tx)

    # In one of its own

    def _run_alone(self, event: Event, handler: Handler | None) -> None:
        try:
            self._handle_alone(event, handler)
        except ClaimLost:
            raise  # rolled back: the event is whoever's the job now is
        except _AtRest:
            self._ack()
        except BaseException as error:
            with self._context.transaction() as tx:
                self._book_in(tx, error)

    def _ack(self) -> None:
        with self._context.transaction() as tx:
            self._inbox.jobs.leave(tx, self._event_id)

    def _handler_of(self, event: Event) -> Handler | None:
        endpoint = self._inbox.endpoints.get(event.endpoint)
        if endpoint is None:
            return None
        self._policy = endpoint.policy_for(event.event_type)
        self._handler = endpoint.handler_for(event.event_type)
        return self._handler

    def _handle_alone(self, event: Event, handler: Handler | None) -> None:
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

    def _attempt(self, tx: Transaction, event: Event, handler: Handler | None) -> None:
        if event.endpoint not in self._inbox.endpoints:
            raise _NotHere(f"no worker of the last day has the endpoint {event.endpoint!r}")
        if handler is None:
            raise _NoHandler(f"no handler for {event.event_type!r} of the endpoint {event.endpoint!r}")
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
        if row(tx, "mark_open_handled", event.id, self._now()) is None:
            raise _AtRest
        run(tx, "insert_attempt", event.id, self._now(), "handled", None, self._duration_ms())
        self._inbox.jobs.finish(tx, event.id)

    def _event(self, where: Database | Transaction, found: dict[str, Any]) -> Event:
        delivery = None if self._delivery_id is None else row(where, "get_delivery", self._delivery_id, True)
        if delivery is None:
            return Event.of(found)
        # The content is the delivery's, the identity and the life are the event's.
        kept = {name: found[name] for name in ("id", "status", "attempt_count", "handled_at", "last_error")}
        return Event.of({**delivery, **kept}, replayed_delivery=delivery["id"])

    # After the rollback

    def _book_in(self, tx: Transaction, error: BaseException) -> None:
        """Where the claim is lost, nothing is booked: the end of the transaction says so."""
        text = _text_of(error)
        outcome = self._missing(tx, error) or outcome_of(error) or Retry(None, text)
        found = row(tx, "event_to_change", self._event_id)
        if found is None or found["status"] in _AT_REST:
            self._ack_at_rest(tx)
        else:
            self._settle(tx, outcome, text, found["attempt_count"] + 1)

    def _missing(self, tx: Transaction, error: BaseException) -> Outcome | None:
        """For what nobody here can handle. An endpoint that this process does not have may be another one's."""
        match error:
            case _NoHandler():
                return Dead(str(error))
            case _NotHere():
                missed_s = self._inbox.db.clock.now() - self._last_sign(tx)
                is_given_up = missed_s > _LONGEST_NOT_HERE_S
                return Dead(str(error)) if is_given_up else Snooze(max(1, min(missed_s // 10, _NOT_HERE_PAUSE_S)))
        return None

    def _last_sign(self, tx: Transaction) -> float:
        """Until when some worker may have had the endpoint: another one has tried the event, or none was up."""
        tried_at = rows(tx, "last_attempt_at", self._event_id)[0]["attempted_at"] or 0
        return max(self._job.created_at, tried_at, self._inbox.made_at)

    def _settle(self, tx: Transaction, outcome: Outcome, text: str, attempts: int) -> None:
        match outcome:
            case Snooze(for_s=pause):
                self._settled_as("snooze", None)
                self._job.release(self._checked(pause, attempts), tx=tx)
            case Cancel(reason=reason):
                self._mark(tx, "ignored", reason or "cancelled by the handler")
                self._settled_as("cancel", reason)
                self._job.ack(tx=tx)
            case Dead(reason=reason):
                self._mark(tx, "dead", reason)
                self._settled_as("dead", reason)
                self._job.fail(storable(reason), tx=tx)
            case Retry(after_s=after, reason=reason):
                # By its own count too: a job that was made where the endpoint is not registered, as by a shell, knows
                # nothing of its policy.
                is_last = self._job.attempts >= self._job.max_attempts or attempts >= self._policy.max_attempts
                self._mark(tx, "dead" if is_last else "failed", reason or text)
                self._settled_as("dead" if is_last else "retry", reason or text)
                if is_last:
                    self._job.fail(storable(reason or text), tx=tx)
                else:
                    self._job.retry(self._checked(after, attempts), storable(reason or text), tx=tx)
            case _:
                raise TypeError(f"unknown outcome {outcome!r}")

    def _checked(self, delay: object, attempts: int) -> float:
        if delay is not None:
            try:
                return seconds(delay, "the delay", minimum=0)
            except InvalidValue:
                pass  # the handler asked for what is no time: its endpoint's own is right
        return self._policy.delay_after(attempts)

    def _mark(self, tx: Transaction, status: str, reason: str) -> None:
        error = storable(reason)[:_LONGEST_ERROR]
        run(tx, "mark", self._event_id, status, 1, error)
        run(tx, "insert_attempt", self._event_id, self._now(), status, error, self._duration_ms())
        if status == "dead":
            tx.notify(ALERTS, {**self._about, "error": error})
        if status != "failed":
            self._inbox.jobs.finish(tx, self._event_id)

    def _settled_as(self, kind: str, reason: str | None) -> None:
        self._context.settled_as, self._context.settled_because = kind, reason

    def _now(self) -> int:
        return int(self._inbox.db.clock.now())

    def _duration_ms(self) -> int:
        return round((self._inbox.db.clock.monotonic() - self._context.started) * 1000)


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, (Outcome, BrantError, _NoHandler, _NotHere)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
