"""Payloads as they are typed, and as they are printed: JSON, or text that is stored as a JSON string."""

from __future__ import annotations

import sys

from brant.arguments import storable
from brant.cli.output import as_json, complain, require_stdout
from brant.cli.standard_input import all_input, decoded, is_typed_at_a_terminal
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context

TEXT_HINT = "; quote it as JSON, or give --text"


def add_payload(parser: ArgumentParser) -> None:
    parser.add_argument("payload", metavar="PAYLOAD", nargs="?", help="JSON; left out or -: standard input")
    parser.add_argument("--text", action="store_true", help="the payload is text, not JSON")


def payload_of(options: Namespace, context: Context) -> object:
    """What was typed, or piped in."""
    limit = context.settings.max_message_size
    if options.payload is None and is_typed_at_a_terminal():
        raise InvalidValue("no payload: type it as the last argument, or pipe it in")
    if options.payload in (None, "-"):
        data = all_input("a payload", limit)
    else:
        # Bytes of an argument that are not UTF-8 become again what they were.
        data = options.payload.encode("utf-8", "surrogateescape")
    return _parsed(data, "the payload", limit, as_text=options.text)


def _parsed(data: bytes, what: str, limit: int, *, as_text: bool) -> object:
    if len(data) > limit:
        raise InvalidValue(f"{what} exceeds the maximum size of {limit} bytes")
    text = decoded(data, what)
    return text if as_text else json_of(text, what, TEXT_HINT)


def json_of(text: str, what: str, hint: str = "") -> object:
    """The value of JSON that was typed."""
    import json

    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"{what} is not JSON: {error}{hint}") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def text_of(payload: object) -> str:
    """What is printed for a payload: a string as its text, anything else as compact JSON."""
    if isinstance(payload, str):
        return payload
    import json

    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)


class Lines:
    """Prints plain lines or JSON objects, and warns once when plain lines can't be told apart."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._warned = False

    def put(self, plain: str, fields: dict[str, object]) -> None:
        _put_whole(self.line(plain, fields))

    def line(self, plain: str, fields: dict[str, object]) -> bytes:
        if not self._as_json and "\n" in plain and not self._warned:
            self._warned = True
            complain("brant: warning: a line contains newline characters; use --json to tell lines apart")
        # Other programs may have stored lone surrogates, for which UTF-8 has no bytes: they are spelled out.
        return storable(as_json(fields) if self._as_json else plain).encode() + b"\n"


def _put_whole(line: bytes) -> None:
    require_stdout()
    rest = memoryview(line)
    while rest:
        # Output that is not buffered (PYTHONUNBUFFERED) takes but a part of a long line when a signal comes.
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()
