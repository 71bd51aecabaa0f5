"""What a rank has learned and done in a run: enough for it to make that run again alone.

    past = Past(rank=1)
    past.given["main"].append(Given("agree", 0, array))     # what an await returned, in the order of its thread
    past.records = journal                                  # what the rank did

All of it is plain data, or arrays, and crosses to another process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpsim.backend.journal.call_site import raised_at
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.misuse import said
from dpsim.contract.ops import INJECTED_WHAT, KIND, MAIN, THREAD, RawRecord


class Given(NamedTuple):
    """What an await at a site returned, or what it raised."""

    site: str
    ordinal: int
    value: Any = None
    error: BaseException | None = None


@dataclass
class Past:
    """Of one rank. `given`: by thread. `turns`: of a rank with several threads, which one went on, in order, and what
    its call raised there. `end`: how its program ended, as a record; None where it did not. `cut`: the rank came
    further than its records say, as one that was killed.
    """

    rank: int
    given: defaultdict[str, list[Given]] = field(default_factory=lambda: defaultdict(list))
    turns: list[tuple[str, BaseException | None]] = field(default_factory=list)
    records: list[RawRecord] = field(default_factory=list)
    end: RawRecord | None = None
    cut: bool = False

    def by_thread(self) -> dict[str, list[RawRecord]]:
        """Its records as a rank alone writes them, with the end of the program as the last of the main thread."""
        threads: dict[str, list[RawRecord]] = {MAIN: []}
        for raw in comparable(self.records):
            threads.setdefault(raw[THREAD], []).append(raw)
        if self.end is not None:
            threads[MAIN].append(self.end)
        return threads


def comparable(records: Iterable[RawRecord]) -> Iterable[RawRecord]:
    """Without what a backend adds by itself: the end of a rank, and where an allocator has placed memory."""
    for raw in records:
        kind = raw[KIND]
        if kind == "alloc":
            yield (*raw[:-1], None)
        elif kind not in ("finished", "raised") and not is_kill(raw):
            yield raw


def is_kill(raw: RawRecord) -> bool:
    """Whether the record says that the rank was killed."""
    return bool(raw[KIND] == "injected" and raw[INJECTED_WHAT] == "kill")


def ending(journal: Journal, error: BaseException | None, packages: Collection[str]) -> RawRecord:
    """How a program ended, as a record. `error`: what it raised."""
    if error is None:
        return "finished", journal.step, MAIN, "end", 0, ""
    where = raised_at(error, packages)
    return "raised", journal.step, MAIN, type(error).__name__, 0, where, said(error)
