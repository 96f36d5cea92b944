"""A man page from Markdown: of the part of it that the manual uses.

That is headings, paragraphs, fenced code, lists with dashes, tables of two columns, `code`, **bold** and links.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = re.compile(r"```[^\n]*\n(?P<code>.*?)\n```|(?P<text>[^\n]+(?:\n(?!```)[^\n]+)*)", re.DOTALL)
_INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\[(?P<link>[^]]+)\]\([^)]+\)")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
# Typographers of text would make curly quotes and hyphens of these, which nobody could copy into a shell.
_AS_TYPED = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def man_page(markdown: str, *, name: str, summary: str, usage: str) -> str:
    """The page; its first heading is replaced by the name, the summary and the usage."""
    blocks = list(_blocks(markdown))
    head = [
        f'.TH {name.upper()} 1 "" "{name}" "User commands"',
        ".SH NAME",
        f"{name} \\- {_prose(summary)}",
        ".SH SYNOPSIS",
        _bold(usage),
        ".SH DESCRIPTION",
    ]
    return "\n".join([*head, *blocks[1:]]) + "\n"


def _blocks(markdown: str) -> Iterator[str]:
    for match in _BLOCK.finditer(markdown):
        if match["code"] is not None:
            yield _code_block(match["code"])
        elif match["text"].startswith("#"):
            yield _heading(match["text"])
        elif match["text"].startswith("|"):
            yield _table(match["text"])
        elif match["text"].startswith("- "):
            yield "\n".join(f".IP \\(bu 2\n{_paragraph(item)}" for item in match["text"][2:].split("\n- "))
        else:
            yield f".PP\n{_paragraph(match['text'])}"


def _heading(text: str) -> str:
    marks, _, title = text.partition(" ")
    return f".SH {_prose(title).upper()}" if len(marks) <= 2 else f".SS {_bold(title)}"


def _code_block(code: str) -> str:
    return "\n".join([".PP", ".RS 4", ".EX", *(_line(_as_typed(line)) for line in code.split("\n")), ".EE", ".RE"])


def _table(text: str) -> str:
    _, _, *rows = text.split("\n")
    return "\n".join(f".TP\n{_line(_inline(left))}\n{_line(_inline(right))}" for left, right in map(_cells, rows))


def _cells(row: str) -> tuple[str, str]:
    _, left, right, _ = (cell.strip().replace("\\|", "|") for cell in _CELL_BORDER.split(row))
    return left, right


def _paragraph(text: str) -> str:
    return "\n".join(_line(line.strip()) for line in _inline(text).split("\n"))


def _inline(text: str) -> str:
    parts = []
    end = 0
    for match in _INLINE.finditer(text):
        parts += [_prose(text[end : match.start()]), _bold(match["code"]) if match["code"] else _marked(match)]
        end = match.end()
    return "".join([*parts, _prose(text[end:])])


def _marked(match: re.Match[str]) -> str:
    return f"\\fB{_prose(match['bold'])}\\fR" if match["bold"] else _prose(match["link"])


def _bold(code: str) -> str:
    return f"\\fB{_as_typed(code)}\\fR"


def _prose(text: str) -> str:
    return text.replace("\\", "\\e")


def _as_typed(code: str) -> str:
    return "".join(_AS_TYPED.get(character, character) for character in code)


def _line(text: str) -> str:
    """A line that roff does not take for a request."""
    return f"\\&{text}" if text.startswith((".", "'")) else text
