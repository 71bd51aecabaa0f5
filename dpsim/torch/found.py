"""Runs a program to find the communicators that it uses implicitly: those of its tags and of its pairs of ranks.

    found_by_running(program, prepared)     # (("world", (0, 1)), ("world#5", (0, 1)))

In this model, gloo uses another communicator for each tag, and NCCL one for each pair whose transfers are not batched.
No call creates it, so the world has to list it before the run. If a run uses one that its world lacks, dpsim runs the
program again. If only a later schedule does, that run is lost, and the next command includes it. Groups of `new_group`
need no such run, because that call creates them.
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
"""Communicators, each with its members as global ranks. `THREADS`, `ORDERED` and `ABORTS` are entries without members.
"""

MOST_RUNS = 200

missing: dict[str, tuple[int, ...]] = {}
"""Communicators that a run used and its world lacks."""
uncovered: list[str] = []
"""Calls of a run that dpsim does not simulate, each with its place."""

_known: dict[Any, tuple[Found, bool]] = {}


THREADS, ORDERED, ABORTS = "threads", "ordered", "aborts"
"""Entries of `Found`: a rank starts a thread; its threads run in one order; a rank aborts a process group."""
_NEEDS = {THREADS: "calls of a second thread", ABORTS: "an abort of a group"}
HOLDS, CALLS, CHOICES = "holds", "calls", "choices"
started: list[str] = []
"""What the threads of a run did. CALLS: a thread other than the main thread made a call. CHOICES: a thread used a lock,
a queue or the like, whose order is a choice. HOLDS, before the run: it ends where a rank starts a thread, and the next
one schedules threads.
"""

MOST_CHOICES = 24
"""The largest number of CHOICES of a rank whose threads make no call. With more of them, dpsim tries one order."""


def not_covered(text: str, calls: Chain) -> Elsewhere:
    """Returns the error for a call that dpsim does not simulate, and notes it in `uncovered`."""
    uncovered.append(f"{calls[0][1]}: {text}" if calls else text)
    return raised_elsewhere("NotCovered", text, calls)


class NewGroup(Lost):
    """A run used a communicator that its world lacks, or one of `THREADS` and `ABORTS` for the first time."""

    def __init__(self, kind: str, ranks: tuple[int, ...]) -> None:
        needed = _NEEDS.get(kind, kind)
        super().__init__(f"this schedule uses {needed}, which no run used before; run the command again")
        missing[kind] = ranks


def found_by_running(program: TorchProgram, prepared: TorchPrepared) -> tuple[Found, bool]:
    """Returns the communicators, and whether rounds of loops can be steps. Raises Unsuitable for a call that dpsim does
    not simulate, NoTorch and Lost.
    """
    nursery()  # raises NoTorch
    about = Path(prepared.job.file).stat()
    key = prepared.job, prepared.order, about.st_mtime_ns, about.st_size
    known = _known.get(key)
    if known is None or missing:
        groups = _enlarged(known[0] if known else (("world", tuple(range(prepared.job.size))),))
        known = _known[key] = _found(program, prepared, groups)
    return known


def _found(program: TorchProgram, prepared: TorchPrepared, groups: Found) -> tuple[Found, bool]:
    from dpsim.sim.backend import SimBackend

    free = False  # what the threads of this program do needs threads that dpsim does not schedule
    for _ in range(MOST_RUNS):
        missing.clear()
        uncovered.clear()
        held = (THREADS, ()) in groups
        started[:] = [] if held or free else [HOLDS]
        tried = program.heeding(prepared, groups)
        run = SimBackend().run_program(_world(program, tried), program, tried)
        did = started[:]
        started.clear()
        if uncovered and (free or not held):
            raise Unsuitable(uncovered[0])
        if uncovered:
            free, groups = True, tuple(one for one in groups if one != (THREADS, ()))
        elif missing:
            groups = _enlarged(groups)
        elif run.lost:
            raise Lost(run.lost)
        else:
            quiet = CALLS not in did  # the step of another thread's call depends on the schedule
            if quiet and did.count(CHOICES) > MOST_CHOICES * prepared.job.size:
                groups = (*groups, (ORDERED, ()))
            return groups, quiet and not free and alike(run)
    raise Unsuitable(f"{prepared.job.file}: a new group in each of {MOST_RUNS} runs; expected a fixed set of groups")


def alike(run: Run) -> bool:
    """Returns whether ranks that meet in a collective are in the same round of their loops, so that rounds can be
    steps. In a run that hangs, one rank may have skipped a call, and meets the others one round too early from then on.
    So there, members may differ in one constant way besides the equal rounds at the beginning.
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
