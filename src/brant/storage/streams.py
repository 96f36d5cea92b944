"""Verbs of durable streams and of notifications."""

from __future__ import annotations

import json
from collections.abc import Iterable

from brant.storage.base import Row, Statements

_LARGEST_INTEGER = 2**63 - 1


class StreamVerbs(Statements):
    def publish(self, topic: str, key: str | None, payload: str) -> int:
        return int(self.value("publish", self.times() | {"topic": topic, "key": key, "payload": payload}))

    def publish_many(self, topic: str, events: Iterable[tuple[str | None, str]]) -> list[int]:
        """Publish (key, payload) pairs, in their order."""
        pairs = list(events)
        if any(key and "\0" in key for key, _ in pairs):
            # SQLite's JSON functions cut a text off at a NUL.
            return [self.publish(topic, key, payload) for key, payload in pairs]
        params = self.times() | {"topic": topic, "events": json.dumps(pairs)}
        return sorted(row[0] for row in self.rows("publish_many", params))

    def read_stream(self, topic: str, after: int, limit: int) -> list[Row]:
        """Rows of (offset, topic, key, payload, created_at) behind an offset, ascending; negative limit: all."""
        return self.rows("read_stream", {"topic": topic, "after": after, "limit": limit})

    def stream_head(self, topic: str) -> int:
        return int(self.value("stream_head", {"topic": topic}))

    def save_offset(self, consumer: str, topic: str, offset: int) -> bool:
        """Raise a consumer's offset; never lowers it."""
        return self.changed("save_offset", {"consumer": consumer, "topic": topic, "offset": offset}) > 0

    def get_offset(self, consumer: str, topic: str) -> int:
        return int(self.value("get_offset", {"consumer": consumer, "topic": topic}) or 0)

    def list_consumers(self, topic: str) -> list[Row]:
        return self.rows("list_consumers", {"topic": topic})

    def forget_consumer(self, consumer: str, topic: str) -> bool:
        return self.changed("forget_consumer", {"consumer": consumer, "topic": topic}) > 0

    def topics(self) -> list[str]:
        return [row[0] for row in self.rows("topics", {})]

    def prune_stream(
        self,
        topic: str,
        *,
        up_to: int | None = None,
        created_before: float | None = None,
        keep: int | None = None,
        past_consumers: bool = False,
    ) -> int:
        """Delete events that meet every given bound, and that every named consumer has passed."""
        bounds = [_LARGEST_INTEGER if up_to is None else up_to]
        if keep is not None:
            bounds.append(self.value("offset_to_keep", {"topic": topic, "keep": keep}) or 0)
        slowest: int | None = self.value("slowest_offset", {"topic": topic})
        if slowest is not None and not past_consumers:
            bounds.append(slowest)
        return self.changed("prune_stream", {"topic": topic, "up_to": min(bounds), "created_before": created_before})

    def notify(self, channel: str, payload: str) -> int:
        return int(self.value("notify", self.times() | {"channel": channel, "payload": payload}))

    def read_notifications(self, channel: str, after: int, limit: int) -> list[Row]:
        return self.rows("read_notifications", {"channel": channel, "after": after, "limit": limit})

    def last_notification(self, channel: str) -> int:
        return int(self.value("last_notification", {"channel": channel}))

    def prune_notifications(self, created_before: float | None, keep: int | None) -> int:
        """Delete what is older than the one bound, or not among the newest `keep` of all channels."""
        if keep is not None:
            keep = min(keep, _LARGEST_INTEGER)
        return self.changed("prune_notifications", {"created_before": created_before, "keep": keep})
