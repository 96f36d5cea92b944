"""What goes to stdout: messages as lines, flushed one by one, so that a pipe that breaks costs at most one."""

from __future__ import annotations

import sys

from brant.job import Message

_warned = False


def show(message: Message, *, as_json: bool, with_id: bool) -> None:
    """Print a message in one of the three formats."""
    if as_json:
        import json

        line = json.dumps({"message": str(message), "timestamp": message.id}, ensure_ascii=False)
    elif with_id:
        line = f"{message.id}\t{message}"
    else:
        line = message
    put(line)


def put(line: str) -> None:
    """A line, whatever is in it, as UTF-8, at once and whole."""
    data = memoryview(_encoded(line) + b"\n")
    while data:  # unbuffered, as with PYTHONUNBUFFERED, a signal can cut a write short
        data = data[sys.stdout.buffer.write(data) :]
    sys.stdout.buffer.flush()


def _encoded(line: str) -> bytes:
    try:
        return line.encode("utf-8", "surrogateescape")  # bytes that were no UTF-8 come out as they went in
    except UnicodeEncodeError:
        return line.encode("utf-8", "surrogatepass")  # a lone surrogate from a JSON payload: better odd than stuck


def put_json(value: object) -> None:
    import json

    put(json.dumps(value, ensure_ascii=False))


def warn_of_newlines(message: Message, *, as_json: bool, with_id: bool) -> None:
    """Once a run: plain lines can't tell where a message with newlines ends."""
    global _warned
    if not (as_json or with_id or _warned) and "\n" in message:
        _warned = True
        print(
            "brant: warning: a message contains newline characters; use --json to tell messages apart", file=sys.stderr
        )
