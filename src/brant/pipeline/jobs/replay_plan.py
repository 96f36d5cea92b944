"""What a replay takes and in which pieces: decided once, so that a second run goes on where the first was cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom
from pyspark.sql.window import Window

from brant.pipeline.errors import PipelineError
from brant.pipeline.failures import sentence_of
from brant.pipeline.lake import Lake, LakeFile
from brant.pipeline.lake.selection import files_between, folder_value, frame_of
from brant.pipeline.lake.source import BRONZE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEMA = f"{BRONZE_SCHEMA}, long_topic string, batch string"
# A topic of so many bytes has its own name for a folder, however it is spelled there.
_SURELY_SHORT = 80


@dataclass(frozen=True)
class Asked:
    """Which events, and where to. Two runs of one replay must agree on it."""

    to: str
    database: str
    topics: tuple[str, ...]
    where: str | None
    since: str | None
    until: str | None
    tenant: str | None


@dataclass(frozen=True)
class Chunk:
    """Neighbouring events of one tenant, which are written in one transaction."""

    tenant: str
    first: int
    last: int
    rows: int
    first_date: str
    last_date: str


class Selection:
    """The events of the lake that were asked for."""

    def __init__(self, spark: SparkSession, lake: Lake, asked: Asked) -> None:
        self._spark = spark
        self._bronze = lake.bronze()
        self._asked = asked
        self._require_known_topics()

    def rows(self, chunk: Chunk | None = None) -> DataFrame | None:
        """All of them, or those of a chunk; None when no file can hold any."""
        first, last = self._dates if chunk is None else (chunk.first_date, chunk.last_date)
        # Listed anew for each chunk: compaction may have replaced the files.
        files = [file for file in self._files() if first <= (folder_value(file.path, "date") or "") <= last]
        frame = frame_of(self._spark, self._bronze, files, _SCHEMA)
        if frame is None:
            return None
        frame = self._filtered(frame.withColumn("topic", F.coalesce("long_topic", "topic")).drop("long_topic", "batch"))
        if chunk is None:
            return frame
        return frame.where((F.col("tenant") == chunk.tenant) & F.col("offset").between(chunk.first, chunk.last))

    def chunks(self, size: int) -> list[Chunk]:
        rows = self.rows()
        if rows is None:
            return []
        place = F.row_number().over(Window.partitionBy("tenant").orderBy("offset"))
        numbered = rows.select("tenant", "offset", "date", F.floor((place - 1) / size).alias("chunk"))
        found = numbered.groupBy("tenant", "chunk").agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count("*").alias("rows"),
            F.min("date").cast("string").alias("first_date"),
            F.max("date").cast("string").alias("last_date"),
        )
        return [Chunk(**row.asDict()) for row in found.orderBy("tenant", "chunk").drop("chunk").collect()]

    def _filtered(self, frame: DataFrame) -> DataFrame:
        asked = self._asked
        if asked.topics:
            frame = frame.where(F.col("topic").isin(*asked.topics))
        if asked.tenant is not None:
            frame = frame.where(F.col("tenant") == asked.tenant)
        if asked.since is not None:
            frame = frame.where(F.col("created_at") >= F.lit(datetime.fromisoformat(asked.since)))
        if asked.until is not None:
            frame = frame.where(F.col("created_at") < F.lit(datetime.fromisoformat(asked.until)))
        if asked.where is None:
            return frame
        try:
            return frame.where(asked.where)
        except PySparkException as error:
            raise PipelineError(f"where: {sentence_of(error)}") from None

    @cached_property
    def _dates(self) -> tuple[str, str]:
        return (self._asked.since or "0000")[:10], (self._asked.until or "9999")[:10]

    def _files(self) -> list[LakeFile]:
        files = files_between(self._bronze, -1, self._bronze.log.last_complete())
        if any(len(topic.encode()) > _SURELY_SHORT for topic in self._asked.topics) or not self._asked.topics:
            return files
        return [file for file in files if folder_value(file.path, "topic") in self._asked.topics]

    def _require_known_topics(self) -> None:
        files = files_between(self._bronze, -1, self._bronze.log.last_complete())
        known = {topic for file in files if (topic := folder_value(file.path, "topic")) is not None}
        for topic in self._asked.topics:
            if topic not in known and len(topic.encode()) <= _SURELY_SHORT:
                near = get_close_matches(topic, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise PipelineError(f"there is no event of the topic {topic!r} in the lake{hint}")


class KeptPlan:
    """The chunks of a replay by its id, in the lake; kept when it is done, so that its id is not used again."""

    def __init__(self, lake: Lake, replay: str) -> None:
        if not _ID.fullmatch(replay):
            raise PipelineError(f"{replay!r} is no id for a replay: use letters, digits, '.', '_' and '-'")
        self._lake = lake
        self._replay = replay
        self._path = f"_brant/replays/{replay}.json"
        self.lock_path = f"_brant/replays/{replay}.lock"

    def load(self, asked: Asked) -> list[Chunk] | None:
        """None when there is no such replay yet."""
        content = self._lake.files.read(self._path)
        if content is None:
            return None
        try:
            stored = json.loads(content)
            before = Asked(**{**stored["asked"], "topics": tuple(stored["asked"]["topics"])})
            chunks = [Chunk(*values) for values in stored["chunks"]]
        except (ValueError, TypeError, KeyError) as error:
            raise PipelineError(f"{self._lake.root}/{self._path} can't be read: {error}") from None
        changed = [name for name, value in asdict(before).items() if value != asdict(asked)[name]]
        if changed:
            raise PipelineError(
                f"the replay {self._replay!r} was begun with another {', '.join(changed)}: run it as it was begun, or "
                "choose another id"
            )
        return chunks

    def save(self, asked: Asked, chunks: Sequence[Chunk]) -> None:
        stored = {"asked": asdict(asked), "chunks": [list(asdict(chunk).values()) for chunk in chunks]}
        self._lake.files.write(self._path, json.dumps(stored).encode())


def moment(value: datetime | str | float | None, name: str) -> str | None:
    """A time in one form, UTC: 2026-01-31, 2026-01-31T12:00, Unix seconds or a datetime."""
    if value is None:
        return None
    try:
        if isinstance(value, int | float):
            found = datetime.fromtimestamp(value, UTC)
        else:
            found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (ValueError, OverflowError, OSError):
        raise PipelineError(f"{name}: {value!r} is no time: write 2026-01-31 or 2026-01-31T12:00, in UTC") from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat()
