"""A dump's rows into Postgres, which takes no text that is not UTF-8."""

from __future__ import annotations

from collections.abc import Mapping

from brant.storage.transfer import FurtherTable, TransferVerbs


class PostgresTransferVerbs(TransferVerbs):
    def load_row(self, table: str, row: Mapping[str, object]) -> None:
        self.changed(f"load_{table}", row)

    def load_further_row(self, table: FurtherTable, row: Mapping[str, object]) -> None:
        self.execute(table.load_sql, [row[column] for column in table.columns])

    def raise_last_id(self, table: str, last_id: int, *, prefix: str = "_honker_") -> None:
        self.rows("raise_last_id", {"prefix": prefix, "table": table, "last_id": last_id})
