"""How long handlers take: the quick ones share a commit with whatever ends at the same time."""

from __future__ import annotations

_QUICK_S = 0.001
_NEWEST = 0.3  # the weight of the last run
_UNFIT_S = 1e9


class Paces:
    """By their last runs: those that are not known, or were slow, share nothing."""

    def __init__(self) -> None:
        self._of: dict[int, float] = {}
        self.apart: set[int] = set()
        """Events whose handlers turned out to be none of the quick ones."""

    @property
    def are_quick(self) -> bool:
        """All that have run: so is, in all likelihood, that of the next event."""
        known = list(self._of.values())  # a copy: other threads add to it
        return bool(known) and max(known) < _QUICK_S

    def is_quick(self, handler: object) -> bool:
        return self._of.get(id(handler), _QUICK_S) < _QUICK_S

    def took(self, handler: object, seconds: float) -> None:
        known = self._of.get(id(handler))
        self._of[id(handler)] = seconds if known is None else known + _NEWEST * (seconds - known)

    def is_unfit(self, handler: object) -> None:
        """To share; for a long while, until so much has been forgotten."""
        self._of[id(handler)] = _UNFIT_S
