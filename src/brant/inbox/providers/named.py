"""Schemes that leave it to each sender where the id and the type of an event are: by options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brant.inbox.providers.base import Incoming, at, content_key, incoming, request_key
from brant.inbox.request import Request

NAMING: Mapping[str, object] = {"id_header": None, "id_field": None, "type_header": None, "type_field": None}


def named_event(request: Request, settings: Mapping[str, Any], *, ids_are_signed: bool) -> Incoming:
    """`id_field` and `type_field` are paths like `data.id` into the JSON body."""
    event_id = _field(request, settings["id_field"])
    header_id = request.header(settings["id_header"]) if settings["id_header"] else None
    kind, header_kind = _field(request, settings["type_field"]), None
    if kind is None and settings["type_header"]:
        kind = header_kind = request.header(settings["type_header"])
    if event_id is not None:
        key = [event_id]
    elif header_id and ids_are_signed:
        key = [header_id]
    else:
        key = _content(request, header_id, header_kind, query_is_signed=ids_are_signed)
    return incoming(*key, event_id=event_id or header_id, delivery_id=header_id, event_type=kind)


def _content(
    request: Request, header_id: str | None, header_kind: str | None, *, query_is_signed: bool
) -> list[object]:
    """Equal texts of two types are two events; a request that says nothing is one each time it comes."""
    content = request_key(request) if query_is_signed else content_key(request)
    if header_id:
        return [header_id, content] if content else [header_id]
    return [part for part in (header_kind, content) if part] if content else []


def _field(request: Request, path: str | None) -> Any:
    found = at(request.document(), *path.split(".")) if path else None
    return found if isinstance(found, (str, int)) and found != "" else None
