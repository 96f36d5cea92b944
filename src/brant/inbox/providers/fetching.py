"""Certificates from the few hosts that may hold them: over https, not redirected, small, in time, and kept."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from brant.inbox.providers.base import CannotVerify, Rejected

Fetch = Callable[[str], bytes]
_TIME_OUT_S = 5
_LARGEST = 64 * 1024
_KEPT_S = 3600
_FAILURE_KEPT_S = 30
_MOST_KEPT = 32
_MINUTE_S, _MOST_FETCHES_A_MINUTE = 60, 10


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None


def fetch(url: str) -> bytes:
    """What stands at an https address. Rejected if it is not there, CannotVerify if it can't be reached now."""
    if not url.startswith("https://"):
        raise Rejected("only https addresses are fetched")
    try:
        with build_opener(_NoRedirect).open(Request(url), timeout=_TIME_OUT_S) as response:  # noqa: S310, checked above
            content: bytes = response.read(_LARGEST + 1)
    except HTTPError as error:
        error.close()
        if error.code >= 500 or error.code == 429:
            raise CannotVerify(f"the certificate's host answered {error.code}") from None
        raise Rejected(f"the certificate's host answered {error.code}") from None
    except (URLError, OSError, ValueError) as error:
        raise CannotVerify(f"the certificate can't be fetched: {type(error).__name__}") from None
    if len(content) > _LARGEST:
        raise Rejected("the certificate is too large")
    return content


def allowed(url: object, hosts: re.Pattern[str]) -> SplitResult | None:
    """The parts of the URL if it is plain https on one of the hosts: no port, no user, no tricks of spelling."""
    if not isinstance(url, str) or not re.fullmatch(r"https://[A-Za-z0-9._~:/?&=%+-]{1,2000}", url, re.ASCII):
        return None
    parts = urlsplit(url)
    return parts if hosts.fullmatch(parts.netloc) else None


class Certificates:
    """Those fetched before, so that a request costs no fetch; failures are kept for a while too.

    Anybody can name an address that looks right, so fetches are limited, and failures drive out no good certificate.
    """

    def __init__(self, given: Fetch | None) -> None:
        self._fetch = given or fetch
        self._good: dict[str, tuple[float, bytes]] = {}
        self._bad: dict[str, tuple[float, Exception]] = {}
        self._fetches: list[float] = []
        self._lock = threading.Lock()

    def get(self, url: str, now: float) -> bytes:
        with self._lock:
            until, good = self._good.get(url, (0.0, None))
            bad_until, failure = self._bad.get(url, (0.0, None))
        if good is not None and _counts(until, now):
            return good
        if failure is None or not _counts(bad_until, now):
            found = self._fetched(url, now)
            self._keep(url, now, found)
            if isinstance(found, bytes):
                return found
            failure = found
        if good is not None and isinstance(failure, CannotVerify):
            return good  # it was right an hour ago, and the host is only away
        raise type(failure)(*failure.args)

    def _fetched(self, url: str, now: float) -> bytes | Exception:
        with self._lock:
            self._fetches = [at for at in self._fetches if abs(now - at) < _MINUTE_S]
            if len(self._fetches) >= _MOST_FETCHES_A_MINUTE:
                return CannotVerify("too many certificates are asked for")
            self._fetches.append(now)
        try:
            return self._fetch(url)
        except (Rejected, CannotVerify) as error:
            return error
        except Exception as error:
            return CannotVerify(f"the certificate can't be fetched: {type(error).__name__}")

    def _keep(self, url: str, now: float, found: bytes | Exception) -> None:
        with self._lock:
            if isinstance(found, bytes):
                _make_room(self._good)
                self._good[url] = (now + _KEPT_S, found)
            else:
                _make_room(self._bad)
                self._bad[url] = (now + _FAILURE_KEPT_S, found)
                if isinstance(found, Rejected):
                    self._good.pop(url, None)


def _counts(until: float, now: float) -> bool:
    # If the clock was set back, what would be kept for far too long was kept by another time.
    return now < until <= now + _KEPT_S


def _make_room(kept: dict[str, Any]) -> None:
    while len(kept) >= _MOST_KEPT:
        del kept[next(iter(kept))]
