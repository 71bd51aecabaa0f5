"""Beside: adds evidence to the message of a hang, such as the mailbox message that the culprit took and ignored.

    rank 1 left out dp.agree in step 0; rank 0 made it; rank 1 took ('START', 0) of coordinator and then only waited

The pass adds such a line in three cases.

1. The culprit sleeps in an idle get (a get that may wait without end), and issued no op after its last message.
2. Two actors took equal messages from mailboxes of one name. The first made a collective call and waits in it for the
   second, which issued no op after its message.
3. The program of the culprit returned before a collective or transfer of its peers, and made no op that peers make
   behind it. The place of the culprit is the line of its peers, which the culprit never reached. So the message names
   the culprit's last op:

    rank 1 left out sync (barrier on world_cpu) in step 1; ranks 0, 2 made it; rank 1 ended after sum at early.py:21
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from dpsim.checks.finding import Culprit, Finding, also, matches
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.stuck import find_stuck
from dpsim.contract.kinds import MEETS, NO_ACTS
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    SITE,
    STEP,
    TAKE_MAILBOX,
    THREAD,
    WHERE,
    RawRecord,
    posted,
)
from dpsim.contract.words import short

LEFT_OUT = ("HANG:COLLECTIVE:MISSING_RANK", "HANG:P2P:UNMATCHED_RECV", "HANG:P2P:UNMATCHED_SEND")
ASLEEP = ("HANG:COLLECTIVE", "HANG:MAILBOX", "HANG:UNDECIDED", "HANG:P2P")


def beside(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A hang whose culprit dropped a message names this message."""
    named = {(one.klass, one.culprit.rank) for one in findings if one.culprit is not None and one.check != "deadlock"}
    return [_beside(run_index, one, named) for one in findings]


def _beside(run_index: RunIndex, finding: Finding, named: Collection[tuple[str, int]]) -> Finding:
    """Adds the evidence to a finding. A hang whose culprit another check blames for the same, in `named`, does not
    repeat the culprit's last op.
    """
    text = _dropped_text(run_index, finding)
    if text:
        return replace(finding, message=also(finding.message, text))
    culprit = finding.culprit
    acted = _one_acted(run_index) if matches(finding.klass, "HANG:COLLECTIVE") else {}
    if culprit is None:
        return replace(finding, details=(*finding.details, *acted.values()))
    if culprit.rank in acted:
        return replace(finding, message=also(finding.message, acted[culprit.rank]))
    if finding.check == "deadlock" and (finding.klass, culprit.rank) in named:
        return finding
    return replace(finding, message=also(finding.message, _returned(run_index, finding)))


def _one_acted(run_index: RunIndex) -> dict[int, str]:
    """Returns a line for each actor that dropped a message, by actor.

    Another actor took an equal message, made a collective call after it, and waits there for the actor that dropped it.
    """
    lines: dict[int, str] = {}
    for stuck in find_stuck(run_index):
        for rank in stuck.waits:
            message = _last_message(run_index, stuck.joined[rank])
            for other in stuck.missing:
                took = None if message is None else _dropped_message(run_index, other, *message)
                if message is not None and took is not None:
                    what = short(repr(message[1]), 40)
                    line = f"rank {other} took {what} at {took.raw[WHERE]} and did nothing; rank {rank} continued"
                    lines.setdefault(other, line)
    return lines


def _last_message(run_index: RunIndex, call: Entry) -> tuple[str, Any] | None:
    """Returns mailbox and content of the last message that an actor took before `call`.

    None if the actor made another collective, a transfer or a post between the message and `call`.
    """
    for raw in reversed(run_index.run.journals[call.rank][: call.at]):
        if raw[KIND] == "learned" and raw[LEARNED_OUTCOME] is not None:
            took = _take_of(run_index, call.rank, raw)
            if took is not None:
                return took.raw[TAKE_MAILBOX], raw[LEARNED_OUTCOME]
        if raw[KIND] in MEETS or raw[KIND] == "post":
            return None
    return None


