"""init, config, doctor, backup."""

from __future__ import annotations

import os
import sys

import brant
from brant.cli.command import DONE, FAILED, Command
from brant.cli.output import put, put_json
from brant.config import Target
from brant.errors import StorageError
from brant.opening import remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context


def _init_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="delete the database that is there and make a new one")
    parser.add_argument("--yes", action="store_true", help="do not ask before --force deletes anything")


def _init(context: Context, options: Namespace) -> int:
    target = _initial_target(context)
    if options.force and target.exists():
        _delete(target, sure=options.yes)
    elif not target.is_server and target.exists():
        context.open_target(target).close()
        context.tell(f"Brant database already exists: {target}")
        return DONE
    context.open_target(target).close()
    context.tell(f"Initialized Brant database: {target}")
    return DONE


def _initial_target(context: Context) -> Target:
    """The project's database if there is one above, else a new one here."""
    try:
        return context.target()
    except StorageError:
        folder = os.path.abspath(context.directory or os.getcwd())
        return Target(os.path.join(folder, context.settings.default_db_name), "brant init")


def _delete(target: Target, *, sure: bool) -> None:
    if not sure:
        from brant.cli.terminal import confirm

        if not confirm(f"Delete {target} and all that is in it?"):
            raise StorageError("nothing was deleted")
    remove(target.path)


def _config_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _config(context: Context, options: Namespace) -> int:
    target = context.target()
    facts: list[tuple[str, object, str]] = [("database", str(target), target.reason), *context.settings.items()]
    if options.json:
        put_json({name: {"value": value, "from": source} for name, value, source in facts})
        return DONE
    from brant.cli.terminal import table

    table([[name, str(value), source] for name, value, source in facts], ["setting", "value", "from"])
    return DONE


def _doctor_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _doctor(context: Context, options: Namespace) -> int:
    target = context.target()
    if not target.exists():
        raise StorageError(f"there is no database at {target}; write to it, or make one with 'brant init'")
    with context.open_target(target) as db:
        health = db.health(thorough=True)
    spark, spark_warnings = _spark()
    facts = {"brant": brant.__version__, "python": sys.version.split()[0], **health.facts, **spark}
    warnings = [*health.warnings, *spark_warnings]
    if options.json:
        found = {"ok": health.ok, "problems": list(health.problems), "warnings": warnings}
        put_json({**found, "facts": facts})
    else:
        for name, value in facts.items():
            put(f"{name.replace('_', ' ')}: {value}")
        for warning in warnings:
            put(f"warning: {warning}")
        for problem in health.problems:
            put(f"problem: {problem}")
        put("ok" if health.ok else f"{len(health.problems)} problems")
    return DONE if health.ok else FAILED


def _spark() -> tuple[dict[str, str], list[str]]:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        return {"spark": "not installed (only the pipeline needs it: pip install 'brant[spark]')"}, []
    from brant.pipeline.installed import spark_facts

    return spark_facts()


def _backup_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("destination", metavar="FILE", help="the copy; must not exist yet")


def _backup(context: Context, options: Namespace) -> int:
    with context.open() as db:
        db.backup(options.destination)
    context.tell(f"Copied to {options.destination}")
    return DONE


COMMANDS = {
    "init": Command("make a database", _init_arguments, _init),
    "config": Command(
        "show which database is used, the settings, and where each comes from", _config_arguments, _config
    ),
    "doctor": Command("look for what is wrong, and say what to do", _doctor_arguments, _doctor),
    "backup": Command("copy the database while it is in use", _backup_arguments, _backup),
}
