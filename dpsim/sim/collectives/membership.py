"""A rank's membership in a communicator, which the rank may abort. An abort ends parts for which a peer never comes.

Programs that say `aborts = True` use it. There each part of a collective or transfer has one more op behind it, by
which the part is over for this rank. The op happens when the part has ended, unless one of two things comes before:

* this rank aborts: the part is *broken off*. A host that waits for it goes on, and learns of the abort;
* a peer that aborted has *left*: what it takes part in is not served any more, and this rank stands there until it
  aborts, too. A peer leaves some time after its abort, so what it had begun may go on for others and end.

    part = membership.part(host, end)                               # `end`: as far as the others go
    yield from host.wait(part.over)
    part.broken                                                     # True: it was broken off
"""

from __future__ import annotations

from dpsim.contract.schedule import Footprint, numbered_label
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.groups import Group
from dpsim.sim.graph.lives import LEFT
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Part:
    """A part of this rank in a collective or transfer. `ends`: where it ends by itself. `over`: what comes behind it on
    a stream, or waits for it. `broken`: it was broken off.
    """

    __slots__ = ("broken", "brought", "ends", "over")

    def __init__(self, ends: Op, over: Op, brought: Contribution | None) -> None:
        self.ends = ends
        self.over = over
        self.brought = brought
        self.broken = False


class Membership:
    """Of one rank in one communicator."""

    def __init__(self, machine: AbortingMachine, group: Group, rank: int) -> None:
        self._machine = machine
        self._group = group
        self._rank = rank
        self._unfinished: dict[Part, None] = {}
        self.aborted = False
        self.broken_off: Op | None = None
        """What this rank's abort does to its parts: a call that is broken off comes behind it."""
        self.left = False
        """Its peers are not served any more."""
        group.memberships[rank] = self

    def part(self, host: Host, end: Op, brought: Contribution | None = None) -> Part:
        """What this rank waits for from now on in place of the end of its part."""
        machine, group, rank = self._machine, self._group, self._rank
        label, number = f"is over in {group.spec.name}", host.part_number
        host.part_number += 1
        ends, over = Op(numbered_label(label, number, host.word) if machine.visible else ""), Op("")
        if machine.visible:
            lives = (host.device_lives or ()) if group.device else ()
            ends.footprint = (*self._served, (("aborts", group.spec.name, rank), "r"), *lives)
        ends.life = LEFT if any(one.left for one in group.memberships.values()) else rank if group.device else None
        over.life = rank if group.device else None
        part = Part(ends, over, brought)
        ends.effect, ends.args = self._over, (part,)
        self._unfinished[part] = None
        machine.edge(end, ends)
        machine.mark(over)
        machine.submit(ends)
        return part

    def abort(self, host: Host) -> None:
        """By a call that the host has issued."""
        machine, name = self._machine, self._group.spec.name
        self.aborted = True
        breaks = Op(host.address("breaks off"), 0, self._break_off, life=~self._rank)
        leaves = Op(host.address("leaves by"), 0, self._leave)
        breaks.args = (breaks,)
        self.broken_off = breaks
        if machine.visible:
            lives: Footprint = ((("life", self._rank), "r"),) if self._rank in machine.mortal else ()
            breaks.footprint = ((("aborts", name, self._rank), "w"), *lives)
            leaves.footprint = ((("leaves", name, self._rank), "w"),)
        if host.chained:
            host.before(breaks)
        machine.edge(breaks, leaves)
        machine.submit(leaves)
        machine.submit(breaks)

    @property
    def _served(self) -> Footprint:
        """A footprint: no other member has left."""
        name = self._group.spec.name
        return tuple([(("leaves", name, member), "r") for member in self._group.spec.ranks if member != self._rank])

    def _over(self, part: Part) -> None:
        del self._unfinished[part]
        self._machine.edge(part.ends, part.over)
        self._machine.submit(part.over)

    def _break_off(self, by: Op) -> None:
        for part in self._unfinished:
            part.broken = True
            part.ends.life = LEFT
            if part.brought is not None:  # what still comes goes nowhere
                part.brought.let_go()
            if self._group.device:
                self._machine.break_off(part.over, self._rank)
            self._machine.edge(by, part.over)
            self._machine.submit(part.over)
        self._unfinished.clear()

    def _leave(self) -> None:
        self.left = True
        for member, other in self._group.memberships.items():
            if member != self._rank:
                for part in other._unfinished:
                    part.ends.life = LEFT

    def forget(self) -> None:
        """A run leaves no cycles behind."""
        for part in self._unfinished:
            part.ends.effect, part.ends.args = None, ()
        self._unfinished.clear()
        self.broken_off = None
        self._group.memberships.clear()
