"""Which topics the archive holds whole, when the project's list of them changes between two runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake import Batch, BatchLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OTHERS = "*"


@dataclass(frozen=True)
class Held:
    """The topics whose events are all in the lake up to a batch; None: of every topic."""

    topics: frozenset[str] | None
    left: frozenset[str] = frozenset()
    """Once archived and then taken off the list: what came since is missing."""

    @classmethod
    def of(cls, batch: Batch) -> Held:
        topics, left = batch.facts.get("topics"), batch.facts.get("left")
        return cls(_names(topics) if topics is not None else None, _names(left))

    def facts(self) -> dict[str, list[str] | None]:
        return {"topics": None if self.topics is None else sorted(self.topics), "left": sorted(self.left)}

    def followed_by(self, wanted: frozenset[str] | None) -> Held:
        """What is held once the archive goes on with these topics; refuses what would leave a gap."""
        if self.topics is None:
            return self if wanted is None else Held(wanted, self.left | {_OTHERS})
        if wanted is None:
            self._refuse(self.left)
            return Held(None)
        added = wanted - self.topics
        self._refuse(added if _OTHERS in self.left else added & self.left)
        return Held(wanted, self.left | (self.topics - wanted))

    def is_widened_by(self, wanted: frozenset[str] | None) -> bool:
        if self.topics is None:
            return False
        return wanted is None or bool(wanted - self.topics)

    def _refuse(self, again: frozenset[str]) -> None:
        if again:
            raise PipelineError(
                f"archive.topics: {', '.join(sorted(again))} was taken off the list and can't come back: the events "
                "between are not in the lake. Start a new lake, or leave the list as it was"
            )


class Topics:
    """The topics that the project wants, against those that the lake's log tells of."""

    def __init__(self, wanted: tuple[str, ...], log: BatchLog) -> None:
        self.wanted = frozenset(wanted) or None
        self._log = log

    def held_before(self, number: int) -> Held | None:
        """Before a batch; None when it is the first one."""
        earlier = [each for each in self._log.numbers() if each < number]
        return Held.of(self._log.read(earlier[-1])) if earlier else None

    def held_with(self, number: int) -> Held:
        before = self.held_before(number)
        return Held(self.wanted) if before is None else before.followed_by(self.wanted)

    def refuse_unfit(self) -> None:
        self.held_with(self._log.last_complete() + 1)

    def missed(
        self, spark: SparkSession, number: int, options: Mapping[str, str], done: Mapping[str, int]
    ) -> DataFrame | None:
        """Events of topics that are new on the list, from before the place where the query is; None without such."""
        before = self.held_before(number)
        if before is None or before.topics is None or not before.is_widened_by(self.wanted):
            return None
        reader = spark.read.format("brant").options(**options)
        if self.wanted is not None:
            reader = reader.option("subscribePattern", "|".join(map(re.escape, sorted(self.wanted - before.topics))))
        passed = F.broadcast(spark.createDataFrame(list(done.items()), "tenant string, done bigint"))
        events = reader.load().where(~F.col("topic").isin(*before.topics))
        return events.join(passed, "tenant").where("offset <= done").drop("done")


def _names(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list | tuple) else frozenset()
