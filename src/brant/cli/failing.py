"""What becomes of a command that could not do its work: one line that says why, and the exit code."""

from __future__ import annotations

import os
import signal
import sys

from brant.cli.command import DONE, FAILED
from brant.cli.output import complain
from brant.cli.stopping import Terminated
from brant.config import Settings
from brant.errors import BrantError, DatabaseBusy, InvalidValue

_TERMINATED = 128 + signal.SIGTERM
_CODES = {"InvalidTimestamp": "INVALID_TIMESTAMP", "InvalidMessageId": "INVALID_MESSAGE_ID"}


def exit_code_for(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong, if anything; gives the exit code."""
    _flush_or_drop_output()
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        complain("\nbrant: interrupted")
        return DONE
    if isinstance(error, Terminated):
        return _TERMINATED
    if not isinstance(error, BrokenPipeError):
        complain(_as_json(error) if as_json else f"brant: error: {_text(error)}")
        _show_where(error)
    return FAILED


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename!r}" if error.filename else error.strerror
    elif isinstance(error, (BrantError, ValueError, TypeError)):
        text = str(error)
    else:
        text = f"unexpected {type(error).__name__}: {error}; BRANT_DEBUG=1 shows where"
    return " ".join(text.split()) or type(error).__name__


def _as_json(error: BaseException) -> str:
    import json

    code = _CODES.get(type(error).__name__, "INVALID_ARGUMENT" if isinstance(error, ValueError) else "ERROR")
    return json.dumps({"error": code, "message": _text(error), "retryable": isinstance(error, DatabaseBusy)})


def _show_where(error: BaseException) -> None:
    try:
        is_wanted = Settings().debug
    except InvalidValue:
        return
    if is_wanted:
        import traceback

        complain("".join(traceback.format_exception(error)).rstrip())


def _flush_or_drop_output() -> None:
    """What can't be printed must go nowhere: the interpreter would stumble over it at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
