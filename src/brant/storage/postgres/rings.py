"""What a transaction has to tell those who wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

# Nobody waits for these, or another statement of the same verb tells of it.
_QUIET = frozenset(
    {
        "claim",
        "claim_above",
        "claim_ids",
        "drop_lapsed_unique",
        "extend",
        "forget_starts",
        "forget_unused_limits",
        "hold_back",
        "hold_unique",
        "note_error",
        "note_held_back",
        "note_lapsed",
        "note_starts",
        "outlive_unique",
        "register_queue",
        "renew_lock",
        "restart_leases",
        "save_offset",
        "set_schema_version",
        "sweep_batches",
        "sweep_locks",
        "sweep_rate_limits",
        "sweep_results",
        "try_rate_limit",
        "wake_key",
        "wake_key_if_needed",
    }
)
# Somebody may wait for these, but hardly anybody does, and they are many: the others are told a little later.
_LAZY = frozenset({"ack", "ack_many", "drop_jobs", "drop_dead", "take", "take_chosen", "take_id"})
_KEYS = ("destination", "queue", "topic", "channel", "name", "consumer")


class Bell:
    """By which a statement tells the others itself; `words` are its parameters."""

    __slots__ = ("rings_now", "unrung", "words")

    def __init__(
        self, rings_now: Callable[[Iterable[str]], bool], unrung: Callable[[str], None], words: dict[str, object]
    ) -> None:
        self.rings_now = rings_now
        self.unrung = unrung
        self.words = words


class Rings:
    """Collected while a transaction runs; `keys` are the queues, topics and channels to tell others of at once.

    `used_keys`: whether unique keys were used, so that those whose time is over are to be forgotten now and then.
    """

    __slots__ = ("is_lazy", "keys", "rang_at", "used_keys", "wrote")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.wrote = False
        self.is_lazy = False
        self.used_keys = False
        self.rang_at: float | None = None  # when a statement began that has told the others by itself
        self.keys: set[str] = set()

    def note(self, statement: str, params: Mapping[str, object]) -> None:
        """A statement has changed something."""
        self.wrote = True
        if statement in _QUIET:
            return
        if statement in _LAZY:
            self.is_lazy = True
        else:
            self.keys.add(next((str(params[key]) for key in _KEYS if params.get(key) is not None), ""))
