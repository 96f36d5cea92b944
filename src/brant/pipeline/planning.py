"""What is to be read of each file: positions, subscriptions, and whether something is missing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from brant.config import without_password
from brant.pipeline.errors import PipelineError
from brant.pipeline.extents import Extent
from brant.pipeline.options import EARLIEST, LATEST, Position, ReadOptions
from brant.pipeline.shelf import NoTables, Shelf, open_shelf
from brant.pipeline.tenants import Tenants

Names = Sequence[str] | None


class Planner:
    """Looks at the files of a path on behalf of a reader."""

    def __init__(self, options: ReadOptions, *, is_stream: bool = False) -> None:
        self.options = options
        self._is_stream = is_stream
        self.tenants = Tenants(options.path)

    def open(self, path: str) -> Shelf:
        return open_shelf(path, self.options.table, keep=self._is_stream)

    def has_table(self, path: str) -> bool:
        try:
            with self.open(path) as shelf:
                shelf.require_tables()
        except NoTables:
            return False
        return True

    def names_in(self, shelf: Shelf) -> Names:
        """The topics or channels to be read, None for all."""
        if self.options.table.topic is not None:
            return [self.options.table.topic]
        return self.chosen(shelf)

    def chosen(self, shelf: Shelf) -> tuple[str, ...] | None:
        """What `subscribe` or `subscribePattern` chooses of what is there; None for all."""
        if self.options.pattern is None:
            return self.options.names
        wanted = re.compile(self.options.pattern)
        return tuple(name for name in shelf.names() if wanted.fullmatch(name))

    def known_names(self, shelf: Shelf) -> set[str]:
        """Of the names asked for, those that are there; all of them where one is not, to find what was meant."""
        asked = (self.options.names or ()) if self.options.table.name == "stream" else ()
        missing = [name for name in asked if shelf.first_of(name, 0) is None]
        return set(shelf.names()) if missing else set(asked)

    def first_position(self, shelf: Shelf, names: Names) -> int:
        """Just before the first row there is to read."""
        first, last = shelf.bounds()
        if names is not None:
            found = [offset for name in names if (offset := shelf.first_of(name, 0)) is not None]
            first = min(found, default=None)
        return last if first is None else first - 1

    def start_of(self, tenant: str, shelf: Shelf, position: Position) -> int:
        """The cursor behind which reading begins."""
        if position.timestamp is not None:
            return shelf.before_time(position.timestamp)
        offset = position.of(tenant, EARLIEST)
        if offset == EARLIEST:
            return self.first_position(shelf, self.names_in(shelf))
        return shelf.head(self.names_in(shelf)) if offset == LATEST else max(0, offset - 1)

    def end_of(self, tenant: str, shelf: Shelf, position: Position) -> int:
        """The last cursor to be read: offsets and times that a read ends at are not part of it."""
        last = shelf.end(self.names_in(shelf))
        if position.timestamp is not None:
            return min(last, shelf.before_time(position.timestamp))
        offset = position.of(tenant, LATEST)
        if offset == EARLIEST:
            raise PipelineError("option 'endingOffsets' cannot be earliest: nothing would be read")
        return last if offset == LATEST else min(last, max(0, offset - 1))

    def extents(self, tenant: str, path: str, names: Names, after: int, until: int) -> list[Extent]:
        if names is None:
            return [Extent(tenant, path, after, until)]
        only = self.options.names if self.options.table.topic is not None else None
        return [Extent(tenant, path, after, until, name, only) for name in names]

    def check_complete(self, path: str, shelf: Shelf, after: int, until: int | None = None) -> None:
        """Raise where rows behind `after` are gone that this reader has not seen."""
        if not self.options.fail_on_data_loss:
            return
        _, last = shelf.bounds()
        expected = after if until is None else until
        if last < expected:
            raise _loss(path, f"it ends at {last} but was read up to {expected}: is it an older copy?")
        if self.options.table.stored_in != "stream":
            if self.options.table.optional and until is not None:
                self._check_no_gap(path, shelf, after, until)
            return  # the ids of notifications have gaps by nature
        missing = self._missing(shelf, after, last)
        if missing is not None:
            raise _loss(path, f"events {missing[0]} to {missing[1]} were removed before they were read")

    def _check_no_gap(self, path: str, shelf: Shelf, after: int, until: int) -> None:
        """Each id was given to a row. The inbox's retention deletes by age and status, anywhere in between."""
        if shelf.has_gaps or self.names_in(shelf) is not None:
            return  # nobody knows whose the missing ones were
        gone = until - after - shelf.count(after, until)
        if gone:
            raise _loss(path, f"{gone} {self.options.table.name} were removed before they were read")

    def _missing(self, shelf: Shelf, after: int, last: int) -> tuple[int, int] | None:
        if shelf.has_gaps:
            return None  # a gap may be that of a transaction that was rolled back
        first, _ = shelf.bounds()
        names = self.names_in(shelf)
        if names is None or first is None:
            begin = last + 1 if first is None else first
        elif self.options.consumer is not None:
            return None  # retention waits for a named consumer; other topics' gaps are no concern
        else:
            if any((offset := shelf.first_of(name, 0)) is not None and offset <= after for name in names):
                return None  # retention takes the oldest first, and those are still here
            ahead = [offset for name in names if (offset := shelf.first_of(name, after)) is not None]
            if not ahead:
                return None
            begin = min(ahead)
            if shelf.count(after, begin - 1) == begin - 1 - after:
                return None  # all there is in between belongs to other topics
        return (after + 1, begin - 1) if begin > after + 1 else None

    def require_known(self, known: set[str]) -> None:
        """A topic that no file has is a typing error, in a read that ends."""
        if self.options.table.name != "stream" or self.options.names is None:
            return
        for name in self.options.names:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise PipelineError(f"there is no event of the topic {name!r} in {self.tenants}{hint}")


def _loss(path: str, what: str) -> PipelineError:
    return PipelineError(
        f"data loss in {without_password(path)}: {what}; to go on with what is there set failOnDataLoss=false"
    )
