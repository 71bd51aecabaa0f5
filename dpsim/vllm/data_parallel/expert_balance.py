"""Expert load balancing: after each interval of steps, ranks move experts until their loads are about equal.

Each rank has two *slots*, and each slot contains one expert. At the end of an interval, the ranks sum the tokens that
they sent to each expert in an all-reduce on the group `eplb`. So all ranks have to end an interval in the same step
(specification 10.1, row 17). A dummy step counts as a step, but its tokens count for no expert, because they belong to
no request.

    step         0   1   2   3   4        interval 2, ranks 0 and 1, experts 0 to 3
    placement    0 1 | 2 3           2 0 | 3 1   ...

`placed` sorts the experts by load, and deals them to the ranks, forth and back:

    >>> placed((5, 9, 1, 7), ranks=2)  # slots 0 and 1 are of rank 0
    (1, 2, 3, 0)

Simplified: the weights of an expert are one number, and no expert has two slots. Loads count from one move to the next;
the engine counts over a window of steps (`window_size`), and its first interval may be shorter.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from dpsim.contract.interface import Buffer, Stream
from dpsim.vllm.data_parallel.forward import Forwards
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.model.arrays import of_host
from dpsim.vllm.model.rows import value

SLOTS = 2
"""The number of slots of a rank."""

Placement: TypeAlias = tuple[int, ...]
"""The expert of each slot of all ranks, rank by rank."""


class WrongExpert(AssertionError):
    """A slot contains another expert than the one that all ranks agreed on."""


class ExpertBalance:
    """The balancing of one rank. A step calls its methods in the order of this file."""

    group = "eplb"

    def __init__(self, forwards: Forwards) -> None:
        self.rank, self.config, self.main = forwards.rank, forwards.config.eplb_config, forwards.main
        self.device = self.rank.device(self.group)
        experts = SLOTS * self.device.size
        self.placement: Placement = tuple(range(experts))
        self.steps = 0
        self.loads = self.main.alloc(experts, "int32", "eplb.loads")
        self.used = self.main.alloc(SLOTS, "int32", "eplb.used")
        self.weights = self.main.alloc(SLOTS, "int32", "eplb.weights")
        self.main.launch("eplb.load", put, writes=[self.weights], args=(self.own(self.placement),), cost=0)
        self.main.launch("eplb.clear", put, writes=[self.loads], args=((0,) * experts,), cost=0)

    async def after_step(self, batch: Batch) -> None:
        """Count the experts that the forward used. At the end of an interval, move the experts."""
        self.count(batch)
        self.steps += self.counted_steps(batch)
        if self.due():
            self.steps = 0
            await self.rearrange()

    async def end(self) -> None:
        """After all steps, compare the weights with the placement. Raises WrongExpert if they differ."""
        there = tuple((await self.weights.read("eplb.end")).tolist())
        if there != self.own(self.placement):
            raise WrongExpert(f"experts {there} are here, where {self.own(self.placement)} were placed")

    # ---- the loads of a step

    def count(self, batch: Batch) -> None:
        tokens = self.tokens(batch)
        args = (tuple(tokens[expert] for expert in range(len(self.placement))),)
        self.main.launch("eplb.count", count, reads=[self.weights], writes=[self.loads, self.used], args=args, cost=0)

    def tokens(self, batch: Batch) -> Counter[int]:
        """The tokens for each expert, selected by their values; those of a dummy do not count."""
        experts, pieces = len(self.placement), () if batch.is_dummy else batch.scheduled
        return Counter(
            value(request, first + at) % experts for request, tokens, first in pieces for at in range(tokens)
        )

    def counted_steps(self, batch: Batch) -> int:
        """The number of steps by which this step advances the interval."""
        return 1

    def due(self) -> bool:
        return self.steps >= self.config.step_interval

    # ---- moving

    async def rearrange(self) -> None:
        """Compute a placement, exchange the experts and swap the weights, all before the next step."""
        placement = await self.decide_placement()
        incoming = self.exchange(placement, self.main)
        self.take_over(placement, incoming)

    async def decide_placement(self) -> Placement:
        """Sum the counts of all ranks, compute a placement from the sum, and reset the counts."""
        self.sum_loads()
        loads = tuple((await self.loads.read("eplb.read")).tolist())
        self.main.launch("eplb.clear", put, writes=[self.loads], args=((0,) * len(loads),), cost=0)
        placement = placed(loads, self.device.size)
        self.rank.decide("placement", placement, "ep")
        return placement

    def sum_loads(self) -> None:
        """Sum the loads over all ranks. The counts differ between ranks, so without the sum their placements would
        differ.
        """
        self.device.all_reduce(self.loads, self.main, site="eplb.sum")

    def exchange(self, placement: Placement, stream: Stream) -> Buffer:
        """Send the experts that other ranks get, and receive those that this rank gets, as one group of transfers on
        `stream`.

        Returns a new buffer with this rank's experts. The old weights do not change.
        """
        incoming = stream.alloc(SLOTS, "int32", "eplb.incoming")
        stream.launch("eplb.keep", keep, reads=[self.weights], writes=[incoming], args=(self.kept(placement),), cost=0)
        with self.device.coalesced(stream):
            for to in range(self.device.size):
                for expert in self.of(placement, to):
                    if to != self.device.index and expert in self.own(self.placement):
                        at = self.own(self.placement).index(expert)
                        self.device.send(self.weights.view(at, at + 1), self.device.ranks[to], stream, site="eplb.send")
            for at, expert in enumerate(self.own(placement)):
                source = self.placement.index(expert) // SLOTS
                if source != self.device.index:
                    self.device.recv(incoming.view(at, at + 1), self.device.ranks[source], stream, site="eplb.recv")
        return incoming

    def take_over(self, placement: Placement, incoming: Buffer) -> None:
        self.main.launch("eplb.swap", swap, reads=[incoming], writes=[self.weights], cost=0)
        incoming.free()
        self.placement = placement

    # ---- who has what

    def of(self, placement: Placement, index: int) -> Placement:
        """The experts of the rank `index`."""
        return placement[index * SLOTS : (index + 1) * SLOTS]

    def own(self, placement: Placement) -> Placement:
        return self.of(placement, self.device.index)

    def kept(self, placement: Placement) -> tuple[int, ...]:
        """For each slot of this rank, the slot of its new expert so far; -1 if that comes from another rank."""
        before = self.own(self.placement)
        return tuple(before.index(expert) if expert in before else -1 for expert in self.own(placement))


class ExpertBalance014(ExpertBalance):
    """Release 0.14 has no group for balancing: it uses the expert group (specification 9.4)."""

    group = "ep"


def placed(loads: tuple[int, ...], ranks: int) -> Placement:
    """Deal the experts, by load, to the ranks in turns of alternating direction. Returns the expert of each slot."""
    order = sorted(range(len(loads)), key=lambda expert: (-loads[expert], expert))
    return tuple(
        order[turn * ranks + (ranks - 1 - rank if turn % 2 else rank)] for rank in range(ranks) for turn in range(SLOTS)
    )


def put(buffer: Any, values: tuple[int, ...]) -> None:
    """Kernel: write numbers from the host into the buffer."""
    buffer[:] = of_host(buffer, values)


def count(weights: Any, loads: Any, used: Any, tokens: tuple[int, ...]) -> None:
    """Kernel: record the experts that a forward used, and add the tokens that it gave to each expert."""
    loads[:] = loads + of_host(loads, tokens)
    used[:] = weights


def keep(weights: Any, incoming: Any, slots: tuple[int, ...]) -> None:
    """Kernel: copy the experts that stay on this rank, each to its new slot."""
    for at, slot in enumerate(slots):
        incoming[at] = weights[slot] if slot >= 0 else -1


def swap(incoming: Any, weights: Any) -> None:
    """Kernel: replace the old experts with the new ones."""
    weights[:] = incoming
