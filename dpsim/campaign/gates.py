"""Gates: makes a run on another backend in which all races have the same result as in a simulated run.

From the records of that run, this module makes *gates* (`dpsim.contract.gates`), at which a call waits until it can
return the same:

    what raced in the simulation                      on real processes
    a look into a mailbox                             takes that message, or nothing
    a query of an event                               no: the event is held up until then; yes: the query waits
    a query of a collective or transfer               no: without a look; yes: the query waits
    a get, a join, an open of a store                 None when its time is up; else it waits
    the calls at a store, of all ranks                are served in that order
    a receive from any source                         receives from that rank
    a send or broadcast that ends before its peer     is over for its rank at once
      comes
    an await and an abort of its communicator         the await waits for the abort, or the abort for the await
    host threads of a rank                            take turns in that order, from call to call

    gates_of(run)                                      # of a run of the simulation
    again(scenario, run, "gloo").difference            # the first record of the other run that is not that of this one

    stalled(gates_of(run), real)                       # ["rank 0: its thread adder waits before added[0] until ..."]
    unforced(scenario, run, findings, words, "gloo")   # NotForced, which refuses a replay, or None

The simulated run passed all gates. So a call waits at one without end only if the program behaves differently there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.campaign.gate_turns import turns_at_stores, turns_of_threads
from dpsim.campaign.subject import Subject, kept
from dpsim.checks.finding import Finding, can_match
from dpsim.contract.events import failing_rank
from dpsim.contract.gates import EARLY, Address, AnyGate, Gate, Turn
from dpsim.contract.kinds import POLLS
from dpsim.contract.ops import (
    ADDRESS,
    ASK_HOW,
    BROKEN_OFF,
    EVENT,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    STORE_HOW,
    STORE_VALUE,
    STREAM,
    RawRecord,
)
from dpsim.contract.schedule import CutOff
from dpsim.contract.words import BadInput
from dpsim.contract.world import Run
from dpsim.explore import search
from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario
from dpsim.trace import Difference, Trace, compare

_CHOSEN = POLLS - {"flag"} | {"receive_any"}
"""Kinds of calls whose outcome a gate fixes. Turns fix that of a flag."""

_RACES = ("RACE:BUFFER", "RACE:REUSED_IN_FLIGHT")


def gates_of(run: Run) -> tuple[AnyGate, ...]:
    """Returns the gates that repeat a run's order. Raises ValueError if it is not of sim, which records senders."""
    gates: list[AnyGate] = []
    for rank, journal in enumerate(run.journals):
        calls = {raw[ADDRESS]: raw for raw in journal if raw[KIND] in _CHOSEN}
        for raw in journal:
            if raw[KIND] == "learned":
                gates += _outcome(run, rank, calls.get(raw[ADDRESS]), raw)
        gates += _events(rank, journal)
    gates += [Gate(at, learns=(EARLY,)) for at in getattr(run, "early", ())]
    return (*gates, *turns_of_threads(run), *turns_at_stores(run))


def _outcome(run: Run, rank: int, call: RawRecord | None, raw: RawRecord) -> list[Gate]:
    """Returns the gate for the result of a call. `call` is None for a kind of call without such a gate."""
    at, outcome = (rank, *raw[ADDRESS]), raw[LEARNED_OUTCOME]
    if outcome == BROKEN_OFF:
        return [Gate(at, learns=(BROKEN_OFF,))]
    if call is None or (call[KIND] == "ask" and call[ASK_HOW] != "query"):
        return []
    if call[KIND] == "take":
        message = run.taken.get(at)
        if message is None and outcome is not None:
            raise ValueError(f"the run on {run.backend} does not say whose messages it took; take one of sim")
        return [Gate(at, message)]
    if call[KIND] == "store":
        how, timeout = call[STORE_HOW], call[STORE_VALUE]
        if how not in ("open", "join", "get") or (how == "get" and outcome is None and timeout is None):
            return []  # its turn at the store decides, or the store has closed
    return [Gate(at, learns=(outcome,))]


def _events(rank: int, journal: list[RawRecord]) -> list[Gate]:
    """Returns a gate for each recorded event: the last query that found it not completed."""
    marked: dict[int, Any] = {}
    queries: dict[Any, int] = {}
    held: dict[Any, Any] = {}
    for raw in journal:
        if raw[KIND] == "mark":
            marked[raw[EVENT]] = raw[ADDRESS]
        elif raw[KIND] == "ask" and raw[ASK_HOW] == "query":
            queries[raw[ADDRESS]] = raw[EVENT]
        elif raw[KIND] == "learned" and raw[LEARNED_OUTCOME] is False and raw[ADDRESS] in queries:
            mark = marked.get(queries[raw[ADDRESS]])
            if mark is not None:
                held[mark] = raw[ADDRESS]
    return [Gate((rank, *mark), message=(rank, *ask)) for mark, ask in held.items()]