def _dropped_message(run_index: RunIndex, rank: int, box: str, content: Any) -> Entry | None:
    """Returns the take that received the last message with this content, or None.

    None also if the message came from another mailbox, or if the actor's next op is not another take.
    """
    journal = run_index.run.journals[rank]
    for at in range(len(journal) - 1, -1, -1):
        raw = journal[at]
        if raw[KIND] == "learned" and raw[LEARNED_OUTCOME] == content:
            took = _take_of(run_index, rank, raw)
            only_looks = at + 1 < len(journal) and journal[at + 1][KIND] == "take"
            return took if took is not None and took.raw[TAKE_MAILBOX] == box and only_looks else None
    return None


def _take_of(run_index: RunIndex, rank: int, learned: RawRecord) -> Entry | None:
    journal = enumerate(run_index.run.journals[rank])
    looks = (Entry(rank, at, raw) for at, raw in journal if raw[KIND] == "take" and raw[ADDRESS] == learned[ADDRESS])
    return next(looks, None)


def _dropped_text(run_index: RunIndex, finding: Finding) -> str:
    culprit = finding.culprit
    if culprit is None or len(culprit.ranks) > 1:
        return ""
    if any(matches(finding.klass, one) for one in ASLEEP) and run_index.asleep(culprit.rank):
        return ignored_message(run_index, culprit.rank)
    return ""


def _returned(run_index: RunIndex, finding: Finding) -> str:
    """Returns the last op of a culprit whose program returned too early, in words; empty for any other culprit."""
    culprit = finding.culprit
    if culprit is None or not any(matches(finding.klass, one) for one in LEFT_OUT):
        return ""
    last, *others = dict.fromkeys(_last_op(run_index, rank) for rank in culprit.ranks or (culprit.rank,))
    if others or last is None or last[0] > culprit.step or _made_behind(run_index, culprit, *last):
        return ""
    step, site, where = last
    of = "" if step == culprit.step else " before its first step" if step < 0 else f" of step {step}"
    return f"{culprit.service or culprit.who} ended after {site}{of} at {where}"


def _made_behind(run_index: RunIndex, culprit: Culprit, step: int, site: str, _: str) -> bool:
    for journal in run_index.run.journals:
        ops = [(raw[STEP], raw[SITE]) for raw in journal if raw[KIND] not in NO_ACTS]
        if (culprit.step, culprit.site) in ops and (step, site) in ops:
            return ops.index((step, site)) > ops.index((culprit.step, culprit.site))
    return False


def _last_op(run_index: RunIndex, rank: int) -> tuple[int, str, str] | None:
    """Returns the step, site and line of a rank's last op; None if its program has not returned."""
    journal = run_index.run.journals[rank]
    if not journal or journal[-1][KIND] != "finished":
        return None
    last = next((raw for raw in reversed(journal) if raw[KIND] not in NO_ACTS and raw[WHERE]), None)
    return None if last is None else (last[STEP], last[SITE], last[WHERE])


def ignored_message(run_index: RunIndex, rank: int, box: str | None = None) -> str:
    """Returns a text about the last message that a sleeping actor took, if the actor issued no other op after it.

    Empty if it took none, or is awake. With `box`, a message of another mailbox does not count.
    """
    if not run_index.asleep(rank):
        return ""
    journal = run_index.run.journals[rank]
    blocked = run_index.living(rank)[0]
    own = [raw for raw in journal[: blocked.at] if raw[THREAD] == blocked.raw[THREAD]]
    if not own or own[-1][KIND] != "learned" or own[-1][LEARNED_OUTCOME] is None:
        return ""
    learned_last = own[-1]
    took = next((raw for raw in reversed(own) if raw[KIND] == "take" and raw[ADDRESS] == learned_last[ADDRESS]), None)
    if took is None or box not in (None, took[TAKE_MAILBOX]):
        return ""
    message = rank, took[TAKE_MAILBOX], learned_last[LEARNED_OUTCOME]
    sent = [
        Entry(by, at, raw)
        for by, other in enumerate(run_index.run.journals)
        for at, raw in enumerate(other)
        if posted(raw) == message
    ]
    by = f" of {run_index.world.actor(sent[-1].rank)} ({_place(sent[-1])})" if sent else ""
    return f"rank {rank} took {short(repr(message[2]), 60)}{by} at {_place(Entry(rank, 0, took))} and then only waited"


def _place(entry: Entry) -> str:
    record = entry.record
    where = f"{record.where}, " if record.where else ""
    return f"{record.site}, {where}step {record.step}"
