"""The rows of a batch on their way into a stream or a queue, through the same calls as any application's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

import brant
from brant.arguments import JsonText
from brant.pipeline.sink_layout import Layout
from brant.pipeline.sink_parts import Part

_MOST_ROWS = 5_000
_MOST_BYTES = 16 * 1024 * 1024

# The values of a few rows by column: lists of one length.
Rows = dict[str, list[Any]]


class Landing:
    """Decodes before the write lock is taken what the messages hold; staged files are read while it is held."""

    def __init__(self, db: brant.Database, layout: Layout, parts: Sequence[Part]) -> None:
        self._put = {"stream": self._publish, "queue": self._enqueue}[layout.table]
        self._name = layout.name
        names = sorted({name for part in parts for name in part.names})
        # Here, since a queue cannot be made inside a transaction.
        self._streams = {name: db.stream(name) for name in names} if layout.table == "stream" else {}
        self._queues = {name: db.queue(name) for name in names} if layout.table == "queue" else {}
        self._rows = [_decoded(part) if part.file is not None else list(_decoded(part)) for part in parts]

    def write(self, tx: brant.Transaction) -> int:
        """Put all rows, in the order of the partitions; tells how many."""
        count = 0
        for rows in self._by_name():
            name, columns = rows
            self._put(name, columns, tx)
            count += len(columns["payload"])
        return count

    def _by_name(self) -> Iterator[tuple[str, Rows]]:
        """Rows of one topic or queue at a time: its own order stays, rows of others may change places with them."""
        for part in self._rows:
            for rows in part:
                if self._name is not None:
                    yield self._name, rows
                else:
                    yield from _split(rows)

    def _publish(self, name: str, rows: Rows, tx: brant.Transaction) -> None:
        self._streams[name].publish_many(rows["payload"], rows.get("key"), tx)

    def _enqueue(self, name: str, rows: Rows, tx: brant.Transaction) -> None:
        put: Callable[..., list[int]] = self._queues[name].enqueue_many
        for payloads, options in _runs(rows):
            put(payloads, tx, **options)


def _decoded(part: Part) -> Iterator[Rows]:
    for batch in part.batches():
        for piece in _pieces(batch):
            rows: Rows = piece.to_pydict()
            rows["payload"] = list(map(JsonText.trusted, rows["payload"]))
            yield rows


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Each goes into one statement, whose size has a limit."""
    row_bytes = batch.nbytes // max(1, batch.num_rows) + 1
    size = max(1, min(_MOST_ROWS, _MOST_BYTES // row_bytes))
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def _split(rows: Rows) -> Iterator[tuple[str, Rows]]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(rows["name"]):
        places.setdefault(name, []).append(place)
    others = [column for column in rows if column != "name"]
    for name, chosen in places.items():
        yield name, {column: [rows[column][place] for place in chosen] for column in others}


def _runs(rows: Rows) -> Iterator[tuple[list[JsonText], dict[str, Any]]]:
    """Neighbours with the same options share a call: the order of the queue stays."""
    columns = [column for column in ("priority", "run_at", "max_attempts", "expires_at") if column in rows]
    if not columns:
        yield rows["payload"], {}
        return
    pairs: Iterable[tuple[JsonText, tuple[Any, ...]]] = zip(
        rows["payload"], zip(*(rows[column] for column in columns), strict=True), strict=True
    )
    for values, run in groupby(pairs, key=itemgetter(1)):
        options = dict(zip(columns, values, strict=True))
        if options.get("priority", 0) is None:
            del options["priority"]
        yield [payload for payload, _ in run], options
