"""Applications that receive webhooks, for the pipeline to take in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import brant
from brant.inbox import Event, Inbox, RetryPolicy
from brant.testing import FakeClock, drain_tasks

if TYPE_CHECKING:
    from brant.inbox import Endpoint, Received

SECRET = "hush-hush-hush"
GOOD = [("Authorization", f"Bearer {SECRET}"), ("X-Request", "1")]
WRONG = [("Authorization", "Bearer guessed")]
DAY_S = 86_400


class Receiver:
    """A database with an inbox, in the time of its own clock."""

    def __init__(self, path: Path | str, now: float = 1_700_000_000) -> None:
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.clock = FakeClock(now)
        self.db = brant.open(path, clock=self.clock)
        self.inbox = Inbox(self.db)
        self.failing: set[str] = set()

    def endpoint(self, name: str = "shop", **settings: Any) -> Endpoint:
        settings = {"provider": "bearer", "secrets": lambda: SECRET, **settings}
        made = self.inbox.endpoint(name, path=f"/{len(self.inbox.endpoints)}", **settings)
        made.handle()(self._handle)
        return made

    def send(self, endpoint: Endpoint, body: bytes | str, *, valid: bool = True) -> Received:
        content = body.encode() if isinstance(body, str) else body
        return endpoint.receive(content, GOOD if valid else WRONG, event_type="order.paid")

    def work(self) -> dict[str, int]:
        """Handle what is due; bodies that are in `failing` fail."""
        return drain_tasks(self.db, "knocker.events")

    def close(self) -> None:
        self.inbox.close()
        self.db.close()

    def _handle(self, event: Event, tx: brant.Transaction) -> None:
        if (event.body or b"").decode(errors="replace") in self.failing:
            raise ConnectionError("the warehouse is away")


RETRY_SOON = RetryPolicy(max_attempts=2, first_delay_s=10, jitter=0)
