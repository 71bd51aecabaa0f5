"""Notices: messages to the ranks that watch another rank or service, when that actor has ended.

A notice is a delivery without a sender, after the end of the watched actor. If the actor never ends, no notice arrives,
and the run does not wait for one.

    notices.watch(host, actor=3, mailbox="deaths", took=10_000)
    notices.gone(3, host.before)                # rank 3 has ended: sends its notices

The end of an actor, for a notice, is that of its host. The actor's device may still run, and so may collectives that it
began with others.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsim.contract.events import IS_NOTIFIED
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.services.mailbox import Mailboxes


class Notices:
    """All watchers, and the actors that have ended."""

    def __init__(self, machine: Machine, boxes: Mailboxes) -> None:
        self._machine = machine
        self._boxes = boxes
        self._watched: dict[int, list[tuple[Op, int, str]]] = {}
        self._gone: dict[int, Callable[[Op], None]] = {}

    def watch(self, host: Host, actor: int, mailbox: str, took: int) -> None:
        """A host asks for a notice by its last call. The delivery takes `took` ns."""
        notice = Op(host.address(IS_NOTIFIED), took)
        host.before(notice)
        self._boxes.announce(notice, host.journal.here(), mailbox, ("gone", actor))
        self._watched.setdefault(actor, []).append((notice, host.rank, mailbox))
        if actor in self._gone:
            self._tell(actor)

    def gone(self, actor: int, behind: Callable[[Op], None]) -> None:
        """An actor has ended. `behind` orders an op after all that the actor issued and learned."""
        self._gone[actor] = behind
        self._tell(actor)

    def _tell(self, actor: int) -> None:
        for notice, to, mailbox in self._watched.pop(actor, ()):
            self._gone[actor](notice)
            self._boxes.follow(notice, actor, to, mailbox)
            self._machine.submit(notice)

    def close(self) -> None:
        """Ends all watches at the end of a run."""
        for waiting in self._watched.values():
            for notice, _, _ in waiting:
                notice.effect, notice.args = None, ()
        self._watched.clear()
        self._gone.clear()
