"""Numbers and times for people."""

from __future__ import annotations

from datetime import datetime

_SIZES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def number(value: float) -> str:
    """1234 as 1,234, and from a hundred thousand on 123 k."""
    if abs(value) < 100_000:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    size, unit = next((size, unit) for size, unit in _SIZES if abs(value) >= size)
    return f"{value / size:.3g} {unit}"


def size(count: float) -> str:
    for unit, name in _BYTES:
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds == 0:
        return "0"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 172_800 else f"{seconds / 86_400:.3g} days"


def share(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 1:
        return "100 %"
    percent = min(value * 100, 99.99)  # never 100 while something has failed
    return f"{percent:.2f} %" if percent > 99.9 else f"{percent:.3g} %"


def moment(at: datetime, *, with_date: bool = True) -> str:
    return at.strftime("%d %b %H:%M" if with_date else "%H:%M")


def step(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % unit == 0:
            count = seconds // unit
            return f"{count} {name}s" if count > 1 else name
    return f"{seconds} seconds"
