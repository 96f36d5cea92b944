"""The Inbox: endpoints, receiving, handlers' workers and operations, over one Database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from brant.arguments import label, seconds, storable
from brant.errors import BrantError, InvalidValue, TransactionError
from brant.inbox import dispatch
from brant.inbox import receive as receiving
from brant.inbox.committing import Committer, unavailable
from brant.inbox.endpoints import MEGABYTE, Endpoint, OrderingKey, RetryPolicy, Verify, settings_of
from brant.inbox.jobs import Jobs
from brant.inbox.operate import Operations
from brant.inbox.records import EndpointInfo, Received
from brant.inbox.request import Request
from brant.inbox.retention import Retention
from brant.inbox.storing import Parcel, Store
from brant.inbox.tables import QUEUE, RETENTION_QUEUE, prepare, row, rows
from brant.inbox.verification import INVALID, UNVERIFIED, VERIFIED, Verification
from brant.opening import open as open_database
from brant.tasks import registry

if TYPE_CHECKING:
    from concurrent.futures import Future

    from brant.database import Database
    from brant.inbox.asgi import App
    from brant.inbox.providers.base import Incoming, Provider
    from brant.transaction import Transaction
    from brant.worker import Worker

_SYNCHRONOUS = ("FULL", "EXTRA")


class Inbox(Operations, Retention):
    """Webhooks, verified and stored before they are answered, handled later in a transaction.

    What `receive` answers with success survives a power cut: it commits on a handle of its own with full sync.
    `synchronous="NORMAL"` uses the database's own handle instead, and may lose the last receipts in a power cut.
    """

    def __init__(self, db: Database, *, synchronous: str = "FULL", lease_s: float = 60) -> None:
        self.db = db
        self.endpoints: dict[str, Endpoint] = {}
        self._lease_s = seconds(lease_s, "lease_s", above=0)
        self._durability = str(synchronous).upper()
        if self._durability not in (*_SYNCHRONOUS, "NORMAL"):
            raise InvalidValue(f"synchronous must be 'FULL', 'EXTRA' or 'NORMAL', not {synchronous!r}")
        prepare(db)
        self.jobs = Jobs(db, self._lease_s, self._attempts_of)
        self._opening = threading.Lock()
        self._committer: Committer[Parcel] | None = None
        self._durable: Database | None = None
        dispatch.enter(self)

    def __repr__(self) -> str:
        return f"Inbox({self.db!r})"

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Store what was taken, and close the handle that receives; the Database stays open."""
        with self._opening:
            # Also where there was none yet: a closed one takes nothing.
            self._committer = self._committer or Committer(self.db, Store(self.db, self.jobs))
            self._committer.close()
            if self._durable is not None and self._durable is not self.db:
                self._durable.close()

    # Endpoints

    def endpoint(
        self,
        name: str,
        *,
        path: str | None = None,
        provider: str | Provider | None = None,
        options: dict[str, Any] | None = None,
        secrets: Any = None,
        verify: Verify | None = None,
        retry: RetryPolicy | None = None,
        methods: Iterable[str] = ("POST",),
        max_body: int = MEGABYTE,
        max_header_bytes: int = 64 * 1024,
        identify: Callable[[Request], Incoming | list[Incoming]] | None = None,
        ordering_key: OrderingKey = None,
        filter: Callable[[Request, Incoming], bool] | None = None,  # noqa: A002
        publish_to: str | None = None,
        rate_limit: tuple[int, float] | None = None,
        success_status: int = 204,
        max_orphans: int = 1000,
        max_orphan_bytes: int = 16 * MEGABYTE,
        redact: Iterable[str] = (),
        allow_from: str | Iterable[str] | None = None,
    ) -> Endpoint:
        """Register an endpoint in this process, and its name and path in the database; again to change it.

        `verify="none"` takes what anybody sends; without it there must be a provider, and secrets where it needs
        some. `filter` says False for events that are stored and not run; `ordering_key` names what must be handled
        in order; `publish_to` is a stream that gets each new event in the same commit.
        """
        place = f"/{label(name, 'endpoint name')}" if path is None else label(path, "path")
        if not place.startswith("/"):
            raise InvalidValue(f"path must begin with /, not {path!r}")
        settings = settings_of(
            provider=provider,
            options=options,
            secrets=secrets,
            verify=verify,
            retry=retry,
            methods=methods,
            max_body=max_body,
            max_header_bytes=max_header_bytes,
            identify=identify,
            ordering_key=ordering_key,
            filter=filter,
            publish_to=publish_to,
            rate_limit=rate_limit,
            success_status=success_status,
            max_orphans=max_orphans,
            max_orphan_bytes=max_orphan_bytes,
            redact=redact,
            allow_from=allow_from,
        )
        made = self.endpoints.get(name) or Endpoint(self, name, place, settings)
        self._save(made, place, None if settings.provider is None else settings.provider.name)
        made.path, made.settings = place, settings
        self.endpoints[name] = made
        return made

    def _save(self, endpoint: Endpoint, path: str, provider: str | None) -> None:
        now = int(self.db.clock.now())
        with self.db.transaction() as tx:
            taken = row(tx, "endpoint_of_path", path)
            if taken is not None and taken["name"] != endpoint.name:
                raise InvalidValue(f"the path {path!r} is taken by the endpoint {taken['name']!r}")
            saved = rows(tx, "upsert_endpoint", endpoint.name, path, provider, 1, now)[0]
        endpoint.id = saved["id"]

    def endpoint_at(self, path: str) -> Endpoint | None:
        """That of this process."""
        return next((each for each in tuple(self.endpoints.values()) if each.path == path), None)

    def list_endpoints(self) -> list[EndpointInfo]:
        """All that the database knows, by name, also those of other processes."""
        return [
            EndpointInfo(each["name"], each["path"], each["provider"], bool(each["enabled"]), each["created_at"])
            for each in rows(self.db, "endpoint_rows")
        ]

    def pause(self, name: str) -> None:
        """Answer 503 from now on, in all processes, so that senders try again later."""
        self._enable(name, 0)

    def resume(self, name: str) -> None:
        """Receive again."""
        self._enable(name, 1)

    def _enable(self, name: str, enabled: int) -> None:
        with self.db.transaction() as tx:
            if row(tx, "set_enabled", name, enabled) is None:
                raise KeyError(f"there is no endpoint {name!r}")

    def _attempts_of(self, endpoint_id: int) -> int:
        for endpoint in self.endpoints.values():
            if endpoint.id == endpoint_id:
                return endpoint.settings.retry.max_attempts
        return RetryPolicy().max_attempts

    # Receiving

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
        facts = receiving.Facts(event_type, provider_event_id, provider_delivery_id, dedupe_key)
        waiting = self._begin(endpoint, body, headers, query, method, path, remote, facts)
        return waiting if isinstance(waiting, Received) else waiting.result()

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
        told = receiving.Facts(**facts)
        waiting = await asyncio.to_thread(self._begin, endpoint, body, headers, query, method, path, remote, told)
        return waiting if isinstance(waiting, Received) else await asyncio.wrap_future(waiting)

    def _begin(
        self,
        name: str,
        body: bytes | str,
        headers: Any,
        query: Any,
        method: str,
        path: str | None,
        remote: str | None,
        facts: receiving.Facts,
    ) -> Received | Future[Received]:
        """The answer where there is nothing to store, else a promise of it."""
        self._refuse_transaction()
        known = self.endpoints.get(name)
        request = self._request(known, body, headers, query, method, path, remote)
        try:
            if known is None:
                return receiving.unknown(row(self.db, "endpoint_row", name) is not None)
            judged = receiving.judged(known, request, facts, self.db.clock.now())
            if isinstance(judged, Received):
                return judged
            return self._committing().submit(judged)
        except BrantError as error:
            return unavailable(type(error).__name__)

    def _refuse_transaction(self) -> None:
        if self.db.in_transaction:
            # It would wait for the write lock that its caller holds.
            raise TransactionError("receive() inside a transaction: leave its block first, or use ingest(tx=tx)")

    def _request(
        self, known: Endpoint | None, body: Any, headers: Any, query: Any, method: str, path: str | None, remote: Any
    ) -> Request:
        place = path if path is not None else "/" if known is None else known.path
        return Request.of(body, headers, method=method, path=place, query=query, remote=remote)

    def unknown_path(self, path: str) -> Received:
        """What to answer at a path that no endpoint of this process has."""
        return receiving.unknown(row(self.db, "endpoint_of_path", storable(path)) is not None)

    async def refuse_async(self, endpoint: Endpoint, refusal: Received) -> Received:
        """Count what was refused before it was read; tells what to answer, which is 503 while it is paused."""
        try:
            committer = await asyncio.to_thread(self._committing)
            return await asyncio.wrap_future(committer.submit(Parcel.refused(endpoint, refusal)))
        except BrantError:
            return refusal

    def asgi(self, **options: Any) -> App:
        """An ASGI application that receives for all endpoints; the options are those of `brant.inbox.asgi.app`."""
        from brant.inbox.asgi import app

        return app(self, **options)

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
        state = UNVERIFIED if signature_valid is None else VERIFIED if signature_valid else INVALID
        verdict = (
            Verification.invalid(signature_error or "the caller found it invalid")
            if state == INVALID
            else Verification(state, signature_error)
        )
        request = self._request(known, body, headers, query, method, None, None)
        facts = receiving.Facts(event_type, provider_event_id, provider_delivery_id, dedupe_key)
        parcel = receiving.parcel_of(known, request, facts, verdict)
        if tx is not None:
            return Store(self.db, self.jobs)(tx, parcel)
        try:
            return self._committing().submit(parcel).result()
        except BrantError as error:
            return unavailable(type(error).__name__)

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
            self._durable = open_database(self.db.path, synchronous=self._durability, create=False, clock=self.db.clock)
            jobs = Jobs(self._durable, self._lease_s, self._attempts_of)
        return Committer(self._durable, Store(self._durable, jobs))

    # Handling

    def register_tasks(self) -> None:
        """Have the workers of this process, `brant worker` among them, run the handlers."""
        for spec in dispatch.tasks():
            registry().register_queue(spec)

    def worker(self, concurrency: int | None = None, **options: Any) -> Worker:
        """A worker for the handlers of this inbox alone, which looks for lost jobs too; see `brant.worker.Worker`."""
        from brant.worker.pool import default_concurrency

        self.register_tasks()
        self.schedule_recovery()
        return self.db.worker({QUEUE: default_concurrency(concurrency), RETENTION_QUEUE: 1}, **options)

    async def run_worker(
        self, stop_event: asyncio.Event | None = None, concurrency: int | None = None, **options: Any
    ) -> None:
        """Handle events until `stop_event` is set."""
        await self.worker(concurrency, **options).run(stop_event)

    def recover(self, most: int = 1000) -> int:
        """Give open events that lost their job (cancelled, read by the shell) one again; tells how many."""
        return dispatch.recover(self, most)
