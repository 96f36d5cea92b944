"""The address of a database: what libpq needs of it, what is Brant's own, and how it may be told."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from brant.errors import InvalidValue
from brant.storage.postgres.sql import DEFAULT_SCHEMA

_OWN = ("brant_schema", "brant_notify", "brant_prepare", "brant_timeout")
_LONGEST_NAME = 63
_TIMEOUT_S = 8.0


class Address:
    """A parsed `postgresql://user:password@host/database?brant_schema=...`; its text has no secret in it.

    `brant_schema`: where the tables are. `brant_notify=0`: poll, for a pooler that hands connections out by
    transaction. `brant_prepare=0`: no prepared statements, for a pooler that does not know them. `brant_timeout`:
    the seconds that the server is given for one statement.
    """

    def __init__(self, url: str, *, schema: str | None = None) -> None:
        if "://" not in url:
            own: dict[str, str] = {}
            self.conninfo = url
        else:
            self.conninfo, own = _split(url)
        try:
            given = conninfo_to_dict(self.conninfo)
        except psycopg.ProgrammingError:
            raise InvalidValue(
                "the address of the database can't be read; write postgresql://user@host:port/database"
            ) from None
        self.schema = _checked_schema(schema or own.get("brant_schema") or DEFAULT_SCHEMA)
        self.notify = _flag(own, "brant_notify")
        self.prepare = _flag(own, "brant_prepare")
        self.timeout_s = _seconds(own, "brant_timeout", _TIMEOUT_S)
        self.host = str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or "the local socket")
        self._given = {name: str(value) for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        """The address for people and logs, without the password."""
        given = self._given
        user = f"{given['user']}@" if "user" in given else ""
        host = given.get("host", "")
        # A directory of sockets, or several hosts, can't stand in the place of a host.
        odd = host.startswith("/") or "," in host
        port = f":{given['port']}" if "port" in given and not odd else ""
        query = {"host": host} if odd else {}
        if odd and given.get("port", "").strip(","):
            query["port"] = given["port"]
        if self.schema != DEFAULT_SCHEMA:
            query["brant_schema"] = self.schema
        place = f"postgresql://{user}{'' if odd else host}{port}/{given.get('dbname', '')}"
        return f"{place}?{urlencode(query, safe='/,')}" if query else place

    def for_connection(self, **defaults: object) -> str:
        """What libpq is given: the address, and the defaults for what it does not say."""
        missing = {name: value for name, value in defaults.items() if name not in self._given}
        return make_conninfo(self.conninfo, **missing)  # type: ignore[arg-type]


def _split(url: str) -> tuple[str, dict[str, str]]:
    """The address without what is Brant's own, and that."""
    try:
        scheme, place, path, query, _ = urlsplit(url)
    except ValueError:
        raise InvalidValue("the address can't be read: write brackets around an IPv6 host, and only there") from None
    pairs = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in pairs if name.startswith("brant_")}
    unknown = sorted(set(own) - set(_OWN))
    if unknown:
        raise InvalidValue(f"the address says {unknown[0]!r}, which Brant does not know; it knows {', '.join(_OWN)}")
    rest = urlencode(
        [(name, value) for name, value in pairs if name not in own], quote_via=quote
    )  # libpq takes a plus for itself
    return f"{scheme}://{place}{path}" + (f"?{rest}" if rest else ""), own


def _checked_schema(name: str) -> str:
    if not name or "\0" in name or len(name.encode()) > _LONGEST_NAME or name.startswith("pg_"):
        raise InvalidValue(
            f"schema must be a name of 1 to {_LONGEST_NAME} bytes that does not begin with pg_, not {name!r}"
        )
    return name


def _flag(own: dict[str, str], name: str) -> bool:
    text = own.get(name, "1").lower()
    if text in ("1", "true", "on", "yes"):
        return True
    if text in ("0", "false", "off", "no"):
        return False
    raise InvalidValue(f"{name} in the address must be 1 or 0, not {text!r}")


def _seconds(own: dict[str, str], name: str, default: float) -> float:
    try:
        value = float(own.get(name, default))
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 86_400:
        raise InvalidValue(f"{name} in the address must be seconds, 0.1 to 86400, not {own[name]!r}")
    return value
