"""Stalled: lists the gates at which a run on real processes hangs, and what each waits for.

    stalled(gates_of(simulated), real)
    # ["rank 0: its thread adder waits before added[0] until rank 0 issues join[0], which never happened"]

A gate makes a call wait until it can return the same as in a simulated run (`dpsim.campaign.gates`). The simulated run
passed all of them. So a real run hangs at a gate only if the program behaves differently there.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.gates import Address, AnyGate, Gate, Turn
from dpsim.contract.ops import ADDRESS, KIND, MAIN
from dpsim.contract.world import Run


def stalled(gates: Sequence[AnyGate], run: Run) -> list[str]:
    """Returns a line for each blocked call that waits at its gate. Gates of messages have a separate finding."""
    started, ended = set[Address](), set[Address]()
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            (ended if raw[KIND] == "learned" else started).add((rank, *raw[ADDRESS]))
    lines = []
    for gate in gates:
        rank = gate.at[0]
        if run.ends[rank] != "blocked":
            continue
        if isinstance(gate, Turn):
            line = _turn(gate, started, ended)
        else:
            line = _outcome(gate, started, ended)
        if line:
            lines.append(f"rank {rank}: {line}")
    return lines


def _turn(gate: Turn, started: set[Address], ended: set[Address]) -> str:
    """Returns a line about a call whose turn is next, if the turn before it has not happened; otherwise empty."""
    done = ended if gate.end or gate.of == "store" else started
    missing = gate.before not in (ended if gate.before_end else started) and gate.before[2] != ""
    blocked = gate.at in started and gate.at not in ended if gate.of == "store" or gate.end else gate.at not in done
    if not (missing and blocked):
        return ""
    what = "the end of " if gate.end else ""
    did = "returns from" if gate.before_end else "issues"
    before = f"rank {gate.before[0]} {did} {_call(gate.before)}"
    return f"{_who(gate.at)} waits before {what}{_call(gate.at)} until {before}, which never happened"


def _outcome(gate: Gate, started: set[Address], ended: set[Address]) -> str:
    if gate.at not in started or gate.at in ended or not gate.learns or gate.learns[0] is None:
        return ""
    return f"{_who(gate.at)} waits in {_call(gate.at)} for {gate.learns[0]!r}, its result in the simulation"


def _who(at: Address) -> str:
    return "it" if at[1] == MAIN else f"its thread {at[1]}"


def _call(at: Address) -> str:
    thread = "" if at[1] == MAIN else f"{at[1]} "
    return f"{thread}{at[2]}[{at[3]}]"
