"""HttpDelivery: the function of an outbox that posts its payloads."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import ssl
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

import brant
from brant.arguments import seconds, whole
from brant.clock import Clock
from brant.errors import InvalidValue
from brant.inbox.outgoing.breaker import Breakers
from brant.inbox.outgoing.guard import Guard, NotAllowed, Place, Resolve
from brant.inbox.outgoing.signing import Signing
from brant.inbox.outgoing.verdict import Refused, is_worth_a_retry, retry_after_s, statuses
from brant.inbox.outgoing.wire import Answered, Deadline, Wire
from brant.inbox.secrets import SecretUnavailable
from brant.inbox.verification import safe_reason
from brant.job import Job
from brant.outbox import current_delivery
from brant.outcomes import Dead, Retry, Snooze
from brant.worker import current_task

__all__ = ["Destination", "HttpDelivery"]

_NOT_GIVEN: Any = object()
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t -~]*", re.ASCII)
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "expect", "webhook-id", "webhook-timestamp"}
    | {"webhook-signature"}
)


@dataclass(frozen=True)
class Destination:
    """Where one payload goes. `body`, if given, goes instead of the payload: bytes, or what JSON can say."""

    url: str = field(repr=False)
    secret: Any = field(repr=False)
    body: Any = field(default=_NOT_GIVEN, repr=False)


class HttpDelivery:
    """Posts payloads as JSON, signed by Standard Webhooks: `db.outbox("partner", HttpDelivery(url, secret="env:KEY"))`.

    `to` is a URL, or a function of the payload that gives a `Destination`. `secret=None` sends unsigned. Only https to
    public addresses is let through, besides the networks in `allow`, and plain http with `allow_http`. Can be shared
    by threads, and called outside an outbox too.
    """

    def __init__(
        self,
        to: str | Callable[[Any], Destination],
        secret: Any = _NOT_GIVEN,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 20,
        connect_timeout_s: float = 5,
        max_response_bytes: int = 64 * 1024,
        allow: str | Iterable[str] = (),
        allow_http: bool = False,
        retry_statuses: Iterable[int] = (),
        breaker_failures: int | None = 5,
        breaker_rest_s: float = 30,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._guard = Guard(allow, allow_http, resolve)
        self._timeout_s = seconds(timeout_s, "timeout_s", above=0)
        connect_s = seconds(connect_timeout_s, "connect_timeout_s", above=0)
        self._wire = Wire(self._guard, tls, connect_s, whole(max_response_bytes, "max_response_bytes", minimum=0))
        failures = None if breaker_failures is None else whole(breaker_failures, "breaker_failures", minimum=1)
        self._breakers = Breakers(failures, seconds(breaker_rest_s, "breaker_rest_s", above=0))
        self._retry_statuses = statuses(retry_statuses)
        self._headers = _checked_headers(headers or {})
        self._clock = clock
        self._to = self._addressed(to, secret)

    def _addressed(
        self, to: str | Callable[[Any], Destination], secret: Any
    ) -> tuple[Place, Signing | None] | Callable[[Any], Destination]:
        if callable(to):
            if secret is not _NOT_GIVEN:
                raise InvalidValue("the secret belongs to the Destination that the function gives")
            return to
        if secret is _NOT_GIVEN:
            raise InvalidValue("secret is missing; to send what nobody can verify, say secret=None")
        return self._guard.place(to), None if secret is None else Signing(secret)

    def __repr__(self) -> str:
        return f"<HttpDelivery to {self._to[0] if isinstance(self._to, tuple) else 'where its payloads say'}>"

    def __call__(self, payload: Any) -> None:
        """Deliver, or raise what shall become of the job: `Retry`, `Snooze` or `Dead`."""
        self.send(payload)

    async def send_async(self, payload: Any, *, message_id: str | None = None) -> None:
        """As `send`, for an event loop."""
        await asyncio.to_thread(self.send, payload, message_id=message_id)

    def send(self, payload: Any, *, message_id: str | None = None) -> None:
        """Post it once. `message_id` tells the receiver which message it is: give the same for the same message.

        Inside an outbox or a task it follows from the job and the body, and so stays the same over all attempts.
        """
        job = current_delivery() or _job_of_task()
        clock = self._clock or (Clock() if job is None else job.queue.db.clock)
        place, signing, body = self._destined(payload)
        request = self._request(place, signing, body, message_id or _message_id(job, body), clock.now())
        pause = self._breakers.wait(str(place), clock.monotonic(), self._timeout_s)
        if pause is not None:
            raise Snooze(_a_bit_more(pause))
        self._judge(place, self._answered(place, request, clock), clock)

    def close(self) -> None:
        """Close the connections that are kept for the next delivery."""
        self._wire.close()

    def _destined(self, payload: Any) -> tuple[Place, Signing | None, bytes]:
        if isinstance(self._to, tuple):
            return *self._to, _as_bytes(payload)
        destination = self._to(payload)
        if not isinstance(destination, Destination):
            raise Dead(f"the function that names the destination gave a {type(destination).__name__}")
        try:
            place = self._guard.place(destination.url)
            signing = None if destination.secret is None else Signing(destination.secret)
        except InvalidValue as error:
            raise Dead(str(error)) from None
        return place, signing, _as_bytes(payload if destination.body is _NOT_GIVEN else destination.body)

    def _request(self, place: Place, signing: Signing | None, body: bytes, message_id: str, now: float) -> bytes:
        if not message_id.isascii() or not message_id.isprintable() or "." in message_id or " " in message_id:
            raise InvalidValue("message_id must be printable ASCII without dots and spaces")
        try:
            own = [("webhook-id", message_id)] if signing is None else signing.headers(body, message_id, now)
        except (SecretUnavailable, InvalidValue) as error:
            raise Retry(None, f"it can't be signed: {error}") from None
        lines = [
            f"POST {place.target} HTTP/1.1",
            f"Host: {place.authority}",
            *(f"{name}: {value}" for name, value in (self._headers | dict(own)).items()),
            f"content-length: {len(body)}",
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body

    def _answered(self, place: Place, request: bytes, clock: Clock) -> Answered:
        try:
            return self._wire.post(place, request, Deadline(self._timeout_s))
        except NotAllowed as error:
            self._breakers.succeeded(str(place))  # it was never asked
            raise Dead(safe_reason(str(error))) from None
        except TimeoutError:
            reason = f"{place} did not answer in time"
        except (OSError, HTTPException, ValueError) as error:
            # Not the text of what http.client could not read: that is the receiver's.
            told = error.strerror if isinstance(error, OSError) and error.strerror else None
            reason = f"{place} can't be reached: {type(error).__name__}{f': {told}' if told else ''}"
        self._breakers.failed(str(place), clock.monotonic())
        raise Retry(None, safe_reason(reason)) from None

    def _judge(self, place: Place, answered: Answered, clock: Clock) -> None:
        status, reason = answered.status, f"{place} answered {answered.status}"
        if 200 <= status < 300:
            self._breakers.succeeded(str(place))
            return
        if not is_worth_a_retry(status, self._retry_statuses):
            self._breakers.succeeded(str(place))  # it is there, and has judged
            if 300 <= status < 400:
                reason += ", and redirects are not followed"
            raise Refused(reason, status, answered.beginning)
        asked = retry_after_s(answered, clock.now())
        if asked:
            self._breakers.asked_to_wait(str(place), clock.monotonic() + asked)
        elif status >= 500:
            self._breakers.failed(str(place), clock.monotonic())
        else:
            self._breakers.succeeded(str(place))
        # An answer of "at once" gets the backoff all the same.
        raise Retry(_a_bit_more(asked) if asked else None, reason)


def _a_bit_more(wait_s: float) -> float:
    """Never sooner, and not all at once."""
    return max(1.0, wait_s * random.uniform(1.0, 1.1))


def _as_bytes(payload: Any) -> bytes:
    if isinstance(payload, (bytes, bytearray)):
        return bytes(payload)
    try:
        return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Dead(f"what shall be sent is not JSON: {type(error).__name__}") from None


def _job_of_task() -> Job | None:
    try:
        return current_task().job
    except InvalidValue:
        return None


def _message_id(job: Job | None, body: bytes) -> str:
    if job is None:
        return f"msg_{uuid.uuid4().hex}"
    # With the body: a task may send several, and another database may have given out the same id.
    told = hashlib.sha256(f"{job.queue_name}\0{job.id}\0".encode("utf-8", "backslashreplace") + body)
    return f"msg_{told.hexdigest()[:32]}"


def _checked_headers(given: Mapping[str, str]) -> dict[str, str]:
    found = {"content-type": "application/json", "user-agent": f"brant/{brant.__version__}"}
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise InvalidValue(f"{name!r} can't be a header of a delivery")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidValue(f"the value of the header {name} must be a text of printable ASCII")
        found[name.lower()] = value
    return found
