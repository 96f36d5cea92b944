"""The verdict on a request. It has three values, and whatever goes wrong ends as `invalid`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brant.errors import InvalidValue
from brant.inbox.providers.base import CannotVerify, Incoming, Provider, content_key
from brant.inbox.request import BodyError, Request
from brant.inbox.secrets import Secrets, SecretUnavailable

__all__ = ["INVALID", "UNVERIFIED", "VERIFIED", "Verification", "first_of", "identify", "safe_reason", "verify"]

VERIFIED, UNVERIFIED, INVALID = "verified", "unverified", "invalid"
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Verification:
    """`temporary`: the fault is on this side (a secret or certificate can't be read), so 503 and not 401."""

    state: str
    reason: str | None = None
    temporary: bool = False

    @property
    def accepted(self) -> bool:
        return self.state in (VERIFIED, UNVERIFIED)

    @classmethod
    def invalid(cls, reason: str, *, temporary: bool = False) -> Verification:
        return cls(INVALID, safe_reason(reason), temporary)


def verify(provider: Provider | None, request: Request, secrets: Secrets | Sequence[bytes], now: float) -> Verification:
    """Never raises, and never accepts without a provider: `unverified` is for the endpoint to choose, not for this."""
    if provider is None:
        return Verification.invalid("the endpoint has no provider that could verify")
    try:
        keys = secrets.current(now) if isinstance(secrets, Secrets) else tuple(secrets)
        if provider.needs_secret and not any(keys):
            return Verification.invalid("no secret counts at this time", temporary=True)
        reason = provider.verify(request, keys, now)
    except BodyError as error:
        return Verification.invalid(str(error))
    except (CannotVerify, SecretUnavailable, InvalidValue) as error:
        # InvalidValue: a secret that is none of this provider's kind. None of these quotes it.
        return Verification.invalid(str(error), temporary=True)
    except Exception as error:
        # Not the text of the error: it may quote a header or a secret.
        return Verification.invalid(f"the provider failed with {type(error).__name__}")
    if reason is None:
        return Verification(VERIFIED)
    return Verification.invalid(reason if isinstance(reason, str) else "the provider gave no proper answer")


def identify(provider: Provider, request: Request) -> list[Incoming]:
    """The request's events. A provider that fails here costs its identity and type, not the event."""
    try:
        found = provider.events(request)
    except Exception:
        found = []
    return found or [Incoming(dedupe_key=content_key(request))]


def first_of(provider: Provider, request: Request) -> Incoming:
    """The first of what `identify` finds, without the others being made."""
    try:
        return provider.first_event(request)
    except Exception:
        return Incoming(dedupe_key=content_key(request))


def safe_reason(text: str) -> str:
    """Fit for a log line: printable ASCII, and short."""
    return "".join(char if " " <= char <= "~" else "?" for char in text[:_LONGEST_REASON])
