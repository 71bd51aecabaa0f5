"""The communicators of tags and pairs, found by running a program: a world names them before a run.

    found_by_running(program, prepared)     # (("world", (0, 1)), ("world#5", (0, 1)))

Transfers with a tag go out on another communicator. So do in NCCL's order those of a pair that are not batched. Ranks
use such a communicator without a call that makes it, so their members never meet in one, and `Rank.group` makes none.
A run that uses one which its world does not have is broken off, and made again with it. One that only some schedule
uses is not found so: that run is lost, and the next one knows it. Groups that the program makes need no such run.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dpsim.backend.journal.elsewhere import Elsewhere, raised_elsewhere
from dpsim.contract.chain import Chain
from dpsim.contract.ops import COMMUNICATOR, KIND, STEP
from dpsim.contract.program import Program, Unsuitable
from dpsim.contract.world import CommunicatorSpec, Lost, Run, World
from dpsim.torch.nursery import nursery

if TYPE_CHECKING:
    from dpsim.torch.program import TorchPrepared, TorchProgram

Found: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Kinds of groups, and their members as global ranks."""

MOST_RUNS = 200

missing: dict[str, tuple[int, ...]] = {}
"""Groups that a run used and its world does not have."""
uncovered: list[str] = []
"""Calls of a run that dpsim does not simulate."""

_known: dict[Any, tuple[Found, bool]] = {}


THREADS, ABORTS = "threads", "aborts"
"""Stand among the groups where threads of a rank make calls, and where ranks abort groups."""
_NEEDS = {THREADS: "calls of a second thread", ABORTS: "an abort of a group"}
SAYS, CALLS = "says", "calls"
started: list[str] = []
"""What a run had of these: its ranks started threads (SAYS), or threads that are held made calls (CALLS)."""


def not_covered(text: str, calls: Chain) -> Elsewhere:
    """What a call raises that dpsim does not simulate: its name, and the user's line."""
    uncovered.append(f"{calls[0][1]}: {text}" if calls else text)
    return raised_elsewhere("NotCovered", text, calls)


class NewGroup(Lost):
    """A run used a communicator of a tag or pair that its world does not have."""

    def __init__(self, kind: str, ranks: tuple[int, ...]) -> None:
        said = _NEEDS.get(kind, kind)
        super().__init__(f"this schedule uses {said}, which no run used before; run the command again")
        missing[kind] = ranks


def found_by_running(program: TorchProgram, prepared: TorchPrepared) -> tuple[Found, bool]:
    """The groups, and whether rounds of the user's loops are steps. Raises Unsuitable for a program that makes a call
    which is not covered, and Lost.
    """
    nursery()  # where there is no torch, that is the error
    about = Path(prepared.job.file).stat()
    key = prepared.job, prepared.order, about.st_mtime_ns, about.st_size
    known = _known.get(key)
    if known is None or missing:
        groups = _enlarged(known[0] if known else (("world", tuple(range(prepared.job.size))),))
        known = _known[key] = _found(program, prepared, groups)
    return known


def _found(program: TorchProgram, prepared: TorchPrepared, groups: Found) -> tuple[Found, bool]:
    from dpsim.sim.backend import SimBackend

    before: Found = ()
    for _ in range(MOST_RUNS):
        missing.clear()
        uncovered.clear()
        started.clear()
        tried = program.heeding(prepared, groups)
        run = SimBackend().run_program(_world(program, tried), program, tried)
        if uncovered:
            raise Unsuitable(uncovered[0])
        if not missing:
            if run.lost:
                raise Lost(run.lost)
            if (THREADS, ()) not in groups and not run.finished and SAYS in started:
                before, groups = groups, (*groups, (THREADS, ()))  # a thread may have been too late to be seen
            elif before and CALLS not in started:
                return before, alike(run)
            else:
                return groups, alike(run)
        groups = _enlarged(groups)
    raise Unsuitable(f"{prepared.job.file}: a new group in each of {MOST_RUNS} runs; expected a fixed set of groups")


def alike(run: Run) -> bool:
    """Whether ranks that meet are in the same round of their loops, so that rounds can be steps.

    In a run that stands still some rank may have left out a call, and meets the others a round too early from then on.
    So there two differences of members may occur, first of all none.
    """
    calls: defaultdict[str, list[list[int]]] = defaultdict(list)
    for journal in run.journals:
        own: defaultdict[str, list[int]] = defaultdict(list)
        for raw in journal:
            if raw[KIND] == "collective":
                own[raw[COMMUNICATOR]].append(raw[STEP])
        for communicator, steps in own.items():
            calls[communicator].append(steps)
    for rows in calls.values():
        apart = [tuple(step - steps[0] for step in steps) for steps in zip(*rows, strict=False)]
        if apart and (any(apart[0]) or len(set(apart)) > (1 if run.finished else 2)):
            return False
    return True


def _world(program: Program[Any], prepared: TorchPrepared) -> World:
    specs = [
        CommunicatorSpec(kind, kind, domain, ranks)
        for kind, domain, members in program.groups(prepared) or ()
        for ranks in members
    ]
    return World(prepared.job.size, tuple(specs), services=program.services(prepared))


def _enlarged(groups: Found) -> Found:
    every = dict(groups)
    for kind, ranks in sorted(missing.items()):
        every.setdefault(kind, ranks)
    missing.clear()
    return tuple(every.items())
