"""Which database, and with which settings: arguments, then the project file, then the environment.

Every setting is an environment variable `BRANT_<NAME>`; `BROKER_<NAME>` is read where that is not set, so that scripts
written for SimpleBroker run unchanged. Imports are few and late, since every run of the command comes through here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from brant.errors import InvalidValue, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PREFIXES = ("BRANT_", "BROKER_")
_PROJECT_FILES = (".brant.toml", ".broker.toml")
SYNC_MODES = ("OFF", "NORMAL", "FULL", "EXTRA")
_MOST_LEVELS = 100
_LARGEST_NUMBER = 2**31 - 1  # SQLite keeps the busy timeout in a C int


class Settings:
    """What the environment says, checked; `sources` tells which variable each value came from."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self.sources: dict[str, str] = {}
        self.project_scope = self._flag("PROJECT_SCOPE", False)
        self.default_db_name = self._file_name("DEFAULT_DB_NAME", ".brant.db")
        self.default_db_location = self._text("DEFAULT_DB_LOCATION", "")
        self.project_config_name = self._text("PROJECT_CONFIG_NAME", "")
        self.project_config_path = self._text("PROJECT_CONFIG_PATH", "")
        self.backend = self._text("BACKEND", "sqlite").lower()
        self.backend_target = without_password(self._text("BACKEND_TARGET", ""))
        self.backend_schema = self._text("BACKEND_SCHEMA", "")
        self.busy_timeout_ms = self._number("BUSY_TIMEOUT", 5000, least=0)
        self.sync_mode = self._choice("SYNC_MODE", "NORMAL", SYNC_MODES)
        self.max_message_size = self._number("MAX_MESSAGE_SIZE", 10 * 1024 * 1024, least=1)
        self.debug = self._text("DEBUG", "") != ""
        self.generator_batch_size = self._number("GENERATOR_BATCH_SIZE", 250, least=1)

    def items(self) -> list[tuple[str, Any, str]]:
        """(name, value, where it came from) of every setting."""
        return [
            (name, value, self.sources.get(name.removesuffix("_ms"), "default"))
            for name, value in sorted(vars(self).items())
            if name != "sources" and not name.startswith("_")
        ]

    def server(self) -> str:
        """The address of the database on a server that the environment names, by an address or in parts."""
        target = self._text("BACKEND_TARGET", "")
        if not target:
            from urllib.parse import quote

            user, secret = self._text("BACKEND_USER", "postgres"), self._text("BACKEND_PASSWORD", "")
            host, port = self._text("BACKEND_HOST", "localhost"), self._number("BACKEND_PORT", 5432, least=1)
            credentials = quote(user, "") + (f":{quote(secret, '')}" if secret else "")
            target = f"postgresql://{credentials}@{host}:{port}/{quote(self._text('BACKEND_DATABASE', 'brant'), '')}"
        if not is_address(target):
            shown = without_password(target)[:40]
            raise InvalidValue(
                f"{self._variable('BACKEND_TARGET')} must be postgresql://user@host/database, not {shown!r}"
            )
        return _with_schema(target, self.backend_schema)

    def _text(self, name: str, default: str) -> str:
        for prefix in _PREFIXES:
            value = self._environment.get(prefix + name)
            if value is not None:
                self.sources[_attribute(name)] = prefix + name
                return value
        return default

    def _variable(self, name: str) -> str:
        return self.sources.get(_attribute(name), _PREFIXES[0] + name)

    def _number(self, name: str, default: int, least: int) -> int:
        text = self._text(name, str(default))
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST_NUMBER))
        if not is_number or not least <= int(text) <= _LARGEST_NUMBER:
            bounds = f"of at least {least} and at most {_LARGEST_NUMBER}"
            raise InvalidValue(f"{self._variable(name)} must be a whole number {bounds}, not {text[:40]!r}")
        return int(text)

    def _flag(self, name: str, default: bool) -> bool:
        text = self._text(name, "1" if default else "0").strip().lower()
        if text in ("1", "true", "yes", "on"):
            return True
        if text in ("", "0", "false", "no", "off"):
            return False
        raise InvalidValue(f"{self._variable(name)} must be 1 or 0, not {text!r}")

    def _choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        text = self._text(name, default).upper()
        if text not in choices:
            raise InvalidValue(f"{self._variable(name)} must be one of {', '.join(choices)}, not {text!r}")
        return text

    def _file_name(self, name: str, default: str) -> str:
        """A file name, with at most one directory before it."""
        text = self._text(name, default)
        parts = text.split("/")
        if not text or os.path.isabs(text) or len(parts) > 2 or any(part in ("", ".", "..") for part in parts):
            raise InvalidValue(f"{self._variable(name)} must be a file name, or one in one directory, not {text!r}")
        refuse_control_characters(text, self._variable(name))
        return text


def refuse_control_characters(path: str, what: str) -> None:
    if any(character < " " or character == "\x7f" for character in path):
        raise InvalidValue(f"{what} {path!r} holds control characters")


def _attribute(name: str) -> str:
    return name.lower()


def is_address(target: str) -> bool:
    """Whether it names a database on a server, and not a file."""
    return target.startswith(("postgresql://", "postgres://"))


