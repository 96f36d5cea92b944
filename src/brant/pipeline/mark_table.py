"""The table of the sink's marks, in the target itself: `_brant_spark_commits`, a row for each writer."""

from __future__ import annotations

from collections.abc import Sequence

import brant
from brant.pipeline.tables import statement


class MarkTable:
    """Reads and writes marks inside the transactions of whoever writes the rows."""

    def __init__(self, db: brant.Database) -> None:
        self._db = db

    def make(self) -> None:
        """Once: on a server whoever only adds rows need not have the right to make tables."""
        if self._db.schema is None:
            with self._db.transaction() as tx:
                tx.execute(self._sql("create_spark_commits"))
        elif not self._db.query(self._sql("has_spark_commits"))[0]["found"]:
            with self._db.transaction() as tx:
                tx.query(self._sql("lock_spark_commits"))
                tx.execute(self._sql("create_spark_commits"))

    def hold(self, tx: brant.Transaction, app: str) -> tuple[int, str] | None:
        """The last batch and its plan; until the commit nobody else writes as `app`.

        In a file there is one writer at a time anyway. On a server the row is locked, and made first where there is
        none: of two processes, one of them left over from a driver that was killed, the second one waits and then sees
        what the first one wrote.
        """
        if self._db.schema is not None:
            tx.query(self._sql("survive_a_power_cut"))
            tx.execute(self._sql("begin_spark_commit"), [app])
        return _only(tx.query(self._sql("find_spark_commit"), [app]))

    def look(self, app: str) -> tuple[int, str] | None:
        return _only(self._db.query(self._sql("look_at_spark_commit"), [app]))

    def save(self, tx: brant.Transaction, values: Sequence[object]) -> None:
        tx.execute(self._sql("save_spark_commit"), values)

    def _sql(self, name: str) -> str:
        if self._db.schema is None:
            return statement(name)
        from brant.pipeline.postgres import in_schema

        return in_schema(statement(name, "postgres"), self._db.schema)


def _only(rows: Sequence[dict[str, object]]) -> tuple[int, str] | None:
    return (int(str(rows[0]["batch"])), str(rows[0]["plan"])) if rows else None
