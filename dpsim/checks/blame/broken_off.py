"""Broken off: acquits a rank that left out a call only because another actor closed the rank's store and ended it.

    rank 1 waits in warm_up #2 for rank 0          HANG:COLLECTIVE:MISSING_RANK, culprit rank 0
    rank 0 stood in obey.blocks, until engine.0 closed the store, and ended
    engine.0 gave up: its time was up in hear.kv_cache_memory, for engine.1       ->   no culprit, and these two named

The actor that closed the store gave up because its own wait timed out (`witnesses` recognizes this). It waited for a
third actor, which may itself wait for the hanging rank. So no record shows which actor failed first, and the pass
removes the culprit. The message then names the rank that ended and the actor that gave up.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.blame.chain import waits_of
from dpsim.checks.blame.messages import MessageIndex
from dpsim.checks.blame.witnesses import TELLS, gave_up
from dpsim.checks.finding import Finding, also, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    SITE,
    STORE_HOW,
    STORE_NODE,
    STORE_PORT,
    STORE_VALUE,
    RawRecord,
)

ENDS = TELLS | {"finished"}
"""Kinds of record that a rank still writes while it ends. It may also set keys and close its stores."""


def broken_off(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A missing rank is no culprit if it ended because another actor gave up."""
    if not any(_missing(run_index, one) for one in findings):
        return findings
    messages = MessageIndex(run_index.run.journals)
    return [_without(run_index, messages, one) if _missing(run_index, one) else one for one in findings]


def _missing(run_index: RunIndex, finding: Finding) -> bool:
    culprit = finding.culprit
    ended = culprit is not None and not culprit.ranks and run_index.end(culprit.rank) == "finished"
    return ended and matches(finding.klass, "HANG:COLLECTIVE:MISSING_RANK")


def _without(run_index: RunIndex, messages: MessageIndex, finding: Finding) -> Finding:
    assert finding.culprit is not None
    rank = finding.culprit.rank
    get = _last_get(run_index.run.journals[rank])
    listeners = () if get is None else messages.listeners.get((get[STORE_NODE], get[STORE_PORT]), {})
    for other in listeners:
        why = None if other == rank else gave_up(run_index, other)
        if why is not None and get is not None:
            op = why.op.raw
            what, actors = waits_of(messages, other, op)
            whom = ", ".join(f"rank {one}" for one in actors)
            gave = f"rank {other} gave up in {op[SITE]} ({what})" + (f", for {whom}" if whom else "")
            broken_off = f"rank {rank} was broken off in {get[SITE]}"
            return replace(
                finding, message=also(finding.message, f"{broken_off}: {gave}"), culprit=None, why=broken_off
            )
    return finding


def _last_get(journal: list[RawRecord]) -> RawRecord | None:
    """Returns the get of a store key in which a rank waited until another actor closed the store.

    None if the rank did anything but end after this get.
    """
    none = False
    for raw in reversed(journal):
        if raw[KIND] == "learned":
            none = raw[LEARNED_OUTCOME] is None
            address = raw[ADDRESS]
        elif raw[KIND] == "store" and raw[STORE_HOW] == "get":
            return raw if none and address == raw[ADDRESS] and raw[STORE_VALUE] is None else None
        elif raw[KIND] not in ENDS and not (raw[KIND] == "store" and raw[STORE_HOW] in ("set", "close")):
            return None
    return None
