"""Schemes that leave it to each sender where the id and the type of an event are: by options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brant.inbox.providers.base import Incoming, at, body_key, incoming
from brant.inbox.request import Request

NAMING: Mapping[str, object] = {"id_header": None, "id_field": None, "type_header": None, "type_field": None}


def named_event(request: Request, settings: Mapping[str, Any], *, ids_are_signed: bool) -> Incoming:
    """`id_field` and `type_field` are paths like `data.id` into the JSON body."""
    event_id = _field(request, settings["id_field"])
    header_id = request.header(settings["id_header"]) if settings["id_header"] else None
    kind = _field(request, settings["type_field"])
    if kind is None and settings["type_header"]:
        kind = request.header(settings["type_header"])
    key: list[object] = [event_id] if event_id is not None else [header_id] if header_id else []
    if event_id is None and not (header_id and ids_are_signed):
        key.append(body_key(request.body))
    return incoming(*key, event_id=event_id or header_id, delivery_id=header_id, event_type=kind)


def _field(request: Request, path: str | None) -> Any:
    found = at(request.document(), *path.split(".")) if path else None
    return found if isinstance(found, (str, int)) and found != "" else None
