"""All verbs together, on one connection."""

from __future__ import annotations

from brant.storage.coordination import CoordinationVerbs
from brant.storage.messages import MessageVerbs
from brant.storage.schedules import ScheduleVerbs
from brant.storage.streams import StreamVerbs


class Session(MessageVerbs, StreamVerbs, ScheduleVerbs, CoordinationVerbs):
    """What can be done inside one transaction, or by one reader."""
