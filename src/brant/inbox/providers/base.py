"""What a provider is: it verifies a request, names its events, answers handshakes, and signs test requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

from brant.arguments import storable
from brant.errors import InvalidValue
from brant.inbox.providers.options import checked
from brant.inbox.request import Headers, Request

__all__ = [
    "Answer",
    "CannotVerify",
    "Incoming",
    "Provider",
    "Rejected",
    "body_key",
    "incoming",
    "key_of",
    "request_key",
]

_LONGEST_KEY = 300
_LONGEST_TEXT = 200
_FACTS = ("event_id", "event_type", "method", "path", "query")


class Rejected(Exception):
    """Why a request is not valid, in words that hold no secret and nothing the sender wrote."""


class CannotVerify(Exception):
    """It can't be said now whether the request is valid, through no fault of the sender: let it try again."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One event of a request. `body` is an item of a batch; None means the whole body."""

    dedupe_key: str | None = None
    event_id: str | None = None
    delivery_id: str | None = None
    event_type: str | None = None
    body: bytes | None = None
    ordering_key: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a handshake. `follow_up` is a URL, checked already, to be fetched first: if that fails, the answer

    is 503, so that the sender tries again.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    follow_up: str | None = None


class Provider:
    """Subclass it with a `name`, `check` and `read_events`; `options` are the names it takes, with their defaults."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    needs_secret: ClassVar[bool] = True
    secret_comes_later: ClassVar[bool] = False  # it is agreed in the handshake
    options: ClassVar[Mapping[str, Any]] = {}
    required: ClassVar[tuple[str, ...]] = ()
    success_status: ClassVar[int] = 204  # 200 for senders that take nothing else for success; an endpoint may choose
    accepted: ClassVar[Answer | None] = None  # what the sender wants to read on success, if not just a 2xx
    is_quick: ClassVar[bool] = False  # it only computes, and waits for nothing: an event loop may call it

    def __init__(self, **options: Any) -> None:
        for name in options:
            if name not in self.options:
                raise InvalidValue(f"{self.name} has no option {name!r}; {_hint(name, self.options)}")
        self.settings: dict[str, Any] = dict(self.options)
        self.settings.update({name: checked(name, value) for name, value in options.items()})
        for name in self.required:
            if not self.settings[name]:
                raise InvalidValue(f"{self.name} can't verify without the option {name!r}")

    def verify(self, request: Request, secrets: Sequence[bytes], now: float) -> str | None:
        """None if the request is valid, else the reason."""
        try:
            self.check(request, secrets, now)
        except Rejected as rejection:
            return str(rejection)
        return None

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:  # noqa: ARG002
        """Raises Rejected unless the request is valid: a subclass that does not say how accepts nothing."""
        raise Rejected(f"the provider {self.name} has no way to verify")

    def check_secret(self, secret: bytes) -> None:
        """Raises InvalidValue if this can't be a secret of the provider."""

    def events(self, request: Request) -> list[Incoming]:
        """The events of a verified request, at least one; never raises, whatever the body."""
        try:
            found = self.read_events(request)
        except RecursionError:
            # What could just be read may be nested too deeply to be written again, as an item of a batch.
            found = []
        return found or [Incoming(dedupe_key=content_key(request))]

    def first_event(self, request: Request) -> Incoming:
        """The first of `events`, which names a request that is refused: not all of them need be made for that."""
        return self.events(request)[0]

    def read_events(self, request: Request) -> list[Incoming]:
        """What a subclass knows of the request's events; without that, the same body is the same event."""
        return [Incoming(dedupe_key=content_key(request))]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        """The answer if this is a valid handshake. It checks for itself, so it can be asked before `verify`."""
        return None

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:  # noqa: ARG002
        """A request with this body that `verify` accepts: for tests and for trying things out.

        Of `facts`, each provider uses what it knows: event_id, event_type, method, path, query.
        """
        raise InvalidValue(f"the provider {self.name} makes no test requests")

    @property
    def credential_headers(self) -> tuple[str, ...]:
        """The headers that hold the secret itself: they are stored without their values, whatever they are called."""
        return ()

    @property
    def has_handshake(self) -> bool:
        return type(self).challenge is not Provider.challenge

    def valid(self, request: Request, secrets: Sequence[bytes], now: float) -> bool:
        return self.verify(request, secrets, now) is None

    def draft(self, body: bytes, facts: Mapping[str, str], *headers: tuple[str, str | None]) -> Request:
        """The request to be signed; a header whose value is None stays out."""
        for name in facts:
            if name not in _FACTS:
                raise InvalidValue(f"a test request has no {name!r}; {_hint(name, _FACTS)}")
        return Request(
            body,
            Headers([(name, value) for name, value in headers if value is not None]),
            facts.get("method", "POST"),
            facts.get("path", "/"),
            facts.get("query", ""),
        )

    def __repr__(self) -> str:
        return f"<provider {self.name}>"


