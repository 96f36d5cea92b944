"""Transactions: Brant's own, and taking part in one of the caller's."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType

from brant.arguments import encode, label, positional
from brant.errors import TransactionError
from brant.storage.base import Storage
from brant.storage.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Transaction:
    """Everything written in the block commits together, or not at all."""

    def __init__(self, storage: Storage, owner: object = None, *, late: bool = False, wait: bool = True) -> None:
        self._storage = storage
        self._owner = owner  # the Database, which closes when nobody holds it any more
        self._block = storage.transaction(wait=wait)
        self._session: Session | None = None
        self._late = late
        self._begins_in: int | None = None

    def __enter__(self) -> Transaction:
        if self._late:
            self._begins_in = threading.get_ident()
        else:
            self._session = self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun, self._session, self._begins_in = self._session is not None, None, None
        if begun:
            self._block.__exit__(kind, error, trace)

    def execute(self, sql: str, params: Iterable[object] | None = None) -> None:
        """Run one statement that returns no rows."""
        self._user_session().execute(sql, positional(params))

    def query(self, sql: str, params: Iterable[object] | None = None) -> list[dict[str, Any]]:
        """Run one statement and give its rows, each a dict by column."""
        return self._user_session().query(sql, positional(params))

    def notify(self, channel: str, payload: object) -> int:
        """Send a notification that listeners get when this transaction commits; gives its id."""
        text = encode(payload)
        with self.session().savepoint() as session:
            return session.notify(label(channel, "channel"), text)

    def bootstrap_honker_schema(self) -> None:
        """Make the tables that are missing; opening a Database has done so already."""
        self.query("SELECT honker_bootstrap()")

    @property
    def schema(self) -> str | None:
        """As `Database.schema`."""
        return self._storage.schema

    @property
    def has_begun(self) -> bool:
        """Whether the write lock is held; from the start of the block, unless it begins late."""
        return self._session is not None

    def session(self) -> Session:
        if self._session is None and self._begins_in == threading.get_ident():
            self._session = self._block.__enter__()
        if self._session is None and self._begins_in is None:
            raise TransactionError("Transaction not started: use it inside its `with` block")
        if self._session is None or not self._storage.in_transaction():
            raise TransactionError("this transaction belongs to another thread; open one in this thread")
        self._storage.require_transaction()
        return self._session

    def _user_session(self) -> Session:
        self.session()
        return self._storage.user_session()


def writing(storage: Storage, tx: object | None) -> AbstractContextManager[Session]:
    """Where a verb writes: a transaction of its own, or inside the one that the caller passed as ``tx=``.

    There in a savepoint, so that a verb that fails leaves nothing of itself in a transaction that goes on.
    """
    if tx is None:
        return storage.transaction()
    if isinstance(tx, Transaction):
        if tx._storage is not storage:
            raise TransactionError("the transaction passed as tx= belongs to another Database")
        return tx.session().savepoint()
    return storage.adopt(tx).savepoint()


def writing_once(storage: Storage, tx: object | None) -> AbstractContextManager[Session]:
    """As `writing`, for a block that calls one verb and no more."""
    return storage.alone() if tx is None else writing(storage, tx)
