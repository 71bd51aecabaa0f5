"""Facts: which facts about an exploration decide which assumptions its verdict prints.

A fact about a run is a tuple. It has the kind of a record, and the fields that a row of the table needs (`PARTS`).

    ("launch", "main")                   a rank launched a kernel on its stream main
    ("collective", None, "dp_cpu")       a rank was in a collective of a host communicator
    ("store", "close")                   a rank closed a store
    ("abort", "give_up", ..., "dp")      a rank aborted the communicator dp at the site give_up
    ("time-out",)                        a rank waited with a time-out
    ("outside", "clock", "job.py:7", 1)  rank 1 read a clock at this line (`dpsim.sim.hosts.outside`)
    ("sums",)                            a floating-point sum would differ with its terms in another order
    ("replays at once", "go, a.py:3, and on, a.py:4, on dp")    two replays used a communicator at once

`note` reads all records of every run. It calls no Python function for a record, so that it hardly slows exploring.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks import replays_at_once
from dpsim.checks.stale_replay import repeated
from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import ABORT_COMMUNICATOR, COMMUNICATOR, GRAPH, KIND, SITE, STORE_HOW, STREAM
from dpsim.contract.program import Program
from dpsim.contract.words import counted, ranks_text
from dpsim.contract.world import World
from dpsim.sim.backend import SimRun

Fact: TypeAlias = tuple[Any, ...]

TIMEOUT: Fact = ("time-out",)

OUTSIDE = "outside"

SUMS: Fact = ("sums",)
OLD_CONTENTS: Fact = ("old contents",)
"""The fact that a replay read what the replay before it had read."""
AT_ONCE = "replays at once"
"""The kind of the fact that two replays used one communicator at once. The fact has the words of both."""

_ON_STREAM = slice(STREAM, STREAM + 1)

PARTS: dict[str, slice] = {
    "collective": slice(STREAM, COMMUNICATOR + 1),
    "transfer": slice(STREAM, COMMUNICATOR + 1),
    "launch": _ON_STREAM,
    "replay": slice(GRAPH, GRAPH + 1),
    "store": slice(STORE_HOW, STORE_HOW + 1),
    "probe": slice(SITE, SITE + 1),
    "abort": slice(SITE, ABORT_COMMUNICATOR + 1),
}

FAULTS_OF_A_CALL = ("raise", "hang")


def note(facts: set[Fact], run: SimRun) -> None:
    """Adds the facts of a run."""
    replays = False
    for journal in run.journals:
        for raw in journal:
            kind = raw[KIND]
            fact = (kind, *raw[PARTS[kind]]) if kind in PARTS else (kind,)
            if kind == "replay":
                replays = True
            if fact not in facts:
                facts.add(fact)
    if run.order_of_sums:
        facts.add(SUMS)
    for touch in run.touched:
        facts.add((OUTSIDE, *touch))
    if run.timeouts:
        facts.add(TIMEOUT)
    if replays:
        facts.update((AT_ONCE, str(pair)) for journal in run.journals for pair in replays_at_once.pairs(journal))
    if replays and OLD_CONTENTS not in facts:
        for journal in run.journals:
            for _ in repeated(journal):
                facts.add(OLD_CONTENTS)
                break


NAMED = 6
"""The largest number of places that an assumption names. JSON has all of them."""


class Touched(NamedTuple):
    """A line of the program ("job.py:7") that touches a kind of `dpsim.sim.hosts.sources`, and the ranks that did."""

    what: str
    where: str
    ranks: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        file, _, line = self.where.rpartition(":")
        return {"what": self.what, "file": file, "line": int(line), "ranks": list(self.ranks)}


def _in_order(at: tuple[str, str]) -> tuple[str, str, int]:
    what, where = at
    file, _, line = where.rpartition(":")
    return what, file, int(line)


class Facts(NamedTuple):
    """The facts about an exploration: of all its `runs`, and what its program says (`Program.ordered_by_flags`,
    `assumes`, `apart`). `not_alone`: why, or in how many schedules, ranks did not run alone
    (`dpsim.campaign.lone_ranks`).
    """

    world: World
    runs: Collection[Fact]
    by_flags: bool = False
    not_alone: str = ""
    by_program: tuple[str, ...] = ()
    apart: bool = False

    @staticmethod
    def of(world: World, program: Program[Any], prepared: Any, runs: Collection[Fact]) -> Facts:
        """Returns the facts of an exploration, with those that its program declares."""
        assumed = tuple(program.assumes(runs, prepared))
        return Facts(world, runs, program.ordered_by_flags, by_program=assumed, apart=program.apart)

    @property
    def outside(self) -> list[Touched]:
        """What ranks touched besides the contract: each place once, in order."""
        ranks: dict[tuple[str, str], set[int]] = {}
        for fact in self.runs:
            if fact[0] == OUTSIDE:
                ranks.setdefault((fact[1], fact[2]), set()).add(fact[3])
        return [Touched(*at, tuple(sorted(ranks[at]))) for at in sorted(ranks, key=_in_order)]

    def touched(self, what: str) -> str:
        """The places at which ranks touched something of this kind, in words; empty if there are none."""
        places = [one.where for one in self.outside if one.what == what]
        return ", ".join([*places[:NAMED], *[counted(len(places) - NAMED, "more place")] * (len(places) > NAMED)])

    def did(self, *kinds: str) -> bool:
        """Returns whether any rank had an op of one of these kinds."""
        return any(fact[0] in kinds for fact in self.runs)

    @property
    def mortal(self) -> list[int]:
        """The ranks that may die."""
        return sorted({kill.rank for kill in self.world.kills})

    @property
    def only_some_die(self) -> str:
        """The ranks that may die, in words."""
        return f"only {ranks_text(self.mortal)} die{'s' * (len(self.mortal) == 1)}"

    @property
    def few_timeouts(self) -> str:
        """The bound on early timeouts, in words."""
        few = self.world.early_timeouts
        return f"at most {counted(few, 'time-out')} of a run pass{'es' * (few == 1)} early"

    @property
    def replays_at_once(self) -> list[str]:
        """The pairs of replays that used one communicator at once, in words."""
        return sorted(fact[1] for fact in self.runs if fact[0] == AT_ONCE)

    @property
    def meets(self) -> bool:
        """Whether ranks made collectives or transfers."""
        return self.did(*MEETS)

    @property
    def meets_on_devices(self) -> bool:
        """Whether ranks made collectives or transfers on devices."""
        return any(fact[0] in MEETS and fact[1] is not None for fact in self.runs)

    @property
    def mixed(self) -> bool:
        """Whether a device communicator had both collectives and transfers."""
        on_devices = {(fact[0], fact[2]) for fact in self.runs if fact[0] in MEETS and fact[1] is not None}
        return any(("transfer", name) in on_devices for kind, name in on_devices if kind == "collective")

    @property
    def streams(self) -> set[str]:
        """The names of all streams that had work."""
        return {fact[1] for fact in self.runs if fact[0] in ("launch", *MEETS) and fact[1] is not None}

    @property
    def breaks_off(self) -> bool:
        """Whether a rank may die or abort a communicator."""
        return bool(self.world.kills) or self.did("abort")

    @property
    def aborts_on_devices(self) -> list[str]:
        """The sites at which ranks aborted a device communicator."""
        devices = {one.name for one in self.world.communicators if one.domain == "device"}
        devices |= {fact[2] for fact in self.runs if fact[0] in MEETS and fact[1] is not None}
        return sorted({fact[1] for fact in self.runs if fact[0] == "abort" and fact[-1] in devices})

    @property
    def faulty_call(self) -> bool:
        """Whether the scenario plants a call that raises or never returns."""
        return any(fault.kind in FAULTS_OF_A_CALL for fault in self.world.faults)