class Again(NamedTuple):
    """A run at the gates of a simulated one. `difference`: the first record that differs; None if all are equal."""

    simulated: Run
    result: Result
    difference: Difference | None


def again(scenario: Scenario, run: Run, backend: str, base: Path | None = None) -> Again:
    """Runs a scenario at the gates of a simulated run, and compares the two. Raises like `run_scenario`."""
    result = run_scenario(scenario, backend, base=base, gates=gates_of(run))
    return Again(run, result, compare(Trace.of(run, "sim"), Trace.of(result.run, backend)))


def runs_of(scenario: Scenario, number: int, seed: int = 0, base: Path | None = None) -> Iterator[Run]:
    """Yields whole runs on sim: a timed one, then `number - 1` random ones. Raises ScenarioError, and Lost."""
    yield kept(run_scenario(scenario, base=base).run)
    subject, walk = Subject.of(scenario, base), search("random", seed)
    for _ in range(number - 1):
        walk.begin()
        with suppress(CutOff):
            yield subject.run(walk.current)[0]
        walk.end(True)


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
            line = _out_of_turn(gate, started, ended)
        else:
            line = _awaited(gate, started, ended)
        if line:
            lines.append(f"rank {rank}: {line}")
    return lines


def _out_of_turn(gate: Turn, started: set[Address], ended: set[Address]) -> str:
    """Returns a line about a call whose turn is next, if the turn before it has not happened; otherwise empty."""
    done = ended if gate.end or gate.of == "store" else started
    missing = gate.before not in (ended if gate.before_end else started) and gate.before[2] != ""
    blocked = gate.at in started and gate.at not in ended if gate.of == "store" or gate.end else gate.at not in done
    if not (missing and blocked):
        return ""
    what = "the end of " if gate.end else ""
    did = "returns from" if gate.before_end else "issues"
    before = f"rank {gate.before[0]} {did} {_named(gate.before)}"
    return f"{_who(gate.at)} waits before {what}{_named(gate.at)} until {before}, which never happened"


def _awaited(gate: Gate, started: set[Address], ended: set[Address]) -> str:
    if gate.at not in started or gate.at in ended or not gate.learns or gate.learns[0] is None:
        return ""
    return f"{_who(gate.at)} waits in {_named(gate.at)} for {gate.learns[0]!r}, its result in the simulation"


def _who(at: Address) -> str:
    return "it" if at[1] == MAIN else f"its thread {at[1]}"


def _named(at: Address) -> str:
    thread = "" if at[1] == MAIN else f"{at[1]} "
    return f"{thread}{at[2]}[{at[3]}]"


class NotForced(BadInput):
    """A real backend cannot repeat the order of this run."""


def unforced(
    scenario: Scenario, run: Run, findings: Sequence[Finding], words: Sequence[str], backend: str
) -> NotForced | None:
    """Returns why a backend cannot repeat a run and would make another one; None if it can. `words`: its schedule."""
    for what, why in _unforced(scenario, run, findings, words):
        message = f"{scenario.name}: the {backend} backend cannot force {what}: {why}"
        return NotForced(f"{message}; replay it on the simulation (--backend sim)")
    return None


def _unforced(
    scenario: Scenario, run: Run, findings: Sequence[Finding], words: Sequence[str]
) -> Iterator[tuple[str, str]]:
    raising = next((rank for rank in map(failing_rank, words) if rank is not None), None)
    if raising is not None:
        yield f"what the device of rank {raising} does before its kernel raises", "gates hold a stream at events alone"
    if any(one.klass == "RACE:REUSED_IN_FLIGHT" for one in findings):
        yield "which memory an allocator gives out again", "torch's own allocator decides"
    off = scenario.checks.switched_off
    if any(can_match(race, one) for race in _RACES for one in off) and _streams(run) > 1:
        yield "the order in which two streams use memory", "gates hold a host, and a stream at an event alone"


def _streams(run: Run) -> int:
    used = [{raw[STREAM] for raw in journal if raw[KIND] == "launch"} for journal in run.journals]
    return max(map(len, used), default=0)
