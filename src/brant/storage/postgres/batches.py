"""Batches beside other transactions: they are counted and settled by the commit."""

from __future__ import annotations

from collections.abc import Iterable

from brant.storage.batches import BatchVerbs


class PostgresBatchVerbs(BatchVerbs):
    def date_settled(self, batches: Iterable[int]) -> None:  # noqa: ARG002
        """Whatever this transaction settles, it settles now."""
        self.changed("date_batch_changes", self.times())
