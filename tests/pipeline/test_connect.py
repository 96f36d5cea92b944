"""A Spark Connect server: the same tests as on `local[*]`, from a client that has no JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.pipeline.cluster import REMOTE, connect_server, run_tests

TESTS = ["test_everywhere.py"]
MORE = ["test_source_tables.py", "test_stream_source_spark.py", "test_sink.py"]


@pytest.mark.skipif("BRANT_DRIVER_KILLS" not in os.environ, reason="takes long; make test-slow runs it")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_connect_server_does_what_one_process_does(tmp_path: Path) -> None:
    names = [*TESTS, *MORE] if "BRANT_EVERYWHERE" in os.environ else TESTS
    with connect_server(tmp_path) as remote:
        said = run_tests(names, tmp_path, **{REMOTE: remote})
    assert "skipped" not in said
