"""Starting Spark, where each test needs a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

from tests.pipeline.programs import run


def test_a_start_prints_nothing_and_needs_no_cache_folder(make_events: Callable[..., Path], tmp_path: Path) -> None:
    """The folder can't be made, even by root: there is a file in its place."""
    blocked = tmp_path / "file"
    blocked.touch()
    path = make_events(orders=["a"])
    program = f"""
        import brant.pipeline
        spark = brant.pipeline.session()
        print(spark.read.format("brant").load({os.fspath(path)!r}).count())
    """
    done = run(program, XDG_CACHE_HOME=os.fspath(blocked / "cache"), TMPDIR=os.fspath(tmp_path))
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert list(tmp_path.glob("brant-spark-*")) == []


def test_the_programs_own_spark_is_used_and_its_settings_stay() -> None:
    program = """
        from pyspark.sql import SparkSession
        zone = "spark.sql.session.timeZone"
        own = (
            SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(zone, "Asia/Tokyo")
        ).getOrCreate()
        import brant.pipeline
        spark = brant.pipeline.session()
        print(spark.sparkContext is own.sparkContext, spark.conf.get(zone), own.conf.get(zone))
        print(brant.pipeline.session() is spark)
        spark.stop()
        again = brant.pipeline.session(master="local[2]")
        print(again.sparkContext.master, again.conf.get(zone))
    """
    assert run(program).stdout.splitlines() == ["True UTC Asia/Tokyo", "True", "local[2] UTC"]


def test_a_broken_package_beside_ours_does_not_hide_the_format(
    make_events: Callable[..., Path], tmp_path: Path
) -> None:
    neighbours = tmp_path / "neighbours"
    (neighbours / "pyspark_broken").mkdir(parents=True)
    (neighbours / "pyspark_broken" / "__init__.py").write_text("raise ImportError('broken')\n")
    path = make_events(orders=["a"])
    program = f"""
        import brant.pipeline
        print(brant.pipeline.session().read.format("brant").load({os.fspath(path)!r}).count())
    """
    assert run(program, PYTHONPATH=os.fspath(neighbours)).stdout == "1\n"


def test_a_master_that_spark_does_not_know_is_one_sentence() -> None:
    program = """
        import brant.pipeline
        try:
            brant.pipeline.session(master="nowhere")
        except brant.pipeline.PipelineError as error:
            print(error)
    """
    said = run(program).stdout.splitlines()
    assert len(said) == 1
    assert said[0].startswith("Spark did not start with master 'nowhere': ")


def test_without_the_extra_the_error_says_what_to_install() -> None:
    program = """
        import sys
        sys.modules["pyspark"] = None
        import brant.pipeline, pyspark_brant
        print(hasattr(pyspark_brant, "DefaultSource"))
        try:
            brant.pipeline.session()
        except brant.pipeline.PipelineError as error:
            print(error)
    """
    said = run(program).stdout.splitlines()
    assert said == ["False", "pyspark is not installed; the pipeline needs it: pip install 'brant[spark]'"]


def test_a_session_on_a_connect_server_reads_the_format(make_events: Callable[..., Path]) -> None:
    path = make_events(orders=["a", "b"])
    server = """
        import sys, brant.pipeline
        config = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
        brant.pipeline.session(config={**config, "spark.connect.grpc.binding.port": sys.argv[1]})
        print("ready", flush=True)
        sys.stdin.read()
    """
    client = """
        import brant.pipeline
        spark = brant.pipeline.session(remote="sc://127.0.0.1:{port}")
        print(type(spark).__module__, spark.conf.get("spark.sql.session.timeZone"))
        print(spark.read.format("brant").load({path!r}).count())
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", dedent(server), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "ready\n"
        said = run(client.format(port=port, path=os.fspath(path))).stdout
        serving.communicate()
    assert said.splitlines() == ["pyspark.sql.connect.session UTC", "2"]


def test_a_query_that_is_stopped_in_the_middle_of_a_batch_prints_no_java_stack_trace(tmp_path: Path) -> None:
    """Spark looks at the error of the stopped batch with a regular expression that needs a deep stack."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    program = f"""
        import time, brant.pipeline

        def wait(batches):
            open({os.fspath(begun)!r}, "w").close()
            time.sleep(600)
            yield from batches

        def work(frame, number):
            frame.sparkSession.range(1).coalesce(1).mapInArrow(wait, "id long").collect()

        spark = brant.pipeline.session()
        query = spark.readStream.format("rate").load().writeStream.foreachBatch(work).start()
        open({os.fspath(begun)!r}).close()
        query.stop()
        print(query.isActive)
    """
    done = run(program)
    assert done.stdout == "False\n"
    assert "\tat java" not in done.stderr
