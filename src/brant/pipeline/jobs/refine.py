"""Silver: the events of a topic, typed, each once; what can't be is in quarantine, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812, Spark's own idiom
from pyspark.sql.types import StringType, StructField, StructType

from brant.failpoint import failpoint
from brant.pipeline.checkpoint import Checkpoint
from brant.pipeline.errors import PipelineError, sentence
from brant.pipeline.inference import inferred
from brant.pipeline.jobs import parsing
from brant.pipeline.jobs.private import cleaned, salt_for, with_rules_kept
from brant.pipeline.jobs.steps import Step
from brant.pipeline.kept_schemas import INFER, VARIANT, KeptSchema, KeptSchemas
from brant.pipeline.lake import Lake, LakeTable
from brant.pipeline.lake.clocked import CLOCKED_FORMAT, ClockedLakeSource
from brant.pipeline.lake.selection import files_between, frame_of
from brant.pipeline.lake.source import BRONZE_SCHEMA
from brant.pipeline.project import Project, Silver, seconds
from brant.pipeline.runner import Progress, Query, run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SAMPLE_FILES = 10
_SAMPLE_ROWS = 2_000
_SAMPLE_BYTES = 100_000
_PARTITION = "date"
_AS_WRITTEN = "as written"
# Names that a silver table has anyway: a field of the payload with such a name gets a _ behind it.
_TAKEN = ("date", "batch", "_offset", "_tenant", "_key", "_created_at", "_extra")


def refine(
    spark: SparkSession,
    project: Project,
    *,
    only: tuple[str, ...] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Bring the silver tables, or `only` some of them, up to what is in bronze now."""
    run(queries(spark, project, Lake.of(project), only=only), on_progress)


def queries(spark: SparkSession, project: Project, lake: Lake, *, only: tuple[str, ...] = ()) -> list[Query]:
    """One for each silver table, ready to be started; none for a table that has no events yet to be inferred from."""
    unknown = set(only) - {table.name for table in project.silver}
    if unknown:
        raise PipelineError(f"there is no silver table {', '.join(sorted(unknown))} in the project")
    spark.dataSource.register(ClockedLakeSource)
    wanted = [table for table in project.silver if not only or table.name in only]
    kept = [(table, settled_schema(spark, lake, table)) for table in wanted]
    return [_query(spark, project, lake, table, schema) for table, schema in kept if schema is not None]


def query_name(table: Silver) -> str:
    return f"refine-{table.name}"


def settled_schema(spark: SparkSession, lake: Lake, table: Silver) -> KeptSchema | None:
    """The schema to read payloads by: as declared, or as inferred once and kept."""
    kept = KeptSchemas(lake.files, table.name)
    has_rows = _written(lake, table).last() is not None
    if table.schema == VARIANT:
        return kept.settle(VARIANT, StructType(), bool(table.key), has_rows=has_rows)
    columns = _columns(spark, lake, table, kept.last())
    if columns is None:
        return None
    columns = with_rules_kept(columns, table, inferred=table.schema == INFER)
    parsing.require_columns(table, columns)
    return kept.settle(table.schema, columns, bool(table.key), has_rows=has_rows)


def _written(lake: Lake, table: Silver) -> KeptSchemas:
    """The columns as they are in the files of silver, behind rules and steps."""
    return KeptSchemas(lake.files, table.name, ".written")


def _columns(spark: SparkSession, lake: Lake, table: Silver, last: KeptSchema | None) -> StructType | None:
    if table.schema != INFER:
        try:
            columns = StructType.fromDDL(table.schema)
        except PySparkException as error:
            raise PipelineError(f"silver.{table.name}.schema is no schema: {sentence(error)}") from None
        if not isinstance(columns, StructType):
            raise PipelineError(f"silver.{table.name}.schema is no schema: name columns, as in id bigint, at timestamp")
        return _nullable(columns)
    if last is not None:
        return last.columns
    found = next(filter(None, map(inferred, _samples(spark, lake, table))), None)
    named = [path for path in (*table.key, table.event_time or "") if path and "." not in path]
    if found is None:
        return None
    # What settings name is a column, whether the sample had it or not.
    return StructType([*found, *(StructField(name, StringType()) for name in named if name not in found.names)])


