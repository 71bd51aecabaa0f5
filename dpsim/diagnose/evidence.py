"""Evidence: derives the facts of a report from a run and its findings, as plain data for both text and JSON.

    evidence(run, findings)["agreed"]      # the last step in which all agreed, or None
    evidence(run, findings)["waits"]       # ["rank 0 -> rank 1 (dp_cpu #5)", ...]

A finding may contain the chain of waits that leads to its culprit, and the evidence against it (`ground`). If no
finding has a chain, the report shows the message of the finding about the hang instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpsim.checks.classes import HEADINGS
from dpsim.checks.finding import Finding, facts_in, matches
from dpsim.contract.chain import Chain
from dpsim.contract.ops import STEP
from dpsim.contract.world import Run
from dpsim.diagnose.words import in_words, text, told


class Extras(NamedTuple):
    """Facts about a failure that only some commands know. Each is a part of a line, or empty.

    `no_return`: the event after which every schedule fails ("rank 2 posts hidden.receive[2]"). `swap`: the events to
    swap so that the run finishes ("rank 0 takes RESUME before START_WAVE 1"). `one_more`: the culprit in the same
    scenario with one more rank ("rank 1, step 2"). `variant`: the planted bug, its class and file. `unprotected`: what
    the simulated release leaves unprotected, one sentence each; `shows`: the classes of findings that may follow, by
    sentence. `schedule`: how the search found the failing schedule, and its steps. `next`: commands to type. `swaps`:
    the labels of the events of `swap`, in the order of the failing run, for the marks of a picture. `compare`: the file
    of the variant, and the advice to compare it with its base class. `shared`: that a rank of the run acts differently
    alone. `repairs`: the changes of one call with which the run holds; two are of different ranks. `repair`: what they
    say of the culprit.
    """

    no_return: str = ""
    swap: str = ""
    one_more: str = ""
    variant: str = ""
    unprotected: tuple[str, ...] = ()
    shows: Mapping[str, tuple[str, ...]] = {}
    schedule: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    swaps: tuple[tuple[str, ...], ...] = ()
    compare: tuple[str, str] | None = None
    shared: str = ""
    repairs: tuple[str, ...] = ()
    repair: str = ""


NOTHING = Extras()

COMPARING = ("ledger", "agreement", "deadlock", "livelock")
"""Checks that find a culprit by comparing ranks."""


def evidence(run: Run | None, findings: Sequence[Finding], extras: Extras = NOTHING) -> dict[str, Any]:
    """Returns the facts of the first screen as JSON data. A chain is a list of [function, place], the
    innermost first.
    """
    primary = told(run, findings[0]) if run is not None and findings else None

    def named(text: str) -> str:
        return text if run is None else in_words(run, text)

    events = {"no_return": extras.no_return, "swap": extras.swap, "one_more": extras.one_more}
    return {
        "agreed": None if run is None else last_agreed(run, findings),
        "chain": [] if run is None or primary is None else [list(call) for call in chain_of(run, primary)],
        "waits": [] if run is None else [in_words(run, line) for line in waits(findings)],
        "ground": [] if primary is None else list(primary.grounds),
        **{key: (named(text) or None) for key, text in events.items()},
        "repairs": [named(way) for way in extras.repairs],
        "shared": extras.shared or None,
        "variant": extras.variant or None,
        "unprotected": list(shown_unprotected(findings, extras)),
        "next": list(extras.next) if findings else [],
    }


def shown_unprotected(findings: Sequence[Finding], extras: Extras) -> tuple[str, ...]:
    """Returns what the form leaves unprotected, as far as the first finding may follow from it."""

    def may_cause(sentence: str) -> bool:
        return any(matches(findings[0].klass, pattern) for pattern in extras.shows.get(sentence, ("*",)))

    return tuple(filter(may_cause, extras.unprotected)) if findings else ()


def chain_of(run: Run, finding: Finding) -> Chain:
    """Returns the calls that led to the culprit's line. For an op that it left out, they come from other steps or
    ranks.
    """
    return () if finding.culprit is None else run.chains.get(finding.culprit.where, ())


def last_agreed(run: Run, findings: Sequence[Finding]) -> int | None:
    """Returns the last step before all findings in which every rank took part.

    None if there is none, or if a service failed: services number their steps differently from ranks.
    """
    steps = [finding.position[0] for finding in findings]
    steps += [finding.culprit.step for finding in findings if finding.culprit is not None]
    culprit = findings[0].culprit if findings else None
    if not steps or (culprit is not None and culprit.rank >= run.size):
        return None
    own = [{raw[STEP] for raw in journal} for journal in run.journals[: run.size]]
    shared = set.intersection(*own) if own else set()
    return max((step for step in shared if 0 <= step < min(steps)), default=None)


def waits(findings: Sequence[Finding]) -> list[str]:
    """Returns the chain of waits of the first finding that has one.

    Without a chain, returns the cycle of ranks that a hang names. Without a cycle, returns the message of a hang, if it
    is not the first finding.
    """
    hangs = [finding for finding in findings if finding.check == "deadlock"]
    for finding in findings:
        if finding.waits:
            return [text(part) for part in finding.waits]
    circles = [text(one["circle"]) for hang in hangs for one in facts_in(hang.message) if one.name == "circle"]
    return (circles or [text(finding.message) for finding in hangs if finding is not findings[0]])[:1]


def kinds(findings: Sequence[Finding]) -> list[str]:
    """Returns the kinds of failure of a run, each once, the primary one first."""
    return list(dict.fromkeys(kind_words(one.klass, exception_of(one)) for one in findings))


def kind_words(klass: str, raised: str = "") -> str:
    """Returns the kind of failure. `raised` is the exception's name in its own case, because a class is in capitals.

    >>> kind_words("STALE:FREED"), kind_words("CRASH:WRONGTOKEN", "WrongToken"), kind_words("CRASH:KEYERROR")
    ('STALE MEMORY', 'WRONG TOKEN', 'KEYERROR')
    """
    family, _, name = klass.partition(":")
    if family != "CRASH":
        return HEADINGS.get(family, family)
    known = raised if raised.upper() == name else name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", known).upper()


def exception_of(finding: Finding) -> str:
    """Returns the exception of a finding, as its program spells it; empty without one."""
    names = [finding.culprit.site] if finding.culprit else []
    names += [one["error"] for one in facts_in(finding.message) if one.name == "raised"]
    return next((name for name in names if finding.klass == f"CRASH:{name.upper()}"), "")


def later(findings: Sequence[Finding]) -> list[str]:
    """Returns the other findings except hangs, in parts of a line: each class once, with its count."""
    by_class: dict[str, list[Finding]] = {}
    for finding in findings[1:]:
        if finding.check != "deadlock":
            by_class.setdefault(finding.klass, []).append(finding)
    decided = findings[0].culprit is not None if findings else True
    return [_later(some, decided) for some in by_class.values()]


def _later(some: Sequence[Finding], decided: bool) -> str:
    """Returns the findings of a class in words. Without a culprit of the first finding (`decided`), no comparison of
    ranks names one.
    """
    first, more = some[0], f" ({len(some)} times)" if len(some) > 1 else ""
    step, culprit = first.position[0], first.culprit
    if culprit is None or (not decided and first.check in COMPARING):
        return f"{first.klass} in step {step}{more}"
    who = culprit.service or culprit.who
    if exception_of(first) == culprit.site:
        return f"{who} raised {culprit.site} in step {culprit.step}{more}"
    return f"{first.klass} of {who} in step {culprit.step}{more}"
