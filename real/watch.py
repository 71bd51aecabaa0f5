"""Watches one job in the parent: whether its ranks make progress, and how each ended. Here "rank" includes services.

A rank makes progress when its journal grows or when it reports its end. On real hardware this is the only sign of a
hang: no rank made progress for `world.stall_ns`. So the report says "observed". A rank that computes for longer than
that is also reported as a hang; the scenario sets the limit. The watch adds the sum of all planted delays to the limit.
Delays on a device may follow one another while no host makes progress.

When a rank has raised or died, its peers may wait for it without end, or may end by themselves. The watch gives them a
shorter time. It counts only time in which they slept (`quiet`), so a busy machine does not change a verdict.

A rank in an *idle* get has ended well if nothing can happen any more, as in the simulation. If all unfinished ranks are
in idle gets, none can send. So the watch waits only for the time in which a message may be under way, and then
*dismisses* them. The get ends the program, the worker waits for its streams and reports "finished", and the pool stays
as it is. If a stream hangs, the rank does not report, and that is a hang. If other ranks hang, the idle ones are not at
fault, so their end is "finished", too, without any message.

The watch adds a program's sleep to the limit while it lasts, and a time-out until it passes.

After Ctrl-Z or on a frozen machine, neither this process nor the ranks run. Then the ranks get the whole limit again
(`clock`).

If a rank has several host threads, its last record does not show where each of them waits. So the watch asks the
process for the line of each thread before it stops anything, and adds the lines to `observed`.

If the machine took a resource away, the run proves nothing about the program. For example, a signal from outside ended
or stopped a worker, or it lacked memory or room for its journal. Then the watch ends at once with `lost`. This applies
even to a worker whose rank has finished, since its store, or its last messages, may be gone with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dpsim.backend.journal.whereabouts import FEW
from dpsim.contract.ops import KIND, RawRecord
from dpsim.contract.undefined import Undefined
from dpsim.contract.world import End, Progress, World
from real.child import Child, speaking
from real.clock import Clock
from real.journal_reader import Unmoving, died_as_planned, journal_size, last_step, unmoving_state
from real.messages import Alone, AskThreadStates, Dismiss, JobEnded, ThreadStates, Troubled
from real.quiet import Quiet

POLL_SECONDS = 0.05
PROGRESS_SECONDS = 0.25

LOOK_SECONDS = 3.0
"""The deadline for a worker's reply about its host threads."""

GRACE_NS = 1_000_000_000
"""The shorter limit after a first rank has ended badly, or when all are idle. Time in which a rank ran or waited for a
core does not count. The latencies of gloo and sockets are far shorter.
"""


