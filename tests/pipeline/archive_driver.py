"""A driver to be killed: archives a database into a lake.

    python archive_driver.py FOLDER events|inbox once|forever

When the query fails, nothing is cleaned up: the whole driver dies by kill -9.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

from brant.pipeline import PipelineError, session
from brant.pipeline.jobs import archive, inbox
from brant.pipeline.lake import Lake
from brant.pipeline.project import Archive
from brant.pipeline.runner import Watcher, run_until
from tests.pipeline.lakes import project_in


def main(folder: str, what: str, how_long: str) -> None:
    spark = session("archive driver", master="local[2,3]", config={"spark.driver.memory": "512m"})
    # Small batches, so that there are many to die in; large ones to catch up with what came meanwhile.
    most = 200 if how_long == "forever" else 100_000
    project = project_in(Path(folder), archive=Archive(max_events_per_batch=most))
    lake = Lake.of(project, create=True)
    every_s = 0.05 if how_long == "forever" else None
    try:
        found = [archive.query(spark, project, lake)] if what == "events" else inbox.queries(spark, project, lake)
        run_until(found, Watcher(), lambda _: every_s)
    except PipelineError:
        traceback.print_exc()
        sys.stderr.flush()
        os.killpg(os.getpgrp(), signal.SIGKILL)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
