"""Checks of what callers pass in: each error names the value and what is allowed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from brant.errors import InvalidValue, QueueNameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_NAME = 512
_SHELL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LARGEST = 2**63 - 1
_SQL_TYPES = (int, float, str, bytes, bytearray, memoryview, type(None))
_PLAIN_SQL_TYPES = frozenset(_SQL_TYPES)
_LONGEST_S = 2**62  # added to the present time it still fits into SQLite's 64 bits


def queue_name(name: object) -> str:
    """Any printable name: a file may hold queues that other programs named."""
    checked = _printable(name)
    if checked is None:
        raise QueueNameError(f"Invalid queue name {name!r}: use 1 to {_LONGEST_NAME} printable characters")
    return checked


def shell_name(name: object) -> str:
    """A name that is safe to type in a shell, which is what the shell's verbs make."""
    checked = queue_name(name)
    if not is_shell_name(checked):
        raise QueueNameError(
            f"Invalid queue name {name!r}: use letters, digits, '_', '.' and '-', and begin with a letter, digit or '_'"
        )
    return checked


def is_shell_name(name: str) -> bool:
    return _SHELL_NAME.fullmatch(name) is not None


def label(name: object, what: str) -> str:
    """The name of a stream, channel, lock and so on."""
    checked = _printable(name)
    if checked is None:
        raise InvalidValue(f"{what} {name!r}: use 1 to {_LONGEST_NAME} printable characters")
    return checked


def _printable(name: object) -> str | None:
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable():
        return name
    return None


def text_id(value: object, what: str) -> str:
    """A worker id or a unique key: any text that SQLite can store."""
    if not isinstance(value, str) or not value or storable(value) != value:
        raise InvalidValue(f"{what} must be a text that is not empty and is valid Unicode, not {value!r}")
    return value


def storable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 can't say, spelled out: an error's text may hold some."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def whole(value: object, what: str, *, minimum: int = -_LARGEST, maximum: int = _LARGEST) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not minimum <= value <= maximum:
        bounds = f" of at least {minimum}" if minimum > -_LARGEST else ""
        raise InvalidValue(f"{what} must be a whole number{bounds}, not {value!r}")
    return int(value)


def seconds(value: object, what: str, *, minimum: float = -math.inf, above: float = -math.inf) -> float:
    number = value if isinstance(value, (int, float)) else math.nan
    # No isfinite(): it fails on an int that is too large for a float. NaN fails every comparison.
    if not -_LONGEST_S <= number <= _LONGEST_S or number < minimum or number <= above:
        bound = "positive" if above == 0 else "0 or more" if minimum == 0 else "finite"
        raise InvalidValue(f"{what} must be a {bound} number of seconds, not {value!r}")
    return number


def moment(value: object, what: str) -> float | None:
    """A point in time as Unix seconds, from a number or a datetime (a naive one is local time)."""
    if value is None:
        return None
    if isinstance(value, datetime):
        value = value.timestamp()
    return seconds(value, what)


class JsonText(str):
    """A payload that is JSON text already: stored as it is, and not encoded once more."""

    __slots__ = ()

    def __new__(cls, text: str) -> JsonText:
        try:
            _decode_strictly(text)
        except RecursionError:
            raise InvalidValue("the JSON is nested too deeply") from None
        except ValueError as error:
            raise InvalidValue(f"this is not JSON: {error}") from None
        return str.__new__(cls, text)

    @classmethod
    def trusted(cls, text: str) -> JsonText:
        """Without the check, for a text that has passed it before."""
        return str.__new__(cls, text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


_decode_strictly = json.JSONDecoder(parse_constant=_refuse_constant).decode


def encode(payload: object) -> str:
    """The payload as JSON text; TypeError for what JSON can't say."""
    if type(payload) is JsonText:
        return str(payload)
    try:
        return _encode(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the payload is not JSON: {error}") from error


def _encoder() -> Callable[[object], str]:
    """Not json.dumps, nor an encoder's method: they make it anew in each call, as long as a small payload takes."""
    plain = json.JSONEncoder(allow_nan=False)
    make = getattr(json.encoder, "c_make_encoder", None)  # not in every Python
    if make is None:
        return plain.encode
    # Without a look for circles, which end as what is nested too deeply.
    pieces = make(None, plain.default, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, False)
    return lambda payload: "".join(pieces(payload, 0))


_encode = _encoder()


def decode(text: str) -> Any:
    try:
        return None if text == "" else json.loads(text)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def decode_or_text(text: str) -> Any:
    """The payload; the text itself where another program stored what is not JSON, or is nested too deeply to read."""
    try:
        return decode(text)
    except ValueError:
        return text


def positional(params: Iterable[object] | None) -> tuple[object, ...]:
    if params is None:
        return ()
    if type(params) is not tuple and isinstance(params, (Mapping, str, bytes, bytearray, memoryview)):
        raise TypeError(f"parameters must be a positional sequence of values, not {type(params).__name__}")
    values = tuple(params)
    if _PLAIN_SQL_TYPES.issuperset(map(type, values)):
        return values
    for position, value in enumerate(values, start=1):
        # Left to itself, the sqlite3 module would store a datetime as text of some format.
        if not isinstance(value, _SQL_TYPES):
            raise TypeError(
                f"parameter {position} has the type {type(value).__name__}; use None, bool, int, float, str or bytes"
            )
    return values
