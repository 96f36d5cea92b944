"""Where secrets come from: a text, the environment, a callable; several at once while one replaces another.

They are read when they are used, so a new value needs no restart. They are never stored and never shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime

from brant.arguments import moment
from brant.errors import BrantError, InvalidValue

__all__ = ["Secret", "SecretUnavailable", "Secrets"]

Given = str | bytes | None
Source = str | bytes | Callable[[], Given | Iterable[Given]]
_ENVIRONMENT = "env:"
MOST = 16
# Where each webhook has agreed on a secret of its own.
MOST_AGREED = 1000


class SecretUnavailable(BrantError):
    """A secret that was configured can't be read now: its variable is gone, or its callable failed."""


class Secret:
    """One source, and until when it counts: `Secret("env:OLD_KEY", not_after=datetime(2027, 1, 31))`."""

    __slots__ = ("_source", "not_after")

    def __init__(self, source: Source, *, not_after: float | datetime | None = None) -> None:
        if not isinstance(source, (str, bytes)) and not callable(source):
            raise InvalidValue(f"a secret must be a text, 'env:NAME' or a callable, not {type(source).__name__}")
        self._source = source
        self.not_after = moment(not_after, "not_after")

    def counts(self, now: float) -> bool:
        return self.not_after is None or now <= self.not_after

    @property
    def is_asked_for(self) -> bool:
        return callable(self._source)

    def values(self) -> list[bytes]:
        """What the source says now, maybe nothing; SecretUnavailable if it can't be asked."""
        if callable(self._source):
            return _given(self._call(self._source))
        if isinstance(self._source, str) and self._source.startswith(_ENVIRONMENT):
            return _given(_from_environment(self._source.removeprefix(_ENVIRONMENT)))
        return _given(self._source)

    @staticmethod
    def _call(source: Callable[[], Given | Iterable[Given]]) -> Given | Iterable[Given]:
        try:
            return source()
        except Exception as error:
            # Not its text, and not as the cause: either may hold the secret.
            raise SecretUnavailable(f"the callable for a secret failed with {type(error).__name__}") from None

    def __repr__(self) -> str:
        return "<Secret>"


class Secrets:
    """All secrets of an endpoint: any of those that count may have signed a request."""

    __slots__ = ("_all", "_may_be_empty", "_most")

    def __init__(
        self, given: Source | Secret | Iterable[Source | Secret], *, may_be_empty: bool = False, most: int = MOST
    ) -> None:
        several = [given] if isinstance(given, (str, bytes, Secret)) or callable(given) else given
        if not isinstance(several, Iterable):
            raise InvalidValue(f"secrets must be a text, 'env:NAME', a callable or a list, not {type(given).__name__}")
        self._all = tuple(one if isinstance(one, Secret) else Secret(one) for one in several)
        self._may_be_empty = may_be_empty
        self._most = most
        if len(self._all) > most:
            raise InvalidValue(self._too_many(len(self._all)))
        self._refuse_what_can_not_work()

    def current(self, now: float) -> tuple[bytes, ...]:
        """The values that count at `now`; SecretUnavailable if they are too many to try them all."""
        found = [value for secret in self._all if secret.counts(now) for value in secret.values()]
        if len(found) > self._most:
            # Any that was left out would have what it signed refused for good.
            raise SecretUnavailable(self._too_many(len(found)))
        return tuple(found)

    def _too_many(self, count: int) -> str:
        return f"there are {count} secrets; at most {self._most} can be tried on each request"

    def _refuse_what_can_not_work(self) -> None:
        if self._may_be_empty:
            return
        if not self._all:
            raise InvalidValue("there is no secret; give at least one, or choose verify='none' in so many words")
        count = 0
        for secret in self._all:
            try:
                values = secret.values()
            except SecretUnavailable as error:
                raise InvalidValue(str(error)) from None
            if not values:
                raise InvalidValue("a secret is empty; an empty secret would let anybody sign")
            count += len(values)
        if count > self._most:
            raise InvalidValue(self._too_many(count))

    @property
    def are_at_hand(self) -> bool:
        """Whether none of them has to be asked for, which may take long."""
        return not any(secret.is_asked_for for secret in self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"<Secrets: {len(self._all)}>"


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise SecretUnavailable(f"the environment variable {name} is not set")
    return value


def _given(value: Given | Iterable[Given]) -> list[bytes]:
    several = [value] if value is None or isinstance(value, (str, bytes)) else list(value)
    found = []
    for one in several:
        if one is not None and not isinstance(one, (str, bytes)):
            raise SecretUnavailable(f"a secret must be a text, not {type(one).__name__}")
        raw = one.encode() if isinstance(one, str) else one
        if raw and raw.strip():
            found.append(raw)
    return found
