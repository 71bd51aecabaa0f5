"""A rank's membership in a communicator that ranks may abort.

Only programs with `aborts = True` use this file. Two things may happen to a *part* (one rank's share of a collective,
transfer or receive from any source), which exists from the call on:

* A member from which the rank receives elements has *left*: it aborted, and no longer serves its peers. From then on,
  the part does not end. A member leaves some time after its abort, perhaps after time-outs: its work under way may live
  on. So parts of peers may still end in between. What the
  other members do has no effect on the part.
* This rank aborts. The abort *breaks off* what waits for parts of this rank: on a device the stream, on a host another
  thread. The stream continues, and the thread gets `Aborted`.

    end = membership.served(host, end, issue)       # at the call: does not fire if a sender has left
    part = membership.part(host, end)               # waits for `end` until an abort of this rank
    yield from host.wait(part.over)
    part.broken                                     # True: an abort broke it off
"""

from __future__ import annotations

from collections.abc import Collection

from dpsim.backend.journal.issue import Issue
from dpsim.contract.events import BREAKS_OFF, IS_OVER, LEAVES_BY, numbered_label
from dpsim.contract.rules.wait_set import awaited
from dpsim.contract.schedule import Footprint
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.collectives.groups import Group
from dpsim.sim.graph.lives import LEFT
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host


class Part:
    """`ends`: its normal end. `over`: for what its stream or thread waits. `broken`: an abort of this rank ended it."""

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
        self._needs: dict[Op, Collection[int]] = {}
        """For each op that ends a part of this rank: the other members from which it receives."""
        self.broken_off: Op | None = None
        """The op by which this rank's abort ends its parts; calls that get `Aborted` come after it."""
        self.left = False
        """Whether it has left, so that parts of its peers that receive from it never end."""
        group.memberships[rank] = self

    # ---- members that leave

    def served(self, host: Host, end: Op, issue: Issue) -> Op:
        """Host domain: returns the op that ends a part of this rank, which ends by `end` if no member leaves."""
        needs = self._senders(issue)
        if not needs:
            return end
        op = Op(self._label(host))
        op.effect, op.args = self.settled, (op,)
        self.need(op, needs)
        self._machine.edge(end, op)
        self._machine.submit(op)
        return op

    def need(self, op: Op, members: Collection[int]) -> None:
        """Lets `op` fire only if none of these members leaves before. Call it before the op is submitted."""
        group = self._group
        if self._machine.visible:
            op.footprint = (*op.touches(), *[(("leaves", group.spec.name, member), "r") for member in members])
        if any(member in group.memberships and group.memberships[member].left for member in members):
            op.life = LEFT
        else:
            self._needs[op] = members

    def settled(self, op: Op) -> None:
        """The op has fired, or will not fire any more."""
        self._needs.pop(op, None)

    def _senders(self, issue: Issue) -> Collection[int]:
        members = self._group.spec.ranks if issue.peer is None else (issue.peer,)
        return [member for member in awaited(issue.call, self._rank, members) if member != self._rank]

    def _leave(self) -> None:
        self.left = True
        for other in self._group.memberships.values():
            for op, needs in other._needs.items():
                if self._rank in needs:
                    op.life = LEFT

    # ---- aborts of this rank

    def part(self, host: Host, end: Op, brought: Contribution | None = None) -> Part:
        """`over` of the part replaces `end`. `brought`: device domain, what the rank contributes to the call."""
        machine, group, rank = self._machine, self._group, self._rank
        ends, over = Op(self._label(host)), Op("")
        if machine.visible:
            lives = (host.device_lives or ()) if group.device else ()
            ends.footprint = ((("aborts", group.spec.name, rank), "r"), *lives)
        ends.life = over.life = rank if group.device else None
        if brought is not None:
            self.need(ends, self._senders(brought.issue))
        part = Part(ends, over, brought)
        ends.effect, ends.args = self._over, (part,)
        self._unfinished[part] = None
        machine.edge(end, ends)
        machine.mark(over)
        machine.submit(ends)
        return part

    def abort(self, host: Host) -> None:
        """Submits an op that breaks off this rank's parts, and one by which it leaves."""
        machine, name = self._machine, self._group.spec.name
        breaks = Op(host.address(BREAKS_OFF), 0, self._break_off, life=~self._rank)
        leaves = Op(host.address(LEAVES_BY), 0, self._leave)
        breaks.args = (breaks,)
        self.broken_off = breaks
        if machine.visible:
            lives: Footprint = ((("life", self._rank), "r"),) if self._rank in machine.mortal else ()
            breaks.footprint = ((("aborts", name, self._rank), "w"), *lives)
            leaves.footprint = ((("leaves", name, self._rank), "w"),)
        host.before(breaks)
        machine.edge(breaks, leaves)
        machine.alarms.quiet.add(leaves)
        machine.submit(leaves)
        machine.submit(breaks)

    def _label(self, host: Host) -> str:
        number = host.part_number
        host.part_number += 1
        name = self._group.spec.name
        return numbered_label(f"{IS_OVER} {name}", number, host.word) if self._machine.visible else ""

    def _over(self, part: Part) -> None:
        del self._unfinished[part]
        self.settled(part.ends)
        self._machine.edge(part.ends, part.over)
        self._machine.submit(part.over)

    def _break_off(self, by: Op) -> None:
        for part in self._unfinished:
            part.broken = True
            part.ends.life = LEFT
            self.settled(part.ends)
            if part.brought is not None:  # the member's memory receives nothing more
                part.brought.let_go()
            if self._group.device:
                self._machine.break_off(part.over, self._rank)
            self._machine.edge(by, part.over)
            self._machine.submit(part.over)
        self._unfinished.clear()

    def forget(self) -> None:
        """Breaks the reference cycles at the end of a run."""
        for part in self._unfinished:
            part.ends.effect, part.ends.args = None, ()
        self._unfinished.clear()
        self._needs.clear()
        self.broken_off = None
        self._group.memberships.clear()
