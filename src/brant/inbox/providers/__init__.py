"""The senders that Brant knows, by name. Each is one class in one file, imported when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from brant.errors import InvalidValue
from brant.inbox.providers.base import Answer, Incoming, Provider, Rejected

__all__ = ["Answer", "Incoming", "Provider", "Rejected", "class_of", "names", "provider"]

_HOMES = {
    "adyen": "adyen.Adyen",
    "asana": "asana.Asana",
    "aws-sns": "sns.AwsSns",
    "basic-auth": "basic.Basic",
    "bearer-token": "bearer.Bearer",
    "brant": "brant_node.BrantNode",
    "discord": "discord.Discord",
    "dropbox": "dropbox.Dropbox",
    "github": "github.GitHub",
    "gitlab": "gitlab.GitLab",
    "gitlab-signing": "gitlab_signing.GitLabSigning",
    "hmac": "generic_hmac.GenericHmac",
    "hubspot": "hubspot.HubSpot",
    "intercom": "intercom.Intercom",
    "lemon-squeezy": "lemon_squeezy.LemonSqueezy",
    "linear": "linear.Linear",
    "mailgun": "mailgun.Mailgun",
    "meta": "meta.Meta",
    "microsoft-graph": "microsoft_graph.MicrosoftGraph",
    "okta": "okta.Okta",
    "paddle": "paddle.Paddle",
    "paypal": "paypal.PayPal",
    "postmark": "postmark.Postmark",
    "sendgrid": "sendgrid.SendGrid",
    "shopify": "shopify.Shopify",
    "slack": "slack.Slack",
    "square": "square.Square",
    "standard-webhooks": "standard_webhooks.StandardWebhooks",
    "stripe": "stripe.Stripe",
    "token-header": "token_header.TokenHeader",
    "twilio": "twilio.Twilio",
    "twitch": "twitch.Twitch",
    "x": "x.X",
    "xero": "xero.Xero",
    "zendesk": "zendesk.Zendesk",
    "zoom": "zoom.Zoom",
}
# Kept here too, so that a name is found without importing every provider; a test compares the two.
_ALIASES = {
    "basic": "basic-auth",
    "bearer": "bearer-token",
    "clerk": "standard-webhooks",
    "facebook": "meta",
    "generic-hmac": "hmac",
    "generic-hmac-sha256": "hmac",
    "graph": "microsoft-graph",
    "header-token": "token-header",
    "hmac-sha256": "hmac",
    "instagram": "meta",
    "lemonsqueezy": "lemon-squeezy",
    "msgraph": "microsoft-graph",
    "resend": "standard-webhooks",
    "sns": "aws-sns",
    "standardwebhooks": "standard-webhooks",
    "svix": "standard-webhooks",
    "twitter": "x",
    "whatsapp": "meta",
}


def names(*, with_aliases: bool = False) -> list[str]:
    return sorted([*_HOMES, *_ALIASES] if with_aliases else _HOMES)


def class_of(name: str) -> type[Provider]:
    """The provider's class; InvalidValue with the nearest name if there is none."""
    home = _HOMES.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if home is None:
        near = get_close_matches(str(name).lower(), names(with_aliases=True), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names())}"
        raise InvalidValue(f"there is no provider {name!r}; {hint}")
    module, _, attribute = home.partition(".")
    found: type[Provider] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found


def provider(name: str, **options: Any) -> Provider:
    """The provider of that name or alias, set up with its options."""
    return class_of(name)(**options)
