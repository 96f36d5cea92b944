"""GitLab with a secret token, which comes in a header as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.providers.tokens import TokenProvider
from brant.inbox.request import Request


class GitLab(TokenProvider):
    """The idempotency key is kept over retries. An event id can be shared by several events, so the body joins it."""

    name = "gitlab"
    options: ClassVar[Mapping[str, Any]] = {}

    def token_header(self) -> str:
        return "X-Gitlab-Token"

    def read_events(self, request: Request) -> list[Incoming]:
        delivery, event_id = request.header("Idempotency-Key"), request.header("X-Gitlab-Event-UUID")
        key = [delivery] if delivery else [part for part in (event_id, body_key(request.body)) if part]
        return [incoming(*key, event_id=event_id, delivery_id=delivery, event_type=gitlab_type(request))]

    def test_headers(self, facts: Mapping[str, str]) -> list[tuple[str, str | None]]:
        return [("Idempotency-Key", facts.get("event_id")), ("X-Gitlab-Event", facts.get("event_type"))]


def gitlab_type(request: Request) -> Any:
    return at(request.document(), "object_kind") or request.header("X-Gitlab-Event")
