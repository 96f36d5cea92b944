"""Receiving: a request is judged, then stored as a delivery with its events and their jobs, then answered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from brant.arguments import storable
from brant.inbox.providers.base import Answer, Incoming, Provider, key_of, request_key, stored_key, stored_text
from brant.inbox.records import Received
from brant.inbox.request import Request, fields
from brant.inbox.storing import Item, Parcel
from brant.inbox.verification import INVALID, UNVERIFIED, Verification, first_of, identify, verify

if TYPE_CHECKING:
    from brant.inbox.endpoints import Endpoint, EndpointSettings

_logger = logging.getLogger("brant.inbox")
R = TypeVar("R")
_RETRY_AFTER_S = 30
_MOST_HEADERS = 1000
# Characters of headers and query that a batch may store: each of its events has them.
_MOST_COPIED = 64 * 1024 * 1024
_NOT_HERE = "the endpoint is not registered in this process"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the caller says of the request; it goes before what the provider reads from it."""

    event_type: str | None = None
    provider_event_id: str | None = None
    provider_delivery_id: str | None = None
    dedupe_key: str | None = None


def judged(endpoint: Endpoint, request: Request, facts: Facts, now: float) -> Parcel | Received:
    """What is to be stored; or, for what leaves no trace, the answer itself. Never raises, whatever was sent."""
    settings = endpoint.settings
    if (refusal := refusal_before_body(settings, request) or _too_large(settings, request)) is not None:
        return Parcel.refused(endpoint, refusal)
    if (answer := _challenge(settings, request, now)) is not None:
        return _answered(answer)
    if request.method not in settings.methods:
        allowed = (("Allow", ", ".join(settings.methods)),)
        return Parcel.refused(endpoint, Received(405, reason="the method is not allowed", headers=allowed))
    verdict = _verdict(settings, request, now)
    if verdict.temporary:
        refusal = Received(503, reason=verdict.reason, retry_after_s=_RETRY_AFTER_S)
        return Parcel.refused(endpoint, refusal)
    return parcel_of(endpoint, request, facts, verdict)


def parcel_of(endpoint: Endpoint, request: Request, facts: Facts, verdict: Verification) -> Parcel:
    """A request with its verdict, ready to be stored."""
    settings, is_invalid = endpoint.settings, verdict.state == INVALID
    several = _incoming(settings, request, facts, only_first=is_invalid)
    is_batch = len(several) > 1
    found = [_named(incoming, facts, place if is_batch else None) for place, incoming in enumerate(several)]
    items = [] if is_invalid else [_item(settings, request, incoming) for incoming in found]
    redaction = settings.redaction
    headers_json = redaction.as_json(request.headers.pairs)
    query_json = redaction.as_json(fields(request.query)) if request.query else "{}"
    if len(items) > 1 and len(items) * (len(headers_json) + len(query_json)) > _MOST_COPIED:
        return Parcel.refused(endpoint, Received(431, reason="the headers are too large for so many events"))
    return Parcel(
        endpoint=endpoint,
        method=storable(request.method)[:32],
        headers_json=headers_json,
        query_json=query_json,
        body=request.body,
        signature_valid={INVALID: 0, UNVERIFIED: None}.get(verdict.state, 1),
        signature_error=verdict.reason,
        first=found[0],
        items=items,
    )


def unknown(is_known_elsewhere: bool) -> Received:
    """For an endpoint that this process does not have: nothing that can't be verified is taken."""
    if is_known_elsewhere:
        return Received(503, reason=_NOT_HERE, retry_after_s=_RETRY_AFTER_S)
    return Received(404, reason="there is no such endpoint")


def refusal_before_body(settings: EndpointSettings, request: Request) -> Received | None:
    """Why a request is refused that need not be read any further."""
    if settings.allow_from is not None and request.remote not in settings.allow_from:
        return Received(403, reason="the address is none of those that may send")
    size = request.headers.size + len(request.query)
    if size > settings.max_header_bytes or len(request.headers) > _MOST_HEADERS:
        return Received(431, reason="the headers are too large")
    return None


