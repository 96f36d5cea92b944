"""Spark in several processes on this machine: a standalone cluster, or a Connect server; and tests that use them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from brant.pipeline.java import find_java, java_home
from brant.pipeline.python import worker_python
from tests.pipeline.conftest import MASTER, REMOTE

__all__ = ["MASTER", "REMOTE", "connect_server", "run_tests", "standalone_cluster"]

HERE = Path(__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
# On a busy machine a JVM takes its time.
START_S = 120
STOP_S = 20
TESTS_S = 1500


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers with a core each; gives the master's address."""
    port = str(free_port())
    master = f"spark://127.0.0.1:{port}"
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    with ExitStack() as stack:

        def start(name: str, kind: str, line: str, *words: str) -> None:
            command = [spark_class, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", "--webui-port", "0"]
            stack.enter_context(_serving([*command, *words], folder, name, line))

        start("master", "master.Master", "I have been elected leader", "--port", port)
        for name in ("worker-1", "worker-2"):
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name)]
            start(name, "worker.Worker", "Successfully registered with master", *limits, master)
        yield master


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """As `start-connect-server.sh` starts it; gives its address."""
    port = str(free_port())
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [str(SPARK_HOME / "sbin" / "start-connect-server.sh"), "--wait", "--master", "local[2,3]", *words]
    with _serving(command, folder, "connect", "Spark Connect server started"):
        yield f"sc://127.0.0.1:{port}"


def run_tests(names: Sequence[str], folder: Path, **environment: str) -> str:
    """Tests of this folder in a process of their own, whose `spark` is the one that the environment names."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYSPARK_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--basetemp", str(folder / "tests")]
    command += [str(HERE / name) for name in names]
    done = subprocess.run(
        command,
        cwd=HERE.parent.parent,
        env={**inherited, **_bounded(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TESTS_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _bounded(folder: Path) -> dict[str, str]:
    """This machine only, little memory, and all files in the folder."""
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "640m",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_LOG_DIR": str(folder / "logs"),
        "SPARK_PID_DIR": str(folder / "pids"),
    }


@contextmanager
def _serving(command: Sequence[str], folder: Path, name: str, line: str) -> Iterator[None]:
    """A process of Spark's, once it has logged that line; it and its children are gone at the end of the block."""
    environment = (
        os.environ | _bounded(folder) | {"JAVA_HOME": java_home(find_java()), **worker_python(None, is_here=True)}
    )
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment | {"SPARK_HOME": str(SPARK_HOME)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    log = _Log(process, folder / f"{name}.log")
    try:
        log.wait_for(line)
        yield
    finally:
        _end(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        _end(process, signal.SIGKILL)
        process.wait()
        log.close()


class _Log:
    """What a process prints, kept in a file; somebody must read it, or the process stops when the pipe is full."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self._process = process
        self._path = path
        self._news = threading.Condition()
        self._lines: list[str] = []
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        def is_told() -> bool:
            return self._ended or any(text in line for line in self._lines)

        with self._news:
            self._news.wait_for(is_told, START_S)
            assert any(text in line for line in self._lines), "".join(self._lines)

    def close(self) -> None:
        self._reader.join(STOP_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._path.open("w") as kept:
            for line in self._process.stdout:
                kept.write(line)
                kept.flush()
                self._note(line)
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _note(self, line: str) -> None:
        with self._news:
            self._lines.append(line)
            self._news.notify_all()


def _end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)
