"""Which transactions are open here: in this thread, or in this task and those that it starts."""

from __future__ import annotations

from contextvars import Context, ContextVar, Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_blocks: ContextVar[tuple[Any, ...]] = ContextVar("brant_transactions", default=())


def blocks() -> tuple[Any, ...]:
    """The inmost last. A task may outlive a block that it was started in: ask each whether it is still open."""
    return _blocks.get()


def enter(block: object) -> Token[tuple[Any, ...]]:
    return _blocks.set((*_blocks.get(), block))


def leave(token: Token[tuple[Any, ...]]) -> None:
    try:
        _blocks.reset(token)
    except ValueError:
        pass  # entered in another context (an async fixture): that one ends with its task


def call_with(variables: Context, function: Callable[..., object], *args: object) -> None:
    """Call it with those variables, and inside the transactions that are open here."""
    variables.run(_call, _blocks.get(), function, args)


def _call(blocks: tuple[Any, ...], function: Callable[..., object], args: tuple[object, ...]) -> None:
    _blocks.set(blocks)
    function(*args)
