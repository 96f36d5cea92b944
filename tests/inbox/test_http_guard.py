"""Where outgoing webhooks may go: the guard against requests to the inside."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from brant.errors import InvalidValue
from brant.inbox import Destination, HttpDelivery
from brant.outcomes import Dead, Retry
from tests.inbox.odd_server import odd_server, status
from tests.inbox.test_http_delivery import LOCAL, SECRET

INSIDE = [
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",  # metadata of most clouds
    "169.254.170.2",
    "100.64.0.1",
    "100.100.100.200",  # metadata of Alibaba
    "168.63.129.16",  # the inside of Azure
    "192.0.0.192",  # metadata of Oracle
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a00:1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",  # metadata of AWS
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "2606:4700::1%eth0",
]
OUTSIDE = ["1.1.1.1", "172.32.0.1", "192.167.1.1", "2606:4700:4700::1111", "64:ff9b::101:101", "::ffff:8.8.8.8"]
SPELLINGS = ["127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "localhost", "127.0.0.1."]


class Names:
    """A resolver whose answers the test gives, one after the other; the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self._answers[min(len(self.asked), len(self._answers)) - 1]


@pytest.mark.parametrize("address", INSIDE)
def test_a_name_that_leads_inside_is_refused_for_good(address: str) -> None:
    with pytest.raises(Dead, match=r"example\.com is not public"):
        HttpDelivery("https://example.com/", SECRET, resolve=Names([address])).send({})


@pytest.mark.parametrize("address", [one for one in INSIDE if "%" not in one])
def test_an_address_of_the_inside_is_refused_as_it_is(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(Dead, match="is not public"):
        HttpDelivery(f"https://{host}/", SECRET).send({})


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_an_address_gets_around_the_guard(host: str) -> None:
    with pytest.raises((Dead, Retry), match=r"is not public|can't be reached"):
        HttpDelivery(f"https://{host}:1/", SECRET).send({})


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_let_through(address: str) -> None:
    from brant.inbox.outgoing.guard import Guard

    assert Guard((), False, None).allows(address)


@pytest.mark.parametrize("network", ["127.0.0.1", "127.0.0.0/8", ["10.0.0.0/8", "127.0.0.1/32"]])
def test_what_is_allowed_by_name_is_let_through(network: Any) -> None:
    with odd_server(status(204)) as server:
        HttpDelivery(server.url, SECRET, allow=network, allow_http=True).send({})
    assert len(server.requests) == 1


def test_what_is_allowed_is_also_allowed_in_its_other_spelling() -> None:
    from brant.inbox.outgoing.guard import Guard

    guard = Guard(["10.1.0.0/16", "fd00::/8"], False, None)
    assert all(guard.allows(address) for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::1"))
    assert not any(guard.allows(address) for address in ("10.2.2.3", "::ffff:10.2.2.3", "fc00::1", "no address"))


def test_of_several_addresses_only_the_allowed_ones_are_connected_to() -> None:
    names = Names(["10.255.255.1", "::1", "127.0.0.1"])
    with odd_server(status(204)) as server:
        url = f"http://partner.example:{server.port}/"
        HttpDelivery(url, SECRET, resolve=names, allow="127.0.0.1", allow_http=True).send({})
    assert server.requests[0].headers["host"] == f"partner.example:{server.port}"


def test_a_name_that_changes_its_answer_is_judged_by_each_answer_anew() -> None:
    """DNS rebinding: what was checked is what is connected to, and another connection is another check."""
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    with odd_server(status(204)) as server:
        url = f"http://partner.example:{server.port}/"
        delivery = HttpDelivery(url, SECRET, resolve=names, allow="127.0.0.1", allow_http=True)
        delivery.send({})
        assert names.asked == [("partner.example", server.port)], "asked once, and not a second time to connect"
        delivery.send({})
        assert len(names.asked) == 1, "the connection that is kept goes to what was checked"
        delivery.close()
        with pytest.raises(Dead, match="is not public"):
            delivery.send({})
    assert len(server.requests) == 2


def test_a_resolver_that_hangs_does_not_hold_up_the_delivery() -> None:
    answer = threading.Event()

    def hangs(host: str, port: int) -> list[str]:
        answer.wait()
        return ["1.1.1.1"]

    with pytest.raises(Retry, match="did not answer in time"):
        HttpDelivery("https://example.com/", SECRET, resolve=hangs, timeout_s=0.1).send({})
    answer.set()


@pytest.mark.parametrize("answer", [OSError("no such host"), UnicodeError("label too long"), ValueError("odd")])
def test_a_name_that_can_not_be_resolved_is_tried_again(answer: Exception) -> None:
    def fails(host: str, port: int) -> list[str]:
        raise answer

    with pytest.raises(Retry, match="can't be reached"):
        HttpDelivery("https://example.com/", SECRET, resolve=fails).send({})
    with pytest.raises(Retry, match="can't be reached"):
        HttpDelivery("https://example.com/", SECRET, resolve=lambda host, port: []).send({})


BAD_URLS = [
    "",
    "example.com",
    "//example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "http://example.com/",
    "https://",
    "https:///path",
    "https://user:pass@example.com/",
    "https://user@example.com/",
    "https://@example.com/",
    "https://example.com@evil.example/",
    "https://example.com/#fragment",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:http/",
    "https://exam ple.com/",
    "https://example.com/a b",
    "https://example.com/\r\nX: y",
    "https://example.com\\@evil.example/",
    "https://exämple.com/",
    "https://example.com/\x00",
    "https://[::1/",
    "https://[fe80::1%25eth0]/",
    "https://exa$mple.com/",
    "https://example.com/" + "a" * 9000,
    None,
    b"https://example.com/",
]


@pytest.mark.parametrize("url", BAD_URLS, ids=repr)
def test_urls_that_are_not_plain_https_are_refused_and_not_quoted(url: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        HttpDelivery(url, SECRET)
    assert "pass" not in str(refused.value).replace("password", "")
    with pytest.raises(Dead):
        HttpDelivery(lambda payload: Destination(url, SECRET)).send({})


def test_a_function_that_names_no_destination_is_no_delivery() -> None:
    with pytest.raises(Dead, match="gave a str"):
        HttpDelivery(lambda payload: "https://example.com/").send({})  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidValue, match="belongs to the Destination"):
        HttpDelivery(lambda payload: Destination("https://example.com/", SECRET), SECRET)


def test_the_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with odd_server(status(204)) as proxy, odd_server(status(204)) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        HttpDelivery(server.url, SECRET, **LOCAL).send({})
        assert (proxy.connections, server.connections) == (0, 1)
