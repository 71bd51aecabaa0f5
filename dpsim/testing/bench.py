"""A backend on the bench: runs a world on it and on the simulation, and says which rule is broken.

The bench compares runs by their journals, op by op and rank by rank. A journal holds what a rank issued, in order, what
it learned and what it decided. The comparison leaves out places in the source, which a backend may know differently,
and the records of injections. It does not compare time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from copy import copy
from itertools import zip_longest
from typing import Any, get_args

from dpsim.checks.judge import judge
from dpsim.contract.ops import ALLOC_PLACE, KIND, MAIN, TAKE_HOW, THREAD, WHERE, Learned, RawRecord, as_record
from dpsim.contract.schedule import ByLabel
from dpsim.contract.world import Backend, CommunicatorSpec, Delay, End, Fault, Lost, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.testing.conformance.program import PARTS
from dpsim.testing.programs import ODD
from dpsim.trace.given_ports import given_ports, named

STALL_NS = 2_000_000_000
"""Where a hang is planted, a real backend waits for this time until it reports it; else longer, for a busy machine."""


class Bench:
    """One case on one backend with `size` ranks. `last` is the rank to which things are done."""

    def __init__(self, backend: Backend, size: int, case: str, rule: str) -> None:
        self.backend = backend
        self.size = size
        self.last = size - 1
        self.case = case
        self.rule = rule

    def world(
        self,
        faults: Sequence[Fault] = (),
        delays: Sequence[Delay] = (),
        *,
        hangs: bool = False,
        alone: bool = False,
        **more: Any,
    ) -> World:
        """All ranks in every group; with `alone`, each rank has a separate group "ep". `hangs`: a hang is planted."""
        everyone = tuple(range(self.size))
        experts = [(f"ep{rank}", (rank,)) for rank in everyone] if alone else [("ep", everyone)]
        return World(
            size=self.size,
            communicators=(
                CommunicatorSpec("dp_cpu", "dp_cpu", "host", everyone),
                CommunicatorSpec("dp", "dp", "device", everyone),
                *(CommunicatorSpec("ep", name, "device", ranks) for name, ranks in experts),
            ),
            faults=tuple(faults),
            delays=tuple(delays),
            stall_ns=STALL_NS if hangs else 15 * STALL_NS,
            deadline_ns=60 * STALL_NS,
            **more,
        )

    def require(self, held: bool, what: str) -> None:
        """Raises AssertionError with `what`, unless the rule held."""
        if not held:
            raise AssertionError(f"backend {self.backend.name}, case {self.case}: {what}\n  the rule: {self.rule}")

    # ---- running

    def run(self, world: World, program: str, args: Any) -> tuple[Run, Run]:
        """The run on the backend, which must be well formed, and the one on the simulation."""
        progress: list[int] = []
        run = self.backend.run(world, program, args, progress.append)
        if run.lost:
            raise Lost(run.lost)
        self.require(progress == sorted(progress), f"progress went backwards: {progress}")
        self._well_formed(run, world.actors)
        return run, SimBackend().run(world, program, args)

    def passes(self, *parts: str, world: World | None = None) -> Run:
        """A world in which nothing is planted runs to its end, and as on the simulation."""
        return self.healthy("testing_steps", {"parts": parts}, world or self.world())

    def conforms(self, part: str, same: bool = True) -> Run:
        """A part of the program `conformance`, which computes by itself what the calls have to give, in 3 rounds. A
        program with threads makes the part of host threads.
        """
        program = "conformance" if part in PARTS else "conformance_threads"
        return self.healthy(program, {"parts": (part,)}, self.world(), same)

    def conforms_without_time(self, part: str, same: bool = True) -> None:
        """As `conforms`, on the untimed machine of the simulation, if the bench tests the simulation. Members end their
        parts as early as the contract allows, and in another run with the last one.
        """
        if isinstance(self.backend, SimBackend):
            for pick in (0, -1):
                backend = copy(self.backend)
                backend.strategy = ByLabel(lambda _, options, pick=pick: range(len(options))[pick])  # type: ignore[misc]  # binds pick
                Bench(backend, self.size, self.case, self.rule).conforms(part, same)

    def healthy(self, program: str, args: Any, world: World, same: bool = True) -> Run:
        """As `passes`, with any program. `same`: its ops do not depend on time, and are as on the simulation."""
        run, expected = self.run(world, program, args)
        if same:
            self.same(run, expected)
        for rank, end in enumerate(run.ends):
            self.require(end == "finished", f"rank {rank} ended as {end}; its last record: {run.journals[rank][-1:]}")
        found = [finding.message for finding in judge(world, run)]
        self.require(not found, f"the checks find something in a healthy run: {found}")
        return run

    def finds(self, klass: str, site: str, fault: Fault | None, *parts: str, same: bool = True) -> Run:
        """What is planted in the last rank is found, with class, rank, step and site; then a healthy world passes.

        `same`: also as on the simulation, op by op. Not so where it is undefined what a collective does.
        """
        world = self.world([fault] if fault else (), hangs=True)
        run, expected = self.run(world, "testing_steps", {"parts": parts})
        if same:
            self.same(run, expected)
        findings = judge(world, run)
        self.require(bool(findings), f"expected a finding of class {klass}, the checks find nothing; ends {run.ends}")
        first, culprit = findings[0], findings[0].culprit
        self.require(first.klass == klass, f"expected a finding of class {klass}, came {first.klass}: {first.message}")
        named = culprit is not None and (culprit.rank, culprit.step, culprit.site) == (self.last, ODD, site)
        self.require(named, f"expected as culprit rank {self.last}, step {ODD}, {site}; came {culprit}")
        self.passes("host", "device")
        return run

    # ---- comparing

    def same(self, run: Run, expected: Run) -> None:
        """Equal journals, but for places, injections and ports that a system gave, and equal ends. Those of a rank with
        several host threads are equal thread by thread.
        """
        given = given_ports(expected.journals), given_ports(run.journals)
        for rank, both in enumerate(zip(expected.journals, run.journals, strict=True)):
            wants, comes = (_by_thread(named(own, ports)) for own, ports in zip(both, given, strict=True))
            for thread in {**wants, **comes}:
                own = f"rank {rank}" if thread == MAIN else f"rank {rank}/{thread}"
                for index, (wanted, came) in enumerate(zip_longest(wants.get(thread, []), comes.get(thread, []))):
                    if wanted != came:
                        difference = f"expected {_show(wanted)}, came {_show(came)}{_raised(run, expected)}"
                        self.require(False, f"record {index} of {own}: {difference}")
        self.require(run.ends == expected.ends, f"expected the ends {expected.ends}, came {run.ends}")

    def _well_formed(self, run: Run, actors: int) -> None:
        entries = {"journals": len(run.journals), "ends": len(run.ends), "waited_ns": len(run.waited_ns)}
        for field, count in entries.items():
            self.require(count == actors, f"Run.{field} has {count} entries for {actors} ranks and services")
        self.require(run.backend == self.backend.name, f"Run.backend is {run.backend!r}")
        self.require(bool(run.observed) != run.finished, f"Run.observed is {run.observed!r} with the ends {run.ends}")
        for rank, (journal, end) in enumerate(zip(run.journals, run.ends, strict=True)):
            self.require(end in get_args(End), f"rank {rank} ended as {end!r}, which is none of {get_args(End)}")
            for index, raw in enumerate(journal):
                self.require(_is_record(raw), f"record {index} of rank {rank} is none of dpsim.contract.ops: {raw!r}")
            said = [raw[KIND] for raw in journal if raw[KIND] in ("finished", "raised")]
            idle = bool(journal) and journal[-1][KIND] == "take" and journal[-1][TAKE_HOW] == "idle"
            closed = said == [end] and journal[-1][KIND] == end if said else end != "finished" or idle
            self.require(closed, f"rank {rank} ended as {end}, but its journal says {said or 'nothing of an end'}")


def _is_record(raw: RawRecord) -> bool:
    with contextlib.suppress(KeyError, TypeError, IndexError):
        return type(raw) is tuple and bool(as_record(raw))
    return False


def _comparable(journal: list[RawRecord]) -> list[RawRecord]:
    """Without places: in the source, and in memory (the last field of an alloc). Without injections."""
    return [
        (*raw[:WHERE], *raw[WHERE + 1 : ALLOC_PLACE if raw[KIND] == "alloc" else None])
        for raw in journal
        if raw[KIND] != "injected"
    ]


def _by_thread(journal: list[RawRecord]) -> dict[str, list[RawRecord]]:
    threads: dict[str, list[RawRecord]] = {}
    for raw in _comparable(journal):
        threads.setdefault(raw[THREAD], []).append(raw)
    return threads


def _raised(run: Run, expected: Run) -> str:
    """The exceptions of ranks that should not have raised: they say more than the first difference."""
    ranks = [rank for rank, end in enumerate(run.ends) if end == "raised" != expected.ends[rank]]
    return "".join(f"; rank {rank} {as_record(run.journals[rank][-1]).describe()}" for rank in ranks)


def _show(raw: RawRecord | None) -> str:
    if raw is None:
        return "nothing more"
    record = as_record((*raw[:WHERE], "", *raw[WHERE:], *((None,) if raw[KIND] == "alloc" else ())))
    value = f" {record.outcome}" if isinstance(record, Learned) else ""
    return f"{record.site}[{record.ordinal}] in step {record.step} ({record.describe()}{value})"
