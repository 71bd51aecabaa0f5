"""What a rank's awaits returned in a run, and which records it wrote. This is enough to run the rank again alone.

    past = Past(rank=1)
    past.given["main"].append(Given("agree", 0, array))     # the await agree[0] of the main thread returned `array`
    past.records = journal                                  # the records of the rank

A `Past` is plain data and arrays, so dpsim can pickle it for another process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpsim.backend.journal.call_site import raised_at
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.misuse import said
from dpsim.contract.kinds import ENDS, RANK_ENDS
from dpsim.contract.ops import INJECTED_WHAT, KIND, MAIN, THREAD, RawRecord


class Given(NamedTuple):
    """What the await at an address returned (`value`), or the exception that it raised (`error`)."""

    site: str
    ordinal: int
    value: Any = None
    error: BaseException | None = None


@dataclass
class Past:
    """One rank in the first run. `given`: for each host thread, what its awaits returned, in order. `turns`: for a rank
    with several threads, the thread that continued at each turn, and the exception that its call raised there. `end`:
    the end of the program as a record, None if it did not end. `cut`: the rank was killed, so it may have run further
    than its records show.
    """

    rank: int
    given: defaultdict[str, list[Given]] = field(default_factory=lambda: defaultdict(list))
    turns: list[tuple[str, BaseException | None]] = field(default_factory=list)
    records: list[RawRecord] = field(default_factory=list)
    end: RawRecord | None = None
    cut: bool = False

    def by_thread(self) -> dict[str, list[RawRecord]]:
        """Returns each thread's records as a rank alone writes them. The program's end is the last of main."""
        threads: dict[str, list[RawRecord]] = {MAIN: []}
        for raw in comparable(self.records):
            threads.setdefault(raw[THREAD], []).append(raw)
        if self.end is not None:
            threads[MAIN].append(self.end)
        return threads


def comparable(records: Iterable[RawRecord]) -> Iterable[RawRecord]:
    """Yields the records without what a backend adds: the end of the rank, a kill, and the address of allocations."""
    for raw in records:
        kind = raw[KIND]
        if kind == "alloc":
            yield (*raw[:-1], None)
        elif kind not in RANK_ENDS and not is_kill(raw):
            yield raw


def alike(among: RawRecord, alone: RawRecord) -> bool:
    """Returns whether a rank did the same. An exception counts by its class and step. Its text may differ: pytest
    rewrites assertions in its own process alone. So may its place: a pickled error lost the kernel that caused it.
    """
    return among == alone or repr(_by_class(among)) == repr(_by_class(alone))  # nan is not equal to itself


def _by_class(raw: RawRecord) -> RawRecord:
    return (*raw[:-2], raw[-1].partition(":")[0] * (raw[KIND] == "ended")) if raw[KIND] in ENDS else raw


def is_kill(raw: RawRecord) -> bool:
    """Returns whether the record says that the scenario killed the rank."""
    return bool(raw[KIND] == "injected" and raw[INJECTED_WHAT] == "kill")


def ending(journal: Journal, error: BaseException | None, packages: Collection[str]) -> RawRecord:
    """Returns the end of a program as a record. `error`: the exception that the program raised, or None."""
    if error is None:
        return "finished", journal.step, MAIN, "end", 0, ""
    where = raised_at(error, packages)
    return "raised", journal.step, MAIN, type(error).__name__, 0, where, said(error)
