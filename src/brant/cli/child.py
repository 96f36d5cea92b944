"""A command that runs for this process, and does not outlive it."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen

from brant.arguments import storable

_STDERR = 2
_CHUNK = 64 * 1024
_TAIL_BYTES = 2048
# A background process that the command left behind may keep its stderr open; nobody waits for that one.
_LAST_WORDS_S = 0.5
# Leads the command's process group, and kills all of it when its own stdin ends, as it does when this process dies in
# whatever way. PR_SET_PDEATHSIG would need Python code between fork and exec, which may deadlock where there are
# threads; it fires when the *thread* that forked ends; and it spares the children of a command that is a script.
_LEASH = ("/bin/sh", "-c", "trap '' HUP INT TERM; read -r _; kill -KILL 0")


class Child:
    """A command with a text on its stdin. Its stderr is passed on, and the end of it is kept."""

    def __init__(self, command: Sequence[str], text: str, environment: Mapping[str, str]) -> None:
        self._leash = Popen(_LEASH, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, process_group=0)  # noqa: S603
        try:
            self._process = _start(command, text, environment, self._leash.pid)
        except BaseException:
            self._drop_leash()
            raise
        self._tail = b""
        self._tee = threading.Thread(target=self._pass_on, name=f"brant-stderr-{self._process.pid}", daemon=True)
        self._tee.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._process.poll()

    def last_words(self) -> str:
        """The end of what it wrote to stderr; complete once it has ended."""
        self._tee.join(_LAST_WORDS_S)
        return self._tail.decode("utf-8", "replace").strip()

    def terminate(self) -> None:
        """Ask the command, and what it has started, to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Once it has ended. What it left running in the background goes on."""
        self._tee.join(_LAST_WORDS_S)
        self._drop_leash()

    def _signal(self, number: signal.Signals) -> None:
        # The group is named after the leash, which is reaped in close() only: the number can't be another's by now.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leash.pid, number)

    def _drop_leash(self) -> None:
        self._leash.kill()
        self._leash.wait()
        if self._leash.stdin is not None:
            self._leash.stdin.close()

    def _pass_on(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None  # noqa: S101
        with stderr:
            while chunk := os.read(stderr.fileno(), _CHUNK):
                self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
                with suppress(OSError):  # nobody reads our stderr any more: no reason to stop the command
                    _write_to_stderr(chunk)


def _write_to_stderr(data: bytes) -> None:
    # Not through sys.stderr: a thread that waits inside its lock would break the interpreter's exit.
    while data:
        data = data[os.write(_STDERR, data) :]


def _start(command: Sequence[str], text: str, environment: Mapping[str, str], group: int) -> Popen[bytes]:
    # A file, not a pipe: a command that does not read its stdin then can't hold anybody up.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(storable(text).encode())
        stdin.seek(0)
        # The user's own command, not run through a shell.
        return Popen(command, stdin=stdin, stderr=PIPE, env=environment, process_group=group)  # noqa: S603
