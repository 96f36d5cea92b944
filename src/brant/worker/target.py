"""`app:db`, as it is typed: a module that has tasks, and the Database in it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

from brant.errors import InvalidValue


def load(target: str) -> object:
    """Import the module, which registers its tasks, and give what the name behind the colon stands for.

    The working directory comes first, as it does for `python -m`.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise InvalidValue(f"{target!r} does not name a Database: type MODULE:VAR, as in app:db")
    if module_name.endswith(".py"):
        raise InvalidValue(
            f"{target!r} names a file: type the module, {module_name[:-3].replace('/', '.')}:{attribute}"
        )
    return _attribute(_imported(module_name), attribute)


def _imported(name: str) -> ModuleType:
    if sys.path[:1] != [os.getcwd()]:
        sys.path.insert(0, os.getcwd())
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        raise InvalidValue(f"can't import {name!r}: {type(error).__name__}: {error}") from error


def _attribute(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise InvalidValue(f"the module {module.__name__!r} has no {path!r}") from error
    return found
