"""Standard input, which may be closed, or a terminal at which nobody was asked to type."""

from __future__ import annotations

import sys

from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import BufferedReader

_CHUNK = 64 * 1024


def is_typed_at_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def standard_input(what: str) -> BufferedReader:
    """The bytes that come in; `what` is what they should be, for the error where nothing can come."""
    if sys.stdin is None:
        raise InvalidValue(f"standard input is closed: there is nothing to read {what} from")
    return sys.stdin.buffer  # type: ignore[return-value]


def all_input(what: str, most: int) -> bytes:
    """All that comes in; of what is longer than `most` bytes, only enough to tell that it is."""
    stream = standard_input(what)
    chunks: list[bytes] = []
    size = 0
    # Not read(), which asks for more behind the end of a part: at a terminal, Ctrl-D would have to be typed twice.
    while size <= most and (chunk := stream.read1(_CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def decoded(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{what} is not valid UTF-8: {error}") from None
