"""What an operator can do to events: ignore, replay, requeue, one or many, each with a record of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from brant.arguments import whole
from brant.errors import InvalidValue
from brant.inbox.jobs import Jobs
from brant.inbox.reading import Reading, number, one_of
from brant.inbox.records import BulkResult
from brant.inbox.tables import row, rows, run, written

if TYPE_CHECKING:
    from brant.transaction import Transaction

_REPLAYABLE = ("handled", "failed", "dead", "ignored")
_REQUEUEABLE = ("failed", "dead", "ignored")
_IGNORABLE = ("received", "failed", "dead")
_PAGE = 500
_BY_OPERATOR = "ignored by an operator"
Act = Callable[["Transaction", dict[str, Any]], None]


class Operations(Reading):
    """The acts of an Inbox. KeyError for what does not exist, ValueError for what its status forbids."""

    jobs: Jobs

    def ignore(self, event_id: int) -> None:
        """Let the event not be run; ignoring it twice is harmless."""
        self._act("ignore", event_id, self._ignore)

    def replay(self, event_id: int) -> None:
        """Run the event again, whatever became of it."""
        self._act("replay", event_id, self._replay)

    def requeue(self, event_id: int) -> None:
        """Run an event that was not handled: failed, dead or ignored, or left without a job."""
        self._act("requeue", event_id, self._requeue)

    def replay_delivery(self, delivery_id: int) -> None:
        """Run the delivery's event again with the content of that delivery; what is stored of the event stays."""
        whole(delivery_id, "delivery_id")
        written(self.db, partial(self._replay_delivery, delivery_id))

    def _replay_delivery(self, delivery_id: int, tx: Transaction) -> None:
        delivery = row(tx, "get_delivery", delivery_id, False)
        if delivery is None:
            raise KeyError(f"there is no delivery {delivery_id}")
        if delivery["event_id"] is None:
            raise InvalidValue(f"the delivery {delivery_id} has no event: it was never accepted")
        if rows(tx, "events_of_delivery", delivery_id):
            raise InvalidValue(f"the delivery {delivery_id} brought several events: replay those instead")
        event = self._event_in(tx, delivery["event_id"])
        self._check_replayable(tx, event)
        self._reset(tx, event, delivery_id)
        self._audit(tx, "replay_delivery", 1, {"event_id": event["id"], "delivery_id": delivery_id})

    def ignore_all(self, *, status: str, dry_run: bool = False, **filters: Any) -> BulkResult:
        """As `replay_all`: ignore events of one status."""
        one_of(status, _IGNORABLE, "status")
        return self._bulk("ignore", self._ignore, dry_run, status=status, **filters)

    def replay_all(self, *, status: str, dry_run: bool = False, **filters: Any) -> BulkResult:
        """Replay all events of one status that match: `endpoint`, `event_type`, `since`, `until`, at most `limit`.

        With `dry_run` they are counted and left alone. Page by page, each in one commit; one audit row for all.
        """
        one_of(status, _REPLAYABLE, "status")
        return self._bulk("replay", self._replay, dry_run, status=status, **filters)

    def requeue_all(self, *, status: str = "dead", dry_run: bool = False, **filters: Any) -> BulkResult:
        """As `replay_all`, for events that were not handled."""
        one_of(status, _REQUEUEABLE, "status")
        return self._bulk("requeue", self._requeue, dry_run, status=status, **filters)

    # One

    def _act(self, action: str, event_id: int, act: Act) -> None:
        whole(event_id, "event_id")

        def acting(tx: Transaction) -> None:
            event = self._event_in(tx, event_id)
            act(tx, event)
            self._audit(tx, action, 1, {"event_id": event_id, "from": event["status"]})

        written(self.db, acting)

    def _event_in(self, tx: Transaction, event_id: int) -> dict[str, Any]:
        event = row(tx, "event_to_change", event_id)
        if event is None:
            raise KeyError(f"there is no event {event_id}")
        return event

    def _ignore(self, tx: Transaction, event: dict[str, Any]) -> None:
        if event["status"] == "ignored":
            return
        _check_status(event, _IGNORABLE, "ignored")
        run(tx, "mark", event["id"], "ignored", 0, event["last_error"])
        run(tx, "insert_attempt", event["id"], self._second(), "ignored", _BY_OPERATOR, 0)
        self.jobs.drop(tx, event["id"])
        self.jobs.finish(tx, event["id"])

    def _replay(self, tx: Transaction, event: dict[str, Any]) -> None:
        self._check_replayable(tx, event)
        self._reset(tx, event, None)

    def _requeue(self, tx: Transaction, event: dict[str, Any]) -> None:
        if not self._is_stuck(tx, event):
            _check_status(event, _REQUEUEABLE, "requeued")
        self._check_content(tx, event)
        self._reset(tx, event, None)

    def _check_replayable(self, tx: Transaction, event: dict[str, Any]) -> None:
        if not self._is_stuck(tx, event):
            _check_status(event, _REPLAYABLE, "replayed")
        self._check_content(tx, event)

    def _is_stuck(self, tx: Transaction, event: dict[str, Any]) -> bool:
        """Open, but without a job, and not behind another of its key: nobody would ever run it."""
        if event["status"] not in ("received", "processing"):
            return False
        return not self.jobs.has_job(tx, event["id"]) and not self.jobs.is_held_up(tx, event["id"])

    def _check_content(self, tx: Transaction, event: dict[str, Any]) -> None:
        if row(tx, "is_erased", event["id"]) is not None:
            raise InvalidValue(f"the content of the event {event['id']} was erased by retention: it can't run again")

    def _reset(self, tx: Transaction, event: dict[str, Any], delivery_id: int | None) -> None:
        run(tx, "reset_event", event["id"])
        self.jobs.restart(tx, event["endpoint_id"], event["id"], delivery_id)

    # Many

    def _bulk(
        self,
        action: str,
        act: Act,
        dry_run: bool,
        *,
        status: str,
        endpoint: str | None = None,
        event_type: str | None = None,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
    ) -> BulkResult:
        most = None if limit is None else whole(limit, "limit", minimum=1)
        wanted = {
            "status": status,
            "endpoint": endpoint,
            "event_type": event_type,
            "since": number(since, "since"),
            "until": number(until, "until"),
        }
        if dry_run:
            return BulkResult(action, sum(map(len, self._pages(wanted, most))), True, None)
        with self.db.transaction() as tx:
            audit_id = self._audit(tx, action, 0, {**wanted, "limit": most})
        done = 0
        for page in self._pages(wanted, most):
            done += written(self.db, partial(self._act_on_page, page, act, status, audit_id))
        return BulkResult(action, done, False, audit_id)

    def _act_on_page(self, page: list[int], act: Act, status: str, audit_id: int, tx: Transaction) -> int:
        self.jobs.hold_orders(tx, page)
        acted = sum(self._acted(tx, act, event_id, status) for event_id in page)
        run(tx, "add_to_audit", audit_id, acted)
        return acted

    def _pages(self, wanted: dict[str, Any], most: int | None) -> Iterator[list[int]]:
        """The ids, oldest first, by a cursor: none comes twice, even if it fails again at once."""
        name = "event_ids_of_status" if wanted["endpoint"] is None else "event_ids_of_both"
        after, left = 0, most
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            values = (wanted["event_type"], wanted["since"], wanted["until"], size, wanted["endpoint"])
            page = [each["id"] for each in rows(self.db, name, after, *values, wanted["status"])]
            if not page:
                return
            yield page
            after, left = page[-1], None if left is None else left - len(page)

    def _acted(self, tx: Transaction, act: Act, event_id: int, status: str) -> bool:
        event = row(tx, "event_to_change", event_id)
        # Between the look and this, a worker or another operator may have moved it; or retention erased it.
        if event is None or event["status"] != status:
            return False
        try:
            act(tx, event)
        except InvalidValue:
            return False
        return True

    def _audit(self, tx: Transaction, action: str, events: int, summary: dict[str, Any]) -> int:
        return int(rows(tx, "insert_audit", self._second(), action, events, json.dumps(summary))[0]["id"])

    def _second(self) -> int:
        return int(self.db.clock.now())


def _check_status(event: dict[str, Any], allowed: tuple[str, ...], participle: str) -> None:
    if event["status"] not in allowed:
        raise InvalidValue(
            f"the event {event['id']} is {event['status']}, and only {', '.join(allowed)} can be {participle}"
        )
