"""A driver to be killed: archives and refines what a project says, beside an application that goes on publishing.

    python refine_driver.py PROJECT once|forever

It prints a line for each batch.
"""

from __future__ import annotations

import sys

from brant.pipeline import session
from brant.pipeline.jobs import archive, refine
from brant.pipeline.lake import Lake
from brant.pipeline.project import load
from brant.pipeline.runner import Progress, Watcher, run, run_until


def main(path: str, how_long: str) -> None:
    project = load(path)
    spark = session("refine driver", master="local[2,3]", config={"spark.driver.memory": "512m"})
    lake = Lake(project.lake, create=True)
    if how_long == "once":
        run([archive.query(spark, project, lake)], tell)
        run(refine.queries(spark, project, lake), tell)
        spark.stop()
    else:
        queries = [archive.query(spark, project, lake), *refine.queries(spark, project, lake)]
        run_until(queries, Watcher(tell), lambda _: 0.1)


def tell(progress: Progress) -> None:
    print(progress.name, progress.batch, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
