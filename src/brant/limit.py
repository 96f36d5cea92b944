"""How many jobs may run at once, or start in a span of time: of a key, or of a queue."""

from __future__ import annotations

from brant.arguments import seconds, text_id, whole
from brant.errors import InvalidValue
from brant.storage.limits import LimitRow
from brant.transaction import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from brant.database import Database


class Limit(LimitRow):
    """At most `max_running` jobs at once; at most `max_starts` claims in any `per_s` seconds; or both.

    `key` says for which jobs of the queue: all that were enqueued with the same one.
    """

    __slots__ = ()

    def __new__(
        cls,
        key: str = "",
        max_running: int | None = None,
        max_starts: int | None = None,
        per_s: float | None = None,
    ) -> Self:
        if key != "":
            text_id(key, "the key of a limit")
        if max_running is None and max_starts is None:
            raise InvalidValue("a limit needs max_running, or max_starts and per_s, or all three")
        if (max_starts is None) != (per_s is None):
            raise InvalidValue("max_starts and per_s belong together: so many starts in so many seconds")
        return super().__new__(
            cls,
            key,
            None if max_running is None else whole(max_running, "max_running", minimum=1),
            None if max_starts is None else whole(max_starts, "max_starts", minimum=1),
            None if per_s is None else seconds(per_s, "per_s", above=0),
        )


def limit_of_jobs(limit: object) -> Limit:
    """A limit that names the jobs it is for."""
    checked = _limit(limit)
    if not checked.key:
        raise InvalidValue(
            "the limit of a job needs a key, as in Limit('user:7', max_running=1); set_limit() takes none"
        )
    return checked


def limit_of_task(name: str, limit: object) -> Limit:
    """The limit of a task's jobs: without a key, it is for all of them."""
    checked = _limit(limit)
    return checked if checked.key else Limit(name, *checked[1:])


def limit_of_queue(limit: object) -> Limit:
    checked = _limit(limit)
    if checked.key:
        raise InvalidValue(
            f"set_limit() is for the whole queue and takes no key, not {checked.key!r}; pass that limit to enqueue()"
        )
    return checked


def _limit(limit: object) -> Limit:
    if not isinstance(limit, Limit):
        raise InvalidValue(f"limit must be a brant.limit.Limit, not {limit!r}")
    return limit


class LimitVerbs:
    """A queue's limits."""

    db: Database
    name: str

    def set_limit(self, limit: Limit | None, *, tx: object | None = None) -> None:
        """Limit the queue as a whole, in all processes, from the next claim on; None takes the limit away.

        What runs already goes on. The limit of a key comes with its jobs: see `enqueue`.
        """
        checked = None if limit is None else limit_of_queue(limit)
        with writing(self.db._storage, tx) as session:
            if checked is None:
                session.drop_limit(self.name, "")
            else:
                session.set_limit(self.name, checked)

    def limits(self) -> list[Limit]:
        """The limits that hold: of the queue as a whole (without a key), and of the keys that have jobs."""
        with self.db._storage.reading() as session:
            return [Limit(*row) for row in session.list_limits(self.name)]
