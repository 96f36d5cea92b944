"""A secret in a header of the sender's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from brant.inbox.providers.named import NAMING
from brant.inbox.providers.tokens import TokenProvider


class TokenHeader(TokenProvider):
    """`header` names it; without that it is X-Knocker-Token."""

    name = "token-header"
    aliases = ("header-token",)
    options: ClassVar[Mapping[str, Any]] = {"header": "X-Knocker-Token", **NAMING}

    def token_header(self) -> str:
        return str(self.settings["header"])
