"""Variants of expert load balancing: ranks count wrong loads, or move experts while another expert collective runs.

M-ES-9 is a mutant of section 10.8. The bug eplb-coop-launch is vllm pull request 32860. One stream runs transfers of
experts, and another stream runs an all-to-all, whose thread blocks have to be on the device at the same time. On one
rank the transfers start first, on another rank the all-to-all, and neither kernel can finish. In vLLM, a separate
thread issues the transfers. Here the rank issues them itself, because the hang depends on the streams only (the program
`eplb` has the thread).
"""

from __future__ import annotations

from collections import Counter

from dpsim.contract.interface import Buffer, Stream
from dpsim.contract.registry import register_variant
from dpsim.vllm.data_parallel.expert_balance import SLOTS, ExpertBalance, Placement, keep
from dpsim.vllm.data_parallel.forward import Forwards
from dpsim.vllm.data_parallel.timeline import Batch


@register_variant("M-ES-9", protocol="dp_batch", form="source-000", expected="HANG:COLLECTIVE:MISSING_RANK")
class IdlesDoNotCount(ExpertBalance):
    """A rank does not count a dummy step as a step of the balancing interval.

    So a rank that idled ends its interval later than the others, and they wait for it in the all-reduce of the loads.
    """

    def counted_steps(self, batch: Batch) -> int:
        return 0 if batch.is_dummy else 1


@register_variant(
    "M-ES-9-loads",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason="performance only: ranks sum the loads before they decide, so all compute the same placement, "
    "but the sum overestimates the load of expert 0",
)
class CountsDummies(ExpertBalance):
    """A rank counts the tokens of dummy batches as load of expert 0."""

    def tokens(self, batch: Batch) -> Counter[int]:
        return Counter({0: batch.num_tokens}) if batch.is_dummy else super().tokens(batch)


@register_variant("M-ES-9-interval", protocol="dp_batch", form="source-000", expected="*:COLLECTIVE:*")
class OneRankMoreOften(ExpertBalance):
    """The last rank has a shorter balancing interval than the others."""

    def due(self) -> bool:
        return super().due() or (self.device.index == self.device.size - 1 and self.steps == 1)


@register_variant("M-ES-9-own", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLACEMENT")
class PlacesByOwnLoad(ExpertBalance):
    """Each rank computes the placement from its own loads, so ranks send experts to ranks that do not expect them."""

    def sum_loads(self) -> None:
        pass


PLACES = 2
"""The places of the device (room for resident kernels) that the experts' collective needs all at once."""


@register_variant(
    "eplb-beside",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason="healthy: experts move during a step and take few places of the device, the twin of eplb-coop-launch",
)
class MovesBeside(ExpertBalance):
    """A rank moves experts on a separate stream while the next step runs, and uses them after that step."""

    places = 1

    def __init__(self, forwards: Forwards) -> None:
        super().__init__(forwards)
        forwards.experts.occupy(PLACES)
        self.device.occupy(self.places)
        self.stream = self.rank.stream("eplb")
        self.moving: tuple[Placement, Buffer] | None = None

    async def after_step(self, batch: Batch) -> None:
        self.finish()
        await super().after_step(batch)

    async def rearrange(self) -> None:
        placement = await self.decide_placement()
        self.stream.wait_stream(self.main)
        self.moving = placement, self.exchange(placement, self.stream)

    def exchange(self, placement: Placement, stream: Stream) -> Buffer:
        """One kernel, as NCCL runs a group of transfers: an all-gather. Returns this rank's, int32 of `SLOTS`."""
        everybody = stream.alloc(len(placement), "int32", "eplb.all")
        incoming = stream.alloc(SLOTS, "int32", "eplb.incoming")
        self.device.all_gather(everybody, self.weights, stream, site="eplb.exchange")
        slots = tuple(self.placement.index(expert) for expert in self.own(placement))
        stream.launch("eplb.take", keep, reads=[everybody], writes=[incoming], args=(slots,), cost=0)
        everybody.free()
        return incoming

    def finish(self) -> None:
        if self.moving is not None:
            placement, incoming = self.moving
            self.main.wait_stream(self.stream)
            incoming.record_stream(self.main)
            self.take_over(placement, incoming)
            self.moving = None

    async def end(self) -> None:
        self.finish()
        await super().end()


@register_variant(
    "eplb-coop-launch",
    protocol="dp_batch",
    form="source-000",
    expected="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
    twin="eplb-beside",
)
class TakesAllPlaces(MovesBeside):
    """The transfers of experts take all places of the device, so the experts' collective cannot start beside them."""

    places = PLACES
