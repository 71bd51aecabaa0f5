"""The report of a run that did not hold: plain text, the most useful line first.

Order: verdict and class; the culprit with rank, step, op and file:line; what each rank did at that place; where it
shows (which is often much later and somewhere else); what else was found; the last ops of each rank; what the
scenario injected; the command that runs it again. Majorities are folded into one line and only the minority is
named, as NCCL's RAS does: a report on 64 ranks must fit a screen.

    VIOLATED  HANG:COLLECTIVE:MISSING_RANK  (nothing can move any more)
    culprit   rank 1, step 5, dp.agree at dpsim/vllm/data_parallel/step.py:114
              rank 1 left out dp.agree (all_reduce on dp_cpu) in step 5; ranks 0, 2, 3 made it

A run from which the machine took something away has no verdict. Then the report says what that was, what every rank
did last, and what was found before.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.finding import Finding
from dpsim.contract.ops import (
    ADDRESS,
    ASK_HOW,
    CAPTURE_WHAT,
    ENDED_MESSAGE,
    EVENT,
    FLAG_HOW,
    INJECTED_WHAT,
    KIND,
    ORDINAL,
    SITE,
    STEP,
    STORE_HOW,
    STREAM,
    THREAD,
    THREAD_HOW,
    WHERE,
    Injected,
    RawRecord,
    as_record,
)
from dpsim.contract.rules.replay_frame import replay_at
from dpsim.contract.words import actors_text, short, with_services
from dpsim.contract.world import At, Run
from dpsim.diagnose.injected import injection_text
from dpsim.diagnose.timeouts import passed_timeouts

LAST_OPS = 5
SHOWN = (
    *("collective", "transfer", "launch", "read", "post", "take", "store", "decision", "raised", "finished"),
    *("capture", "kept", "replay", "mark"),  # of marks, those of a replay
    *("flag", "flag_wait", "thread", "ended"),
    "ask",  # in which the rank stands
    "injected",  # of these, what ends a rank's way
)
STOPPED = {"die": "dies here", "hang": "hangs here"}
"""Faults by which a rank goes no further, in words. Of an exception there is a record."""


def report(run: Run, findings: Sequence[Finding], replay: str = "") -> str:
    """The report as lines of plain text without colours; empty if there are no findings and nothing was lost. `replay`:
    a command line.
    """
    return with_services(_report(run, findings, replay), run.size, run.services)


def _report(run: Run, findings: Sequence[Finding], replay: str) -> str:
    if run.lost:
        return _lost(run, findings, replay)
    if not findings:
        return ""
    primary = findings[0]
    lines = [f"VIOLATED  {primary.klass}" + (f"  (observed: {run.observed})" if run.observed else "")]
    lines.append(f"culprit   {primary.culprit or 'not decided: no majority and no other evidence'}")
    lines.append(f"          {primary.message}")
    lines += _section("there", [*primary.details, *_stopped(run)])
    shows = [finding for finding in findings[1:] if finding.check == "deadlock"]
    for finding in shows:
        lines += _section("where it shows", (finding.message, *finding.details))
    also = [finding for finding in findings[1:] if finding.check != "deadlock"]
    lines += _section("found as well", [f"{finding.klass}: {finding.message}" for finding in also])
    place = f"up to step {primary.position[0]}" if run.finished else "of each rank"
    lines += _section(f"last {LAST_OPS} ops {place}", _last_ops(run, primary.position[0] if run.finished else None))
    lines += _section("time-outs that passed", passed_timeouts(run))
    lines += _section("injected by the scenario", _injected(run))
    if replay:
        lines += ["", f"replay: {replay}"]
    return "\n".join(lines)


def _lost(run: Run, findings: Sequence[Finding], replay: str) -> str:
    lines = [f"LOST  {run.lost}: no verdict"]
    lines += _section(f"last {LAST_OPS} ops of each rank", _last_ops(run, None))
    lines += _section("found before", [f"{one.klass}: {one.message} (culprit {one.culprit})" for one in findings])
    lines += _section("injected by the scenario", _injected(run))
    return "\n".join([*lines, *["", f"replay: {replay}"] * bool(replay)])


def _section(title: str, body: Sequence[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in body)] if body else []


def _last_ops(run: Run, until: int | None) -> list[str]:
    """Columns: ranks, step, op, site, place. Ranks that did the same share their lines. Of a run that went on those up
    to a step. Each host thread has its own lines; one that has ended well has none.
    """

    def named(cell: str) -> str:
        """Before the cells are as wide as the widest one: a name is longer than a number."""
        return with_services(cell, run.size, run.services)

    blocks: dict[tuple[str, tuple[tuple[str, ...], ...]], list[int]] = {}
    for rank, journal in enumerate(run.journals):
        for thread in _threads(journal):
            rows = [_row(journal, at) for at in _recent(journal, until, thread)]
            blocks.setdefault((thread or "", tuple(rows) or (("", "did nothing", "", ""),)), []).append(rank)
    lines = [
        (f"{actors_text(ranks, run.size, run.services)} {name}".rstrip(), *[named(cell) for cell in row])
        for (name, rows), ranks in blocks.items()
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)).rstrip() for line in lines
    ]


def _threads(journal: list[RawRecord]) -> list[str | None]:
    """The host threads of a rank that have not ended well; None stands for all records of a rank with one thread."""
    if not any(raw[KIND] == "thread" for raw in journal):
        return [None]
    names: dict[str, bool] = {}
    for raw in journal:
        if raw[KIND] != "injected":
            names[raw[THREAD]] = raw[KIND] != "ended" or bool(raw[ENDED_MESSAGE])
    return [name for name, stands in names.items() if stands]


def _recent(journal: list[RawRecord], until: int | None, thread: str | None) -> list[int]:
    """Where the last ops up to a step are. Memory and outcomes are left out: they fill the screen and say little. A
    replay is one op, and so is a capture; one that is not over has a second, the last call that it kept.
    """
    recent: list[int] = []
    at, capture = len(journal), ""  # of the capture that the walk is in: "over" or "under way"
    while at and len(recent) < LAST_OPS:
        at -= 1
        raw, kind = journal[at], journal[at][KIND]
        if kind not in SHOWN or (until is not None and raw[STEP] > until) or thread not in (None, raw[THREAD]):
            continue
        of = replay_at(journal, at)
        if of is not None:
            at = of
        elif kind == "mark" or (kind == "ask" and not _stands_in(journal, at)) or _goes_on(raw):
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


def _row(journal: list[RawRecord], at: int) -> tuple[str, ...]:
    raw = journal[at]
    record = as_record(raw)
    if isinstance(record, Injected):
        return f"step {record.step}", f"{STOPPED[record.what]} (injected)", record.site, record.where
    op = short(_wait_text(journal, at) if raw[KIND] == "ask" else record.describe(), 80)
    if _stands_in(journal, at):
        op += "  <- did not return"
    return f"step {record.step}", op, record.site, record.where


def _stands_in(journal: list[RawRecord], at: int) -> bool:
    """Whether it is an op that holds the host, and that did not return."""
    raw = journal[at]
    awaited = raw[KIND] in ("read", "take") or (raw[KIND] in ("collective", "transfer") and raw[STREAM] is None)
    awaited = awaited or (raw[KIND] == "flag" and raw[FLAG_HOW] == "wait")
    awaited = awaited or (raw[KIND] == "thread" and raw[THREAD_HOW] == "join")
    awaited = awaited or (raw[KIND] == "store" and raw[STORE_HOW] in ("open", "join", "get"))
    if not awaited and not (raw[KIND] == "ask" and raw[ASK_HOW] == "synchronize"):
        return False
    later = (journal[index] for index in range(at + 1, len(journal)))
    return not any(other[KIND] == "learned" and other[ADDRESS] == raw[ADDRESS] for other in later)


def _goes_on(raw: RawRecord) -> bool:
    """Whether it is an injection behind which the host goes on."""
    return raw[KIND] == "injected" and raw[INJECTED_WHAT] not in STOPPED


def _wait_text(journal: list[RawRecord], at: int) -> str:
    """What the host waits for that synchronizes an event. A capture begins with that, at its own site: it is journaled
    when all streams are through.
    """
    event, site = journal[at][EVENT], journal[at][SITE]
    marks = (journal[index] for index in range(at - 1, -1, -1) if journal[index][KIND] == "mark")
    stream = next((raw[STREAM] for raw in marks if raw[EVENT] == event), None)
    waits = f"waits for event {event}" if stream is None else f"waits for stream {stream} (event {event})"
    graph = site.removesuffix(".capture")
    return waits if graph == site else f"begin capture of graph {graph}: {waits}"


def _stopped(run: Run) -> list[str]:
    """Where ranks hang that the scenario stopped: they made no op there, so that no check knows of it."""
    return [
        f"rank {rank} hangs at {At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])} in step {raw[STEP]}, {raw[WHERE]}"
        for rank, journal in enumerate(run.journals)
        for raw in journal
        if raw[KIND] == "injected" and raw[INJECTED_WHAT] == "hang"
    ]


def _injected(run: Run) -> list[str]:
    """Every injection once; many of one kind are counted."""
    lines: dict[tuple[int, At, str], list[int]] = {}
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "injected":
                at = At(raw[SITE], thread=raw[THREAD])
                lines.setdefault((rank, at, injection_text(Injected._make(raw))), []).append(raw[ORDINAL])
    return [
        f"rank {rank} {at._replace(ordinal=ordinals[0])}: {what}"
        + (f" (and {len(ordinals) - 1} times more)" if len(ordinals) > 1 else "")
        for (rank, at, what), ordinals in lines.items()
    ]
