"""What goes to stdout and stderr: lines, written at once and whole, whatever is in them."""

from __future__ import annotations

import json
import os
import sys

from brant.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from brant.job import Message

_warned = False
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def message_format(options: Namespace, *, warns: bool = True) -> Callable[[Message], bytes]:
    """How the options want messages printed: a function from a message to its line.

    It warns once a run that plain lines can't tell where a message with newlines ends.
    """
    if options.json:
        return lambda message: _json_line({"message": str(message), "timestamp": message.id})
    if options.timestamps:
        return lambda message: _line(f"{message.id}\t{message}")
    return _plain_line if warns else _line


def _plain_line(message: Message) -> bytes:
    global _warned
    if "\n" in message and not _warned:
        _warned = True
        complain("brant: warning: a message contains newline characters; use --json to tell messages apart")
    return _line(message)


def put(line: str) -> None:
    write(_line(line))


def put_json(value: object) -> None:
    write(_json_line(value))


def complain(text: str) -> None:
    """A line on stderr; where that is closed or broken there is nobody to tell."""
    if sys.stderr is not None:
        try:
            os.write(sys.stderr.fileno(), text.encode("utf-8", "backslashreplace") + b"\n")
        except OSError:
            pass


def require_stdout() -> None:
    if sys.stdout is None:
        raise StorageError("standard output is closed: there is nowhere to print to")


def stdout_descriptor() -> int:
    require_stdout()
    return sys.stdout.fileno()


def write(data: bytes) -> None:
    """All of it, at once."""
    # Not through sys.stdout: what a failed write leaves in its buffer would fail again when the interpreter ends.
    descriptor = stdout_descriptor()
    rest = memoryview(data)
    while rest:
        rest = rest[write_some(descriptor, rest) :]


def write_some(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(f"can't write to standard output: {error.strerror}") from error


def _line(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape") + b"\n"  # bytes that were no UTF-8 come out as they went in
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass") + b"\n"  # a lone surrogate from JSON: better odd than stuck


def _json_line(value: object) -> bytes:
    # Of lone surrogates, which UTF-8 can't say, this makes the escapes of JSON.
    return as_json(value).encode("utf-8", "backslashreplace") + b"\n"


def as_json(value: object) -> str:
    """The value as JSON, with NaN and infinities, which others may have stored and JSON has not got, as text."""
    try:
        return _encode(value)
    except ValueError:
        if not isinstance(value, dict):
            return _encode(_sayable(value))
        return _encode({name: _sayable(field) for name, field in value.items()})


def _sayable(field: object) -> object:
    try:
        _encode(field)
    except ValueError:
        return json.dumps(field, separators=(",", ":"), ensure_ascii=False)
    return field
