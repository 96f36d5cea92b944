"""Programs with a Spark of their own, for what the shared one can't show."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent


def run(program: str | Sequence[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python source, or a command, to its end; what it printed is in the answer."""
    command = [sys.executable, "-c", dedent(program)] if isinstance(program, str) else program
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=280)
    assert done.returncode == 0, done.stderr
    return done
