"""The inboxes of this process, by their databases: which of them a job goes to."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from brant.inbox.tables import row

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.inbox import Inbox

# Weak on both sides: an Inbox holds its Database, and is held by whoever made it.
_inboxes: weakref.WeakKeyDictionary[Database, tuple[weakref.ref[Inbox], ...]] = weakref.WeakKeyDictionary()
_entering = threading.Lock()


def enter(inbox: Inbox) -> None:
    """Have it among those that the jobs of its database go to."""
    with _entering:
        alive = (each for each in _inboxes.get(inbox.db, ()) if each() is not None)
        _inboxes[inbox.db] = (*alive, weakref.ref(inbox))


def any_inbox(db: Database) -> Inbox | None:
    """The first with endpoints, if one has some: a page that only looks at events may make one without."""
    found = [inbox for each in _inboxes.get(db, ()) if (inbox := each()) is not None]
    return next((inbox for inbox in found if inbox.endpoints), found[0] if found else None)


def inbox_for(db: Database, event_id: int) -> Inbox | None:
    """The newest that has a handler for the event, or else its endpoint; or any."""
    able = [inbox for each in _inboxes.get(db, ()) if (inbox := each()) is not None and inbox.endpoints]
    if len(able) == 1:
        return able[0]
    about = row(db, "endpoint_of_event", event_id) if able else None
    if about is None:
        return any_inbox(db)
    having = [inbox for inbox in reversed(able) if about["endpoint"] in inbox.endpoints]
    for inbox in having:
        if inbox.endpoints[about["endpoint"]].handler_for(about["event_type"]) is not None:
            return inbox
    return having[0] if having else able[0]
