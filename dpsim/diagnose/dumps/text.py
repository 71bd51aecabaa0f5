"""Text: prints an explanation in at most ten lines of 120 columns, or as JSON.

    HANG  HANG:COLLECTIVE  a rank left out a collective in which its peers wait
    culprit   rank 2, all_reduce #6 on default_pg at train.py:42 < steps
              rank 2 did not make all_reduce #6 on default_pg; ranks 0, 1, 3 wait in it
    waits     ranks 0, 1, 3 -> rank 2 (all_reduce on default_pg #6)
    ground    3 of 4 members made it; the last call of rank 2 is all_reduce #5 at train.py:42, which finished
    sure      medium: dpsim concludes it; another rank may have made the mistake
    next      read train.py:42 as rank 2 runs it; if the job still runs, py-spy dump --pid PID shows its stack

The source line (`train.py:42` above) is that of the culprit's call. If the culprit left the call out, it is the line at
which its peers made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsim.checks.classes import class_and_detail, json_of, row_of
from dpsim.contract.chain import chain_text
from dpsim.contract.words import printable, ranks_text
from dpsim.diagnose.dumps.explanation import Explanation, Suspect
from dpsim.diagnose.dumps.own_lines import is_own_line
from dpsim.diagnose.fitting import LABEL, NO_MAJORITY, WIDTH, block, cut, folded, labelled, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = 10
"""The largest number of lines of the text."""

MORE_WAITS, MORE_GROUND = "wait", "fact"
"""The nouns for what the text leaves out: "and 3 more facts"."""

ALL = "; dpsim explain --full prints all waits and all evidence"
"""The end of the line `next` if the text leaves something out."""

NO_PROGRESS = "the job made no progress, and the recorders do not show why"
"""The meaning of HANG:UNDECIDED for a job, which has no journals."""

PLAIN = {
    "finished": "the job ended: no rank is to blame",
    "moving": "the job moved when it was dumped: no rank is to blame",
    "failed": "ranks are gone",
    "undecided": "the dumps do not say whether the job hangs",
    "hang": "ranks wait for what does not come",
}


def as_text(found: Explanation, full: bool = False) -> str:
    """Returns the lines without colours. `full`: with all waits and all evidence, each in its line."""
    words = row_of(found.klass).words if found.klass else PLAIN[found.outcome]
    if found.klass == "HANG:UNDECIDED" and not found.simulated:
        words = NO_PROGRESS
    missing = ", or its dump is missing" * found.no_dump
    lines = [cut(f"{headline(found, culprit=False)}  {words}{missing}", WIDTH)]
    lines += labelled("culprit", _culprit(found))
    lines += labelled("", folded(found.said)) if found.said else []
    sure = labelled("sure", [_sure(found)])
    if full:
        waits, ground = labelled("waits", found.waits), labelled("ground", found.ground)
        return "\n".join(map(printable, [*lines, *waits, *ground, *sure, *labelled("next", folded(_next(found)))]))
    waits, ground = block("waits", found.waits, one=MORE_WAITS), block("ground", found.ground, one=MORE_GROUND)
    room = LINES - len(lines) - len(sure)
    ends = labelled("next", folded(_next(found)))
    if len(waits) + len(ground) + len(ends) > room or _more(found.waits, waits) or _more(found.ground, ground):
        ends = labelled("next", folded(_next(found) + ALL))
    if len(waits) + len(ground) + len(ends) > room:
        ground = block("ground", found.ground, 1, MORE_GROUND)
    if len(waits) + len(ground) + len(ends) > room:
        waits = block("waits", found.waits, 1, MORE_WAITS)
    return "\n".join(map(printable, [*lines, *waits, *ground, *sure, *ends]))


def _more(parts: Sequence[str], lines: Sequence[str]) -> bool:
    """Returns whether a block leaves out some of its parts."""
    return "; ".join(parts).split() != " ".join(line[LABEL:] for line in lines).split()


def headline(found: Explanation, culprit: bool = True) -> str:
    """Returns outcome and class, and the ranks that are the cause."""
    who = ranks_text(found.culprit.ranks) if culprit and found.culprit is not None else ""
    return "  ".join(filter(None, (found.outcome.upper(), class_and_detail(found.klass)[0], who)))


def _culprit(found: Explanation) -> list[str]:
    culprit = found.culprit
    if culprit is None:
        if found.outcome in ("finished", "moving"):
            return []
        one_of = f"; one of {ranks_text(found.undecided_ranks)}" if found.undecided_ranks else ""
        return folded(f"not decided: {found.why or NO_MAJORITY}{one_of}", 2, shortened)
    seq = culprit.seq - 1 if found.simulated and culprit.seq is not None else culprit.seq  # journals count calls from 0
    what = f", {culprit.op} #{seq} on {culprit.group}" if culprit.op else ""
    where, calls = culprit.place.line, chain_text(culprit.place.chain).removeprefix(culprit.place.line)
    at = f" at {where}{calls}" if where else ""
    who = ranks_text(culprit.ranks)
    if culprit.skipped:
        peers = f" (peers: {culprit.call_line})" if culprit.call_line else ""
        return folded(f"{who} did not make {culprit.op} #{seq}{peers}; it is{at}", 2)
    there = f" at {culprit.call_line}; it is" if culprit.call_line and what else ""
    return folded(f"{who}{what}{there}{at}", 2)


def _sure(found: Explanation) -> str:
    return {
        "high": "high: the trace shows it" if found.simulated else "high: the recorders show it",
        "medium": "medium: dpsim concludes it; another rank may have made the mistake",
        "low": "low: the trace does not show which rank departs"
        if found.simulated
        else "low: other causes look the same in a dump",
    }[found.confidence]


def _next(found: Explanation) -> str:
    """Returns what the user should do next."""
    culprit = found.culprit
    if found.simulated:
        return "dpsim replay makes this run again, and --full prints the last ops of each rank"
    if found.outcome == "moving":
        return "dump again in a minute, and give both: dpsim explain FOLDER LATER"
    if found.outcome == "finished":
        return "look for the trouble outside of collectives, or dump while the job hangs"
    if culprit is None and found.outcome == "failed":
        return "read the launcher's log for the rank that ended first, and the system's log of killed processes"
    if culprit is None and found.undumped:
        return _fetch(found)
    if culprit is None:
        who = f" of {ranks_text(found.undecided_ranks)}" if found.undecided_ranks else ""
        others = "read the dumps of the job's other recorders (docs/a-job-hangs.md)"
        return f"if the job still runs, py-spy dump --pid PID{who}; {others}"
    who = ranks_text(culprit.ranks)
    if found.raised:
        return f"read the exception in the log of {who}: {found.raised}"
    if found.no_dump:
        end = "the end of the program, its exit code, the system's log of killed processes"
        return f"{_fetch_dumps(culprit.ranks)}; otherwise read the log of {who}: {end}"
    if found.klass.endswith(("DEAD_RANK", "DEATH:RANK")) or not (culprit.op or culprit.place.line):
        return f"read the log of {who}: its end, its exit code, the system's log of killed processes"
    line = next(filter(is_own_line, (culprit.place.line, culprit.call_line)), "the code around this call")
    return f"read {line} as {who} runs it; if the job still runs, py-spy dump --pid PID shows its stack"


def _fetch_dumps(ranks: Sequence[int]) -> str:
    which, exist = ("the dump of", "it exists") if len(ranks) == 1 else ("the dumps of", "they exist")
    return f"fetch {which} {ranks_text(ranks)} if {exist}, and explain again"


def _fetch(found: Explanation) -> str:
    """Returns the next step if ranks with a dump and ranks without one are in question."""
    others = ranks_text(rank for rank in found.undecided_ranks if rank not in found.undumped)
    return f"{_fetch_dumps(found.undumped)}; if the job still runs, py-spy dump --pid PID of {others}"


def as_json(found: Explanation) -> dict[str, Any]:
    """Returns the explanation as plain data."""
    return {
        "outcome": found.outcome,
        **json_of(found.klass or None),
        "culprit": None if found.culprit is None else _suspect(found.culprit),
        "said": found.said or None,
        "waits": list(found.waits),
        "cycle": list(found.cycle),
        "undecided_ranks": list(found.undecided_ranks),
        "confidence": found.confidence,
        "ground": list(found.ground),
    }


def _suspect(culprit: Suspect) -> dict[str, Any]:
    return {
        "ranks": list(culprit.ranks),
        "group": culprit.group or None,
        "seq": culprit.seq,
        "op": culprit.op or None,
        "site": culprit.place.line or None,
        "chain": [list(call) for call in culprit.place.chain],
    }
