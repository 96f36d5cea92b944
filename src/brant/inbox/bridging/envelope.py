"""The envelope: events of one topic, in order, as they travel from one node to the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brant.arguments import JsonText, encode, label, storable
from brant.errors import InvalidValue
from brant.inbox.bridging.tables import NAME, Origin

if TYPE_CHECKING:
    from brant.stream import Event

__all__ = ["TYPE", "Envelope", "Travelling", "packed", "sealed"]

TYPE = "brant.events"
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Travelling:
    """An event under way."""

    origin: str
    offset: int
    key: str | None
    payload: Any
    created_at: float
    topic: str

    @property
    def mark(self) -> str:
        """Another one for another event at the same offset of the same node."""
        told = json.dumps([self.topic, self.key, self.payload, self.created_at], separators=(",", ":"))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a request of a bridge brings; `node` is who sends it."""

    node: str
    topic: str
    events: tuple[Travelling, ...]

    @classmethod
    def of(cls, document: dict[str, Any]) -> Envelope:
        """InvalidValue, in words that quote nothing, unless it can be published as it is."""
        node, topic, events = (document.get(name) for name in ("node", "topic", "events"))
        if document.get("type") != TYPE or not isinstance(events, list) or not events:
            raise InvalidValue(f"the body is no {TYPE}")
        if not _is_node(node):
            raise InvalidValue("the sender has no proper name")
        try:
            checked = label(topic, "topic")
        except InvalidValue:
            raise InvalidValue("the topic is none") from None
        return cls(node, checked, tuple(_event(node, checked, event) for event in events))  # type: ignore[arg-type]


def packed(event: Event, origin: Origin | None) -> bytes:
    """One event as JSON; its payload as it is stored, or as a text if another program wrote what is no JSON."""
    payload = event.payload_text if _travels(event.payload_text) else json.dumps(storable(event.payload_text))
    told: dict[str, Any] = {"offset": event.offset, "key": event.key, "created_at": event.created_at}
    if origin is not None:
        told |= {"origin": origin.node, "offset": origin.offset, "created_at": origin.created_at}
    return f'{json.dumps(told, separators=(",", ":"))[:-1]},"payload":{payload}}}'.encode()


def _travels(text: str) -> bool:
    """Whether what is read from it can be written again: 1e999 is JSON, and yet no number of Python's."""
    try:
        return storable(text) == text and bool(json.dumps(json.loads(JsonText(text)), allow_nan=False))
    except (ValueError, RecursionError):
        return False


def sealed(node: str, topic: str, events: Iterable[bytes]) -> bytes:
    head = json.dumps({"type": TYPE, "node": node, "topic": topic}, separators=(",", ":"))
    return head[:-1].encode() + b',"events":[' + b",".join(events) + b"]}"


def _event(node: object, topic: str, given: object) -> Travelling:
    found = given if isinstance(given, dict) else {}
    origin, offset, key = found.get("origin", node), found.get("offset"), found.get("key")
    created_at = found.get("created_at")
    is_proper = (
        _is_node(origin)
        and type(offset) is int
        and 0 < offset <= _LARGEST
        and (key is None or (isinstance(key, str) and storable(key) == key))
        and isinstance(created_at, (int, float))
        and abs(created_at) < 1e15
        and "payload" in found
        and _can_be_written(found["payload"])
    )
    if not is_proper:
        raise InvalidValue("an event is not complete")
    return Travelling(origin, offset, key, found["payload"], float(created_at), topic)  # type: ignore[arg-type]


def _can_be_written(payload: object) -> bool:
    try:
        encode(payload)
    except TypeError:
        return False
    return True


def _is_node(name: object) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None
