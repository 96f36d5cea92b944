"""Where a delivery may go: the URL is checked, its host is resolved once, and what was checked is connected to.

A name that answers with another address the next time (DNS rebinding) gains nothing: it is not asked a next time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from queue import Empty, SimpleQueue
from socket import SOCK_STREAM, getaddrinfo
from urllib.parse import urlsplit

from brant.errors import InvalidValue
from brant.inbox.addresses import Networks

__all__ = ["Guard", "NotAllowed", "Place"]

Resolve = Callable[[str, int], Sequence[str]]
_PORTS = {"https": 443, "http": 80}
_LONGEST_URL = 8000
_PLAIN = re.compile(r"[!-\[\]-~]+", re.ASCII)  # printable ASCII, no space, no backslash
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}", re.ASCII)
_WORLD_6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Public by the registry's books, and yet no place for a webhook.
_NOT_PUBLIC = (
    IPv4Network("168.63.129.16/32"),  # the inside of Azure
    IPv4Network("192.0.0.0/24"),  # of protocols, and of Oracle's metadata
    IPv4Network("192.88.99.0/24"),  # once a relay to IPv6
    IPv6Network("2001::/23"),  # Teredo and others
    IPv6Network("2002::/16"),  # IPv4 inside IPv6, so that anything could be inside
    IPv6Network("3fff::/20"),  # for documentation
)


class NotAllowed(Exception):
    """The guard lets nothing go there; asking again would change nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """A checked URL. `target` is what the request line asks for; it may hold secrets, and so is in no message."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __repr__(self) -> str:
        return f"<Place {self}>"


class Guard:
    """Lets through https to public addresses, and what was allowed besides."""

    def __init__(self, allow: str | Iterable[str], allow_http: bool, resolve: Resolve | None) -> None:
        self._allowed = Networks(allow, "allow")
        self._allow_http = allow_http
        self._resolve = resolve or _by_the_system

    def place(self, url: object) -> Place:
        """The URL's parts; InvalidValue if it can't be used, in words that do not quote it."""
        if not isinstance(url, str) or not _PLAIN.fullmatch(url) or len(url) > _LONGEST_URL:
            raise InvalidValue("the URL must be a text of printable ASCII without spaces; write others as %20 or xn--")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidValue("the URL has no proper host and port") from None
        if parts.scheme not in _PORTS:
            raise InvalidValue("the URL must begin with https://")
        if parts.scheme == "http" and not self._allow_http:
            raise InvalidValue(
                "the URL must begin with https://; plain http has to be allowed: allow_http, --allow-http"
            )
        if "@" in parts.netloc:
            raise InvalidValue("the URL must hold no user and password")
        if "#" in url:
            raise InvalidValue("the URL must hold no fragment (#)")
        if parts.hostname is None or not _HOST.fullmatch(parts.hostname) or port == 0:
            raise InvalidValue("the URL has no proper host and port")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Place(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], target)

    def addresses(self, place: Place, timeout_s: float) -> list[str]:
        """Those of the host that may be connected to, at least one. NotAllowed; OSError if there are none now."""
        found = _literal(place.host) or _within(timeout_s, self._resolve, place)
        allowed = [address for address in dict.fromkeys(found) if self.allows(address)]
        if not allowed and found:
            raise NotAllowed(f"the address of {place.host} is not public; it has to be allowed: allow, --allow")
        if not allowed:
            raise OSError(f"{place.host} has no address")
        return allowed

    def allows(self, address: str) -> bool:
        try:
            meant = _meant(ip_address(address))
        except ValueError:
            return False
        return str(meant) in self._allowed or _is_public(meant)


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address where one is spelled as IPv6."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, IPv6Address) and (address not in _WORLD_6 or address.scope_id):
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def _literal(host: str) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        return []  # a name, or one of the many old spellings of an address, which the system reads


def _by_the_system(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in getaddrinfo(host, port, type=SOCK_STREAM)]


def _within(timeout_s: float, resolve: Resolve, place: Place) -> Sequence[str]:
    """In a thread: the system's resolver knows no time-out."""
    answer: SimpleQueue[Sequence[str] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            answer.put(resolve(place.host, place.port))
        except Exception as error:
            answer.put(error)

    threading.Thread(target=ask, name="brant-resolve", daemon=True).start()
    try:
        found = answer.get(timeout=timeout_s)
    except Empty:
        raise TimeoutError(f"no answer to who {place.host} is") from None
    if isinstance(found, Exception):
        raise OSError(f"{place.host} can't be resolved: {type(found).__name__}") from None
    return found
