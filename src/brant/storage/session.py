"""All verbs together, on one connection."""

from __future__ import annotations

from brant.storage.batches import BatchVerbs
from brant.storage.coordination import CoordinationVerbs
from brant.storage.messages import MessageVerbs
from brant.storage.schedules import ScheduleVerbs
from brant.storage.streams import StreamVerbs
from brant.storage.transfer import TransferVerbs
from brant.storage.watching import WatchVerbs


class Session(MessageVerbs, BatchVerbs, StreamVerbs, ScheduleVerbs, CoordinationVerbs, TransferVerbs, WatchVerbs):
    """What can be done inside one transaction, or by one reader."""
