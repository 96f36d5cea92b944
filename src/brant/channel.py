"""Pub/sub: notifications to whoever listens at that moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brant.arguments import decode_or_text
from brant.feed import Feed
from brant.storage.base import Storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification; ids grow in the order of the commits."""

    id: int
    channel: str
    payload: Any
    created_at: float


class Listener(Feed[Notification]):
    """The notifications of a channel from now on, in order."""

    def __init__(self, storage: Storage, channel: str, fallback_poll_s: float | None, owner: object = None) -> None:
        super().__init__(storage)
        self._owner = owner  # the Database, which closes when nobody holds it any more
        self.channel = channel
        self._fallback_poll_s = fallback_poll_s
        with storage.reading() as session:
            self._last = session.last_notification(channel)

    def _fetch(self) -> list[Notification]:
        with self._storage.reading() as session:
            rows = session.read_notifications(self.channel, self._last, _PAGE)
        if rows:
            self._last = rows[-1][0]
        return [Notification(row[0], row[1], decode_or_text(row[2]), row[3]) for row in rows]

    def _patience(self) -> float | None:
        return self._fallback_poll_s


class UpdateEvents:
    """An item, None, after each commit to the database; commits that come close together may share one."""

    def __init__(self, storage: Storage, owner: object = None) -> None:
        self._owner = owner
        self.path = storage.target
        self._subscription = storage.subscribe()
        self._closed = False

    def __aiter__(self) -> AsyncIterator[None]:
        return self

    async def __anext__(self) -> None:
        while not self._closed:
            if await self._subscription.wait_async(None):
                return
        raise StopAsyncIteration

    def wait(self, timeout: float | None = None) -> bool:
        """For a thread: whether a commit came before `timeout` seconds were over."""
        return self._subscription.wait(timeout)

    def close(self) -> None:
        self._closed = True
        self._subscription.close()
