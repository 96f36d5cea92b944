"""`report`: one HTML page about what the gold tables say. It needs no Spark to make and no network to open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from brant.config import without_password
from brant.pipeline.errors import missing_extra

if TYPE_CHECKING:
    from brant.pipeline.project import Project

DAYS = 7


def report(project: Project, path: str = "brant-report.html", *, days: int = DAYS) -> str:
    """Write the page about the last `days` that the lake has; gives its absolute path."""
    try:
        from brant.pipeline.lake import Lake
        from brant.pipeline.report.gold import read_gold
        from brant.pipeline.report.page import page
    except ImportError as missing:
        raise missing_extra(missing.name or "pyarrow") from missing
    lake = Lake.of(project)
    text = page(read_gold(lake, days), database=without_password(project.database), lake=lake.root)
    path = os.path.abspath(path)
    half = f"{path}.half"
    with open(half, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(half, path)
    return path
