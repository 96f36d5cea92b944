"""The options of providers: each name means the same, and is checked in the same way, wherever it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from brant.arguments import seconds
from brant.errors import InvalidValue
from brant.inbox.secrets import Secrets

__all__ = ["checked"]


def checked(name: str, value: Any) -> Any:
    return _CHECKS.get(name, _text)(name, value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidValue(f"{name} must be a printable text that is not empty, not {value!r}")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    several = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    return tuple(_text(name, one) for one in several)


def _prefix(name: str, value: object) -> str:
    return "" if value == "" else _text(name, value)


def _tolerance(name: str, value: object) -> float | None:
    return None if value is None else seconds(value, name, above=0)


def _urls(name: str, value: object) -> tuple[str, ...]:
    urls = _texts(name, value)
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.fragment or not _has_proper_port(parts):
            raise InvalidValue(f"{name} must be the public address, like 'https://example.com/hooks', not {url!r}")
    return urls


def _has_proper_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} must be True or False, not {value!r}")
    return value


def _function(name: str, value: object) -> object:
    if not callable(value):
        raise InvalidValue(f"{name} must be a callable, not {type(value).__name__}")
    return value


def _secret(name: str, value: Any) -> Secrets:
    try:
        return Secrets(value)
    except InvalidValue as error:
        raise InvalidValue(f"{name}: {error}") from None


def _one_of(*allowed: str) -> Callable[[str, object], str]:
    def check(name: str, value: object) -> str:
        if value not in allowed:
            raise InvalidValue(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    return check


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "algorithm": _one_of("sha256", "sha512", "sha384", "sha1"),
    "encoding": _one_of("hex", "base64"),
    "fetch": _function,
    "identity": _one_of("content", "delivery"),
    "on_secret": _function,
    "prefix": _prefix,
    "tolerance_s": _tolerance,
    "topic_arn": _texts,
    "topics": _texts,
    "url": _urls,
    "verify_token": _secret,
    "with_action": _flag,
}
