"""The manual of the command, as a page of the documentation and as a man page.

`python -m brant.cli.manual markdown` and `... man` print them. The prose is in manual.md, the rest the parsers know.
"""

from __future__ import annotations

import os
import sys
import textwrap

from brant.cli.help import EXIT_CODES, GLOBAL_OPTIONS, GROUPS, USAGE
from brant.cli.reference import command_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brant.cli.reference import Argument, Entry

_WIDTH = 100


def markdown() -> str:
    """docs/shell.md"""
    with open(os.path.join(os.path.dirname(__file__), "manual.md"), encoding="utf-8") as file:
        text = file.read()
    made = {
        "GLOBAL OPTIONS": _table("global option", GLOBAL_OPTIONS.items()),
        "EXIT CODES": "\n".join(_row(code, meaning) for code, meaning in EXIT_CODES.items()),
        "COMMANDS": _commands(command_tree()),
    }
    for name, part in made.items():
        text = text.replace(f"@{name}@", part)
    return text


def man() -> str:
    """docs/brant.1"""
    from brant.cli.roff import man_page

    return man_page(markdown(), name="brant", summary=command_tree().summary, usage=USAGE)


def _commands(root: Entry) -> str:
    entries = {entry.words[0]: entry for entry in root.subcommands}
    contents = ((group, ", ".join(_link(name) for name in names)) for group, names in GROUPS.items())
    sections = (_section(entry) for names in GROUPS.values() for name in names for entry in entries[name].walk())
    return "\n\n".join(["| for | commands |\n|---|---|\n" + "\n".join(map(_plain_row, contents)), *sections])


def _link(name: str) -> str:
    return f"[{name}](#brant-{name})"


def _section(entry: Entry) -> str:
    heading = f"{'##' + '#' * len(entry.words)} {entry.name}"
    usage = textwrap.fill(
        entry.usage, _WIDTH, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False
    )
    parts = [heading, _sentence(entry.description), f"```\n{usage}\n```"]
    rows = list(_arguments(entry))
    return "\n\n".join([*parts, _table("argument", rows)] if rows else parts)


def _arguments(entry: Entry) -> Iterator[tuple[str, str]]:
    for argument in (*entry.places, *entry.options):
        if argument.help:
            yield _spelling(argument), argument.help


def _spelling(argument: Argument) -> str:
    return f"{', '.join(argument.names)} {argument.value}".strip()


def _table(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"| {heading} | meaning |", "|---|---|", *(_row(left, right) for left, right in rows)])


def _row(code: str, text: str) -> str:
    return _plain_row((f"`{code}`", text))


def _plain_row(cells: tuple[str, str]) -> str:
    left, right = (cell.replace("|", "\\|") for cell in cells)
    return f"| {left} | {right} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def main(words: list[str]) -> int:
    formats = {"markdown": markdown, "man": man}
    if len(words) != 1 or words[0] not in formats:
        print("usage: python -m brant.cli.manual markdown|man", file=sys.stderr)
        return 1
    sys.stdout.write(formats[words[0]]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
