"""All verbs together, on one connection."""

from __future__ import annotations

from brant.storage.coordination import CoordinationVerbs
from brant.storage.messages import MessageVerbs
from brant.storage.schedules import ScheduleVerbs
from brant.storage.streams import StreamVerbs
from brant.storage.transfer import TransferVerbs


class Session(MessageVerbs, StreamVerbs, ScheduleVerbs, CoordinationVerbs, TransferVerbs):
    """What can be done inside one transaction, or by one reader."""
