"""What Spark has noted of a query: which batches it planned, which it has finished, and up to where."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from brant.pipeline.errors import PipelineError
from brant.pipeline.lake.files import LakeFiles


@dataclass(frozen=True)
class Checkpoint:
    """The progress of one query, read from its folder in the lake; Spark itself is not asked."""

    files: LakeFiles
    query: str

    @property
    def folder(self) -> str:
        return f"_checkpoints/{self.query}"

    @property
    def url(self) -> str:
        """For Spark's `checkpointLocation`."""
        return self.files.url(self.folder)

    @property
    def exists(self) -> bool:
        return self.files.exists(f"{self.folder}/metadata")

    def query_id(self) -> str:
        """Spark's id of the query: the same for as long as the checkpoint is."""
        content = self.files.read(f"{self.folder}/metadata")
        if content is None:
            raise PipelineError(f"the checkpoint of {self.query} has no metadata: {self.url}")
        return str(json.loads(content)["id"])

    def last_planned(self) -> int:
        return self._last("offsets")

    def last_finished(self) -> int:
        """-1 when there is none."""
        return self._last("commits")

    def offsets(self, batch: int) -> dict[str, int]:
        """Up to where the batch reads its source."""
        content = self.files.read(f"{self.folder}/offsets/{batch}")
        if content is None:
            raise PipelineError(f"the checkpoint of {self.query} has lost its batch {batch}: {self.url}")
        # A line for the version, one for Spark's own facts, then one for each source.
        lines = content.decode().splitlines()
        return {str(name): int(offset) for name, offset in json.loads(lines[2]).items()}

    def plan(self, batch: int) -> str:
        """In short what a batch reads, once no power cut can take that plan away: the same batch has the same."""
        path = f"{self.folder}/offsets/{batch}"
        content = self.files.read(path)
        if content is None:
            raise PipelineError(f"the checkpoint of {self.query} has no plan of batch {batch}: {self.url}")
        for durable in (path, f"{self.folder}/offsets", f"{self.folder}/metadata", self.folder):
            self.files.sync(durable)
        return hashlib.sha256(content).hexdigest()

    def position_in_lake(self) -> int | None:
        """The batch of a lake's table up to which the query is done; None when it reads no such table."""
        planned = self.last_planned()
        if planned < 0 or not self._batches_read(planned):
            return None
        finished = self.last_finished()
        return -1 if finished < 0 else min(self._batches_read(finished), default=-1)

    def _batches_read(self, batch: int) -> list[int]:
        content = self.files.read(f"{self.folder}/offsets/{batch}") or b""
        sources = [json.loads(line) for line in content.decode().splitlines()[2:] if line.startswith("{")]
        return [int(source["batch"]) for source in sources if "batch" in source]

    def forget_half_a_start(self) -> None:
        """What a driver left that ended while it wrote down its first batch: Spark would not start beside it."""
        if self.last_planned() >= 0:
            return
        for log in ("offsets", "commits"):
            for name in self.files.names(f"{self.folder}/{log}"):
                if name.startswith("."):
                    self.files.remove(f"{self.folder}/{log}/{name}")

    def make_durable(self, batch: int) -> None:
        """Spark does not sync its notes: what is deleted because of them must not come back as undone."""
        for log in ("offsets", "commits"):
            self.files.sync(f"{self.folder}/{log}/{batch}")
            self.files.sync(f"{self.folder}/{log}")
        self.files.sync(f"{self.folder}/metadata")
        self.files.sync(self.folder)

    def _last(self, log: str) -> int:
        return max((int(name) for name in self.files.names(f"{self.folder}/{log}") if name.isdigit()), default=-1)


def lake_readers(files: LakeFiles) -> dict[str, int]:
    """The queries that follow a table of the lake, and the batch up to which each is done."""
    queries = {name: Checkpoint(files, name).position_in_lake() for name in files.names("_checkpoints")}
    return {name: batch for name, batch in queries.items() if batch is not None}
