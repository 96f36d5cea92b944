"""A standalone cluster of a master and two workers: the same tests as on `local[*]`, and those of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.pipeline.cluster import MASTER, run_tests, standalone_cluster

TESTS = ["test_everywhere.py", "on_a_cluster.py"]
MORE = ["test_source.py", "test_source_tables.py", "test_stream_source_spark.py", "test_sink.py"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_does_what_one_process_does(tmp_path: Path) -> None:
    names = [*TESTS, *MORE] if "BRANT_EVERYWHERE" in os.environ else TESTS
    with standalone_cluster(tmp_path) as master:
        said = run_tests(names, tmp_path, **{MASTER: master})
    assert "skipped" not in said
