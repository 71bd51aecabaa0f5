"""Gates: makes a run on another backend in which all races have the same result as in a simulated run.

From its records, this module makes *gates* (`dpsim.contract.gates`), at which a call waits until it can return the
same:

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

A call waits without end only if the program behaves differently there (`stalled`). `unforced` lists what no gate
forces.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.campaign.gate_turns import turns_at_stores, turns_of_threads
from dpsim.campaign.subject import Subject, kept
from dpsim.contract.gates import EARLY, AnyGate, Gate
from dpsim.contract.kinds import POLLS
from dpsim.contract.ops import (
    ADDRESS,
    ASK_HOW,
    BROKEN_OFF,
    EVENT,
    KIND,
    LEARNED_OUTCOME,
    STORE_HOW,
    STORE_VALUE,
    RawRecord,
)
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Run
from dpsim.explore import search
from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario
from dpsim.trace import Difference, Trace, compare

_CHOSEN = POLLS - {"flag"} | {"receive_any"}
"""Kinds of calls whose outcome a gate fixes. Turns fix that of a flag."""


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
    """Yields runs of a scenario on the simulation: a timed one, and then `number - 1` along random schedules.

    Skips runs that are cut off. Raises ScenarioError for a scenario that cannot run, and Lost.
    """
    yield kept(run_scenario(scenario, base=base).run)
    subject, walk = Subject.of(scenario, base), search("random", seed)
    for _ in range(number - 1):
        walk.begin()
        with suppress(CutOff):
            yield subject.run(walk.current)[0]
        walk.end(True)
