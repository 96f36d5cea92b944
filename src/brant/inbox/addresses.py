"""Who sends: addresses, networks, and proxies that are believed because they were named."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from brant.errors import InvalidValue

__all__ = ["Networks", "sender"]

# As some proxies write it: 192.0.2.1:4711, [2001:db8::1]:4711 or [2001:db8::1]
_WITH_PORT = re.compile(r"(?:(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}|\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?)", re.ASCII)


class Networks:
    """Networks and single addresses; what is no address is in none of them."""

    def __init__(self, given: str | Iterable[str], what: str) -> None:
        try:
            self._networks = tuple(ip_network(one) for one in ([given] if isinstance(given, str) else given))
        except (TypeError, ValueError) as error:
            raise InvalidValue(f"{what} takes addresses and networks, as in '192.0.2.0/24': {error}") from None

    def __len__(self) -> int:
        return len(self._networks)

    def __contains__(self, address: object) -> bool:
        found = _parsed(address) if isinstance(address, str) else None
        return found is not None and any(found in network for network in self._networks)

    def __repr__(self) -> str:
        return f"<Networks {', '.join(map(str, self._networks))}>"


def sender(peer: str | None, forwarded: Sequence[str], proxies: Networks) -> str | None:
    """The peer; or, if that is a named proxy, whom it names, and so back to the first that is no named proxy.

    None if a proxy names what is no address: what stands further left may have been written by anybody.
    """
    hops = [hop for value in forwarded for hop in value.split(",")]
    address = None if peer is None else _parsed(peer)
    while address is not None and hops and str(address) in proxies:
        address = _parsed(hops.pop())
    return None if address is None else str(address)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    stripped = text.strip()
    with_port = _WITH_PORT.fullmatch(stripped)
    try:
        address = ip_address((with_port[1] or with_port[2]) if with_port else stripped)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
