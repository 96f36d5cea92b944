"""Endpoints: where webhooks come in, how they are judged, and which function handles what."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from brant.arguments import label, seconds, whole
from brant.errors import InvalidValue
from brant.inbox.addresses import Networks
from brant.inbox.providers.base import Incoming, Provider
from brant.inbox.redaction import Redaction
from brant.inbox.secrets import MOST, MOST_AGREED, Secrets

if TYPE_CHECKING:
    from brant.inbox.inbox import Inbox
    from brant.inbox.records import Event, Received
    from brant.inbox.request import Request
    from brant.inbox.taking import Take
    from brant.transaction import Transaction

__all__ = ["Endpoint", "EndpointSettings", "RetryPolicy"]

Handler = Callable[["Event", "Transaction"], Any]
H = TypeVar("H", bound=Handler)
Verify = Literal["provider", "none"]
# "provider": what the provider says the event is about.
OrderingKey = Callable[["Request", Incoming], "str | None"] | Literal["provider"] | None
MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class RetryPolicy:
    """How often a handler is tried, and how long it rests in between: longer each time, spread by the jitter."""

    max_attempts: int = 8
    first_delay_s: float = 10
    backoff: float = 2.0
    jitter: float = 0.1
    max_delay_s: float = 3600

    def __post_init__(self) -> None:
        whole(self.max_attempts, "max_attempts", minimum=1)
        for name in ("first_delay_s", "jitter", "max_delay_s"):
            seconds(getattr(self, name), name, minimum=0)
        seconds(self.backoff, "backoff", minimum=1)
        if self.jitter > 1:
            raise InvalidValue(f"jitter is a share of the delay, from 0 to 1, not {self.jitter!r}")

    def delay_after(self, attempt: int) -> float:
        """Seconds to wait after that many attempts."""
        grown = min(self.first_delay_s * self.backoff ** min(attempt - 1, 64), self.max_delay_s)
        return grown * random.uniform(1 - self.jitter, 1 + self.jitter)


@dataclass(frozen=True)
class EndpointSettings:
    """All that an endpoint was registered with."""

    provider: Provider | None
    secrets: Secrets | None = field(repr=False)
    verify: Verify
    retry: RetryPolicy
    methods: tuple[str, ...]
    max_body: int
    max_header_bytes: int
    identify: Callable[[Request], Incoming | list[Incoming]] | None
    ordering_key: OrderingKey
    filter: Callable[[Request, Incoming], bool] | None
    publish_to: str | None
    rate_limit: tuple[int, int] | None
    success_status: int
    max_orphans: int
    max_orphan_bytes: int
    redaction: Redaction
    allow_from: Networks | None
    is_quick: bool  # judging a small request is arithmetic alone, so an event loop may do it


class Endpoint:
    """One address of an Inbox; make it with `inbox.endpoint(...)`."""

    def __init__(self, inbox: Inbox, name: str, path: str, settings: EndpointSettings) -> None:
        self.inbox = inbox
        self.id = 0
        self.name = name
        self.path = path
        self.settings = settings
        # Writes with the commit that stores an event, which is then handled.
        self.take: Take | None = None
        self._handlers: dict[str | None, Handler] = {}
        self._policies: dict[str | None, RetryPolicy] = {}

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, path={self.path!r})"

    def handle(self, *event_types: str, retry: RetryPolicy | None = None) -> Callable[[H], H]:
        """`@endpoint.handle("invoice.paid")`, for some types; `@endpoint.handle()`, for all that have no other.

        The function gets the event and the transaction that commits with it; it may be async. The last one that was
        registered for a type counts. `retry` goes before the endpoint's own policy.
        """
        if any(not isinstance(name, str) or not name for name in event_types):
            raise InvalidValue(
                "handle() takes event types: write @endpoint.handle('invoice.paid') or @endpoint.handle()"
            )

        def register(handler: H) -> H:
            self.add_handler(handler, *event_types, retry=retry)
            return handler

        return register

    def add_handler(self, handler: Handler, *event_types: str, retry: RetryPolicy | None = None) -> None:
        """As `handle`, without the decorator."""
        _check_handler(handler)
        for event_type in event_types or (None,):
            self._handlers[event_type] = handler
            self._policies.pop(event_type, None)
            if retry is not None:
                self._policies[event_type] = retry
        self.inbox.register_tasks()

    def handler_for(self, event_type: str | None) -> Handler | None:
        """The function for that type, else the one for all other types."""
        return self._handlers.get(event_type) or self._handlers.get(None)

    def policy_for(self, event_type: str | None) -> RetryPolicy:
        """That of the handler which `handler_for` gives."""
        registered = event_type if event_type in self._handlers else None
        return self._policies.get(registered, self.settings.retry)

    @property
    def most_attempts(self) -> int:
        """Of any of its events: which one a job is for, is known when it runs."""
        return max(policy.max_attempts for policy in (self.settings.retry, *self._policies.values()))

    def receive(self, body: bytes, headers: Any = (), **facts: Any) -> Received:
        """As `inbox.receive(endpoint=...)`."""
        return self.inbox.receive(self.name, body, headers, **facts)

    async def receive_async(self, body: bytes, headers: Any = (), **facts: Any) -> Received:
        """As `receive`, for an event loop."""
        return await self.inbox.receive_async(self.name, body, headers, **facts)

    def ingest(self, body: bytes, headers: Any = (), **facts: Any) -> Received:
        """As `inbox.ingest(endpoint=...)`."""
        return self.inbox.ingest(self.name, body, headers, **facts)


def _check_handler(handler: object) -> None:
    if not callable(handler):
        raise InvalidValue(f"a handler must be a function of (event, tx), not {handler!r}")
    try:
        inspect.signature(handler).bind(None, None)
    except TypeError as error:
        raise InvalidValue(f"the handler {handler!r} must take (event, tx): {error}") from None
    except ValueError:
        pass  # a builtin without a signature


def settings_of(
    *,
    provider: str | Provider | None,
    options: dict[str, Any] | None,
    secrets: Any,
    verify: str | None,
    retry: RetryPolicy | None,
    methods: str | Iterable[str],
    max_body: int,
    max_header_bytes: int,
    identify: Callable[[Request], Incoming | list[Incoming]] | None,
    ordering_key: OrderingKey,
    filter: Callable[[Request, Incoming], bool] | None,  # noqa: A002, the word of the public call
    publish_to: str | None,
    rate_limit: tuple[int, float] | None,
    success_status: int | None,
    max_orphans: int,
    max_orphan_bytes: int,
    redact: str | Iterable[str],
    allow_from: str | Iterable[str] | None,
) -> EndpointSettings:
    """The settings, checked: one clear error for what can't work."""
    chosen = _provider(provider, options)
    how = _verify(verify, chosen)
    if ordering_key is not None and ordering_key != "provider" and not callable(ordering_key):
        raise InvalidValue(
            f"ordering_key must be 'provider' or a function of (request, incoming), not {ordering_key!r}"
        )
    if success_status is None:
        success_status = Provider.success_status if chosen is None else chosen.success_status
    if success_status not in (200, 201, 202, 204):
        raise InvalidValue(f"success_status must be 200, 201, 202 or 204, not {success_status!r}")
    sources = _secrets(chosen, secrets, how)
    asks_nobody = identify is None and filter is None and not callable(ordering_key)
    return EndpointSettings(
        provider=chosen,
        secrets=sources,
        verify=how,
        retry=retry or RetryPolicy(),
        methods=tuple(method.upper() for method in _names(methods)),
        max_body=whole(max_body, "max_body", minimum=0),
        max_header_bytes=whole(max_header_bytes, "max_header_bytes", minimum=1),
        identify=identify,
        ordering_key=ordering_key,
        filter=filter,
        publish_to=None if publish_to is None else label(publish_to, "publish_to"),
        rate_limit=None if rate_limit is None else _rate_limit(rate_limit),
        success_status=success_status,
        max_orphans=whole(max_orphans, "max_orphans", minimum=0),
        max_orphan_bytes=whole(max_orphan_bytes, "max_orphan_bytes", minimum=0),
        redaction=Redaction((*_names(redact), *(() if chosen is None else chosen.credential_headers))),
        allow_from=None if allow_from is None else _networks(allow_from),
        is_quick=asks_nobody and (chosen is None or chosen.is_quick) and (sources is None or sources.are_at_hand),
    )


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    """One name may come as it is: its letters are no names."""
    return (given,) if isinstance(given, str) else tuple(given)