def required_header(request: Request, name: str) -> str:
    value = request.header(name)
    if value:
        return value
    raise Rejected(f"the header {name} {'came more than once' if request.repeats(name) else 'is missing'}")


def incoming(
    *key: object,
    event_id: object = None,
    delivery_id: object = None,
    event_type: object = None,
    body: bytes | None = None,
    ordering_key: object = None,
) -> Incoming:
    """An event with what may stand in a database: short, valid Unicode; whatever is no text or number is left out."""
    return Incoming(
        dedupe_key=key_of(*key),
        event_id=short_text(event_id),
        delivery_id=short_text(delivery_id),
        event_type=short_text(event_type),
        body=body,
        ordering_key=short_text(ordering_key),
    )


def key_of(*parts: object) -> str | None:
    """One text for all the parts, and another one for other parts; None if a part is missing."""
    texts = [plain_text(part) for part in parts]
    if not texts or not all(texts):
        return None
    key = "|".join(text.replace("%", "%25").replace("|", "%7C") for text in texts if text)
    return bounded_key(key)


def bounded_key(key: str) -> str:
    """Short enough for the index of any database; what is longer goes by its hash."""
    return key if len(key) <= _LONGEST_KEY else body_key(key.encode())


def stored_key(value: object) -> str | None:
    """A key of any origin as it is stored; None for no key."""
    text = stored_text(value, longest=None)
    return None if text is None else bounded_key(text)


def stored_text(value: object, longest: int | None = _LONGEST_TEXT) -> str | None:
    # No NUL, which a server can't store: the key of a stream event is the same on both.
    return None if value is None or value == "" else storable(str(value)).replace("\0", "\\x00")[:longest]


def body_key(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def request_key(request: Request) -> str | None:
    """The same method, query and body are the same event; None for a request that says nothing, as deploy hooks do."""
    if not request.query:
        return body_key(request.body) if request.body else None
    query = request.query.encode("utf-8", "surrogatepass")
    return body_key(b"%s %d %s " % (request.method.encode("utf-8", "surrogatepass"), len(query), query) + request.body)


def content_key(request: Request) -> str | None:
    """As `request_key`, where the body alone is signed: else a query that anybody can add made another event of it."""
    return body_key(request.body) if request.body else request_key(request)


def packed(value: object) -> bytes:
    """An item of a batch as JSON of its own."""
    return json.dumps(value, separators=(",", ":")).encode()


def at(value: object, *path: str) -> Any:
    """What is found by walking down JSON objects; None if the way ends."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def plain_text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = storable(value if isinstance(value, str) else repr(value))
    return text.replace("\0", "\\0") or None


def short_text(value: object) -> str | None:
    text = plain_text(value)
    return text[:_LONGEST_TEXT] if text else None


def _hint(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    near = get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known are {', '.join(known)}" if known else "it takes none"
