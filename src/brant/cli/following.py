"""What goes on until it is stopped: the events of a stream, the notifications of a channel."""

from __future__ import annotations

import time

from brant.arguments import label
from brant.cli.command import DONE, NOTHING
from brant.cli.draining import StoppableLines
from brant.cli.output import complain
from brant.cli.payloads import text_of
from brant.cli.stopping import StopSignals
from brant.errors import DatabaseBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    import brant
    from brant.cli.command import Context

# A commit wakes the follower; this is a safety net.
_LONGEST_WAIT_S = 5.0
_SAVE_EVERY_S = 1.0


class Progress:
    """How far a stream was printed; remembered in the database for a named consumer.

    Saved only behind what was printed. When the pipe breaks nothing more is saved: what lies unread in it is printed
    again by the next run, rather than by none.
    """

    def __init__(self, stream: brant.Stream, consumer: str | None, start: int | None) -> None:
        self._stream = stream
        # Here already: it would be refused only when the first events are printed.
        self._consumer = None if consumer is None else label(consumer, "consumer")
        if start is None:
            start = 0 if consumer is None else stream.get_offset(consumer)
        self.printed = start
        self._saved = start
        self._saved_at = time.monotonic()

    def advance(self, offset: int) -> None:
        self.printed = offset
        if time.monotonic() - self._saved_at >= _SAVE_EVERY_S:
            self.save_if_possible()

    def save_if_possible(self) -> None:
        try:
            self.save()
        except DatabaseBusy as error:
            self._saved_at = time.monotonic()
            complain(f"brant: warning: the offset is not saved yet: {error}")

    def save(self) -> None:
        if self._consumer is not None and self.printed > self._saved:
            self._stream.save_offset(self._consumer, self.printed)
            self._saved = self.printed
        self._saved_at = time.monotonic()


def tail(context: Context, options: Namespace, shown: Callable[[brant.Event], tuple[str, dict[str, object]]]) -> int:
    with context.open() as db:
        stream = db.stream(options.topic)
        # Before the first read, so that a commit between the two is not missed.
        commits = db.update_events()
        stop = StopSignals(commits.close)
        lines = StoppableLines(stop, as_json=options.json)
        progress = Progress(stream, options.consumer, options.start)
        context.tell(f"Following stream {stream.name!r} after offset {progress.printed}...")
        while not stop.requested():
            page = stream.read(progress.printed)
            for event in page:
                if not lines.put(*shown(event)):
                    break
                progress.advance(event.offset)
            if not page:
                progress.save_if_possible()
                commits.wait(_LONGEST_WAIT_S)
        progress.save()
    return DONE


def listen(context: Context, options: Namespace) -> int:
    printed = 0
    with context.open() as db, db.listen(options.channel) as listener:
        stop = StopSignals(listener.close)
        lines = StoppableLines(stop, as_json=options.json)
        context.tell(f"Listening on channel {options.channel!r}...")
        while options.count is None or printed < options.count:
            notification = listener.get(options.timeout)
            if notification is None:
                return DONE if stop.requested() else NOTHING
            if not lines.put(text_of(notification.payload), _as_json(notification)):
                break
            printed += 1
    return DONE


def _as_json(notification: brant.Notification) -> dict[str, object]:
    return {
        "id": notification.id,
        "channel": notification.channel,
        "payload": notification.payload,
        "created_at": notification.created_at,
    }
