"""The project file that `brant pipeline init` writes for a database."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

import brant
from brant.config import is_address, without_password

_HEAD = """\
# A pipeline of Brant. `brant pipeline run` brings all of it up to date; see docs/pipeline.md.

[pipeline]
# An SQLite file, a folder of them (one a tenant), or a glob; relative to this file. Or postgresql://user@host/database:
# leave the password to PGPASSWORD, ~/.pgpass or a service file.
database = {database}
# Where the tables go: plain Parquet files in folders.
lake = {lake}

# Bronze: every event as it was published, and every webhook as it was received, once.
[archive]
# topics = ["orders"]  # default: all
# prune = true         # delete from the database what is in the lake and every consumer has passed

# Gold tables that Brant computes itself: gold.topics, gold.queues, gold.tasks, gold.dead_letters; where there is an
# inbox, gold.webhooks, gold.webhook_providers and gold.webhook_rejects.
[metrics]
window = "5m"
"""

_SILVER = """
# Silver: the events of a topic as a table.
[silver.{name}]
topic = {topic}
schema = "infer"        # or its columns: schema = "id BIGINT, total DOUBLE"; or "variant"
# key = "id"            # rows with the same key within dedupe_within are one
# dedupe_within = "1d"
# event_time = "at"     # the field that says when it happened
# late_after = "2h"     # what comes later than that goes to quarantine
# redact = ["email"]    # fields that must not be in the lake's tables
# hash = ["customer"]   # fields that are replaced by a salted hash
"""

_NO_TOPICS = """
# There were no events in the database yet. A silver table looks like this:
# [silver.orders]
# topic = "orders"
"""

_GOLD = """
# Gold: a table of your own, by SQL over the others.
# [gold.{name}_per_day]
# sources = ["silver.{name}"]
# sql = "SELECT date, count(*) AS rows FROM silver.{name} GROUP BY date"

# How often each job looks for news in `brant pipeline run --continuous`.
[schedule]
# archive = "10s"
# refine = "10s"
# metrics = "1m"
# compact = "1d"
"""


def topics_of(path: str) -> list[str]:
    """The topics of an application in a database; Brant's own are left out."""
    with brant.open(path, create=False) as db:
        return [name for name in db.list_streams() if not name.startswith("_brant:")]


def project_text(database: str, topics: Sequence[str], *, lake: str = "lake") -> str:
    """The content of the file; each topic becomes a silver table."""
    names = table_names(topics)
    tables = [_SILVER.format(name=name, topic=_text(topic)) for topic, name in names.items()]
    first = next(iter(names.values()), "orders")
    return "".join(
        [
            _HEAD.format(database=_text(database), lake=_text(lake)),
            *(tables or [_NO_TOPICS]),
            _GOLD.format(name=first),
        ]
    )


def table_names(topics: Sequence[str]) -> dict[str, str]:
    """A name that a table can have for each topic, no two the same."""
    names: dict[str, str] = {}
    for topic in topics:
        plain = re.sub(r"[^a-z0-9]+", "_", topic.lower()).strip("_") or "topic"
        name = base = plain if plain[0].isalpha() else f"t_{plain}"
        number = 1
        while name in names.values():
            number += 1
            name = f"{base}_{number}"
        names[topic] = name
    return names


def database_from(folder: str, path: str) -> str:
    """The path as the file in that folder should say it; an address without its password."""
    if is_address(path):
        return without_password(path)
    relative = os.path.relpath(path, folder)
    return os.path.abspath(path) if relative.startswith("..") else relative


def _text(value: str) -> str:
    """A TOML basic string: JSON's, but for DEL, which TOML wants escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
