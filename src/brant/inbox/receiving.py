"""The receiving side of an Inbox: requests are judged here, and stored by a handle that syncs to disk."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from brant.arguments import storable
from brant.errors import BrantError, InvalidValue, TransactionError
from brant.inbox import receive as receiving
from brant.inbox.committing import Committer, unavailable
from brant.inbox.jobs import Jobs
from brant.inbox.records import Received
from brant.inbox.request import Request
from brant.inbox.storing import Parcel
from brant.inbox.tables import row
from brant.inbox.taking import TakingStore
from brant.inbox.verification import UNVERIFIED, VERIFIED, Verification

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.endpoints import Endpoint
    from brant.transaction import Transaction

_SYNCHRONOUS = ("FULL", "EXTRA", "NORMAL")
# What an event loop judges itself: to hash and parse that much takes less time than to have a thread do it.
_SMALL_BODY = 16 * 1024


class Receiving:
    """What an Inbox does with requests."""

    db: Database
    endpoints: dict[str, Endpoint]
    jobs: Jobs

    def __init__(self, synchronous: str) -> None:
        self._durability = str(synchronous).upper()
        if self._durability not in _SYNCHRONOUS:
            raise InvalidValue(f"synchronous must be 'FULL', 'EXTRA' or 'NORMAL', not {synchronous!r}")
        self._opening = threading.Lock()
        self._committer: Committer[Parcel] | None = None
        self._durable: Database | None = None

    def receive(
        self,
        endpoint: str,
        body: bytes | str,
        headers: Any = (),
        *,
        query: Any = "",
        method: str = "POST",
        path: str | None = None,
        remote: str | None = None,
        event_type: str | None = None,
        provider_event_id: str | None = None,
        provider_delivery_id: str | None = None,
        dedupe_key: str | None = None,
    ) -> Received:
        """Judge and store a request; tells what to answer, and never raises for what was sent.

        `headers` are pairs, so that none that came twice is lost, or a mapping.
        """
        self._refuse_transaction()
        request = self._request(endpoint, body, headers, query, method, path, remote)
        facts = receiving.Facts(event_type, provider_event_id, provider_delivery_id, dedupe_key)
        try:
            judged = self._judged(endpoint, request, facts)
            return judged if isinstance(judged, Received) else self._committing().store(judged)
        except BrantError as error:
            return unavailable(type(error).__name__)

    async def receive_async(
        self,
        endpoint: str,
        body: bytes | str,
        headers: Any = (),
        *,
        query: Any = "",
        method: str = "POST",
        path: str | None = None,
        remote: str | None = None,
        **facts: str | None,
    ) -> Received:
        """As `receive`, with the same arguments; blocks no event loop."""
        self._refuse_transaction()
        request = self._request(endpoint, body, headers, query, method, path, remote)
        return await self.receive_request(endpoint, request, receiving.Facts(**facts))

    async def receive_request(
        self, name: str, request: Request, facts: receiving.Facts | None = None, *, own_loop: bool = False
    ) -> Received:
        """As `receive_async`, for a request that is at hand as a whole.

        `own_loop`: the event loop has nothing else to do, and may wait a moment for a disk that is quick.
        """
        facts, known = facts or receiving.Facts(), self.endpoints.get(name)
        try:
            if known is not None and known.settings.is_quick and len(request.body) <= _SMALL_BODY:
                judged = self._judged(name, request, facts)
            else:
                judged = await asyncio.to_thread(self._judged, name, request, facts)
            if isinstance(judged, Received):
                return judged
            return await self._store_async(judged, own_loop=own_loop)
        except BrantError as error:
            return unavailable(type(error).__name__)

    def _judged(self, name: str, request: Request, facts: receiving.Facts) -> Parcel | Received:
        """What is to be stored; or the answer, where there is nothing to store."""
        known = self.endpoints.get(name)
        if known is None:
            return receiving.unknown(row(self.db, "endpoint_row", name) is not None)
        return receiving.judged(known, request, facts, self.db.clock.now())

    def _refuse_transaction(self) -> None:
        if self.db.in_transaction:
            # It would wait for the write lock that its caller holds.
            raise TransactionError("receive() inside a transaction: leave its block first, or use ingest(tx=tx)")

    def _request(
        self, name: str, body: Any, headers: Any, query: Any, method: str, path: str | None, remote: Any
    ) -> Request:
        known = self.endpoints.get(name)
        place = path if path is not None else "/" if known is None else known.path
        return Request.of(body, headers, method=method, path=place, query=query, remote=remote)

    def unknown_path(self, path: str) -> Received:
        """What to answer at a path that no endpoint of this process has."""
        return receiving.unknown(row(self.db, "endpoint_of_path", storable(path)) is not None)

    async def refuse_async(self, endpoint: Endpoint, refusal: Received) -> Received:
        """Count what was refused before it was read; tells what to answer, which is 503 while it is paused."""
        try:
            return await self._store_async(Parcel.refused(endpoint, refusal))
        except BrantError:
            return refusal

    def ingest(
        self,
        endpoint: str,
        body: bytes | str,
        headers: Any = (),
        *,
        query: Any = "",
        method: str = "POST",
        event_type: str | None = None,
        provider_event_id: str | None = None,
        provider_delivery_id: str | None = None,
        dedupe_key: str | None = None,
        signature_valid: bool | None = True,
        signature_error: str | None = None,
        tx: Transaction | None = None,
    ) -> Received:
        """Store what the caller has verified: None is "by nobody", False stores a delivery without an event.

        With `tx` it commits with that transaction of the Database, and is as durable as that.
        """
        if tx is None:
            self._refuse_transaction()
        known = self.endpoints.get(endpoint)
        if known is None:
            return receiving.unknown(row(self.db, "endpoint_row", endpoint) is not None)
        request = self._request(endpoint, body, headers, query, method, None, None)
        facts = receiving.Facts(event_type, provider_event_id, provider_delivery_id, dedupe_key)
        parcel = receiving.parcel_of(known, request, facts, _verdict_of_caller(signature_valid, signature_error))
        if tx is not None:
            return TakingStore(self.db, self.jobs)(tx, [parcel])[0]
        try:
            return self._committing().store(parcel)
        except BrantError as error:
            return unavailable(type(error).__name__)

    def close(self) -> None:
        """Store what was taken, and close the handle that receives; the Database stays open."""
        with self._opening:
            # Also where there was none yet: a closed one takes nothing.
            self._committer = self._committer or Committer(self.db, TakingStore(self.db, self.jobs))
            self._committer.close()
            if self._durable is not None and self._durable is not self.db:
                self._durable.close()

    async def _store_async(self, parcel: Parcel, *, own_loop: bool = False) -> Received:
        if self._committer is None:
            await asyncio.to_thread(self._committing)
        # A server is over a network: that is for a thread.
        return await self._committing().store_async(parcel, own_loop=own_loop and self.db.schema is None)

    def _committing(self) -> Committer[Parcel]:
        if self._committer is None:
            with self._opening:
                if self._committer is None:
                    self._committer = self._opened()
        return self._committer

    def _opened(self) -> Committer[Parcel]:
        if self._durability == "NORMAL":
            self._durable, jobs = self.db, self.jobs
        else:
            self._durable = self.db.another(synchronous=self._durability)
            jobs = self.jobs.of(self._durable)
        return Committer(self._durable, TakingStore(self._durable, jobs))


def _verdict_of_caller(signature_valid: bool | None, signature_error: str | None) -> Verification:
    if signature_valid is None:
        return Verification(UNVERIFIED, signature_error)
    if signature_valid:
        return Verification(VERIFIED, signature_error)
    return Verification.invalid(signature_error or "the caller found it invalid")
