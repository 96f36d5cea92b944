"""Retention: what is old is deleted, or loses its content; the keys stay, so that late redeliveries are known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from brant.arguments import seconds, whole
from brant.cron import every_s
from brant.errors import InvalidValue
from brant.inbox.jobs import Jobs
from brant.inbox.reading import number, one_of, page_size
from brant.inbox.tables import QUEUE, RETENTION_QUEUE, hold, refusals_of, row, rows, run, run_for_each, written

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

DAY_S = 86_400
PRUNABLE = ("handled", "ignored", "dead", "failed")
_PAGE = 500
_GOES_WITH_AN_EVENT = ("delete_batch_items", "delete_order", "delete_erased", "delete_event")


@dataclass(frozen=True)
class RetentionPolicy:
    """How long things are kept, in seconds; what is not named is kept for ever. Of one endpoint, or of all.

    `keep_s` and `content_s` are by status, counted from when the event came to rest: after `content_s` only body,
    headers and query are erased. `keys_s` is for the identities of deleted events.
    """

    endpoint: str | None = None
    keep_s: Mapping[str, float] = field(default_factory=dict)
    content_s: Mapping[str, float] = field(default_factory=dict)
    orphans_s: float | None = None
    keys_s: float | None = None
    rejects_s: float | None = 30 * DAY_S

    def __post_init__(self) -> None:
        for status, age in [*self.keep_s.items(), *self.content_s.items()]:
            one_of(status, PRUNABLE, "the status of a policy")
            seconds(age, f"the age of {status} events", minimum=0)
        for name in ("orphans_s", "keys_s", "rejects_s"):
            if getattr(self, name) is not None:
                seconds(getattr(self, name), name, minimum=0)
        if "failed" in self.content_s:
            raise InvalidValue("failed events still have attempts to come: their content can't be erased")

    def as_payload(self) -> dict[str, Any]:
        """For the job of a scheduled pass."""
        return {**vars(self), "keep_s": dict(self.keep_s), "content_s": dict(self.content_s)}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or lost its content."""

    events_pruned: int = 0
    deliveries_pruned: int = 0
    attempts_pruned: int = 0
    live_jobs_pruned: int = 0
    contents_erased: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(*(getattr(self, name) + getattr(other, name) for name in Pruned.__slots__))


