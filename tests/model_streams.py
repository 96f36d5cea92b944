"""What streams promise, in plain Python: the lesser half of the model in model.py."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Event:
    offset: int
    topic: str
    key: str | None
    payload: str
    created_at: int


class StreamModel:
    def __init__(self, now: float) -> None:
        self.now = now
        self.events: list[Event] = []
        self.last_offset = 0
        self.offsets: dict[tuple[str, str], int] = {}

    @property
    def second(self) -> int:
        return math.floor(self.now)

    def publish(self, topic: str, key: str | None, payload: str) -> int:
        self.last_offset += 1
        self.events.append(Event(self.last_offset, topic, key, payload, self.second))
        return self.last_offset

    def topic(self, topic: str, after: int = 0) -> list[Event]:
        return [event for event in self.events if event.topic == topic and event.offset > after]

    def save_offset(self, consumer: str, topic: str, offset: int) -> bool:
        known = self.offsets.get((consumer, topic))
        if known is not None and offset <= known:
            return False
        self.offsets[consumer, topic] = offset
        return True

    def forget_consumer(self, consumer: str, topic: str) -> bool:
        return self.offsets.pop((consumer, topic), None) is not None

    def prune(
        self, topic: str, up_to: int | None, older_than: float | None, keep: int | None, past_consumers: bool
    ) -> int:
        kept_newest = {event.offset for event in self.topic(topic)[-keep:]} if keep else set()
        slowest = min((offset for (_, name), offset in self.offsets.items() if name == topic), default=None)
        doomed = {
            event.offset
            for event in self.topic(topic)
            if event.offset not in kept_newest
            and (up_to is None or event.offset <= up_to)
            and (older_than is None or event.created_at < self.now - older_than)
            and (past_consumers or slowest is None or event.offset <= slowest)
        }
        self.events = [event for event in self.events if event.offset not in doomed]
        return len(doomed)

    def consumers(self, topic: str) -> list[tuple[str, int, int]]:
        return sorted(
            (consumer, offset, len(self.topic(topic, offset)))
            for (consumer, name), offset in self.offsets.items()
            if name == topic
        )
