"""Notices to the actors that watch a rank or service: it is gone.

A notice is a delivery without a sender. It comes after the end of the watched actor, and races from then on like every
delivery. If the actor never ends, no notice comes, and the run does not wait for one.

    notices.watch(host, actor=3, mailbox="deaths", took=10_000)
    notices.gone(3, host.before)                # the end of rank 3: its notices are under way

The end is that of the host. Its device may go on for a while, and so may what it began with others.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.services.mailbox import Mailboxes


class Notices:
    """All watchers, and the actors that are gone."""

    def __init__(self, machine: Machine, boxes: Mailboxes) -> None:
        self._machine = machine
        self._boxes = boxes
        self._watched: dict[int, list[tuple[Op, int, str]]] = {}
        self._gone: dict[int, Callable[[Op], None]] = {}

    def watch(self, host: Host, actor: int, mailbox: str, took: int) -> None:
        """A host wants a notice, by the call that it has issued last."""
        notice = Op(host.address("is told by"), took)
        if host.chained:
            host.before(notice)
        self._boxes.announce(notice, host.journal.here(), mailbox, ("gone", actor))
        self._watched.setdefault(actor, []).append((notice, host.rank, mailbox))
        if actor in self._gone:
            self._tell(actor)

    def gone(self, actor: int, behind: Callable[[Op], None]) -> None:
        """An actor has ended. `behind`: puts an op behind all that it did and knew."""
        self._gone[actor] = behind
        self._tell(actor)

    def _tell(self, actor: int) -> None:
        for notice, to, mailbox in self._watched.pop(actor, ()):
            self._gone[actor](notice)
            self._boxes.follow(notice, actor, to, mailbox)
            self._machine.submit(notice)

    def close(self) -> None:
        """The run is over: no watcher gets a notice any more."""
        for waiting in self._watched.values():
            for notice, _, _ in waiting:
                notice.effect, notice.args = None, ()
        self._watched.clear()
        self._gone.clear()