class JobWatch:
    """Follows the workers of a job to its end, or until further waiting is pointless.

    * `ends`, `waited_ns` (0 for a rank that did not report), `elapsed_ns`: as in `Run`. `observed`: "" if all finished.
    * `late`: whether the deadline of the run passed. `lost`: the resource that the machine took away, or "".
    * `changed`: error texts about state that ranks share in the simulation. `undefined`: the NaNs of the ranks.
    * `spoiled`: whether the pool must not use a worker again. `aborted`: whether a rank aborted a communicator.
    * `listening`: the workers whose program left a store open when it finished.
    """

    def __init__(
        self, children: Sequence[Child], paths: Sequence[Path], world: World, number: int, progress: Progress | None
    ) -> None:
        self.children = children
        self.observed = ""
        self.late = False
        self.undefined: tuple[Undefined, ...] = ()
        self.lost = ""
        self.waited_ns = [0] * len(children)
        self.elapsed_ns = 0
        self._paths = paths
        self._world = world
        self._number = number
        self._progress = progress
        self._ends: list[End | None] = [None] * len(children)
        self._reports: list[JobEnded] = []
        self.changed: list[str] = []
        self.spoiled = self.aborted = False
        self._mains_over: set[int] = set()
        self.listening: list[Child] = []
        self._actors = {child: actor for actor, child in enumerate(children)}
        self._deaths: dict[int, str] = {}
        self._dismissed = False
        delays = sum(delay.ns for delay in world.delays)
        self._stall_ns = world.stall_ns + delays
        self._grace_ns = min(GRACE_NS, world.stall_ns) + delays

    @property
    def ends(self) -> list[End]:
        return [end or "blocked" for end in self._ends]

    def observe(self) -> None:
        """Waits until every rank has ended, or no rank makes progress any more."""
        clock = Clock(POLL_SECONDS)
        now = moved = reported = size = 0
        states: dict[int, Unmoving] = {}
        quiet: Quiet | None = None
        while None in self._ends and not self.lost:
            news = self._collect()
            grown = sum(journal_size(path) for path in self._paths)
            now = clock.look()
            if news or grown != size:
                moved, size = now, grown
                states, quiet = {}, None
            elif clock.stood:
                moved, quiet = now, None
            else:
                quiet = quiet or Quiet(self._unfinished(), now)
            if self._progress is not None and now - reported > PROGRESS_SECONDS * 1e9:
                reported = now
                step = last_step(self._paths[0])
                if step is not None:
                    self._progress(step)
            someone_lost = any(end not in (None, "finished") for end in self._ends)
            hopeless = now - moved > self._grace_ns and quiet is not None and quiet.ns(now) > self._grace_ns
            limit = self._grace_ns if someone_lost and hopeless else self._stall_ns
            if (hopeless or now - moved > self._stall_ns) and not states:  # read once, since no rank writes any more
                unfinished = [rank for rank, end in enumerate(self._ends) if end is None]
                states = {rank: unmoving_state(self._paths[rank], rank in self._mains_over) for rank in unfinished}
                if all(state.idle for state in states.values()) and not self._dismissed:
                    self._dismissed = True
                    for rank in unfinished:
                        self._dismiss(rank)
                    moved, quiet = now, None
                    continue
            limit += max((state.pause_ns for state in states.values()), default=0)
            late = now > self._world.deadline_ns
            if now - moved > limit or late:
                self._look_who_was_stopped()
            if now - moved > limit:
                if not self._dismissed:
                    for rank in states:
                        self._ends[rank] = self._ends[rank] or ("finished" if states[rank].idle else None)
                self.observed = f"no rank moved for {limit / 1e9:g} s"
                break
            if late:
                self.late = True
                self.observed = f"the run did not end within {self._world.deadline_ns / 1e9:g} s"
                break
        self._look_at_those_that_finished()
        self._conclude(now)

    def look_at_threads(self, journals: Sequence[Sequence[RawRecord]]) -> None:
        """Asks ranks with several host threads that did not end for the line of each thread. A process in which a
        thread holds Python's lock does not reply.
        """
        threaded = {
            child.rank: child
            for child, journal in zip(self.children, journals, strict=True)
            if self._ends[child.rank] is None and any(record[KIND] == "thread" for record in journal)
        }
        state_of: dict[int, str] = {}
        for child, message in self._replies(list(threaded.values())):
            if message is None:
                state_of[child.rank] = "gone"
            elif isinstance(message, ThreadStates):
                state_of[child.rank] = ", ".join(message.threads)
        state_lines = [f"rank {rank}: {state_of.get(rank, 'no answer')}" for rank in sorted(threaded)]
        if state_lines:
            more = [f"and {len(state_lines) - FEW} more ranks"] if len(state_lines) > FEW else []
            self.observed = "; ".join([self.observed, *state_lines[:FEW], *more])

    def _replies(self, children: Sequence[Child]) -> Iterator[tuple[Child, Any]]:
        """Yields each process's messages about this run, the last one with its threads' lines; None if it has ended."""
        for child in children:
            child.send(AskThreadStates(self._number))
        silent, deadline = list(children), time.monotonic() + LOOK_SECONDS
        while silent and time.monotonic() < deadline:
            for child in speaking(silent, POLL_SECONDS):
                message = child.receive()
                if message is not None and message.number != self._number:
                    continue
                if message is None or isinstance(message, ThreadStates):
                    silent.remove(child)
                yield child, message

    def _dismiss(self, rank: int) -> None:
        self.children[rank].send(Dismiss(self._number))

    def _collect(self) -> bool:
        ready = speaking(self._unfinished(), POLL_SECONDS)
        for child in ready:
            message, rank = child.receive(), self._actors[child]
            if message is None:
                self._died(child, rank)
            elif isinstance(message, Troubled) and message.number == self._number:
                self._ends[rank] = message.end
                self.lost = self.lost or f"{self._world.actor(rank)}: {message.what}"
            elif isinstance(message, Alone) and message.number == self._number:
                self._mains_over.add(rank)
            elif isinstance(message, JobEnded) and message.number == self._number:
                self._ends[rank] = message.end
                self.waited_ns[rank] = message.waited_ns
                self._reports.append(message)
                self.spoiled |= message.spoiled
                self.aborted |= message.aborted
                self.undefined += message.undefined
                if message.listens:
                    self.listening.append(child)
                if message.changed:
                    self.changed.append(message.changed)
        return bool(ready)

    def _died(self, child: Child, rank: int) -> None:
        self._ends[rank] = "died"
        self._deaths[rank] = child.how_it_ended()
        taken = child.taken_away()
        if taken and not died_as_planned(self._paths[rank]):
            self.lost = self.lost or f"the process of {self._world.actor(rank)} {taken}"

    def _unfinished(self) -> list[Child]:
        return [child for child, actor in self._actors.items() if self._ends[actor] is None]

    def _look_at_those_that_finished(self) -> None:
        """Checks workers whose rank has finished. If a store failed, its worker reported this before peers could
        notice. If a worker has ended, it took with it what others may have waited for. The kernel closes a killed
        process's store before it reports the death, so a worker with a store has to reply once more.
        """
        for child, message in self._replies(self.listening):
            if isinstance(message, Troubled):
                self.lost = self.lost or f"{self._world.actor(self._actors[child])}: {message.what}"
            elif message is None:
                child.how_it_ended()  # waits until the system reports it
        for child, rank in self._actors.items():
            taken = "" if self.lost or self._ends[rank] != "finished" else child.taken_away()
            if taken:
                self.lost = f"the process of {self._world.actor(rank)} {taken}"

    def _look_who_was_stopped(self) -> None:
        """Finds processes that cannot run, since their ranks are not at fault. A process that has ended may have left
        its socket to a child, which keeps it open. A process that is ending keeps its socket for seconds.
        """
        for child, rank in self._actors.items():
            if self._ends[rank] is None and not self.lost:
                taken = child.taken_away()
                if child.is_ending() or (taken and died_as_planned(self._paths[rank])):
                    self._died(child, rank)
                else:
                    self.lost = f"the process of {self._world.actor(rank)} {taken}" if taken else ""

    def _culprits(self) -> list[str]:
        return [
            f"{self._world.actor(rank)} {end}" + (f" ({self._deaths[rank]})" if rank in self._deaths else "")
            for rank, end in enumerate(self._ends)
            if end in ("raised", "died")
        ]

    def _conclude(self, watched_ns: int) -> None:
        self.elapsed_ns = watched_ns
        if len(self._reports) == len(self.children):
            first = min(report.started_ns for report in self._reports)
            self.elapsed_ns = max(report.ended_ns for report in self._reports) - first
        if self.lost:
            self.observed = f"lost: {self.lost}"
            return
        culprits = self._culprits()
        if culprits:
            self.observed = " after ".join(filter(None, [self.observed, ", ".join(culprits)]))
