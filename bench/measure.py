"""Running contenders in turns, so that a noisy machine disturbs all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Work = Callable[[int], object]


@dataclass
class Case:
    """One kind of work: Brant, the floor it is compared with, and the peers that can do it."""

    name: str
    count: int
    brant: Work
    floor: Work
    least: float
    peers: Mapping[str, Work] = field(default_factory=dict)
    prepare: Mapping[str, Work] = field(default_factory=dict)  # by contender: before each of its turns, not measured
    rounds: int | None = None  # the most turns, where one takes long
    beats: tuple[str, ...] = ()  # peers of the same promise: none of them may be faster


@dataclass
class Outcome:
    name: str
    rates: dict[str, float]
    ratio: float
    least: float
    beats: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        return self.ratio >= self.least and all(self.rates["brant"] >= self.rates.get(peer, 0) for peer in self.beats)


def run(case: Case, rounds: int) -> Outcome:
    """Rates are medians; the ratio is the median of each round's, whose two sides ran side by side."""
    contenders: dict[str, Work] = {"brant": case.brant, "floor": case.floor, **case.peers}
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(min(rounds, case.rounds or rounds)):
        for name, work in contenders.items():
            if name in case.prepare:
                case.prepare[name](case.count)
            start = time.perf_counter()
            work(case.count)
            rates[name].append(case.count / (time.perf_counter() - start))
    ratio = statistics.median(ours / bare for ours, bare in zip(rates["brant"], rates["floor"], strict=True))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return Outcome(case.name, medians, ratio, case.least, case.beats)
