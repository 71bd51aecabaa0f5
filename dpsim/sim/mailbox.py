"""Mailboxes: messages between hosts, each delivered some time after it was sent.

A delivery is an op: deliveries from one sender to one box are a chain, those of several senders come in any order.
A poll finds what has been delivered by then. Each *position* of a box is a resource: delivery k writes position k,
a poll that looks at position k reads it, so a poll races only with the delivery that it just missed. Which delivery is
the k-th the deliveries settle among themselves: all of them write the box.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dpsim.interface import Frozen
from dpsim.schedule import Footprint
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op


class _Box:
    def __init__(self) -> None:
        self.messages: deque[tuple[Frozen, Op]] = deque()
        self.taken = 0
        self.delivered = 0
        self.getters: deque[Op] = deque()


class Mailboxes:
    """All mailboxes of a world."""

    def __init__(self, machine: Machine, size: int) -> None:
        self._machine = machine
        self._size = size
        self._boxes: dict[tuple[int, str], _Box] = {}
        self._chains: dict[tuple[int, int, str], Op] = {}
        self._unsure: dict[tuple[int, int, str], list[tuple[Op, Op | None]]] = {}
        """What ranks have sent that may be killed, and where they came to do so."""

    def post(self, delivery: Op, sender: int, to: int, name: str, message: Frozen, issued: Op | None = None) -> None:
        """Send; the delivery comes after those that this sender sent to the box before. One that has a life dies with
        its sender. `issued`: that the sender comes to do so, where that is an op.
        """
        if not 0 <= to < self._size:
            raise ValueError(
                f"rank {sender} sends to the mailbox {name!r} of rank {to}; there are ranks 0 to {self._size - 1}"
            )
        box, machine = self._boxes.get((to, name)) or self._box(to, name), self._machine
        delivery.effect, delivery.args = self._deliver, (box, message, delivery)
        if machine.visible:
            lives: Footprint = () if delivery.life is None else ((("life", sender), "r"),)
            whole = ("mailbox", to, name), "w"
            delivery.footprint = lambda: ((("mailbox", to, name, box.delivered), "w"), whole, *lives)
        machine.edge(self._chains.get((sender, to, name)), delivery)
        self._chains[sender, to, name] = delivery
        if sender in machine.mortal:
            self._unsure.setdefault((sender, to, name), []).append((delivery, issued))
        machine.submit(delivery)

    def announce(self, notice: Op, to: int, name: str, message: Frozen) -> None:
        """A delivery that nobody sends; whoever submits it says when."""
        box = self._boxes.get((to, name)) or self._box(to, name)
        notice.effect, notice.args = self._deliver, (box, message, notice)
        if self._machine.visible:
            whole = ("mailbox", to, name), "w"
            notice.footprint = lambda: ((("mailbox", to, name, box.delivered), "w"), whole)

    def follow(self, notice: Op, sender: int, to: int, name: str) -> None:
        """It comes after what the sender has sent to that box, and what was not lost with it."""
        last = self._chains.get((sender, to, name))
        for delivery, issued in reversed(self._unsure.get((sender, to, name), ())):
            last = delivery
            if issued is None or issued.at >= 0:  # else the sender died before it came to send that
                break
            last = None
        if last is not None and last.life not in self._machine.dead:
            self._machine.edge(last, notice)

    def take(self, op: Op, rank: int, name: str, how: str) -> None:
        """Let the value of `op` be the next message; for a poll, None if there is none. A poll can be early or late; a
        get comes after its message, and is no choice.
        """
        box, machine = self._boxes.get((rank, name)) or self._box(rank, name), self._machine
        op.effect, op.args = self._next, (box, op)
        if how == "poll":
            if machine.visible:
                lives = op.touches()
                op.footprint = lambda: ((("mailbox", rank, name, box.taken), "r"), *lives)
        elif not box.messages:
            op.pending += 1
            box.getters.append(op)
        else:
            self._give(box, op)
        machine.submit(op)

    def close(self) -> None:
        """The run is over: what still waits for a message, and knows itself by that, does so no longer."""
        for box in self._boxes.values():
            for getter in box.getters:
                getter.effect, getter.args = None, ()
        self._chains.clear()
        self._unsure.clear()

    def _box(self, rank: int, name: str) -> _Box:
        """One that nobody has used yet."""
        box = self._boxes[rank, name] = _Box()
        return box

    def _deliver(self, box: _Box, message: Frozen, delivery: Op) -> None:
        box.messages.append((message, delivery))
        box.delivered += 1
        if box.getters:
            getter = box.getters.popleft()
            self._give(box, getter)
            self._machine.submit(getter)

    def _give(self, box: _Box, getter: Op) -> None:
        """The next message is for this get, also where another thread comes to take one before it goes on."""
        message = self._next(box, getter)
        getter.effect, getter.args = _same, (message,)

    def _next(self, box: _Box, op: Op) -> Any:
        if not box.messages:
            return None
        box.taken += 1
        message, delivery = box.messages.popleft()
        self._learn(op, delivery)
        return message

    @staticmethod
    def _learn(op: Op, delivery: Op) -> None:
        """Who takes a message comes after it."""
        op.seen_marks |= delivery.seen_marks
        op.causes |= delivery.causes


def _same(message: Frozen) -> Frozen:
    return message
