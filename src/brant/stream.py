"""Durable streams: events that stay, read by any number of consumers at their own pace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from brant.arguments import decode, encode, label, seconds, storable, whole
from brant.errors import InvalidValue
from brant.feed import Feed
from brant.storage.base import Row
from brant.transaction import writing

if TYPE_CHECKING:
    from brant.database import Database

_PAGE = 1000
_SAFETY_POLL_S = 5.0


class _EventRow(NamedTuple):
    offset: int
    topic: str
    key: str | None
    payload_text: str
    created_at: float


class Event(_EventRow):
    """One event of a stream; `offset` is its place among the events of all topics, and grows."""

    @cached_property
    def payload(self) -> Any:
        return decode(self.payload_text)


# Event._make without its check of the length, which doubles the time of a replay.
_as_event: Callable[[Row], Event] = partial(tuple.__new__, Event)


@dataclass(frozen=True)
class Consumer:
    """A named reader of a stream: the offset it has saved, and how many events lie behind that."""

    name: str
    offset: int
    lag: int


class Stream:
    """A topic of a Database; make one with `db.stream(name)`."""

    def __init__(self, db: Database, name: str) -> None:
        self.db = db
        self.name = name

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"

    def publish(self, payload: object, key: str | None = None, tx: object | None = None) -> int:
        """Append an event with a JSON payload; gives its offset."""
        text = encode(payload)
        with writing(self.db._storage, tx) as session:
            return session.publish(self.name, _checked_key(key), text)

    def publish_many(
        self, payloads: Iterable[object], keys: Iterable[str | None] | None = None, tx: object | None = None
    ) -> list[int]:
        """Append many events in one transaction, in this order; gives their offsets."""
        texts = [encode(payload) for payload in payloads]
        checked = [None] * len(texts) if keys is None else [_checked_key(key) for key in keys]
        if len(checked) != len(texts):
            raise InvalidValue(f"{len(texts)} payloads need as many keys, not {len(checked)}")
        if not texts:
            return []
        with writing(self.db._storage, tx) as session:
            return session.publish_many(self.name, zip(checked, texts, strict=True))

    def read(self, after: int = 0, limit: int = _PAGE) -> list[Event]:
        """Events behind an offset, ascending; a negative limit gives all."""
        after, limit = whole(after, "after"), whole(limit, "limit")
        with self.db._storage.reading() as session:
            return list(map(_as_event, session.read_stream(self.name, after, limit)))

    def subscribe(
        self,
        consumer: str | None = None,
        from_offset: int | None = None,
        save_every_n: int = 1000,
        save_every_s: float = 1.0,
    ) -> EventFeed:
        """Events from `from_offset` on, else from where this named consumer stopped, else all; then those to come.

        The consumer's offset is saved when an event is asked for and `save_every_n` events or `save_every_s` seconds
        have passed since the last time, and when nothing more is there or the feed is closed. Only events whose
        successor was asked for count as done: after a crash some come again, none is skipped. With both thresholds
        0 nothing is saved but by `save_offset`.
        """
        name = None if consumer is None else label(consumer, "consumer")
        start = None if from_offset is None else whole(from_offset, "from_offset")
        return EventFeed(
            self,
            name,
            start,
            whole(save_every_n, "save_every_n", minimum=0),
            seconds(save_every_s, "save_every_s", minimum=0),
        )

    def save_offset(self, consumer: str, offset: int, tx: object | None = None) -> bool:
        """Remember that the consumer is done up to here; never goes back. False when it was there already."""
        name, offset = label(consumer, "consumer"), whole(offset, "offset")
        with writing(self.db._storage, tx) as session:
            return session.save_offset(name, self.name, offset)

    def get_offset(self, consumer: str) -> int:
        """The saved offset, 0 for an unknown consumer."""
        with self.db._storage.reading() as session:
            return session.get_offset(consumer, self.name)

    def head(self) -> int:
        """The offset of the newest event, 0 when there is none."""
        with self.db._storage.reading() as session:
            return session.stream_head(self.name)

    def consumers(self) -> list[Consumer]:
        """The named consumers with their lag."""
        with self.db._storage.reading() as session:
            return [Consumer(*row) for row in session.list_consumers(self.name)]

    def forget_consumer(self, consumer: str, tx: object | None = None) -> bool:
        """Drop a consumer that is no longer there, so that it no longer holds back `prune`."""
        with writing(self.db._storage, tx) as session:
            return session.forget_consumer(consumer, self.name)

    def prune(
        self,
        *,
        up_to: int | None = None,
        older_than_s: float | None = None,
        keep: int | None = None,
        past_consumers: bool = False,
        tx: object | None = None,
    ) -> int:
        """Delete events that meet every given bound: offset, age, not among the newest `keep`. Tells how many.

        Never passes a named consumer's saved offset, unless `past_consumers` is set.
        """
        if up_to is None and older_than_s is None and keep is None:
            raise InvalidValue("prune() needs a bound: up_to, older_than_s or keep")
        age = None if older_than_s is None else seconds(older_than_s, "older_than_s", minimum=0)
        with writing(self.db._storage, tx) as session:
            return session.prune_stream(
                self.name,
                up_to=None if up_to is None else whole(up_to, "up_to"),
                created_before=None if age is None else session.now() - age,
                keep=None if keep is None else whole(keep, "keep", minimum=0),
                past_consumers=past_consumers,
            )


class EventFeed(Feed[Event]):
    """The events of a stream, now and as they come; see `Stream.subscribe`."""

    def __init__(
        self, stream: Stream, consumer: str | None, from_offset: int | None, save_every_n: int, save_every_s: float
    ) -> None:
        super().__init__(stream.db._storage)
        self._stream = stream
        self._consumer = consumer
        self._save_every_n = save_every_n
        self._save_every_s = save_every_s
        if from_offset is None:
            from_offset = stream.get_offset(consumer) if consumer is not None else 0
        self._is_known = False
        self._fetched = from_offset
        self._handed_out = from_offset
        self._done = from_offset
        self._saved = from_offset
        self._unsaved = 0
        self._saved_at = self._storage.clock.monotonic()

    def _fetch(self) -> list[Event]:
        if self._consumer is not None and not self._is_known:
            # From its first look on, so that prune() leaves what it has not seen yet.
            self._stream.save_offset(self._consumer, 0)
            self._is_known = True
        page = self._stream.read(self._fetched, _PAGE)
        if page:
            self._fetched = page[-1].offset
        return page

    def _patience(self) -> float | None:
        return _SAFETY_POLL_S

    def _buffered(self) -> Iterator[Event]:
        if self._consumer is not None:
            yield from super()._buffered()
        else:  # nothing to keep account of: a replay is as fast as it can be
            while self._buffer and not self._closed:
                yield self._buffer.popleft()

    def _handing_out(self, item: Event) -> None:
        self._done = self._handed_out
        self._handed_out = item.offset
        self._unsaved += 1

    def _do_chores(self) -> None:
        # Asking for the next event means that the last one is done.
        self._save(self._handed_out)

    def _chores_due(self) -> bool:
        if self._consumer is None:
            return False
        if self._save_every_n and self._unsaved >= self._save_every_n:
            return True
        return bool(self._save_every_s and self._storage.clock.monotonic() - self._saved_at >= self._save_every_s)

    def _going_idle(self) -> None:
        # Asking for more means that the last event is done too.
        self._done = self._handed_out
        self._save_if_automatic()

    def close(self) -> None:
        super().close()
        self._save_if_automatic()

    def _save_if_automatic(self) -> None:
        if self._save_every_n or self._save_every_s:
            self._save(self._done)

    def _save(self, offset: int) -> None:
        if self._consumer is not None and offset > self._saved:
            self._stream.save_offset(self._consumer, offset)
            self._saved = offset
        self._unsaved = 0
        self._saved_at = self._storage.clock.monotonic()


def _checked_key(key: object) -> str | None:
    if key is None:
        return None
    # Lone surrogates would get through publish_many, and then nobody could read the stream.
    if not isinstance(key, str) or storable(key) != key:
        raise InvalidValue(f"a key is None or a text of valid Unicode, not {key!r}")
    return key
