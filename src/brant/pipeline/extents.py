"""Pure arithmetic of a read: ranges of files, fair shares of a limit, and packing into slices. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Extent:
    """The rows of one file behind `after` up to and with `until`; of one topic or channel, where `name` is given.

    `only` filters by other names: the queues of a table that is read whole.
    """

    tenant: str
    path: str
    after: int = 0
    until: int = 0
    name: str | None = None
    only: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        return max(0, self.until - self.after)


def fair_shares(backlogs: Mapping[str, int], limit: int) -> dict[str, int]:
    """The limit split in proportion to the backlogs; never more than a backlog, and never nothing for all."""
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    shares = {tenant: backlog * limit // total for tenant, backlog in backlogs.items()}
    # What rounding left over goes to those that lost most by it, so that the smallest get on too.
    by_loss = sorted(backlogs, key=lambda tenant: (-(backlogs[tenant] * limit % total), tenant))
    for tenant in by_loss[: limit - sum(shares.values())]:
        shares[tenant] += 1
    return shares


def pack(extents: Iterable[Extent], slices: int, most: int | None = None) -> list[list[Extent]]:
    """Ranges in about that many slices of like size, none above `most`; small files stay whole and share a slice."""
    wanted = [extent for extent in extents if extent.size]
    total = sum(extent.size for extent in wanted)
    if not total:
        return []
    room = max(1, -(-total // max(1, slices)))
    if most is not None:
        room = min(room, most)
    packed: list[list[Extent]] = [[]]
    left = room
    for extent in wanted:
        rest = extent
        while rest.size:
            if packed[-1] and rest.size > left and (left == 0 or extent.size <= room // 2):
                packed.append([])
                left = room
            taken = replace(rest, until=min(rest.until, rest.after + left))
            packed[-1].append(taken)
            left -= taken.size
            rest = replace(rest, after=taken.until)
    return packed


def deal(extents: Sequence[Extent], slices: int) -> list[list[Extent]]:
    """Whole files in at most that many slices."""
    count = min(len(extents), max(1, slices))
    return [list(extents[number::count]) for number in range(count)]


def slices_for(rows: int, cores: int, least: int | None, rows_worth_a_task: int = 50_000) -> int:
    """How many slices: one a core when there is enough for it to do, or as many as were asked for."""
    worth = -(-rows // rows_worth_a_task)
    return max(1, least or 1, min(cores, worth))
