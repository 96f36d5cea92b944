"""The seam between Brant and a database.

A backend is a `Storage` (connections, transactions, wake-ups) whose sessions run named statements.
The verbs of the domain (`jobs`, `messages`, `streams`, `coordination`, `schedules`, `transfer`) are written once
over those names; a backend brings its SQL under the same names, and may override a verb.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager

from brant.clock import Clock
from brant.storage.rows import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from brant.storage.health import Health
    from brant.storage.session import Session
    from brant.storage.subscription import Subscription

    Row = tuple[Any, ...]
else:
    Row = tuple


class JobRow(NamedTuple):
    """A row of the live table."""

    id: int
    queue: str
    payload: str
    state: str
    priority: int
    run_at: float
    worker_id: str | None
    claim_expires_at: float | None
    attempts: int
    max_attempts: int
    created_at: float
    expires_at: float | None


class MessageRow(NamedTuple):
    """What the shell's verbs need of a live row."""

    id: int
    queue: str
    payload: str
    priority: int
    run_at: float
    attempts: int


class DeadRow(NamedTuple):
    """A row of the dead table."""

    id: int
    queue: str
    payload: str
    priority: int
    run_at: float
    attempts: int
    max_attempts: int
    last_error: str | None
    created_at: float
    died_at: float


class ScheduleRow(NamedTuple):
    """A schedule: Honker's columns, then Brant's own."""

    name: str
    queue: str
    cron_expr: str
    payload: str
    priority: int
    expires_s: float | None
    next_fire_at: int
    enabled: int
    max_attempts: int
    tz: str | None
    missed: str
    last_fire_at: int | None
    error: str | None


def with_text(row: Row) -> Row:
    """The row with its payload, the third column, as text; bytes that are not UTF-8 stay recognisable in it."""
    if isinstance(row[2], str):
        return row
    return (row[0], row[1], row[2].decode("utf-8", "surrogateescape"), *row[3:])


class Statements(ABC):
    """Runs named statements on one connection; what all verbs stand on."""

    clock: Clock

    @abstractmethod
    def rows(self, name: str, params: Mapping[str, object]) -> list[Row]:
        """Run the statement and give all rows it returns."""

    @abstractmethod
    def each(self, name: str, params: Mapping[str, object]) -> Generator[Row, None, None]:
        """Run the statement and give the rows it returns one by one: for more than fit into memory."""

    @abstractmethod
    def each_of(self, sql: str) -> Generator[Row, None, None]:
        """As `each`, for a statement that another statement has written."""

    @abstractmethod
    def changed(self, name: str, params: Mapping[str, object]) -> int:
        """Run the statement and tell how many rows it changed."""

    @abstractmethod
    def execute(self, sql: str, params: Sequence[object]) -> None:
        """Run a statement of the user's that returns no rows."""

    @abstractmethod
    def query(self, sql: str, params: Sequence[object]) -> list[dict[str, Any]]:
        """Run a statement of the user's and give its rows by column name."""

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[Self]:
        """All of the block, or none of it, whatever becomes of the transaction around it; gives the session."""

    def value(self, name: str, params: Mapping[str, object]) -> Any:
        """The first column of the first row, or None when there is no row."""
        found = self.rows(name, params)
        return found[0][0] if found else None

    def now(self) -> float:
        return self.clock.now()

    def times(self) -> dict[str, object]:
        """The parameters by which statements know the time."""
        now = self.now()
        return {"now": now, "second": int(now), "micros": int(now * 1_000_000)}


def moment_after(now: float, seconds: float) -> float:
    """`seconds` from now: in whole seconds, as Honker stores time, unless a fraction was asked for."""
    return int(now) + int(seconds) if seconds == int(seconds) else now + seconds


class Storage(ABC):
    """One database: its connections and its wake-ups."""

    clock: Clock
    target: str
    schema: str | None = None  # of Brant's tables, on a server

    @abstractmethod
    def transaction(self, *, wait: bool = True) -> AbstractContextManager[Session]:
        """A write transaction: commits at the end of the block, rolls back on an exception.

        Without `wait`, DatabaseBusy at once where it would have to wait for another one to end.
        """

    def alone(self) -> AbstractContextManager[Session]:
        """As `transaction()`, for a block of one verb and nothing else: a backend may know a shorter way."""
        return self.transaction()

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A session that reads, and never takes or waits for the write lock."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Session]:
        """A session that reads what was committed at one moment, that of its first read, for as long as it is open.

        Bytes that are not UTF-8 come as surrogate escapes in the text.
        """

    @abstractmethod
    def adopt(self, connection: object) -> Session:
        """A session on a connection of the caller's own: what it writes commits with the caller's work."""

    @abstractmethod
    def user_session(self) -> Session:
        """The session of the open transaction, made ready for statements of the user's own."""

    @abstractmethod
    def require_open(self) -> None:
        """Raise DatabaseClosed unless the database can be used by this process."""

    @abstractmethod
    def retire_old_layout(self) -> None:
        """Take over the jobs of tables that earlier systems left behind, if there are any."""

    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether the calling thread or task is inside `transaction()`."""

    @abstractmethod
    def require_transaction(self) -> None:
        """Raise TransactionError if the open transaction has ended before its block, so that none writes outside it."""

    @abstractmethod
    def subscribe(self) -> Subscription:
        """A doorbell that rings after every commit, from whatever process."""

    @abstractmethod
    def wake(self) -> None:
        """Ring every doorbell of this process, as after a commit: time has jumped, or a waiter shall end."""

    @abstractmethod
    def health(self, *, thorough: bool = False) -> Health: ...

    @abstractmethod
    def compact(self) -> None:
        """Give unused room back to the file system."""

    @abstractmethod
    def backup(self, destination: str) -> None:
        """Make a consistent copy while others go on writing."""

    @abstractmethod
    def close(self) -> None: ...
