"""Bridge: streams of this node, sent to another one."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from brant.arguments import label, whole
from brant.errors import BrantError, DatabaseReplaced, InvalidValue, StorageError
from brant.inbox.bridging.lane import Lane
from brant.inbox.bridging.tables import name_node, prepare
from brant.inbox.outgoing.delivery import HttpDelivery
from brant.inbox.outgoing.guard import Guard
from brant.inbox.outgoing.verdict import Refused
from brant.inbox.verification import safe_reason
from brant.outcomes import Dead, Outcome, Retry, Snooze

if TYPE_CHECKING:
    from brant.channel import UpdateEvents
    from brant.database import Database

__all__ = ["Bridge", "BridgeError", "Trouble"]

_SAFETY_POLL_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_logger = logging.getLogger("brant.bridge")


class BridgeError(BrantError):
    """Events could not be sent; they are still to be sent. `permanent`: not before somebody changes something."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why events of a topic wait, and for how long until they are tried again."""

    topic: str
    reason: str
    permanent: bool
    wait_s: float


class Bridge:
    """Sends the events of topics to an endpoint that another node made by `receive_bridge`: each arrives, in order.

    At least once on the way and deduped over there, so once. How far it is, the streams know by the consumer `name`:
    after a crash the next one goes on there. What came over a bridge itself is left out, or sent on with `forward`;
    either way nothing is published twice, on whatever ways it comes. Further options are those of `HttpDelivery`.
    """

    def __init__(
        self,
        db: Database,
        topics: str | Iterable[str],
        to: str,
        secret: Any,
        *,
        name: str | None = None,
        node: str | None = None,
        start_at: int = 0,
        forward: bool = False,
        batch: int = 500,
        max_batch_bytes: int = 256 * 1024,
        on_trouble: Callable[[Trouble], None] | None = None,
        **options: Any,
    ) -> None:
        self.topics = tuple(dict.fromkeys(label(one, "topic") for one in _several(topics)))
        if not self.topics:
            raise InvalidValue("a bridge needs a topic")
        if not isinstance(to, str):
            raise InvalidValue(f"a bridge goes to one URL, not {to!r}")
        self._delivery = HttpDelivery(to, secret, **{"breaker_failures": None, "clock": db.clock, **options})
        if node is not None:
            name_node(db, node)
        self.node = prepare(db)
        self.name = label(_default_name(to) if name is None else name, "the name of a bridge")
        self._db = db
        self._on_trouble = on_trouble or _log
        options_of_lanes: dict[str, Any] = {
            "start_at": whole(start_at, "start_at", minimum=0),
            "forward": forward,
            "most": whole(batch, "batch", minimum=1),
            "most_bytes": whole(max_batch_bytes, "max_batch_bytes", minimum=1),
        }
        self._lanes = [Lane(db, topic, self.name, self.node, **options_of_lanes) for topic in self.topics]
        self._stopping = threading.Event()
        # Its put() may be called in a signal handler, where an Event's lock might be held already.
        self._news: SimpleQueue[BaseException | None] = SimpleQueue()

    def __repr__(self) -> str:
        return f"<Bridge {self.name!r}>"

    def send(self) -> int:
        """Send what is there now; tells how many events. BridgeError at the first that can't be sent now."""
        return sum(self._sent(lane) for lane in self._lanes)

    def _sent(self, lane: Lane) -> int:
        sent, end = 0, lane.head()
        try:
            while lane.offset < end:
                count, is_something = lane.step(self._delivery)
                sent += count
                if not is_something:  # pruned meanwhile
                    break
        except Outcome as outcome:
            trouble = self._trouble(lane, outcome, 0)
            raise BridgeError(f"{trouble.topic}: {trouble.reason}", permanent=trouble.permanent) from None
        return sent

    def run(self) -> None:
        """Send what is there and what comes, each topic at its own pace, until `stop()`; failures are tried again."""
        if self._stopping.is_set():
            raise BrantError("this Bridge has run already: make a new one")
        threads = [
            threading.Thread(target=self._keep_going, args=(lane,), name=f"brant-bridge-{lane.topic}", daemon=True)
            for lane in self._lanes
        ]
        for thread in threads:
            thread.start()
        try:
            failure = self._news.get()
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()
            self.close()
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Have `run` end when the request under way is answered. From any thread, and from a signal handler."""
        self._news.put(None)

    async def run_async(self) -> None:
        """As `run`, for an event loop; ends when it is cancelled, too."""
        running = asyncio.create_task(asyncio.to_thread(self.run))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            self.stop()
            await running
            raise

    def close(self) -> None:
        """Close the connections that are kept for the next request."""
        self._delivery.close()

    def _keep_going(self, lane: Lane) -> None:
        try:
            # Before the first read, so that a commit between the two is not missed.
            commits = self._db.update_events()
            waker = threading.Thread(target=self._end_waiting, args=(commits.close,), daemon=True)
            waker.start()
            failures = 0
            while not self._stopping.is_set():
                trouble = self._stepped(lane, commits, failures)
                failures = 0 if trouble is None else failures + 1
                if trouble is not None:
                    self._on_trouble(trouble)
                    self._stopping.wait(trouble.wait_s)
        except BaseException as error:
            if not self._stopping.is_set():
                self._news.put(error)

    def _end_waiting(self, close: Callable[[], None]) -> None:
        self._stopping.wait()
        close()

    def _stepped(self, lane: Lane, commits: UpdateEvents, failures: int) -> Trouble | None:
        """Send the next events, and wait for more where these were all."""
        try:
            lane.step(self._delivery)
            if lane.offset >= lane.head():
                commits.wait(_SAFETY_POLL_S)
        except DatabaseReplaced:
            raise  # the only trouble of a database that does not pass
        except (Outcome, StorageError) as error:
            return self._trouble(lane, error, failures)
        return None

    def _trouble(self, lane: Lane, error: Outcome | StorageError, failures: int) -> Trouble:
        pause = min(_FIRST_PAUSE_S * 2.0 ** min(failures, 16), _LONGEST_PAUSE_S) * random.uniform(0.9, 1.1)
        match error:
            case Refused(reason=reason):
                said = safe_reason(error.beginning.decode("utf-8", "replace").strip())
                return Trouble(lane.topic, f"{reason}: {said}" if said else reason, True, max(pause, _LONGEST_PAUSE_S))
            case Dead(reason=reason):
                return Trouble(lane.topic, reason, True, max(pause, _LONGEST_PAUSE_S))
            case Retry(after_s=asked, reason=reason):
                return Trouble(lane.topic, reason, False, max(pause, asked or 0.0))
            case Snooze(for_s=asked):
                return Trouble(lane.topic, "the other side has asked to wait", False, max(pause, asked))
            case _:
                return Trouble(lane.topic, str(error), False, pause)


def _several(topics: str | Iterable[str]) -> Iterable[str]:
    return [topics] if isinstance(topics, str) else topics


def _default_name(to: str) -> str:
    """The same for the same place."""
    place = Guard((), True, None).place(to)
    return f"bridge:{place.authority}{place.target.partition('?')[0]}"


def _log(trouble: Trouble) -> None:
    _logger.warning("%s: %s; trying again in %.0f s", trouble.topic, trouble.reason, trouble.wait_s)
