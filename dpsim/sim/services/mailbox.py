"""Mailboxes: messages between hosts. The machine delivers each message some time after the send.

A delivery is an op. Deliveries from one sender to one mailbox form a chain; deliveries of several senders arrive in any
order. A poll finds the messages that arrived before it. For a search, each *position* of a mailbox is a resource:
delivery k writes position k, and a poll that expects message k reads it. So a poll conflicts only with the delivery
that it just missed. All deliveries also write the mailbox as a whole, so a search tries their orders.

`taken` records which poll or get took which message, so that another run can repeat this (`World.gates`). A gate
(`dpsim.contract.gates`) fixes the outcome of a poll or get, so it is no choice of the search.

A get with a time-out waits like any other get. The rule for its time-out is in `dpsim.sim.graph.alarms`.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

from dpsim.contract.gates import Address, Gate
from dpsim.contract.interface import Frozen
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op

Envelope: TypeAlias = tuple[Frozen, Op, Address]
"""A message, the op of its delivery, and the address of the send."""


class _Box:
    def __init__(self, place: tuple[int, str]) -> None:
        self.place = place
        self.messages: deque[Envelope] = deque()
        self.taken = 0
        self.delivered = 0
        self.getters: deque[Op] = deque()
        self.alarms: dict[Op, Op] = {}  # the time-outs of waiting gets
        self.named: dict[Address, Op] = {}  # waiting gets with a gate, by the message that each takes


class Mailboxes:
    """All mailboxes of a world."""

    def __init__(self, machine: Machine, size: int) -> None:
        self._machine = machine
        self._size = size
        self._boxes: dict[tuple[int, str], _Box] = {}
        self._chains: dict[tuple[int, int, str], Op] = {}
        self.taken: dict[Address, Address] = {}
        """For each poll or get that took a message: the address of the send."""

        self._unsure: dict[tuple[int, int, str], list[tuple[Op, Op | None]]] = {}
        """The deliveries of ranks that may be killed, each with the op by which the rank reached its send."""

    def post(
        self, delivery: Op, source: Address, to: int, name: str, message: Frozen, issued: Op | None = None
    ) -> None:
        """Sends a message. Its delivery comes after earlier ones of this sender to the box. A delivery with a `life` is
        lost with its sender. `issued`: the op by which the sender reaches this call, or None. Raises ValueError for an
        unknown receiver.
        """
        sender = source[0]
        if not 0 <= to < self._size:
            raise ValueError(
                f"rank {sender} sends to the mailbox {name!r} of rank {to}; there are ranks 0 to {self._size - 1}"
            )
        box, machine = self._boxes.get((to, name)) or self._box(to, name), self._machine
        delivery.effect, delivery.args = self._deliver, (box, (message, delivery, source))
        if machine.visible:
            lives: Footprint = () if delivery.life is None else ((("life", sender), "r"),)
            whole = ("mailbox", to, name), "w"
            delivery.footprint = lambda: ((("mailbox", to, name, box.delivered), "w"), whole, *lives)
        machine.edge(self._chains.get((sender, to, name)), delivery)
        self._chains[sender, to, name] = delivery
        if sender in machine.mortal:
            self._unsure.setdefault((sender, to, name), []).append((delivery, issued))
        machine.submit(delivery)

    def announce(self, notice: Op, source: Address, name: str, message: Frozen) -> None:
        """Prepares a delivery without a sender, for a watcher that called at `source`. The caller submits it later."""
        to = source[0]
        box = self._boxes.get((to, name)) or self._box(to, name)
        notice.effect, notice.args = self._deliver, (box, (message, notice, source))
        if self._machine.visible:
            whole = ("mailbox", to, name), "w"
            notice.footprint = lambda: ((("mailbox", to, name, box.delivered), "w"), whole)

    def follow(self, notice: Op, sender: int, to: int, name: str) -> None:
        """Orders a notice after all messages of `sender` to that box that were not lost with it."""
        last = self._chains.get((sender, to, name))
        for delivery, issued in reversed(self._unsure.get((sender, to, name), ())):
            last = delivery
            if issued is None or issued.at >= 0:  # else the sender died before it reached this send
                break
            last = None
        if last is not None and last.life not in self._machine.dead:
            self._machine.edge(last, notice)

    def take(self, op: Op, at: Address, name: str, how: str, alarm: Op | None = None, gate: Gate | None = None) -> None:
        """Gives `op` the next message as its value; for a poll, None if there is none. A search tries a poll early and
        late; a get comes after its message, so it is no choice. `alarm`: the time-out of a get, with its duration as
        cost.
        """
        rank = at[0]
        box, machine = self._boxes.get((rank, name)) or self._box(rank, name), self._machine
        op.effect, op.args = self._next, (box, op, at)
        if gate is not None:
            self._take_at_gate(op, box, gate.message, alarm)
        elif how == "poll":
            if machine.visible:
                lives = op.touches()
                op.footprint = lambda: ((("mailbox", rank, name, box.taken), "r"), *lives)
        elif not box.messages:
            op.pending += 1
            box.getters.append(op)
            self._set(alarm, box, op)
        else:
            if alarm is not None:
                delivery = box.messages[0][1]
                machine.alarms.missed(alarm, alarm.cost, op.causes, delivery, op.touches(), self._whole(box))
            self._give(box, op)
        machine.submit(op)

    def _take_at_gate(self, op: Op, box: _Box, message: Address | None, alarm: Op | None) -> None:
        if message is None:
            op.effect, op.args = None, ()
            op.pending += alarm is not None
            self._set(alarm, box, op)
            return
        envelope = next((envelope for envelope in box.messages if envelope[2] == message), None)
        if envelope is None:
            op.pending += 1
            box.named[message] = op
        else:
            box.messages.remove(envelope)
            self._hand(box, op, envelope)

    def _set(self, alarm: Op | None, box: _Box, getter: Op) -> None:
        if alarm is not None:
            box.alarms[getter] = alarm
            alarm.effect, alarm.args = self._in_vain, (box, getter)
            self._machine.alarms.set(alarm, alarm.cost, getter.causes, getter.touches(), self._whole(box))

    @staticmethod
    def _whole(box: _Box) -> Footprint:
        return ((("mailbox", *box.place), "w"),)

    def taken_from(self) -> dict[tuple[int, str], int]:
        """Returns how many messages were taken from each mailbox, which is named by its rank and its name."""
        return {place: box.taken for place, box in self._boxes.items()}

    def contents(self) -> list[Any]:
        """Returns the messages that wait in each mailbox, and how many gets and time-outs wait for one."""
        return [
            (place, [one[0] for one in box.messages], len(box.getters), len(box.alarms))
            for place, box in sorted(self._boxes.items())
        ]

    def close(self) -> None:
        """Breaks reference cycles at the end of a run: waiting gets refer to themselves."""
        for box in self._boxes.values():
            for getter in (*box.getters, *box.named.values()):
                getter.effect, getter.args = None, ()
            box.alarms.clear()
        self._chains.clear()
        self._unsure.clear()

    def _box(self, rank: int, name: str) -> _Box:
        box = self._boxes[rank, name] = _Box((rank, name))
        return box

    def _deliver(self, box: _Box, envelope: Envelope) -> None:
        box.delivered += 1
        named = box.named.pop(envelope[2], None) if box.named else None
        if named is not None:
            self._hand(box, named, envelope)
            self._machine.submit(named)
            return
        box.messages.append(envelope)
        if box.getters:
            getter = box.getters.popleft()
            if box.alarms and getter in box.alarms:
                self._machine.alarms.cancel(box.alarms.pop(getter), envelope[1])
            self._give(box, getter)
            self._machine.submit(getter)

    def _in_vain(self, box: _Box, getter: Op) -> None:
        alarm = box.alarms.pop(getter)
        if getter in box.getters:
            box.getters.remove(getter)
        getter.effect, getter.args = None, ()
        self._learn(getter, alarm)
        self._machine.submit(getter)

    def _give(self, box: _Box, getter: Op) -> None:
        """Reserves the next message for this get, even if another thread calls a get before this one continues."""
        self._hand(box, getter, box.messages.popleft())

    def _hand(self, box: _Box, getter: Op, envelope: Envelope) -> None:
        message, delivery, self.taken[getter.args[2]] = envelope
        box.taken += 1
        getter.seen_marks |= delivery.seen_marks
        getter.causes |= delivery.causes
        getter.effect, getter.args = _same, (message,)

    def _next(self, box: _Box, op: Op, at: Address) -> Any:
        if not box.messages:
            return None
        message, delivery, self.taken[at] = box.messages.popleft()
        box.taken += 1
        self._learn(op, delivery)
        return message

    @staticmethod
    def _learn(op: Op, after: Op) -> None:
        op.seen_marks |= after.seen_marks
        op.causes |= after.causes


def _same(message: Frozen) -> Frozen:
    return message
