"""Whether the ranks move: the parent's view of one job. A service is seen as the ranks are: "rank" stands for both
here.

A rank moves when its journal grows or when it reports its end. On real hardware that is all that shows a hang: no rank
moved for `world.stall_ns`. So the report says "observed", and a rank that computed for longer than that would be called
stuck too: a limit, set by the scenario. Injected delays are added to it, all together, since they may follow one
another on a device while no host moves.

When a rank has raised or died, its peers may never return from their waits, or may end by themselves. They get a
shorter time to show. Of it counts only the time in which they slept (`quiet`), so no load of the machine decides a
verdict.

A rank that stands in an *idle* get has ended well if nothing can move any more, as in the simulation. Where all that
have not ended stand so, none can send. So the watch waits not for the stall but only for the time in which a message
may be under way. Then it *dismisses* them. The get ends the program, the worker sees its streams to their end and
reports "finished", and the pool stays as it is. Should a stream hang, the rank does not report, and that is a hang.
Where others do hang, the idle ones are not at fault: "finished" too, without any message.

A sleep of a program is added to the stall while it lasts, and so is a time-out until it passes.

After Ctrl-Z or on a frozen machine this process does not run, and neither do the ranks. Then the ranks get the whole
stall anew (`clock`).

Where a rank has several host threads, its last record says little of a hang. So each of its threads is looked up, in
the process itself, before anything is stopped: `observed` has their lines.

What the machine took away says nothing of the program. A worker was ended from outside, though no scenario wanted its
rank to die. Or it was stopped, or lacked memory or room for its journal. The watch ends at once, and says `lost`. A
worker whose rank has finished counts as well: its store, or what it sent last, may have gone with it.
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
from real.journal_reader import Unmoving, died_as_planned, journal_size, last_step, standing
from real.messages import Alone, AskStands, Dismiss, JobEnded, Stands, Troubled
from real.quiet import Quiet

POLL_SECONDS = 0.05
PROGRESS_SECONDS = 0.25

LOOK_SECONDS = 3.0
"""For the worker to say where its host threads stand."""

GRACE_NS = 1_000_000_000
"""The stall after a first rank has ended badly, or when all are idle. Time in which a rank ran or waited for a core is
no part of it. The latency of gloo and of a socket stays far below it.
"""


class JobWatch:
    """Follows the workers of a job to its end, or to the point where waiting longer makes no sense.

    Afterwards: `ends`, `waited_ns` (0 for a rank that did not report), `elapsed_ns`, and `observed`, "" if all
    finished. `late`: whether the run was stopped at its deadline. `lost`: "" if the machine took nothing away.
    `changed`: what ranks said of state that they share elsewhere. `spoiled`: whether a worker said that it cannot be
    used again. `aborted`: whether one said that it aborted a communicator. `listening`: the workers whose program left
    a store open when it finished. `undefined`: the NaNs that ranks brought.
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
        """Until every rank has ended, or no rank moves any more."""
        clock = Clock(POLL_SECONDS)
        now = moved = reported = size = 0
        stands: dict[int, Unmoving] = {}
        quiet: Quiet | None = None
        while None in self._ends and not self.lost:
            news = self._collect()
            grown = sum(journal_size(path) for path in self._paths)
            now = clock.look()
            if news or grown != size:
                moved, size = now, grown
                stands, quiet = {}, None
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
            if (hopeless or now - moved > self._stall_ns) and not stands:  # read once: no rank writes
                unfinished = [rank for rank, end in enumerate(self._ends) if end is None]
                stands = {rank: standing(self._paths[rank], rank in self._mains_over) for rank in unfinished}
                if all(stand.idle for stand in stands.values()) and not self._dismissed:
                    self._dismissed = True
                    for rank in unfinished:
                        self._dismiss(rank)
                    moved, quiet = now, None
                    continue
            limit += max((stand.pause_ns for stand in stands.values()), default=0)
            late = now > self._world.deadline_ns
            if now - moved > limit or late:
                self._look_who_was_stopped()
            if now - moved > limit:
                if not self._dismissed:
                    for rank in stands:
                        self._ends[rank] = self._ends[rank] or ("finished" if stands[rank].idle else None)
                self.observed = f"no rank moved for {limit / 1e9:g} s"
                break
            if late:
                self.late = True
                self.observed = f"the run did not end within {self._world.deadline_ns / 1e9:g} s"
                break
        self._look_at_those_that_finished()
        self._conclude(now)

    def look_at_threads(self, journals: Sequence[Sequence[RawRecord]]) -> None:
        """Say where the host threads stand, of ranks that have several and did not end. A process in which one holds
        Python's lock does not answer.
        """
        asked = {
            child.rank: child
            for child, journal in zip(self.children, journals, strict=True)
            if self._ends[child.rank] is None and any(record[KIND] == "thread" for record in journal)
        }
        stand: dict[int, str] = {}
        for child, message in self._asked(list(asked.values())):
            if message is None:
                stand[child.rank] = "gone"
            elif isinstance(message, Stands):
                stand[child.rank] = ", ".join(message.threads)
        standing = [f"rank {rank}: {stand.get(rank, 'no answer')}" for rank in sorted(asked)]
        if standing:
            more = [f"and {len(standing) - FEW} more ranks"] if len(standing) > FEW else []
            self.observed = "; ".join([self.observed, *standing[:FEW], *more])

    def _asked(self, children: Sequence[Child]) -> Iterator[tuple[Child, Any]]:
        """What each process says of this run, with where its threads stand as the last; None where it is gone."""
        for child in children:
            child.send(AskStands(self._number))
        silent, deadline = list(children), time.monotonic() + LOOK_SECONDS
        while silent and time.monotonic() < deadline:
            for child in speaking(silent, POLL_SECONDS):
                message = child.receive()
                if message is not None and message.number != self._number:
                    continue
                if message is None or isinstance(message, Stands):
                    silent.remove(child)
                yield child, message

    def _dismiss(self, rank: int) -> None:
        """Tell a rank that its idle get was its end."""
        self.children[rank].send(Dismiss(self._number))

    def _collect(self) -> bool:
        """Take in what the workers say, waiting a little for it. Whether they said anything."""
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
        """Its process is gone: as a scenario wanted, by itself, or since the machine took it away."""
        self._ends[rank] = "died"
        self._deaths[rank] = child.how_it_ended()
        taken = child.taken_away()
        if taken and not died_as_planned(self._paths[rank]):
            self.lost = self.lost or f"the process of {self._world.actor(rank)} {taken}"

    def _unfinished(self) -> list[Child]:
        return [child for child, actor in self._actors.items() if self._ends[actor] is None]

    def _look_at_those_that_finished(self) -> None:
        """A store that failed has said so before its peers could learn of it. And a worker that is gone by now took
        with it what others may have waited for. The kernel closes a killed process's store before it reports the
        death, so a worker with a store has to answer once more.
        """
        for child, message in self._asked(self.listening):
            if isinstance(message, Troubled):
                self.lost = self.lost or f"{self._world.actor(self._actors[child])}: {message.what}"
            elif message is None:
                child.how_it_ended()  # waits until the system has seen it
        for child, rank in self._actors.items():
            taken = "" if self.lost or self._ends[rank] != "finished" else child.taken_away()
            if taken:
                self.lost = f"the process of {self._world.actor(rank)} {taken}"

    def _look_who_was_stopped(self) -> None:
        """A process that cannot move is not a rank that does not. One that has gone may have left its socket to a child
        process, which keeps it open. One that is on its way out keeps its socket for seconds.
        """
        for child, rank in self._actors.items():
            if self._ends[rank] is None and not self.lost:
                taken = child.taken_away()
                if child.is_ending() or (taken and died_as_planned(self._paths[rank])):
                    self._died(child, rank)
                else:
                    self.lost = f"the process of {self._world.actor(rank)} {taken}" if taken else ""

    def _culprits(self) -> list[str]:
        """The ranks that ended badly by themselves, in words."""
        return [
            f"{self._world.actor(rank)} {end}" + (f" ({self._deaths[rank]})" if rank in self._deaths else "")
            for rank, end in enumerate(self._ends)
            if end in ("raised", "died")
        ]

    def _conclude(self, watched_ns: int) -> None:
        """How long it took, and what was seen."""
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
