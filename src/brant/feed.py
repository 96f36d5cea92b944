"""Iterating over what is there and what is yet to come, in a thread or in an event loop."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from brant.storage.base import Storage

Item = TypeVar("Item")


class Feed(ABC, Generic[Item]):
    """An endless iterator for `for` and for `async for`, ended by `close()`.

    Subscribes before its first read, so a commit between the two is never missed. Reads run in a thread of the event
    loop's pool and fill a buffer there: an `async for` step that is cancelled loses nothing.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._subscription = storage.subscribe()
        self._buffer: deque[Item] = deque()
        self._refilling = threading.Lock()
        self._closed = False

    @abstractmethod
    def _fetch(self) -> list[Item]:
        """What is there now."""

    @abstractmethod
    def _patience(self) -> float | None:
        """After an empty fetch: how many seconds to wait for a wake-up before looking again; None is without end."""

    def _chores_due(self) -> bool:
        """Whether `_do_chores` has to run before the next item is handed out."""
        return False

    def _do_chores(self) -> None:
        """May wait for the database, so a task runs it in a thread. If it fails, the next item stays the next."""

    def _handing_out(self, item: Item) -> None:
        """Called with each item just before it is handed out; may neither wait nor fail."""

    def _going_idle(self) -> None:
        """Called when everything was handed out, before a wait."""

    def close(self) -> None:
        """End the iteration, also for a thread or task that waits in it."""
        self._closed = True
        self._subscription.close()

    def __iter__(self) -> Iterator[Item]:
        while not self._closed:
            yield from self._buffered()
            self._refill_or_wait()

    def __next__(self) -> Item:
        while not self._closed:
            if self._buffer:
                with suppress(IndexError):  # close() has just emptied the buffer
                    return self._next_item()
            self._refill_or_wait()
        raise StopIteration

    def get(self, timeout: float | None = None) -> Item | None:
        """The next item; None when `timeout` seconds passed without one, or when closed."""
        deadline = math.inf if timeout is None else self._storage.clock.monotonic() + timeout
        while not self._closed:
            if self._buffer:
                with suppress(IndexError):  # close() has just emptied the buffer
                    return self._next_item()
            wait_s = self._refill()
            if wait_s != 0:
                left = deadline - self._storage.clock.monotonic()
                if left <= 0:
                    return None
                self._subscription.wait(left if wait_s is None else min(left, wait_s))
        return None

    def _buffered(self) -> Iterator[Item]:
        while self._buffer and not self._closed:
            try:
                item = self._next_item()
            except IndexError:  # close() has just emptied the buffer
                return
            yield item

    def _refill_or_wait(self) -> None:
        wait_s = self._refill()
        if wait_s != 0:
            self._subscription.wait(wait_s)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        import asyncio

        while not self._closed:
            if self._buffer:
                if self._chores_due():
                    await asyncio.to_thread(self._do_chores)
                with suppress(IndexError):  # close() has just emptied the buffer
                    return self._hand_out()
            wait_s = await asyncio.to_thread(self._refill)
            if wait_s != 0:
                await self._subscription.wait_async(wait_s)
        raise StopAsyncIteration

    def _next_item(self) -> Item:
        if self._chores_due():
            self._do_chores()
        return self._hand_out()

    def _hand_out(self) -> Item:
        item = self._buffer.popleft()
        self._handing_out(item)
        return item

    def _refill(self) -> float | None:
        """Fill the buffer; 0 when something came, else the time to wait."""
        # One at a time: a cancelled step may have left a refill running in its thread.
        with self._refilling:
            if self._buffer or self._closed:
                return 0
            self._buffer.extend(self._fetch())
            if self._buffer:
                return 0
            self._going_idle()
            return self._patience()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)
