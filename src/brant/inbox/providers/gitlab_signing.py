"""GitLab with a signing token: Standard Webhooks headers."""

from __future__ import annotations

from typing import ClassVar

from brant.inbox.providers.base import Incoming, incoming
from brant.inbox.providers.gitlab import gitlab_type
from brant.inbox.providers.standard_webhooks import StandardWebhooks
from brant.inbox.request import Request


class GitLabSigning(StandardWebhooks):
    """A token that begins with `whsec_` is decoded as Standard Webhooks say; any other is used as it is."""

    name = "gitlab-signing"
    aliases: ClassVar[tuple[str, ...]] = ()
    families = ("webhook",)

    def key(self, secret: bytes) -> bytes:
        return super().key(secret) if secret.startswith(b"whsec_") else secret

    def read_events(self, request: Request) -> list[Incoming]:
        delivery = request.header("webhook-id")
        event_id = request.header("X-Gitlab-Event-UUID") or delivery
        return [incoming(delivery, event_id=event_id, delivery_id=delivery, event_type=gitlab_type(request))]
