"""A small provider, and the steps that many tests of the inbox take."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any

import brant
from brant.inbox import Answer, Endpoint, Incoming, Provider, Request
from brant.testing import drain_tasks

SECRET = "s3cret"
QUEUE = "knocker.events"


class Tiny(Provider):
    """The signature is the secret and the length of the body; a JSON body has `id` and `type`, an array is a batch."""

    name = "tiny"

    def verify(self, request: Request, secrets: Sequence[bytes], now: float) -> str | None:
        given = (request.header("x-tiny") or "").encode()
        if any(hmac.compare_digest(given, signature(request.body, secret)) for secret in secrets):
            return None
        return "the signature does not match"

    def events(self, request: Request) -> list[Incoming]:
        if request.items():
            return [self.one(item, str(item).encode()) for item in request.items()]
        return [self.one(request.document(), None)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        token = request.parameter("challenge")
        return None if token is None else Answer(200, token.encode())

    @staticmethod
    def one(item: Any, body: bytes | None) -> Incoming:
        found = item if isinstance(item, dict) else {}
        key = found.get("id")
        return Incoming(key, key, None, found.get("type"), body, found.get("about"))


def signature(body: bytes, secret: bytes | str = SECRET) -> bytes:
    return (secret.encode() if isinstance(secret, str) else secret) + str(len(body)).encode()


def signed(body: bytes) -> list[tuple[str, str]]:
    return [("X-Tiny", signature(body).decode())]


def tiny(inbox: brant.Inbox, name: str = "in", **options: Any) -> Endpoint:
    return inbox.endpoint(name, provider=Tiny(), secrets=SECRET, **options)


def send(endpoint: Endpoint, event_id: str, event_type: str = "t", **facts: Any) -> int:
    """A valid event; gives its id."""
    body = f'{{"id": "{event_id}", "type": "{event_type}"}}'.encode()
    received = endpoint.receive(body, signed(body), **facts)
    assert received.accepted, received
    assert received.event_id is not None
    return received.event_id


def work(inbox: brant.Inbox) -> dict[str, int]:
    """Run all that is due; tells how the attempts ended."""
    inbox.register_tasks()
    return drain_tasks(inbox.db, QUEUE)


def status(inbox: brant.Inbox, event_id: int) -> str:
    return inbox.get_event(event_id).status


def outcomes(inbox: brant.Inbox, event_id: int) -> list[str]:
    """Oldest first."""
    return [attempt.outcome for attempt in reversed(inbox.list_attempts(event_id=event_id))]


def jobs(inbox: brant.Inbox) -> int:
    return int(inbox.db.query("SELECT count(*) AS n FROM _honker_live WHERE queue = ?", [QUEUE])[0]["n"])


def dead_jobs(inbox: brant.Inbox) -> int:
    return int(inbox.db.query("SELECT count(*) AS n FROM _honker_dead WHERE queue = ?", [QUEUE])[0]["n"])
