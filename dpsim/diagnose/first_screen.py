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

from collections.abc import Sequence
from typing import NamedTuple

from dpsim.checks.classes import class_and_detail, row_of
from dpsim.checks.finding import Fact, Finding, Part, also, each, fact_name, facts_in
from dpsim.contract.chain import chain_text
from dpsim.contract.world import Run
from dpsim.diagnose.evidence import Extras, chain_of, exception_of, kinds, last_agreed, later, shown_unprotected, waits
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
from dpsim.diagnose.words import in_words, text, told

LINES = 10
"""The number of lines of a first screen."""

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
    primary, texts = findings[0], told(run, findings[0])
    agreed = last_agreed(run, findings)
    parts = [
        Passage(9, [verdict_line(findings)], 1),
        Passage(9, _culprit(run, primary), 2),
        Passage(8, _what(run, primary), 1 if primary.culprit else 3),
        Passage(7, labelled("repair", folded(in_words(run, extras.repair), 2))),
        Passage(4, labelled("", [line for side in _beside(run, primary)[:3] for line in folded(side, 2, but_place)])),
        Passage(7, block("to mend", [in_words(run, line) for line in remedies(primary)]), 1),
        Passage(5, block("variant", [extras.variant] * bool(extras.variant), 1), 1),
        Passage(8, labelled("alone", folded(extras.shared, 2, but_place)), 1),
        Passage(2, block("form", shown_unprotected(findings, extras), one="gap")),
        Passage(3, block("timed out", [in_words(run, line) for line in passed_timeouts(run)], 1, "time-out")),
        Passage(4, block("then", [in_words(run, one) for one in later(findings)], one="finding")),
        Passage(6, block("waits", [in_words(run, line) for line in waits(findings)], one="chain"), 1),
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
        Passage(6 if texts.ground else 2, block("ground", texts.grounds)),  # a number of ranks is weak evidence
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


def remedies(finding: Finding) -> list[str]:
    """Returns the suggested fix, if the check has one."""
    return [text(one["cure"]) for part in finding.details for one in facts_in(part) if one.name == "to_order"]


def _sides(finding: Finding) -> list[Part]:
    """Returns what each side did: details that are neither the fix nor the continuation of another line."""
    parts = [part for part in finding.details if fact_name(part) not in ("to_order", "indented", "other_order")]
    return parts if finding.culprit is None or finding.check == "race" else []


def _beside(run: Run, finding: Finding) -> list[str]:
    """Returns where a wrong message or wrong memory contents came from, for a finding with a culprit."""
    if finding.culprit is None or finding.check in ("race", "ledger", "agreement"):
        return []
    keeps = finding.check == "stale" or finding.klass.startswith("NONDETERMINISM")
    parts = [part for part in finding.details if fact_name(part) not in ("to_order", "indented")]
    return [in_words(run, text(part)) for part in parts if keeps or fact_name(part) == "last_took"]


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
        return labelled("culprit", [shortened(f"not decided: {in_words(run, text(primary.why)) or NO_MAJORITY}")])
    who, chain = in_words(run, primary.culprit.described()), chain_text(chain_of(run, primary))
    calls = chain.removeprefix(primary.culprit.where)
    if not calls:
        return labelled("culprit", folded(who))
    if not primary.culprit.within and LABEL + len(who) + len(calls) <= WIDTH:
        return labelled("culprit", [who + calls])
    place = primary.culprit.where.rpartition("/")[2]
    return labelled("culprit", [*folded(who), *folded(place + calls, 1)])


def _what(run: Run, primary: Finding) -> list[str]:
    """Returns what the culprit did or left out; without a culprit, what each side did."""
    sides = _sides(primary)
    if not sides:
        raised = primary.culprit is not None and fact_name(primary.message) == "raised"
        line, shorten = in_words(run, text(primary.message, short=raised)), but_place
        if raised:  # the message is the program's, and a traceback names its exception at the end
            shorten = cut if _TRACEBACK in line else beginning
        return labelled("", folded(line, 3, shorten))
    shown, most = [text(side, short=True) for side in sides], 2
    if primary.culprit is None:
        settings = [part for part in each(primary.message) if fact_name(part) == "alone_has"]
        head = also(*(part for part in each(primary.message) if part not in settings))
        shown, most = [text(head, short=True), *_parting(sides[:3]), *map(text, settings)], 2 if len(sides) < 3 else 1
    return labelled("", [row for line in shown for row in folded(in_words(run, line), most, but_place)])


def _parting(sides: Sequence[Part]) -> list[str]:
    """Returns the lines of the sides. If they are too long, the common beginning of their lists is left out."""
    lines = [text(side) for side in sides]
    known = [side for side in sides if isinstance(side, Fact) and side.name == "side"]
    if len(sides) < 2 or max(map(len, lines)) <= 2 * (WIDTH - LABEL) or len(known) < len(sides):
        return lines
    lists = [side["calls"] for side in known]
    same = 0
    while all(len(own) > same + 1 and own[same] == lists[0][same] for own in lists):
        same += 1
    rest = [(f"{same} like the others, then {own[same]}", *own[same + 1 :]) if same else own for own in lists]
    return [text(side.having(calls=own)) for side, own in zip(known, rest, strict=True)]


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