class Retention:
    """The retention of an Inbox."""

    db: Database
    jobs: Jobs

    def prune_events(
        self, *, statuses: tuple[str, ...] | list[str], older_than: int, limit: int = _PAGE, endpoint: str | None = None
    ) -> Pruned:
        """Delete up to `limit` events that came to rest before that Unix time, with their deliveries and attempts."""
        for status in _several(statuses):
            one_of(status, PRUNABLE, "status")
        cut_off, most = _time(older_than), page_size(limit)
        summary = {"statuses": list(statuses), "older_than": older_than, "limit": limit, "endpoint": endpoint}

        def prune(tx: Transaction) -> Pruned:
            left, total = most, Pruned()
            hold(tx, "retention")
            for endpoint_id in self._endpoint_ids(endpoint):
                for status in statuses:
                    found = rows(tx, "prunable_events", endpoint_id, status, cut_off, left) if left else []
                    for event in found:
                        total += self._delete(tx, event["id"])
                    left -= len(found)
            self._note(tx, "events", total, summary)
            return total

        return written(self.db, prune)

    def prune_orphan_deliveries(self, *, older_than: int, limit: int = _PAGE, endpoint: str | None = None) -> Pruned:
        """Delete up to `limit` deliveries without an event that came before that Unix time."""
        cut_off, most = _time(older_than), page_size(limit)
        summary = {"older_than": older_than, "limit": limit, "endpoint": endpoint}

        def prune(tx: Transaction) -> Pruned:
            left, total, endpoint_ids = most, Pruned(), self._endpoint_ids(endpoint)
            hold(tx, *map(refusals_of, endpoint_ids))
            for endpoint_id in endpoint_ids:
                found = rows(tx, "delete_old_orphans", endpoint_id, cut_off, left) if left else []
                _delete_batches(tx, found)
                total += Pruned(deliveries_pruned=len(found))
                left -= len(found)
            self._note(tx, "orphan_deliveries", total, summary)
            return total

        return written(self.db, prune)

    def erase_content(self, *, status: str, older_than: int, limit: int = _PAGE, endpoint: str | None = None) -> Pruned:
        """Erase body, headers and query of up to `limit` events; their hash, identity and history stay."""
        one_of(status, ("handled", "ignored", "dead"), "status")
        cut_off, most = _time(older_than), page_size(limit)
        summary = {"status": status, "older_than": older_than, "limit": limit, "endpoint": endpoint}

        def erase(tx: Transaction) -> Pruned:
            left, total = most, Pruned()
            hold(tx, "retention")
            for endpoint_id in self._endpoint_ids(endpoint):
                found = rows(tx, "erasable_events", endpoint_id, status, cut_off, left) if left else []
                for event in found:
                    self._erase(tx, event)
                total += Pruned(contents_erased=len(found))
                left -= len(found)
            self._note(tx, "content", total, summary)
            return total

        return written(self.db, erase)

    def erase(self, event_id: int) -> None:
        """Erase body, headers and query of one event that is at rest, as a person may ask for; with an audit row."""
        whole(event_id, "event_id")
        written(self.db, partial(self._erase_one, event_id))

    def _erase_one(self, event_id: int, tx: Transaction) -> None:
        hold(tx, "retention")  # else a pass that has just found the event would note the hash of its empty body
        event = row(tx, "event_to_erase", event_id)
        if event is None:
            raise KeyError(f"there is no event {event_id}")
        if event["status"] not in ("handled", "ignored", "dead"):
            raise InvalidValue(f"the event {event_id} is {event['status']}: ignore it, or let it be handled, first")
        if row(tx, "is_erased", event_id) is None:
            self._erase(tx, event)
            erased = 1
        else:
            # Older versions stored what came again after it was erased.
            erased = min(1, len(rows(tx, "erase_deliveries", event_id)))
        self._note(tx, "content", Pruned(contents_erased=erased), {"event_id": event_id})

    def retain(
        self, *policies: RetentionPolicy, stop: Callable[[], bool] = lambda: False, dry_run: bool = False
    ) -> Pruned:
        """Apply the policies until nothing is left that is too old, in small transactions; tells what went.

        With `dry_run` it counts the events, contents and deliveries without an event that would go.
        """
        total = Pruned()
        if dry_run:
            return sum(map(self._due, policies), total)
        for policy in policies:
            for prune in self._steps(policy):
                while not stop():
                    done = prune()
                    total += done
                    if max(done.events_pruned, done.deliveries_pruned, done.contents_erased) < _PAGE:
                        break
        return total

    def schedule_retention(self, *policies: RetentionPolicy, interval_s: int = 3600) -> None:
        """Have the workers of the inbox apply the policies by schedule; called again, the new ones count."""
        if not policies:
            raise InvalidValue("schedule_retention() needs at least one RetentionPolicy")
        payload = {"kind": "retention", "policies": [policy.as_payload() for policy in policies]}
        self._schedule(f"knocker-retention:{QUEUE}", payload, interval_s)

    def schedule_recovery(self, interval_s: int = 60) -> None:
        """Have the workers of the inbox look for events that lost their job, and give them one."""
        self._schedule(f"brant-inbox-recovery:{QUEUE}", {"kind": "recovery"}, interval_s)

    def _schedule(self, name: str, payload: dict[str, Any], interval_s: int) -> None:
        every = every_s(whole(interval_s, "interval_s", minimum=1))
        # A pass does all that there is: those that were missed need no making up.
        self.db.scheduler().add(name=name, queue=RETENTION_QUEUE, schedule=every, payload=payload, missed="one")

    def _steps(self, policy: RetentionPolicy) -> list[Callable[[], Pruned]]:
        now, where = int(self.db.clock.now()), policy.endpoint
        steps: list[Callable[[], Pruned]] = []
        for status, age in policy.content_s.items():
            old = int(now - age)
            steps.append(partial(self.erase_content, status=status, older_than=old, endpoint=where))
        for status, age in policy.keep_s.items():
            old = int(now - age)
            steps.append(partial(self.prune_events, statuses=[status], older_than=old, endpoint=where))
        if policy.orphans_s is not None:
            old = int(now - policy.orphans_s)
            steps.append(partial(self.prune_orphan_deliveries, older_than=old, endpoint=where))
        steps.append(lambda: self._forget(policy, now))
        return steps

    def _due(self, policy: RetentionPolicy) -> Pruned:
        now, total = int(self.db.clock.now()), Pruned()
        for endpoint_id in self._endpoint_ids(policy.endpoint):
            for status, age in policy.content_s.items():
                total += Pruned(
                    contents_erased=self._count("count_erasable_events", endpoint_id, int(now - age), status)
                )
            for status, age in policy.keep_s.items():
                total += Pruned(events_pruned=self._count("count_prunable_events", endpoint_id, int(now - age), status))
            if policy.orphans_s is not None:
                orphans = self._count("count_old_orphans", endpoint_id, int(now - policy.orphans_s))
                total += Pruned(deliveries_pruned=orphans)
        return total

    def _count(self, name: str, *values: object) -> int:
        return int(rows(self.db, name, *values)[0]["count"])

    def _forget(self, policy: RetentionPolicy, now: int) -> Pruned:
        """Old keys and old counts of what was refused: no events, so they are in no audit."""
        with self.db.transaction() as tx:
            for endpoint_id in self._endpoint_ids(policy.endpoint):
                if policy.keys_s is not None:
                    while rows(tx, "delete_old_tombstones", endpoint_id, int(now - policy.keys_s), _PAGE):
                        pass
                if policy.rejects_s is not None:
                    rows(tx, "delete_old_rejects", endpoint_id, int(now - policy.rejects_s))
        return Pruned()

    def _endpoint_ids(self, endpoint: str | None) -> list[int]:
        if endpoint is None:
            return [each["id"] for each in rows(self.db, "endpoint_rows")]
        found = row(self.db, "endpoint_row", endpoint)
        if found is None:
            raise KeyError(f"there is no endpoint {endpoint!r}")
        return [found["id"]]

    def _delete(self, tx: Transaction, event_id: int) -> Pruned:
        run(tx, "bury", event_id, int(self.db.clock.now()))
        live_jobs = self.jobs.drop(tx, event_id)
        self.jobs.leave(tx, event_id)
        run(tx, "hand_on_batch_delivery", event_id)
        deliveries = rows(tx, "delete_deliveries", event_id)
        _delete_batches(tx, deliveries)
        attempts = rows(tx, "delete_attempts", event_id)
        run_for_each(tx, _GOES_WITH_AN_EVENT, event_id)
        return Pruned(1, len(deliveries), len(attempts), live_jobs)

    def _erase(self, tx: Transaction, event: dict[str, Any]) -> None:
        body = event["body"].encode() if isinstance(event["body"], str) else event["body"]
        digest = hashlib.sha256(body).hexdigest()
        run(tx, "note_erased", event["id"], int(self.db.clock.now()), digest, len(body))
        run(tx, "erase_event", event["id"])
        rows(tx, "erase_deliveries", event["id"])

    def _note(self, tx: Transaction, kind: str, total: Pruned, summary: dict[str, Any]) -> None:
        counts: tuple[int | None, ...] = (None, total.deliveries_pruned, None, None)
        if kind == "events":
            counts = (total.events_pruned, total.deliveries_pruned, total.attempts_pruned, total.live_jobs_pruned)
        elif kind == "content":
            summary, counts = {**summary, "contents_erased": total.contents_erased}, (None, None, None, None)
        run(tx, "insert_prune_audit", kind, int(self.db.clock.now()), *counts, json.dumps(summary))


def _delete_batches(tx: Transaction, deliveries: list[dict[str, Any]]) -> None:
    if deliveries:
        run(tx, "delete_batches", json.dumps([each["id"] for each in deliveries]))


def _several(statuses: object) -> list[str]:
    if not isinstance(statuses, (tuple, list)):
        raise TypeError(f"statuses must be a list of them, not {statuses!r}")
    return list(statuses)


def _time(value: object) -> int:
    cut_off = number(value, "older_than")
    if cut_off is None:
        raise TypeError("older_than must be a whole number of Unix seconds, not None")
    return cut_off
