"""One HTTP request as it came in: raw bytes, and every header, also the repeated ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from brant.errors import InvalidValue

__all__ = ["BodyError", "Headers", "Pairs", "Request"]

Pairs = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]
_MOST_FIELDS = 1000


class BodyError(InvalidValue):
    """The body is not what its reader needs: not JSON, not UTF-8, nested too deeply, a number too large."""


class Headers:
    """Name and value pairs in the order of arrival. Names are found in any case; repeats are kept."""

    __slots__ = ("_by_name", "pairs", "size")

    def __init__(self, pairs: Pairs = ()) -> None:
        given = pairs.items() if isinstance(pairs, Mapping) else pairs
        self.pairs: tuple[tuple[str, str], ...] = tuple([(_text(name), _text(value)) for name, value in given])
        self._by_name: dict[str, list[str]] = {}
        self.size = 0
        """Characters of all names and values."""
        for name, value in self.pairs:
            self._by_name.setdefault(name.lower(), []).append(value)
            self.size += len(name) + len(value)

    def all(self, name: str) -> list[str]:
        return list(self._by_name.get(name.lower(), ()))

    def sole(self, name: str) -> str | None:
        """The value if the header came exactly once: of two, nobody can say which one was signed."""
        values = self._by_name.get(name.lower(), ())
        return values[0] if len(values) == 1 else None

    def __iter__(self) -> Any:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        # Values may be credentials.
        return f"<Headers {', '.join(name for name, _ in self.pairs)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """What a provider judges. `headers` may be given as a mapping or as pairs, `query` as the raw text or as pairs."""

    body: bytes = b""
    headers: Headers = field(default_factory=Headers)
    method: str = "POST"
    path: str = "/"
    query: str = ""
    remote: str | None = None
    _parsed: list[Any] = field(default_factory=list, init=False, compare=False)

    @classmethod
    def of(
        cls,
        body: bytes | str = b"",
        headers: Pairs | Headers = (),
        *,
        method: str = "POST",
        path: str = "/",
        query: str | bytes | Pairs = "",
        remote: str | None = None,
    ) -> Request:
        raw = body.encode() if isinstance(body, str) else bytes(body)
        kept = headers if isinstance(headers, Headers) else Headers(headers)
        return cls(raw, kept, method.upper(), path, _query_text(query), remote)

    def with_body(self, body: bytes) -> Request:
        return Request(body, self.headers, self.method, self.path, self.query, self.remote)

    def header(self, name: str) -> str | None:
        """The header's value; None if it is missing or came more than once."""
        return self.headers.sole(name)

    def repeats(self, name: str) -> bool:
        return len(self.headers.all(name)) > 1

    def parameter(self, name: str) -> str | None:
        """The value of a query parameter that came exactly once."""
        values = [value for given, value in fields(self.query) if given == name]
        return values[0] if len(values) == 1 else None

    def json(self) -> Any:
        """The body as JSON, parsed once; BodyError if it is none."""
        if not self._parsed:
            self._parsed.append(_parsed_or_why_not(self.body))
        found = self._parsed[0]
        if isinstance(found, BodyError):
            raise BodyError(*found.args)
        return found

    def document(self) -> dict[str, Any]:
        """The body's JSON object; empty if the body is anything else."""
        value = self._json_or_none()
        return value if isinstance(value, dict) else {}

    def items(self) -> list[Any]:
        """The body's JSON array; empty if the body is anything else."""
        value = self._json_or_none()
        return value if isinstance(value, list) else []

    def form(self) -> list[tuple[str, str]]:
        """The fields of a form, in order, with blanks and repeats; bytes that are no UTF-8 survive as surrogates."""
        return fields(self.body.decode("utf-8", "surrogateescape"))

    def adding(self, *headers: tuple[str, str]) -> Request:
        return Request(
            self.body, Headers((*self.headers.pairs, *headers)), self.method, self.path, self.query, self.remote
        )

    def _json_or_none(self) -> Any:
        try:
            return self.json()
        except BodyError:
            return None

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path} {len(self.body)} bytes>"


def fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=_MOST_FIELDS)
    except ValueError:
        return []


def _query_text(query: str | bytes | Pairs) -> str:
    if isinstance(query, (str, bytes)):
        return _text(query)
    pairs = query.items() if isinstance(query, Mapping) else query
    return urlencode([(_text(name), _text(value)) for name, value in pairs])


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else bytes(value).decode("latin-1")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _parsed_or_why_not(body: bytes) -> Any:
    try:
        return _decoder.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return BodyError("the body is not UTF-8")
    except RecursionError:
        return BodyError("the JSON of the body is nested too deeply")
    except ValueError:
        return BodyError("the body is not JSON")
