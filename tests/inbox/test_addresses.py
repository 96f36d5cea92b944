"""Allow lists, and whose word counts for where a request comes from."""

from __future__ import annotations

import pytest

import brant
from brant.errors import InvalidValue
from brant.inbox.addresses import Networks, sender
from tests.inbox.tiny import signed, tiny

PROXIES = Networks(["10.0.0.0/8", "2001:db8::/32"], "proxies")


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("2001:db8::1", ["[2001:4860::8]:443"], "2001:4860::8"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.1, unknown"], None),
        ("10.0.0.1", ["198.51.100.1,"], None),
        ("10.0.0.1", [""], None),
        (None, ["198.51.100.1"], None),
        ("a-socket", ["198.51.100.1"], None),
    ],
)
def test_the_sender_is_the_last_one_that_no_named_proxy_stands_for(
    peer: str | None, forwarded: list[str], expected: str | None
) -> None:
    assert sender(peer, forwarded, PROXIES) == expected


@pytest.mark.parametrize(
    ("remote", "status"),
    [("192.0.2.9", 204), ("::ffff:192.0.2.9", 204), ("192.0.3.9", 403), (None, 403), ("nonsense", 403)],
)
def test_only_the_addresses_that_an_endpoint_allows_may_send(
    inbox: brant.Inbox, remote: str | None, status: int
) -> None:
    endpoint = tiny(inbox, allow_from="192.0.2.0/24")
    assert endpoint.receive(b"{}", signed(b"{}"), remote=remote).status_code == status
    assert len(inbox.list_deliveries()) == (status == 204)


@pytest.mark.parametrize("given", ["nginx", ["192.0.2.1/24"], [], [None], 5])
def test_an_allow_list_that_can_not_be_meant_is_refused(inbox: brant.Inbox, given: object) -> None:
    with pytest.raises(InvalidValue, match="allow_from"):
        tiny(inbox, allow_from=given)
