"""Report: the text about a run with findings. It is the first screen, and with `full` the rest.

    report(run, findings, Extras(next=("dpsim run skip_one --full",)))

The first screen (`dpsim.diagnose.first_screen`) has at most ten lines. The whole report adds the calls of waiting and
missing ranks, all waits, other findings, and the last ops of each rank. If the first screen cuts the turning, the whole
report has it uncut. It also adds the schedule, expired timeouts, the faults that the scenario injected, and the usual
fix of the class. The report has at most `MOST` lines: it cuts a section that is too long, and prints the number of
omitted lines. Ranks that behave alike share a line, and the report names those that differ, as the RAS reports of NCCL
do.

If the machine took a process away from the run, the run has no verdict. Then the report names the lost process, the
last ops of every rank, and the findings so far.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dpsim.checks.classes import row_of
from dpsim.checks.finding import Finding, fact_name
from dpsim.contract.ops import INJECTED_WHAT, KIND, ORDINAL, SITE, STEP, THREAD, WHERE, Injected
from dpsim.contract.words import counted
from dpsim.contract.world import At, Run
from dpsim.diagnose.evidence import NOTHING, Extras, chain_of
from dpsim.diagnose.first_screen import first_screen, remedies, turning_texts
from dpsim.diagnose.fitting import capped, labelled
from dpsim.diagnose.injected import injection_text
from dpsim.diagnose.last_ops import LAST_OPS, last_ops
from dpsim.diagnose.timeouts import passed_timeouts
from dpsim.diagnose.words import in_words, text

MOST = 139
"""The largest number of lines of a whole report. A command adds its own lines."""


def report(run: Run, findings: Sequence[Finding], extras: Extras = NOTHING, full: bool = False) -> str:
    """Returns the report as plain text without colours; empty without findings and without a loss."""
    lines = _lost(run, findings, extras) if run.lost else _report(run, findings, extras, full) if findings else []
    return in_words(run, "\n".join(lines))


def _report(run: Run, findings: Sequence[Finding], extras: Extras, full: bool) -> list[str]:
    lines = first_screen(run, findings, extras)
    if not full:
        return lines
    primary = findings[0]
    until = primary.position[0] if run.finished else None
    hangs = [finding for finding in findings if finding.check == "deadlock"]
    parts = [one.details if one is primary else (one.message, *one.details) for one in hangs]
    shows = [text(part) for own in parts for part in own]
    also = [finding for finding in findings[1:] if finding.check != "deadlock"]
    own = [] if primary in hangs else [text(part) for part in primary.details if fact_name(part) != "to_order"]
    lines += _section("the whole finding", [_without_remedy(primary), *own, *_stopped(run)], 12)
    lines += _section("the turning", _cut_turning(run, extras, lines), 4)
    lines += _section("all waits", list(dict.fromkeys(shows)), 16)
    lines += _section("found as well", [f"{one.klass}: {_without_remedy(one)}" for one in also], 10)
    place = "of each rank" if until is None else f"up to step {until}"
    races = f", and {counted(len(primary.ops), 'op')} in no order" * bool(primary.ops)
    shown = last_ops(run, until, _first_shown(findings), primary.ops)
    lines += _section(f"last {LAST_OPS} ops {place}{races}", shown, 36)
    lines += _section("schedule", extras.schedule[1:], 20)
    lines += _section("time-outs that passed", passed_timeouts(run), 6)
    lines += _section("injected by the scenario", _injected(run), 6)
    usual = [_cure(run, primary, extras), f"dpsim show {shlex.quote(primary.klass)}"]
    return lines + _section("the usual fix", usual, 2)


def _cure(run: Run, primary: Finding, extras: Extras) -> str:
    """Returns the usual fix. If a check of the program raised and no line of the variant did, look at the variant."""
    if extras.compare is None or primary.culprit is None or not primary.klass.startswith("CRASH:"):
        return row_of(primary.klass).cure
    file, advice = extras.compare
    places = [primary.culprit.where, *(place for _, place in chain_of(run, primary))]
    own = any(f"/{place}".rpartition(":")[0].endswith(f"/{file}") for place in places)
    return row_of(primary.klass).cure if own else advice


def _cut_turning(run: Run, extras: Extras, screen: Sequence[str]) -> list[str]:
    """Returns the whole texts of the turning if the screen lacks a part of one."""
    shown = " ".join(" ".join(screen).split())
    texts = [text for text in turning_texts(run, extras) if text]
    return texts if any(" ".join(text.split()) not in shown for text in texts) else []


def _lost(run: Run, findings: Sequence[Finding], extras: Extras) -> list[str]:
    lines = [f"LOST  {run.lost}: no verdict"]
    lines += _section(f"last {LAST_OPS} ops of each rank", last_ops(run, None), 50)
    lines += _section(
        "found before", [f"{one.klass}: {text(one.message)} (culprit {one.culprit})" for one in findings], 15
    )
    lines += _section("injected by the scenario", _injected(run), 6)
    return [*lines, *["", *labelled("next", extras.next)][: 2 * len(extras.next)]]


def _section(title: str, body: Sequence[str], most: int) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in capped(body, most))] if body else []


def _first_shown(findings: Sequence[Finding]) -> tuple[int, ...]:
    """Returns the ranks whose last ops come first, if not all fit."""
    culprit = findings[0].culprit
    return () if culprit is None else culprit.ranks or (culprit.rank,)


def _without_remedy(finding: Finding) -> str:
    """Returns the message of a finding without the suggested fix, which its details repeat."""
    return text(finding.message, short=bool(remedies(finding)))


def _stopped(run: Run) -> list[str]:
    """Returns lines about ranks that a planted fault hangs. They issued no op there, so no check reports them."""
    return [
        f"rank {rank} hangs at {At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])} in step {raw[STEP]}, {raw[WHERE]}"
        for rank, journal in enumerate(run.journals)
        for raw in journal
        if raw[KIND] == "injected" and raw[INJECTED_WHAT] == "hang"
    ]


def _injected(run: Run) -> list[str]:
    """Returns a line for each injection. Repetitions at one site are counted."""
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