def _nullable(columns: StructType) -> StructType:
    """A field may always be missing from a payload, whatever NOT NULL says: that is no reason to invent a value."""
    return StructType([StructField(field.name, field.dataType) for field in columns])


def _samples(spark: SparkSession, lake: Lake, table: Silver) -> Iterator[list[str]]:
    """Payloads of the topic, from its first batches on: the first ones may all be broken."""
    bronze = lake.bronze()
    files = files_between(bronze, -1, bronze.log.last_complete(), table.topic)
    for start in range(0, len(files), _SAMPLE_FILES):
        frame = frame_of(spark, bronze, files[start : start + _SAMPLE_FILES], f"{BRONZE_SCHEMA}, batch string")
        if frame is not None:
            small = frame.select("payload").where(F.octet_length("payload") <= _SAMPLE_BYTES)
            yield [row.payload for row in small.limit(_SAMPLE_ROWS).collect()]


def _query(spark: SparkSession, project: Project, lake: Lake, table: Silver, schema: KeptSchema) -> Query:
    step = Step(f"silver.{table.name}", table.sql, table.python, project.folder)
    checkpoint = Checkpoint(lake.files, query_name(table))
    writer = _Writer(lake, table, schema, step, checkpoint)
    return Query(checkpoint.query, _rows(spark, lake, table, schema).writeStream, writer, checkpoint)


def _rows(spark: SparkSession, lake: Lake, table: Silver, schema: KeptSchema) -> DataFrame:
    """Good rows and bad ones in one frame, told from each other by `_reason`; duplicates are gone."""
    events = (
        spark.readStream.format(CLOCKED_FORMAT)
        .option("lake", lake.root)
        .option("table", "bronze/events")
        .option("topic", table.topic)
        .load()
    )
    variant = schema.is_variant
    rows = parsing.parsed_variant(events, table) if variant else parsing.parsed(events, table, schema.columns)
    rows = _once(rows, table) if table.key else rows
    return _without_secrets(rows, table, schema)


def _once(rows: DataFrame, table: Silver) -> DataFrame:
    """A bad row has an id of its own, so that two of them are never taken for one."""
    own = F.to_json(F.struct("tenant", "offset", F.lit(True).alias("bad")))
    identity = F.when(F.col("_reason").isNull(), F.col("_identity")).otherwise(own)
    rows = rows.withColumn("_id", F.sha2(identity, 256))
    rows = rows.withWatermark("clock", f"{seconds(table.dedupe_within)} seconds")
    return rows.dropDuplicatesWithinWatermark(["_id"]).drop("_id")


def _without_secrets(rows: DataFrame, table: Silver, schema: KeptSchema) -> DataFrame:
    """Rules applied. Of a bad payload that a rule might concern, only its size and hash are kept."""
    payload = F.col("payload")
    is_bad = F.col("_reason").isNotNull()
    rows = rows.withColumn("_bytes", F.octet_length(payload)).withColumn(
        "_sha256", F.when(is_bad, F.sha2(payload, 256))
    )
    if schema.is_variant:
        return rows
    rows = rows.withColumn("_data", cleaned(F.col("_data"), schema.columns, table, salt_for(table)))
    kept = F.lit(None).cast("string") if table.redact or table.hash else F.when(is_bad, payload)
    return rows.withColumn("payload", kept)


