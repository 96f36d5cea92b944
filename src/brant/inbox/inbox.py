"""The Inbox: endpoints, receiving, handlers' workers and operations, over one Database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from brant.arguments import label, seconds
from brant.errors import InvalidValue
from brant.inbox import dispatch, inboxes
from brant.inbox.endpoints import MEGABYTE, Endpoint, OrderingKey, RetryPolicy, Verify, settings_of
from brant.inbox.jobs import Jobs
from brant.inbox.operate import Operations
from brant.inbox.paces import Paces
from brant.inbox.receiving import Receiving
from brant.inbox.records import EndpointInfo
from brant.inbox.recovery import recover
from brant.inbox.request import Request
from brant.inbox.retention import Retention
from brant.inbox.tables import QUEUE, RETENTION_QUEUE, hold, prepare, row, rows
from brant.tasks import registry

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.asgi import App
    from brant.inbox.providers.base import Incoming, Provider
    from brant.worker import Worker


class Inbox(Operations, Retention, Receiving):
    """Webhooks, verified and stored before they are answered, handled later in a transaction.

    What `receive` answers with success survives a power cut: it commits on a handle of its own with full sync.
    `synchronous="NORMAL"` uses the database's own handle instead, and may lose the last receipts in a power cut.
    """

    def __init__(self, db: Database, *, synchronous: str = "FULL", lease_s: float = 60) -> None:
        self.db = db
        self.endpoints: dict[str, Endpoint] = {}
        self._lease_s = seconds(lease_s, "lease_s", above=0)
        Receiving.__init__(self, synchronous)
        prepare(db)
        self.jobs = Jobs(db, self._lease_s, self._attempts_of)
        self.paces = Paces()
        self.made_at = db.clock.now()
        inboxes.enter(self)

    def __repr__(self) -> str:
        return f"Inbox({self.db!r})"

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        methods: str | Iterable[str] = ("POST",),
        max_body: int = MEGABYTE,
        max_header_bytes: int = 64 * 1024,
        identify: Callable[[Request], Incoming | list[Incoming]] | None = None,
        ordering_key: OrderingKey = None,
        filter: Callable[[Request, Incoming], bool] | None = None,  # noqa: A002
        publish_to: str | None = None,
        rate_limit: tuple[int, float] | None = None,
        success_status: int | None = None,
        max_orphans: int = 1000,
        max_orphan_bytes: int = 16 * MEGABYTE,
        redact: str | Iterable[str] = (),
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
            hold(tx, "endpoints")
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
            self._audit(tx, "resume" if enabled else "pause", 0, {"endpoint": name})

    def _attempts_of(self, endpoint_id: int) -> int:
        for endpoint in self.endpoints.values():
            if endpoint.id == endpoint_id:
                return endpoint.most_attempts
        return RetryPolicy().max_attempts

    def asgi(self, **options: Any) -> App:
        """An ASGI application that receives for all endpoints; the options are those of `brant.inbox.asgi.app`."""
        from brant.inbox.asgi import app

        return app(self, **options)

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
        return recover(self, most)
