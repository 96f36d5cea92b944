"""A page for each provider. `python -m brant.inbox.manual docs/providers` writes them, and an index.

Options, aliases and what a provider needs are read from its class; what only people know is in provider_notes.md.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from brant.inbox.providers import class_of, names
from brant.inbox.providers.base import Provider

_NOTES = os.path.join(os.path.dirname(__file__), "provider_notes.md")
_ROWS = (("Signed", "what is verified"), ("Headers", "headers that count"), ("Secret", "the secret"))
_FURTHER = (("Identity", "the same event is"), ("Type", "event type"), ("Handshake", "handshake"))
# Each name means the same wherever it is used.
_OPTIONS = {
    "algorithm": "sha256, sha512, sha384 or sha1",
    "encoding": "hex or base64",
    "fetch": "a callable from a certificate's URL to its PEM",
    "header": "the header's name",
    "id_field": "where the id is in the JSON body, as in `data.id`",
    "id_header": "the header with the id",
    "identity": '`"content"`, or `"delivery"` to let the sender\'s unsigned id count too',
    "node": "this node's own name",
    "on_secret": "called with the secret that the handshake offers; True accepts it",
    "prefix": "what stands before the signature, as in `sha256=`",
    "tolerance_s": "how old, or how far ahead, the signed time may be in seconds; None for any",
    "topic_arn": "the topics that may send",
    "topics": "the streams that may come; none named: all",
    "type_field": "where the type is in the JSON body",
    "type_header": "the header with the type",
    "url": "the public address, as the sender calls it; one or several",
    "verify_token": "the text that the handshake must name; as a secret: text, `env:NAME` or callable",
    "webhook_id": "the webhook's id at the sender",
    "with_action": "add the body's `action` to the type",
}
_MADE = "<!-- Made by `make docs` from the code: edit src/brant/inbox/provider_notes.md and the provider instead. -->"


@dataclass
class Notes:
    facts: dict[str, str] = field(default_factory=dict)
    traps: list[str] = field(default_factory=list)


def notes() -> dict[str, Notes]:
    """By the provider's name."""
    found: dict[str, Notes] = {}
    with open(_NOTES, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("## "):
                current = found[line[3:].strip()] = Notes()
            elif line.startswith("- "):
                name, _, text = line[2:].strip().partition(":")
                if name == "Trap":
                    current.traps.append(text.strip())
                else:
                    current.facts[name] = text.strip()
    return found


def pages() -> dict[str, str]:
    """The text of each file by its name."""
    written = notes()
    made = {f"{name}.md": _page(class_of(name), written[name]) for name in names()}
    return {"index.md": _index(written), **made}


def _index(written: dict[str, Notes]) -> str:
    rows = [
        f"| [{written[name].facts['Title']}]({name}.md) | {_codes((name, *class_of(name).aliases))} "
        f"| {_beginning(written[name].facts['Signed'])} "
        f"| {'yes' if 'Handshake' in written[name].facts else ''} |"
        for name in names()
    ]
    head = ["# Providers", "", _MADE, "", "Who sends to an [inbox](../inbox.md), by name. A provider of your own is a"]
    head += [
        "subclass of `brant.inbox.Provider`.",
        "",
        "| sender | name | verified is | handshake |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def _beginning(text: str) -> str:
    """Up to the first full stop or colon that stands in no code."""
    found = re.match(r"(?:`[^`]*`|[^`.:])*", text)
    return found[0] if found else text


def _page(provider: type[Provider], written: Notes) -> str:
    facts = written.facts
    parts = [f"# {facts['Title']}", _MADE, _paragraph(provider), _facts(provider, written)]
    if provider.options:
        parts.append("## Options\n\n" + _options(provider))
    parts.append("## Setting it up\n\n" + _example(provider))
    if facts["Body"] != "-":
        parts.append("## A test request\n\n" + _signing(provider, facts["Body"]))
    if written.traps:
        parts.append("## Mind\n\n" + "\n".join(f"- {trap}" for trap in written.traps))
    return "\n\n".join(parts) + "\n"


def _paragraph(provider: type[Provider]) -> str:
    """What its docstring says, each part as one paragraph."""
    text = inspect.cleandoc(provider.__doc__ or "")
    return " ".join(text.split())


def _facts(provider: type[Provider], written: Notes) -> str:
    known = {**written.facts, "Headers": written.facts["Headers"] or "none: it is all in the body"}
    rows = [f"| name | {_codes((provider.name, *provider.aliases))} |"]
    rows += [f"| {title} | {known[name]} |" for name, title in (*_ROWS, *_FURTHER) if name in known]
    return "\n".join(["| | |", "|---|---|", *rows])


def _options(provider: type[Provider]) -> str:
    rows = [
        f"| `{name}` | {'required' if name in provider.required else _shown(default)} | {_OPTIONS[name]} |"
        for name, default in provider.options.items()
    ]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows])


def _shown(default: object) -> str:
    return "none" if default in (None, (), "") else f"`{default!r}`"


def _example(provider: type[Provider]) -> str:
    given = {name: _SAMPLES[name] for name in provider.required}
    if "verify_token" in provider.options:
        given["verify_token"] = "env:VERIFY_TOKEN"  # noqa: S105, the name of a variable
    lines = ["inbox.endpoint(", f'    "{provider.name}",', f'    path="/hooks/{provider.name}",']
    lines.append(f'    provider="{provider.name}",')
    if given:
        lines.append("    options={" + ", ".join(f'"{name}": "{value}"' for name, value in given.items()) + "},")
    if provider.secret_comes_later:
        lines.append("    secrets=read_secret,  # a function of yours")
    elif provider.needs_secret:
        lines.append(f'    secrets="env:{_variable(provider)}",')
    return "\n".join(["```python", *lines, ")", "```"])


_SAMPLES = {"url": "https://example.com/hooks", "topic_arn": "arn:aws:sns:us-east-1:1:orders", "webhook_id": "WH-1"}


def _signing(provider: type[Provider], body: str) -> str:
    words = ["brant", "inbox", "sign", provider.name, body, "--secret-env", _variable(provider)]
    words += [word for name in provider.required if name != "url" for word in ("--option", f"{name}={_SAMPLES[name]}")]
    words += ["--url", f"http://127.0.0.1:8000/hooks/{provider.name}"]
    told = "It prints a signed `curl` command; `| sh` sends it. The secret comes from an environment variable."
    return "\n".join([told, "", "```sh", shlex.join(words), "```"])


def _variable(provider: type[Provider]) -> str:
    return f"{provider.name.upper().replace('-', '_')}_SECRET"


def _codes(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def stale(folder: str) -> Iterator[str]:
    """The files in the folder that are not as they would be made now."""
    made = pages()
    for name in sorted({*made, *(each for each in os.listdir(folder) if each.endswith(".md"))}):
        path = os.path.join(folder, name)
        if name not in made or not os.path.exists(path) or _text(path) != made[name]:
            yield name


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name in list(stale(folder)):
        path = os.path.join(folder, name)
        if (text := pages().get(name)) is None:
            os.remove(path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