def _too_large(settings: EndpointSettings, request: Request) -> Received | None:
    if len(request.body) > settings.max_body:
        return Received(413, reason=f"the body is larger than {settings.max_body} bytes")
    return None


def _challenge(settings: EndpointSettings, request: Request, now: float) -> Answer | None:
    provider = settings.provider
    if provider is None or settings.verify == "none" or not provider.has_handshake:
        return None
    try:
        secrets = () if settings.secrets is None else settings.secrets.current(now)
        return provider.challenge(request, secrets, now)
    except Exception as error:
        # Then it is no handshake; as a request it is verified, or refused with the reason.
        _logger.warning("a handshake could not be checked: %s", type(error).__name__)
        return None


def _answered(answer: Answer) -> Received:
    return Received(
        answer.status,
        body=answer.body,
        content_type=answer.content_type,
        headers=answer.headers,
        follow_up=answer.follow_up,
    )


def _verdict(settings: EndpointSettings, request: Request, now: float) -> Verification:
    if settings.verify == "none":
        return Verification(UNVERIFIED)
    return verify(settings.provider, request, settings.secrets or (), now)


def _incoming(settings: EndpointSettings, request: Request, facts: Facts, *, only_first: bool) -> list[Incoming]:
    if settings.identify is not None:
        found = _guarded("identify", settings.identify, request)
        several = [found] if isinstance(found, Incoming) else found
        if isinstance(several, list) and several and all(isinstance(one, Incoming) for one in several):
            return several[:1] if only_first else several
    if settings.provider is None and facts.provider_delivery_id:
        return [Incoming()]  # an id counts before the hash that stands in for one
    provider = settings.provider or _BY_REQUEST
    # Of what was refused one is enough: nobody makes this process build thousands of events without a signature.
    return [first_of(provider, request)] if only_first else identify(provider, request)


def _named(incoming: Incoming, facts: Facts, place: int | None) -> Incoming:
    """With what the caller says; `place` is that in a batch, None if it is alone."""
    return Incoming(
        dedupe_key=stored_key(_key(incoming, facts, place)),
        event_id=stored_text(facts.provider_event_id or incoming.event_id),
        delivery_id=stored_text(facts.provider_delivery_id or incoming.delivery_id),
        event_type=stored_text(facts.event_type or incoming.event_type),
        body=incoming.body,
        ordering_key=incoming.ordering_key,
    )


def _key(incoming: Incoming, facts: Facts, place: int | None) -> str | None:
    """A delivery is only one of those that an event may have, so its id counts last."""
    given = facts.dedupe_key or facts.provider_event_id
    key = given or incoming.dedupe_key or facts.provider_delivery_id
    if place is None or key is None or key == incoming.dedupe_key:
        return key
    # Said of the whole request, it would make one event of a batch.
    return key_of(str(key), str(incoming.dedupe_key or f"#{place}"))


def _item(settings: EndpointSettings, request: Request, incoming: Incoming) -> Item:
    key, wanted = None, True
    if settings.ordering_key == "provider":
        key = stored_key(incoming.ordering_key)
    elif callable(settings.ordering_key):
        key = stored_key(_guarded("ordering_key", settings.ordering_key, request, incoming))
    if settings.filter is not None:
        # What can't be judged is run: an event too many is seen, one too few is not.
        wanted = _guarded("filter", settings.filter, request, incoming) is not False
    return Item(incoming, request.body if incoming.body is None else incoming.body, key, filtered=not wanted)


def _guarded(what: str, function: Callable[..., R], *args: Any) -> R | None:
    try:
        return function(*args)
    except Exception:
        _logger.exception("the %s of an endpoint failed; the event is stored without it", what)
        return None


class _ByRequest(Provider):
    """Identity for endpoints without a provider: the same method, query and body are the same event."""

    name = "request"

    def events(self, request: Request) -> list[Incoming]:
        return [Incoming(dedupe_key=request_key(request))]


_BY_REQUEST = _ByRequest()
