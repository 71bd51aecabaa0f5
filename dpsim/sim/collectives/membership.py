"""A rank's membership in a communicator that ranks may abort. An abort ends calls of this rank whose peers never
arrive.

Only programs with `aborts = True` use this file. For them, each part (one rank's share of a collective or transfer) has
one more op, `over`, that ends it for this rank. The op `over` fires when the part ends normally, unless one of two
things happens first:

* This rank aborts. Then the abort *breaks off* the part: `over` fires, and a host that waits for it gets `Aborted`.
* A peer has *left*: it aborted, and no longer serves its collectives. Then the part does not end, and this rank waits
  until it aborts, too. A peer leaves some time after its abort, so a collective that it had begun may still end for
  others.

    part = membership.part(host, end)                               # `end` fires when the collective serves this rank
    yield from host.wait(part.over)
    part.broken                                                     # True: an abort broke it off
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
    """One rank's part of a collective or transfer. `ends`: the op by which it ends normally. `over`: the op for which
    the stream or the host waits. `broken`: an abort ended it.
    """

    __slots__ = ("broken", "brought", "ends", "over")

    def __init__(self, ends: Op, over: Op, brought: Contribution | None) -> None:
        self.ends = ends
        self.over = over
        self.brought = brought
        self.broken = False


class Membership:
    """One rank's membership in one communicator."""

    def __init__(self, machine: AbortingMachine, group: Group, rank: int) -> None:
        self._machine = machine
        self._group = group
        self._rank = rank
        self._unfinished: dict[Part, None] = {}
        self.aborted = False
        self.broken_off: Op | None = None
        """The op by which this rank's abort ends its parts; calls that get `Aborted` come after it."""
        self.left = False
        """Whether it has left, so that its peers' parts never end."""
        group.memberships[rank] = self

    def part(self, host: Host, end: Op, brought: Contribution | None = None) -> Part:
        """Returns a part whose `over` replaces `end`: the rank waits for `over` from now on."""
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
        """Carries out an abort that the host has issued: submits an op that breaks off this rank's parts, and one by
        which it leaves.
        """
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
        """A footprint by which an op reads that no other member has left."""
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
            if part.brought is not None:  # the member's memory receives nothing more
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
        """Breaks the reference cycles at the end of a run."""
        for part in self._unfinished:
            part.ends.effect, part.ends.args = None, ()
        self._unfinished.clear()
        self.broken_off = None
        self._group.memberships.clear()
