"""Last ops: the end of each rank's journal, in columns. Ranks with equal last ops share their lines.

    ranks 0, 2, 3  step 5  all_reduce int32[16] on dp_cpu #5  <- did not return  dp.agree  app/step.py:134

Ops that race stand above the last ops of their rank, however early they are:

    rank 0  step 1  kernel write.h on s reading 0 writing [1]  <- in no order  write.h  app/step.py:20

An op without a result "did not return", if it is the last op of its thread. Before a further op, it has "no result":
the program did not await it, or awaits both.

A get or poll that returned shows what it took: `idle events -> ('done', 0)`, or `poll inbox -> nothing`.

The columns leave out records that never block a host, such as allocations and results. A replay of a graph is one op,
and so is a capture.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpsim.contract.kinds import HOW, TIMED, learns
from dpsim.contract.ops import (
    ADDRESS,
    CAPTURE_WHAT,
    ENDED_MESSAGE,
    EVENT,
    INJECTED_WHAT,
    KIND,
    LEARNED_OUTCOME,
    SITE,
    STEP,
    STREAM,
    THREAD,
    Injected,
    RawRecord,
    as_record,
)
from dpsim.contract.rules.replay_frame import replay_at
from dpsim.contract.words import actors_text, short, step_words, taken_text, with_services
from dpsim.contract.world import Run

LAST_OPS = 5
SHOWN = (
    *("collective", "transfer", "launch", "read", "post", "take", "store", "decision", "raised", "finished"),
    *("capture", "kept", "replay", "mark"),  # event records in a replay
    *("flag", "flag_wait", "thread", "ended"),
    *("receive_any", "group", "look"),
    "ask",  # a host may be blocked in it
    "injected",  # injections that end a rank
)
STOPPED = {"die": "dies here", "hang": "hangs here"}
"""Faults that stop a rank, in words. An exception has its own record."""


def last_ops(
    run: Run, until: int | None, first: Collection[int] = (), racing: Sequence[tuple[int, int]] = ()
) -> list[str]:
    """Returns columns: ranks, step, op, site, place.

    `until`: only ops up to this step, for a run that continued. Each host thread has its own lines, unless it ended
    without an exception. The ranks in `first` come before the others. `racing`: ops that have lines in any case, each
    as its rank and its index in the journal. An op of a replay has its own line below that of the replay.
    """

    def named(cell: str) -> str:
        """Inserts names of services before cells are padded, because a name is longer than a number."""
        return with_services(cell, run.size, run.services)

    blocks: dict[tuple[str, tuple[tuple[str, ...], ...]], list[int]] = {}
    for rank, journal in sorted(enumerate(run.journals), key=lambda one: one[0] not in first):
        own = [at for of, at in racing if of == rank]
        stand = _threads(journal)
        ended = [name for name in dict.fromkeys(journal[at][THREAD] for at in own) if stand != [None]]
        for thread in dict.fromkeys([*stand, *ended]):
            shown = {at for at in own if thread in (None, journal[at][THREAD])}
            shown |= {*_recent(journal, until, thread)} if thread in stand else set()
            rows = [_row(journal, at, at in own) for at in sorted(shown)]
            blocks.setdefault((thread or "", tuple(rows) or (("", "did nothing", "", ""),)), []).append(rank)
    lines = [
        (f"{actors_text(ranks, run.size, run.services)} {name}".rstrip(), *[named(step_words(cell)) for cell in row])
        for (name, rows), ranks in blocks.items()
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)).rstrip() for line in lines
    ]


def _threads(journal: list[RawRecord]) -> list[str | None]:
    """Returns the host threads of a rank, without those that ended without an exception. [None] for a rank with one
    thread.
    """
    if not any(raw[KIND] == "thread" for raw in journal):
        return [None]
    names: dict[str, bool] = {}
    for raw in journal:
        if raw[KIND] != "injected":
            names[raw[THREAD]] = raw[KIND] != "ended" or bool(raw[ENDED_MESSAGE])
    return [name for name, is_free in names.items() if is_free]


def _recent(journal: list[RawRecord], until: int | None, thread: str | None) -> list[int]:
    """Returns the journal indexes of the last ops up to a step.

    A replay is one op, and so is a capture. An unfinished capture has a second one, the last call that it recorded.
    """
    recent: list[int] = []
    at, capture = len(journal), ""  # the capture around `at`: "over", "under way" or none
    while at and len(recent) < LAST_OPS:
        at -= 1
        raw, kind = journal[at], journal[at][KIND]
        if kind not in SHOWN or (until is not None and raw[STEP] > until) or thread not in (None, raw[THREAD]):
            continue
        of = replay_at(journal, at)
        if of is not None:
            at = of
        elif kind == "mark" or (kind == "ask" and not _is_blocked_in(journal, at)) or _continues(raw):
            continue
        elif kind == "kept":
            if capture:
                continue
            capture = "under way"
        elif kind == "capture":
            known, capture = capture, "" if raw[CAPTURE_WHAT] == "begin" else "over"
            if known == "over" and not capture:
                continue
        recent.append(at)
    return recent[::-1]


def _row(journal: list[RawRecord], at: int, races: bool = False) -> tuple[str, ...]:
    raw = journal[at]
    record = as_record(raw)
    if isinstance(record, Injected):
        return f"step {record.step}", f"{STOPPED[record.what]} (injected)", record.site, record.where
    op = short(_wait_text(journal, at) if raw[KIND] == "ask" else record.describe() + _taken(journal, at), 80)
    if _is_blocked_in(journal, at):
        op += "  <- no result" if _continued(journal, at) else "  <- did not return"
    if races:
        op += "  <- in no order"
    return f"step {record.step}", op, record.site, record.where


def _is_blocked_in(journal: list[RawRecord], at: int) -> bool:
    """Returns whether an op blocks its host and did not return."""
    raw = journal[at]
    queries = raw[KIND] in HOW and raw[HOW[raw[KIND]]] == "query"
    if not learns(raw) or raw[KIND] in TIMED or queries:
        return False
    later = (journal[index] for index in range(at + 1, len(journal)))
    return not any(other[KIND] == "learned" and other[ADDRESS] == raw[ADDRESS] for other in later)


def _continued(journal: list[RawRecord], at: int) -> bool:
    """Returns whether the thread issued a further op after this one, which it therefore did not await there."""
    thread = journal[at][THREAD]
    return any(raw[THREAD] == thread and raw[KIND] in SHOWN and not _continues(raw) for raw in journal[at + 1 :])


def _taken(journal: list[RawRecord], at: int) -> str:
    """Returns what a get or poll took, after an arrow; empty for other ops, and if it did not return."""
    if journal[at][KIND] != "take":
        return ""
    later = (journal[index] for index in range(at + 1, len(journal)))
    own = (other for other in later if other[KIND] == "learned" and other[ADDRESS] == journal[at][ADDRESS])
    return next((f" -> {taken_text(other[LEARNED_OUTCOME])}" for other in own), "")


def _continues(raw: RawRecord) -> bool:
    """Returns whether this is an injection after which the host continues."""
    return raw[KIND] == "injected" and raw[INJECTED_WHAT] not in STOPPED


def _wait_text(journal: list[RawRecord], at: int) -> str:
    """Returns the wait of a host that synchronizes an event, in words.

    A capture begins with such a wait, at its own site, because it can begin only when all streams are idle.
    """
    event, site = journal[at][EVENT], journal[at][SITE]
    marks = (journal[index] for index in range(at - 1, -1, -1) if journal[index][KIND] == "mark")
    stream = next((raw[STREAM] for raw in marks if raw[EVENT] == event), None)
    waits = f"waits for event {event}" if stream is None else f"waits for stream {stream} (event {event})"
    graph = site.removesuffix(".capture")
    return waits if graph == site else f"begin capture of graph {graph}: {waits}"
