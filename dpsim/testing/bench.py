"""Runs a world on a backend and on the simulation, and raises an error that names the broken rule.

The bench compares the journals of the two runs, rank by rank and op by op. The bench ignores places in the source,
because backends may differ there, the records of planted faults, and time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from copy import copy
from itertools import zip_longest
from typing import Any, get_args

from dpsim.checks.judge import judge
from dpsim.contract.kinds import RANK_ENDS
from dpsim.contract.ops import ALLOC_PLACE, KIND, MAIN, TAKE_HOW, THREAD, WHERE, Learned, RawRecord, as_record
from dpsim.contract.schedule import ByLabel
from dpsim.contract.world import Backend, CommunicatorSpec, Delay, End, Fault, Lost, Run, World
from dpsim.runner import sentence
from dpsim.sim.backend import SimBackend
from dpsim.testing.conformance.program import PARTS
from dpsim.testing.programs import ODD
from dpsim.trace.given_ports import given_ports, named

STALL_NS = 2_000_000_000
"""The time after which a real backend reports a hang, if a case plants one. Other cases use a longer time, for a slow
machine.
"""


class Bench:
    """A case on one backend, `size` ranks. `last`: where cases plant faults. `rule`: the rule to report."""

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
        """Every communicator has all ranks; `alone`: each rank has its own "ep". `hangs`: the case plants one."""
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
        """Raises AssertionError with the text `what` and the rule of the case, unless `held` is True."""
        if not held:
            raise AssertionError(f"backend {self.backend.name}, case {self.case}: {what}\n  the rule: {self.rule}")

    # ---- running

    def run(self, world: World, program: str, args: Any) -> tuple[Run, Run]:
        """Returns the run on the backend and the run on the simulation. The first must be well-formed."""
        progress: list[int] = []
        run = self.backend.run(world, program, args, progress.append)
        if run.lost:
            raise Lost(run.lost)
        self.require(progress == sorted(progress), f"progress went backwards: {progress}")
        self._well_formed(run, world.actors)
        return run, SimBackend().run(world, program, args)

    def passes(self, *parts: str, world: World | None = None) -> Run:
        """Runs parts of `testing_steps` without a planted fault. The run must end, and equal that of the simulation."""
        return self.healthy("testing_steps", {"parts": parts}, world or self.world())

    def conforms(self, part: str, same: bool = True) -> Run:
        """Three rounds of a part of `conformance` (`conformance_threads` with threads), which checks each result."""
        program = "conformance" if part in PARTS else "conformance_threads"
        return self.healthy(program, {"parts": (part,)}, self.world(), same)

    def conforms_without_time(self, part: str, same: bool = True) -> None:
        """On the untimed machine, if this is the simulation: once parts of a collective complete early, once late."""
        if isinstance(self.backend, SimBackend):
            for pick in (0, -1):
                backend = copy(self.backend)
                backend.strategy = ByLabel(lambda _, options, pick=pick: range(len(options))[pick])  # type: ignore[misc]  # binds pick
                Bench(backend, self.size, self.case, self.rule).conforms(part, same)

    def healthy(self, program: str, args: Any, world: World, same: bool = True) -> Run:
        """Runs any program like `passes`. `same`: its ops do not depend on time, so they equal the simulation's."""
        run, expected = self.run(world, program, args)
        if same:
            self.same(run, expected)
        for rank, end in enumerate(run.ends):
            self.require(end == "finished", f"rank {rank} ended as {end}; its last record: {run.journals[rank][-1:]}")
        found = [sentence(run, finding) for finding in judge(world, run)]
        self.require(not found, f"the checks report findings of a run without a fault: {found}")
        return run

    def finds(self, klass: str, site: str, fault: Fault | None, *parts: str, same: bool = True) -> Run:
        """Plants `fault` in the last rank: the checks find class, rank, step, site. Then a healthy world passes.

        `same`: the ops equal the simulation's; False if the contract does not define a collective's effect.
        """
        world = self.world([fault] if fault else (), hangs=True)
        run, expected = self.run(world, "testing_steps", {"parts": parts})
        if same:
            self.same(run, expected)
        findings = judge(world, run)
        self.require(bool(findings), f"expected a finding of class {klass}, the checks find nothing; ends {run.ends}")
        first, culprit = findings[0], findings[0].culprit
        got = f"{first.klass}: {sentence(run, first)}"
        self.require(first.klass == klass, f"expected a finding of class {klass}, got {got}")
        named = culprit is not None and (culprit.rank, culprit.step, culprit.site) == (self.last, ODD, site)
        self.require(named, f"expected as culprit rank {self.last}, step {ODD}, {site}; got {culprit}")
        self.passes("host", "device")
        return run

    # ---- comparing

    def same(self, run: Run, expected: Run) -> None:
        """Journals by thread, and ends, without places, planted faults and ports that the system chose."""
        given = given_ports(expected.journals), given_ports(run.journals)
        for rank, both in enumerate(zip(expected.journals, run.journals, strict=True)):
            wants, comes = (_by_thread(named(own, ports)) for own, ports in zip(both, given, strict=True))
            for thread in {**wants, **comes}:
                own = f"rank {rank}" if thread == MAIN else f"rank {rank}/{thread}"
                for index, (wanted, got) in enumerate(zip_longest(wants.get(thread, []), comes.get(thread, []))):
                    if wanted != got:
                        difference = f"expected {_show(wanted)}, got {_show(got)}{_raised(run, expected)}"
                        self.require(False, f"record {index} of {own}: {difference}")
        self.require(run.ends == expected.ends, f"expected the ends {expected.ends}, got {run.ends}")

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
            ends = [raw[KIND] for raw in journal if raw[KIND] in RANK_ENDS]
            idle = bool(journal) and journal[-1][KIND] == "take" and journal[-1][TAKE_HOW] == "idle"
            closed = ends == [end] and journal[-1][KIND] == end if ends else end != "finished" or idle
            self.require(closed, f"rank {rank} ended as {end}, but its journal records {ends or 'no end'}")


def _is_record(raw: RawRecord) -> bool:
    with contextlib.suppress(KeyError, TypeError, IndexError):
        return type(raw) is tuple and bool(as_record(raw))
    return False


def _comparable(journal: list[RawRecord]) -> list[RawRecord]:
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
    """Exceptions of ranks that should not raise explain more than the first difference."""
    ranks = [rank for rank, end in enumerate(run.ends) if end == "raised" != expected.ends[rank]]
    return "".join(f"; rank {rank} {as_record(run.journals[rank][-1]).describe()}" for rank in ranks)


def _show(raw: RawRecord | None) -> str:
    if raw is None:
        return "nothing more"
    record = as_record((*raw[:WHERE], "", *raw[WHERE:], *((None,) if raw[KIND] == "alloc" else ())))
    value = f" {record.outcome}" if isinstance(record, Learned) else ""
    return f"{record.site}[{record.ordinal}] in step {record.step} ({record.describe()}{value})"