def _networks(given: str | Iterable[str]) -> Networks:
    networks = Networks(given, "allow_from")
    if not len(networks):
        raise InvalidValue("allow_from names no network, so nobody could send; leave it out to let all send")
    return networks


def _provider(provider: str | Provider | None, options: dict[str, Any] | None) -> Provider | None:
    if isinstance(provider, Provider):
        if options:
            raise InvalidValue("options belong to a provider by name; give them to the provider object itself")
        return provider
    if provider is None:
        if options:
            raise InvalidValue("options need a provider")
        return None
    if not isinstance(provider, str):
        raise InvalidValue(f"provider must be a name or a Provider, not {provider!r}")
    from brant.inbox.providers import provider as provider_of_name

    return provider_of_name(provider, **(options or {}))


def _verify(verify: str | None, provider: Provider | None) -> Verify:
    if verify is None and provider is None:
        raise InvalidValue(
            "an endpoint needs a provider that verifies; to accept what anybody sends, say verify='none'"
        )
    if verify in (None, "provider"):
        if provider is None:
            raise InvalidValue("verify='provider' needs a provider")
        return "provider"
    if verify != "none":
        raise InvalidValue(f"verify must be 'provider' or 'none', not {verify!r}")
    return "none"


def _secrets(provider: Provider | None, given: Any, verify: Verify) -> Secrets | None:
    if given is not None and (provider is None or verify == "none"):
        raise InvalidValue("secrets without a provider that verifies would check nothing; leave them out")
    if provider is None or verify == "none":
        return None
    may_be_empty = not provider.needs_secret or provider.secret_comes_later
    most = MOST_AGREED if provider.secret_comes_later else MOST
    secrets = Secrets(() if given is None else given, may_be_empty=may_be_empty, most=most)
    for secret in () if may_be_empty else secrets.current(0):
        provider.check_secret(secret)
    return secrets


def _rate_limit(given: tuple[int, float]) -> tuple[int, int]:
    try:
        count, per_s = given
    except (TypeError, ValueError):
        raise InvalidValue(f"rate_limit must be (requests, seconds), not {given!r}") from None
    return whole(count, "the requests of rate_limit", minimum=1), whole(per_s, "the seconds of rate_limit", minimum=1)
