"""Schemes that sign the address: the public one as configured, never what Host or X-Forwarded-* claim."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from brant.errors import InvalidValue
from brant.inbox.request import Request

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def refuse_query(urls: Sequence[str], provider: str) -> None:
    for url in urls:
        if "?" in url:
            raise InvalidValue(f"{provider}: leave the query out of url; it is taken from each request")


def with_query(urls: Sequence[str], request: Request) -> list[str]:
    return [f"{url}?{request.query}" if request.query else url for url in urls]


def with_and_without_port(url: str) -> list[str]:
    """Senders differ in whether they sign the default port."""
    parts = urlsplit(url)
    port, place = _DEFAULT_PORTS[parts.scheme], parts.netloc
    if parts.port is None:
        other = place + port
    elif place.endswith(port):
        other = place.removesuffix(port)
    else:
        return [url]
    return [url, url.replace(f"//{place}", f"//{other}", 1)]
