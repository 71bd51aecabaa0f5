"""First screen: the summary of a report in at most ten lines of 120 columns, for every backend and every finding.

    VIOLATED  HANG:COLLECTIVE  HANG: a rank left out a collective in which its peers wait
    culprit   rank 1, step 5, dp.agree at step.py:134 < gather
              rank 1 left out dp.agree (all_reduce on dp_cpu) in step 5; ranks 0, 2, 3 made it
    waits     rank 0 -> rank 1 (dp_cpu #5); rank 1 -> rank 0 (ep #5)
    observed  no rank can make progress
    agreed    all steps up to 4
    next      dpsim run skip_one --full

The first six lines contain the culprit, or what both sides did if there is none. If ten lines do not suffice, the
screen omits the least useful ones. The option `--full` prints all. The screen never shortens a command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.checks.classes import class_and_detail, row_of
from dpsim.checks.finding import Finding
from dpsim.contract.chain import chain_text
from dpsim.contract.world import Run
from dpsim.diagnose.evidence import (
    Extras,
    chain_of,
    exception_of,
    finding_in_words,
    in_words,
    kinds,
    last_agreed,
    later,
    shown_unprotected,
    waits,
)
from dpsim.diagnose.first_wrong import first_wrong
from dpsim.diagnose.fitting import (
    LABEL,
    NO_MAJORITY,
    WIDTH,
    beginning,
    block,
    but_place,
    cut,
    folded,
    labelled,
    shortened,
)
from dpsim.diagnose.timeouts import passed_timeouts

LINES = 10
"""The number of lines of a first screen."""

TO_ORDER = "to order them: "
"""A detail of a finding that begins so is the suggested fix."""

_KERNEL = re.compile(r" \(kernel on stream \S+\)")
"""Matches the text after the name of a kernel, which repeats the stream of the access."""

_TRACEBACK = "Traceback (most recent call last)"


class Passage(NamedTuple):
    """Some lines with a priority, `rank`. The screen first drops lines of the lowest priority.

    `least` is the number of lines that always stay. `marked`: "..." shows that lines were dropped.
    """

    rank: int
    lines: list[str]
    least: int = 0
    marked: bool = True


def first_screen(run: Run, findings: Sequence[Finding], extras: Extras) -> list[str]:
    """Returns the lines of the screen. There must be at least one finding."""
    findings = [finding_in_words(run, finding) for finding in findings]
    primary = findings[0]
    agreed = last_agreed(run, findings)
    parts = [
        Passage(9, [verdict_line(findings)], 1),
        Passage(9, _culprit(run, primary), 2),
        Passage(8, _what(primary), 1 if primary.culprit else 3),
        Passage(4, labelled("", [line for side in beside(primary)[:3] for line in folded(side, 2, but_place)])),
        Passage(7, block("to mend", [remedy] if (remedy := remedy_of(primary)) else []), 1),
        Passage(5, block("variant", [extras.variant] * bool(extras.variant), 1), 1),
        Passage(8, labelled("alone", folded(extras.shared, 2, but_place)), 1),
        Passage(2, block("form", shown_unprotected(findings, extras), one="gap")),
        Passage(3, block("timed out", [in_words(run, line) for line in passed_timeouts(run)], 1, "time-out")),
        Passage(4, block("then", [in_words(run, one) for one in later(findings)], one="finding")),
        Passage(6, block("waits", waits(findings), one="chain"), 1),
        Passage(5, block("first", [in_words(run, line) for line in first_wrong(run)] if primary.culprit else []), 1),
        Passage(1, block("observed", [run.observed] * bool(run.observed))),
        Passage(3, block("agreed", [] if agreed is None else [f"all steps up to {agreed}" if agreed else "step 0"])),
        Passage(6, labelled("turning", _turning(run, extras)), 2),
        Passage(2, _schedule(extras.schedule), 0),
        Passage(
            2,
            block(
                "one more", [f"the same world with one rank more blames {extras.one_more}"] if extras.one_more else []
            ),
        ),
        Passage(6 if primary.ground else 2, block("ground", primary.grounds)),  # a number of ranks is weak evidence
        Passage(8, labelled("next", commands(extras.next)), 1, marked=False),
    ]
    return _fitted(parts)


def verdict_line(findings: Sequence[Finding]) -> str:
    """Returns the class, the kinds of failure and the event, with as many kinds as fit."""
    klass, known, raised = findings[0].klass, kinds(findings), exception_of(findings[0])
    happened = row_of(klass).words + f" {raised}" * bool(raised)
    for count in range(len(known), 0, -1):
        line = f"VIOLATED  {class_and_detail(klass)[0]}  {', '.join(known[:count])}: {happened}"
        if len(line) <= WIDTH:
            return line
    return f"VIOLATED  {class_and_detail(klass)[0]}"


def remedy_of(finding: Finding) -> str:
    """Returns the suggested fix, if the check has one."""
    return next((line.removeprefix(TO_ORDER) for line in finding.details if line.startswith(TO_ORDER)), "")


def sides_of(finding: Finding) -> list[str]:
    """Returns what each side did: details that are neither the fix nor the continuation of another line."""
    lines = [line for line in finding.details if not line.startswith((TO_ORDER, " ", "or the other way"))]
    return lines if finding.culprit is None or finding.check == "race" else []


def beside(finding: Finding) -> list[str]:
    """Returns where a wrong message or wrong memory contents came from, for a finding with a culprit."""
    if finding.culprit is None or finding.check in ("race", "ledger", "agreement"):
        return []
    lines = [line for line in finding.details if not line.startswith((TO_ORDER, " "))]
    keeps_takes = finding.check == "stale" or finding.klass.startswith("NONDETERMINISM")
    return [line for line in lines if keeps_takes or " last took " in line]


def commands(words: Sequence[str]) -> list[str]:
    """Returns lines of commands, with as many in one line as fit."""
    lines: list[str] = []
    for command in words:
        both = f"{lines[-1]}       {command}" if lines else ""
        if both and len(both) <= WIDTH - LABEL:
            lines[-1] = both
        else:
            lines.append(command)
    return lines


def _culprit(run: Run, primary: Finding) -> list[str]:
    """Returns the culprit, its place, and the calls that led there, in one line or several."""
    if primary.culprit is None:
        return labelled("culprit", [shortened(f"not decided: {primary.why or NO_MAJORITY}")])
    text, chain = in_words(run, primary.culprit.described()), chain_text(chain_of(run, primary))
    calls = chain.removeprefix(primary.culprit.where)
    if not calls:
        return labelled("culprit", folded(text))
    if not primary.culprit.within and LABEL + len(text) + len(calls) <= WIDTH:
        return labelled("culprit", [text + calls])
    place = primary.culprit.where.rpartition("/")[2]
    return labelled("culprit", [*folded(text), *folded(place + calls, 1)])


def _what(primary: Finding) -> list[str]:
    """Returns what the culprit did or left out; without a culprit, what each side did."""
    sides, head = sides_of(primary), _without_remedy(primary)
    if not sides:
        raised, shorten = primary.klass.startswith("CRASH:"), but_place  # raised: the message is the program's
        if raised:
            shorten = cut if _TRACEBACK in head else beginning  # a traceback names its exception at the end
        return labelled("", folded(_message_text(primary, head), 3, shorten))
    if primary.culprit is None:
        most = 2 if len(sides) < 3 else 1
        lines = folded(head.partition(": rank")[0], most, but_place)
        return labelled("", [*lines, *(line for side in _parting(sides[:3]) for line in folded(side, most, but_place))])
    plain = [_KERNEL.sub("", side) for side in sides]
    return labelled("", [line for side in plain for line in folded(side, 2, but_place)])


def _message_text(primary: Finding, message: str) -> str:
    """Returns the message without the rank and place of an exception, because the line above names them."""
    culprit = primary.culprit
    if culprit is None or not primary.klass.startswith("CRASH:"):
        return message
    head, colon, text = message.partition(": ")
    return f"{culprit.site}: {text}" if colon and f"raised {culprit.site}" in head else message


def _parting(sides: Sequence[str]) -> list[str]:
    """Returns the lines of the sides. If they are too long, the common beginning of their lists is left out."""
    if len(sides) < 2 or max(map(len, sides)) <= 2 * (WIDTH - LABEL) or not all(": " in side for side in sides):
        return [*sides]
    lists = [side.partition(": ")[2].split(", ") for side in sides]
    same = 0
    while all(len(own) > same + 1 and own[same] == lists[0][same] for own in lists):
        same += 1
    heads = [side.partition(": ")[0] for side in sides]
    skipped = f"{same} like the others, then " if same else ""
    return [f"{head}: {skipped}{', '.join(own[same:])}" for head, own in zip(heads, lists, strict=True)]


def _without_remedy(primary: Finding) -> str:
    remedy = remedy_of(primary)
    return primary.message.replace(f"; {remedy}", "") if remedy else primary.message


def _schedule(schedule: Sequence[str]) -> list[str]:
    """Returns how the search found the failing schedule, with its steps if they fit."""
    if not schedule:
        return []
    head, *steps = schedule
    whole = f"{head}: {'; '.join(steps)}" if steps else head
    return block("schedule", [whole if len(whole) <= WIDTH - LABEL else head])


def _turning(run: Run, extras: Extras) -> list[str]:
    """Returns the lines of the turning: one for the point of no return, and at most two for the swap."""
    point, swap = turning_texts(run, extras)
    return [*folded(point, 1 if swap else 2, but_place), *folded(swap, 2, but_place)]


def turning_texts(run: Run, extras: Extras) -> tuple[str, str]:
    """Returns the point of no return, and the swap of events with which the run finishes. Either may be empty."""
    other = "nothing fails" if run.finished else "the run finishes"
    point = f"point of no return: {extras.no_return}" if extras.no_return else ""
    return point, f"in this run, {extras.swap}; otherwise, {other}" if extras.swap else ""


def _fitted(parts: list[Passage]) -> list[str]:
    """Returns the lines of all parts. If there are too many, the least useful ones are left out."""
    while sum(len(part.lines) for part in parts) > LINES:
        spare = [at for at, part in enumerate(parts) if len(part.lines) > part.least]
        at = min(spare, key=lambda one: parts[one].rank)
        kept = parts[at].lines[: -1 if parts[at].least else 0]
        if kept and parts[at].marked:
            line = kept[-1]
            kept[-1] = f"{line} ..." if len(line) <= WIDTH - 4 else shortened(line, WIDTH - 4)
        parts[at] = parts[at]._replace(lines=kept)
    return [line for part in parts for line in part.lines]