def without_password(target: str) -> str:
    """An address as it may be shown, also one of a kind that is not known; the path of a file as it is."""
    if "://" not in target or target.startswith("file:"):
        return target
    from urllib.parse import parse_qsl, urlencode, urlsplit

    try:
        scheme, place, path, query, _ = urlsplit(target)
    except ValueError:
        return f"{target.partition('://')[0]}://..."
    credentials, at, host = place.rpartition("@")
    kept = [(name, value) for name, value in parse_qsl(query) if name not in ("password", "sslpassword")]
    shown = f"{scheme}://{credentials.partition(':')[0]}{at}{host}{path}"
    return f"{shown}?{urlencode(kept, safe='/,:')}" if kept else shown


def _with_schema(target: str, schema: str) -> str:
    if not schema or "brant_schema=" in target:
        return target
    from urllib.parse import quote

    return f"{target}{'&' if '?' in target else '?'}brant_schema={quote(schema, '')}"


class Target:
    """A database, and why this one."""

    def __init__(self, path: str, reason: str, *, must_exist: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.must_exist = must_exist

    def __str__(self) -> str:
        return without_password(self.path)

    @property
    def is_server(self) -> bool:
        return is_address(self.path)

    def exists(self) -> bool:
        """Whether the file is there; whether a server has the database is known when it is opened."""
        return self.is_server or os.path.exists(self.path)


def resolve(
    directory: str | None = None,
    file: str | None = None,
    *,
    settings: Settings | None = None,
) -> Target:
    """The database that these arguments, the project and the environment name."""
    settings = settings or Settings()
    if file is not None and (is_address(file) or (os.path.isabs(file) and directory is None)):
        return Target(file, "-f")
    start = os.path.abspath(directory or _current_directory())
    if file is not None:
        return _named(file, directory, start)
    if settings.project_scope:
        return _project(start, settings)
    if _is_server_backend(settings.backend, settings.sources.get("backend", "")):
        return Target(settings.server(), settings.sources["backend"])
    if directory is None and settings.default_db_location:
        if os.path.isabs(settings.default_db_location):
            path = os.path.join(settings.default_db_location, settings.default_db_name)
            return Target(path, settings.sources["default_db_location"])
        variable = settings.sources["default_db_location"]
        raise InvalidValue(f"{variable} must be an absolute path, not {settings.default_db_location!r}")
    return Target(os.path.join(start, settings.default_db_name), "-d" if directory else "the current directory")


def _current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise StorageError("the current directory was deleted; change to another one, or name one by -d") from None


def _named(file: str, directory: str | None, start: str) -> Target:
    if not os.path.isabs(file):
        return Target(os.path.join(start, file), "-f")
    if directory is not None and os.path.realpath(os.path.dirname(file)) != os.path.realpath(start):
        raise InvalidValue(f"Inconsistent paths: the file {file} conflicts with directory {directory}")
    return Target(file, "-f")


def _project(start: str, settings: Settings) -> Target:
    for folder in _upwards(start):
        found = _project_file(folder, settings)
        if found is not None:
            return _from_project_file(found)
    for folder in _upwards(start):
        path = os.path.join(folder, settings.default_db_name)
        if folder != os.path.dirname(folder) and os.path.isfile(path) and _is_brant_file(path):
            return Target(path, f"the project's database, found upwards from {start}")
    raise StorageError(
        f"no {settings.default_db_name} and no {_PROJECT_FILES[0]} in {start} or above it; make one with 'brant init'"
    )


def _upwards(start: str) -> list[str]:
    folders = [start]
    while len(folders) < _MOST_LEVELS and os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    return folders


def _project_file(folder: str, settings: Settings) -> str | None:
    names = (settings.project_config_name,) if settings.project_config_name else _PROJECT_FILES
    for name in names:
        path = os.path.join(folder, settings.project_config_path, name)
        if os.path.isfile(path):
            return path
    return None


def _from_project_file(path: str) -> Target:
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except (OSError, ValueError) as error:  # no TOML, or no text at all
        raise InvalidValue(f"{path} can't be read: {error}") from error
    if content.get("version", 1) != 1:
        raise InvalidValue(f"{path}: version must be 1, not {content['version']!r}")
    is_server = _is_server_backend(content.get("backend", "sqlite"), path)
    target = content.get("target")
    if not isinstance(target, str) or not target:
        raise InvalidValue(f"{path}: target must be the path of the database, not {target!r}")
    if is_server or is_address(target):
        if not is_address(target):
            raise InvalidValue(f"{path}: target must be postgresql://user@host/database for this backend")
        options = content.get("backend_options", {})
        schema = options.get("schema", "") if isinstance(options, dict) else ""
        return Target(_with_schema(target, str(schema)), path)
    return Target(os.path.normpath(os.path.join(os.path.dirname(path), target)), path, must_exist=True)


def _is_server_backend(backend: object, where: str) -> bool:
    if backend not in ("sqlite", "postgres", "postgresql"):
        raise InvalidValue(f"{where}: the backend {backend!r} is not supported; use 'sqlite' or 'postgres'")
    return backend != "sqlite"


def _is_brant_file(path: str) -> bool:
    # Asked through SQLite: a descriptor of our own, once closed, would drop the locks of other connections to the file.
    import sqlite3
    from urllib.parse import quote

    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
        try:
            connection.execute("SELECT 1 FROM _honker_live LIMIT 1")
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    return True