class _Writer:
    """Writes the two tables of a batch. Each takes a batch that is tried again for the same one."""

    def __init__(self, lake: Lake, table: Silver, schema: KeptSchema, step: Step, checkpoint: Checkpoint) -> None:
        self._silver = lake.table(f"silver/{table.name}")
        self._quarantine = lake.table(f"quarantine/{table.name}")
        self._written = _written(lake, table)
        self._bronze = lake.bronze()
        self._topic = table.topic
        self._schema = schema
        self._step = step
        self._checkpoint = checkpoint

    def __call__(self, frame: DataFrame, number: int) -> None:
        plan = self._checkpoint.plan(number)
        # Computed once: which of two duplicates comes first may not be the same a second time.
        frame.persist()
        try:
            facts = self._counts(frame, number)
            if self._is_written(number, plan):
                return  # the frame had to be computed all the same: the state of the deduplication goes with the batch
            good = self._good(frame.where("_reason IS NULL")) if facts["good"] else None
            bad = _bad(frame.where("_reason IS NOT NULL")) if facts["late"] or facts["malformed"] else None
            failpoint("refine.before_write")
            # Without the plan, so that a second try writes both: its schema may be another one.
            self._write(self._quarantine, bad, number, "", facts)
            with self._step.named():
                self._write(self._silver, good, number, plan, facts)
            failpoint("refine.after_write")
            if good is not None:
                self._written.settle(_AS_WRITTEN, good.schema, self._schema.deduplicated)
        finally:
            frame.unpersist()

    def _is_written(self, number: int, plan: str) -> bool:
        """By an earlier try, to the end: silver comes last."""
        last = self._silver.log.last()
        return last is not None and (last.number, last.plan, last.complete) == (number, plan, True)

    def _write(self, table: LakeTable, rows: DataFrame | None, number: int, plan: str, facts: dict[str, int]) -> None:
        query, told = self._checkpoint.query_id(), {**facts, "schema": self._schema.version}
        if rows is not None:
            table.write_batch(rows, number, query, plan, **told)
        else:
            # Spark takes longer to write nothing than one would think, and most batches have nothing for quarantine.
            table.stage(number)
            table.land(number, query, plan, **told)

    def _counts(self, frame: DataFrame, number: int) -> dict[str, int]:
        kinds = frame.groupBy(F.split("_reason", ":")[0].alias("kind")).count().collect()
        found = {row["kind"]: int(row["count"]) for row in kinds}
        read = self._read(number)
        return {
            "read": read,
            "good": found.get(None, 0),
            "late": found.get(parsing.LATE, 0),
            "malformed": found.get("malformed", 0),
            "duplicates": read - sum(found.values()),
        }

    def _read(self, number: int) -> int:
        """The rows of the topic in the batches of bronze that this batch reads, by the log."""
        before = self._checkpoint.offsets(number - 1)["batch"] if number else -1
        files = files_between(self._bronze, before, self._checkpoint.offsets(number)["batch"], self._topic)
        return sum(file.rows for file in files)

    def _good(self, rows: DataFrame) -> DataFrame:
        rows = rows.select(*self._data_columns(), *_facts(), F.to_date("_event_time").alias(_PARTITION))
        made = self._step.applied({"input": rows}) if self._step.exists else rows
        if _PARTITION not in made.columns:
            raise PipelineError(
                f"{self._silver.name.replace('/', '.')}: its step drops the column date, which says in which "
                f"folder a row is: keep it, as SELECT * does"
            )
        # A rule or a step may make another type of a column, which no reader could put together with the old files.
        self._written.require_fitting(_AS_WRITTEN, made.schema, self._schema.deduplicated)
        return made

    def _data_columns(self) -> list[Column]:
        if self._schema.is_variant:
            return [F.try_parse_json("payload").alias("payload")]
        data = F.col("_data")
        names = self._schema.columns.names
        return [data.getField(name).alias(f"{name}_" if name.lower() in _TAKEN else name) for name in names] + [
            F.col("_extra")
        ]


def _facts() -> list[Column]:
    return [F.col(name).alias(f"_{name}") for name in ("offset", "tenant", "key", "created_at")]


def _bad(rows: DataFrame) -> DataFrame:
    return rows.select(
        F.col("_reason").alias("reason"),
        "offset",
        "tenant",
        "key",
        "created_at",
        "payload",
        F.col("_sha256").alias("payload_sha256"),
        F.col("_bytes").alias("payload_bytes"),
        F.to_date("created_at").alias(_PARTITION),
    )
