"""What a process that runs one task tells the worker that started it: one frame of JSON each way."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

from brant.arguments import decode, encode
from brant.outcomes import Cancel, Dead, Outcome, Retry, Snooze

_LENGTH = struct.Struct("!Q")
_OUTCOMES: dict[str, tuple[type[Outcome], tuple[str, ...]]] = {
    "retry": (Retry, ("after_s", "reason")),
    "snooze": (Snooze, ("for_s",)),
    "cancel": (Cancel, ("reason",)),
    "dead": (Dead, ("reason",)),
}


class Unstorable:
    """Stands in the worker for a result that the task's process could not write as JSON."""


def answer_of(result: object) -> dict[str, Any]:
    """What a task returned, as plain data."""
    for kind, (outcome, fields) in _OUTCOMES.items():
        if isinstance(result, outcome):
            return {"kind": kind, "fields": {field: getattr(result, field) for field in fields}}
    try:
        return {"kind": "value", "json": encode(result)}
    except TypeError:
        return {"kind": "unstorable"}


def result_of(answer: dict[str, Any]) -> object:
    """The same in the worker, which settles the job by it."""
    kind = answer["kind"]
    if kind == "value":
        return decode(answer["json"])
    if kind == "unstorable":
        return Unstorable()
    outcome, _ = _OUTCOMES[kind]
    return outcome(**answer["fields"])


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return _LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return _message(await reader.readexactly(length))


def receive_frame(channel: socket.socket) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    return _message(_exactly(channel, length))


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = channel.recv(size - len(data))
        if not part:
            raise EOFError("the worker is gone")
        data += part
    return data


def _message(body: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(body)
    return message
